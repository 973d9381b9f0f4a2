"""Intents to Runs, one file a kind of run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alula.run.job import Job, Run

from ..intent import BuildError, Intent
from ..refused import refusal

if TYPE_CHECKING:
    from alula.facts.swift import SwiftFacts
    from alula.run.model import ModelShape


@dataclass
class Made:
    """A recipe's result while it is made.

    Attributes:
        files: plugins and configs to write beside the script, by name.
        assumptions: what was chosen or taken for granted, said aloud.
        sequence: the jobs follow each other; else a server runs beside the trainer.
    """

    jobs: list[Job] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    sequence: bool = False
    ray: bool = False

    def run(self, intent: Intent) -> Run:
        return Run(tuple(self.jobs), {}, intent.cluster)


@dataclass(frozen=True)
class Kitchen:
    """What recipes work with: the intent, the facts of the version, and the shapes of model and card where they are known."""

    intent: Intent
    facts: SwiftFacts
    shape: ModelShape | None
    card_gib: float | None


def make(intent: Intent, facts: SwiftFacts, shape: ModelShape | None = None) -> Made:
    """Intent -> the jobs of a run.

    Raises:
        BuildError: ms-swift cannot do it, or a number of the person's makes it impossible.
    """
    reason = refusal(intent)
    if reason is not None:
        raise BuildError(reason)
    from alula.facts.accelerators import find as accelerator
    from alula.facts.models import find as model

    from . import megatron, rl, sampling

    if shape is None and intent.model is not None:
        shape = model(intent.model)
    card = accelerator(intent.cluster.accelerator) if intent.cluster.accelerator else None
    kitchen = Kitchen(intent, facts, shape, card.memory_gib if card is not None else None)
    if intent.route == "rlhf":
        return rl.rlhf(kitchen)
    if intent.route == "rollout":
        return rl.rollout(kitchen)
    if intent.route in ("sft", "sample"):
        return sampling.sft(kitchen) if intent.route == "sft" else sampling.sample(kitchen)
    if intent.route == "megatron export":
        return megatron.export(kitchen)
    if intent.ray:
        return megatron.ray(kitchen)
    return megatron.train(kitchen)
