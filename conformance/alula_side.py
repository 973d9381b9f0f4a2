"""alula's half of every comparison: read a run as alula does, and put each of its jobs before the judge.

alula is imported from `src/` into this process; ms-swift stays in the judge's.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from conformance.client import REPOSITORY

if (SRC := str(REPOSITORY / "src")) not in sys.path:
    sys.path.insert(0, SRC)

from alula.facts import models
from alula.facts import swift as facts
from alula.read.run import ReadOptions, load_source, read_command, read_source, together
from alula.rules.engine import Selection, check_run, views_of
from alula.run.finding import Finding
from alula.run.job import Cluster, Run
from alula.swift.effective import View

VERSION = "4.6.0"
FACTS = facts.load(VERSION)
ARGUMENT_STAGES = ("", "post_init", "yaml", "ray", "dataset")  # where the judge's refusal is one of the arguments' own checks


@dataclass(frozen=True)
class Reading:
    """A run as alula reads it, its files in `folder`: its views, one a job, and what alula finds, guesses too."""

    run: Run
    views: tuple[View, ...]
    folder: Path

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Asked for once, while the folder is there."""
        return tuple(check_run(self.run, FACTS, Selection(pedantic=True), cwd=str(self.folder), views=self.views))

    def refusals(self, job: int) -> list[Finding]:
        """Findings which say that ms-swift's own checks will refuse this job."""
        return [f for f in self.findings if f.job in (job, None) and f.severity == "error" and f.consequence == "refused"]


def read_files(folder: Path, files: Mapping[str, str], cluster: Cluster | None = None) -> Reading:
    """Write `files` into `folder` and read the first, with every script among the others, as one run."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    options = ReadOptions(environ={}, cwd=folder, cluster=cluster or Cluster(), version=VERSION)
    entries = [name for at, name in enumerate(files) if at == 0 or name.endswith(".sh")]
    return reading_of(together([read_source(load_source(str(folder / name)), options) for name in entries]), folder)


def read_words(words: Sequence[str], folder: Path, cluster: Cluster | None = None) -> Reading:
    """Read one command, environment assignments in front, as `alula check --` does."""
    return reading_of(read_command(words, ReadOptions(environ={}, cwd=folder, cluster=cluster or Cluster(), version=VERSION)), folder)


def reading_of(run: Run, folder: Path) -> Reading:
    """The reading of a run whose files lie in `folder`."""
    return Reading(run, views_of(run, FACTS), folder)


def request(reading: Reading, index: int, files: Mapping[str, str] | None = None) -> dict[str, Any] | str:
    """The judge's request for one job, or why it cannot be put: a word of it is not known."""
    view = reading.views[index]
    job = view.job
    beside = dict(files or {})
    if job.ray is not None:
        source = reading.run.sources.get(job.ray.file)
        if source is None:
            return "its Ray YAML is not here"
        return {"route": "ray", "yaml": source.data.decode("utf-8"), "env": _env(job.env), "files": beside, "shape": _shape(view)}
    if any(token.unresolved for token in (*job.argv, *(entry.token for entry in job.env.values()))):
        return "a word of it is not known before it runs"
    place = view.place
    if place.world_size is None:
        return "its number of processes is not known"
    return {
        "route": job.route,
        "argv": [token.text for token in job.argv],
        "env": _env(job.env),
        "world_size": place.world_size,
        "local_world_size": place.local_world_size,
        "distributed": place.torchrun,
        **({"devices": place.device_count} if place.device_count is not None else {}),
        "files": beside,
        "shape": _shape(view) if view.megatron else None,
    }


def _shape(view: View) -> dict[str, int] | None:
    """The real numbers of a model that alula knows, as `config.json` names them; Megatron cuts the model by them."""
    model = view.get("model")
    known = models.find(model) if isinstance(model, str) else None
    if known is None:
        return None
    return {
        "num_hidden_layers": known.layers,
        "hidden_size": known.hidden_size,
        "num_attention_heads": known.heads,
        "num_key_value_heads": known.kv_heads,
        **({"num_experts": known.experts} if known.experts else {}),
    }


def _env(env: Mapping[str, Any]) -> dict[str, str]:
    return {name: entry.token.text for name, entry in env.items()}


def refused(answer: Mapping[str, Any]) -> bool:
    """True when ms-swift does not start this job."""
    return bool(answer["argparse"] == "error" or answer["post_init"] == "error")


def words_of(answer: Mapping[str, Any]) -> str:
    """The judge's answer in one short line."""
    if "crash" in answer:
        return f"crash: {answer['crash'][-200:]}"
    if answer["post_init"] == "error":
        return f"{answer['stage']} {answer['exc']} at {answer['where']}: {answer['post_message'][:160]}"
    return answer["message"][:200] if answer["argparse"] == "error" else "accepted"
