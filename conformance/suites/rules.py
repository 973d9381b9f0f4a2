"""Every rule's own examples before the judge.

The wrong example of an error that says `refused` must be refused, unless the page says why it cannot show on a CPU; one that says otherwise
(`wrong`, `hangs`, `waste`) must get past the arguments, and so must that of a warning. Every right example must be accepted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from alula.rules.page import page
from alula.rules.registry import Rule, all_rules

from conformance import alula_side
from conformance.client import Oracle
from conformance.report import Disagreement, Report


def run(oracle: Oracle) -> Report:
    """Judge both examples of every rule that holds for 4.6.0."""
    report = Report("rules")
    for rule in all_rules():
        if not rule.applies_to(alula_side.VERSION):
            report.skip("the rule is about another version")
            continue
        parts = page(rule)
        if not parts.wrong or not parts.right:
            report.skip("the page has no examples")
            continue
        report.cases += 2
        report.disagreements += [
            *_wrong(rule, parts.unshown, _judged(oracle, parts.wrong), report),
            *_right(rule, _judged(oracle, parts.right)),
        ]
    return report


def _judged(oracle: Oracle, files: Mapping[str, str]) -> list[tuple[alula_side.Reading, int, dict[str, Any] | str]]:
    """(reading, job, answer or why there is none) for every job of one example."""
    with tempfile.TemporaryDirectory() as folder:
        reading = alula_side.read_files(Path(folder), files)
        out: list[tuple[alula_side.Reading, int, dict[str, Any] | str]] = []
        for index in range(len(reading.views)):
            asked = alula_side.request(reading, index, files)
            out.append((reading, index, asked if isinstance(asked, str) else oracle.ask(asked)))
        return out


def _wrong(
    rule: Rule, unshown: str | None, judged: list[tuple[alula_side.Reading, int, dict[str, Any] | str]], report: Report
) -> Iterator[Disagreement]:
    case = f"{rule.code} {rule.slug} wrong"
    answers = [answer for _, _, answer in judged if not isinstance(answer, str)]
    if not answers:
        report.skip("wrong example: " + (str(judged[0][2]) if judged else "it starts no ms-swift command"))
        return
    if crash := next((a["crash"] for a in answers if "crash" in a), None):
        yield Disagreement(case, "crash", "an answer", crash[-300:])
        return
    refusals = [a for a in answers if alula_side.refused(a)]
    if rule.severity == "error" and rule.consequence == "refused":
        if not refusals:
            yield Disagreement(case, "verdict", "refused", "accepted", f"not shown on CPU: {unshown}" if unshown else "")
        elif unshown:
            yield Disagreement(case, "page", f"not shown on CPU: {unshown}", alula_side.words_of(refusals[0]))
    elif (
        rule.severity != "info"
        and rule.consequence != "refused"
        and (early := [a for a in refusals if a["stage"] in alula_side.ARGUMENT_STAGES])
    ):
        yield Disagreement(
            case,
            "consequence",
            f"{rule.severity} {rule.consequence}: gets past the arguments",
            alula_side.words_of(early[0]),
            f"the page says why: {unshown}" if unshown else "",
        )


def _right(rule: Rule, judged: list[tuple[alula_side.Reading, int, dict[str, Any] | str]]) -> Iterator[Disagreement]:
    for _, index, answer in judged:
        if isinstance(answer, str):
            continue
        if "crash" in answer or alula_side.refused(answer):
            yield Disagreement(
                f"{rule.code} {rule.slug} right", f"job {index + 1}", "accepted", alula_side.words_of(answer), answer.get("limits", "")
            )
