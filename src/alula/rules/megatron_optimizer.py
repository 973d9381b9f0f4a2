"""Optimizer, schedule and number format on Megatron."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import ROUTES, entry, numbers, on_ray, setting, short_name, sizes, whole
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_STATE_TYPES = ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype")


@rule("MEG101", "weight-decay-schedule", routes=ROUTES, since="4.0")
def weight_decay(c: JobCheck) -> Iterator[Finding]:
    """A start and end of weight decay without a schedule, or a schedule without them.

    With the default schedule `constant` only `--weight_decay` counts and the two must not be given; with `linear` or `cosine` both must. Bare assertions
    say so.

    In the log: `AssertionError` in megatron_args.py:_init_weigh_decay

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --weight_decay_incr_style cosine --end_weight_decay 0.1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --weight_decay_incr_style cosine --start_weight_decay 0.01 --end_weight_decay 0.1
    ```

    Source: swift/megatron/arguments/megatron_args.py:_init_weigh_decay
    """
    style = c.v.get("weight_decay_incr_style")
    if not isinstance(style, str):
        return
    ends = ("start_weight_decay", "end_weight_decay")
    if style == "constant":
        given = [name for name in ends if c.v.written(name)]
        if given:
            finding = c.finding(
                "{given} needs a schedule: weight_decay_incr_style is constant", given[0], flags=["weight_decay_incr_style", *given],
                given=" and ".join("--" + name for name in given), fix="--weight_decay_incr_style linear with both ends, or --weight_decay alone",
            )  # fmt: skip
            yield on_ray(finding, c)
        return
    missing = [name for name in ends if c.v.absent(name)]
    if missing:
        finding = c.finding(
            "--weight_decay_incr_style {style} needs {missing}", "weight_decay_incr_style", flags=missing, style=style, missing=" and ".join("--" + name for name in missing),
            fix=" ".join(f"--{name} 0.1" for name in missing),
        )  # fmt: skip
        yield on_ray(finding, c)


@rule("MEG102", "learning-rate-schedule", consequence="wrong", routes=MEGATRON, since="4.0")
def schedule(c: JobCheck) -> Iterator[Finding]:
    """A learning-rate schedule whose numbers contradict each other.

    The rate must end at or below where it starts, warm-up must end before the decay does, and the WSD schedule needs the length of its last phase. The
    scheduler asserts all of it after the model is built.

    In the log: `AssertionError` in megatron/core/optimizer_param_scheduler.py

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --train_iters 100 --lr 1e-6 --min_lr 1e-5
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --train_iters 100 --lr 1e-5 --min_lr 1e-6
    ```

    Source: megatron/core/optimizer_param_scheduler.py:OptimizerParamScheduler.__init__ (megatron-core)
    Not shown on CPU: the scheduler is made after the model, which needs a GPU
    """
    rate, least, first = c.v.get("lr"), c.v.get("min_lr"), c.v.get("lr_warmup_init")
    if isinstance(rate, (int, float)):
        said = f"{rate:g}" + ("" if c.v.written("lr") else " (the default)")
        if isinstance(least, (int, float)) and least > rate:
            yield c.finding("--min_lr {least:g} is above lr {rate}", "min_lr", flags=["lr"], least=least, rate=said, fix=f"--min_lr below {rate:g}")
        if isinstance(first, (int, float)) and first > rate:
            yield c.finding("--lr_warmup_init {first:g} is above lr {rate}", "lr_warmup_init", flags=["lr"], first=first, rate=said, fix=f"--lr_warmup_init below {rate:g}")
    if isinstance(least, (int, float)) and least < 0:
        yield c.finding("--min_lr {least:g} is negative", "min_lr", least=least, fix="--min_lr 0 or more")
    fraction = c.v.get("lr_warmup_fraction")
    decay = c.v.get("lr_decay_iters")
    steps = whole(decay) if decay is not None else whole(c.v.get("train_iters"))
    if isinstance(fraction, (int, float)):
        if fraction >= 1:
            yield c.finding("--lr_warmup_fraction {fraction:g} must be below 1: warm-up would last as long as the decay", "lr_warmup_fraction", fraction=fraction, fix="--lr_warmup_fraction 0.05")
    elif fraction is None and steps is not None and (warmup := whole(c.v.get("lr_warmup_iters"))) is not None and steps > 0 and warmup >= steps:
        what = "lr_decay_iters" if decay is not None else "train_iters"
        yield c.finding(
            "--lr_warmup_iters {warmup} must be below {what} {steps}", "lr_warmup_iters", flags=[what], warmup=warmup, what=what, steps=steps, fix=f"--lr_warmup_iters at most {steps - 1}"
        )
    if c.v.get("lr_decay_style") == "WSD" and c.v.absent("lr_wsd_decay_iters"):
        yield c.finding("--lr_decay_style WSD needs --lr_wsd_decay_iters, the length of its last phase", "lr_decay_style", flags=["lr_wsd_decay_iters"], fix="--lr_wsd_decay_iters N")


@rule("MEG103", "optimizer-number-format", consequence="wrong", routes=MEGATRON, since="4.0")
def precision_aware(c: JobCheck) -> Iterator[Finding]:
    """Optimizer states in a smaller format without the optimizer that can hold them.

    Gradients, main parameters and moments may leave fp32 only with `--use_precision_aware_optimizer`, which in turn needs Adam and the distributed
    optimizer. Muon switches the distributed optimizer off.

    In the log: `AssertionError: exp_avg_dtype can only be fp32 when not using precision-aware optimizer`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --exp_avg_dtype bf16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --exp_avg_dtype bf16 --use_precision_aware_optimizer true
    ```

    Source: megatron/core/optimizer/optimizer_config.py:OptimizerConfig.__post_init__ (megatron-core)
    Not shown on CPU: the optimizer is made after the model, which needs a GPU
    """
    aware = c.v.get("use_precision_aware_optimizer")
    if aware is False:
        for name in _STATE_TYPES:
            use = c.v.use(name)
            value = None if use is None or use.maybe else use.value
            if isinstance(value, str) and value != "fp32":
                yield c.finding(
                    "--{name} {value} needs --use_precision_aware_optimizer true; without it only fp32 is possible", name, flags=["use_precision_aware_optimizer"], name=name,
                    value=value, fix=c.set_flag("use_precision_aware_optimizer", "true"),
                )  # fmt: skip
                return
    if aware is not True:
        return
    optimizer = c.v.get("optimizer")
    if isinstance(optimizer, str) and optimizer != "adam":
        yield c.finding(
            "--use_precision_aware_optimizer needs optimizer adam, not {optimizer}", "use_precision_aware_optimizer", flags=["optimizer"], optimizer=optimizer,
            fix=c.drop_flag("use_precision_aware_optimizer"),
        )  # fmt: skip
    elif c.v.get("use_distributed_optimizer") is False:
        yield c.finding(
            "--use_precision_aware_optimizer needs the distributed optimizer", "use_precision_aware_optimizer", flags=["use_distributed_optimizer"],
            fix=c.set_flag("use_distributed_optimizer", "true"),
        )  # fmt: skip


@rule("MEG104", "low-precision-training-format", consequence="wrong", routes=ROUTES, since="4.0")
def low_precision(c: JobCheck) -> Iterator[Finding]:
    """Flags of fp8, fp4 or half precision that contradict each other.

    Keeping parameters in fp8 or fp4 needs the format itself; the two formats exclude each other, and so do fp16 and bf16. With delayed scaling the MoE
    activation and the layer norms cannot be recomputed.

    In the log: `ValueError: fp8_param must be used together with fp8 mode.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --fp8_param_gather true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --fp8_param_gather true --fp8_format e4m3 --fp8_recipe blockwise
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    for kind in ("fp8", "fp4"):
        if c.v.get(f"{kind}_param_gather") is True and f"{kind}_format" in c.v.flags and c.v.get(f"{kind}_format") is None:
            example = "e4m3" if kind == "fp8" else "e2m1"
            yield c.finding(
                "--{kind}_param_gather needs --{kind}_format", f"{kind}_param_gather", flags=[f"{kind}_format"], kind=kind, fix=c.set_flag(f"{kind}_format", example)
            )
    if isinstance(c.v.get("fp8_format"), str) and isinstance(c.v.get("fp4_format"), str):
        yield c.finding("--fp8_format and --fp4_format exclude each other", "fp4_format", flags=["fp8_format"], fix="keep one of the two")
    if c.v.get("fp16") is True and c.v.get("bf16") is True:
        yield c.finding("--fp16 and --bf16 exclude each other", "fp16", flags=["bf16"], fix=c.drop_flag("fp16"))
    modules = c.v.get("recompute_modules")
    delayed = isinstance(c.v.get("fp8_format"), str) and c.v.get("fp8_recipe") == "delayed"
    if delayed and c.v.get("recompute_granularity") == "selective" and isinstance(modules, tuple):
        bad = [name for name in ("moe_act", "layernorm") if name in modules]
        if bad:
            yield c.finding(
                "fp8 with delayed scaling cannot recompute {bad}", "recompute_modules", flags=["fp8_recipe", "fp8_format"], bad=names(bad),
                fix="--fp8_recipe blockwise or tensorwise, or leave them out of --recompute_modules",
            )  # fmt: skip


