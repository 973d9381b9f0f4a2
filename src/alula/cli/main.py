"""`alula`: the group of verbs, and what ends a process.

Exit codes, the same in every format: 0 good, 1 the verb's own bad news, 2 bad usage or unreadable input, 3 a bug of alula.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

import click

from alula import __version__
from alula.read.errors import ReadError

_VERBS = {
    "check": "Find what ms-swift would refuse, hang on or train wrong in scripts, configs and plugins.",
    "show": "Say what a script will really do: effective values, batch arithmetic, GPUs.",
    "diff": "Compare two runs, or one run under two ms-swift versions, by effective values.",
    "explain": "Print a rule's page, or what a flag does and when it changed.",
    "build": "Write a run that ms-swift accepts: shell, YAML, Ray, Slurm or KubeRay.",
    "doctor": "See which optional backends this machine has and which of them a run needs.",
}


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what a file or a disk says that takes no more


class _Verbs(click.Group):
    """Verbs are imported when they are called: start-up time is a feature."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        if name not in _VERBS:
            return None
        command: click.Command = import_module(f"alula.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  # click's signature
        with formatter.section("Verbs"):
            formatter.write_dl(list(_VERBS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            close = get_close_matches(args[0], _VERBS, 1)
            raise click.UsageError(error.message + (f" Did you mean '{close[0]}'?" if close else ""), ctx) from None


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]}, epilog="Exit codes: 0 good, 1 bad news, 2 bad usage or input, 3 a bug of alula.")
@click.version_option(__version__, "-V", "--version", prog_name="alula")
def group() -> None:
    """Before, during and after advanced RL with ms-swift. No GPU, no network and no ms-swift needed."""


def main(argv: list[str] | None = None) -> None:
    """Entry point. Never shows a traceback, except with ALULA_DEBUG=1."""
    try:
        status = group.main(argv, prog_name="alula", standalone_mode=False)
        code = status if isinstance(status, int) else 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except click.ClickException as error:
        error.show()
        code = 2
    except ReadError as error:
        click.echo(f"alula: {error}", err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("alula: interrupted", err=True)
        code = 130
    except BrokenPipeError:  # `alula … | head`
        _abandon_stdout()
        code = 0
    except Exception as error:  # the one place that turns our own bugs into exit code 3
        if isinstance(error, OSError) and error.errno in _FULL:
            _abandon_stdout()
            click.echo(f"alula: stdout: not written: {error.strerror}", err=True)
            sys.exit(2)
        if os.environ.get("ALULA_DEBUG"):
            raise
        first = str(error).splitlines()[0] if str(error) else ""
        click.echo(f"alula: a bug of alula: {type(error).__name__}: {first} (set ALULA_DEBUG=1 for the traceback and report it)", err=True)
        code = 3
    sys.exit(code)


def _abandon_stdout() -> None:
    """What is left in its buffer has nowhere to go, and the interpreter would complain at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
