"""Comments in the user's file that silence findings.

`# alula: ignore[BAT001] reason` silences on its own line and, standing alone, on the next one. Directly above a command, or behind its
last line, it silences in the whole command, since shell has no room for a comment inside a continued one. Several codes are parted by
commas, a slug or a family (`BAT`) will do, and `# alula: ignore` without brackets silences everything there. `# alula: ignore-file[CODE]`
in the first ten lines silences in the whole file. A comment that silences nothing is itself reported, as ALU001.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from alula.run.finding import Edit, Finding, Fix
from alula.run.record import record
from alula.run.source import Source, Span

from .registry import Rule, add

if TYPE_CHECKING:
    from alula.run.job import Run

_FILE_LINES = 10
_CONFIG = (".yaml", ".yml")  # one command a file: there a comment is about its own line
_COMMENT = rb"#[ \t]*alula:[ \t]*(ignore(?:-file)?)(?![\w-])[ \t]*(?:\[([^\]\n]*)\])?[ \t]*([^\n]*)"
_CODE = r"[A-Za-z][A-Za-z0-9-]*"

UNUSED = Rule(
    "ALU001", "unused-suppression", "info", "high", "waste", "run", (), None, None,
    """A comment silences a finding that is not there.

    A `# alula: ignore[…]` comment that matches nothing hides the next fault on its line. It is left over after a repair, names another code
    than the finding's, or stands in a place where it silences nothing: it must be on the finding's line, directly above that line, or
    directly above the command.

    In the log: nothing; the comment is read by alula only.

    Wrong:
    ```sh
    # alula: ignore[BAT001] tried in the spring
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen2.5-0.5B-Instruct --dataset data.jsonl
    ```

    Source: alula itself; ms-swift does not read the comment.
    """,
    None, __name__,
)  # fmt: skip
add(UNUSED)


@record
class Suppression:
    """One such comment.

    Attributes:
        codes: codes, families or slugs, in lower case; empty for all.
        reason: what follows the brackets.
        span: the comment.
        line: the line it stands on, from 1.
        alone: nothing else stands on its line.
        whole_file: it is an `ignore-file`.
    """

    codes: tuple[str, ...]
    reason: str
    span: Span
    line: int
    alone: bool
    whole_file: bool

    def names(self, finding: Finding) -> bool:
        """True when it is about findings of this code."""
        code, slug = finding.code.lower(), finding.slug.lower()
        return not self.codes or any(item in (code, slug) or (item.isalpha() and code.rstrip("0123456789") == item) for item in self.codes)


@record
class Suppressed:
    """A finding that a comment silences, with the reason given there (may be empty)."""

    finding: Finding
    reason: str = ""


def suppressions(source: Source) -> tuple[Suppression, ...]:
    """The comments of a shell script, YAML or Python file, in order. A `#` inside a quoted string on the same line is no comment."""
    if b"alula:" not in source.data:
        return ()
    found = []
    for m in re.finditer(_COMMENT, source.data):
        begin = source.data.rfind(b"\n", 0, m.start()) + 1
        before = source.data[begin : m.start()]
        if not _comment_can_start(before):
            continue
        line = source.position(m.start())[0]
        whole_file = m[1] == b"ignore-file"
        if whole_file and line > _FILE_LINES:
            continue
        codes = tuple(code.strip().lower() for code in (m[2] or b"").decode("utf-8", "replace").split(",") if code.strip())
        reason = m[3].decode("utf-8", "replace").strip(" \t\r`\\:")
        if (m[2] is not None and not all(re.fullmatch(_CODE, code) for code in codes or [""])) or reason.startswith("["):
            codes = ("",)  # `ignore[]`, `ignore[*]` and an open bracket name nothing, rather than everything
        alone = not before.strip(b" \t#`")
        found.append(Suppression(codes, reason, Span(source.name, m.start(), m.end()), line, alone, whole_file))
    return tuple(found)


def suppressed(source: Source, finding: Finding, command: Span | None = None) -> bool:
    """True when a comment in the source silences the finding. `command` is the command it is about, where there is one."""
    return any(_covers(comment, source, finding, command) for comment in suppressions(source))


def apply_suppressions(findings: Sequence[Finding], run: Run, *, unused: bool = True) -> tuple[list[Finding], tuple[Suppressed, ...]]:
    """Part a run's findings into those to report and those that comments silence.

    Args:
        unused: report comments that silence nothing. Only true where every rule was run.
    """
    comments = {name: found for name, source in run.sources.items() if (found := suppressions(source))}
    if not comments:
        return list(findings), ()
    kept: list[Finding] = []
    silenced: list[Suppressed] = []
    used: set[Span] = set()
    for finding in findings:
        command = run.jobs[finding.job].span if finding.job is not None and finding.job < len(run.jobs) else None
        place = finding.span or command
        hits = [
            comment
            for comment in comments.get(place.file if place else "", ())
            if _covers(comment, run.sources[comment.span.file], finding, command)
        ]
        used.update(comment.span for comment in hits)
        if hits:
            silenced.append(Suppressed(finding, hits[0].reason))
        else:
            kept.append(finding)
    if unused:
        kept += _unused((c for found in comments.values() for c in found if c.span not in used), run)
    return kept, tuple(silenced)


def _covers(comment: Suppression, source: Source, finding: Finding, command: Span | None) -> bool:
    place = finding.span or command
    if place is None or place.file != source.name or not comment.names(finding):
        return False
    if comment.whole_file:
        return True
    first, last = _lines(source, place)
    if first <= comment.line <= last:
        return True
    below = (comment.line + 1, _next_line(source, comment.line)) if comment.alone else ()
    if first in below:
        return True
    if command is None or command.file != source.name or source.name.endswith(_CONFIG):
        return False
    first, last = _lines(source, command)
    return first in below or comment.line == last


def _lines(source: Source, span: Span) -> tuple[int, int]:
    return source.position(span.start)[0], source.position(max(span.start, span.end - 1))[0]


def _next_line(source: Source, line: int) -> int:
    """The next line that is no comment: several comments may stand above one command."""
    line += 1
    while source.line(line).lstrip().startswith("#"):
        line += 1
    return line


def _comment_can_start(before: bytes) -> bool:
    """True when a `#` after this part of a line starts a comment: behind a blank or operator, outside quotes."""
    if before and before[-1:] not in b" \t;&|()#`":
        return False
    quote = b""
    skip = False
    for at in range(len(before)):
        char = before[at : at + 1]
        if skip:
            skip = False
        elif char == b"\\" and quote != b"'":
            skip = True
        elif quote:
            quote = b"" if char == quote else quote
        elif char in b"'\"" and not before.lstrip().startswith(b"#"):
            quote = char
    return not quote


def _unused(comments: Iterable[Suppression], run: Run) -> Iterable[Finding]:
    for comment in comments:
        source = run.sources[comment.span.file]
        what = f"[{', '.join(code.upper() if code[-1:].isdigit() else code for code in comment.codes)}]" if comment.codes else ""
        yield Finding(
            UNUSED.code, UNUSED.slug, UNUSED.severity, UNUSED.confidence, UNUSED.consequence,
            "nothing here is silenced by this comment ({what}): remove it, or name the code of the finding it is meant for",
            {"what": f"ignore{'-file' if comment.whole_file else ''}{what}"},
            span=comment.span,
            fix=Fix("remove the comment", "safe", (Edit(_removal(comment, source), ""),)),
        )  # fmt: skip


def _removal(comment: Suppression, source: Source) -> Span:
    """The whole line of a comment that stands alone, else the comment and the blanks before it."""
    start, end = comment.span.start, comment.span.end
    while start > 0 and source.data[start - 1 : start] in (b" ", b"\t"):
        start -= 1
    if source.data[end - 1 : end] == b"\r":
        end -= 1
    if comment.alone and (start == 0 or source.data[start - 1 : start] == b"\n"):
        newline = source.data.find(b"\n", end)
        return Span(source.name, start, len(source.data) if newline == -1 else newline + 1)
    return Span(source.name, start, end)