@rule("MEG105", "muon-limits", routes=ROUTES, since="4.2")
def muon(c: JobCheck) -> Iterator[Finding]:
    """The Muon optimizer with what it does not support, or its learning rate without it.

    Muon itself cannot overlap the reduction of gradients or the gathering of parameters; its distributed form can.

    In the log: `AssertionError: Muon optimizer does not support overlap grad reduce. Use dist_muon instead.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer muon --overlap_grad_reduce true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer dist_muon --overlap_grad_reduce true
    ```

    Source: swift/megatron/arguments/megatron_args.py:_check_muon
    """
    optimizer = c.v.get("optimizer")
    if optimizer == "muon":
        for name in ("overlap_grad_reduce", "overlap_param_gather"):
            if c.v.get(name) is True:
                yield on_ray(c.finding("--optimizer muon excludes --{name}", name, flags=["optimizer"], name=name, fix=c.set_flag("optimizer", "dist_muon")), c)
    elif isinstance(optimizer, str) and "muon" not in optimizer:
        for name in ("muon_lr", "muon_min_lr"):
            if isinstance(c.v.get(name), (int, float)):
                fix = "--optimizer muon or dist_muon, or --lr"
                yield on_ray(c.finding("--{name} needs Muon; the optimizer is {optimizer}", name, flags=["optimizer"], name=name, optimizer=optimizer, fix=fix), c)


