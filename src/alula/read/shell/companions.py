"""Commands that stand commented out: the rollout server that the user starts in another terminal.

ms-swift's own examples write the companion of a server-mode run so. A comment counts as a command only when it reads as one: program,
sub-command, and at least one flag or a continued line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..programs import is_launch
from .interp import Exhausted, Leave
from .parser import Parser
from .state import State
from .syntax import Simple, Word
from .text import Seg, Text

if TYPE_CHECKING:
    from alula.run.job import Command

    from .commands import Commands

_ASSIGNMENTS = r"(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|[^\s\"']\S*)?\s+)*"
_WRAPPERS = r"(?:(?:nohup|env|exec|srun|uv run|sudo|time)\s+(?:[A-Za-z_]\w*=\S*\s+)*)*"
_START = re.compile(
    rf"{_ASSIGNMENTS}{_WRAPPERS}(?:(?:\S*/)?(?:swift|megatron)\s+[a-z][a-z_-]*\s*(?:-|\\$|\S+\.(?:ya?ml|json)\b)"
    r"|(?:\S*/)?(?:torchrun|python[\d.]*)\s+\S.*swift[./])"
)


def _lines(parser: Parser) -> list[tuple[int, int, int]]:
    """(start of the content, its end, start of the line) of every comment that has a line of its own."""
    s = parser.text.s
    out: list[tuple[int, int, int]] = []
    for start, end in sorted(set(parser.comments)):
        begin = s.rfind("\n", 0, start) + 1
        if s[begin:start].strip(" \t"):
            continue
        content = start
        while content < end and s[content] == "#":
            content += 1
        while content < end and s[content] in " \t":
            content += 1
        out.append((content, end, begin))
    return out


def _blocks(parser: Parser) -> Iterator[list[tuple[int, int]]]:
    """Lines that, uncommented, are one command."""
    s = parser.text.s
    lines = _lines(parser)
    at = 0
    while at < len(lines):
        content, end, _ = lines[at]
        text = s[content:end].rstrip()
        block = [(content, end)]
        follow = at
        while text.endswith("\\") and follow + 1 < len(lines) and lines[follow + 1][2] == lines[follow][1] + 1:
            follow += 1
            content, end, _ = lines[follow]
            text = s[content:end].rstrip()
            block.append((content, end))
        joined = " ".join(s[a:b].rstrip().removesuffix("\\").rstrip() for a, b in block)
        if (_START.match(s[block[0][0] : block[0][1]]) or (len(block) > 1 and _START.match(joined))) and "--help" not in joined:
            yield block
            at = follow + 1
        else:
            at += 1


def find_companions(parser: Parser, shell: Commands) -> list[Command]:
    """The commented commands of a script. Variables have the values that they have at its end; only assignments in front of the command count
    as its environment, since it is started elsewhere."""
    out: list[Command] = []
    base = shell.state
    for block in _blocks(parser):
        segs = tuple(seg for a, b in block for seg in _segments(parser.text, a, b))
        inner = Parser(Text.of(segs))
        items = inner.program()
        if inner.errors or len(items) != 1 or not isinstance(items[0].node, Simple):
            continue
        node = items[0].node
        flags = any(isinstance(word, Word) and word.src.startswith("--") for word in node.words)
        if not flags and len(block) == 1 and not any(isinstance(word, Word) and word.src.endswith((".yaml", ".yml", ".json")) for word in node.words):
            continue
        environ = {name: replace(var, exported=False) for name, var in base.environ.items()}
        shell.state = State(environ, {name: replace(var, exported=False) for name, var in base.vars.items()}, {}, base.args, base.cwd)
        count = len(shell.commands)
        with suppress(Leave, Exhausted, RecursionError):
            shell.scoped("shell", partial(shell.simple, node))
        found = shell.commands[count:]
        del shell.commands[count:]
        out.extend(
            replace(command, commented=True, maybe=False, loop=False, background=False) for command in found if is_launch([word.text for word in command.words])
        )  # fmt: skip
    shell.state = base
    return out


def _segments(text: Text, start: int, end: int) -> tuple[Seg, Seg]:
    """One line of the comment; blanks at its end do not count, so that a backslash there continues it."""
    stop = start + len(text.s[start:end].rstrip(" \t"))
    return Seg(text.s[start:stop], *text.place(start, stop)), Seg("\n", *text.place(end, end + 1))
