"""Conversions between Hugging Face and Megatron checkpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .mcore import numbers, short_name, whole
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import JobCheck

MEGATRON_EXPORT = ("megatron export",)
_CHECKPOINT = re.compile(r"^checkpoint-\d+$")


@rule("EXP101", "export-direction", routes=MEGATRON_EXPORT, since="4.0")
def direction(c: JobCheck) -> Iterator[Finding]:
    """`megatron export` without a direction, or with both.

    It must be told whether the result is for Hugging Face or for Megatron. Without either it stumbles over its own output folder, or, if one is given, ends
    without doing anything. Given both, it converts to Hugging Face.

    In the log: `UnboundLocalError: cannot access local variable 'suffix' where it is not associated with a value`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --mcore_model megatron_output/v0 --tensor_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --mcore_model megatron_output/v0 --tensor_model_parallel_size 2 --to_hf true
    ```

    Source: swift/megatron/arguments/export_args.py:MegatronExportArguments._init_output_dir
    """
    ways = (c.v.get("to_hf"), c.v.get("to_mcore"))
    advice = "to_hf" if c.v.written("mcore_model") or c.v.written("mcore_adapter") else "to_mcore"
    if ways == (False, False):
        finding = c.finding(
            "neither --to_hf nor --to_mcore: {effect}", flags=["to_hf", "to_mcore"], fix=c.set_flag(advice, "true"),
            effect="it fails on its output folder" if c.v.absent("output_dir") else "nothing is converted",
        )  # fmt: skip
        yield finding if c.v.absent("output_dir") else replace(finding, consequence="wrong")
    elif ways == (True, True):
        yield replace(c.finding("--to_hf and --to_mcore exclude each other: only to_hf is done", "to_mcore", flags=["to_hf"], fix=c.drop_flag("to_mcore")), consequence="wrong")


@rule("EXP102", "export-batch-not-divisible", routes=MEGATRON_EXPORT, since="4.0")
def export_batch(c: JobCheck) -> Iterator[Finding]:
    """An export on more data parallel ranks than the (unused) batch divides by.

    Nothing is trained, but the batch arithmetic of training is checked all the same; `--global_batch_size` is 16 by default.

    In the log: `ValueError: global batch size (16) is not divisible by micro batch size (1) times data parallel size (32).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 NNODES=4 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron export --model Qwen/Qwen3-8B --to_mcore true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 NNODES=4 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron export --model Qwen/Qwen3-8B --to_mcore true --tensor_model_parallel_size 8
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments._init_distributed
    """
    total, micro, data = whole(c.v.get("global_batch_size")), whole(c.v.get("micro_batch_size")), c.v.data_parallel
    if total is None or not micro or not data or total % (micro * data) == 0:
        return
    default = "" if c.v.written("global_batch_size") else " (the default)"
    yield c.finding(
        "global_batch_size {total}{default} must be a multiple of micro_batch_size {micro} × {data} data parallel ranks = {unit}, although nothing is trained",
        "global_batch_size", flags=["micro_batch_size", "tensor_model_parallel_size"], total=total, default=default, micro=micro, data=data, unit=micro * data,
        fix=c.set_flag("global_batch_size", str(micro * data), f"--global_batch_size {micro * data}, or cut the model over more ranks"),
    )  # fmt: skip


@rule("EXP103", "adapter-is-already-peft", severity="warning", consequence="wrong", confidence="medium", routes=("megatron export", "megatron sft", "megatron pt", "megatron rlhf"))
def already_peft(c: JobCheck) -> Iterator[Finding]:
    """A Megatron adapter that is already a PEFT adapter.

    With `--save_safetensors` (the default since 3.12) training saves a LoRA as `adapter_model.safetensors`: it needs no conversion. `--mcore_adapter` (3.x:
    `--adapter_load`) reads Megatron's own format, which such a checkpoint holds only where the optimizer was saved too.

    In the log: `CheckpointingException` or `FileNotFoundError` while the adapter is loaded

    Wrong:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --mcore_adapter megatron_output/Qwen3-8B/v0/checkpoint-300 --to_hf true --merge_lora true --tensor_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 megatron export --adapters megatron_output/Qwen3-8B/v0/checkpoint-300 --to_hf true --merge_lora true --tensor_model_parallel_size 2
    ```

    Source: swift/megatron/trainers/base.py:save_checkpoint; swift/megatron/utils/megatron_lm_utils.py:load_mcore_checkpoint
    """
    path = _adapter_path(c)
    if path is None:
        return
    folder = os.path.join(c.whole.cwd, path)
    to_hf = c.v.route == "megatron export" and c.v.get("to_hf") is True
    if os.path.isdir(folder):
        if not os.path.exists(os.path.join(folder, "adapter_config.json")) or _has_mcore_weights(folder):
            return
        template = "{path} holds a PEFT adapter (adapter_config.json) and no Megatron weights: name it with --adapters"
    elif to_hf and _CHECKPOINT.match(os.path.basename(path.rstrip("/"))):
        template = (
            "{path} is named as training saves it: if it holds adapter_config.json (save_safetensors, the default) it already is a PEFT adapter and needs no conversion; "
            "--mcore_adapter reads Megatron's own format"
        )
    else:
        return
    advice = f"use it as it is: `swift infer --adapters {path}`; to merge: `swift export --adapters {path} --merge_lora true` or `megatron export --adapters {path} --to_hf true`"
    yield c.finding(template, "mcore_adapter", flags=["mcore_adapter", "adapters"], path=path, fix=advice)


def _adapter_path(c: JobCheck) -> str | None:
    """`--mcore_adapter`, also under its 3.x name where this version does not know that."""
    value = c.v.get("mcore_adapter") or c.v.get("adapter_load")
    if isinstance(value, str):
        return value
    words = c.job.argv
    return next((words[at + 1].text for at, token in enumerate(words[:-1]) if token.text == "--adapter_load" and words[at + 1].known), None)


def _has_mcore_weights(folder: str) -> bool:
    """Whether a checkpoint holds Megatron's sharded weights beside the file that only says how it was made."""
    try:
        steps = [entry for entry in os.scandir(folder) if entry.name.startswith("iter_") and entry.is_dir()]
        return any(name != "common.pt" for step in steps for name in os.listdir(step.path))
    except OSError:
        return True


@rule("EXP104", "conversion-loses-mtp", severity="warning", consequence="wrong", confidence="medium", routes=("swift export", "megatron export"))
def mtp(c: JobCheck) -> Iterator[Finding]:
    """A conversion that leaves out the model's MTP layers.

    Multi-token-prediction layers are built and converted only when `--mtp_num_layers` asks for them, which `swift export` cannot; without it the result is
    smaller by these layers. They matter for speculative decoding and for training MTP further. Converting to Hugging Face, `--save_missing_weights true`
    copies them from the original instead.

    In the log: nothing, or a list of unknown keys

    Wrong:
    ```sh
    swift export --model deepseek-ai/DeepSeek-R1 --to_mcore true --torch_dtype bfloat16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron export --model deepseek-ai/DeepSeek-R1 --to_mcore true --torch_dtype bfloat16 --expert_model_parallel_size 8 --mtp_num_layers 1
    ```

    Source: mcore_bridge/bridge/gpt_bridge.py:_convert (mtp_num_layers)
    """
    shape = numbers(c)
    way = next((name for name in ("to_mcore", "to_hf") if c.v.get(name) is True), None)
    if shape is None or not shape.mtp_layers or way is None:
        return
    if c.v.get("mtp_num_layers") is not None or c.v.get("save_missing_weights") not in (None, False):
        return
    count = shape.mtp_layers
    if c.v.route == "swift export":
        fix = f"megatron export … --{way} true --mtp_num_layers {count}"
    else:
        fix = f"--mtp_num_layers {count}" + (", or --save_missing_weights true" if way == "to_hf" and "save_missing_weights" in c.v.flags else "")
    yield c.finding(
        "{model} has {count} MTP layer(s), which are converted only with --mtp_num_layers {count}: the result will lack them", way, flags=["mtp_num_layers"],
        model=short_name(c), count=count, fix=fix,
    )  # fmt: skip


@rule("EXP105", "precision-test-of-fp8", consequence="wrong", routes=MEGATRON_EXPORT, since="4.0")
def precision_test(c: JobCheck) -> Iterator[Finding]:
    """A test of the conversion's precision for an fp8 model.

    The comparison is not implemented for fp8; it fails after the conversion.

    In the log: `ValueError: fp8 models currently do not support testing convert_precision.`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --to_hf true --fp8_format e4m3 --fp8_recipe blockwise --fp8_param_gather true --tensor_model_parallel_size 2 --test_convert_precision true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --to_hf true --fp8_format e4m3 --fp8_recipe blockwise --fp8_param_gather true --tensor_model_parallel_size 2
    ```

    Source: swift/megatron/utils/convert_utils.py:test_convert_precision
    Not shown on CPU: it is raised after the conversion
    """
    if c.v.get("test_convert_precision") is True and isinstance(c.v.get("fp8_format"), str):
        yield c.finding("--test_convert_precision does not work with --fp8_format {kind}", "test_convert_precision", flags=["fp8_format"], kind=c.v.get("fp8_format"), fix=c.drop_flag("test_convert_precision"))


@rule("EXP106", "export-folder-exists", severity="warning", routes=("swift export", "swift merge-lora", "megatron export"), since="4.0")
def exists(c: JobCheck) -> Iterator[Finding]:
    """The folder that the export would write is already there.

    Exports never write into an existing folder unless `--exist_ok true` is given. This is said only where the folder is on this disk.

    In the log: `` FileExistsError: args.output_dir: `…` already exists. ``

    Wrong:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true --output_dir .
    ```

    Right:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true --output_dir output/merged
    ```

    Source: swift/arguments/export_args.py:ExportArguments._init_output_dir; swift/megatron/arguments/export_args.py:MegatronExportArguments._init_output_dir
    """
    path = c.v.get("output_dir")
    if isinstance(path, str) and c.v.written("output_dir") and c.v.get("exist_ok", False) is False and os.path.exists(os.path.join(c.whole.cwd, os.path.expanduser(path))):
        yield c.finding("the output folder {path} already exists here", "output_dir", flags=["exist_ok"], path=path, fix="another --output_dir, or --exist_ok true")
