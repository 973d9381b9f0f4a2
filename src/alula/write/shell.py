"""Runs as bash scripts that people can read and change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .shell_edits import shell_word
from .yaml import grouped

if TYPE_CHECKING:
    from alula.run.job import Job
    from alula.run.source import Token

_WHY = {
    "MODEL": "model id or folder",
    "DATASET": "dataset id or file",
    "REWARD_MODEL": "reward model id or folder",
    "TEACHER_MODEL": "teacher model id or folder",
    "NODE_RANK": "0 on the first node, 1 on the next",
    "MASTER_ADDR": "address of node 0 that the others reach",
    "ROLLOUT_HOST": "address of the rollout server",
}
_WAIT_SECONDS = 900


def script(jobs: Sequence[Job], comments: Sequence[str] = (), *, header: Sequence[str] = (), given: Sequence[str] = ()) -> str:
    """Jobs -> one script. Servers (jobs in the background) come first; the script waits until they answer, and stops them when it ends.

    Args:
        comments: lines about the run, for the top.
        header: lines between the interpreter line and the rest (`#SBATCH …`).
        given: variables that the surrounding script sets already.
    """
    lines = ["#!/usr/bin/env bash", *header, *(f"# {comment}" for comment in comments), "set -euo pipefail"]
    needed = [name for name in required(jobs) if name not in given]
    if needed:
        lines.append("")
        lines += [f': "${{{name}:?{_WHY.get(name, "set it")}}}"' for name in needed]
    servers = [job for job in jobs if job.background]
    for number, job in enumerate(servers):
        lines += ["", *_command(job, " &"), f"server_{number}=$!"]
    if servers:
        pids = " ".join(f'"$server_{number}"' for number in range(len(servers)))
        lines += [f"trap 'kill {pids} 2>/dev/null || true' EXIT"]
        for number, job in enumerate(servers):
            lines += _wait(job, number)
    for job in jobs:
        if not job.background:
            lines += ["", *_command(job)]
    return "\n".join(lines) + "\n"


def required(jobs: Sequence[Job]) -> list[str]:
    """Variables that the person must set, in the order of their use."""
    tokens = [token for job in jobs for token in (*job.argv, *(entry.token for entry in job.env.values())) if token.unresolved]
    return list(dict.fromkeys(name for token in tokens for name in token.unresolved))


def command(job: Job) -> str:
    """One job as one command of several lines."""
    return "\n".join(_command(job))


def _command(job: Job, end: str = "") -> list[str]:
    rows = [f"{name}={_word(entry.token)}" for name, entry in job.env.items()]
    rows.append(job.route if job.ray is None else f"{job.route} --use_ray true --config {shell_word(job.config or 'ray.yaml')}")
    if job.ray is None:
        rows += ["    " + " ".join([f"--{name}", *(_word(value) for value in values)]) for name, values in grouped(job.argv)]
    return [row + (" \\" if at < len(rows) - 1 else end) for at, row in enumerate(rows)]


def _word(token: Token) -> str:
    return f'"${token.text}"' if token.unresolved else shell_word(token.text)


def _wait(job: Job, number: int) -> list[str]:
    port = next((values[0].text for name, values in grouped(job.argv) if name == "port" and values), "8000")
    return [
        f"for _ in $(seq {_WAIT_SECONDS // 5}); do  # up to {_WAIT_SECONDS // 60} minutes for the model to load",
        f"    if curl -sf http://127.0.0.1:{port}/health >/dev/null; then break; fi",
        f'    kill -0 "$server_{number}" || exit 1',
        "    sleep 5",
        "done",
    ]
