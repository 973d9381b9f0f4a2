"""Which fixes go together, what the bytes are then, and the diff that says so."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.run.finding import SEVERITIES, Edit, Finding, Fix, Safety, Severity
from alula.run.source import Source, Span
from alula.write.edits import apply, chosen, plan_diff


def finding(
    *edits: tuple[int, int, str], severity: Severity = "error", safety: Safety = "safe", file: str = "a.sh", code: str = "X001"
) -> Finding:
    fix = Fix("do it", safety, tuple(Edit(Span(file, start, end), text) for start, end, text in edits))
    return Finding(code, "x", severity, "high", "wrong", "message", fix=fix)


def one(data: bytes, *findings: Finding, unsafe: bool = False) -> bytes:
    return apply(findings, {"a.sh": Source("a.sh", data)}, unsafe=unsafe).get("a.sh", data)


def test_safety() -> None:
    safe, unsafe, manual = (finding((n, n + 1, "-"), safety=s) for n, s in enumerate(("safe", "unsafe", "manual")))
    assert one(b"abc", safe, unsafe, manual) == b"-bc"
    assert one(b"abc", safe, unsafe, manual, unsafe=True) == b"--c"
    assert apply([manual], {"a.sh": Source("a.sh", b"abc")}, unsafe=True) == {}


def test_all_edits_of_a_fix_or_none() -> None:
    whole = finding((0, 1, "A"), (4, 5, "E"))
    overlapping = finding((4, 6, "--"), (2, 3, "C"), severity="warning")
    assert one(b"abcdef", whole, overlapping) == b"AbcdEf"
    assert one(b"abcdef", overlapping, whole) == b"AbcdEf"  # the graver one wins in any order


def test_the_first_of_equal_severity_wins() -> None:
    assert one(b"abcdef", finding((2, 4, "2")), finding((1, 3, "1"))) == b"a1def"


def test_shared_edits_count_once() -> None:
    rename, both = finding((0, 1, "A")), finding((0, 1, "A"), (2, 3, "C"))
    assert one(b"abc", rename, both) == b"AbC"
    insert = finding((3, 3, " --x 1"))
    assert one(b"abc", insert, insert) == b"abc --x 1"
    assert len(chosen([insert, insert], {"a.sh": Source("a.sh", b"abc")})) == 2


def test_insertions_at_one_place() -> None:
    x, y, other_x = finding((3, 3, " \\\n --x 1")), finding((3, 3, " \\\n --y 1")), finding((3, 3, " \\\n --x 2"))
    assert one(b"abc", x, y, other_x) == b"abc \\\n --x 1 \\\n --y 1"


def test_an_insertion_beside_a_removal() -> None:
    assert one(b"abcdef", finding((2, 4, "")), finding((2, 2, "<")), finding((4, 4, ">"))) == b"ab<>ef"
    assert one(b"abcdef", finding((2, 4, "")), finding((3, 3, "x"), severity="info")) == b"abef"


def test_edits_in_an_unknown_file_are_left_alone() -> None:
    assert apply([finding((0, 1, "x"), file="other.sh")], {"a.sh": Source("a.sh", b"abc")}) == {}


def test_an_edit_outside_the_text_is_a_bug() -> None:
    with pytest.raises(ValueError, match="outside"):
        one(b"abc", finding((2, 9, "")))


def test_invalid_utf8_survives() -> None:
    assert one(b"\xff a \xfe", finding((2, 3, "b"))) == b"\xff b \xfe"


EDITS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 6), st.text("xyz-", max_size=3)).map(lambda t: (t[0], min(20, t[0] + t[1]), t[2])),
    min_size=1,
    max_size=3,
)


@settings(max_examples=400, deadline=None)
@given(data=st.binary(min_size=20, max_size=20), fixes=st.lists(st.tuples(EDITS, st.sampled_from(SEVERITIES)), max_size=5))
def test_every_other_byte_is_kept(data: bytes, fixes: list[tuple[list[tuple[int, int, str]], Severity]]) -> None:
    sources = {"a.sh": Source("a.sh", data)}
    findings = [finding(*edits, severity=severity) for edits, severity in fixes]
    findings = [f for f in findings if not _clash(f)]
    picked = chosen(findings, sources)
    edits = {edit for f in picked for edit in f.fix.edits}
    # The bytes outside all edits, in order, are what is left when the new texts are taken out.
    kept = bytes(byte for at, byte in enumerate(data) if not any(e.span.start <= at < e.span.end for e in edits))
    new = apply(findings, sources).get("a.sh", data)
    assert len(new) == len(kept) + sum(len(e.text) for e in edits)
    rest = iter(new)
    assert all(byte in rest for byte in kept)
    # None could have been added.
    for f in findings:
        if f not in picked:
            assert any(_overlap(a, b) for a in f.fix.edits for b in edits if a != b)


def _overlap(a: Edit, b: Edit) -> bool:
    if a.span == b.span and a.span.start == a.span.end:
        return True
    return a.span.start < b.span.end and b.span.start < a.span.end


def _clash(f: Finding) -> bool:
    edits = f.fix.edits
    return any(_overlap(a, b) for n, a in enumerate(edits) for b in edits[:n] if a != b)


@settings(max_examples=60, deadline=None)
@given(
    old=st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\xff\n", b"\x0c\n", b"c", "千\u2028\n".encode()]), max_size=8).map(b"".join),
    new=st.binary(max_size=20),
)
def test_patch_makes_the_new_file_of_the_old_one(tmp_path_factory: pytest.TempPathFactory, old: bytes, new: bytes) -> None:
    folder = tmp_path_factory.mktemp("p")
    new = old[: len(old) // 2] + new.replace(b"\0", b"") + old[len(old) // 2 :]
    (folder / "x y.sh").write_bytes(old)
    diff = plan_diff({"x y.sh": new}, {"x y.sh": Source("x y.sh", old)})
    assert (diff == "") == (old == new)
    if diff:
        (folder / "d").write_bytes(diff.encode("utf-8", "surrogateescape"))
        subprocess.run(["git", "apply", "--whitespace=nowarn", "d"], cwd=folder, check=True, capture_output=True)
        assert (folder / "x y.sh").read_bytes() == new


def test_diff_of_two_files() -> None:
    sources = {"a.sh": Source("a.sh", b"one\ntwo\n"), "./b.yaml": Source("./b.yaml", b"a: 1"), "/x": Source("/x", b"1\n")}
    assert plan_diff({"a.sh": b"one\n2\n", "./b.yaml": b"a: 2", "/x": b"2\n"}, sources) == (
        "--- a/a.sh\n+++ b/a.sh\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "--- a/b.yaml\n+++ b/b.yaml\n@@ -1 +1 @@\n-a: 1\n\\ No newline at end of file\n+a: 2\n\\ No newline at end of file\n"
        "--- /x\n+++ /x\n@@ -1 +1 @@\n-1\n+2\n"
    )


def test_diff_hides_secrets() -> None:
    old = b"a\nexport WANDB_API_KEY=abcdefgh12\n--x 1\n"
    diff = plan_diff({"x": old.replace(b"--x 1", b"--x abcdefgh12")}, {"x": Source("x", old)})
    assert diff == "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n export WANDB_API_KEY=…(redacted)\n---x 1\n+--x …(redacted)\n"


def test_a_hostile_file_name_cannot_forge_a_header() -> None:
    name = 'x\n+++ b/y"\\'
    diff = plan_diff({name: b"2\n"}, {name: Source(name, b"1\n")})
    assert diff.startswith('--- "a/x\\012+++ b/y\\042\\134"\n')
