"""Everything that alula builds, before the real parser and the whole `__post_init__`.

Every cell of `alula.build.matrix` goes to every target that fits it, is read back as a user's files would be, and every job in it must be
accepted by both sides. Targets mostly say the same command; the judge is asked once for each that differs.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from alula.build.compose import build, fitting
from alula.build.intent import BuildError
from alula.build.matrix import rows
from alula.build.refused import refusal
from alula.build.reread import reread

from conformance import alula_side
from conformance.client import Oracle
from conformance.report import Disagreement, Report

IMPORTED = (".py", ".json", ".jsonl")  # what a command reads; scripts and configurations are in its words already


def run(oracle: Oracle) -> Report:
    """Build every row to every target and judge every job in it."""
    report = Report("build")
    answers: dict[str, dict[str, Any]] = {}
    counts: Counter[str] = Counter()
    for name, intent in rows():
        counts["rows"] += 1
        if refusal(intent) is not None:
            report.skip("a cell that ms-swift cannot run and alula refuses to build")
            continue
        for target in fitting(intent):
            case = f"{name} to {target}"
            report.cases += 1
            with tempfile.TemporaryDirectory() as folder:
                try:
                    built = build(intent, target, alula_side.FACTS)
                    reading = alula_side.reading_of(reread(built, target, Path(folder), alula_side.VERSION), Path(folder))
                    findings = reading.findings
                except BuildError as error:
                    report.disagreements.append(Disagreement(case, "build", "files", str(error)))
                    continue
            if not reading.views:
                report.disagreements.append(Disagreement(case, "read back", "at least one job", f"none in {', '.join(built.files)}"))
            for finding in findings:
                if finding.severity == "error":
                    report.disagreements.append(Disagreement(case, f"alula check {finding.code}", "no error", finding.message[:200]))
            for index in range(len(reading.views)):
                asked = alula_side.request(reading, index, {n: t for n, t in built.files.items() if n.endswith(IMPORTED)})
                if isinstance(asked, str):
                    report.skip(f"a job, {asked}")
                    continue
                counts["jobs"] += 1
                key = json.dumps(asked, sort_keys=True)
                if key not in answers:
                    answers[key] = oracle.ask(asked)
                answer = answers[key]
                if "crash" in answer or alula_side.refused(answer):
                    said = alula_side.words_of(answer)
                    report.disagreements.append(Disagreement(case, f"job {index + 1}", "accepted", said, answer.get("limits", "")))
    report.notes.append(f"{counts['rows']} rows, {report.cases} runs built, {counts['jobs']} jobs, {len(answers)} different ones judged")
    return report
