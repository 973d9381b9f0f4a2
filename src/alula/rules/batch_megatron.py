"""Batch arithmetic on Megatron and Megatron-Ray: micro-batches, data parallel ranks and rollout prompts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm
from typing import TYPE_CHECKING

from alula.swift.arithmetic import divisors, nearest_multiples

from .batch import fit_rollout, ranks, sizes
from .context import JobCheck, names
from .registry import MEGATRON, rule
from .rl import explicit_teacher, kind, whole

if TYPE_CHECKING:
    from alula.run.finding import Finding


def parallel(c: JobCheck) -> str:
    """`8 process(es) / (TP 2 × PP 1 × CP 1)`: where the data parallel size comes from."""
    tensor, pipeline, context = (c.v.get(f"{axis}_parallel_size") for axis in ("tensor_model", "pipeline_model", "context"))
    return f"{c.v.place.world_size} process(es) / (TP {tensor} × PP {pipeline} × CP {context})"


@rule("BAT101", "global-batch-not-divisible", routes=MEGATRON)
def global_batch_not_divisible(c: JobCheck) -> Iterator[Finding]:
    """`global_batch_size` is no multiple of micro-batch × data parallel size.

    Every data parallel rank takes the same number of micro-batches in a step. The data parallel size is the number of processes over TP × PP × CP.

    In the log: `ValueError: global batch size (16) is not divisible by micro batch size (2) times data parallel size (6).`

    Wrong:
    ```sh
    NPROC_PER_NODE=6 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --micro_batch_size 2 --global_batch_size 16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=6 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --micro_batch_size 2 --global_batch_size 24
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments._init_distributed
    """
    size, micro, replicas = whole(c.v.get("global_batch_size")), whole(c.v.get("micro_batch_size")), c.v.data_parallel
    if size is None or micro is None or replicas is None or micro < 1 or size < 0:
        return
    step = micro * replicas
    if size and size % step == 0:
        return
    near = nearest_multiples(size, step)
    template = (
        "--global_batch_size {size} is no multiple of micro_batch_size {micro} × data parallel size {replicas} ({parallel}) = {step}; nearest: {near}"
    )
    finding = c.finding(
        template, "global_batch_size", flags=["micro_batch_size", "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size"],
        related=ranks(c), size=size, micro=micro, replicas=replicas, parallel=parallel(c), step=step, near=" or ".join(map(str, near)),
        fix=c.set_flag("global_batch_size", str(near[-1])),
    )  # fmt: skip
    yield finding if c.job.ray is None else replace(finding, consequence="wrong")  # Ray's driver leaves it to the workers


@rule("BAT102", "empty-micro-batch", routes=MEGATRON)
def empty_micro_batch(c: JobCheck) -> Iterator[Finding]:
    """`micro_batch_size` of 0.

    Batches are counted in micro-batches, and the checks divide by their size.

    In the log: `ZeroDivisionError: integer modulo by zero`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --micro_batch_size 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --micro_batch_size 1
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments._init_distributed
    """
    if whole(c.v.get("micro_batch_size")) == 0:
        yield c.finding("--micro_batch_size 0: must be at least 1", "micro_batch_size", fix=c.set_flag("micro_batch_size", "1"))


@rule("BAT103", "rollout-prompts-not-aligned", routes=("megatron rlhf",), since="4.0")
def rollout_prompts_not_aligned(c: JobCheck) -> Iterator[Finding]:
    """The prompts of a rollout do not spread evenly over data parallel ranks and micro-batches.

    `global_batch_size` counts completions. A rollout of `global_batch_size × steps_per_generation` completions has that over `num_generations` prompts
    (GKD: one completion a prompt); they must be a multiple of the data parallel size, and each rank's share a multiple of `micro_batch_size`.

    In the log: `ValueError: Per-device rollout prompt count (2) = … must be divisible by micro_batch_size (4).`, `num_rollout_prompt (3) … dp_size (6)`

    Wrong:
    ```sh
    NPROC_PER_NODE=6 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 48 --micro_batch_size 4 --num_generations 4
    ```

    Right:
    ```sh
    NPROC_PER_NODE=6 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 48 --micro_batch_size 2 --num_generations 4
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.validate_batch_dp_alignment
    """
    rollout, count, micro, replicas = c.v.generation, whole(c.v.get("num_generations")), whole(c.v.get("micro_batch_size")), c.v.data_parallel
    if rollout is None or rollout.conflict or count is None or micro is None or replicas is None or micro < 1 or count < 1:
        return
    if c.job.ray is not None and c.v.absent("global_batch_size"):
        return  # BAT107
    size = rollout.generation_batch_size
    if count > 1 and size % count:
        return  # BAT001
    prompts = size // count
    made = f"global_batch_size {rollout.micro_global} × {rollout.steps_per_generation} step(s) / num_generations {count} = {prompts} prompts"
    if prompts % replicas:
        template = "a rollout has {made}, which is no multiple of the data parallel size {replicas} ({parallel})"
    elif prompts // replicas % micro:
        template = "a rollout has {made}, {share} for each of {replicas} data parallel ranks ({parallel}), which is no multiple of micro_batch_size {micro}"
    elif size // (c.v.place.world_size or 1) < 1:
        template = "a rollout has {made}: fewer completions than processes ({world})"
    else:
        return
    multiple = count * replicas * micro
    steps = [rollout.micro_global * s for s in (1, 2, 3, 4, 6, 8, 12, 16) if rollout.micro_global * s % multiple == 0]
    sizes_that_fit = nearest_multiples(rollout.micro_global, lcm(multiple, replicas * micro))
    micro_choices = [m for m in divisors(prompts // replicas) if m != micro] if prompts % replicas == 0 else []
    advice = [f"micro_batch_size {' or '.join(map(str, micro_choices[-3:]))}"] if micro_choices else []
    advice.append(f"global_batch_size {' or '.join(map(str, sizes_that_fit))}")
    if steps:
        advice.append(f"steps_per_generation {steps[0] // rollout.micro_global}")
    fewer = [n for n in divisors(size, 2) if n < count and size // n % (replicas * micro) == 0]
    if fewer and kind(c) == "grpo":
        advice.append(f"num_generations {' or '.join(map(str, fewer[-3:]))}")
    template += "; use {advice}"
    fix = c.set_flag("micro_batch_size", str(micro_choices[-1])) if micro_choices else fit_rollout(c, rollout, multiple)
    at = "micro_batch_size" if micro_choices and c.v.use("micro_batch_size") is not None else "global_batch_size"
    yield c.finding(
        template, at, flags=["micro_batch_size", "num_generations", *sizes(c)], related=ranks(c), made=made, replicas=replicas, parallel=parallel(c),
        share=prompts // replicas, micro=micro, world=c.v.place.world_size, advice=names(advice, 4).replace(", ", ", or "), fix=fix,
    )  # fmt: skip


@rule("BAT104", "megatron-no-generation", routes=("megatron rlhf",), since="4.0")
def megatron_no_generation(c: JobCheck) -> Iterator[Finding]:
    """`num_generations` of 0 or less on Megatron, where the batch check divides by it.

    The parser takes any number; the check that spreads prompts over ranks divides by it.

    In the log: `ZeroDivisionError: integer division or modulo by zero`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --num_generations 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --num_generations 8
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.validate_batch_dp_alignment
    """
    count = whole(c.v.get("num_generations"))
    if kind(c) == "grpo" and count is not None and count <= 0:
        template = "--num_generations {count}: the batch check divides by it; must be at least 2 (8 is the default)"
        yield c.finding(template, "num_generations", count=count, fix=c.set_flag("num_generations", "8"))


@rule("BAT105", "megatron-one-generation", consequence="wrong", routes=("megatron rlhf",), since="4.4")
def megatron_one_generation(c: JobCheck) -> Iterator[Finding]:
    """Megatron GRPO with one completion a prompt and no teacher: accepted, but a group of one has no advantage.

    The advantage of a completion is its distance from the group's mean, which is the completion itself. `swift rlhf` refuses this; Megatron does not.

    In the log: `reward_std: 0.0`, grad_norm near 0

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --num_generations 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --num_generations 8
    ```

    Source: swift/rl_core/grpo_algorithm.py
    Not shown on CPU: the arguments are accepted; the advantages are 0
    """
    if kind(c) == "grpo" and whole(c.v.get("num_generations")) == 1 and explicit_teacher(c.v) is False:
        template = "--num_generations 1: GRPO compares the completions of one prompt and needs at least 2 (8 is the default)"
        yield c.finding(template, "num_generations", fix=c.set_flag("num_generations", "8"))


@rule("BAT106", "real-loss-splits-groups", routes=("megatron rlhf",), since="4.1")
def real_loss_splits_groups(c: JobCheck) -> Iterator[Finding]:
    """Megatron's `loss_type real` needs whole groups in a micro-batch.

    The loss compares the good and bad completions of one prompt, which must therefore lie in one micro-batch.

    In the log: `AssertionError: "REAL loss requires that the training micro_batch_size (1) is a multiple of num_generations (8).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --loss_type real
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate --global_batch_size 64 --loss_type dapo
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._init_grpo
    """
    micro, count = whole(c.v.get("micro_batch_size")), whole(c.v.get("num_generations"))
    if kind(c) == "grpo" and c.v.get("loss_type") == "real" and micro is not None and count and micro % count:
        template = "--loss_type real needs whole groups: micro_batch_size {micro} must be a multiple of num_generations {count}"
        yield c.finding(template, "loss_type", flags=["micro_batch_size", "num_generations"], micro=micro, count=count, fix=c.set_flag("loss_type", "dapo"))


@rule("BAT107", "ray-global-batch-missing", routes=("megatron rlhf",), since="4.3")
def ray_global_batch_missing(c: JobCheck) -> Iterator[Finding]:
    """Megatron-Ray GRPO without `global_batch_size` in the YAML.

    The driver compares the value before any default applies.

    In the log: `TypeError: '<=' not supported between instances of 'NoneType' and 'int'`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: [data.jsonl]
    num_train_epochs: 1
    reward_funcs: [accuracy]
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: [data.jsonl]
    num_train_epochs: 1
    global_batch_size: 64
    reward_funcs: [accuracy]
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/pipeline.py (_validate_grpo_train_batch_params)
    """
    if c.job.ray is None or kind(c) != "grpo" or "train" not in c.job.ray.groups or not c.v.absent("global_batch_size"):
        return
    count, replicas, micro = whole(c.v.get("num_generations")) or 8, c.v.data_parallel or 1, whole(c.v.get("micro_batch_size")) or 1
    value = count * replicas * micro
    template = "global_batch_size is given neither at the top nor in `train`: the driver compares None with 0; give a multiple of {value}"
    yield c.finding(template, None, flags=["global_batch_size"], value=value, fix=c.set_flag("global_batch_size", str(value * max(1, 64 // value))))
