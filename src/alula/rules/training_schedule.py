"""The schedule of a training run: steps between evaluations, checkpoints and logs, learning rate, warm-up, precision."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import Any

from alula.run.finding import Finding, Fix
from alula.swift.parse import UNKNOWN
from alula.swift.summary import summary

from .context import JobCheck, names
from .registry import TRAIN, rule
from .values import closest, given


LONG_RUN = 200  # optimizer steps; who trains fewer starts again without much loss


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _eval_steps(c: JobCheck) -> float | None:
    """eval_steps as transformers uses it: without a value, or with 0, logging_steps."""
    value = c.v.get("eval_steps")
    if value is UNKNOWN:
        return None
    return _number(value) or _number(c.v.get("logging_steps"))


@rule("TRN030", "best-model-strategies", routes=TRAIN)
def best_model_strategies(c: JobCheck) -> Iterator[Finding]:
    """`--load_best_model_at_end true` while evaluations and checkpoints do not meet.

    The best model must have been saved where it was evaluated: both strategies are the same, and save_steps is a multiple of eval_steps. Without validation
    data ms-swift sets `eval_strategy no`, so that they differ.

    In the log: `ValueError: --load_best_model_at_end requires the save and eval strategy to match, …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --load_best_model_at_end true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --load_best_model_at_end true --eval_steps 100 --save_steps 200
    ```

    Source: transformers/training_args.py:TrainingArguments._validate_args
    """
    if c.v.get("load_best_model_at_end") is not True or not c.v.known("save_strategy", "eval_strategy", "save_steps", "eval_steps"):
        return
    save, evaluate = c.v.get("save_strategy"), c.v.get("eval_strategy")
    if save == "best" or evaluate not in ("no", "steps", "epoch"):
        return
    if save != evaluate:
        no_data = evaluate == "no" and (c.v.use("eval_strategy") is None or c.v.parsed.by_name["eval_strategy"][-1].value != "no")
        template = "--load_best_model_at_end true needs the same strategy for both: checkpoints {save}, evaluation {evaluate}{why}"
        why = ", since there is no validation data" if no_data else ""
        advice = "--split_dataset_ratio 0.01 or --val_dataset" if no_data else f"--eval_strategy {save}"
        yield c.finding(
            template, "load_best_model_at_end", flags=["save_strategy", "eval_strategy", *(["split_dataset_ratio", "val_dataset"] if no_data else [])], save=save,
            evaluate=evaluate, why=why, related=[("eval_strategy", "evaluation"), ("save_strategy", "checkpoints")], fix=advice,
        )  # fmt: skip
        return
    steps, every = _number(c.v.get("save_steps")), _eval_steps(c)
    if evaluate != "steps" or steps is None or not every or steps % every == 0:
        return
    if steps < 1 and every < 1 and (steps * 1_000_000) % (every * 1_000_000) == 0:
        return
    if (steps < 1) != (every < 1):
        template = "--load_best_model_at_end true: save_steps {steps} and eval_steps {every} mix a share of the run with a number of steps"
        fix: Fix | str = c.set_flag("eval_steps", f"{steps:g}")
    else:
        template = "--load_best_model_at_end true: save_steps {steps} must be a multiple of eval_steps {every}"
        fix = c.set_flag("save_steps", f"{ceil(steps / every) * every:g}")
    yield c.finding(template, "load_best_model_at_end", flags=["save_steps", "eval_steps"], steps=f"{steps:g}", every=f"{every:g}", related=[("save_steps", "checkpoints"), ("eval_steps", "evaluation")], fix=fix)


@rule("TRN031", "unknown-strategy", routes=TRAIN)
def unknown_strategy(c: JobCheck) -> Iterator[Finding]:
    """An `eval_strategy` that transformers does not have, its own or the one it takes over from `save_strategy`.

    `--eval_strategy` defaults to `--save_strategy`. `best` is a way to save, not to evaluate: it needs `--eval_strategy steps` or `epoch` beside it.

    In the log: `ValueError: best is not a valid IntervalStrategy, please select one of ['no', 'steps', 'epoch']`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --save_strategy best
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --save_strategy best --eval_strategy steps
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_eval_strategy; transformers/training_args.py
    """
    value = c.v.get("eval_strategy")
    if not isinstance(value, str) or value in ("no", "steps", "epoch"):
        return
    if c.v.written("eval_strategy"):
        template = "--eval_strategy {value} is none of no, steps, epoch"
        yield c.finding(template, "eval_strategy", value=value, fix=c.set_flag("eval_strategy", closest(value, ("steps", "epoch")) or "steps"))
    else:
        template = "--save_strategy {value} is taken over as eval_strategy, which knows no, steps and epoch: set --eval_strategy too"
        yield c.finding(template, "save_strategy", flags=["eval_strategy"], value=value, fix=c.set_flag("eval_strategy", "steps"))


@rule("TRN032", "broken-interval", routes=TRAIN)
def broken_interval(c: JobCheck) -> Iterator[Finding]:
    """A number of steps that is no whole number, or 0 where it must not be.

    Below 1 save_steps and eval_steps are shares of the run; above they must be whole. `--logging_steps 0` is refused, also as the stand-in for eval_steps 0.

    In the log: `ValueError: --save_steps must be an integer if bigger than 1: 1.5`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --save_steps 1.5
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --save_steps 0.1
    ```

    Source: transformers/training_args.py:TrainingArguments._validate_args
    """
    logging = _number(c.v.get("logging_steps"))
    evaluates = c.v.get("eval_strategy") == "steps"
    for flag, strategy in (("save_steps", c.v.get("save_strategy") == "steps"), ("eval_steps", evaluates)):
        value = _number(c.v.get(flag))
        if strategy and value is not None and value > 1 and value != int(value):
            yield c.finding("--{flag} {value}: above 1 it must be a whole number", flag, flag=flag, value=f"{value:g}", fix=c.set_flag(flag, str(int(value))))
    if logging == 0 and (c.v.get("logging_strategy") == "steps" or (evaluates and _number(c.v.get("eval_steps")) in (0, None))):
        yield c.finding("--logging_steps 0: it must be 1 or more", "logging_steps", fix=c.set_flag("logging_steps", "1"))
    empty = c.v.get("torch_empty_cache_steps")
    if isinstance(empty, int) and empty <= 0:
        yield c.finding("--torch_empty_cache_steps {value}: it must be 1 or more", "torch_empty_cache_steps", value=empty, fix=c.drop_flag("torch_empty_cache_steps"))


@rule("TRN033", "scheduler", routes=TRAIN)
def scheduler(c: JobCheck) -> Iterator[Finding]:
    """A learning-rate schedule that transformers does not have, or one that needs evaluations and gets none.

    `reduce_lr_on_plateau` and `greedy` follow the evaluation metric.

    In the log: `ValueError: cosin is not a valid SchedulerType, please select one of […]`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --lr_scheduler_type cosin
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --lr_scheduler_type cosine
    ```

    Source: transformers/training_args.py:TrainingArguments.__post_init__
    """
    value = c.v.get("lr_scheduler_type")
    if not isinstance(value, str) or not c.v.written("lr_scheduler_type"):
        return
    known = c.facts.transformers_choices("lr_scheduler_type")
    if known and value not in known:
        close = closest(value, known)
        template = "--lr_scheduler_type {value} is none of {known}"
        yield c.finding(template, "lr_scheduler_type", value=value, known=names(known, 14), fix=c.set_flag("lr_scheduler_type", close) if close else "--lr_scheduler_type cosine")
    elif value in ("reduce_lr_on_plateau", "greedy") and c.v.get("eval_strategy") == "no":
        template = "--lr_scheduler_type {value} follows the evaluation metric, and nothing is evaluated"
        yield c.finding(template, "lr_scheduler_type", flags=["eval_strategy"], value=value, fix="--val_dataset <file> or --split_dataset_ratio 0.01")


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
    ratio, steps = _number(c.v.get("warmup_ratio")), _number(c.v.get("warmup_steps"))
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
        value = _number(c.v.get(flag))
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
    value = _number(c.v.get("learning_rate"))
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
    jump). ms-swift's own default for full training is 1e-5.

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
    value = _number(c.v.get("learning_rate"))
    if c.v.rlhf_type not in ("grpo", "ppo") or c.v.get("tuner_type") != "full" or value is None or not 1e-5 <= value < 0.1:
        return
    default = "" if c.v.written("learning_rate") else " (the default of full training)"
    if default and c.v.open_ended:
        return
    template = "learning rate {value}{default} for full-parameter {kind}: about 10 times what such runs use; --learning_rate 1e-6, with a short warm-up"
    yield c.finding(template, "learning_rate", flags=["tuner_type"], value=f"{value:g}", default=default, kind=str(c.v.rlhf_type).upper(), fix=c.set_flag("learning_rate", "1e-6"))


@rule("TRN041", "nothing-saved", severity="warning", consequence="waste", routes=TRAIN)
def nothing_saved(c: JobCheck) -> Iterator[Finding]:
    """No checkpoint is ever written, or none but the last.

    `--save_strategy no` skips the last one too. `--save_strategy best` saves after evaluations, and without validation data there are none before the end.

    In the log: `last_model_checkpoint: None`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --save_strategy no
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --save_strategy epoch
    ```

    Source: swift/trainers/patcher.py:DefaultFlowCallbackNew
    """
    save = c.v.get("save_strategy")
    if save == "no":
        yield c.finding("--save_strategy no: the trained weights are not saved, not even at the end", "save_strategy", fix=c.set_flag("save_strategy", "epoch"))
    elif save == "best" and c.v.get("eval_strategy") == "no":
        template = "--save_strategy best saves after evaluations, and there are none: only the last step is saved"
        yield c.finding(template, "save_strategy", flags=["eval_strategy"], fix="--eval_strategy steps with --val_dataset or --split_dataset_ratio")


@rule("TRN042", "saved-only-at-the-end", severity="warning", consequence="waste", routes=TRAIN)
def saved_only_at_the_end(c: JobCheck) -> Iterator[Finding]:
    """`--save_steps` is more than all steps of the run.

    Only the last step is saved then: a crash before it loses everything. Steps are optimizer steps, not samples: with GRPO one epoch has
    rows × num_generations / (per_device_train_batch_size × processes × gradient_accumulation_steps).

    In the log: no `Saving model checkpoint` before the last step

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset AI-MO/NuminaMath-TIR#16000 --reward_funcs accuracy --num_generations 4 \\
        --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --num_train_epochs 1 --save_steps 2000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset AI-MO/NuminaMath-TIR#16000 --reward_funcs accuracy --num_generations 4 \\
        --per_device_train_batch_size 4 --gradient_accumulation_steps 4 --num_train_epochs 1 --save_steps 100
    ```

    Source: swift/trainers/patcher.py:DefaultFlowCallbackNew; transformers/trainer_callback.py:DefaultFlowCallback
    """
    every, most, epochs = _number(c.v.get("save_steps")), c.v.get("max_steps"), _number(c.v.get("num_train_epochs"))
    if c.v.get("save_strategy") != "steps" or not c.v.written("save_steps") or every is None or every <= 1 or not isinstance(most, int) or epochs is None:
        return
    rows = None
    if most <= 0:
        from .beside import data_of

        data = data_of(c)
        rows = data.count if data is not None and c.v.get("packing") is False and c.v.get("streaming") is False else None
        per_epoch = summary(c.v, rows).get("steps_per_epoch") if rows else None
        if not per_epoch or c.v.rlhf_type in ("ppo", UNKNOWN):
            return
        most = ceil(per_epoch * epochs)
    if every <= most or most < LONG_RUN:
        return
    said = f"{rows} rows give {most} optimizer steps" if rows else f"--max_steps {most}"
    better = max(1, most // 10)
    template = "--save_steps {every} is never reached: {said}; only the last step is saved, for example --save_steps {better}"
    yield c.finding(template, "save_steps", flags=["max_steps", "dataset"] if rows is None else ["dataset", "num_train_epochs"], every=f"{every:g}", said=said, better=better, fix=c.set_flag("save_steps", str(better)))
