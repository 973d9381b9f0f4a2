"""Two runs, or one under two versions, by what ms-swift makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .parse import UNKNOWN
from .summary import summary

if TYPE_CHECKING:
    from .effective import View

_MISSING = "(no such flag)"

# What a change of this value means. One line each, in the words of the field; for numbers `{a}` and `{b}` are put in.
_EFFECTS: Mapping[str, str] = {
    "beta": "weight of the KL penalty to the reference model; 0 needs no reference model",
    "generation_batch_size": "completions sampled in one rollout",
    "gradient_accumulation_steps": "micro-batches in one optimizer step; with the same data fewer steps when it grows",
    "learning_rate": "step size of the optimizer; full training of RL usually takes 1e-6, LoRA about ten times more",
    "load_from_cache_file": "whether preprocessed data of an earlier run is used again",
    "lora_rank": "trainable parameters of the adapter; a rollout server with LoRA must allow it (vllm_max_lora_rank)",
    "loss_type": "another loss: the numbers of the two runs cannot be compared",
    "max_completion_length": "longest completion; rollout time and KV memory grow with it",
    "max_length": "longest prompt (RL) or sample; rows beyond it are cut or dropped",
    "num_generations": "completions a prompt; the baseline of an advantage is their mean",
    "num_iterations": "optimizer passes over each rollout; above 1 is off-policy",
    "per_device_train_batch_size": "completions a device holds at once: activation memory grows with it",
    "scale_rewards": "how advantages are normalised",
    "sleep_level": "GPU memory that vLLM gives back while training",
    "steps_per_generation": "micro-steps that reuse one rollout; above the accumulation is off-policy",
    "temperature": "randomness of the rollout",
    "top_k": "candidates in sampling; -1 is no limit",
    "top_p": "probability mass in sampling; 1.0 is no limit",
    "tuner_type": "which parameters are trained; memory and learning rate follow",
    "truncation_strategy": "what happens to rows longer than max_length",
    "vllm_gpu_memory_utilization": "share of each card that vLLM takes",
    "vllm_mode": "where completions are sampled: in the trainer's processes or on a server",
    "finetune": "whether Megatron starts its counters and optimizer anew or resumes",
    "world_size": "processes in all",
    "data_parallel": "copies of the model that see different data",
    "completions_per_step": "the batch of one optimizer step, which the learning rate goes with",
    "samples_per_step": "the batch of one optimizer step, which the learning rate goes with",
    "prompts_per_rollout": "different prompts between two weight updates of the engine",
    "on_policy": "whether a rollout is used for one optimizer step only",
    "steps_per_epoch": "optimizer steps in one pass over the data",
}
_NOISE = ("output_dir", "run_name", "logging_dir")


def compare(a: Sequence[View], b: Sequence[View]) -> list[dict[str, Any]]:
    """Views of both sides -> the contract's `changed` list: `{job, name, a, b, effect}`; jobs are matched by route, then order."""
    out: list[dict[str, Any]] = []
    left = list(b)
    for index, first in enumerate(a):
        other = next((view for view in left if view.route == first.route), None)
        if other is None:
            out.append({"job": index, "name": "route", "a": first.route, "b": None, "effect": "this job is not in the second run"})
            continue
        left.remove(other)
        out.extend(_job(index, first, other))
    for extra in left:
        out.append({"job": len(a), "name": "route", "a": None, "b": extra.route, "effect": "this job is only in the second run"})
    return out


def _job(index: int, a: View, b: View) -> list[dict[str, Any]]:
    changes: list[dict[str, Any]] = []
    numbers_a, numbers_b = summary(a), summary(b)
    for name in (*numbers_a, *(name for name in numbers_b if name not in numbers_a)):
        if not (name in numbers_a and name in numbers_b) and (name in a.values or name in b.values):
            continue  # it does not follow on one side, where the batch is refused; the values as written are compared below
        _add(changes, index, name, numbers_a.get(name), numbers_b.get(name))
    seen = {change["name"] for change in changes}
    for name in (*a.values, *(name for name in b.values if name not in a.values)):
        if name in seen or name in _NOISE:
            continue
        first, second = a.values.get(name), b.values.get(name)
        if first is None or second is None:
            holder = first or second
            if holder is not None and holder.use is not None:  # a flag that one version lacks matters where it is written
                pair = (_shown(first.value) if first else _MISSING, _shown(second.value) if second else _MISSING)
                changes.append({"job": index, "name": name, "a": pair[0], "b": pair[1], "effect": "one of the two versions has no such flag and refuses it"})
            continue
        effect = _EFFECTS.get(name, "")
        if first.origin == second.origin == "default" and a.facts.version != b.facts.version:
            effect = "the default changed" + (f": {effect}" if effect else "")
        _add(changes, index, name, first.value, second.value, effect)
    return changes


def _add(changes: list[dict[str, Any]], index: int, name: str, a: Any, b: Any, effect: str | None = None) -> None:
    if a is UNKNOWN and b is UNKNOWN:
        return
    if _shown(a) != _shown(b):
        changes.append({"job": index, "name": name, "a": _shown(a), "b": _shown(b), "effect": _EFFECTS.get(name, "") if effect is None else effect})


def _shown(value: Any) -> Any:
    if value is UNKNOWN:
        return "?"
    return list(value) if isinstance(value, tuple) else value
