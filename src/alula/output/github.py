"""The report as GitHub workflow commands: annotations on the changed files of a pull request.

Format: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING

from .report import Report, printable

if TYPE_CHECKING:
    from alula.run.finding import Finding

_LEVEL = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report) -> str:
    """One annotation a line; empty when there is nothing to say."""
    return "".join(_annotation(report, finding) + "\n" for finding in report.ordered)


def _annotation(report: Report, finding: Finding) -> str:
    properties: dict[str, str] = {}
    span = report.where(finding)
    if span is not None and (source := report.sources.get(span.file)) is not None and source.path is not None:
        place = report.place(span)
        properties = {"file": normpath(place.file), "line": str(place.line), "endLine": str(place.end_line)}
        if place.line == place.end_line:  # the runner drops columns of a place over several lines
            properties |= {"col": str(place.column), "endColumn": str(place.end_column)}
    properties["title"] = f"{finding.code} {finding.slug}"
    message = [finding.message]
    if finding.fix is not None:
        message.append(f"fix ({finding.fix.safety}): {finding.fix.description}")
    text = "\n".join(printable(report.shown(line)) for line in message)
    return f"::{_LEVEL[finding.severity]} {','.join(f'{key}={_property(value)}' for key, value in properties.items())}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A file name may hold control characters too; ends of lines are kept, since the runner decodes them."""
    text = "".join(char if char in "\r\n" else printable(char) for char in text)
    return _data(text).replace(":", "%3A").replace(",", "%2C")
