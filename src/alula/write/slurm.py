"""Runs as Slurm batch jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .shell import command, required, script

if TYPE_CHECKING:
    from alula.run.job import Cluster, Job

_ADDRESS = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


def batch(jobs: Sequence[Job], cluster: Cluster, name: str, comments: Sequence[str] = ()) -> str:
    """Jobs -> one sbatch script. One node runs the plain script; on several, each node starts its share by `srun`.

    With a rollout server on nodes of its own (`ROLLOUT_HOST` is needed), the first node serves and the others train.
    """
    nodes = cluster.nodes or 1
    header = [
        f"#SBATCH --job-name={name}",
        f"#SBATCH --nodes={nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={cluster.gpus_per_node or 1}",
        "#SBATCH --output=%x-%j.out",
    ]
    if any(job.ray is not None for job in jobs):
        return _ray(jobs, header, nodes, comments)
    if nodes == 1:
        return script(jobs, comments, header=header)
    servers = [job for job in jobs if job.background]
    trainers = [job for job in jobs if not job.background]
    lines = ["#!/usr/bin/env bash", *header, *(f"# {comment}" for comment in comments), "set -euo pipefail", ""]
    given = ("NODE_RANK", "MASTER_ADDR", "ROLLOUT_HOST")
    lines += [f': "${{{need}:?set it before sbatch}}"' for need in required(jobs) if need not in given]
    lines += ['mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")']
    first = 0
    for server in servers:
        lines += [
            f'export ROLLOUT_HOST="${{hosts[{first}]}}"', "", f'srun --nodes=1 --ntasks=1 --nodelist="${{hosts[{first}]}}" bash -s <<\'SERVER\' &',
            command(server), "SERVER", "",
        ]  # fmt: skip
        first += 1
    count = nodes - first
    where = f'--nodelist="$(IFS=,; echo "${{hosts[*]:{first}}}")" ' if first else ""
    for trainer in trainers:
        lines += [
            f'export MASTER_ADDR="${{hosts[{first}]}}"', "", f"srun --nodes={count} --ntasks={count} {where}bash -s <<'TRAINER'",
            "export NODE_RANK=$SLURM_PROCID", command(trainer), "TRAINER",
        ]  # fmt: skip
    if servers:
        lines.append("kill %1 2>/dev/null || true")
    return "\n".join(lines) + "\n"


def _ray(jobs: Sequence[Job], header: Sequence[str], nodes: int, comments: Sequence[str]) -> str:
    """Ray's head on the first node, workers on the others, then the driver."""
    lines = ["#!/usr/bin/env bash", *header, *(f"# {comment}" for comment in comments), "set -euo pipefail", ""]
    lines += [f': "${{{need}:?set it before sbatch}}"' for need in required(jobs)]
    lines += [
        'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        'head="${hosts[0]}"',
        'srun --nodes=1 --ntasks=1 --nodelist="$head" ray start --head --port=6379 --block &',
        "sleep 20",
    ]
    if nodes > 1:
        lines += [
            f'srun --nodes={nodes - 1} --ntasks={nodes - 1} --nodelist="$(IFS=,; echo "${{hosts[*]:1}}")" ray start --address="$head:6379" --block &',
            "sleep 20",
        ]
    lines += ['export RAY_ADDRESS="$head:6379"', "", *(command(job) for job in jobs), "", "ray stop || true"]
    return "\n".join(lines) + "\n"
