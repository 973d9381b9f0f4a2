"""`alula diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from alula.rules.engine import views_of

from .options import emit, format_options, load_inputs, resolve_version

if TYPE_CHECKING:
    from alula.swift.effective import View


@click.command("diff")
@click.argument("files", nargs=-1, required=True)
@click.option("--swift", "versions", multiple=True, metavar="VERSION", help="ms-swift version; given twice, one file is compared under both.")
@click.option("--args", "arguments", metavar="'A B'", help="The scripts' own arguments.")
@click.option("--gpus", metavar="8xH100", help="Accelerators on each node.")
@click.option("--nodes", type=click.IntRange(1), metavar="N", help="Number of nodes.")
@format_options("text", "json")
def command(
    files: tuple[str, ...], versions: tuple[str, ...], arguments: str | None, gpus: str | None, nodes: int | None, form: str, output: str | None,
) -> int:  # fmt: skip
    """Compare what two runs will really do, with what each change means.

    \b
      alula diff old.sh new.sh
      alula diff run.sh --swift 3.12 --swift 4.6
    """
    if not (len(files) == 2 and len(versions) <= 1) and not (len(files) == 1 and len(versions) == 2):
        raise click.UsageError("give two files, or one file and --swift twice")
    from alula.output.show import diff_data, diff_text, show_json
    from alula.swift.compare import compare

    pairs = [(files[0], versions[0] if versions else None), (files[-1], versions[-1] if versions else None)]
    sides: list[tuple[View, ...]] = []
    for name, version in pairs:
        options: dict[str, Any] = {"as_one": False, "version": resolve_version(version), "arguments": arguments, "gpus": gpus, "nodes": nodes}
        inputs = load_inputs([name], **options, model=None, dataset=None, route=None)
        sides.append(tuple(one for run in inputs.runs for one in views_of(run, inputs.facts)))
    data = diff_data(compare(*sides))
    emit(show_json(data) if form == "json" else diff_text(data), output)
    return 0


