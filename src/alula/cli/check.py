"""`alula check`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from alula.output.report import Report
from alula.rules.engine import Selection, check_run
from alula.run.finding import SEVERITIES, Finding

from .options import Inputs, emit, format_options, load_inputs, run_options, wants_color

if TYPE_CHECKING:
    from alula.run.job import Job
    from alula.run.source import Source, Token


def _codes(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(code for value in values for code in value.replace(",", " ").split())


@click.command("check")
@run_options
@click.option("--fix", is_flag=True, help="Apply safe fixes to the files.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: also fixes that may change the training.")
@click.option("--diff", "as_diff", is_flag=True, help="Show what --fix would change; change nothing.")
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes or their beginnings (BAT,FLG001).")
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these.")
@click.option("--fail-on", type=click.Choice(SEVERITIES), default="warning", show_default=True, help="Least severity that gives exit code 1.")
@click.option("--pedantic", is_flag=True, help="Also speculative findings.")
@click.option("-q", "--quiet", is_flag=True, help="Errors only.")
@format_options("text", "json", "sarif", "github", colored=True)
def command(
    files: tuple[str, ...], fix: bool, unsafe_fixes: bool, as_diff: bool, select: tuple[str, ...], ignore: tuple[str, ...], fail_on: str, pedantic: bool,
    quiet: bool, form: str, output: str | None, no_color: bool, **given: Any,
) -> int:  # fmt: skip
    """Find what ms-swift would refuse, hang on, or train otherwise than asked.

    FILES are shell scripts, YAML/JSON configs, plugin files or data rows; `-` is stdin. A bare command goes after `--`:

    \b
      alula check run.sh
      alula check --together rollout.sh train.sh
      alula check -- swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B …

    The files are read, never run. Exit code 1: a finding at or above --fail-on.
    """
    inputs = load_inputs(files, **given)
    selection = Selection(_codes(select), _codes(ignore), pedantic)
    report = _report(inputs, selection, "error" if quiet else None)
    if as_diff or fix:
        changed = _fix(report, as_diff, unsafe_fixes, output)
        if as_diff:
            return 1 if changed else 0
        if changed:
            report = _report(load_inputs(files, **given), selection, "error" if quiet else None)
    emit(_render(report, form, wants_color(no_color, output)), output)
    worst = SEVERITIES.index(fail_on)
    return 1 if any(SEVERITIES.index(finding.severity) <= worst for finding in report.findings) else 0


def _report(inputs: Inputs, selection: Selection, least: str | None) -> Report:
    from alula.rules.suppress import Suppressed, apply_suppressions

    findings: list[Finding] = []
    sources: dict[str, Source] = {}
    unresolved: list[Token] = []
    jobs: list[Job] = []
    silenced: list[Suppressed] = []
    for run in inputs.runs:
        found = check_run(run, inputs.facts, selection, dataset_file=inputs.dataset, model=inputs.model, cwd=inputs.cwd)
        found, hushed = apply_suppressions(found, run, unused=not (selection.select or selection.ignore))
        shift = len(jobs)
        findings.extend(_shifted(found, shift))
        silenced.extend(replace(one, finding=_shifted([one.finding], shift)[0]) for one in hushed)
        sources.update(run.sources)
        unresolved.extend(run.unresolved)
        jobs.extend(run.jobs)
    if least is not None:
        findings = [finding for finding in findings if finding.severity == least]
    return Report(findings=tuple(findings), sources=sources, unresolved=tuple(unresolved), jobs=tuple(jobs), suppressed=tuple(silenced))


def _shifted(found: Sequence[Finding], shift: int) -> list[Finding]:
    return [replace(f, job=f.job + shift, also=tuple(job + shift for job in f.also)) if f.job is not None and shift else f for f in found]


def _render(report: Report, form: str, color: bool) -> str:
    if form == "json":
        from alula.output.json_v1 import render_check

        return render_check(report)
    if form == "sarif":
        from alula.output.sarif import render as render_sarif

        return render_sarif(report, root=os.getcwd())
    if form == "github":
        from alula.output.github import render as render_github

        return render_github(report)
    from alula.output.text import render as render_text

    return render_text(report, color=color, width=_width())


def _width() -> int:
    """Columns of the terminal; 120 where stdout is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):
        return 120


def _fix(report: Report, as_diff: bool, unsafe: bool, output: str | None) -> bool:
    """Apply or show the fixes. Returns whether anything changes."""
    from alula.write.edits import WriteError, apply, plan_diff, write_atomic

    new = apply(report.findings, report.sources, unsafe=unsafe)
    new = {name: data for name, data in new.items() if report.sources[name].path is not None and data != report.sources[name].data}
    if as_diff:
        emit(plan_diff(new, report.sources), output)
        return bool(new)
    for name, data in new.items():
        source = report.sources[name]
        try:
            write_atomic(source.path or name, data, expected=source.data)
        except WriteError as error:
            raise click.ClickException(str(error)) from None
        click.echo(f"fixed {name}", err=True)
    return bool(new)
