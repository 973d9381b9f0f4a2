"""Megatron arguments of training that need no look at the parallel sizes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import (
    AXES,
    ROUTES,
    entry,
    is_moe,
    is_multimodal,
    numbers,
    on_ray,
    ray_without_config,
    setting,
    short_name,
    sizes,
    token_text,
    whole,
)
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_ATTENTION = ("flash", "fused", "unfused", "local", "auto")
_FLASH = ("flash_2", "flash_3", "flash_4")
_CHECKPOINTS = ("mcore_model", "mcore_adapter", "adapters", "resume_from_checkpoint")
_GROUPED = frozenset({"qwen3_vl_moe", "qwen3_moe_vl", "llama4", "gemma4", "gpt_oss"})
_WEIGHT_DECAY_TYPES = ("qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen4_exp")


@rule("MEG001", "megatron-model-missing", routes=ROUTES, since="4.0")
def model_missing(c: JobCheck) -> Iterator[Finding]:
    """No model is named, and no checkpoint that could name it.

    The architecture is read from the Hugging Face config of `--model`, also when the weights come from a Megatron checkpoint (which names its model in its
    `args.json`) and when nothing is loaded (`--perform_initialization`).

    In the log: `ValueError: Please set --model <model_id_or_path>, model: None`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --dataset data.jsonl --num_train_epochs 1 --perform_initialization true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --perform_initialization true
    ```

    Source: swift/arguments/base_args/model_args.py:ModelArguments.__post_init__; swift/megatron/arguments/sft_args.py:_init_ckpt_dir
    """
    if ray_without_config(c) or not c.v.absent("model") or any(c.v.get(name) for name in _CHECKPOINTS) or not c.v.known(*_CHECKPOINTS):
        return
    yield c.finding("no --model: Megatron reads the architecture from it (or from the args.json of --mcore_model or --mcore_adapter)", flags=["model"], fix="--model <id or folder>")


@rule("MEG002", "megatron-dataset-missing", routes=MEGATRON, since="4.0")
def dataset_missing(c: JobCheck) -> Iterator[Finding]:
    """Training without data.

    Either `--dataset` or `--cached_dataset` must be there; validation data alone does not count.

    In the log: `ValueError: self.dataset: [], self.cached_dataset: []. Please input the training dataset.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --num_train_epochs 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1
    ```

    Source: swift/megatron/arguments/sft_args.py:MegatronSftArguments.__post_init__
    """
    if not ray_without_config(c) and c.v.absent("dataset") and c.v.get("cached_dataset") in (None, (), []):
        yield c.finding("no --dataset (and no --cached_dataset): there is nothing to train on", flags=["dataset"], fix="--dataset <id or file>")


@rule("MEG003", "megatron-unsupported-model", routes=ROUTES, since="4.0")
def unsupported(c: JobCheck) -> Iterator[Finding]:
    """A model that the Megatron backend cannot build.

    ms-swift knows more models than mcore-bridge maps to Megatron. The model type is inferred from the last part of the id, or from `--model_type`.

    In the log: `ValueError: Model: OpenBMB/MiniCPM3-4B is not supported.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model OpenBMB/MiniCPM3-4B --dataset data.jsonl --num_train_epochs 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-4B --dataset data.jsonl --num_train_epochs 1
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__; mcore_bridge/model/register.py
    """
    if c.v.get("bridge_backend", "mcore-bridge") != "mcore-bridge":
        return
    known = entry(c)
    if known is not None and not known.megatron:
        hint = f"swift {c.v.route.split()[1]}" if c.v.route != "megatron export" else "swift export"
        finding = c.finding(
            "{model} (model type {kind}) cannot run on Megatron: mcore-bridge has no mapping for it", "model", model=c.v.get("model"), kind=known.model_type,
            fix=f"`{hint}` without Megatron, or a newer mcore-bridge",
        )  # fmt: skip
        yield on_ray(finding, c)
        return
    teacher = c.v.get("teacher_model")
    if isinstance(teacher, str) and c.v.get("teacher_model_type") is None:
        other = c.facts.registries.model_of(teacher)
        if other is not None and not other.megatron:
            finding = c.finding(
                "the teacher {model} (model type {kind}) cannot run on Megatron: mcore-bridge has no mapping for it", "teacher_model", model=teacher, kind=other.model_type,
                fix="serve the teacher with vLLM and name it with --teacher_model_server",
            )  # fmt: skip
            yield on_ray(finding, c)


@rule("MEG004", "freeze-ratio-with-pipeline", routes=ROUTES, since="4.0")
def freeze_ratio(c: JobCheck) -> Iterator[Finding]:
    """`--freeze_parameters_ratio` together with pipeline parallelism.

    The ratio is taken over the parameters of one rank, which is not the whole model in a pipeline.

    In the log: `ValueError: freeze_parameters_ratio is not supported when pipeline_model_parallel_size > 1`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --freeze_parameters_ratio 0.5 --pipeline_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --freeze_parameters_ratio 0.5 --tensor_model_parallel_size 2
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronTunerMixin.__post_init__
    """
    ratio, pipeline = c.v.get("freeze_parameters_ratio"), sizes(c).pipeline
    if isinstance(ratio, (int, float)) and 0 < ratio < 1 and pipeline is not None and pipeline > 1:
        finding = c.finding(
            "--freeze_parameters_ratio {ratio} does not go with pipeline_model_parallel_size {pp}: it needs 1", "freeze_parameters_ratio", flags=[AXES["pipeline"]],
            ratio=ratio, pp=pipeline, fix="--freeze_parameters or --freeze_parameters_regex name the same parameters on every rank",
        )  # fmt: skip
        yield on_ray(finding, c)


@rule("MEG005", "group-by-length-with-padding-free", routes=ROUTES, since="4.0")
def group_by_length(c: JobCheck) -> Iterator[Finding]:
    """`--group_by_length` together with padding-free batches, which are Megatron's default.

    Grouping puts rows of similar length into a batch to save padding; without padding there is nothing to save.

    In the log: `ValueError: group_by_length is not compatible with padding_free.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --group_by_length true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --group_by_length true --padding_free false
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    if c.v.get("group_by_length") is True and c.v.get("padding_free") is True:
        because = "packing switches it on" if c.v.get("packing") is True else "it is on by default" if c.v.absent("padding_free") else "it is on"
        fix = "remove --group_by_length (packing already fills the batches)" if c.v.get("packing") is True else c.set_flag("padding_free", "false")
        yield on_ray(c.finding("--group_by_length excludes padding_free ({because})", "group_by_length", flags=["padding_free"], because=because, fix=fix), c)


@rule("MEG006", "bridge-backend-limits", routes=ROUTES, since="4.5")
def bridge_backend(c: JobCheck) -> Iterator[Finding]:
    """The `megatron-bridge` backend with something it cannot train.

    It takes full-parameter training of text models for causal language modelling only.

    In the log: `ValueError: LoRA training is not yet supported with bridge_backend="megatron-bridge".`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --bridge_backend megatron-bridge --tuner_type lora
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --bridge_backend mcore-bridge --tuner_type lora
    ```

    Source: swift/megatron/arguments/megatron_args.py:_check_bridge_backend
    """
    if c.v.get("bridge_backend") != "megatron-bridge":
        return
    use = c.v.use("tuner_type")
    tuner = c.v.values["tuner_type"].value if use is None else use.value
    reasons = []
    if tuner not in ("full", UNKNOWN) and (use is not None or c.v.get("tuner_type") == tuner):
        reasons.append(("tuner_type", f"tuner_type {tuner}"))
    if is_multimodal(c):
        reasons.append(("model", "a multimodal model"))
    if c.v.get("task_type") not in (None, "causal_lm", UNKNOWN):
        reasons.append(("task_type", f"task_type {c.v.get('task_type')}"))
    for flag, reason in reasons:
        finding = c.finding(
            "--bridge_backend megatron-bridge cannot train {reason}", "bridge_backend", flags=[flag], reason=reason, fix=c.set_flag("bridge_backend", "mcore-bridge")
        )
        yield on_ray(finding, c)


@rule("MEG007", "lora-llm-conditions", routes=ROUTES, since="4.2")
def lora_llm(c: JobCheck) -> Iterator[Finding]:
    """`--tuner_type lora_llm` without what it needs.

    It trains the vision part in full and the language model with LoRA, so it is for multimodal models, saves merged weights and no optimizer state.

    In the log: `` ValueError: `no_save_optim` must be True when using `--tuner_type lora_llm` ``

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-8B-Instruct --dataset data.jsonl --num_train_epochs 1 --tuner_type lora_llm
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-8B-Instruct --dataset data.jsonl --num_train_epochs 1 --tuner_type lora_llm --no_save_optim true
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    if c.v.get("tuner_type") != "lora_llm":
        return
    if is_multimodal(c) is False:
        yield on_ray(c.finding("--tuner_type lora_llm needs a multimodal model", "tuner_type", flags=["model"], fix=c.set_flag("tuner_type", "lora")), c)
    if c.v.get("language_model_only") is True:
        fix = c.set_flag("tuner_type", "lora")
        yield on_ray(c.finding("--tuner_type lora_llm excludes --language_model_only, which drops the vision part", "tuner_type", flags=["language_model_only"], fix=fix), c)
    if c.v.get("merge_lora") is False:
        yield on_ray(c.finding("--tuner_type lora_llm saves merged weights: merge_lora must be true", "tuner_type", flags=["merge_lora"], fix=c.set_flag("merge_lora", "true")), c)
    if c.v.get("no_save_optim") is False:
        fix = c.set_flag("no_save_optim", "true")
        yield on_ray(c.finding("--tuner_type lora_llm cannot save the optimizer: no_save_optim must be true", "tuner_type", flags=["no_save_optim"], fix=fix), c)


