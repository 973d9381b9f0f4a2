"""What ms-swift cannot do, so that build refuses it: each with the reason and what to ask for instead.

Sources (ms-swift 4.6): `arguments/rlhf_args.py`, `rlhf_trainers/{grpo,gkd}_trainer.py`, `rlhf_trainers/rollout_mixin.py`, `megatron/arguments`,
`ray/megatron`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .intent import Intent

MEGATRON_TYPES = ("dpo", "kto", "rm", "grpo", "gkd")


def refusal(intent: Intent) -> str | None:
    """Why this intent has no run, or None."""
    kind, route = intent.rlhf_type, intent.route
    sampled = kind in ("grpo", "gkd")
    if route == "megatron rlhf" and kind not in MEGATRON_TYPES:
        return f"megatron rlhf has no rlhf_type {kind}; it has {', '.join(MEGATRON_TYPES)}: use `rlhf`"
    if intent.ray and route == "megatron rlhf" and not sampled:
        return f"Megatron on Ray trains grpo and gkd only, not {kind}: leave out --ray"
    if intent.ray and route not in ("megatron rlhf", "sft", "sample"):
        return f"`{route}` has no Ray mode; megatron rlhf, sft and sample have"
    if route == "rlhf" and not sampled and intent.placement != "none":
        return f"{kind} samples no completions with vLLM: --placement none"
    if kind == "gkd" and intent.placement == "async-server":
        return "GKD has no asynchronous generation: --placement server"
    if kind == "gkd" and intent.reward != "function":
        return "GKD learns from a teacher and reads no rewards: leave out --reward"
    if route == "rlhf" and kind == "grpo":
        if intent.reward == "gym" and intent.placement == "none":
            return "without vLLM the gym reward is silently 0: --placement colocate or server"
        if intent.placement == "async-server" and intent.reward in ("multi-turn", "gym"):
            return "asynchronous generation excludes multi-turn and gym: --placement server"
    if route == "rlhf" and intent.placement in ("server", "async-server") and intent.gpus * intent.nodes < 2:
        return "a rollout server needs GPUs of its own: at least 2 GPUs, or --placement colocate"
    if route == "rlhf" and intent.placement == "separate":
        return "separate pools are Ray's: `megatron rlhf --ray`, or --placement server"
    if route == "rlhf" and kind == "gkd" and intent.teacher == "server" and intent.gpus * intent.nodes < (3 if intent.placement == "server" else 2):
        return "a teacher server needs GPUs of its own: more GPUs, or --teacher model"
    if intent.sharding == "single" and intent.gpus * intent.nodes > 1 and intent.placement in ("server", "async-server"):
        return None
    return _megatron(intent)


def _megatron(intent: Intent) -> str | None:
    if not intent.route.startswith("megatron "):
        return None
    sizes, world = intent.parallel, intent.gpus * intent.nodes
    product = sizes.tensor * sizes.pipeline * sizes.context
    if not intent.ray and world % product:
        return f"{world} GPUs are no multiple of TP {sizes.tensor} × PP {sizes.pipeline} × CP {sizes.context} = {product}"
    if not intent.ray and world % (sizes.expert_tensor * sizes.expert * sizes.pipeline):
        return f"{world} GPUs are no multiple of ETP {sizes.expert_tensor} × EP {sizes.expert} × PP {sizes.pipeline}"
    if sizes.virtual > 1 and sizes.pipeline == 1:
        return "a virtual pipeline needs --pp above 1"
    if sizes.virtual > 1 and intent.rlhf_type in ("grpo", "gkd"):
        return f"Megatron {intent.rlhf_type} has no virtual pipeline: leave out --vpp"
    if intent.route == "megatron rlhf" and intent.rlhf_type == "grpo" and intent.placement == "none" and not intent.ray:
        return "Megatron GRPO always samples with vLLM: --placement colocate or server"
    if intent.rlhf_type == "grpo" and intent.reward == "model":
        return "Megatron ignores reward models: --reward function or async"
    if intent.placement == "async-server":
        return "Megatron has no asynchronous generation: --placement server"
    return None
