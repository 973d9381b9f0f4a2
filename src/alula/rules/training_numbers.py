"""Numbers of a training run: warm-up, precision, sizes, learning rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .registry import TRAIN, rule
from .values import given, number

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

    from .context import JobCheck


@rule("TRN034", "warmup", routes=TRAIN, since="4.5")
def warmup(c: JobCheck) -> Iterator[Finding]:
    """Warm-up given twice, negative, or as a share of 1 and more.

    `--warmup_ratio` is a share of all steps, `--warmup_steps` their number (or, below 1, a share as well).

    In the log: ``ValueError: `warmup_ratio` and `warmup_steps` cannot be set at the same time.``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --warmup_ratio 0.05 --warmup_steps 100
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --warmup_ratio 0.05
    ```

    Source: swift/trainers/arguments.py:TrainArgumentsMixin._handle_hf_removed_args
    """
    ratio, steps = number(c.v.get("warmup_ratio")), number(c.v.get("warmup_steps"))
    if ratio and steps:
        template = "--warmup_ratio {ratio} and --warmup_steps {steps}: only one of them may be set"
        yield c.finding(template, "warmup_ratio", flags=["warmup_steps"], ratio=f"{ratio:g}", steps=f"{steps:g}", related=[("warmup_steps", "also here")], fix=c.drop_flag("warmup_ratio"))
    elif ratio is not None and ratio >= 1:
        template = "--warmup_ratio {ratio} is a share and must be below 1; for a number of steps: --warmup_steps {steps}"
        yield c.finding(template, "warmup_ratio", flags=["warmup_steps"], ratio=f"{ratio:g}", steps=f"{ratio:g}", fix=f"--warmup_steps {ratio:g}")
    elif (ratio is not None and ratio < 0) or (steps is not None and steps < 0):
        at = "warmup_ratio" if ratio is not None and ratio < 0 else "warmup_steps"
        yield c.finding("--{flag} {value} is negative", at, flag=at, value=f"{ratio if at == 'warmup_ratio' else steps:g}", fix=c.drop_flag(at))


_QUANTISED = ("awq", "gptq", "int4", "int8", "fp8", "bnb", "4bit", "8bit")


def quantised_name(model: str) -> bool:
    """True when a model's name says that its weights are quantised."""
    return any(mark in model.lower() for mark in _QUANTISED)


def weights_dtype(c: JobCheck) -> str | None:
    """`--torch_dtype`, else bfloat16 for the checkpoints of known architectures (all of them have it), else None."""
    dtype, model = given(c, "torch_dtype"), given(c, "model")
    if isinstance(dtype, str):
        return dtype
    if dtype is None and isinstance(model, str) and not quantised_name(model) and c.shape is not None:
        return "bfloat16"
    return None


@rule("TRN035", "two-precisions", routes=TRAIN)
def two_precisions(c: JobCheck) -> Iterator[Finding]:
    """fp16 and bf16 at once.

    What is not given follows `--torch_dtype`: bfloat16 turns bf16 on, float16 and float32 turn fp16 on. `--fp16 true` alone therefore meets the bf16 of a
    bfloat16 checkpoint.

    In the log: `ValueError: At most one of fp16 and bf16 can be True, but not both`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --torch_dtype bfloat16 --fp16 true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --torch_dtype float16
    ```

    Source: swift/arguments/base_args/model_args.py:ModelArguments._init_mixed_precision; transformers/training_args.py
    """
    fp16, bf16, dtype = given(c, "fp16"), given(c, "bf16"), weights_dtype(c)
    if UNKNOWN in (fp16, bf16):
        return
    assumed = "" if c.v.written("torch_dtype") else ", which its checkpoint has"
    on_fp16 = fp16 if fp16 is not None else dtype in ("float16", "float32")
    on_bf16 = bf16 if bf16 is not None else dtype == "bfloat16"
    if on_fp16 is True and on_bf16 is True:
        said = [f"--{flag} true" for flag in ("fp16", "bf16") if c.v.written(flag)]
        cause = f" and torch_dtype {dtype}{assumed}" if len(said) < 2 else ""
        at = "fp16" if c.v.written("fp16") else "bf16"
        wanted = {"fp16": "float16", "bf16": "bfloat16"}[at]
        fix: Fix | str = c.drop_flag(at) if len(said) == 2 else c.set_flag("torch_dtype", wanted)
        template = "{given}{cause} turn on fp16 and bf16 at once: one of them; --torch_dtype {wanted} alone says it all"
        yield c.finding(template, at, flags=["fp16", "bf16", "torch_dtype"], given=" and ".join(said), cause=cause, wanted=wanted, fix=fix)
    if c.v.get("fp16_full_eval") is True and c.v.get("bf16_full_eval") is True:
        yield c.finding("--fp16_full_eval and --bf16_full_eval exclude each other", "fp16_full_eval", flags=["bf16_full_eval"], fix=c.drop_flag("fp16_full_eval"))


@rule("TRN036", "prefetch-without-workers", routes=TRAIN)
def prefetch_without_workers(c: JobCheck) -> Iterator[Finding]:
    """`--dataloader_prefetch_factor` with `--dataloader_num_workers 0`.

    Without worker processes nothing is fetched ahead.

    In the log: `ValueError: --dataloader_prefetch_factor can only be set when data is loaded in a different process, …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --dataloader_num_workers 0 --dataloader_prefetch_factor 2
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --dataloader_num_workers 2 --dataloader_prefetch_factor 2
    ```

    Source: transformers/training_args.py:TrainingArguments._validate_args
    """
    factor = c.v.get("dataloader_prefetch_factor")
    if c.v.get("dataloader_num_workers") == 0 and isinstance(factor, int):
        template = "--dataloader_prefetch_factor {factor} needs workers, and --dataloader_num_workers is 0"
        yield c.finding(template, "dataloader_prefetch_factor", flags=["dataloader_num_workers"], factor=factor, fix=c.drop_flag("dataloader_prefetch_factor"))


@rule("TRN037", "batch-size-zero", routes=TRAIN)
def batch_size_zero(c: JobCheck) -> Iterator[Finding]:
    """`--per_device_train_batch_size 0`, while gradient_accumulation_steps must be computed from it.

    ms-swift aims at 16 samples an optimizer step and divides by the batch size.

    In the log: `ZeroDivisionError: division by zero`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 0
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 1
    ```

    Source: swift/trainers/arguments.py:TrainArgumentsMixin.__post_init__
    """
    if c.v.get("per_device_train_batch_size") == 0 and c.v.get("gradient_accumulation_steps") is None and c.v.absent("gradient_accumulation_steps"):
        yield c.finding("--per_device_train_batch_size 0: at least 1", "per_device_train_batch_size", fix=c.set_flag("per_device_train_batch_size", "1"))


_POSITIVE = ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "max_length", "lora_rank", "sequence_parallel_size", "num_train_epochs")


@rule("TRN038", "not-positive", consequence="wrong", routes=TRAIN)
def not_positive(c: JobCheck) -> Iterator[Finding]:
    """A size that must be at least 1 and is 0 or negative.

    The parser takes any number. The data loader, the optimizer or the tokenizer fails with it later, or nothing is trained.

    In the log: `ValueError: batch_size should be a positive integer value, but got batch_size=-1`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --gradient_accumulation_steps 0
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --gradient_accumulation_steps 1
    ```

    Source: torch/utils/data/sampler.py:BatchSampler; transformers/trainer.py
    Not shown on CPU: the number is used when training starts
    """
    refused = c.v.get("gradient_accumulation_steps") is None  # TRN037
    for flag in _POSITIVE:
        value = number(c.v.get(flag))
        if value is None or value > 0 or not c.v.written(flag):
            continue
        if flag == "num_train_epochs" and c.v.get("max_steps") not in (-1, 0, None):
            continue
        if flag == "per_device_train_batch_size" and value == 0 and refused:
            continue
        yield c.finding("--{flag} {value}: it must be above 0", flag, flag=flag, value=f"{value:g}", fix=c.set_flag(flag, "1"))


@rule("TRN039", "learning-rate", consequence="wrong", routes=TRAIN)
def learning_rate(c: JobCheck) -> Iterator[Finding]:
    """A learning rate of 0, below 0, or so high that any model diverges.

    Usual values: 1e-6 (full, RL) to 1e-4 (LoRA). A value of 0.1 and more is a lost exponent.

    In the log: `ValueError: Invalid learning rate: -1.0`, a flat loss, or a loss that becomes nan

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --learning_rate 1
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --learning_rate 1e-4
    ```

    Source: torch/optim/adamw.py:AdamW
    Not shown on CPU: the optimizer is built later
    """
    value = number(c.v.get("learning_rate"))
    if value is None or not c.v.written("learning_rate"):
        return
    fix = "--learning_rate 1e-5" if c.v.get("tuner_type") == "full" else "--learning_rate 1e-4"
    if value < 0 or (value == 0 and c.v.get("vit_lr") is None and c.v.get("aligner_lr") is None):
        yield c.finding("--learning_rate {value}: nothing is learnt; it must be above 0", "learning_rate", value=f"{value:g}", fix=fix)
    elif value >= 0.1 and c.v.get("optim") not in ("sgd", UNKNOWN) and c.v.get("optimizer") is None:
        yield c.finding("--learning_rate {value} makes every model diverge: a lost exponent? 1e-6 to 1e-4 is usual", "learning_rate", value=f"{value:g}", fix=fix)


@rule("TRN040", "high-rl-learning-rate", severity="warning", confidence="medium", consequence="wrong", routes=("swift rlhf",))
def high_rl_learning_rate(c: JobCheck) -> Iterator[Finding]:
    """Full-parameter GRPO or PPO with a learning rate of 1e-5 or more.

    Policy gradients are noisy: published full-parameter runs use about 1e-6. At 1e-5 the policy leaves its reference within a few steps (kl and grad_norm
    jump).

    In the log: kl above 0.5 or grad_norm above 10 in the first steps

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --reward_funcs accuracy --tuner_type full --deepspeed zero3 \\
        --learning_rate 1e-5
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --reward_funcs accuracy --tuner_type full --deepspeed zero3 \\
        --learning_rate 1e-6 --warmup_ratio 0.05
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_override
    """
    value = _rl_rate(c)
    if value is not None and c.v.written("learning_rate"):
        template = "learning rate {value} for full-parameter {kind}: about 10 times what such runs use; --learning_rate 1e-6, with a short warm-up"
        yield c.finding(template, "learning_rate", flags=["tuner_type"], value=f"{value:g}", kind=str(c.v.rlhf_type).upper(), fix=c.set_flag("learning_rate", "1e-6"))


@rule("TRN043", "default-rl-learning-rate", severity="info", confidence="medium", consequence="wrong", routes=("swift rlhf",))
def default_rl_learning_rate(c: JobCheck) -> Iterator[Finding]:
    """Full-parameter GRPO or PPO with the default learning rate, 1e-5.

    The default is meant for supervised training; full-parameter policy gradients use about 1e-6 (see TRN040).

    In the log: kl above 0.5 or grad_norm above 10 in the first steps

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --reward_funcs accuracy --tuner_type full --deepspeed zero3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --reward_funcs accuracy --tuner_type full --deepspeed zero3 \\
        --learning_rate 1e-6
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_override
    """
    value = _rl_rate(c)
    if value is not None and c.v.absent("learning_rate"):
        template = "--learning_rate is not given: {value}, the default of full training, is about 10 times what full-parameter {kind} uses; --learning_rate 1e-6"
        yield c.finding(template, "tuner_type", flags=["learning_rate"], value=f"{value:g}", kind=str(c.v.rlhf_type).upper(), fix=c.set_flag("learning_rate", "1e-6"))


def _rl_rate(c: JobCheck) -> float | None:
    """The learning rate of full-parameter GRPO or PPO where it is high; else None."""
    value = number(c.v.get("learning_rate"))
    high = c.v.rlhf_type in ("grpo", "ppo") and c.v.get("tuner_type") == "full" and value is not None and 1e-5 <= value < 0.1
    return value if high else None
