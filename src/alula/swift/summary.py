"""What a run will do, in numbers: processes, batches, rollouts and devices of each job.

Sources (ms-swift 4.6): see `arithmetic.py`; `rlhf_trainers/grpo_trainer.py` (an incomplete last rollout batch is dropped);
transformers `trainer.py` (update steps per epoch round up); `ray/megatron/rollout/replica.py` (replicas).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from .arithmetic import train_iters
from .effective import VLLM_TYPES, View
from .launch import integer
from .parse import UNKNOWN

Numbers = dict[str, Any]

_MOST_DEVICES = 4096  # no node has more; a list of them would only take memory


def summary(view: View, rows: int | None = None) -> Numbers:
    """View -> the `arithmetic` of `alula show`. Only what is known is in it.

    Args:
        rows: training rows, when the data's length is known.
    """
    out: Numbers = {}
    _put(out, "world_size", view.place.world_size)
    _put(out, "nproc_per_node", view.place.local_world_size)
    _put(out, "nnodes", view.place.nnodes)
    if view.megatron and not view.route.endswith(" export"):
        _megatron(view, out)
    elif view.route in ("swift rlhf", "swift sft", "swift pt"):
        _hf(view, out)
    elif view.route == "swift rollout":
        _server(view, out)
    if view.rlhf_type in VLLM_TYPES:
        _rollout(view, out)
    if rows is not None and view.route != "swift rollout":
        out["rows"] = rows
        _put(out, "steps_per_epoch", _steps_per_epoch(view, out, rows))
    if view.job.ray is not None:
        _ray(view, out)
    return out


def _put(out: Numbers, name: str, value: Any) -> None:
    if value is not None and value is not UNKNOWN:
        out[name] = value


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _hf(view: View, out: Numbers) -> None:
    per_device, accumulation = _number(view.get("per_device_train_batch_size")), _number(view.accumulation)
    sequence = _number(view.get("sequence_parallel_size")) or 1
    world = view.place.world_size
    if world is not None and world % sequence == 0:
        out["data_parallel"] = world // sequence
    if sequence > 1:
        out["sequence_parallel"] = sequence
    _put(out, "per_device_train_batch_size", per_device)
    _put(out, "gradient_accumulation_steps", accumulation)
    if per_device is not None and accumulation is not None and world is not None:
        name = "completions_per_step" if view.rlhf_type == "grpo" else "samples_per_step"
        out[name] = per_device * world * accumulation


def _megatron(view: View, out: Numbers) -> None:
    _put(out, "data_parallel", view.data_parallel)
    for axis, short in (("tensor_model", "tensor_parallel"), ("pipeline_model", "pipeline_parallel"), ("context", "context_parallel"), ("expert_model", "expert_parallel")):
        _put(out, short, _number(view.get(f"{axis}_parallel_size")))
    micro, size, replicas = _number(view.get("micro_batch_size")), _number(view.get("global_batch_size")), view.data_parallel
    _put(out, "micro_batch_size", micro)
    if size is not None:
        out["completions_per_step" if view.rlhf_type == "grpo" else "samples_per_step"] = size
    if micro and size and replicas and size % (micro * replicas) == 0:
        out["num_microbatches"] = size // (micro * replicas)


def _rollout(view: View, out: Numbers) -> None:
    made = view.generation
    if made is None or made.conflict:
        return
    out["generation_batch_size"] = made.generation_batch_size
    out["steps_per_generation"] = made.steps_per_generation
    per_prompt = 1 if view.rlhf_type == "gkd" else _number(view.get("num_generations"))
    if per_prompt and made.generation_batch_size % per_prompt == 0:
        out["num_generations"] = per_prompt
        out["prompts_per_rollout"] = made.generation_batch_size // per_prompt
    accumulation = 1 if view.megatron else _number(view.accumulation)
    iterations = _number(view.get("num_iterations")) or 1
    if accumulation:
        steps = made.steps_per_generation / accumulation * iterations
        out["steps_per_rollout"] = int(steps) if steps == int(steps) else round(steps, 3)
        stale = view.get("async_generate") is True
        out["on_policy"] = steps <= 1 and not stale


def _server(view: View, out: Numbers) -> None:
    tensor, data = _number(view.get("vllm_tensor_parallel_size")), _number(view.get("vllm_data_parallel_size"))
    _put(out, "tensor_parallel", tensor)
    _put(out, "data_parallel", data)
    if tensor is not None and data is not None:
        out["gpus"] = tensor * data


def _steps_per_epoch(view: View, out: Numbers, rows: int) -> int | None:
    ratio = view.get("split_dataset_ratio")
    if isinstance(ratio, float) and 0 < ratio < 1:
        rows -= int(rows * ratio)
    if view.megatron:
        micro, size, replicas = out.get("micro_batch_size"), _number(view.get("global_batch_size")), view.data_parallel
        if not (micro and size and replicas):
            return None
        per_prompt = (_number(view.get("num_generations")) or 1) if view.rlhf_type == "grpo" else 1
        return train_iters(rows, micro, replicas, size, 1, per_prompt)
    accumulation: int | None = out.get("gradient_accumulation_steps")
    prompts: int | None = out.get("prompts_per_rollout")
    if view.rlhf_type in VLLM_TYPES:
        return rows // prompts * int(out["steps_per_generation"]) // accumulation if prompts and accumulation else None
    per_device: int | None = out.get("per_device_train_batch_size")
    copies: int | None = out.get("data_parallel")
    if not (per_device and copies and accumulation):
        return None
    return max(1, ceil(ceil(rows / (per_device * copies)) / accumulation))


def _ray(view: View, out: Numbers) -> None:
    assert view.job.ray is not None
    gpus = {role: integer(group.keys.get("gpus")) for role, group in view.job.ray.groups.items()}
    out["group_gpus"] = {role: count for role, count in gpus.items() if count is not None}
    pooled = [set(group) for group in view.job.ray.colocate_groups]
    total = 0
    for role, count in out["group_gpus"].items():
        first = next((sorted(group)[0] for group in pooled if role in group), role)
        total += count if first == role else 0
    out["cluster_gpus"] = total


# --- which job sits on which device ---


def device_ids(view: View) -> tuple[str, ...] | None:
    """The devices a job uses on each of its nodes, or None where they cannot be known."""
    ids = view.place.devices
    if view.route == "swift rollout":
        wanted = summary(view).get("gpus")
        if ids is not None:
            return ids[:wanted] if wanted else ids
        return tuple(str(n) for n in range(wanted)) if wanted else None
    if ids is not None:
        return ids
    if view.job.ray is not None or view.place.local_world_size is None or not view.place.torchrun:
        return None
    return tuple(str(n) for n in range(view.place.local_world_size)) if view.place.local_world_size <= _MOST_DEVICES else None


def gpu_map(views: Sequence[View]) -> list[Mapping[str, Any]]:
    """Each known device with the jobs on it: `{host, device, jobs}`. Jobs whose host is not said count as on one host, `node0`."""
    places: dict[tuple[str, str], list[int]] = {}
    for view in views:
        for device in device_ids(view) or ():
            places.setdefault((view.job.host or "node0", device), []).append(view.index)
    ordered = sorted(places.items(), key=lambda item: (item[0][0], not item[0][1].isdigit(), int(item[0][1]) if item[0][1].isdigit() else 0, item[0][1]))
    return [{"host": host, "device": device, "jobs": jobs} for (host, device), jobs in ordered]