@rule("MEG110", "muon-setting-needs-newer-core", confidence="medium", routes=ROUTES, since="4.5")
def muon_settings(c: JobCheck) -> Iterator[Finding]:
    """A Muon setting that megatron-core 0.16 does not have.

    It would fall away without a word, so ms-swift refuses it: there the other parameters always train with Adam, and the coefficients are fixed.

    In the log: `ValueError: megatron-core 0.16.1 does not support: muon_scalar_optimizer.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer muon --muon_scalar_optimizer sgd
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer muon
    ```

    Source: swift/megatron/arguments/megatron_args.py:_check_muon_mcore_support
    """
    optimizer = c.v.get("optimizer")
    if not isinstance(optimizer, str) or "muon" not in optimizer:
        return
    for name in ("muon_scalar_optimizer", "muon_coefficient_type"):
        value = c.v.get(name)
        if c.v.written(name) and isinstance(value, str) and value != c.v.flags[name].default:
            finding = c.finding("--{name} {value} needs a megatron-core newer than 0.16, which pip installs", name, flags=["optimizer"], name=name, value=value, fix=c.drop_flag(name))
            yield on_ray(finding, c)


@rule("MEG106", "muon-with-fp16", consequence="wrong", routes=MEGATRON, since="4.2")
def muon_half(c: JobCheck) -> Iterator[Finding]:
    """The Muon optimizer with fp16.

    It has no loss scale, so it takes bf16 only.

    In the log: `Exception: muon with fp16 is not supported.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer muon --fp16 true --bf16 false
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --optimizer muon --bf16 true
    ```

    Source: megatron/core/optimizer/muon.py:get_megatron_muon_optimizer (megatron-core)
    Not shown on CPU: the optimizer is made after the model, which needs a GPU
    """
    optimizer = c.v.get("optimizer")
    half = c.v.get("fp16") is True or (c.v.get("torch_dtype") == "float16" and c.v.get("fp16") is not False)
    if isinstance(optimizer, str) and "muon" in optimizer and half:
        yield c.finding("--optimizer {optimizer} does not support fp16", "optimizer", flags=["fp16", "torch_dtype"], optimizer=optimizer, fix="--torch_dtype bfloat16")


