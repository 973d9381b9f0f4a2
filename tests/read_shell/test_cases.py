"""Real users' launch scripts: the commands that alula reads are those that bash really launched."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from alula.read.launcher import find_start
from alula.read.shell import ShellContext, ShellResult, read_shell
from alula.run.job import Command
from alula.run.source import Source, Token

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases"
pytestmark = pytest.mark.skipif(not (CASES / "scripts.jsonl").exists(), reason="the shared cases are not here")

ROWS: list[dict[str, Any]] = [json.loads(line) for line in (CASES / "scripts.jsonl").read_text().splitlines()] if (CASES / "scripts.jsonl").exists() else []


def read_case(row: Mapping[str, Any], tmp: Path) -> ShellResult:
    """Lay out what the script needs, as it was laid out for bash, and read it."""
    setup = row["setup"]
    for item in setup.get("files", ()):
        name, content = (item, "") if isinstance(item, str) else item
        path = tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for name in setup.get("dirs", ()):
        (tmp / name).mkdir(parents=True, exist_ok=True)
    for name in setup.get("stubs", ()):
        path = tmp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        path.chmod(0o755)
    script = setup.get("name", f"{row['id']}.sh")
    data = (CASES / "scripts" / f"{row['id']}.sh").read_bytes()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp), **setup.get("env", {})}
    context = ShellContext(tuple(setup.get("args", ())), environ, tmp, str(tmp / script), 8)
    return read_shell(Source(str(tmp / script), data), context)


def same(expected: str, token: Token, cwd: Path) -> bool:
    return bool(token.unresolved) or expected.replace("$CWD", str(cwd)) == token.text


def same_words(expected: Sequence[str], argv: Sequence[Token], cwd: Path) -> bool:
    return len(expected) == len(argv) and all(same(want, token, cwd) for want, token in zip(expected, argv, strict=True))


def same_env(expected: Mapping[str, str], command: Command, launcher: str, cwd: Path) -> bool:
    """torchrun, accelerate and deepspeed set variables of their own; what the script gave them is under `script_`."""
    own = {"NPROC_PER_NODE", "NNODES", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"} if launcher not in ("cli", "python") else set()
    for name, value in expected.items():
        name = name.removeprefix("script_")
        if name in own and name not in command.env:
            continue
        entry = command.env.get(name)
        if entry is None or not same(value, entry.token, cwd):
            return False
    names = {name.removeprefix("script_") for name in expected}
    return not {"NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_PORT", "CUDA_VISIBLE_DEVICES"} & (set(command.env) - names)


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_commands_as_bash_launched_them(row: dict[str, Any], tmp_path: Path) -> None:
    result = read_case(row, tmp_path)
    found = []
    for command in result.commands:
        if command.commented or command.maybe:
            continue
        start = find_start(command.words, command.env)
        if start is not None:
            found.append((command, start))
    left = list(found)
    for expected in row["verdict"]["cmds"]:
        match = next(
            (
                item for item in left
                if item[1].route == expected["route"] and same_words(expected["argv"], item[1].argv, tmp_path)
                and same_env(expected["env"], item[0], item[1].launch.launcher, tmp_path)
            ),
            None,
        )  # fmt: skip
        assert match is not None, (expected, [([w.text for w in s.argv], {k: v.token.text for k, v in c.env.items()}) for c, s in left])
        left.remove(match)
    assert not left, [[w.text for w in command.words] for command, _ in left]
