"""Flags and variables as values, and the Jobs they make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from alula.run.job import EnvEntry, Job, Launch
from alula.run.source import Span, Token

HERE = Span("<built>", 0, 0)


class Required(str):
    """A value that only the person knows: it becomes a variable the script refuses to start without."""

    __slots__ = ()


def job(route: str, flags: Mapping[str, Any], env: Mapping[str, str], launch: Mapping[str, Any] | None = None, *, background: bool = False) -> Job:
    """Flags -> a Job. None leaves a flag out; booleans, lists and mappings become what ms-swift reads.

    Args:
        launch: `nproc`, `nnodes` and, for several nodes, `node_rank`, `master_addr`, `master_port`; they go into the environment.
    """
    argv: list[Token] = []
    for name, value in flags.items():
        if value is None:
            continue
        argv.append(_token(f"--{name}"))
        argv.extend(_token(item) for item in (value if isinstance(value, (list, tuple)) else [value]))
    entries = {name: EnvEntry(name, _token(value), "prefix") for name, value in env.items()}
    names = {"nproc": "NPROC_PER_NODE", "nnodes": "NNODES", "node_rank": "NODE_RANK", "master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"}
    tokens: dict[str, Token] = {}
    for key, value in (launch or {}).items():
        tokens[key] = _token(value)
        entries[names[key]] = EnvEntry(names[key], tokens[key], "prefix")
    words = tuple(argv)
    return Job("<built>", route, words, entries, (Launch("cli", **tokens),), HERE, words, background=background)


def _token(value: Any) -> Token:
    if isinstance(value, Required):
        return Token(str(value), HERE, unresolved=(str(value),))
    if isinstance(value, bool):
        return Token("true" if value else "false", HERE)
    if isinstance(value, dict):
        return Token(json.dumps(value), HERE)
    return Token(_number(value) if isinstance(value, float) else str(value), HERE)


def _number(value: float) -> str:
    """`1e-06` as people write it: `1e-6`."""
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}e{int(power)}" if exponent else text


def override(flags: dict[str, Any], settings: Mapping[str, tuple[str, ...]], known: Mapping[str, Any]) -> dict[str, Any]:
    """The recipe's flags with the person's `--set` values that this route has, in place or at the end."""
    out = dict(flags)
    for name, value in settings.items():
        if name in known:
            out[name] = list(value) if len(value) != 1 else value[0]
    return out
