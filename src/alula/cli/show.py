"""`alula show`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from alula.rules.engine import views_of
from alula.run.job import Run
from alula.swift.effective import View

from .options import Inputs, emit, format_options, load_inputs, run_options


@click.command("show")
@run_options
@click.option("--all", "everything", is_flag=True, help="Every effective value, defaults too (text).")
@format_options("text", "json")
def command(files: tuple[str, ...], everything: bool, form: str, output: str | None, no_color: bool, **given: Any) -> int:  # noqa: ARG001  # no colours here yet
    """Say what a script will really do, without running it.

    Effective values with their origin, processes, data parallel, prompts a rollout, completions an optimizer step, on- or off-policy, and which job
    sits on which GPU. `steps_per_epoch` needs the data's length: a local file, a `#N` suffix or --dataset.
    """
    from alula.output.show import show_data, show_json, show_text

    inputs = load_inputs(files, **given)
    runs = []
    for run in inputs.runs:
        views = views_of(run, inputs.facts)
        runs.append((run, views, rows_of(inputs, run, views)))
    data = show_data(runs)
    emit(show_json(data) if form == "json" else show_text(data, everything=everything), output)
    return 0


def rows_of(inputs: Inputs, run: Run, views: Sequence[View]) -> list[int | None]:  # noqa: ARG001
    """Training rows of each job, where they can be counted without loading the data."""
    from alula.read.dataset import rows_of_values

    out: list[int | None] = []
    for view in views:
        values = (inputs.dataset,) if inputs.dataset else view.get("dataset")
        out.append(rows_of_values(values, Path(inputs.cwd)) if isinstance(values, tuple) else None)
    return out
