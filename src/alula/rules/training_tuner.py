"""What is trained: the tuner, its adapters and options, and quantised weights under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import TRAIN, rule
from .training_numbers import quantised_name, weights_dtype
from .training_parallel import deepspeed_stage
from .values import closest, from_checkpoint, given, loads_nothing, may_register

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

_LOADING = (*TRAIN, "swift infer", "swift deploy", "swift rollout", "swift sample", "swift eval", "swift app")
_PROPOSALS = {
    "qlora": "--tuner_type lora --quant_method bnb --quant_bits 4", "dora": "--tuner_type lora --use_dora true", "rslora": "--tuner_type lora --use_rslora true",
    "lora+": "--tuner_type lora --lorap_lr_ratio 16", "none": "--tuner_type full", "freeze": "--tuner_type full --freeze_parameters_ratio 0.5", "sft": "--tuner_type full",
}  # fmt: skip


@rule("TRN070", "unknown-tuner", consequence="wrong", routes=TRAIN, since="4.0")
def unknown_tuner(c: JobCheck) -> Iterator[Finding]:
    """A `--tuner_type` that ms-swift does not have.

    The parser takes any word; it is looked up after the model is loaded. QLoRA and DoRA are LoRA with further flags. Plugins may register more tuners.

    In the log: `ValueError: Unknown tuner_type: qlora`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type qlora
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --quant_method bnb --quant_bits 4
    ```

    Source: swift/pipelines/train/tuner.py:prepare_adapter
    Not shown on CPU: it is looked up after the model is loaded
    """
    value = c.v.get("tuner_type")
    known = c.facts.registries["tuners"]
    if not isinstance(value, str) or value in known or may_register(c):
        return
    proposal = _PROPOSALS.get(value.lower())
    close = closest(value, known)
    fix: Fix | str = proposal or (c.set_flag("tuner_type", close) if close else "--tuner_type lora|full")
    template = "--tuner_type {value} is no tuner of ms-swift: {known}" + ("; write {proposal}" if proposal else "")
    yield c.finding(template, "tuner_type", value=value, known=names(sorted(known), 16), proposal=proposal or "", fix=fix)


@rule("TRN071", "adapters-in-full-training", consequence="wrong", routes=TRAIN)
def adapters_in_full_training(c: JobCheck) -> Iterator[Finding]:
    """`--adapters` with `--tuner_type full`: the adapter is not loaded.

    Full training starts from `--model` alone, without a word about the adapter. Merge it first, or go on training it as LoRA.

    In the log: nothing; the loss starts where the base model's does

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type full --adapters output/v0/checkpoint-100
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --adapters output/v0/checkpoint-100
    ```

    Source: swift/pipelines/train/tuner.py:TunerMixin.prepare_model
    Not shown on CPU: ms-swift accepts it and trains something else
    """
    adapters = c.v.get("adapters")
    if c.v.get("tuner_type") == "full" and isinstance(adapters, tuple) and adapters and c.v.written("adapters") and c.v.get("load_args") is not True:
        template = "--adapters {adapters} is not loaded with --tuner_type full: merge it first (swift export --adapters … --merge_lora true), or train on with --tuner_type lora"
        yield c.finding(template, "adapters", flags=["tuner_type"], adapters=names(adapters, 2), related=[("tuner_type", "full")], fix="merge the adapter and give the merged model as --model")


@rule("TRN072", "several-adapters", consequence="wrong", routes=TRAIN)
def several_adapters(c: JobCheck) -> Iterator[Finding]:
    """More than one adapter to train on.

    Training goes on from one adapter. `swift infer` and `swift deploy` may serve several.

    In the log: `AssertionError: args.adapters: ['a', 'b']`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --adapters output/a output/b
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --adapters output/a
    ```

    Source: swift/pipelines/train/tuner.py:TunerMixin.prepare_model
    Not shown on CPU: it is refused after the model is loaded
    """
    adapters = c.v.get("adapters")
    if isinstance(adapters, tuple) and len(adapters) > 1 and c.v.get("tuner_type") not in ("full", UNKNOWN):
        yield c.finding("--adapters names {count} adapters; training goes on from one", "adapters", count=len(adapters), fix=f"--adapters {adapters[0]}")


_LORA_FLAGS = ("lora_rank", "lora_alpha", "lora_dropout", "lora_bias", "lora_dtype", "target_modules", "target_regex", "use_rslora", "use_dora", "lorap_lr_ratio", "init_weights")
_FULL_FLAGS = ("freeze_parameters", "freeze_parameters_regex", "freeze_parameters_ratio", "trainable_parameters", "trainable_parameters_regex")


@rule("TRN073", "options-of-another-tuner", severity="info", consequence="wrong", routes=TRAIN)
def options_of_another_tuner(c: JobCheck) -> Iterator[Finding]:
    """Options of LoRA in full training, or of full training under LoRA.

    `lora_*` and `target_modules` shape adapters; `freeze_parameters*` and `trainable_parameters*` choose among the model's own weights. The other tuner
    ignores them without a word.

    In the log: nothing

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type full --lora_rank 16 --target_modules all-linear
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --lora_rank 16 --target_modules all-linear
    ```

    Source: swift/pipelines/train/tuner.py:TunerMixin.prepare_model
    """
    tuner = c.v.get("tuner_type")
    flags = {"full": _LORA_FLAGS, "lora": _FULL_FLAGS}.get(tuner, ()) if isinstance(tuner, str) else ()
    given = [flag for flag in flags if c.v.written(flag)]
    if given:
        template = "--tuner_type {tuner} ignores {given}" + ("" if c.v.written("tuner_type") else " (lora is the default)")
        yield c.finding(template, given[0], flags=[*given, "tuner_type"], tuner=tuner, given=names(f"--{flag}" for flag in given), fix=f"remove {names(f'--{flag}' for flag in given)}")


_BITS = {"bnb": (4, 8), "hqq": (1, 2, 3, 4, 8), "eetq": (8,), "quanto": (2, 4, 8, "float8")}


@rule("TRN074", "quantisation-bits", routes=_LOADING)
def quantisation_bits(c: JobCheck) -> Iterator[Finding]:
    """`--quant_method` without `--quant_bits`, or with bits it does not know.

    bnb: 4, 8. hqq: 1, 2, 3, 4, 8. eetq: 8. quanto: 2, 4, 8, float8. fp8 needs none.

    In the log: `ValueError: Please set the quant_bits. args.quant_bits: None`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --quant_method bnb
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --quant_method bnb --quant_bits 4
    ```

    Source: swift/arguments/base_args/quant_args.py:QuantizeArguments.get_quantization_config
    """
    method, bits = c.v.get("quant_method"), c.v.get("quant_bits")
    valid = _BITS.get(method) if isinstance(method, str) else None
    if valid is None or bits is UNKNOWN or bits in valid or loads_nothing(c):
        return
    if bits is None and (c.v.use("quant_bits") is not None or from_checkpoint(c)):
        return
    shown = names(valid)
    template = "--quant_method {method} needs --quant_bits: {valid}" if bits is None else "--quant_bits {bits} is nothing that {method} can do: {valid}"
    fix = c.set_flag("quant_bits", str(valid[0]))
    yield c.finding(template, "quant_method" if bits is None else "quant_bits", flags=["quant_method", "quant_bits"], method=method, bits=bits, valid=shown, fix=fix)


@rule("TRN075", "bits-without-method", severity="warning", consequence="wrong", routes=_LOADING)
def bits_without_method(c: JobCheck) -> Iterator[Finding]:
    """`--quant_bits` without `--quant_method`: nothing is quantised.

    The method decides; ms-swift does not guess one from the bits.

    In the log: nothing; the model takes its full memory

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --quant_bits 4
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --quant_method bnb --quant_bits 4
    ```

    Source: swift/arguments/base_args/quant_args.py:QuantizeArguments.get_quantization_config
    """
    bits = c.v.get("quant_bits")
    if c.v.written("quant_bits") and bits not in (None, UNKNOWN) and c.v.absent("quant_method"):
        yield c.finding("--quant_bits {bits} without --quant_method quantises nothing", "quant_bits", flags=["quant_method"], bits=bits, fix="--quant_method bnb")


@rule("TRN076", "full-training-of-quantised-weights", consequence="wrong", routes=TRAIN)
def full_training_of_quantised(c: JobCheck) -> Iterator[Finding]:
    """Full-parameter training of quantised weights.

    Quantised weights have no gradients; adapters on top of them do.

    In the log: `ValueError: You cannot perform fine-tuning on purely quantized models. …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type full --quant_method bnb --quant_bits 4
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --quant_method bnb --quant_bits 4
    ```

    Source: transformers/trainer_utils.py:validate_quantization_for_training
    Not shown on CPU: the trainer refuses it after the model is loaded
    """
    if c.v.get("tuner_type") != "full":
        return
    method, model = c.v.get("quant_method"), c.v.get("model")
    if isinstance(method, str) and c.v.written("quant_method"):
        template = "--tuner_type full cannot train weights that --quant_method {method} quantises: --tuner_type lora"
        yield c.finding(template, "quant_method", flags=["tuner_type"], method=method, related=[("tuner_type", "full")], fix=c.set_flag("tuner_type", "lora"))
    elif isinstance(model, str) and any(mark in model.lower() for mark in ("-awq", "-gptq")) and quantised_name(model):
        template = "{model} holds quantised weights, which --tuner_type full cannot train: --tuner_type lora, or the model without quantisation"
        yield c.finding(template, "model", flags=["tuner_type"], model=model, fix=c.set_flag("tuner_type", "lora"))


@rule("TRN077", "lisa-with-adapters", consequence="wrong", routes=TRAIN)
def lisa_with_adapters(c: JobCheck) -> Iterator[Finding]:
    """LISA with adapters.

    LISA unfreezes a few of the model's own layers at a time; it is a way of full training.

    In the log: `AssertionError: LISA only supports full parameter training.`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --lisa_activated_layers 2
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type full --lisa_activated_layers 2
    ```

    Source: swift/callbacks/lisa.py:LISACallback
    Not shown on CPU: the callback is built with the trainer
    """
    layers, tuner = c.v.get("lisa_activated_layers"), c.v.get("tuner_type")
    if isinstance(layers, int) and layers > 0 and isinstance(tuner, str) and tuner != "full":
        template = "--lisa_activated_layers {layers} works with --tuner_type full only, and this is {tuner}"
        yield c.finding(template, "lisa_activated_layers", flags=["tuner_type"], layers=layers, tuner=tuner, fix=c.set_flag("tuner_type", "full"))


@rule("TRN078", "qlora-unsharded", severity="warning", confidence="medium", consequence="waste", routes=TRAIN)
def qlora_unsharded(c: JobCheck) -> Iterator[Finding]:
    """4-bit weights under ZeRO-3 or FSDP2 in a storage type that is not sharded.

    bitsandbytes packs 4-bit weights into bytes by default, which are no floating-point tensors: ZeRO-3 and FSDP shard them only when `--bnb_4bit_quant_storage`
    is the data type of the other weights. Otherwise every device holds the whole model.

    In the log: as much memory on each device as without ZeRO-3, or `Must flatten tensors with uniform dtype`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-32B --dataset data.jsonl --quant_method bnb --quant_bits 4 --deepspeed zero3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-32B --dataset data.jsonl --quant_method bnb --quant_bits 4 --bnb_4bit_quant_storage bfloat16 --deepspeed zero3
    ```

    Source: swift/arguments/base_args/quant_args.py:QuantizeArguments; PEFT documentation, DeepSpeed and FSDP
    """
    if given(c, "quant_method") != "bnb" or given(c, "quant_bits") != 4 or not c.v.absent("bnb_4bit_quant_storage") or (c.v.place.world_size or 2) < 2:
        return
    sharding = "fsdp" if given(c, "fsdp") else "deepspeed" if deepspeed_stage(c) == 3 else None
    if sharding is not None:
        dtype = weights_dtype(c) or "bfloat16"
        template = "4-bit weights are stored in bytes, which {what} does not shard: --bnb_4bit_quant_storage {dtype}"
        yield c.finding(
            template, "quant_bits", flags=["bnb_4bit_quant_storage", sharding], what="FSDP2" if sharding == "fsdp" else "ZeRO-3", dtype=dtype,
            fix=c.set_flag("bnb_4bit_quant_storage", dtype),
        )  # fmt: skip
