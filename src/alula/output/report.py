"""What `check` hands to the formats: findings with the texts they point into. Data in, nothing printed here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from alula.run.finding import SEVERITIES, Finding, Fix, Severity
from alula.run.record import record
from alula.run.redact import Redactor

if TYPE_CHECKING:
    from alula.rules.suppress import Suppressed
    from alula.run.job import Job
    from alula.run.source import Source, Span, Token


@dataclass(frozen=True)
class Report:
    """The result of one `check`.

    Attributes:
        findings: what is reported; `Finding.job` counts into `jobs`.
        sources: every text that was read, by name.
        unresolved: tokens whose value could not be known.
        suppressed: what a comment silences; not in `findings`.
    """

    findings: tuple[Finding, ...]
    sources: Mapping[str, Source]
    unresolved: tuple[Token, ...] = ()
    jobs: tuple[Job, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()

    @cached_property
    def redact(self) -> Redactor:
        """Hides the secrets of these sources, and any other text that looks like one."""
        return Redactor(source.data.decode("utf-8", "replace") for source in self.sources.values())

    def shown(self, text: str) -> str:
        """The text as it may leave alula: secrets hidden, and valid Unicode also where a file name or argument was not."""
        return self.redact(text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8"))

    def may_show(self, fix: Fix) -> bool:
        """False when an edit of the fix would write a secret: then only its description is shown, for a hidden one cannot be applied."""
        return all(not self.redact.find(edit.text) for edit in fix.edits)

    @cached_property
    def ordered(self) -> tuple[Finding, ...]:
        """The findings by file (in the order they were read), then by place, then by severity."""
        files = {name: number for number, name in enumerate(self.sources)}

        def key(finding: Finding) -> tuple[int, int, int, str]:
            span = self.where(finding)
            severity = SEVERITIES.index(finding.severity)
            return (
                (-1, 0, severity, finding.code) if span is None else (files.get(span.file, len(files)), span.start, severity, finding.code)
            )

        return tuple(sorted(self.findings, key=key))

    def where(self, finding: Finding) -> Span | None:
        """The place of a finding: its own, else its job's command."""
        if finding.span is not None:
            return finding.span
        if finding.job is not None and 0 <= finding.job < len(self.jobs):
            return self.jobs[finding.job].span
        return None

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def place(self, span: Span, *, utf16: bool = False) -> Place:
        """Line and column of a span; the start of the file where its text is not at hand."""
        source = self.sources.get(span.file)
        if source is None:
            return Place(span.file, 1, 1, 1, 1)
        return Place(span.file, *_position(source, span.start, utf16), *_position(source, span.end, utf16))


@record
class Place:
    """A range of a text. Lines and columns count from 1, the end column is the first one behind the range; columns are characters, or
    UTF-16 code units where asked for. A byte order mark is not a character, as in editors and SARIF."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


def _position(source: Source, offset: int, utf16: bool) -> tuple[int, int]:
    line, column = source.position(offset)
    if utf16:
        column += sum(char > "\uffff" for char in source.line(line)[: column - 1])
    if line == 1 and column > 1 and source.data.startswith(b"\xef\xbb\xbf"):
        column -= 1
    return line, column


# Characters that a terminal acts on or that reorder what is read: never printed as they are. Two Unicode ranges of control
# characters, line separators, directional marks and isolates, tags, and lone surrogates.
_UNSAFE = {
    **{code: chr(0x2400 + code) for code in range(0x20)},
    0x7F: "\u2421",
    **dict.fromkeys([*range(0x80, 0xA0), 0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF], "\ufffd"),
    **dict.fromkeys([*range(0xD800, 0xE000), *range(0xE0000, 0xE0080)], "\ufffd"),
}


def printable(text: str) -> str:
    """The text for one line of a terminal: control characters as visible pictures, one character for one."""
    return text if text.isascii() and text.isprintable() else text.translate(_UNSAFE)


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def launcher(job: Job) -> str:
    """How the job is started: `cli`, `torchrun`, …; the launches of several nodes have the same one."""
    return job.launch.launcher if job.launches else "cli"


def expressions(tokens: Iterable[Token]) -> dict[str, Token]:
    """Each expression that could not be known, with the first token it stands in."""
    found: dict[str, Token] = {}
    for token in tokens:
        for expression in token.unresolved:
            found.setdefault(expression, token)
    return found