@rule("MEG008", "save-total-limit", routes=ROUTES, since="4.0")
def save_limit(c: JobCheck) -> Iterator[Finding]:
    """A number of kept checkpoints that Megatron cannot keep.

    The newest and the best checkpoint must both fit, so at least 2; and old ones cannot be deleted while others are still being written.

    In the log: `ValueError: save_total_limit must be greater than or equal to 2.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --save_total_limit 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --save_total_limit 2
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    limit = whole(c.v.get("save_total_limit"))
    if limit is None:
        return
    if c.v.get("async_save") is True:
        fix = c.drop_flag("save_total_limit")
        yield on_ray(c.finding("--save_total_limit excludes --async_save", "save_total_limit", flags=["async_save"], fix=fix), c)
    if limit < 2:
        yield on_ray(c.finding("--save_total_limit {limit}: Megatron keeps at least 2", "save_total_limit", limit=limit, fix=c.set_flag("save_total_limit", "2")), c)


@rule("MEG009", "attention-backend-unknown", routes=ROUTES, since="4.0")
def attention_backend(c: JobCheck) -> Iterator[Finding]:
    """An attention backend that there is not.

    Megatron has flash, fused, unfused, local and auto; ms-swift 4.4 adds flash_2, flash_3 and flash_4 to choose a version of flash-attn. The names of
    `--attn_impl` (`flash_attention_2`, `sdpa`, `eager`) mean nothing here.

    In the log: `KeyError: 'flash_attention_2'` or `ValueError: invalid literal for int()`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --attention_backend sdpa
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --attention_backend flash
    ```

    Source: swift/megatron/arguments/megatron_args.py:_init_attention_backend
    """
    name = c.v.get("attention_backend")
    if not isinstance(name, str):
        return
    valid = _ATTENTION + (_FLASH if tuple(int(n) for n in c.facts.version.split(".")[:2]) >= (4, 4) else ())
    if name not in valid:
        fix = c.set_flag("attention_backend", "flash")
        yield on_ray(c.finding("--attention_backend {name} is none of: {valid}", "attention_backend", name=name, valid=names(valid), fix=fix), c)


@rule("MEG010", "weight-decay-of-qk-layernorm", routes=ROUTES, since="4.0")
def qk_layernorm(c: JobCheck) -> Iterator[Finding]:
    """`--apply_wd_to_qk_layernorm` for a model that has no use for it.

    Only Qwen3-Next, Qwen3.5 and their successor take it. The message names the wrong model: it prints yours as the supported one.

    In the log: `ValueError: apply_wd_to_qk_layernorm is only supported for qwen3`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --apply_wd_to_qk_layernorm true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    known = entry(c)
    if c.v.get("apply_wd_to_qk_layernorm") is True and known is not None and known.model_type not in _WEIGHT_DECAY_TYPES:
        finding = c.finding(
            "--apply_wd_to_qk_layernorm is for {types} only; {model} is {kind}", "apply_wd_to_qk_layernorm", flags=["model"], types=names(_WEIGHT_DECAY_TYPES),
            model=c.v.get("model"), kind=known.model_type, fix=c.drop_flag("apply_wd_to_qk_layernorm"),
        )  # fmt: skip
        yield on_ray(finding, c)


@rule("MEG011", "several-adapters", routes=ROUTES, since="4.0")
def adapters(c: JobCheck) -> Iterator[Finding]:
    """More than one adapter.

    Megatron loads one LoRA adapter (and one reference adapter).

    In the log: `AssertionError: Currently only support one adapter`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --adapters out/first out/second
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --adapters out/first
    ```

    Source: swift/megatron/arguments/megatron_args.py:_load_adapter_config
    """
    given = c.v.get("adapters")
    if isinstance(given, tuple) and len(given) > 1:
        yield on_ray(c.finding("{count} adapters: Megatron takes one", "adapters", count=len(given), fix="one --adapters; merge the others into the model first"), c)


@rule("MEG012", "no-end-of-training", consequence="wrong", routes=MEGATRON, since="4.0")
def no_end(c: JobCheck) -> Iterator[Finding]:
    """Neither `--train_iters` nor `--num_train_epochs`.

    Megatron has no default length of training. The parser accepts it; the learning-rate schedule multiplies None after the model is built. A streamed
    data set has no length, so that it needs `--train_iters` even with epochs.

    In the log: `TypeError: unsupported operand type(s) for *: 'NoneType' and 'int'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1
    ```

    Source: swift/megatron/utils/megatron_lm_utils.py:get_optimizer_param_scheduler; swift/megatron/arguments/megatron_args.py:init_iters
    Not shown on CPU: the schedule is built after the model, which needs a GPU
    """
    if c.job.ray is not None or ray_without_config(c) or c.v.get("train_iters") is not None:
        return
    epochs = c.v.get("num_train_epochs")
    if epochs is None:
        yield c.finding(
            "neither --train_iters nor --num_train_epochs: Megatron has no default and fails when it builds the schedule", flags=["train_iters", "num_train_epochs"],
            fix=c.set_flag("num_train_epochs", "1") if c.v.get("streaming") is False else "--train_iters N",
        )  # fmt: skip
    elif epochs is not UNKNOWN and c.v.get("streaming") is True:
        yield c.finding(
            "streamed data has no length: --num_train_epochs {epochs} cannot be turned into iterations; give --train_iters", "num_train_epochs",
            flags=["streaming", "train_iters"], epochs=epochs, fix="--train_iters N",
        )  # fmt: skip


@rule("MEG013", "streaming-needs-iterations", consequence="wrong", routes=MEGATRON, since="4.0")
def streaming(c: JobCheck) -> Iterator[Finding]:
    """Streamed data where Megatron needs a length.

    `--save_strategy epoch` counts the rows of an epoch, and evaluation takes its number of iterations from the rows of the validation data unless
    `--eval_iters` says it.

    In the log: `` ValueError: streaming dataset is not supported with `--save_strategy epoch`. ``

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --streaming true --train_iters 1000 --save_strategy epoch
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --streaming true --train_iters 1000 --save_steps 200
    ```

    Source: swift/megatron/arguments/megatron_args.py:init_iters
    Not shown on CPU: it is checked once the data is there, after the arguments
    """
    if c.v.get("streaming") is not True or c.job.ray is not None:
        return
    if c.v.get("save_strategy") == "epoch":
        yield c.finding("--save_strategy epoch needs the length of the data, which streaming hides", "save_strategy", flags=["streaming"], fix="--save_strategy steps --save_steps N")
    iterations = whole(c.v.get("eval_iters"))
    if c.v.get("val_dataset") and iterations is not None and iterations < 0:
        yield c.finding(
            "streamed validation data has no length: give --eval_iters (or 0 for no evaluation)", "val_dataset", flags=["streaming", "eval_iters"], fix="--eval_iters N"
        )


@rule("MEG014", "vision-rates-on-text-model", consequence="wrong", routes=MEGATRON, since="4.0")
def vision_rates(c: JobCheck) -> Iterator[Finding]:
    """A learning rate for the vision part of a text model.

    It fails while the optimizer is made, after the weights are loaded.

    In the log: `AssertionError: vit_lr and aligner_lr are only supported for multimodal models.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --vit_lr 1e-5
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-8B-Instruct --dataset data.jsonl --num_train_epochs 1 --vit_lr 1e-5 --freeze_vit false
    ```

    Source: swift/megatron/trainers/base.py:_get_param_groups
    Not shown on CPU: the optimizer is made after the model, which needs a GPU
    """
    if is_multimodal(c) is not False:
        return
    for name in ("vit_lr", "aligner_lr"):
        if isinstance(c.v.get(name), (int, float)):
            yield c.finding("--{name} is for multimodal models; {model} has no vision part", name, flags=["model"], name=name, model=c.v.get("model"), fix=c.drop_flag(name))
            return


@rule("MEG015", "timeout-in-minutes", severity="warning", consequence="wrong", confidence="medium", routes=ROUTES, since="4.0")
def timeout(c: JobCheck) -> Iterator[Finding]:
    """A timeout of collective operations that looks like minutes.

    ms-swift 3.x had `--distributed_timeout_minutes`; `--ddp_timeout` counts seconds. Below 60 the process groups get a timeout of zero minutes; a few
    hundred seconds end the run at the first long checkpoint or rollout.

    In the log: `Watchdog caught collective operation timeout`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --ddp_timeout 60
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --ddp_timeout 3600
    ```

    Source: swift/megatron/utils/megatron_lm_utils.py:_initialize_mpu
    """
    seconds = whole(c.v.get("ddp_timeout"))
    if seconds is not None and seconds <= 600:
        note = f", which Megatron's groups round down to {seconds // 60} minute(s)"
        yield c.finding(
            "--ddp_timeout {seconds} is {seconds} seconds{note}; if minutes were meant, write {wanted}", "ddp_timeout", seconds=seconds, note=note, wanted=seconds * 60,
            fix=c.set_flag("ddp_timeout", str(max(seconds, 1) * 60)),
        )  # fmt: skip


@rule("MEG016", "json-flag-unreadable", routes=ROUTES, since="4.0")
def json_flags(c: JobCheck) -> Iterator[Finding]:
    """A flag that takes a JSON object and got something that cannot be made one.

    ms-swift repairs lost quotes, so only text that holds no object at all, or one of the wrong kind, stops it.

    In the log: `TypeError` or `AttributeError: 'list' object has no attribute 'items'` in megatron_args.py

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --task_type embedding --mrl_dims "[32, 64]"
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --task_type embedding --mrl_dims '{"32": 1.0, "64": 1.0}'
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    for name in ("megatron_extra_kwargs", "mrl_dims", "vit_gradient_checkpointing_kwargs"):
        text = token_text(c.v.token(name))
        if text is None or not c.v.written(name) or os.path.exists(os.path.join(c.whole.cwd, text)):
            continue
        try:
            kind = type(json.loads(text)).__name__
        except ValueError:
            if "{" in text:
                continue  # ms-swift tries to repair it; what comes out cannot be said
            kind = "no JSON"
        if kind == "dict":
            continue
        example = '{"64": 1.0}' if name == "mrl_dims" else '{"key": value}'
        finding = on_ray(c.finding("--{name} must be a JSON object; this is {kind}", name, name=name, kind=kind, fix=f"--{name} '{example}'"), c)
        yield replace(finding, consequence="wrong") if kind != "no JSON" and name != "mrl_dims" else finding


