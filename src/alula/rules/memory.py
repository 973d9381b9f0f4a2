"""Memory traps that are certain without an estimate: what must fit at the very least, and does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.record import record
from alula.swift.parse import UNKNOWN

from .registry import TRAIN, rule
from .training_numbers import quantised_name
from .training_parallel import deepspeed_stage
from .values import given

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import JobCheck

GIB = 1 << 30
COLOCATING = ("swift rlhf", "megatron rlhf")


@record
class Capacity:
    """Memory of one device in GiB, and its name; of the largest known device where the user said nothing."""

    gib: float
    name: str


def capacity(c: JobCheck) -> Capacity:
    """The device the run is meant for (`--gpus`), else the largest there is."""
    said = c.whole.run.cluster.accelerator
    from alula.facts.accelerators import all_accelerators
    from alula.facts.accelerators import find as find_accelerator

    device = find_accelerator(said) if said else None
    if device is not None:
        return Capacity(device.memory_gib, device.name)
    largest = max(all_accelerators(), key=lambda known: known.memory_gib)
    return Capacity(largest.memory_gib, f"{largest.name}, the largest known device")


@rule("MEM001", "awake-engine", severity="warning", confidence="medium", consequence="waste", routes=COLOCATING)
def awake_engine(c: JobCheck) -> Iterator[Finding]:
    """A colocated vLLM engine that never sleeps and takes most of the device.

    In colocate mode engine and trainer share every device. `--vllm_gpu_memory_utilization` (0.9 by default) is the engine's share of the whole device; with
    `--sleep_level 0` it keeps that while the trainer computes.

    In the log: `torch.OutOfMemoryError` in the first training step

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate \\
        --vllm_gpu_memory_utilization 0.5 --sleep_level 1 --offload_optimizer true --offload_model true
    ```

    Source: swift/rlhf_trainers/args_mixin.py:VllmArguments, RolloutTrainerArgumentsMixin
    """
    if c.v.get("use_vllm") is not True or c.v.get("vllm_mode") != "colocate" or c.v.rlhf_type not in ("grpo", "gkd") or c.job.ray is not None:
        return
    share, level = c.v.get("vllm_gpu_memory_utilization"), c.v.get("sleep_level")
    if not isinstance(share, float) or level != 0 or share < 0.75:
        return
    default = "" if c.v.written("vllm_gpu_memory_utilization") else " (the default)"
    template = "vLLM takes {share} of each device{default} and never sleeps (--sleep_level 0): {left} % are left for weights, gradients and activations of the trainer; --sleep_level 1, or a smaller share"
    yield c.finding(
        template, "vllm_gpu_memory_utilization" if not default else "vllm_mode", flags=["vllm_gpu_memory_utilization", "sleep_level"], share=share, default=default,
        left=round(100 * (1 - share)), fix=c.set_flag("sleep_level", "1"),
    )  # fmt: skip


@record
class Floor:
    """What one device must hold at the very least while it trains, in GiB, and of what."""

    gib: float
    parts: tuple[str, ...]


def training_floor(c: JobCheck) -> Floor | None:
    """A lower bound of the memory on each device: weights, and with full training gradients and optimizer states; None where it cannot be told."""
    shape, world = c.shape, c.v.place.world_size
    model, tuner = given(c, "model"), c.v.get("tuner_type")
    if shape is None or world is None or not isinstance(model, str) or not isinstance(tuner, str) or quantised_name(model) or given(c, "quant_method") is not None:
        return None
    deepspeed, fsdp = given(c, "deepspeed"), given(c, "fsdp")
    if UNKNOWN in (deepspeed, fsdp) or (isinstance(deepspeed, str) and "offload" in deepspeed) or (fsdp and fsdp != "fsdp2") or c.v.get("use_cpu") is True:
        return None
    stage = 3 if fsdp else deepspeed_stage(c)
    if deepspeed and (stage is None or not str(deepspeed).startswith("zero")):
        return None  # a file may off-load
    devices = 1
    if c.v.place.device_map and c.v.place.device_count and c.v.place.local_world_size:
        devices = c.v.place.device_count // c.v.place.local_world_size
    size = 4 if given(c, "torch_dtype") == "float32" else 2
    weights = shape.parameters * size / GIB / (world if stage == 3 else devices)
    parts = [f"weights {weights:.0f}"]
    total = weights
    if tuner == "full" and not _partly_frozen(c, shape.multimodal):
        if stage is None or stage == 0:
            states = shape.parameters * size / GIB / devices * (3 if str(c.v.get("optim")).startswith("adamw_torch") else 1)
        else:
            states = shape.parameters * 12 / GIB / world  # fp32 master weights and two moments, sharded by every stage
        parts.append(f"gradients and optimizer {states:.0f}" if not stage else f"optimizer {states:.0f}")
        total += states
    return Floor(total + _teacher(c, world, stage, parts), tuple(parts))


def _partly_frozen(c: JobCheck, multimodal: bool) -> bool:
    flags = ("freeze_parameters", "freeze_parameters_ratio", "freeze_parameters_regex", "freeze_llm", "lisa_activated_layers", "use_galore", "optimizer")
    return multimodal or any(given(c, flag) is not None for flag in flags)


def _teacher(c: JobCheck, world: int, stage: int | None, parts: list[str]) -> float:
    """A local teacher's weights; it is sharded by ZeRO-3 only."""
    name = given(c, "teacher_model")
    if not isinstance(name, str) or name == given(c, "model") or c.v.rlhf_type not in ("gkd", "grpo") or c.v.get("offload_teacher_model") is not False or quantised_name(name):
        return 0
    own = given(c, "teacher_deepspeed")
    if own is not None and own not in ("zero0", "zero1", "zero2", "zero3"):
        return 0
    shape = c.model_shape(name)
    if shape is None or (own is None and stage is not None and given(c, "fsdp")):
        return 0
    sharded = own == "zero3" or (own is None and stage == 3)
    gib = shape.parameters * 2 / GIB / (world if sharded else 1)
    parts.append(f"teacher {gib:.0f}")
    return gib


@rule("MEM002", "training-exceeds-device", confidence="medium", consequence="wrong", routes=TRAIN)
def training_exceeds_device(c: JobCheck) -> Iterator[Finding]:
    """What each device must hold is more than it has.

    A lower bound, without activations: the weights on every device (over all of them with ZeRO-3 or FSDP2), with full training also gradients and optimizer
    states, and a local teacher's weights. The device is the one of `--gpus 8xH100`, else the largest there is.

    In the log: `torch.OutOfMemoryError` while the model is loaded or in the first step

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model meta-llama/Llama-3.1-405B-Instruct --dataset data.jsonl --tuner_type lora
    ```

    Right:
    ```sh
    NNODES=4 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model meta-llama/Llama-3.1-405B-Instruct --dataset data.jsonl --tuner_type lora --deepspeed zero3
    ```

    Source: swift/model/utils.py:get_default_device_map
    Not shown on CPU: it is memory that runs out
    """
    floor = training_floor(c)
    device = capacity(c)
    if floor is None or floor.gib <= device.gib:
        return
    stage = deepspeed_stage(c)
    advice = "more devices or --deepspeed zero3_offload" if stage == 3 or given(c, "fsdp") else "--deepspeed zero3 shards the weights over all processes"
    template = "each device must hold at least {gib} GiB ({parts}), and {device} has {capacity} GiB: {advice}"
    yield c.finding(
        template, "deepspeed" if c.v.written("deepspeed") else "model", flags=["model", "deepspeed", *(["teacher_model"] if any("teacher" in part for part in floor.parts) else [])],
        gib=round(floor.gib), parts=" + ".join(floor.parts), device=device.name, capacity=round(device.gib), advice=advice, fix=advice,
    )  # fmt: skip


@rule("MEM003", "engine-exceeds-share", confidence="medium", consequence="wrong", routes=("swift rollout", "swift rlhf", "megatron rlhf"))
def engine_exceeds_share(c: JobCheck) -> Iterator[Finding]:
    """The model's weights do not fit into the engine's share of its devices.

    Each vLLM engine holds all weights, cut over `--vllm_tensor_parallel_size` devices, within `--vllm_gpu_memory_utilization` of each.

    In the log: `ValueError: No available memory for the cache blocks`, or `torch.OutOfMemoryError` while the engine loads

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-235B-A22B
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-235B-A22B --vllm_tensor_parallel_size 8
    ```

    Source: vllm/v1/worker/gpu_worker.py
    Not shown on CPU: it is memory that runs out
    """
    if c.v.route != "swift rollout" and (c.v.get("use_vllm") is not True or c.v.get("vllm_mode") != "colocate" or c.job.ray is not None):
        return
    shape, model = c.shape, given(c, "model")
    share, tensor = c.v.get("vllm_gpu_memory_utilization"), c.v.get("vllm_tensor_parallel_size")
    pipeline = c.v.get("vllm_pipeline_parallel_size", 1)
    if shape is None or not isinstance(model, str) or quantised_name(model) or not isinstance(share, float) or not isinstance(tensor, int) or not isinstance(pipeline, int):
        return
    quantised = given(c, "vllm_quantization") is not None or given(c, "quant_method") is not None or given(c, "torch_dtype") not in (None, "bfloat16", "float16")
    expert = c.v.get("vllm_enable_expert_parallel") not in (None, False)  # experts lie on all data parallel devices then
    if quantised or expert or tensor < 1 or pipeline < 1:
        return
    device = capacity(c)
    weights = shape.parameters * 2 / GIB / tensor / pipeline
    if weights > share * device.gib:
        needed = next((n for n in (1, 2, 4, 8, 16, 32) if shape.parameters * 2 / GIB / n / pipeline < 0.8 * share * device.gib), 64)
        template = "{model}: {weights} GiB of weights on each device with --vllm_tensor_parallel_size {tensor}, and the engine gets {share} × {capacity} GiB ({device}): --vllm_tensor_parallel_size {needed}"
        yield c.finding(
            template, "vllm_tensor_parallel_size" if c.v.written("vllm_tensor_parallel_size") else "model", flags=["vllm_tensor_parallel_size", "vllm_gpu_memory_utilization"],
            model=model, weights=round(weights), tensor=tensor, share=share, capacity=round(device.gib), device=device.name, needed=needed,
            fix=c.set_flag("vllm_tensor_parallel_size", str(needed)),
        )  # fmt: skip
