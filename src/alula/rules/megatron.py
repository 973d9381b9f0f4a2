"""Megatron arguments of training that need no look at the parallel sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import (
    AXES,
    ROUTES,
    entry,
    is_multimodal,
    on_ray,
    ray_without_config,
    short_name,
    sizes,
    whole,
)
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_ATTENTION = ("flash", "fused", "unfused", "local", "auto")
_FLASH = ("flash_2", "flash_3", "flash_4")
_CHECKPOINTS = ("mcore_model", "mcore_adapter", "adapters", "resume_from_checkpoint")
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


@rule("MEG021", "megatron-model-needs-newer-core", severity="warning", confidence="medium", routes=ROUTES, since="4.1")
def newer_core(c: JobCheck) -> Iterator[Finding]:
    """A model that mcore-bridge maps only beside a megatron-core newer than 0.16.

    0.16 is what pip installs today. There the model counts as unknown, with the same message as one that is not supported at all.

    In the log: `ValueError: Model: … is not supported.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --model_type nemotron_h --dataset data.jsonl --num_train_epochs 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__; mcore_bridge/model/register.py
    """
    known = entry(c)
    if known is not None and known.megatron and known.megatron_conditional and c.v.get("bridge_backend", "mcore-bridge") == "mcore-bridge":
        yield c.finding(
            "{model} (model type {kind}) needs a megatron-core newer than 0.16, which pip installs: else `Model: … is not supported`", "model", flags=["model_type"],
            model=short_name(c), kind=known.model_type, fix="install megatron-core from its repository, or train without Megatron",
        )  # fmt: skip


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


@rule("MEG011", "several-megatron-adapters", routes=ROUTES, since="4.0")
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
