"""Options that several verbs share, and the way from them to Runs."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from alula.facts import swift as facts
from alula.read.errors import ReadError
from alula.read.run import CONFIG_SUFFIXES, MAX_BYTES, ReadOptions, load_source, read_command, read_source, together
from alula.run.job import Cluster, Run

if TYPE_CHECKING:
    from alula.run.model import ModelShape

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Inputs:
    """What a verb works on.

    Attributes:
        runs: one a file, or one for all with `--together`.
        facts: the ms-swift version to judge by.
        model: the shape given with `--model`, for models that are not known.
    """

    runs: tuple[Run, ...]
    facts: facts.SwiftFacts
    model: ModelShape | None
    dataset: str | None
    cwd: str


def run_options(command: F) -> F:
    """`FILES… [-- COMMAND]` and what is said about them."""
    for option in reversed(
        [
            click.argument("files", nargs=-1, type=click.UNPROCESSED),
            click.option("--together", "as_one", is_flag=True, help="The files are one run, as a rollout server and its trainer."),
            click.option("--swift", "version", metavar="VERSION", help="ms-swift version to judge by (default: the installed, else the newest)."),
            click.option("--args", "arguments", metavar="'A B'", help="The script's own arguments."),
            click.option("--gpus", metavar="8xH100", help="Accelerators on each node."),
            click.option("--nodes", type=click.IntRange(1), metavar="N", help="Number of nodes."),
            click.option("--model", metavar="DIR|ID", help="Folder, config.json or known id that stands for an unknown --model."),
            click.option("--dataset", metavar="FILE", help="Rows that stand for the run's data."),
            click.option("--route", metavar="ROUTE", help="Route of a bare YAML, such as 'swift rlhf' or 'ray'."),
        ]
    ):
        command = option(command)
    return command


def format_options(*formats: str, colored: bool = False) -> Callable[[F], F]:
    """`--format`, `-o` and `--no-color`, which every verb takes and those with colours are given."""

    def decorate(command: F) -> F:
        for option in reversed(
            [
                click.option("--format", "form", type=click.Choice(formats), default=formats[0], show_default=True, help="Form of the result."),
                click.option("-o", "--output", metavar="FILE", help="Write the result to FILE instead of stdout."),
                click.option("--no-color", is_flag=True, expose_value=colored, help="No colours (also NO_COLOR)."),
            ]
        ):
            command = option(command)
        return command

    return decorate


def split_command(files: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """click swallows a leading `--`; a command is what begins with a launcher or an assignment and follows `--` in argv."""
    argv = sys.argv[1:]
    if "--" not in argv:
        return list(files), None
    tail = argv[argv.index("--") + 1 :]
    if tail and list(files[len(files) - len(tail) :]) == tail:
        return list(files[: len(files) - len(tail)]), tail
    return list(files), None


def resolve_version(version: str | None) -> str:
    try:
        return facts.resolve(version)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def parse_cluster(gpus: str | None, nodes: int | None) -> Cluster:
    if gpus is None:
        return Cluster(nodes=nodes)
    from alula.facts.accelerators import parse_gpus

    try:
        name, count = parse_gpus(gpus)
    except ValueError as error:
        raise click.UsageError(f"--gpus: {error}") from None
    return Cluster(name, count, nodes)


def load_inputs(
    files: Sequence[str], *, as_one: bool, version: str | None, arguments: str | None, gpus: str | None, nodes: int | None, model: str | None,
    dataset: str | None, route: str | None,
) -> Inputs:  # fmt: skip
    """Read all that was named. Raises ReadError or UsageError."""
    names, command = split_command(files)
    chosen = resolve_version(version)
    try:
        words = tuple(shlex.split(arguments)) if arguments else ()
    except ValueError as error:
        raise click.UsageError(f"--args: {error}") from None
    known = facts.load(chosen)
    if route is not None and route != "ray" and route not in known.routes:
        raise click.UsageError(f"--route {route!r}: ms-swift {chosen} has {', '.join(known.routes)}; or 'ray'")
    options = ReadOptions(args=words, cluster=parse_cluster(gpus, nodes), route=route, version=chosen)
    runs: list[Run] = []
    if command is not None:
        runs.append(read_command(command, options))
    for name in names:
        runs.append(read_named(name, options))
    if not runs:
        raise click.UsageError("give a script or config file, `-` for stdin, or `-- swift rlhf …`")
    if dataset is not None and not Path(dataset).is_file():
        raise ReadError("no such data file", dataset)
    shape = _shape(model, options.cwd)
    if as_one or (len(runs) > 1 and not all(run.jobs for run in runs)):
        runs = [together(runs)]  # a plugin or rows beside a script belong to it
    return Inputs(tuple(runs), known, shape, dataset, str(options.cwd))


def read_named(name: str, options: ReadOptions) -> Run:
    return read_source(load_source(name, _stdin() if name == "-" else None), options)


def _stdin() -> bytes:
    """What stands on stdin, one byte more than a script may have."""
    if sys.stdin is None:  # closed by whoever started us
        raise ReadError("cannot be read: stdin is closed", "-")
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def _shape(model: str | None, cwd: Path) -> ModelShape | None:
    if model is None:
        return None
    from alula.read.model import shape_of

    shape: ModelShape | None = shape_of(model, str(cwd))
    if shape is None:
        raise ReadError("no known model, and no folder with a config.json", model)
    return shape


def emit(text: str, output: str | None) -> None:
    """Write the result to stdout or, atomically, to a file."""
    if output is None or output == "-":
        if sys.stdout is None:
            raise click.ClickException("stdout is closed; give -o FILE")
        # bytes: a diff keeps what is no UTF-8 in the user's file, which a strict stdout would refuse
        click.echo((text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape"), nl=False)
        return
    from alula.write.edits import WriteError, write_atomic

    try:
        write_atomic(output, (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape"))
    except WriteError as error:
        raise click.ClickException(str(error)) from None


def wants_color(no_color: bool, output: str | None) -> bool:
    if no_color or output is not None or os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout is not None and sys.stdout.isatty())


__all__ = ["CONFIG_SUFFIXES", "Inputs", "emit", "format_options", "load_inputs", "run_options", "wants_color"]
