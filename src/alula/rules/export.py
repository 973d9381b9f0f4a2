"""Exports: merging and quantisation; and what `swift infer` and `swift deploy` refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import numbers, short_name
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

EXPORT = ("swift export",)
MERGE = ("swift export", "swift merge-lora")
ENCODE_TASKS = ("embedding", "seq_cls", "reranker", "generative_reranker")
_ACTIONS = ("merge_lora", "quant_method", "to_ollama", "to_cached_dataset", "to_mcore", "to_hf", "push_to_hub", "to_peft_format")
_AWQ_TYPES = frozenset(
    {
        "mpt", "llama", "opt", "RefinedWeb", "RefinedWebModel", "exaone", "falcon", "bloom", "gptj", "gpt_bigcode", "mistral", "mixtral", "gpt_neox", "aquila", "Yi",
        "qwen", "baichuan", "llava", "qwen2", "qwen3", "qwen3_moe", "gemma", "gemma2", "stablelm", "starcoder2", "llava_next", "phi3", "phi3_v", "cohere",
        "deepseek_v2", "deepseek_v3", "minicpm", "internlm2", "minicpm3", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni",
    }
)  # fmt: skip
"""Model types of AutoAWQ 0.2.9, the last release there will be (`awq/models/auto.py`)."""


@rule("EXP001", "quantisation-half-given", routes=MERGE)
def quantisation(c: JobCheck) -> Iterator[Finding]:
    """Quantisation bits without a method, or a method without bits.

    Only fp8 has no choice of bits.

    In the log: `` ValueError: Please specify `--quant_bits`. ``

    Wrong:
    ```sh
    swift export --model Qwen/Qwen3-8B --dataset data.jsonl --quant_method gptq
    ```

    Right:
    ```sh
    swift export --model Qwen/Qwen3-8B --dataset data.jsonl --quant_method gptq --quant_bits 4
    ```

    Source: swift/arguments/export_args.py:ExportArguments.__post_init__
    """
    method, bits = c.v.get("quant_method"), c.v.get("quant_bits")
    if bits not in (None, UNKNOWN) and method is None:
        yield c.finding("--quant_bits {bits} needs --quant_method: awq, gptq, gptq_v2 or bnb", "quant_bits", flags=["quant_method"], bits=bits, fix="--quant_method gptq")
    elif isinstance(method, str) and method != "fp8" and bits is None:
        yield c.finding("--quant_method {method} needs --quant_bits", "quant_method", flags=["quant_bits"], method=method, fix=c.set_flag("quant_bits", "4"))


@rule("EXP002", "quantisation-needs-data", routes=EXPORT)
def quant_data(c: JobCheck) -> Iterator[Finding]:
    """AWQ or GPTQ without calibration data.

    Both adjust the weights to the activations of some hundred samples. bnb and fp8 need none. For gptq_v2 the check is missing, and it fails once the model
    is loaded.

    In the log: `ValueError: self.dataset: [], Please input the quant dataset.`

    Wrong:
    ```sh
    swift export --model Qwen/Qwen3-8B --quant_method gptq --quant_bits 4
    ```

    Right:
    ```sh
    swift export --model Qwen/Qwen3-8B --quant_method gptq --quant_bits 4 --dataset AI-ModelScope/alpaca-gpt4-data-zh#500 --quant_n_samples 256 --max_length 2048
    ```

    Source: swift/arguments/export_args.py:ExportArguments.__post_init__
    """
    method = c.v.get("quant_method")
    if method not in ("gptq", "awq", "gptq_v2") or not c.v.absent("dataset") or c.v.get("load_data_args") is not False:
        return
    finding = c.finding(
        "--quant_method {method} needs calibration data: --dataset (a few hundred samples like those the model will see)", "quant_method", flags=["dataset"], method=method,
        fix="--dataset <id>#500 --quant_n_samples 256",
    )  # fmt: skip
    yield finding if method != "gptq_v2" else replace(finding, consequence="wrong")


@rule("EXP003", "cached-dataset-conflicts", routes=EXPORT, since="3.9")
def cached(c: JobCheck) -> Iterator[Finding]:
    """`--to_cached_dataset` with packing or streaming.

    The cache holds single tokenized rows; packing is done by the training that reads it, and a stream has no end to write down.

    In the log: `ValueError: Packing will be handled during training; …`

    Wrong:
    ```sh
    swift export --model Qwen/Qwen3-8B --dataset data.jsonl --to_cached_dataset true --packing true
    ```

    Right:
    ```sh
    swift export --model Qwen/Qwen3-8B --dataset data.jsonl --to_cached_dataset true
    ```

    Source: swift/arguments/export_args.py:ExportArguments.__post_init__
    """
    if c.v.get("to_cached_dataset") is not True:
        return
    for name, why in (("packing", "give --packing to the training instead"), ("streaming", "a stream cannot be written down as a whole")):
        if c.v.get(name) is True:
            yield c.finding("--to_cached_dataset excludes --{name}: {why}", name, flags=["to_cached_dataset"], name=name, why=why, fix=c.drop_flag(name))


@rule("EXP004", "merge-then-quantise-skips-quantising", consequence="wrong", routes=EXPORT, until="4.4")
def merge_quantise(c: JobCheck) -> Iterator[Finding]:
    """Merging and quantising in one command, which only merges.

    Up to ms-swift 4.4 the merge forgets the quantisation method, so the export ends without quantising, and without a word; older ones refuse the pair.
    Do it in two commands.

    In the log: nothing about quantisation (long ago: `AssertionError: quantized model and does not support merge-lora`)

    Wrong:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true --quant_method gptq --quant_bits 4 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift export --model output/checkpoint-30-merged --quant_method gptq --quant_bits 4 --dataset data.jsonl
    ```

    Source: swift/pipelines/export/merge_lora.py:merge_lora
    """
    if c.v.get("merge_lora") is True and isinstance(c.v.get("quant_method"), str):
        yield c.finding(
            "--merge_lora and --quant_method {method} in one command: only the merge happens", "merge_lora", flags=["quant_method", "quant_bits"], method=c.v.get("quant_method"),
            fix="two commands: `swift export --adapters … --merge_lora true`, then `swift export --model <merged> --quant_method …`",
        )  # fmt: skip


@rule("EXP005", "merge-then-quantise", severity="warning", consequence="wrong", confidence="medium", routes=EXPORT, since="4.5")
def merge_and_quantise(c: JobCheck) -> Iterator[Finding]:
    """Merging and quantising in one command.

    Since ms-swift 4.5 both are done, through a folder `<adapter>-merged` beside the adapter, whatever `--output_dir` says. A folder of that name that is
    already there is quantised as it is, so that old weights can end up in the result. Older versions drop the quantisation or refuse the pair. Two commands
    say what is meant.

    In the log: `The weight directory for the merged LoRA already exists in …, skipping the saving process.`

    Wrong:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true --quant_method gptq --quant_bits 4 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift export --model output/checkpoint-30-merged --quant_method gptq --quant_bits 4 --dataset data.jsonl
    ```

    Source: swift/pipelines/export/export.py:SwiftExport.run; swift/pipelines/export/merge_lora.py:merge_lora
    """
    if c.v.get("merge_lora") is True and isinstance(c.v.get("quant_method"), str):
        yield c.finding(
            "--merge_lora and --quant_method {method} in one command: before ms-swift 4.5 it does not quantise (or: `does not support merge-lora`), and since then it quantises "
            "whatever `<adapter>-merged` already holds", "merge_lora", flags=["quant_method", "quant_bits"], method=c.v.get("quant_method"),
            fix="two commands: `swift export --adapters … --merge_lora true`, then `swift export --model <merged> --quant_method …`",
        )  # fmt: skip


@rule("EXP006", "awq-unknown-architecture", consequence="wrong", routes=EXPORT)
def awq(c: JobCheck) -> Iterator[Finding]:
    """AWQ for an architecture that AutoAWQ does not know.

    AutoAWQ has one class for each architecture and gets no new ones: its last release is 0.2.9.

    In the log: `TypeError: glm4_moe isn't supported yet.`

    Wrong:
    ```sh
    swift export --model ZhipuAI/GLM-4.5-Air --dataset data.jsonl --quant_method awq --quant_bits 4
    ```

    Right:
    ```sh
    swift export --model ZhipuAI/GLM-4.5-Air --dataset data.jsonl --quant_method gptq --quant_bits 4
    ```

    Source: swift/pipelines/export/quant.py:QuantEngine.__init__; awq/models/auto.py (AutoAWQ 0.2.9)
    Not shown on CPU: AutoAWQ is asked once the model is loaded
    """
    shape = numbers(c)
    if c.v.get("quant_method") == "awq" and shape is not None and shape.model_type and shape.model_type not in _AWQ_TYPES:
        yield c.finding(
            "AutoAWQ has no class for {kind} ({model}): awq quantization isn't supported", "quant_method", flags=["model"], kind=shape.model_type, model=short_name(c),
            fix=c.set_flag("quant_method", "gptq"),
        )  # fmt: skip


@rule("EXP007", "nothing-to-export", severity="warning", consequence="waste", routes=EXPORT, since="4.0")
def nothing(c: JobCheck) -> Iterator[Finding]:
    """An export that is not told what to do.

    Without one of its actions the command loads the arguments and ends well.

    In the log: nothing

    Wrong:
    ```sh
    swift export --adapters output/checkpoint-30
    ```

    Right:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true
    ```

    Source: swift/pipelines/export/export.py:SwiftExport.run
    """
    if all(c.v.get(name) in (None, False) for name in _ACTIONS if name in c.v.flags):
        yield c.finding(
            "no action given: nothing is exported", flags=list(_ACTIONS), fix="--merge_lora true, --quant_method …, --to_cached_dataset true, --to_ollama true, --to_mcore/--to_hf true or --push_to_hub true"
        )


@rule("EXP008", "merge-ignored-by-conversion", severity="warning", consequence="wrong", routes=EXPORT, since="4.0")
def merge_ignored(c: JobCheck) -> Iterator[Finding]:
    """`--merge_lora` together with a conversion by `swift export`.

    `swift export --to_mcore/--to_hf` switches it off with a warning. `megatron export` converts adapters, merged or as they are, and on several GPUs.

    In the log: `` `swift export --to_mcore/to_hf` does not support the `--merge_lora` parameter. ``

    Wrong:
    ```sh
    swift export --model Qwen/Qwen3-8B --mcore_adapter megatron_output/v0 --to_hf true --merge_lora true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --mcore_adapter megatron_output/v0 --to_hf true --merge_lora true --tensor_model_parallel_size 2
    ```

    Source: swift/arguments/export_args.py:ExportArguments.__post_init__
    """
    use = c.v.use("merge_lora")  # the effective value is already off
    if use is None or use.maybe or use.value is not True:
        return
    way = next((name for name in ("to_mcore", "to_hf") if c.v.get(name) is True), None)
    if way is not None:
        yield c.finding("`swift export --{way}` ignores --merge_lora; `megatron export` merges", "merge_lora", flags=[way], way=way, fix=f"megatron export … --{way} true --merge_lora true")


@rule("EXP009", "merge-without-adapter", consequence="wrong", confidence="medium", routes=MERGE, since="4.0")
def merge_nothing(c: JobCheck) -> Iterator[Finding]:
    """A merge without an adapter.

    There is nothing to merge into the model that `--model` names; what is saved is its inner module, without the output layer.

    In the log: nothing, or `AttributeError` while merging

    Wrong:
    ```sh
    swift export --model output/checkpoint-30 --merge_lora true
    ```

    Right:
    ```sh
    swift export --adapters output/checkpoint-30 --merge_lora true
    ```

    Source: swift/pipelines/export/merge_lora.py:merge_lora
    Not shown on CPU: it shows once the model is loaded
    """
    merges = c.v.route == "swift merge-lora" or (c.v.get("merge_lora") is True and c.v.get("to_mcore") is False and c.v.get("to_hf") is False)
    if merges and c.v.absent("adapters") and c.v.written("model"):
        yield c.finding("merging needs --adapters: the checkpoint of the LoRA", "merge_lora" if c.v.written("merge_lora") else None, flags=["adapters", "model"], fix="--adapters <checkpoint of the LoRA>")


# --- infer and deploy ---


@rule("EXP201", "interactive-inference-on-several-processes", routes=("swift infer",), since="4.0")
def interactive(c: JobCheck) -> Iterator[Finding]:
    """`swift infer` on several processes without data, or with streaming.

    Without a data set it talks with the user, which several processes cannot; nor can they stream one answer.

    In the log: `AssertionError: In DDP scenarios, interactive interfaces and streaming output are not supported.`

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift infer --model Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift infer --model Qwen/Qwen3-8B --val_dataset data.jsonl
    ```

    Source: swift/arguments/infer_args.py:InferArguments._init_ddp
    """
    if not c.v.place.torchrun or c.v.open_ended or c.v.get("load_data_args") is not False or not c.v.known("dataset", "val_dataset", "cached_val_dataset", "split_dataset_ratio", "stream"):
        return
    data = c.v.get("val_dataset") or c.v.get("cached_val_dataset") or (c.v.get("dataset") and c.v.get("split_dataset_ratio"))
    if not data:
        yield c.finding("several processes cannot talk with a user: give --val_dataset, or start one process", "NPROC_PER_NODE", flags=["val_dataset"], fix="--val_dataset <file>")
    elif c.v.get("stream") is True and c.v.get("num_beams") in (None, 1):
        yield c.finding("--stream true does not work on several processes", "stream", flags=["NPROC_PER_NODE"], fix=c.drop_flag("stream"))


@rule("EXP202", "encode-task-needs-async-engine", routes=("swift infer", "swift deploy", "swift eval", "swift app"), since="4.0")
def encode(c: JobCheck) -> Iterator[Finding]:
    """vLLM's synchronous engine for a model that returns vectors or scores.

    Embedding, classification and reranking use vLLM's `encode`, which only its asynchronous engine has.

    In the log: `ValueError: task_type=embedding requires vllm_use_async_engine=True.`

    Wrong:
    ```sh
    swift deploy --model Qwen/Qwen3-Embedding-0.6B --task_type embedding --infer_backend vllm --vllm_use_async_engine false
    ```

    Right:
    ```sh
    swift deploy --model Qwen/Qwen3-Embedding-0.6B --task_type embedding --infer_backend vllm
    ```

    Source: swift/arguments/infer_args.py:InferArguments._init_vllm_async_engine
    """
    task = c.v.get("task_type")
    backend = c.v.get("infer_backend")
    use = c.v.use("vllm_use_async_engine")
    if task in ENCODE_TASKS and backend == "vllm" and use is not None and not use.maybe and use.value is False:
        yield c.finding(
            "--task_type {task} needs vLLM's asynchronous engine ({tasks} all do)", "vllm_use_async_engine", flags=["task_type"], task=task, tasks=names(ENCODE_TASKS),
            fix=c.drop_flag("vllm_use_async_engine"),
        )  # fmt: skip
