"""`alula doctor`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from alula.doctor.judge import Probe, judge, routes, summary
from alula.doctor.needs import CORE, needs
from alula.facts import swift as facts
from alula.facts.backends import backends
from alula.read.run import ReadOptions, read_command
from alula.rules.engine import views_of

from .options import emit, format_options, load_inputs, resolve_version, run_options

_BAD = ("missing", "old", "conflict", "broken")


@click.command("doctor")
@run_options
@click.option("--for", "for_route", metavar="ROUTE", help="What any run of this route needs, such as 'swift rollout' or 'megatron rlhf'.")
@click.option("--python", metavar="PATH", help="Look into this interpreter's environment instead of alula's own.")
@format_options("text", "json")
def command(files: tuple[str, ...], for_route: str | None, python: str | None, form: str, output: str | None, **given: Any) -> int:
    """See which optional backends are here, in which version, and which of them RUN needs.

    Only package metadata is read: nothing is imported and no GPU is touched. A backend that is missing but not needed is said to be so; it is
    no fault. Exit code 1: something the run needs is missing, too old or in conflict.
    """
    if files:
        inputs = load_inputs(files, **given)
        known = inputs.facts
        asked: Mapping[str, str] = {}
        for run in inputs.runs:
            for view in views_of(run, known):
                asked = {**needs(view), **asked}
    else:
        known = facts.load(resolve_version(given["version"]))
        asked = _for_route(for_route, known)
    found = _gather(python)
    probes = judge(found, asked, known)
    data = {
        "version": 1, "python": found["python"], "swift": known.version, "probes": [asdict(probe) for probe in probes],
        "routes": routes(found, known), "summary": summary(probes),
    }  # fmt: skip
    emit(json.dumps(data, ensure_ascii=False, indent=1) if form == "json" else _text(data, probes), output)
    return 1 if any(probe.status in _BAD for probe in probes if probe.name != "cuda") else 0


def _for_route(route: str | None, known: facts.SwiftFacts) -> Mapping[str, str]:
    if route is None:
        return dict.fromkeys(CORE, "every run")
    if route not in known.routes:
        raise click.UsageError(f"--for {route!r}: ms-swift {known.version} has {', '.join(known.routes)}")
    run = read_command(route.split(), ReadOptions(environ={}, version=known.version))
    return needs(views_of(run, known)[0])


def _gather(python: str | None) -> Mapping[str, Any]:
    distributions = [name for backend in backends() for name in backend.distributions]
    modules = [backend.module for backend in backends()]
    if python is None:
        from alula.doctor.gather import gather

        found: Mapping[str, Any] = gather(distributions, modules)
        return found
    script = Path(__file__).parents[1] / "doctor" / "gather.py"
    request = json.dumps({"distributions": distributions, "modules": modules})
    try:
        done = subprocess.run([python, "-I", str(script)], input=request, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise click.UsageError(f"--python {python}: cannot be run: {error}") from None
    try:
        answer: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["no answer"]
        raise click.UsageError(f"--python {python}: {last[0]}") from None
    return answer


def _text(data: Mapping[str, Any], probes: Sequence[Probe]) -> str:
    lines = [f"Python {data['python']}, judged by ms-swift {data['swift']}", ""]
    for probe in probes:
        if probe.status == "not-needed":
            continue
        needed = f"needed by {probe.needed_by}" if probe.needed_by else ""
        lines.append(f"  {probe.status:<9} {probe.name:<24} {probe.version or '-':<14} {needed}".rstrip())
        if probe.detail:
            lines.append(f"            {probe.detail}")
        if probe.fix:
            lines.append(f"            fix: {probe.fix}")
    idle = [probe.name for probe in probes if probe.status == "not-needed"]
    if idle:
        lines += ["", f"Not installed and not needed here: {', '.join(idle)}"]
    ready = [route["command"] for route in data["routes"] if route["available"]]
    lines += ["", "Commands that can start: " + (", ".join(ready) if ready else "none (ms-swift is not in this environment; see --python)")]
    bad = sum(data["summary"][kind] for kind in _BAD)
    lines.append(f"{data['summary']['ok']} ok, {bad} to mend, {data['summary']['not-needed']} not needed")
    return "\n".join(lines)
