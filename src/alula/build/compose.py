"""A made run to the files of one target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.run.record import record
from alula.run.source import Token
from alula.write import rayjob, shell, slurm
from alula.write import yaml as yaml_writer

from .intent import BuildError, Intent, Target
from .recipes import Made, make
from .words import HERE

if TYPE_CHECKING:
    from alula.facts.swift import SwiftFacts
    from alula.run.job import Job
    from alula.run.model import ModelShape


@record
class Built:
    """What build writes.

    Attributes:
        files: name -> text; the entry (the script or config to start with) first.
        assumptions: sentences about what was chosen or taken for granted.
    """

    files: dict[str, str]
    assumptions: tuple[str, ...]

    @property
    def entry(self) -> str:
        return next(iter(self.files))


def fitting(intent: Intent) -> tuple[Target, ...]:
    """The targets that can say this run."""
    if intent.ray and intent.route == "megatron rlhf":
        return ("ray", "shell", "sbatch", "rayjob")
    if intent.route == "sample" and intent.sampling == "rft":
        return ("shell", "sbatch")
    if intent.nodes > 1:
        return ("shell", "sbatch")
    return ("shell", "yaml", "sbatch")


def build(intent: Intent, target: Target, facts: SwiftFacts, shape: ModelShape | None = None, image: str | None = None) -> Built:
    """Intent and target -> files.

    Raises:
        BuildError: ms-swift cannot do it, or the target cannot say it.
    """
    if target not in fitting(intent):
        raise BuildError(f"--to {target} does not fit this run; it fits {', '.join(fitting(intent))}")
    made = make(intent, facts, shape)
    comments = [f"Written by alula for ms-swift {facts.version}. Check it after every change: alula check", *made.assumptions]
    name = (intent.rlhf_type or intent.route.replace(" ", "-")) + ("-ray" if intent.ray else "")
    if target == "yaml":
        files = _yaml(made, comments, facts)
    elif target == "ray":
        files = {"ray.yaml": "".join(f"# {comment}\n" for comment in comments) + made.files["ray.yaml"]}
    elif target == "sbatch":
        files = {"job.sbatch": slurm.batch(made.jobs, intent.cluster, name, comments)}
    elif target == "rayjob":
        files = {"rayjob.yaml": rayjob.manifest("megatron rlhf --use_ray true --config ray.yaml", made.files, intent.cluster, name, image, comments)}
        return Built(files, tuple(made.assumptions))
    else:
        files = _shell(made, intent, comments)
    return Built({**files, **{file: text for file, text in made.files.items() if file not in files}}, tuple(made.assumptions))


def _shell(made: Made, intent: Intent, comments: Sequence[str]) -> dict[str, str]:
    servers = [job for job in made.jobs if job.background]
    if servers and intent.nodes > 1:  # each on its own nodes, each started by hand
        trainers = [job for job in made.jobs if not job.background]
        out = {"rollout.sh" if job.route == "swift rollout" else "teacher.sh": shell.script([replace(job, background=False)], comments) for job in servers}
        return {"train.sh": shell.script(trainers, comments), **out}
    return {"run.sh": shell.script(made.jobs, comments)}


def _yaml(made: Made, comments: Sequence[str], facts: SwiftFacts) -> dict[str, str]:
    """A config for each job, and the script that starts them."""
    if "yaml" not in "".join(facts.argument_file_suffixes) and facts.argument_file_flag is None:
        raise BuildError(f"ms-swift {facts.version} takes no config file: --to shell")
    files: dict[str, str] = {}
    started: list[Job] = []
    for number, job in enumerate(made.jobs):
        name = _config_name(job, made.jobs, number)
        try:
            files[name] = yaml_writer.config(job, comments)
        except ValueError as error:
            raise BuildError(f"--to yaml: {error}; give it, or take --to shell") from None
        words = [Token(name, HERE)] if facts.argument_file_flag is None else [Token(f"--{facts.argument_file_flag}", HERE), Token(name, HERE)]
        started.append(replace(job, argv=tuple(words), words=tuple(words), env={}))
    return {"run.sh": _starter(started, comments), **files}


def _config_name(job: Job, jobs: Sequence[Job], number: int) -> str:
    stem = {"swift rollout": "rollout", "swift deploy": "teacher"}.get(job.route, "train" if len(jobs) > 1 else job.route.split()[1])
    return f"{stem}.yaml" if sum(other.route == job.route for other in jobs) == 1 else f"{stem}-{number}.yaml"


def _starter(jobs: Sequence[Job], comments: Sequence[str]) -> str:
    """The configs hold everything, so the script has one line a job."""
    servers = [job for job in jobs if job.background]
    lines = ["#!/usr/bin/env bash", *(f"# {comment}" for comment in comments), "set -euo pipefail", ""]
    for number, job in enumerate(servers):
        lines += [f"{job.route} {' '.join(token.text for token in job.argv)} &", f"server_{number}=$!"]
    if servers:
        pids = " ".join(f'"$server_{number}"' for number in range(len(servers)))
        lines += [f"trap 'kill {pids} 2>/dev/null || true' EXIT", "sleep 60  # the trainer waits 240 s more for the servers"]
    lines += [f"{job.route} {' '.join(token.text for token in job.argv)}" for job in jobs if not job.background]
    return "\n".join(lines) + "\n"
