"""Everything that alula builds, before the real parser and the whole `__post_init__`.

The rows come from `alula.build.matrix.rows()`: pairs of a name and the arguments of `alula build`. Each is built by the command itself
(`--format json`), its files are read back as a user's would be, and every job in them must be accepted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance import alula_side
from conformance.client import Oracle
from conformance.report import Disagreement, Report


def run(oracle: Oracle) -> Report:
    """Build every row and judge every job in it."""
    report = Report("build")
    try:
        rows = import_module("alula.build.matrix").rows()
    except ModuleNotFoundError:
        report.skip("alula builds nothing yet")
        return report
    jobs = 0
    for name, argv in rows:
        report.cases += 1
        built = build(argv)
        if isinstance(built, str):
            report.disagreements.append(Disagreement(name, "alula build", "files", built))
            continue
        with tempfile.TemporaryDirectory() as folder:
            reading = alula_side.read_files(Path(folder), built)
            if not reading.views:
                report.disagreements.append(Disagreement(name, "read back", "at least one job", f"none in {', '.join(built)}"))
            for finding in reading.findings:
                if finding.severity == "error":
                    report.disagreements.append(Disagreement(name, f"alula check {finding.code}", "no error", finding.message[:200]))
            for index in range(len(reading.views)):
                asked = alula_side.request(reading, index, built)
                if isinstance(asked, str):
                    report.skip(asked)
                    continue
                jobs += 1
                answer = oracle.ask(asked)
                if "crash" in answer or alula_side.refused(answer):
                    said = alula_side.words_of(answer)
                    report.disagreements.append(Disagreement(name, f"job {index + 1}", "accepted", said, answer.get("limits", "")))
    report.notes.append(f"{report.cases} rows, {jobs} jobs")
    return report


def build(argv: list[str]) -> dict[str, str] | str:
    """The files of one `alula build`, or what it said instead. Exit code 1 (findings) still gives files."""
    env = {**os.environ, "PYTHONPATH": alula_side.SRC}
    done = subprocess.run(
        [sys.executable, "-m", "alula", "build", *argv, "--format", "json"], capture_output=True, text=True, env=env, timeout=60
    )
    try:
        files: Any = json.loads(done.stdout)["files"]
        return {str(name): str(text) for name, text in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-200:]}"
