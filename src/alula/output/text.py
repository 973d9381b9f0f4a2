"""The report for people: each finding with its source lines, a mark under the place, and the fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from alula.run.finding import SEVERITIES, Finding

from .report import Report, expressions, plural, printable
from .snippet import Mark, render_line

if TYPE_CHECKING:
    from alula.run.source import Span

_Paint = Callable[[str, str], str]
_COLOURS = {"error": "1;31", "warning": "1;33", "info": "1;36", "bold": "1", "gutter": "34", "related": "1;34", "fix": "32"}
_SHOWN_UNRESOLVED = 3


def color_wanted(stream: TextIO, environ: Mapping[str, str], *, no_color: bool = False) -> bool:
    """True when ANSI colours may go to this stream: a terminal, and nobody said no (`--no-color`, `NO_COLOR`, `TERM=dumb`)."""
    if no_color or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def render(report: Report, *, color: bool = False, width: int = 120) -> str:
    """The report as text, ended by a newline.

    Args:
        color: use ANSI colours.
        width: columns of the terminal; source lines are cut to it, messages are not.
    """
    paint = _paint if color else _plain
    blocks = ["\n".join(_block(report, finding, paint, max(width, 40))) for finding in report.ordered]
    return "\n\n".join([*blocks, "\n".join(_footer(report, paint))]) + "\n"


def _plain(text: str, _style: str) -> str:
    return text


def _paint(text: str, style: str) -> str:
    return f"\033[{_COLOURS[style]}m{text}\033[0m" if text else text


def _headline(report: Report, finding: Finding, paint: _Paint) -> str:
    span = report.where(finding)
    where = ""
    if span is not None:
        place = report.place(span)
        where = paint(f"{printable(report.shown(span.file))}:{place.line}:{place.column}", "bold") + " "
    kind = paint(f"{finding.severity}[{finding.code} {finding.slug}]", finding.severity)
    return f"{where}{kind} {printable(report.shown(finding.message))}"


def _block(report: Report, finding: Finding, paint: _Paint, width: int) -> Iterator[str]:
    yield _headline(report, finding, paint)
    span = report.where(finding)
    marks = _marks(report, finding, span)
    gutter = max((len(str(line)) for lines in marks.values() for line in lines), default=1)
    blank = paint(" " * gutter + " |", "gutter")
    for file, lines in marks.items():
        if span is None or file != span.file:
            there = next(report.place(related) for related, _ in finding.related if related.file == file)
            yield paint(" " * gutter + "-->", "gutter") + f" {printable(report.shown(file))}:{there.line}:{there.column}"
        yield blank
        previous = None
        for line in sorted(lines):
            if previous is not None and line > previous + 1:
                yield paint(" " * gutter + " :", "gutter")
            previous = line
            shown, drawn = render_line(report.sources[file].line(line), lines[line], report.redact, width - gutter - 3)
            yield (paint(f"{line:>{gutter}} |", "gutter") + " " + shown).rstrip()
            for underline, mark in drawn:
                label = printable(report.shown(mark.label))
                yield f"{blank} " + paint(f"{underline} {label}".rstrip(), finding.severity if mark.primary else "related")
    for place, label in _elsewhere(report, finding):
        yield paint(" " * gutter + " = ", "gutter") + f"{printable(place)}: {printable(report.shown(label))}"
    if finding.fix is not None:
        fix = printable(report.shown(finding.fix.description))
        yield paint(" " * gutter + " = ", "gutter") + paint(f"fix ({finding.fix.safety}):", "fix") + f" {fix}"


def _marks(report: Report, finding: Finding, span: Span | None) -> dict[str, dict[int, list[Mark]]]:
    """What to mark: file -> line -> marks, the finding's own file first."""
    marks: dict[str, dict[int, list[Mark]]] = {}
    places = [(span, "", True)] if span is not None else []
    for place, label, primary in [*places, *((related, label, False) for related, label in finding.related)]:
        source = report.sources.get(place.file)
        if source is None:
            continue
        line, column = source.position(place.start)
        end_line, end_column = source.position(place.end)
        if end_line > line:  # only the first line of a long place; say how far it goes
            end_column = len(source.line(line)) + 1
            label = f"{label} (to line {end_line})".strip()
        marks.setdefault(place.file, {}).setdefault(line, []).append(Mark(column - 1, end_column - 1, label, primary))
    return marks


def _elsewhere(report: Report, finding: Finding) -> Iterator[tuple[str, str]]:
    """Related places whose text is not at hand."""
    for span, label in finding.related:
        if span.file not in report.sources:
            yield span.file, label


def _footer(report: Report, paint: _Paint) -> Iterator[str]:
    counts = [plural(n, s) if s != "info" else f"{n} info" for s in SEVERITIES if (n := report.count(s))]
    if counts:
        summary = ", ".join(counts) + "."
    elif report.jobs:
        summary = f"Nothing found in {plural(len(report.jobs), 'job')}."
    elif report.sources and all(name.endswith((".py", ".jsonl", ".csv", ".parquet")) for name in report.sources):
        summary = f"Nothing found in {plural(len(report.sources), 'file')}; give the script that uses them to see how they fit it."
    else:
        summary = "No ms-swift command found."
    safe, unsafe = (sum(f.fix is not None and f.fix.safety == safety for f in report.findings) for safety in ("safe", "unsafe"))
    if safe:
        summary += f" {safe} safe {'fix' if safe == 1 else 'fixes'}: alula check --fix"
    if unsafe:
        summary += f"{',' if safe else ''} {unsafe} unsafe {'fix' if unsafe == 1 else 'fixes'}: alula check --fix --unsafe-fixes"
    yield paint(summary, "bold")
    if report.suppressed:
        yield f"{plural(len(report.suppressed), 'finding')} silenced by a comment."
    unknown = expressions(report.unresolved)
    if unknown:
        shown = []
        for expression, token in list(unknown.items())[:_SHOWN_UNRESOLVED]:
            place = report.place(token.span)
            shown.append(f"{printable(report.shown(expression))} ({printable(place.file)}:{place.line})")
        more = f" and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else ""
        yield f"Not known before it runs: {', '.join(shown)}{more}."
    if counts:
        gravest = min(report.ordered, key=lambda finding: SEVERITIES.index(finding.severity))
        yield f"Why: alula explain {gravest.code}"
