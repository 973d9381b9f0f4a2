"""Source lines with their places marked: what a compiler prints under a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alula.run.record import record

from .report import printable

if TYPE_CHECKING:
    from alula.run.redact import Redactor

TAB = 4
ELLIPSIS = "…"


@record
class Mark:
    """A range of one line, in characters from 0, and what to say about it. `primary` is drawn `^^^`, the others `---`."""

    start: int
    end: int
    label: str = ""
    primary: bool = False


def render_line(line: str, marks: Sequence[Mark], redact: Redactor, width: int) -> tuple[str, list[tuple[str, Mark]]]:
    """The line as it is shown in `width` columns, and for each mark the blanks that stand before it with what underlines it.

    Secrets are hidden, control characters shown as pictures, tabs widened, wide characters counted as two columns. A line that
    does not fit is cut to the part around the first mark.
    """
    first = min((mark.start for mark in marks), default=0)
    # Nobody sees what is further away than this, and a line can be a whole file. Secrets are looked for in all of it.
    begin = max(0, first - 2 * width)
    stop = first + 4 * width
    hidden = {}
    for secret in redact.find(line):
        hidden[max(secret.start, begin)] = secret.shown
        hidden.update(dict.fromkeys(range(max(secret.start, begin) + 1, min(secret.end, stop)), ""))
    cells, widths = [], []
    column = 0
    for at in range(begin, min(len(line), stop)):
        char = line[at]
        if at in hidden:
            cell = hidden[at]
            cell_width = len(cell)
        elif char == "\ufeff":  # a byte order mark is no text
            cell, cell_width = "", 0
        elif char == "\t":
            cell = " " * (TAB - column % TAB)
            cell_width = len(cell)
        else:
            cell = printable(char)
            cell_width = char_width(cell)
        cells.append(cell)
        widths.append(cell_width)
        column += cell_width
    low, high = _window(widths, first - begin, marks[0].end - begin if marks else 0, width)
    left = ELLIPSIS if begin + low > 0 else ""
    right = ELLIPSIS if begin + high < len(line) else ""
    shown = left + "".join(cells[low:high]) + right
    drawn = []
    for mark in marks:
        start = min(max(mark.start - begin, low), high)
        end = min(max(mark.end - begin, start), high)
        before = len(left) + sum(widths[low:start])
        drawn.append((" " * before + ("^" if mark.primary else "-") * max(1, sum(widths[start:end])), mark))
    return shown.rstrip(), drawn


def _window(widths: Sequence[int], start: int, end: int, width: int) -> tuple[int, int]:
    """Which cells to show so that they fit: all, else as many as fit with the mark whole and up to a third of the room before it."""
    if sum(widths) <= width:
        return 0, len(widths)
    room = max(width - 2 * len(ELLIPSIS), 8)
    low = high = min(max(start, 0), len(widths))
    before = max(min(room // 3, room - sum(widths[low:end])), room - sum(widths[low:]), 0)
    while low > 0 and widths[low - 1] <= before:
        low -= 1
        before -= widths[low]
    room -= sum(widths[low:high])
    while high < len(widths) and widths[high] <= room:
        room -= widths[high]
        high += 1
    return low, high


def char_width(char: str) -> int:
    """Columns that a terminal gives to a character: 0 for combining ones, 2 for wide East Asian ones and emoji, else 1."""
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
