"""No input ends in a traceback, in exit code 3, or in a wait: what cannot be read ends in exit code 2 and one line that says where."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alula.cli.main import main

VERBS = ("check", "show", "diff", "doctor")
ENDINGS = (".sh", ".yaml", ".json", ".py", ".jsonl", ".csv", ".parquet", "")


class Ended:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


def end(words: Sequence[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ended:
    monkeypatch.setattr(sys, "argv", ["alula", *words])
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    said = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    assert "Traceback" not in said.err
    assert stopped.value.code in (0, 1, 2), said.err
    assert not any(char in said.out + said.err for char in "\x1b\x07\x9b")
    return Ended(stopped.value.code, said.out, said.err)


def of(verb: str, name: str) -> list[str]:
    return [verb, name, name] if verb == "diff" else [verb, name]


def run(words: Sequence[str], **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "alula", *words], timeout=20, check=False, **options)  # type: ignore[call-overload,no-any-return]


NESTED = {
    "deep.yaml": b"[" * 100_000, "block.yaml": b"".join(b" " * n + b"a:\n" for n in range(300)), "deep.json": b'{"a":' * 20_000,
    "rows.json": b"[" * 50_000 + b"]" * 50_000, "deep.jsonl": b'{"a":' * 50_000 + b"1" + b"}" * 50_000, "deep.sh": b"swift rlhf --model " + b"$(" * 9000,
    "brackets.sh": b"(" * 9000 + b"swift sft" + b")" * 9000, "if.sh": b"if true; then\n" * 3000 + b"swift sft\n" + b"fi\n" * 3000,
    "param.sh": b"swift sft --model " + b"${a:-" * 9000 + b"}" * 9000, "deep.py": b"x=" + b"(" * 5000 + b")" * 5000, "minus.py": b"x=" + b"-" * 100_000 + b"1",
    "dots.py": b"x=a" + b".b" * 50_000, "digits.jsonl": b'{"a": ' + b"9" * 10_000 + b"}\n", "digits.yaml": b"a: " + b"9" * 10_000,
    "devices.sh": b"NPROC_PER_NODE=99999999999999999999 swift rlhf --rlhf_type grpo --num_generations 0 --gradient_accumulation_steps 1e999 --model x\n",
    "hostile.sh": b"swift rlhf --rlhf_type \x1b[31mgrpo\x07 --model \xc2\x9b31m --nosuch \x1b]0;x\x07\n", "zero.sh": b"\0" * 100 + b"\nswift sft\0 --x",
    "coding.py": b"# coding: nosuch\nx=1\n", "wide.sh": "swift sft --model x".encode("utf-16"), "wide.py": "x = 1".encode("utf-16"),
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_hostile_files_end(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(NESTED[name])
    for verb in ("check", "show"):
        end([verb, str(path)], capsys, monkeypatch)


UNREADABLE = {
    "cut.yaml": (b'a: [1, 2\nb: "x', ":2:2: not valid YAML"),
    "zero.yaml": (b"model: x\na: \0\n", ":2:4: not valid YAML: the character #x0000"),
    "bomb.yaml": (b"a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + b"".join(b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 12)), "aliases"),
    "list.yaml": (b"- a\n", ":1:1: the config must be a mapping"),
    "empty.yaml": (b"", "the config is empty"),
    "tag.yaml": (b'a: !!python/object/apply:os.system ["true"]\n', ""),
    "self.yaml": (b"a: &a\n  b: *a\n", "alias *a"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", UNREADABLE)
def test_unreadable_config(verb: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(UNREADABLE[name][0])
    ended = end(of(verb, str(path)), capsys, monkeypatch)
    assert ended.code == 2
    assert ended.err.startswith(f"alula: {path}")
    assert ended.err.count("\n") == 1
    assert UNREADABLE[name][1] in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("ending", [".sh", ".yaml", ".py", ".jsonl"])
def test_what_is_no_file(verb: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / f"pipe{ending}")
    os.symlink(f"loop{ending}", tmp_path / f"loop{ending}")
    (tmp_path / f"dir{ending}").mkdir()
    for name, says in {"pipe": "nobody writes to", "loop": "symbolic links", "dir": "is a directory", "none": "No such file"}.items():
        ended = end(of(verb, str(tmp_path / f"{name}{ending}")), capsys, monkeypatch)
        assert ended.code == 2
        assert says in ended.err
        assert ended.err.count("\n") == 1


def test_large_and_endless(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    large = tmp_path / "large.sh"
    with large.open("wb") as file:
        file.truncate(50_000_000)
    for name in (str(large), "/dev/zero"):
        ended = end(["check", name], capsys, monkeypatch)
        assert ended.code == 2
        assert "5,000,000" in ended.err


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.sh"
    path.write_text("swift sft\n")
    path.chmod(0)
    assert end(["check", str(path)], capsys, monkeypatch).code == 2


def test_odd_names(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (b"new\nline.sh", b"esc\x1b[31m.sh", b"\xff\xfe.sh"):
        path = os.fsdecode(os.path.join(os.fsencode(tmp_path), name))
        Path(path).write_bytes(b"swift rlhf --nosuch 1\n")
        for form in ("text", "json", "sarif", "github"):
            assert end(["check", path, "--format", form], capsys, monkeypatch).code == 1


def test_a_sweep_is_judged_by_its_first_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "sweep.sh"
    path.write_text("for i in {1..999}; do swift sft --nosuch $i; done\n")
    ended = end(["check", str(path)], capsys, monkeypatch)
    assert ended.code == 1
    assert "the starts behind the first 200" in ended.out


@pytest.mark.parametrize("verb", ["check", "show", "doctor"])
@pytest.mark.parametrize(
    "words",
    [("--args", "'x"), ("--gpus", "x"), ("--gpus", "0xH100"), ("--gpus", "9" * 30 + "xH100"), ("--swift", "x"), ("--swift", "9.9"), ("--nodes", "0"),
     ("--route", "no"), ("--model", "nosuch"), ("--dataset", "nosuch"), ("--format", "none"), ("--nosuch",)],
)  # fmt: skip
def test_bad_options(verb: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.sh"
    path.write_text("swift sft --model x\n")
    ended = end([verb, str(path), *words], capsys, monkeypatch)
    assert ended.code == 2
    assert words[0].lstrip("-") in ended.err or words[-1] in ended.err


@pytest.mark.parametrize("words", [(), ("--",), ("--", "ls"), ("--", "swift"), ("--", "A=1"), ("--", "env"), ("",)])
def test_no_command(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("check", "show"):
        assert end([verb, *words], capsys, monkeypatch).code == 2


@pytest.mark.parametrize(
    "words",
    [("explain", "NOPE"), ("explain",), ("explain", "--flag", "\x00no"), ("build", "nosuch"), ("build", "rlhf"), ("build", "rlhf", "--rlhf-type", "no"),
     ("build", "sft", "--set", "x"), ("build", "sft", "--set", "nosuch=1"), ("build", "sft", "--gpus", "0"), ("diff", "a"), ("nosuch",),
     ("doctor", "--python", "/nonexistent"), ("doctor", "--for", "no")],
)  # fmt: skip
def test_other_verbs(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    ended = end(words, capsys, monkeypatch)
    assert ended.code == 2
    assert ended.out == ""


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=400) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")), ending=st.sampled_from(ENDINGS))
def test_random_bytes(data: bytes, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"random{ending}"
    path.write_bytes(data)
    for verb in ("check", "show"):
        ended = end([verb, str(path)], capsys, monkeypatch)
        assert (ended.code == 2) == bool(ended.err.startswith("alula: ")), ended.err


def test_closed_and_full_streams(tmp_path: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text("swift sft --nosuch 1\n")
    with open("/dev/full", "wb") as full:
        done = run(["check", str(path)], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, b"No space left" in done.stderr) == (2, True)
    for closing, says in (("<&-", b"stdin is closed"), (">&-", b"stdout is closed")):
        name = "-" if closing == "<&-" else str(path)
        shell = subprocess.run(["sh", "-c", f'"$0" -m alula check "$1" {closing}', sys.executable, name], capture_output=True, timeout=20, check=False)
        assert (shell.returncode, says in shell.stderr) == (2, True), shell.stderr
    reader, writer = os.pipe()
    os.close(reader)
    gone = run(["check", str(path)], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert b"Traceback" not in gone.stderr
    assert gone.returncode in (0, 1)


def test_a_pipe_with_a_writer_is_read() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$0" -m alula check <(echo swift sft --nosuch 1)', sys.executable], capture_output=True, timeout=20, check=False
    )  # fmt: skip
    assert done.returncode == 1
    assert b"FLG001" in done.stdout
