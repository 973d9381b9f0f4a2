"""`alula show`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from alula.rules.engine import views_of

from .options import Inputs, emit, format_options, load_inputs, run_options

if TYPE_CHECKING:
    from alula.run.job import Run
    from alula.swift.effective import View


@click.command("show")
@run_options
@click.option("--all", "everything", is_flag=True, help="Every effective value, defaults too (text).")
@format_options("text", "json")
def command(files: tuple[str, ...], everything: bool, form: str, output: str | None, **given: Any) -> int:
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


def rows_of(inputs: Inputs, run: Run, views: Sequence[View]) -> list[int | None]:
    """Training rows of each job, where they can be counted without loading the data."""
    from alula.rules.beside import data_of
    from alula.rules.context import RunCheck

    whole = RunCheck(run, inputs.facts, tuple(views), None, inputs.dataset, inputs.model, inputs.cwd)
    found = [data_of(whole.job(view)) if "dataset" in view.values else None for view in views]
    return [data.count if data is not None else None for data in found]
