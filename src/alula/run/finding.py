"""The one type that readers, rules, estimator, doctor and diagnoser report with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from alula.run.record import record

if TYPE_CHECKING:
    from .source import Span

Severity = Literal["error", "warning", "info"]
Confidence = Literal["high", "medium", "low"]
Consequence = Literal["refused", "hangs", "wrong", "waste"]
Safety = Literal["safe", "unsafe", "manual"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")


@record
class Edit:
    """Replace the bytes of `span` by `text`. An insertion has start == end."""

    span: Span
    text: str


@record
class Fix:
    """What to change.

    Attributes:
        description: the change in one line, with concrete values; always present, also where edits are not.
        safety: `safe` keeps what the user meant and makes it work; `unsafe` may change the training; `manual` has no edits.
        edits: byte edits to the user's own files.
    """

    description: str
    safety: Safety = "manual"
    edits: tuple[Edit, ...] = ()


@record
class Finding:
    """One thing that a rule or reader says about a run.

    Attributes:
        code, slug: stable names, such as `BAT001`, `generation-batch-not-divisible`.
        params: the typed values that fill `template`; JSON-able.
        template: English message with `{name}` fields, rendered last so that it can be translated.
        job: index into `Run.jobs`, or None for a finding about the file.
        also: further jobs with the same words from the same place (a loop, a function).
        flags: canonical flag, environment variable and YAML-key names it is about.
        span: the place; None only where the input has no text.
        related: further places with a short label ("8 ranks here").
    """

    code: str
    slug: str
    severity: Severity
    confidence: Confidence
    consequence: Consequence
    template: str
    params: Mapping[str, object] = field(default_factory=dict)
    job: int | None = None
    flags: tuple[str, ...] = ()
    span: Span | None = None
    related: tuple[tuple[Span, str], ...] = ()
    fix: Fix | None = None
    also: tuple[int, ...] = ()

    @property
    def message(self) -> str:
        return self.template.format_map(dict(self.params)) if self.params else self.template
