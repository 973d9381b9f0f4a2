"""Comments that silence findings: where they reach, what they name, and what happens to those that silence nothing."""

from __future__ import annotations

import pytest

from alula.rules.suppress import apply_suppressions, suppressed, suppressions
from alula.run.finding import Finding
from alula.run.job import Job, Launch, Run
from alula.run.source import Source, Span
from alula.write.edits import apply


def finding(text: str, at: str, code: str = "BAT001", job: int | None = 0, file: str = "run.sh") -> Finding:
    start = text.encode().index(at.encode())
    slug = "generation-batch-not-divisible" if code == "BAT001" else "other-slug"
    return Finding(code, slug, "error", "high", "refused", "m", {}, job, (), Span(file, start, start + len(at.encode())))


def command(text: str, first: str = "swift", file: str = "run.sh") -> Span:
    start = text.encode().index(first.encode())
    end = start
    lines = text.encode()[start:].split(b"\n")
    for line in lines:
        end += len(line) + 1
        if not line.rstrip().endswith(b"\\"):
            break
    return Span(file, start, min(end - 1, len(text.encode())))


def is_silent(text: str, at: str, code: str = "BAT001", file: str = "run.sh") -> bool:
    return suppressed(
        Source(file, text.encode()), finding(text, at, code, file=file), command(text, file=file) if "swift" in text else None
    )


CONTINUED = "swift rlhf \\\n    --a 1 \\\n    --b 2\n"
REACH = {
    "its own line": ("swift rlhf --a 1  # alula: ignore[BAT001] why\n", "--a", True),
    "the next line": ("# alula: ignore[BAT001]\nX=8\n", "8", True),
    "not the line after that": ("# alula: ignore[BAT001]\nY=1\nX=8\n", "8", False),
    "not the line above": ("X=8\n# alula: ignore[BAT001]\n", "8", False),
    "a trailing comment says nothing of the next line": ("Y=1 # alula: ignore[BAT001]\nX=8\n", "8", False),
    "the whole command below": ("# alula: ignore[BAT001]\n" + CONTINUED, "--b", True),
    "the whole command below other comments": ("# alula: ignore[BAT001]\n# more\n" + CONTINUED, "--b", True),
    "not a command further down": ("# alula: ignore[BAT001]\n\n" + CONTINUED, "--b", False),
    "behind the command's last line": (CONTINUED[:-1] + " # alula: ignore[BAT001]\n", "--a", True),
    "inside an array": ("A=(\n  --a 1\n  # alula: ignore[BAT001]\n  --b 2\n)\n", "--b", True),
    "inside an array, another line": ("A=(\n  --a 1 # alula: ignore[BAT001]\n  --b 2\n)\n", "--b", False),
    "between the lines of a command": ("swift rlhf \\\n `# alula: ignore[BAT001]` \\\n --a 1 \\\n --b 2\n", "--a", True),
    "a commented companion": ("# alula: ignore[BAT001]\n# swift rollout \\\n#   --a 1\n", "--a", True),
    "the whole file": ("#!/bin/bash\n# alula: ignore-file[BAT001]\n" + "\n" * 40 + CONTINUED, "--b", True),
    "the whole file, too far down": ("\n" * 10 + "# alula: ignore-file[BAT001]\n\n" + CONTINUED, "--b", False),
    "in a string": ("echo ' # alula: ignore[BAT001]'; swift --a 1\n", "--a", False),
    "in a word": ("swift --a 1 x#alula: ignore[BAT001]\n", "--a", False),
    "behind a string with a quote in it": ('swift --a "it\'s" # alula: ignore[BAT001]\n', "--a", True),
    "Windows line ends": ("# alula: ignore[BAT001] why\r\nswift --a 1\r\n", "--a", True),
}


@pytest.mark.parametrize("name", REACH)
def test_reach(name: str) -> None:
    text, at, silent = REACH[name]
    assert is_silent(text, at) is silent


def test_yaml_comments_are_about_their_line() -> None:
    text = "model: x\nbeta: 1\nlr: 2  # alula: ignore[BAT001]\n"
    whole = Span("c.yaml", 0, len(text))
    assert [suppressed(Source("c.yaml", text.encode()), finding(text, at, file="c.yaml"), whole) for at in ("beta", "lr")] == [False, True]
    above = "# alula: ignore[BAT001]\nmodel: x\nbeta: 1\n"
    assert [is_silent(above, at, file="c.yaml") for at in ("model", "beta")] == [True, False]
    assert is_silent("# alula: ignore-file[BAT001]\n" + text, "beta", file="c.yaml")


