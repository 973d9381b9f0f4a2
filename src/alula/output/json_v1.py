"""The report for programs: version 1 of the JSON contract of `alula check`.

Lines and columns count characters from 1, the end column is the first one behind the place; edits count bytes from 0. Fields are only
ever added within a version.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from alula.run.finding import SEVERITIES, Finding, Fix

from .report import Report, launcher

if TYPE_CHECKING:
    from alula.run.job import Job
    from alula.run.source import Span, Token


def render_check(report: Report) -> str:
    """The report as JSON, one finding, job and unresolved value a line, ended by a newline. ASCII, so that no terminal acts on it."""
    lists = {
        "findings": [finding_data(report, finding) for finding in report.ordered],
        "unresolved": [_unresolved(report, token) for token in report.unresolved],
        "jobs": [_job(job) for job in report.jobs],
    }
    parts = ['"version": 1']
    for name, items in lists.items():
        lines = ",".join(f"\n    {_dump(item)}" for item in items)
        parts.append(f'"{name}": [{lines}\n  ]' if lines else f'"{name}": []')
    summary: dict[str, int] = {severity: report.count(severity) for severity in SEVERITIES}
    parts.append(f'"summary": {_dump({**summary, "suppressed": len(report.suppressed)})}')
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def _dump(item: object) -> str:
    return json.dumps(item, ensure_ascii=True)


def finding_data(report: Report, finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "slug": finding.slug,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "consequence": finding.consequence,
        "message": report.shown(finding.message),
        "job": finding.job,
        "jobs": [job for job in (finding.job, *finding.also) if job is not None],
        "flags": [report.shown(flag) for flag in finding.flags],
        "location": _location(report, report.where(finding)),
        "related": [{"label": report.shown(label), "location": _location(report, span)} for span, label in finding.related],
        "fix": _fix(report, finding.fix),
    }


def _location(report: Report, span: Span | None) -> dict[str, Any] | None:
    if span is None:
        return None
    place = report.place(span)
    return {
        "file": report.shown(place.file),
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }


def _fix(report: Report, fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    usable = report.may_show(fix)
    edits = [{"file": e.span.file, "start": e.span.start, "end": e.span.end, "text": e.text} for e in fix.edits] if usable else []
    return {"safety": fix.safety if usable else "manual", "description": report.shown(fix.description), "edits": edits}


def _unresolved(report: Report, token: Token) -> dict[str, Any]:
    return {
        "text": report.shown(token.text),
        "expressions": [report.shown(expression) for expression in token.unresolved],
        "location": _location(report, token.span),
    }


def _job(job: Job) -> dict[str, Any]:
    return {"file": job.file, "route": job.route, "launcher": launcher(job)}
