"""Real bash beside the reader: both are given a script, a stub `swift` notes what bash starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from alula.read.shell import ShellContext, read_shell
from alula.run.job import Command
from alula.run.source import Source

Launch = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]

NAMES = ("swift", "megatron", "torchrun")
_OWN = frozenset(("PWD", "OLDPWD", "SHLVL", "_", "PATH", "HOME", "LC_ALL", "LC_CTYPE"))


def stubs(tmp: Path) -> Path:
    """A directory of programs that note their arguments and environment in `log`."""
    where = tmp / "stubs"
    where.mkdir(exist_ok=True)
    for name in NAMES:
        path = where / name
        part = f"'{tmp}'/part.$$"  # background jobs must not mix their notes
        path.write_text(f"#!/bin/sh\n{{ printf '%s\\0' {name} \"$#\" \"$@\"; env -0; printf 'END\\0'; }} > {part}; cat {part} >> '{tmp}/log'\n")
        path.chmod(0o755)
    return where


def base_env(tmp: Path) -> dict[str, str]:
    return {"PATH": f"{tmp}/stubs:/usr/bin:/bin", "HOME": str(tmp), "LC_ALL": "C.UTF-8"}


def launched(script: bytes, tmp: Path, args: Sequence[str] = (), env: Mapping[str, str] | None = None) -> list[Launch]:
    """What bash really starts."""
    stubs(tmp)
    work = tmp / "work"
    work.mkdir(exist_ok=True)
    (work / "run.sh").write_bytes(script)
    log = tmp / "log"
    log.write_bytes(b"")
    subprocess.run(
        ["bash", "run.sh", *args], cwd=work, env={**base_env(tmp), **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False
    )  # fmt: skip
    out: list[Launch] = []
    fields = os.fsdecode(log.read_bytes()).split("\0")
    at = 0
    while at + 1 < len(fields):
        name, count = fields[at], int(fields[at + 1])
        words = (name, *fields[at + 2 : at + 2 + count])
        at += 2 + count
        found: dict[str, str] = {}
        while fields[at] != "END":
            key, _, value = fields[at].partition("=")
            found[key] = value
            at += 1
        at += 1
        out.append((words, _sorted(found)))
    return out


def _sorted(env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in env.items() if name not in _OWN))


def read(script: bytes, tmp: Path, args: Sequence[str] = (), env: Mapping[str, str] | None = None) -> list[Command]:
    """What the reader says it starts."""
    work = tmp / "work"
    work.mkdir(exist_ok=True)
    context = ShellContext(tuple(args), {**base_env(tmp), **(env or {})}, work, "run.sh", None)
    return list(read_shell(Source("run.sh", script), context).commands)


def launch_of(command: Command, env: Mapping[str, str]) -> Launch:
    given = {name: entry.token.text for name, entry in command.env.items()}
    kept = {name: value for name, value in env.items() if name not in given and name in command.env}
    return tuple(word.text for word in command.words), _sorted({**kept, **given})


def both(script: str | bytes, tmp: Path, args: Sequence[str] = (), env: Mapping[str, str] | None = None) -> tuple[list[Launch], list[Launch]]:
    """(bash, alula). Variables of `env` are launch variables, so that both sides show them."""
    data = script.encode() if isinstance(script, str) else script
    real = launched(data, tmp, args, env)
    mine = [
        launch_of(command, env or {}) for command in read(data, tmp, args, env)
        if not command.maybe and not command.commented and os.path.basename(command.words[0].text) in NAMES
    ]  # fmt: skip
    return real, mine
