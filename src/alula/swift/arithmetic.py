"""Batch and parallel arithmetic of ms-swift, once. Everything counts completions unless it says prompts.

Sources (ms-swift 4.6): `rlhf_trainers/args_mixin.py:_init_generation_batch_params`, `trainers/arguments.py` (default accumulation),
`megatron/arguments/megatron_args.py` (`resolve_generation_batch_size`, `validate_batch_dp_alignment`, `init_iters`).
"""

from __future__ import annotations

from math import ceil

from alula.run.record import record


@record
class Generation:
    """Sizes of one rollout.

    Attributes:
        micro_global: completions that all ranks train on in one forward (per_device_train_batch_size × world size; Megatron: global_batch_size).
        generation_batch_size: completions sampled in one rollout.
        steps_per_generation: micro-steps (HF) or optimizer steps (Megatron) that one rollout feeds.
        conflict: why ms-swift refuses the pair, or None: `not-multiple` (generation batch is no multiple of micro_global), `mismatch` (both given, unequal),
            `steps` (steps_per_generation below 1).
    """

    micro_global: int
    generation_batch_size: int
    steps_per_generation: int
    conflict: str | None = None


def default_accumulation(per_device: int, world_size: int) -> int:
    """gradient_accumulation_steps when it is not given, outside GRPO: about 16 samples an optimizer step."""
    return max(1, ceil(16 / per_device / world_size))


def generation(micro_global: int, accumulation: int, generation_batch_size: int | None, steps_per_generation: int | None) -> Generation:
    """The rollout sizes from what was given. `accumulation` is the default of steps_per_generation (1 on Megatron)."""
    if generation_batch_size is None:
        steps = accumulation if steps_per_generation is None else steps_per_generation
        return Generation(micro_global, micro_global * steps, steps, "steps" if steps <= 0 else None)
    if steps_per_generation is None:
        if micro_global == 0 or generation_batch_size % micro_global:
            return Generation(micro_global, generation_batch_size, max(generation_batch_size // max(micro_global, 1), 0), "not-multiple")
        steps = generation_batch_size // micro_global
        return Generation(micro_global, generation_batch_size, steps, "steps" if steps <= 0 else None)
    if generation_batch_size != micro_global * steps_per_generation:
        return Generation(micro_global, generation_batch_size, steps_per_generation, "mismatch")
    return Generation(micro_global, generation_batch_size, steps_per_generation, "steps" if steps_per_generation <= 0 else None)


def divisors(number: int, least: int = 1) -> list[int]:
    """All divisors of `number` from `least` on, ascending."""
    if number <= 0:
        return []
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({d for n in small for d in (n, number // n) if d >= least})


def nearest_multiples(number: int, step: int) -> tuple[int, ...]:
    """The multiples of `step` just below and above `number` (positive ones only), for advice."""
    if step <= 0:
        return ()
    below = number // step * step
    values = [below] if below > 0 else []
    values.append(below + step)
    return tuple(values)


def data_parallel(world_size: int, tensor: int, pipeline: int, context: int) -> int | None:
    """Megatron's data parallel size, or None where the product does not divide the world, or there is no process."""
    product = tensor * pipeline * context
    return None if product <= 0 or world_size <= 0 or world_size % product else world_size // product


def train_iters(rows: int, micro_batch_size: int, data_parallel_size: int, global_batch_size: int, epochs: float, per_prompt: int = 1) -> int:
    """Megatron's optimizer steps for `epochs` over `rows`; `per_prompt` is num_generations under GRPO, else 1."""
    unit = micro_batch_size * data_parallel_size
    usable = rows // unit * unit
    return int(usable * per_prompt * epochs) // global_batch_size
