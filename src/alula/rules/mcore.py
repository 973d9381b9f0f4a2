"""What the Megatron families share: the sizes of a job, its model's numbers, and when a fault shows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from alula.facts._data import FOLDER, toml
from alula.run.record import record
from alula.swift.arithmetic import divisors
from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import MEGATRON

if TYPE_CHECKING:
    from alula.facts.swift import ModelEntry
    from alula.run.finding import Finding
    from alula.run.model import ModelShape
    from alula.run.source import Token

ROUTES = (*MEGATRON, "megatron export")
AXES = {
    "tensor": "tensor_model_parallel_size", "pipeline": "pipeline_model_parallel_size", "context": "context_parallel_size",
    "expert": "expert_model_parallel_size", "expert_tensor": "expert_tensor_parallel_size",
}  # fmt: skip


@record
class Sizes:
    """Parallel sizes of a job; None where the text is not known.

    Attributes:
        world: processes over all nodes.
        local: processes on one node.
        virtual: virtual stages a pipeline rank, as ms-swift ends up with them (None for none; also where not known, then `virtual_known` is False).
    """

    world: int | None
    local: int | None
    tensor: int | None
    pipeline: int | None
    context: int | None
    expert: int | None
    expert_tensor: int | None
    virtual: int | None
    virtual_known: bool

    @property
    def model(self) -> int | None:
        """Ranks that hold one copy of the model: TP·PP·CP."""
        return _product(self.tensor, self.pipeline, self.context)

    @property
    def settled(self) -> int | None:
        """The processes, where they hold whole copies of the model: advice about one size may rest on them."""
        model = self.model
        return self.world if self.world is not None and model and self.world % model == 0 else None

    @property
    def experts(self) -> int | None:
        """Ranks that hold one copy of the experts: ETP·EP·PP."""
        return _product(self.expert_tensor, self.expert, self.pipeline)


def _product(*sizes: int | None) -> int | None:
    total = 1
    for size in sizes:
        if size is None:
            return None
        total *= size
    return total


def sizes(c: JobCheck) -> Sizes:
    """The job's sizes."""
    axes = {axis: whole(c.v.get(flag)) for axis, flag in AXES.items()}
    virtual = c.v.get("virtual_pipeline_model_parallel_size")
    return Sizes(c.v.place.world_size, c.v.place.local_world_size, **axes, virtual=whole(virtual), virtual_known=virtual is not UNKNOWN)


def whole(value: Any) -> int | None:
    """An integer that is known, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def on_ray(finding: Finding, c: JobCheck) -> Finding:
    """On Megatron-Ray the driver skips Megatron's own checks; the workers make them, after Ray has started."""
    return replace(finding, consequence="wrong") if c.job.ray is not None and finding.consequence == "refused" else finding


def ray_without_config(c: JobCheck) -> bool:
    """`--use_ray` without a config that could be read: what stands on the command line is no argument of anything."""
    return c.job.ray is None and any(token.text == "--use_ray" for token in c.job.argv)


def counted(c: JobCheck) -> bool:
    """Whether anything says how many processes there are; without it a `megatron` command is one."""
    launch = c.job.launch
    return launch.launcher != "cli" or launch.nproc is not None or launch.nnodes is not None


def processes(c: JobCheck) -> tuple[str, str]:
    """(what decides the number of processes, how to say it)."""
    if c.job.ray is not None:
        return "gpus", "train.gpus"
    if c.job.launch.launcher == "cli":
        return "NPROC_PER_NODE", "NPROC_PER_NODE" + ("" if c.job.launch.nnodes is None else " × NNODES")
    return "", f"{c.job.launch.launcher}'s processes"


def fitting(limit: int, *counts: int | None, least: int = 1) -> list[int]:
    """Sizes that divide `limit` and every count that is known."""
    return [n for n in divisors(limit, least) if all(count is None or count % n == 0 for count in counts)]


def listed(values: list[int], other: str = "none fits") -> str:
    return names(values) if values else other


# --- the model ---


def model_name(c: JobCheck) -> str | None:
    """The model's id or folder: `--model`, else the name of the Megatron checkpoint (`Qwen3-8B-mcore`, also under 3.x's `--load`)."""
    name = c.v.get("model")
    if name is UNKNOWN:
        return None
    if isinstance(name, str):
        return name
    checkpoint = c.v.get("mcore_model") or c.v.get("load")
    if checkpoint is None:
        words = c.job.argv
        checkpoint = next((token_text(words[at + 1]) for at, token in enumerate(words[:-1]) if token.text == "--load"), None)
    return checkpoint.rstrip("/").removesuffix("-mcore") if isinstance(checkpoint, str) else None


def short_name(c: JobCheck) -> str:
    """The last part of the model's name, for messages."""
    name = model_name(c)
    return name.rstrip("/").rsplit("/", 1)[-1] if name else "the model"


def numbers(c: JobCheck) -> ModelShape | None:
    """The model's architecture, when its name is known or local."""
    name = model_name(c)
    return c.model_shape(name) if name is not None else c.shape


def entry(c: JobCheck) -> ModelEntry | None:
    """What ms-swift's registry knows of the model: by `--model_type`, else by the id's last part; None where it knows nothing or the text is not known."""
    registries = c.facts.registries
    kind = c.v.get("model_type")
    if kind is UNKNOWN:
        return None
    if isinstance(kind, str):
        return registries.models.get(kind)
    model = model_name(c)
    return registries.model_of(model) if model is not None and not os.path.isdir(os.path.join(c.whole.cwd, model)) else None


def is_moe(c: JobCheck) -> bool | None:
    """Whether the model has experts; None where it is not known."""
    shape = numbers(c)
    if shape is not None:
        return shape.is_moe
    known = entry(c)
    if known is not None and any("moe" in name.lower() for name in known.architectures):
        return True
    return None


def is_multimodal(c: JobCheck) -> bool | None:
    known = entry(c)
    return None if known is None else known.multimodal


# --- flags that hold JSON ---


def extra(c: JobCheck) -> Mapping[str, Any]:
    """`--megatron_extra_kwargs`, which overrides the model configuration last; empty where it is not given, no JSON or not known."""
    text = c.v.get("megatron_extra_kwargs")
    if not isinstance(text, str):
        return {}
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@cache
def model_fields() -> tuple[str, ...]:
    """Fields of Megatron's model configuration (megatron-core 0.16)."""
    return tuple(toml(FOLDER / "megatron_core.toml")["model_config"]["fields"])


def setting(c: JobCheck, name: str) -> Any:
    """A field of Megatron's model configuration: from `megatron_extra_kwargs`, else the flag of that name."""
    if c.v.get("megatron_extra_kwargs") is UNKNOWN:
        return UNKNOWN
    given = extra(c)
    return given[name] if name in given else c.v.get(name)


def token_text(token: Token | None) -> str | None:
    return token.text if token is not None and token.known else None