@rule("MEG107", "megatron-fsdp-optimizer", routes=ROUTES, since="4.5")
def fsdp_optimizer(c: JobCheck) -> Iterator[Finding]:
    """Megatron-FSDP with an optimizer it cannot shard, or with a single device connection.

    It takes Adam and SGD. It also needs several hardware queues for its overlap, but ms-swift sets CUDA_DEVICE_MAX_CONNECTIONS to 1 where it is not set, so
    it must be set to more.

    In the log: `ValueError: Megatron-FSDP requires CUDA_DEVICE_MAX_CONNECTIONS > 1`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --use_megatron_fsdp true
    ```

    Right:
    ```sh
    CUDA_DEVICE_MAX_CONNECTIONS=32 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --use_megatron_fsdp true
    ```

    Source: swift/megatron/arguments/megatron_args.py:_check_megatron_fsdp
    """
    if c.v.get("use_megatron_fsdp") is not True:
        return
    optimizer = c.v.get("optimizer")
    if isinstance(optimizer, str) and optimizer not in ("adam", "sgd"):
        finding = c.finding("--use_megatron_fsdp takes optimizer adam or sgd, not {optimizer}", "optimizer", flags=["use_megatron_fsdp"], optimizer=optimizer, fix=c.set_flag("optimizer", "adam"))
        yield on_ray(finding, c)
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    if c.env_entry(name) is None or c.env(name) == "1":
        why = "it is 1" if c.env(name) == "1" else "unset, ms-swift makes it 1"
        finding = c.finding("--use_megatron_fsdp needs {name} above 1: {why}", name, flags=["use_megatron_fsdp", name], name=name, why=why, fix=c.set_env(name, "32"))
        yield on_ray(finding, c)


@rule("MEG108", "megatron-fsdp-checkpoint", consequence="wrong", routes=MEGATRON, since="4.5")
def fsdp_checkpoint(c: JobCheck) -> Iterator[Finding]:
    """Megatron-FSDP with what it cannot save.

    Training runs; the first checkpoint fails, because the sharded format takes one model chunk a rank and is not written in the background.

    In the log: `ValueError: Megatron-FSDP fsdp_dtensor checkpoint does not support async_save in Megatron-Core 0.16.`

    Wrong:
    ```sh
    CUDA_DEVICE_MAX_CONNECTIONS=32 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --use_megatron_fsdp true --async_save true
    ```

    Right:
    ```sh
    CUDA_DEVICE_MAX_CONNECTIONS=32 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --use_megatron_fsdp true
    ```

    Source: swift/megatron/utils/megatron_lm_utils.py:save_mcore_checkpoint, _generate_state_dict
    Not shown on CPU: it is raised when the first checkpoint is written
    """
    if c.v.get("use_megatron_fsdp") is not True or (c.v.get("save_safetensors") is not False and c.v.get("no_save_optim") is not False):
        return  # with safetensors alone there is no Megatron checkpoint
    if c.v.get("async_save") is True:
        yield c.finding("--use_megatron_fsdp cannot save in the background: --async_save fails at the first checkpoint", "async_save", flags=["use_megatron_fsdp"], fix=c.drop_flag("async_save"))
    virtual = sizes(c).virtual
    if virtual is not None and virtual > 1:
        name = "virtual_pipeline_model_parallel_size"
        yield c.finding(
            "--use_megatron_fsdp saves one model chunk a rank: {virtual} virtual stages fail at the first checkpoint", name, flags=["use_megatron_fsdp"], virtual=virtual, fix=c.drop_flag(name)
        )


@rule("MEG109", "softmax-needs-other-attention", consequence="wrong", routes=ROUTES, since="4.0")
def learnable_softmax(c: JobCheck) -> Iterator[Finding]:
    """Flash attention for a model with a learned softmax offset.

    GPT-OSS learns an extra term in the softmax, which Megatron's flash attention cannot compute; ms-swift checks it when the model's configuration is
    made. flash is the default.

    In the log: `ValueError: Attention backend "flash" does not support learnable softmax_type.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model openai/gpt-oss-20b --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model openai/gpt-oss-20b --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --attention_backend fused
    ```

    Source: swift/megatron/model/utils.py:_check_attention_backend
    """
    known, shape = entry(c), numbers(c)
    kind = known.model_type if known is not None else shape.model_type if shape is not None else ""
    backend = c.v.get("attention_backend")
    if kind != "gpt_oss" or backend is UNKNOWN or setting(c, "softmax_type") not in (None, "learnable"):
        return
    if backend == "flash" or (isinstance(backend, str) and backend.startswith("flash_")):
        default = "" if c.v.written("attention_backend") else " (the default)"
        yield c.finding(
            "{model} has a learned softmax term, which attention_backend {backend}{default} does not support", "attention_backend", flags=["model"],
            model=short_name(c), backend=backend, default=default, fix=c.set_flag("attention_backend", "fused"),
        )  # fmt: skip
