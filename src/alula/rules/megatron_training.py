"""Training on Megatron: its length, data, timeouts, settings in JSON, and what is saved of a LoRA."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches
from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import (
    ROUTES,
    entry,
    extra,
    is_moe,
    is_multimodal,
    model_fields,
    numbers,
    on_ray,
    ray_without_config,
    setting,
    short_name,
    token_text,
    whole,
)
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_GROUPED = frozenset({"qwen3_vl_moe", "qwen3_moe_vl", "llama4", "gemma4", "gpt_oss"})


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


@rule("MEG019", "unknown-model-setting", consequence="wrong", confidence="medium", routes=ROUTES, since="4.3")
def unknown_setting(c: JobCheck) -> Iterator[Finding]:
    """A key of `--megatron_extra_kwargs` that the model's configuration does not have.

    The object overrides fields of the configuration that the model is built with, by their Python names. Flags of Megatron-LM's own command line and
    optimizer settings are no such fields.

    In the log: `TypeError: ModelConfig.__init__() got an unexpected keyword argument 'moe_router_topk_scaling'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --megatron_extra_kwargs '{"layernorm_epsilom": 1e-6}'
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --megatron_extra_kwargs '{"layernorm_epsilon": 1e-6}'
    ```

    Source: swift/megatron/model/utils.py:get_mcore_model_config; mcore_bridge/config/model_config.py:ModelConfig
    """
    given = extra(c)
    if not given:
        return
    known = model_fields()
    for name in given:
        if name in known:
            continue
        close = get_close_matches(name, known, 1, 0.8)
        hint = f"; did you mean {close[0]}?" if close else "; megatron-core 0.16 has no such field, newer ones may"
        fix = f"{close[0]} instead of {name}" if close else f"leave {name} out, or make sure that the installed megatron-core has it"
        finding = c.finding("megatron_extra_kwargs: the model configuration has no `{name}`{hint}", "megatron_extra_kwargs", name=name, hint=hint, fix=fix)
        yield finding if close else replace(finding, severity="warning")


@rule("MEG020", "unknown-callback", consequence="wrong", routes=MEGATRON, since="4.0")
def callbacks(c: JobCheck) -> Iterator[Finding]:
    """A callback or a place to report to that Megatron does not know.

    `--report_to` names are callbacks here. They are looked up when the trainer is built, after the weights are loaded; plugins may register more.

    In the log: `KeyError: 'mlflow'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --report_to mlflow
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --report_to tensorboard
    ```

    Source: swift/megatron/trainers/base.py:BaseMegatronTrainer.__init__; swift/megatron/callbacks/mapping.py
    Not shown on CPU: it shows when the trainer is built, after the model
    """
    if c.v.get("external_plugins") or c.v.get("custom_register_path") or not c.v.known("external_plugins") or "megatron_callbacks" not in c.facts.registries.lists:
        return
    known = c.facts.registries["megatron_callbacks"]
    for flag in ("report_to", "callbacks"):
        use = c.v.use(flag)
        given = use.value if use is not None and not use.maybe and isinstance(use.value, tuple) else ()
        for name in given:
            if isinstance(name, str) and name not in known:
                close = get_close_matches(name, known, 1)
                fix = c.set_flag(flag, close[0]) if close and len(given) == 1 else f"--{flag} among {names(known)}"
                yield c.finding("--{flag} {name} is none of Megatron's callbacks: {known}", flag, flag=flag, name=name, known=names(known), fix=fix)
