"""The schedule of a training run: steps between evaluations, checkpoints and logs."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN
from alula.swift.summary import summary

from .context import JobCheck, names
from .registry import TRAIN, rule
from .values import closest, number

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

LONG_RUN = 200  # optimizer steps; who trains fewer starts again without much loss


def _eval_steps(c: JobCheck) -> float | None:
    """eval_steps as transformers uses it: without a value, or with 0, logging_steps."""
    value = c.v.get("eval_steps")
    if value is UNKNOWN:
        return None
    return number(value) or number(c.v.get("logging_steps"))


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
    steps, every = number(c.v.get("save_steps")), _eval_steps(c)
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
    logging = number(c.v.get("logging_steps"))
    evaluates = c.v.get("eval_strategy") == "steps"
    for flag, strategy in (("save_steps", c.v.get("save_strategy") == "steps"), ("eval_steps", evaluates)):
        value = number(c.v.get(flag))
        if strategy and value is not None and value > 1 and value != int(value):
            yield c.finding("--{flag} {value}: above 1 it must be a whole number", flag, flag=flag, value=f"{value:g}", fix=c.set_flag(flag, str(int(value))))
    if logging == 0 and (c.v.get("logging_strategy") == "steps" or (evaluates and number(c.v.get("eval_steps")) in (0, None))):
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
    every, most, epochs = number(c.v.get("save_steps")), c.v.get("max_steps"), number(c.v.get("num_train_epochs"))
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