@rule("MEG017", "mtp-shared-without-layers", consequence="wrong", routes=ROUTES, since="4.2")
def mtp(c: JobCheck) -> Iterator[Finding]:
    """Shared MTP weights without MTP layers.

    `--mtp_shared_weights` runs one MTP layer `--mtp_num_layers` times; without a number nothing is built, and an assertion says so.

    In the log: `AssertionError` in mcore_bridge/config/model_config.py

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --mtp_shared_weights true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --mtp_shared_weights true --mtp_num_layers 1
    ```

    Source: mcore_bridge/config/model_config.py:ModelConfig.__post_init__
    """
    if setting(c, "mtp_shared_weights") is True and setting(c, "mtp_num_layers") is None:
        yield c.finding("--mtp_shared_weights needs --mtp_num_layers", "mtp_shared_weights", flags=["mtp_num_layers"], fix=c.set_flag("mtp_num_layers", "1"))


@rule("MEG018", "lora-on-grouped-experts", severity="warning", consequence="wrong", confidence="medium", routes=MEGATRON, since="4.0")
def lora_experts(c: JobCheck) -> Iterator[Finding]:
    """A LoRA over experts that transformers stores as one tensor.

    In Qwen3-VL-MoE, Llama 4, Gemma 4 and GPT-OSS the experts of a layer are one tensor in transformers and single matrices in Megatron, so that the
    adapter's weights fit neither PEFT's merge nor an inference engine. Merged weights do: `--merge_lora true` (the default where safetensors are saved)
    writes them beside every checkpoint, `megatron export --to_hf true --merge_lora true` later. Written out, it says that only these will be used.

    In the log: `LoRA weights may not be available for inference. It is recommended to set --merge_lora true`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-30B-A3B-Instruct --dataset data.jsonl --num_train_epochs 1 --tuner_type lora --expert_model_parallel_size 8 --merge_lora false
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-VL-30B-A3B-Instruct --dataset data.jsonl --num_train_epochs 1 --tuner_type lora --expert_model_parallel_size 8 --merge_lora true
    ```

    Source: mcore_bridge/bridge/gpt_bridge.py:_get_hf_experts_attr; swift/megatron/trainers/base.py:save_checkpoint
    """
    known, shape = entry(c), numbers(c)
    kinds = {known.model_type if known is not None else "", shape.model_type if shape is not None else ""}
    if c.v.get("tuner_type") != "lora" or not is_moe(c) or not kinds & _GROUPED or not _on_experts(c):
        return
    merged = c.v.get("merge_lora")
    if merged is UNKNOWN or (merged is True and c.v.written("merge_lora")):
        return
    vision = is_multimodal(c) is True and c.v.get("freeze_vit") is False
    also = " and the vision part" if vision else ""
    state = "merge_lora is false: nothing usable is saved" if merged is False else "use the `checkpoint-N-merged` folders (merge_lora is on by default), not the adapter"
    yield c.finding(
        "the LoRA spans {model}'s fused experts{also}, and such an adapter cannot be merged or loaded by PEFT: {state}; or merge with `megatron export`",
        "merge_lora" if c.v.written("merge_lora") else "tuner_type", flags=["merge_lora", "tuner_type", *(["freeze_vit"] if vision else [])], model=short_name(c), also=also,
        state=state, fix=c.set_flag("merge_lora", "true"),
    )  # fmt: skip


def _on_experts(c: JobCheck) -> bool:
    modules = c.v.get("target_modules")
    return c.v.get("target_regex") is None and (modules is None or (isinstance(modules, tuple) and "all-linear" in modules))
