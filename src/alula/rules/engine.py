"""Run the rules over a Run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.run.finding import SEVERITIES, Finding
from alula.run.record import record
from alula.swift.effective import View, view

from .context import JobCheck, RunCheck
from .registry import Rule, rules_for

if TYPE_CHECKING:
    from alula.facts.swift import SwiftFacts
    from alula.run.job import Run
    from alula.run.model import ModelShape


@record
class Selection:
    """Which findings are wanted: code prefixes (`BAT`, `BAT001`) or slugs; `pedantic` lets low-confidence ones through."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    pedantic: bool = False

    def wants(self, code: str, slug: str, confidence: str) -> bool:
        if any(_matches(item, code, slug) for item in self.ignore):
            return False
        if self.select:
            return any(_matches(item, code, slug) for item in self.select)
        return self.pedantic or confidence != "low"


def _matches(item: str, code: str, slug: str) -> bool:
    return code.lower().startswith(item.lower()) or item.lower() == slug


def views_of(run: Run, facts: SwiftFacts) -> tuple[View, ...]:
    return tuple(view(job, index, facts, run.cluster) for index, job in enumerate(run.jobs))


def check_run(
    run: Run,
    facts: SwiftFacts,
    selection: Selection | None = None,
    *,
    dataset_file: str | None = None,
    model: ModelShape | None = None,
    cwd: str = ".",
    views: Sequence[View] | None = None,
) -> list[Finding]:
    """All findings about a run, readers' own included, in source order, each once.

    Args:
        dataset_file: rows that stand for the run's data (`--dataset FILE`).
        model: the shape to use where `--model` names an unknown one.
        cwd: where relative paths of the run begin.
        views: the run's views under `facts`, when the caller has them.
    """
    selection = selection or Selection()
    whole = RunCheck(run, facts, tuple(views if views is not None else views_of(run, facts)), None, dataset_file, model, cwd)
    found = [finding for finding in run.findings if selection.wants(finding.code, finding.slug, finding.confidence)]
    for known in rules_for(_routes(whole)):
        if known.check is None or not known.applies_to(facts.version) or not selection.wants(known.code, known.slug, known.confidence):
            continue
        found.extend(_findings(known, whole))
    return _ordered(found)


def _routes(whole: RunCheck) -> set[str]:
    """The routes of a run, and `plugin` where a plugin file is named or given."""
    routes = {each.route for each in whole.views}
    named = any(each.use(flag) is not None for each in whole.views for flag in ("external_plugins", "custom_register_path"))
    if named or any(name.endswith(".py") for name in whole.run.sources):
        routes.add("plugin")
    return routes


def _findings(known: Rule, whole: RunCheck) -> Iterable[Finding]:
    assert known.check is not None
    whole.rule = known
    if known.scope == "run":
        yield from known.check(whole)
        return
    if known.scope == "plugin":
        from .plugins import plugin_checks

        for check in plugin_checks(whole):
            yield from known.check(check)
        return
    for each in whole.views:
        if known.routes and each.route not in known.routes:
            continue
        yield from known.check(JobCheck(each, whole, known))


def _ordered(found: Iterable[Finding]) -> list[Finding]:
    """By place, then severity. Jobs from a loop or function share spans: the same words about the same bytes are said once, for all of them."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in found:
        key = (finding.code, finding.span, finding.message)
        first = kept.get(key)
        if first is None:
            kept[key] = finding
        elif finding.job is not None and finding.job != first.job and finding.job not in first.also:
            kept[key] = replace(first, also=(*first.also, finding.job))
    order = {severity: rank for rank, severity in enumerate(SEVERITIES)}
    return sorted(kept.values(), key=lambda f: (f.span.file if f.span else "", f.span.start if f.span else 0, order[f.severity], f.code))
