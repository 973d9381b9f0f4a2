"""The report for people, to the letter."""

from __future__ import annotations

import io

import pytest
from cases import SECRET, report
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.output.report import Report, printable
from alula.output.snippet import Mark, char_width, render_line
from alula.output.text import color_wanted, render
from alula.run.finding import Finding
from alula.run.redact import Redactor
from alula.run.source import Source, Span

EXPECTED = """\
warning[ENV002 no-place] about nothing

run.sh:5:1 warning[ENV001 nowhere] about the whole job
  |
5 | swift rlhf --num_generations 8 --model "模型/千问" --hub_token hf_…(redacted) \\
  | ^^^^^^^^^^

run.sh:5:12 error[BAT001 generation-batch-not-divisible] generation_batch_size 3 must be a multiple of num_generations 8
  |
4 | CUDA_VISIBLE_DEVICES=0,1,2 \\
  |                      ----- 3 devices
5 | swift rlhf --num_generations 8 --model "模型/千问" --hub_token hf_…(redacted) \\
  |            ^^^^^^^^^^^^^^^^^^^
 --> conf/a b.yaml:1:1
  |
1 | beta: 0.1
  | ---- and here
  = gone.sh: no text
  = fix (safe): write --num_generations 3

run.sh:5:60 warning[SEC001 leaked-secret] --hub_token hf_…(redacted): use the environment
  |
5 | swift rlhf --num_generations 8 --model "模型/千问" --hub_token hf_…(redacted) \\
  |                                                                ^^^^^^^^^^^^^^
  = fix (unsafe): export it

conf/a b.yaml:1:1 info[ZZZ009 late] beta 0.1 [x](y) {}
  |
1 | beta: 0.1
  | ^^^^
  = fix (manual): remove it

1 error, 3 warnings, 1 info. 1 safe fix: alula check --fix, 1 unsafe fix: alula check --fix --unsafe-fixes
1 finding silenced by a comment.
Not known before it runs: $(date) (conf/a b.yaml:2).
Why: alula explain BAT001
"""


def test_everything() -> None:
    assert render(report()) == EXPECTED


def test_colours_change_nothing_else() -> None:
    import re

    shown = render(report(), color=True)
    assert "\033[1;31merror[BAT001 generation-batch-not-divisible]\033[0m" in shown
    assert re.sub(r"\033\[[\d;]*m", "", shown) == EXPECTED


def test_nothing_found() -> None:
    full = report()
    assert render(Report((), {}, (), full.jobs)) == "Nothing found in 1 job.\n"
    assert render(Report((), {}, (), full.jobs * 2)) == "Nothing found in 2 jobs.\n"
    assert render(Report((), {})) == "No ms-swift command found.\n"


def test_a_long_place_shows_its_first_line() -> None:
    data = b"swift rlhf \\\n  --a 1 \\\n  --b 2\n"
    finding = Finding("A1", "a", "error", "high", "wrong", "m", span=Span("x", 0, len(data) - 1))
    assert "1 | swift rlhf \\\n  | ^^^^^^^^^^^^ (to line 3)\n" in render(Report((finding,), {"x": Source("x", data)}))


def test_lines_far_apart_are_parted() -> None:
    data = b"a\n" * 12
    finding = Finding("A1", "a", "error", "high", "wrong", "m", span=Span("x", 20, 21), related=((Span("x", 0, 1), "here"),))
    assert " 1 | a\n   | - here\n   :\n11 | a\n   | ^\n" in render(Report((finding,), {"x": Source("x", data)}))


def test_a_hostile_script_cannot_act_on_the_terminal() -> None:
    data = "swift \x1b]0;x\x07 \x9b2J \u202e --x \r 1\n".encode()
    finding = Finding(
        "A1", "a", "error", "high", "wrong", "value {v}", {"v": "\x1b[2J\nrun.sh:1:1 error[X] forged"}, span=Span("\x1b[31mx", 0, 5)
    )
    shown = render(Report((finding,), {"\x1b[31mx": Source("\x1b[31mx", data)}))
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert "\nrun.sh:1:1" not in shown


def test_a_name_that_is_no_unicode() -> None:
    finding = Finding("A1", "a", "error", "high", "wrong", "m", span=Span("\udcff.sh", 0, 1))
    render(Report((finding,), {"\udcff.sh": Source("\udcff.sh", b"\xff\n")})).encode()


def shown(line: str, start: int, end: int, width: int) -> tuple[str, str]:
    """The line as shown, and the part of it that the mark underlines."""
    text, [(underline, _)] = render_line(line, [Mark(start, end, primary=True)], Redactor([]), width)
    assert sum(map(char_width, text)) <= width
    first = underline.index("^")
    column, marked = 0, ""
    for char in text:
        if first <= column < len(underline):
            marked += char if char_width(char) else ""
        column += char_width(char)
    return text, marked


LINES = st.lists(st.sampled_from(["a", "bc ", "\t", "千", "e\u0301", "😀", "\x1b", "-", "w" * 9]), min_size=1, max_size=60).map("".join)


@settings(max_examples=300, deadline=None)
@given(line=LINES, data=st.data(), width=st.integers(20, 100))
def test_the_mark_stands_under_its_text(line: str, data: st.DataObject, width: int) -> None:
    start = data.draw(st.integers(0, len(line) - 1))
    end = data.draw(st.integers(start + 1, min(len(line), start + 8)))
    while end < len(line) and char_width(line[end]) == 0:
        end += 1  # a mark does not part a letter from its accent
    if char_width(line[start]) == 0 or not line[start:end].strip():
        return
    _, marked = shown(line, start, end, width)
    visible = [char for char in line[start:end] if char_width(char)]
    if "\t" in visible:  # wide as its place makes it
        assert "".join(marked.split()) == printable("".join(visible)).replace("␉", "").replace(" ", "")
    else:
        assert marked == printable("".join(visible)).rstrip() or marked == printable("".join(visible))


def test_long_lines_are_cut_around_the_mark() -> None:
    line = "x" * 300 + " --flag 1 " + "y" * 300
    text, marked = shown(line, 301, 309, 60)
    assert marked == "--flag 1"
    assert text[0] == text[-1] == "…"
    assert len(text) == 60
    assert shown(line, 0, 2, 60)[0] == "x" * 58 + "…"
    assert shown(line, 608, 610, 60)[0] == "…" + "y" * 58
    huge = "a b " * 500_000 + "END"
    assert shown(huge, len(huge) - 3, len(huge), 60)[1] == "END"


def test_a_secret_is_hidden_also_where_the_line_is_cut() -> None:
    for start in range(0, 200, 7):
        line = "x" * start + f" --hub_token {SECRET} " + "y " * 200
        for at in (0, start, start + 20, start + 30, start + 60):
            text, _ = render_line(line, [Mark(at, at + 1)], Redactor([]), 50)
            assert not any(SECRET[n : n + 6] in text for n in range(3, len(SECRET) - 6))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "no_color", "wanted"),
    [
        (Terminal(), {}, False, True),
        (Terminal(), {}, True, False),
        (Terminal(), {"NO_COLOR": "1"}, False, False),
        (Terminal(), {"NO_COLOR": ""}, False, True),
        (Terminal(), {"TERM": "dumb"}, False, False),
        (io.StringIO(), {}, False, False),
    ],
)
def test_color_wanted(stream: io.StringIO, environ: dict[str, str], no_color: bool, wanted: bool) -> None:
    assert color_wanted(stream, environ, no_color=no_color) is wanted