def test_python_comments() -> None:
    assert is_silent("def f():\n    return 1  # alula: ignore[BAT001]\n", "return", file="p.py")


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("ignore[BAT001]", True),
        ("ignore[bat001]", True),
        ("ignore[BAT]", True),
        ("ignore[BA]", False),
        ("ignore[BAT00]", False),
        ("ignore[BAT002]", False),
        ("ignore[ENV001, BAT001]", True),
        ("ignore[generation-batch-not-divisible]", True),
        ("ignore[generation-batch]", False),
        ("ignore", True),
        ("ignore everything here", True),
        ("ignore[]", False),
        ("ignore[*]", False),
        ("ignore[BAT001", False),
        ("ignored[BAT001]", False),
        ("ignore-files[BAT001]", False),
    ],
)
def test_names(comment: str, silent: bool) -> None:
    assert is_silent(f"X=8 # alula: {comment}\n", "8") is silent


def test_reason() -> None:
    texts = ("# alula: ignore[BAT001] tried: it works  ", "#alula:ignore[BAT001]: tried", "`# alula: ignore[BAT001] tried` \\")
    assert [suppressions(Source("x", text.encode()))[0].reason for text in texts] == ["tried: it works", "tried", "tried"]


def run_of(text: str) -> Run:
    job = Job("run.sh", "swift rlhf", (), {}, (Launch("cli"),), command(text))
    return Run((job,), {"run.sh": Source("run.sh", text.encode(), "run.sh")})


def test_apply() -> None:
    text = "# alula: ignore[BAT001] known\n" + CONTINUED
    batch, other = finding(text, "--b"), finding(text, "--a", "ENV001")
    kept, silenced = apply_suppressions([batch, other], run_of(text))
    assert kept == [other]
    assert [(s.finding, s.reason) for s in silenced] == [(batch, "known")]


def test_a_finding_about_the_job_is_silenced_above_its_command() -> None:
    text = "# alula: ignore[BAT001]\n" + CONTINUED
    about_the_job = Finding("BAT001", "x", "error", "high", "refused", "m", {}, 0)
    assert apply_suppressions([about_the_job], run_of(text))[0] == []
    nowhere = Finding("BAT001", "x", "error", "high", "refused", "m")
    assert nowhere in apply_suppressions([nowhere], run_of(text))[0]


def test_unused_comments_are_reported_and_can_be_removed() -> None:
    text = "# alula: ignore-file[ENV]\nX=8  # alula: ignore[BAT001] old\n  # alula: ignore\nY=1\n" + CONTINUED
    run = run_of(text)
    kept, silenced = apply_suppressions([], run)
    assert silenced == ()
    assert [(f.code, f.severity, f.span.start) for f in kept] == [
        ("ALU001", "info", text.index(s)) for s in ("# alula: ignore-f", "# alula: ignore[", "# alula: ignore\n")
    ]
    assert "ignore[BAT001]" in kept[1].message
    assert apply(kept, run.sources)["run.sh"].decode() == "X=8\nY=1\n" + CONTINUED
    assert "ignore[]" in apply_suppressions([], run_of("X=1 # alula: ignore[]\n" + CONTINUED))[0][0].message
    assert apply_suppressions([], run, unused=False) == ([], ())


def test_one_comment_may_silence_several() -> None:
    text = "# alula: ignore[BAT001]\n" + CONTINUED
    findings = [finding(text, "--a"), finding(text, "--b")]
    kept, silenced = apply_suppressions(findings, run_of(text))
    assert (kept, len(silenced)) == ([], 2)


def test_nothing_is_done_without_comments() -> None:
    batch = finding(CONTINUED, "--a")
    assert apply_suppressions([batch], run_of(CONTINUED)) == ([batch], ())


@pytest.mark.parametrize(
    "data", [b"\xff # alula: ignore[BAT001]\xfe\n", b"# alula: ignore[\xff]\n", b"#alula:ignore[" * 1000, b"# alula: ignore[BAT001]"]
)
def test_no_bytes_break_it(data: bytes) -> None:
    suppressions(Source("x", data))
    assert not suppressed(Source("x", data), Finding("ENV001", "x", "error", "high", "wrong", "m", span=Span("x", 0, len(data))))
