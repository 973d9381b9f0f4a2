"""The shell reader: what commands would this script start, with what words and what environment, and where is each of them written?

A symbolic interpreter of bash. It starts no program, writes no file and reads only the files that the script itself reads. What it
cannot know stays an expression (`Token.unresolved`); where it cannot know a condition it follows both sides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..programs import is_launch
from .commands import Commands
from .companions import find_companions
from .expand import Field, token_of
from .faults import FAULTS, Fault, find_faults
from .interp import MAX_STEPS, Exhausted, Leave
from .parser import Parser
from .state import State, Var
from .text import NOWHERE, Seg, Text, Value, encode, likely, place_of, unknown

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.job import Command
    from alula.run.source import Source, Token

    from .syntax import Item

__all__ = ["FAULTS", "Fault", "ShellContext", "ShellResult", "read_shell"]

MAX_BYTES = 5_000_000


@dataclass(frozen=True)
class ShellContext:
    """What a script finds when it starts.

    Attributes:
        args: its own arguments, `$1` and on.
        environ: its environment.
        cwd: the directory it starts in.
        script: `$0`.
        gpus_per_node: what `nvidia-smi -L | wc -l` and its like count; None when it is not said.
    """

    args: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    script: str = "script.sh"
    gpus_per_node: int | None = None


@dataclass(frozen=True)
class ShellResult:
    """What a script starts.

    A token's `chain` begins where its text stands and ends where it is used: `B=$A; swift … $B` gives the `A=` value, then `$A`. What
    is put together from several definitions has origins without spans, so that `definition` is the word itself.

    Attributes:
        commands: in the order they start; those that stand commented out come where they stand.
        findings: shell faults (`faults`).
        files: what the script writes (`cat > f <<EOF`), by the name it uses and by absolute path. The token's text is the content, its
            span the here-document; where the two are the same bytes, an offset in one is an offset in the other.
        pieces: the same contents, cut where their bytes come from different places, so that every part of them can be located.
        sources: other files that were read, by absolute path.
        unresolved: the words whose text is not known, once each.
    """

    commands: tuple[Command, ...]
    findings: tuple[Finding, ...]
    files: Mapping[str, Token]
    pieces: Mapping[str, tuple[Token, ...]]
    sources: Mapping[str, Source]
    unresolved: tuple[Token, ...]


def read_shell(source: Source, ctx: ShellContext) -> ShellResult:
    """Interpret a script. Raises ValueError when it is too large to be one."""
    if len(source.data) > MAX_BYTES:
        raise ValueError(f"{len(source.data) / 1e6:.0f} MB is too large for a launch script (the limit is {MAX_BYTES // 1_000_000} MB)")
    text = text_of_source(source)
    parser = Parser(text)
    items = parser.program()
    shell = _interpret(items, ctx, exploring=False)
    exploring = False
    if not _starts_swift(shell.commands) and shell.steps <= MAX_STEPS:
        explored = _interpret(items, ctx, exploring=True)
        if _starts_swift(explored.commands):
            shell, exploring = explored, True
    commands = _distinct(shell.commands)
    findings = find_faults(source, parser, shell, exploring)
    for companion in find_companions(parser, shell):
        at = next((n for n, known in enumerate(commands) if known.span.file == source.name and known.span.start > companion.span.start), len(commands))
        commands.insert(at, companion)
    unresolved: dict[object, Token] = {}
    for command in commands:
        for word in command.words:
            if word.unresolved:
                unresolved.setdefault((word.span, word.text), word)
    return ShellResult(tuple(commands), tuple(findings), *_written(shell), shell.sources, tuple(unresolved.values()))


def _distinct(commands: Sequence[Command]) -> list[Command]:
    """Without the commands of less likely paths that are just like one seen before."""
    out: list[Command] = []
    seen: set[object] = set()
    for command in commands:
        key = (command.span, tuple(word.text for word in command.words), tuple((name, entry.token.text) for name, entry in command.env.items()))
        if command.maybe and key in seen:
            continue
        seen.add(key)
        out.append(command)
    return out


def _starts_swift(commands: Sequence[Command]) -> bool:
    return any(is_launch([word.text for word in command.words]) for command in commands)


def text_of_source(source: Source) -> Text:
    """A file's bytes as text to parse: without a byte order mark, with carriage returns before newlines left out."""
    data = source.data.decode("latin-1")
    start = 3 if data.startswith("\xef\xbb\xbf") else 0
    body = data[start:] if start else data
    if "\r\n" not in body:
        return Text(body, source.name, start)
    pieces = body.split("\r\n")
    cuts: list[int] = []
    at = 0
    for piece in pieces[:-1]:
        at += len(piece)
        cuts.append(at)  # from here on one more byte was left out
        at += 1
    return Text("\n".join(pieces), source.name, start, cuts=cuts)


def _interpret(items: list[Item], ctx: ShellContext, exploring: bool) -> Commands:
    environ = {
        encode(name): Var((Seg(encode(value)),), exported=True, kind="environment", how="inherited") for name, value in ctx.environ.items()
    }  # fmt: skip
    args: tuple[Value, ...] = tuple((Seg(encode(value)),) for value in ctx.args)
    state = State(environ, {}, {}, args, str(ctx.cwd))
    shell = Commands(state, exploring, ctx.script, ctx.gpus_per_node)
    try:
        shell.scoped("shell", lambda: shell.run_items(items))
        shell.finish()
    except (Exhausted, Leave, RecursionError):
        pass
    return shell


def _written(shell: Commands) -> tuple[dict[str, Token], dict[str, tuple[Token, ...]]]:
    """What the script wrote: whole, and in pieces."""
    whole: dict[str, Token] = {}
    pieces: dict[str, tuple[Token, ...]] = {}
    for path, value in shell.files.items():
        if value is None or unknown(value) or path.startswith("/dev/"):
            continue
        parts = likely(value)
        for name in (path, shell.names.get(path, path)):
            whole[name] = token_of(Field(parts, place_of(parts) if parts else NOWHERE))
            pieces[name] = tuple(token_of(Field((part,), place_of((part,)))) for part in parts if part.text)
    return whole, pieces
