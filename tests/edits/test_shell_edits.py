"""Edits to shell text, judged by real bash: the arguments minus, plus or with exactly what was asked, and nothing else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from alula.run.finding import Edit
from alula.run.source import Source, Span
from alula.write.edits import NotEditable, delete_flag, insert_flag, quote_for, shell_word

FUZZ = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SIMPLE = st.from_regex(r"[a-z0-9][a-z0-9_./:=-]{0,6}", fullmatch=True)
ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def edited(data: bytes, edits: tuple[Edit, ...]) -> bytes:
    for edit in sorted(edits, key=lambda e: e.span.start, reverse=True):
        data = data[: edit.span.start] + edit.text.encode() + data[edit.span.end :]
    return data


@dataclass
class Script:
    """A script with one command: where its flags stand, and how many words each flag is with its values."""

    text: str
    flags: list[tuple[Span, list[Span]]]

    @property
    def data(self) -> bytes:
        return self.text.encode()

    @property
    def source(self) -> Source:
        return Source("run.sh", self.data, "run.sh")

    @property
    def last(self) -> Span:
        flag, values = self.flags[-1]
        return values[-1] if values else flag


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    layout = draw(st.sampled_from(["command", "array", "string", "eval", "block"]))
    separators = {
        "command": st.sampled_from([" ", "  ", "\t", " \\\n    ", " \\\n", "  \\\n\\\n  ", " \\\n\t"]),
        "block": st.sampled_from([" ", " \\\n        "]),
        "array": st.sampled_from([" ", "\n    ", "\n\n  ", "\n  # a comment\n  ", " # why\n    "]),
        "string": st.sampled_from([" ", "\n    ", " \\\n  ", "  "]),
        "eval": st.sampled_from([" ", " \\\n    "]),
    }[layout]
    words = (
        SIMPLE if layout in ("string", "eval") else st.one_of(SIMPLE, SIMPLE, SIMPLE.map(lambda w: f'"{w} x"'), ANY_TEXT.map(shell_word))
    )
    opening = {
        "command": "A=1 swift rlhf",
        "array": draw(st.sampled_from(["ARGS=(", "ARGS=( ", "ARGS=(\n    "])),
        "string": draw(st.sampled_from(['ARGS="', 'ARGS="\n'])),
        "eval": draw(st.sampled_from(["ARGS='", "ARGS=' "])),
        "block": "if true; then\n    swift rlhf",
    }[layout]
    tails = ["\n", "", " # note\n", " > out\n", ">out\n", " 2>&1 | cat\n", " && true\n", ";\n", " &\nwait\n", " \\\n\n", " \\\n> out\n"]
    closing = {
        "command": draw(st.sampled_from(tails)),
        "array": draw(st.sampled_from([")", " )", "\n)", "  # last\n)"])) + '\nswift rlhf "${ARGS[@]}"\n',
        "string": draw(st.sampled_from(["", "\n", " "])) + '"\nswift rlhf $ARGS\n',
        "eval": draw(st.sampled_from(["", "\n", " "])) + '\'\neval "swift rlhf $ARGS"\n',
        "block": draw(st.sampled_from(["\nfi\n", "; fi\n", " # note\nfi"])),
    }[layout]
    text = opening
    first = layout in ("array", "string", "eval")
    flags = []

    def add(word: str) -> Span:
        nonlocal text, first
        text += "" if first else draw(separators)
        first = False
        start = len(text.encode())
        text += word
        return Span("run.sh", start, len(text.encode()))

    for number in range(draw(st.integers(1, 5))):
        flag = add(f"--f{number}" if draw(st.booleans()) else f"--f{number}=v")
        flags.append((flag, [add(draw(words)) for _ in range(draw(st.integers(0, 3)))]))
    if closing.startswith(">") and re.search(r"\s\d+$", text):
        closing = " " + closing  # `2>out` would be no word but a file descriptor
    return Script(text + closing, flags)


@FUZZ
@given(script=scripts(), data=st.data())
def test_delete_flag_takes_exactly_its_words(bash, script: Script, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(script.flags) - 1))
    flag, values = script.flags[number]
    before = bash.calls(script.data)
    assert len(before) == 1
    at = 1 + sum(1 + len(vs) for _, vs in script.flags[:number])
    if before[0][:1] != ["rlhf"]:
        at -= 1
    new = edited(script.data, delete_flag(script.source, flag, values))
    expected = before[0][:at] + before[0][at + 1 + len(values) :]
    assert bash.calls(new) == [expected], new.decode()
    assert b"out" not in new or (bash.folder / "out").exists()
    if not re.search(rb"\\\n\s*(?:\n|\Z)", script.data):  # no backslash that joins nothing, unless there was one
        assert not re.search(rb"\\\n[ \t]*(?:\n|\Z)", new), new.decode()
    if not re.search(rb"\n[ \t]*\\\n", script.data):
        assert not re.search(rb"\n[ \t]*\\\n", new), new.decode()


@FUZZ
@given(script=scripts(), data=st.data())
def test_delete_every_flag_one_after_the_other(bash, script: Script, data: st.DataObject) -> None:
    """Two flags whose removals do not overlap can go in one pass."""
    numbers = data.draw(st.sets(st.integers(0, len(script.flags) - 1), min_size=2, max_size=3)) if len(script.flags) > 1 else set()
    edits = [edit for number in numbers for edit in delete_flag(script.source, *script.flags[number])]
    edits.sort(key=lambda e: e.span.start)
    assume(all(a.span.end <= b.span.start for a, b in pairwise(edits)))
    before = bash.calls(script.data)[0]
    kept = before[:1] if before[:1] == ["rlhf"] else []
    at = len(kept)
    for number, (_, values) in enumerate(script.flags):
        if number not in numbers:
            kept += before[at : at + 1 + len(values)]
        at += 1 + len(values)
    assert bash.calls(edited(script.data, tuple(edits))) == [kept]


@FUZZ
@given(script=scripts(), value=st.one_of(SIMPLE, st.integers(0, 99).map(str)))
def test_insert_flag_adds_exactly_its_words(bash, script: Script, value: str) -> None:
    before = bash.calls(script.data)
    new = edited(script.data, (insert_flag(script.source, script.last, f"--new {shell_word(value)}"),))
    words = sum(1 + len(values) for _, values in script.flags) + (before[0][:1] == ["rlhf"])
    assert bash.calls(new) == [[*before[0][:words], "--new", value, *before[0][words:]]], new.decode()


CASES = {
    "a middle continuation line": (
        "swift sft \\\n    --a 1 \\\n    --b 2 \\\n    --c 3\n",
        "--b",
        "2",
        "swift sft \\\n    --a 1 \\\n    --c 3\n",
    ),
    "the last continuation line": ("swift sft \\\n    --a 1 \\\n    --b 2\n", "--b", "2", "swift sft \\\n    --a 1\n"),
    "the last line, with a backslash too many": (
        "swift sft \\\n  --a 1 \\\n  --b 2 \\\n\necho\n",
        "--b",
        "2",
        "swift sft \\\n  --a 1\n\necho\n",
    ),
    "the last line before a pipe": ("swift sft \\\n  --b 2 2>&1 | tee log\n", "--b", "2", "swift sft \\\n  2>&1 | tee log\n"),
    "one of two on a line": ("swift sft \\\n  --a 1 --b 2 \\\n  --c 3\n", "--a", "1", "swift sft \\\n  --b 2 \\\n  --c 3\n"),
    "the second of two on a line": ("swift sft \\\n  --a 1 --b 2 \\\n  --c 3\n", "--b", "2", "swift sft \\\n  --a 1 \\\n  --c 3\n"),
    "a line of an array, with its comment": ("A=(\n  --a 1\n  --b 2  # why b\n  --c 3\n)\n", "--b", "2", "A=(\n  --a 1\n  --c 3\n)\n"),
    "the first in quotes": ('A="--b 2 --a 1"\n', "--b", "2", 'A="--a 1"\n'),
    "a commented companion": ("# swift rollout \\\n#     --a 1 \\\n#     --b 2\n", "--b", "2", "# swift rollout \\\n#     --a 1\n"),
    "Windows line ends": ("swift sft \\\r\n  --a 1 \\\r\n  --b 2\r\n", "--b", "2", "swift sft \\\r\n  --a 1\r\n"),
    "a digit before a redirection": ("swift sft --n 2 --b 2>log\n", "--b", None, "swift sft --n 2 2>log\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_delete_flag_layout(name: str) -> None:
    text, flag, value, expected = CASES[name]
    start = text.index(flag)
    spans = [Span("x", start, start + len(flag))]
    if value is not None:
        at = text.index(value, start)
        spans.append(Span("x", at, at + len(value)))
    assert edited(text.encode(), delete_flag(Source("x", text.encode()), spans[0], spans[1:])).decode() == expected


INSERTED = {
    "one line": ("swift sft --a 1\n", "1", "swift sft --a 1 --new 2\n"),
    "continued": ("swift sft \\\n    --a 1\n", "1", "swift sft \\\n    --a 1 \\\n    --new 2\n"),
    "continued, tab": ("swift sft \\\n\t--a 1 | tee log\n", "1", "swift sft \\\n\t--a 1 \\\n\t--new 2 | tee log\n"),
    "array": ("A=(\n  --a 1  # why\n)\n", "1", "A=(\n  --a 1  # why\n  --new 2\n)\n"),
    "commented companion": ("# swift rollout \\\n#     --a 1\n", "1", "# swift rollout \\\n#     --a 1 \\\n#     --new 2\n"),
    "before a redirection": ("swift sft --a x>log\n", "x", "swift sft --a x --new 2 >log\n"),
    "no end of line": ("swift sft --a 1", "1", "swift sft --a 1 --new 2"),
}


@pytest.mark.parametrize("name", INSERTED)
def test_insert_flag_layout(name: str) -> None:
    text, last, expected = INSERTED[name]
    at = text.index(last)
    assert edited(text.encode(), (insert_flag(Source("x", text.encode()), Span("x", at, at + 1), "--new 2"),)).decode() == expected


@FUZZ
@given(text=ANY_TEXT)
def test_shell_word_is_one_word(bash, text: str) -> None:
    assert bash.calls(f"swift {shell_word(text)}\n".encode()) == [[text]]


def test_shell_word_quotes_only_when_needed() -> None:
    assert [shell_word(w) for w in ("8", "Qwen/Qwen3-8B", "a=b,c", "", "a b", "it's", "{}", "$x", "千问", "~/x")] == [
        "8", "Qwen/Qwen3-8B", "a=b,c", "''", "'a b'", '"it\'s"', "'{}'", "'$x'", "千问", "'~/x'",
    ]  # fmt: skip
    with pytest.raises(NotEditable):
        shell_word("a\0b")


# Scripts with the value old, marked.
CONTEXTS = [
    "swift @old@\n",
    "swift --a=@old@ x\n",
    'swift @"old"@\n',
    "swift @'old'@\n",
    'swift "@old@"\n',
    "swift '@old@'\n",
    "swift $'@old@'\n",
    'X="a @old@ b"\nswift "$X"\n',
    "X='@old@'\nswift \"$X\"\n",
    'X=@old@\nswift "$X"\n',
    'swift "${X:-@old@}"\n',
    'X=${X:-@old@}; swift "$X"\n',
    'A=(x @old@ y)\nswift "${A[*]}"\n',
    'swift "$(printf %s "@old@")x"\n',
    'swift "$(cat <<EOF\n@old@\nEOF\n)x"\n',
    "swift \"$(cat <<'EOF'\n@old@\nEOF\n)x\"\n",
]


@pytest.mark.parametrize("template", CONTEXTS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(ANY_TEXT, st.text("ab '\"\\$`!{}()#*?~\n;&|<>", max_size=8)))
def test_quote_for_is_read_back_in_every_context(bash, template: str, text: str) -> None:
    head, old, tail = template.split("@", 2)
    start = len(head)
    data = (head + old + tail).encode()
    assume(not ("EOF" in template and ("\n" in text or text == "EOF")))
    assume(not ("$(" in template and (not text or text[-1] == "\n")))
    try:
        written = quote_for(data, Span("x", start, start + len(old)), text)
    except NotEditable:
        assert ":-" in template
        assert "'" in text or "(" in text
        return
    new = data[:start] + written.encode() + data[start + len(old) :]
    before = bash.calls(data)
    assert bash.calls(new) == [[word.replace("old", text) for word in before[0]]], new.decode()


def test_quote_for_keeps_the_quotes() -> None:
    def write(script: str, old: str, text: str) -> str:
        at = script.index(old)
        return quote_for(script.encode(), Span("x", at, at + len(old)), text)

    assert write('X="8"', '"8"', "16") == '"16"'
    assert write("X='8'", "'8'", "16") == "'16'"
    assert write("X=8", "8", "16") == "16"
    assert write("X=8", "8", "a b") == "'a b'"
    assert write('X="8"', '"8"', 'a"$b') == '"a\\"\\$b"'


@pytest.mark.parametrize(("script", "old", "text"), [("X=8", "8", "a\0b"), ('X="8"', "8", "a \0"), ('swift sft --a "b 8\n', "8", "a b")])
def test_quote_for_refuses_what_it_cannot_know(script: str, old: str, text: str) -> None:
    at = script.index(old)
    with pytest.raises(NotEditable):
        quote_for(script.encode(), Span("x", at, at + len(old)), text)
    if "\0" not in text:
        assert quote_for(script.encode(), Span("x", at, at + len(old)), "16") == "16"  # plain text is right in any context


def test_words_inside_a_substitution_inside_quotes_are_quoted_as_bare_ones() -> None:
    script = 'X="$(swift sft --a old)"'
    at = script.index("old")
    assert quote_for(script.encode(), Span("x", at, at + 3), "a b") == "'a b'"
