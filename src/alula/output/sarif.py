"""The report as SARIF 2.1.0, for code scanning and editors.

Format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/ (the sections named below). Columns are UTF-16 code units. Every rule is
listed, not only those that fired, so that a viewer can tell "checked and clean" from "not checked".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from alula import __version__
from alula.run.redact import MARK

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix
    from alula.run.source import Span

    from .report import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVEL = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEM = {"error": "error", "warning": "warning", "info": "recommendation"}


class Rule(Protocol):
    """What SARIF needs to know of a rule; the registry's entries have it. `doc` is the page, as Markdown."""

    @property
    def code(self) -> str: ...
    @property
    def slug(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def confidence(self) -> str: ...
    @property
    def consequence(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def doc(self) -> str: ...
    @property
    def since(self) -> str | None: ...


def render(report: Report, rules: Sequence[Rule] | None = None, *, root: str | None = None) -> str:
    """The report as one SARIF log, ended by a newline.

    Args:
        rules: all rules that were run; the registry's when None.
        root: the absolute folder that relative file names are relative to; files below it get relative URIs.
    """
    if rules is None:
        from alula.rules.registry import all_rules

        rules = all_rules()
    log = _Log(report, root)
    descriptors = [_rule(rule) for rule in rules]
    index = {rule.code: number for number, rule in enumerate(rules)}
    everything = [(finding, None) for finding in report.ordered] + [(s.finding, s.reason) for s in report.suppressed]
    results = []
    for finding, reason in everything:
        if finding.code not in index:
            index[finding.code] = len(descriptors)
            descriptors.append(_unlisted(finding))
        results.append(log.result(finding, index[finding.code], reason))
    run = {
        "tool": {"driver": {"name": "alula", "version": __version__, "semanticVersion": __version__, "rules": descriptors}},
        "invocations": [{"executionSuccessful": True}],
        "artifacts": [{"location": log.artifact(name), "roles": ["analysisTarget"]} for name in report.sources],
        "results": results,
        "columnKind": "utf16CodeUnits",
        "redactionTokens": [MARK],
    }
    if root is not None:
        run["originalUriBaseIds"] = {"%SRCROOT%": {"uri": _file_uri(root.rstrip("/") + "/")}}
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    from inspect import cleandoc

    page = cleandoc(rule.doc)
    properties: dict[str, Any] = {
        "precision": rule.confidence,
        "problem.severity": _PROBLEM[rule.severity],
        "consequence": rule.consequence,
        "tags": ["ms-swift", rule.consequence],
    }
    if rule.since:
        properties["since"] = rule.since
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.slug.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": page or rule.summary, "markdown": page or rule.summary},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": properties,
    }


def _unlisted(finding: Finding) -> dict[str, Any]:
    return {"id": finding.code, "name": finding.slug, "defaultConfiguration": {"level": _LEVEL[finding.severity]}}


class _Log:
    def __init__(self, report: Report, root: str | None) -> None:
        self.report = report
        self.root = PurePosixPath(root) if root is not None else None
        self._seen: dict[str, int] = {}

    def result(self, finding: Finding, rule: int, reason: str | None) -> dict[str, Any]:
        result: dict[str, Any] = {
            "ruleId": finding.code,
            "ruleIndex": rule,
            "level": _LEVEL[finding.severity],
            "message": self.message(finding.message),
            "partialFingerprints": {"alulaFinding/v1": self.fingerprint(finding)},
            "properties": {"confidence": finding.confidence, "consequence": finding.consequence, "flags": list(finding.flags)},
        }
        span = self.report.where(finding)
        if span is not None:
            result["locations"] = [{"physicalLocation": self.place(span)}]
        if finding.related:
            result["relatedLocations"] = [
                {"id": number, "message": self.message(label or "see also"), "physicalLocation": self.place(place)}
                for number, (place, label) in enumerate(finding.related, 1)
            ]
        if finding.fix is not None and finding.fix.edits and self.report.may_show(finding.fix):
            result["fixes"] = [self.fix(finding.fix)]
        elif finding.fix is not None:
            result["properties"]["fix"] = self.report.shown(finding.fix.description)
        # An empty list says "checked: not suppressed" (3.27.23); without it a viewer knows nothing.
        result["suppressions"] = [] if reason is None else [{"kind": "inSource", "justification": self.report.shown(reason)}]
        return result

    def message(self, text: str) -> dict[str, str]:
        """Braces are doubled (3.11.5); `](` would make a link of what stands before it (3.11.6)."""
        return {"text": self.report.shown(text).replace("{", "{{").replace("}", "}}").replace("](", "] (")}

    def artifact(self, name: str) -> dict[str, str]:
        """The URI of a file: relative where it is below the root, else absolute. Names such as `<args>` are no files but need one too."""
        source = self.report.sources.get(name)
        path = PurePosixPath(name.encode("utf-8", "replace").decode("utf-8"))
        if source is None or source.path is None:
            return {"uri": quote("stdin" if name == "-" else name, safe="/", errors="replace")}
        if self.root is not None and (path.is_absolute() or ".." in path.parts):
            path = _resolved(self.root / path)
            if path.is_relative_to(self.root):
                path = path.relative_to(self.root)
        if path.is_absolute():
            return {"uri": _file_uri(str(path))}
        location = {"uri": quote(str(path), safe="/", errors="replace")}
        if self.root is not None:
            location["uriBaseId"] = "%SRCROOT%"
        return location

    def place(self, span: Span) -> dict[str, Any]:
        place: dict[str, Any] = {"artifactLocation": self.artifact(span.file)}
        if span.file in self.report.sources:
            place["region"] = self.region(span)
        return place

    def region(self, span: Span) -> dict[str, int]:
        place = self.report.place(span, utf16=True)
        return {"startLine": place.line, "startColumn": place.column, "endLine": place.end_line, "endColumn": place.end_column}

    def fix(self, fix: Fix) -> dict[str, Any]:
        changes: dict[str, list[dict[str, Any]]] = {}
        for edit in sorted(fix.edits, key=lambda e: e.span.start):
            replacement: dict[str, Any] = {"deletedRegion": self.region(edit.span)}
            if edit.text:
                replacement["insertedContent"] = {"text": self.report.shown(edit.text)}
            changes.setdefault(edit.span.file, []).append(replacement)
        return {
            "description": self.message(fix.description),
            "artifactChanges": [{"artifactLocation": self.artifact(name), "replacements": list(parts)} for name, parts in changes.items()],
            "properties": {"safety": fix.safety},
        }

    def fingerprint(self, finding: Finding) -> str:
        """Stays the same while lines move: of the code, the file, the text it points at, and which of several equal ones it is."""
        from hashlib import sha256

        span = self.report.where(finding)
        file, text = "", ""
        if span is not None:
            file = self.artifact(span.file)["uri"]
            source = self.report.sources.get(span.file)
            text = " ".join(self.report.shown(source.text(span)).split()) if source is not None else ""
        basis = "\0".join([finding.code, file, ",".join(finding.flags), text])
        self._seen[basis] = self._seen.get(basis, 0) + 1
        return sha256(f"{basis}\0{self._seen[basis]}".encode("utf-8", "replace")).hexdigest()[:32]


def _resolved(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1] if len(parts) > 1 else parts
        else:
            parts.append(part)
    return PurePosixPath(*parts)


def _file_uri(path: str) -> str:
    return "file://" + quote(path, safe="/", errors="replace")
