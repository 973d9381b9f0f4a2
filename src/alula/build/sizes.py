"""Numbers that a recipe has to choose, so that ms-swift's arithmetic comes out even."""

from __future__ import annotations

from math import gcd, lcm
from typing import TYPE_CHECKING

from .intent import BuildError, Intent

if TYPE_CHECKING:
    from alula.run.model import ModelShape

TARGET_COMPLETIONS = 64  # completions an optimizer step that a first GRPO run can learn from


def grpo_batch(world: int, intent: Intent, per_device: int, generations: int) -> dict[str, int]:
    """per_device_train_batch_size and gradient_accumulation_steps such that one rollout divides by num_generations (HF engine).

    A generation_batch_size or steps_per_generation of the person's is kept, and checked by the rules.
    """
    micro = per_device * world
    out = {"per_device_train_batch_size": per_device}
    if "generation_batch_size" in intent.settings or "steps_per_generation" in intent.settings:
        return out
    least = lcm(micro, generations) // micro
    wanted = max(1, TARGET_COMPLETIONS // micro)
    out["gradient_accumulation_steps"] = intent.setting("gradient_accumulation_steps", -(-wanted // least) * least)
    return out


def megatron_grpo_batch(data_parallel: int, intent: Intent, micro: int, generations: int) -> int:
    """A global_batch_size (completions) whose prompts divide over the data parallel ranks and their micro-batches."""
    steps = intent.setting("steps_per_generation", 1)
    unit = generations * data_parallel * micro // gcd(generations * data_parallel * micro, steps)
    unit = lcm(unit, micro * data_parallel)
    return unit * max(1, TARGET_COMPLETIONS // unit)


def megatron_batch(data_parallel: int, micro: int) -> int:
    """A global_batch_size of about 16 samples that divides over the ranks."""
    unit = micro * data_parallel
    return unit * max(1, 16 // unit)


def engine_tensor_parallel(shape: ModelShape | None, card_gib: float | None, gpus: int, share: float = 0.4) -> tuple[int, str]:
    """The smallest vLLM tensor parallel size whose bf16 weights take at most `share` of a card -> (size, what was assumed).

    The size divides `gpus` and the attention heads.
    """
    if shape is None or card_gib is None:
        return 1, "vLLM tensor parallel 1: the model or the card is not known to alula"
    weights = shape.parameters * 2 / 2**30
    for size in range(1, gpus + 1):
        if gpus % size == 0 and shape.heads % size == 0 and weights / size <= share * card_gib:
            return size, f"vLLM tensor parallel {size}: {weights:.0f} GiB of bf16 weights on cards of {card_gib:.0f} GiB"
    raise BuildError(f"{shape.name} has {weights:.0f} GiB of bf16 weights, too many for an engine on {gpus} × {card_gib:.0f} GiB: more GPUs")


def server_gpus(intent: Intent, tensor: int, unit: int = 1) -> int:
    """GPUs of one node that the rollout server takes: about a quarter, in whole engines, leaving the trainer a multiple of `unit`.

    Raises:
        BuildError: no split does that.
    """
    wanted = max(1, intent.gpus // 4)
    fits = [share for share in range(tensor, intent.gpus, tensor) if (intent.gpus - share) % unit == 0]
    if not fits:
        raise BuildError(
            f"{intent.gpus} GPUs cannot be split into engines of {tensor} and a trainer whose GPUs are a multiple of {unit}: "
            "more GPUs or nodes, or --placement colocate"
        )
    return min(fits, key=lambda share: (abs(share - wanted), share))
