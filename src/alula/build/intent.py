"""What a person wants, before there are flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from alula.run.job import Cluster
from alula.run.record import record

RLHF_TYPES = ("dpo", "orpo", "cpo", "simpo", "kto", "rm", "ppo", "grpo", "gkd")
ROUTES = (
    "rlhf", "sft", "rollout", "sample", "megatron sft", "megatron pt", "megatron rlhf", "megatron export",
)  # fmt: skip
Placement = Literal["none", "colocate", "server", "async-server", "separate"]
Sharding = Literal["single", "ddp", "zero2", "zero3", "fsdp2"]
Reward = Literal["function", "async", "model", "multi-turn", "gym"]
Teacher = Literal["model", "server", "self"]
Sampling = Literal["sample", "distill", "rft"]
Target = Literal["shell", "yaml", "ray", "sbatch", "rayjob"]


class BuildError(Exception):
    """An intent that cannot be built; `str()` is one line: what was asked, why not, what to ask instead."""


@record
class Parallel:
    """Megatron's sizes, in ranks: tensor, pipeline, context, expert, expert-tensor; `virtual` counts virtual stages a pipeline rank."""

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    virtual: int = 1


@record
class Intent:
    """One run as a person would ask for it.

    Attributes:
        route: one of ROUTES.
        model, dataset: ids or paths; None becomes a required variable of the script.
        cluster: gpus_per_node None means 1.
        placement: where completions are sampled; `separate` is Ray's own pools.
        tuner: `lora` or `full`.
        sharding: how the HF engine holds parameters.
        ray: Megatron on Ray (with `megatron rlhf`), or `device_groups` (with sft and sample).
        teacher_placement: on Ray: `colocate` (inside the trainer) or `separate` (own replicas).
        settings: `--set` values, by flag name; they win over what the recipe chooses, and the recipe's arithmetic goes by them.
    """

    route: str
    rlhf_type: str | None = None
    model: str | None = None
    dataset: tuple[str, ...] = ()
    cluster: Cluster = field(default_factory=Cluster)
    placement: Placement = "none"
    tuner: Literal["lora", "full"] = "lora"
    sharding: Sharding = "ddp"
    parallel: Parallel = field(default_factory=Parallel)
    ray: bool = False
    reward: Reward = "function"
    reward_model: str | None = None
    teacher: Teacher = "model"
    teacher_model: str | None = None
    teacher_placement: Literal["colocate", "separate"] = "colocate"
    sampling: Sampling = "sample"
    export: Literal["to_hf", "to_mcore"] = "to_hf"
    output: str = "output"
    settings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        return self.cluster.gpus_per_node or 1

    @property
    def nodes(self) -> int:
        return self.cluster.nodes or 1

    def setting(self, name: str, default: int) -> int:
        """A number from `--set`, else the recipe's choice."""
        value = self.settings.get(name)
        if value is None:
            return default
        try:
            return int(value[0])
        except (ValueError, IndexError):
            raise BuildError(f"--set {name}={' '.join(value)}: must be an integer") from None
