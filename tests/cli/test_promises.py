"""What the command line promises beside its verdicts: secrets stay hidden, fixes are whole, exit codes are the same in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from alula.cli.main import main
from alula.write.files import WriteError

SECRETS = ("hf_abcdefghijklmnopqrstuvwx", "lowsecret4711", "othersecret999")
WITH_SECRETS = f"""export HF_TOKEN={SECRETS[0]}
swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset d.jsonl --hub_token {SECRETS[1]} --num_generation 8
"""
TO_FIX = b"# caf\xe9\nswift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset AI-ModelScope/x --train_type full\n# end"


def call(words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["alula", *words])
    with pytest.raises(SystemExit) as stopped:
        main(words)
    said = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("verb", "forms"), [("check", ("text", "json", "sarif", "github")), ("show", ("text", "json")), ("diff", ("text", "json")), ("doctor", ("text", "json"))]
)
def test_secrets_stay_hidden(verb: str, forms: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = tmp_path / "one.sh", tmp_path / "two.sh"
    one.write_text(WITH_SECRETS)
    two.write_text(WITH_SECRETS.replace(SECRETS[1], SECRETS[2]))
    for form in forms:
        _, out, err = call([verb, *map(str, (one, two)), "--format", form], capsys, monkeypatch)
        assert not [secret for secret in SECRETS if secret in out + err]
        if verb == "diff":
            assert "hub_token" in out


def test_exit_codes_are_the_same_in_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = tmp_path / "good.sh", tmp_path / "bad.sh"
    good.write_text("swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset AI-ModelScope/x\n")
    bad.write_text("swift sft --nosuch 1\n")
    for form in ("text", "json", "sarif", "github"):
        codes = [call(["check", str(path), "--format", form], capsys, monkeypatch)[0] for path in (good, bad, tmp_path / "none.sh")]
        assert codes == [0, 1, 2]


def test_json_of_the_contract(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.sh"
    path.write_text(WITH_SECRETS)
    asked = {
        "check": ([str(path)], {"findings", "unresolved", "jobs", "summary"}),
        "show": ([str(path)], {"jobs", "gpu_map", "unresolved"}),
        "diff": ([str(path), str(path)], {"changed"}),
        "doctor": ([str(path)], {"probes", "routes", "summary"}),
        "build": (["sft", "--model", "a/b", "--dataset", "d"], {"files", "findings", "assumptions"}),
    }
    for verb, (words, fields) in asked.items():
        data = json.loads(call([verb, *words, "--format", "json"], capsys, monkeypatch)[1])
        assert data["version"] == 1
        assert fields <= set(data), verb


def fixable(folder: Path) -> Path:
    path = folder / "run.sh"
    path.write_bytes(TO_FIX)
    return path


def test_diff_applies_with_git_and_equals_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fixable(tmp_path)
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "alula", "check", "run.sh"]
    shown = subprocess.run([*command, "--diff"], capture_output=True, check=False)
    assert shown.returncode == 1, shown.stderr
    assert path.read_bytes() == TO_FIX
    subprocess.run(["git", "init", "-q", "."], check=True)
    subprocess.run(["git", "apply", "-"], input=shown.stdout, check=True)
    patched = path.read_bytes()
    path.write_bytes(TO_FIX)
    subprocess.run([*command, "--fix"], capture_output=True, check=False)
    assert path.read_bytes() == patched == TO_FIX.replace(b"--train_type", b"--tuner_type")
    subprocess.run([*command, "--fix"], capture_output=True, check=False)
    assert path.read_bytes() == patched


def test_fix_that_cannot_be_written_keeps_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = fixable(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise WriteError("run.sh: not written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("alula.write.edits.write_atomic", full)
        code, _, err = call(["check", str(path), "--fix"], capsys, monkeypatch)
    assert (code, path.read_bytes()) == (2, TO_FIX)
    assert "not written" in err
    assert os.listdir(tmp_path) == ["run.sh"]


def test_fix_of_a_file_that_changed_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from alula.write import edits

    path = fixable(tmp_path)
    real = edits.apply

    def slow(*words: object, **named: object) -> object:
        path.write_bytes(b"echo changed\n")
        return real(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(edits, "apply", slow)
    code, _, err = call(["check", str(path), "--fix"], capsys, monkeypatch)
    assert (code, path.read_bytes()) == (2, b"echo changed\n")
    assert "run.sh" in err
