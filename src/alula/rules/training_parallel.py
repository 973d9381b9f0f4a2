"""How the training of one model is spread and packed: DeepSpeed, FSDP2, sequence parallelism, padding-free batches."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING, Any

from .context import JobCheck, names
from .registry import TRAIN, rule
from .values import closest, given, json_value

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

PRESETS = ("zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload")
_FLASH = ("flash_attn", "flash_attention_2", "flash_attention_3")
_FLASH_4_SINCE = (4, 2)


def deepspeed_stage(c: JobCheck) -> int | None:
    """The ZeRO stage of `--deepspeed`, or None where it is off or cannot be known."""
    value = given(c, "deepspeed")
    if not isinstance(value, str) or not value:
        return None
    if value in PRESETS:
        return int(value[4])
    kind, config = json_value(c, value)
    if kind != "object":
        return None
    zero = config.get("zero_optimization")
    stage = zero.get("stage", 0) if isinstance(zero, dict) else 0
    return stage if isinstance(stage, int) else None


def _flash(c: JobCheck) -> tuple[str, ...]:
    major, minor = (int(part) for part in c.facts.version.split(".")[:2])
    return (*_FLASH, "flash_attention_4") if (major, minor) >= _FLASH_4_SINCE else _FLASH


@rule("TRN050", "packing-without-flash-attention", routes=TRAIN)
def packing_without_flash_attention(c: JobCheck) -> Iterator[Finding]:
    """`--packing` or `--padding_free` without a flash attention implementation.

    Rows lie behind one another there, and only flash attention keeps them from seeing each other. `--attn_impl` must say so; what the model's own
    configuration prefers does not count.

    In the log: `ValueError: The "packing" feature requires a flash attention implementation. …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --packing true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --packing true --attn_impl flash_attn
    ```

    Source: swift/arguments/sft_args.py:SftArguments._check_padding_free
    """
    feature = next((flag for flag in ("packing", "padding_free") if c.v.get(flag) is True), None)
    if feature is None or not c.v.known("attn_impl") or c.v.get("load_args") is True:
        return
    value = c.v.get("attn_impl")
    if value not in _flash(c):
        said = f"--attn_impl {value}" if value is not None else "--attn_impl is not given"
        template = "--{feature} true needs flash attention, and {said}: --attn_impl flash_attn (or {others})"
        yield c.finding(
            template, "attn_impl" if value is not None else feature, flags=[feature, "attn_impl"], feature=feature, said=said, others=names(_flash(c)[1:]),
            fix=c.set_flag("attn_impl", "flash_attn", safety="safe"),
        )  # fmt: skip


@rule("TRN051", "packing-with-algorithm", routes=("swift rlhf",))
def packing_with_algorithm(c: JobCheck) -> Iterator[Finding]:
    """`--packing` or `--padding_free` with an algorithm that cannot use them.

    DPO, KTO (since 3.9), GRPO and GKD can.

    In the log: `NotImplementedError: The current rlhf_type 'ppo' does not support padding_free/packing. …`

    Wrong:
    ```sh
    swift rlhf --rlhf_type rm --model Qwen/Qwen3-8B --dataset data.jsonl --padding_free true --attn_impl flash_attn
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type rm --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_padding_free
    """
    able = ("grpo", "dpo", "gkd") if c.facts.version.startswith("3.8.") else ("grpo", "dpo", "kto", "gkd")
    kind = c.v.rlhf_type
    feature = next((flag for flag in ("packing", "padding_free") if c.v.get(flag) is True), None)
    if feature is not None and isinstance(kind, str) and kind not in able:
        template = "--{feature} true is not possible with rlhf_type {kind}, only with {able}"
        yield c.finding(template, feature, flags=["rlhf_type"], feature=feature, kind=kind, able=names(able), fix=c.set_flag(feature, "false"))


@rule("TRN052", "sequence-parallel-with-algorithm", routes=("swift rlhf",))
def sequence_parallel_with_algorithm(c: JobCheck) -> Iterator[Finding]:
    """`--sequence_parallel_size` with an algorithm that cannot use it: only GRPO and DPO can.

    The trainers of the others compute their losses on whole sequences.

    In the log: `NotImplementedError: The current rlhf_type 'kto' does not support sequence_parallel. …`

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --gradient_accumulation_steps 4 --sequence_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --sequence_parallel_size 2
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_sequence_parallel
    """
    size, kind = c.v.get("sequence_parallel_size"), c.v.rlhf_type
    if isinstance(size, int) and size > 1 and isinstance(kind, str) and kind not in ("grpo", "dpo"):
        template = "--sequence_parallel_size {size} is not possible with rlhf_type {kind}, only with grpo and dpo"
        yield c.finding(template, "sequence_parallel_size", flags=["rlhf_type"], size=size, kind=kind, fix=c.set_flag("sequence_parallel_size", "1"))


@rule("TRN053", "sequence-parallel-size", consequence="wrong", routes=TRAIN)
def sequence_parallel_size(c: JobCheck) -> Iterator[Finding]:
    """`--sequence_parallel_size` fits neither the processes nor the model.

    The processes form groups of that size, so that it must divide their number. Within a group ulysses takes gcd(KV heads, size) processes; what is left over
    becomes ring attention, which needs `--padding_free true` (or packing) and flash attention.

    In the log: `NotImplementedError: The world_size 8 needs ulysses/ring-attention, which needs --padding_free true`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --sequence_parallel_size 3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --sequence_parallel_size 4
    ```

    Source: swift/sequence_parallel/sequence_parallel.py:SequenceParallel.prepare, _init_device_mesh
    Not shown on CPU: the groups are formed after the model is loaded
    """
    size, world = c.v.get("sequence_parallel_size"), c.v.place.world_size
    if not isinstance(size, int) or size <= 1:
        return
    if world is not None and world % size:
        valid = [n for n in range(1, world + 1) if world % n == 0]
        template = "--sequence_parallel_size {size} does not divide {world} process(es): one of {valid}"
        yield c.finding(template, "sequence_parallel_size", flags=["NPROC_PER_NODE"], size=size, world=world, valid=names(valid), fix=f"--sequence_parallel_size {max(n for n in valid if n <= size)}")
        return
    shape = c.shape
    heads = (shape.kv_heads or shape.heads) if shape is not None else 0
    if not heads or not c.v.known("padding_free", "packing") or c.v.get("padding_free") or c.v.get("packing"):
        return
    ulysses = gcd(heads, size)
    if ulysses < size:
        template = "--sequence_parallel_size {size} with {heads} KV heads: ulysses takes gcd({heads}, {size}) = {ulysses}, ring attention the other factor {ring}, and that needs --padding_free true; without it at most {ulysses}"
        yield c.finding(
            template, "sequence_parallel_size", flags=["padding_free", "attn_impl"], size=size, heads=heads, ulysses=ulysses, ring=size // ulysses,
            fix=f"--padding_free true --attn_impl flash_attn, or --sequence_parallel_size {ulysses}",
        )  # fmt: skip


@rule("TRN054", "logits-to-keep-in-sequence-parallel", consequence="wrong", routes=TRAIN)
def logits_to_keep(c: JobCheck) -> Iterator[Finding]:
    """`--use_logits_to_keep true` with sequence parallelism.

    A process holds only a part of each row there and cannot say which logits the whole row needs.

    In the log: `NotImplementedError` from `prepare_logits_to_keep`, at the first step

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --sequence_parallel_size 4 --use_logits_to_keep true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --sequence_parallel_size 4
    ```

    Source: swift/trainers/mixin.py:SwiftMixin.prepare_logits_to_keep
    Not shown on CPU: it fails at the first step
    """
    size = c.v.get("sequence_parallel_size")
    if isinstance(size, int) and size > 1 and c.v.get("use_logits_to_keep") is True and c.v.rlhf_type in (None, "dpo"):
        template = "--use_logits_to_keep true cannot work with --sequence_parallel_size {size}: the first step fails"
        yield c.finding(template, "use_logits_to_keep", flags=["sequence_parallel_size"], size=size, related=[("sequence_parallel_size", f"size {size}")], fix=c.set_flag("use_logits_to_keep", "false", safety="safe"))


def _config_problem(c: JobCheck, flag: str, presets: tuple[str, ...]) -> tuple[str, Any] | None:
    """Why a DeepSpeed or FSDP value is unusable: (reason, preset that was meant), or None."""
    value = given(c, flag)
    if not isinstance(value, str) or not value or value in presets:
        return None
    kind, _ = json_value(c, value)
    if kind in ("object", "unknown"):
        return None
    word = value.replace("_", "").replace("-", "").replace("stage", "zero").lower()
    close = next((p for p in presets if word in (p.replace("_", ""), p.replace("_", "").replace("zero", "z"), p.replace("zero", ""))), None)
    close = close or next((p for p in presets if value.endswith(p)), None) or closest(value, presets, 0.6)
    return ("is JSON, but no object" if kind == "other" else "is no preset, no file and no JSON"), close


@rule("TRN055", "unknown-deepspeed-config", routes=TRAIN)
def unknown_deepspeed_config(c: JobCheck) -> Iterator[Finding]:
    """`--deepspeed` is neither a preset nor a JSON file nor JSON.

    Presets: zero0, zero1, zero2, zero3, zero2_offload, zero3_offload. Anything else must be the path of a JSON file, or JSON itself; YAML is not read.

    In the log: `json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed default-zero2
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero2
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_deepspeed
    """
    problem = _config_problem(c, "deepspeed", PRESETS)
    if problem is None:
        return
    reason, close = problem
    value = given(c, "deepspeed")
    hint = "; a YAML null arrives as the text None: leave the key out" if value == "None" else f"; did you mean {close}?" if close else ""
    fix: Fix | str = c.set_flag("deepspeed", close) if close else f"--deepspeed {'|'.join(PRESETS)}, or the path of a JSON file"
    if value in ("None", "none", "false", "False", "no"):
        fix = c.drop_flag("deepspeed")
    yield c.finding("--deepspeed {value} {reason}; presets: {presets}{hint}", "deepspeed", value=value, reason=reason, presets=names(PRESETS), hint=hint, fix=fix)


@rule("TRN056", "deepspeed-and-fsdp", routes=TRAIN, since="3.12")
def deepspeed_and_fsdp(c: JobCheck) -> Iterator[Finding]:
    """`--deepspeed` and `--fsdp` together.

    Both shard the model; a run has one of them.

    In the log: `ValueError: FSDP2 is not compatible with DeepSpeed.`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero3 --fsdp fsdp2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --fsdp fsdp2
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_fsdp
    """
    deepspeed, fsdp = given(c, "deepspeed"), given(c, "fsdp")
    if isinstance(deepspeed, str) and deepspeed and isinstance(fsdp, str) and fsdp:
        yield c.finding("--fsdp {fsdp} and --deepspeed {deepspeed} exclude each other", "fsdp", flags=["deepspeed"], fsdp=fsdp, deepspeed=deepspeed, related=[("deepspeed", "DeepSpeed")], fix=c.drop_flag("fsdp"))


@rule("TRN057", "fsdp-config", routes=TRAIN, since="3.12")
def fsdp_config(c: JobCheck) -> Iterator[Finding]:
    """`--fsdp` is neither `fsdp2` nor JSON, or saves sharded weights that `--save_only_model true` cannot have.

    The options of transformers' own flag (`full_shard auto_wrap`) stand inside the JSON here. With SHARDED_STATE_DICT, the preset's way, the model alone
    cannot be saved.

    In the log: `json.decoder.JSONDecodeError`, or `ValueError: FSDP2 with SHARDED_STATE_DICT is not compatible with save_only_model=True. …`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --fsdp fsdp2 --save_only_model true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --fsdp fsdp2
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_fsdp, _check_fsdp2_compatibility
    """
    problem = _config_problem(c, "fsdp", ("fsdp2",))
    value = given(c, "fsdp")
    if problem is not None:
        template = "--fsdp {value} {reason}: write fsdp2, or a JSON object with `fsdp` and `fsdp_config`"
        yield c.finding(template, "fsdp", value=value, reason=problem[0], fix=c.set_flag("fsdp", "fsdp2"))
        return
    if not isinstance(value, str) or not value or c.v.get("save_only_model") is not True:
        return
    kind, config = ("object", {}) if value == "fsdp2" else json_value(c, value)
    inner = config.get("fsdp_config", {}) if kind == "object" else None
    if isinstance(inner, dict) and "SHARDED" in str(inner.get("state_dict_type", "SHARDED_STATE_DICT")).upper():
        template = "--save_only_model true and FSDP2's SHARDED_STATE_DICT exclude each other: drop it, or give FSDP a JSON with state_dict_type FULL_STATE_DICT"
        yield c.finding(template, "save_only_model", flags=["fsdp"], related=[("fsdp", "sharded checkpoints")], fix=c.set_flag("save_only_model", "false"))


@rule("TRN058", "zero-options-unused", severity="warning", consequence="wrong", routes=TRAIN)
def zero_options_unused(c: JobCheck) -> Iterator[Finding]:
    """A DeepSpeed option that this run does not use.

    `--zero_hpz_partition_size` (ZeRO++) and `--deepspeed_autotp_size` are written into the DeepSpeed configuration, and without `--deepspeed` there is none.
    The first divides parameters, which only ZeRO-3 shards; the second works with ZeRO 0 to 2.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --zero_hpz_partition_size 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero3 --zero_hpz_partition_size 8
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_deepspeed
    """
    off = c.v.absent("deepspeed") or given(c, "deepspeed") == ""
    stage = deepspeed_stage(c)
    hpz, tensor = c.v.get("zero_hpz_partition_size"), c.v.get("deepspeed_autotp_size")
    for flag, value, fits, wanted in (("zero_hpz_partition_size", hpz, stage == 3, "zero3"), ("deepspeed_autotp_size", tensor, stage is not None and stage < 3, "zero2")):
        if not isinstance(value, int) or not c.v.written(flag):
            continue
        if off:
            yield c.finding("--{flag} {value} does nothing without --deepspeed", flag, flags=["deepspeed"], flag=flag, value=value, fix=f"--deepspeed {wanted}, or remove --{flag}")
        elif stage is not None and not fits:
            yield c.finding("--{flag} {value} is for {wanted}; this is ZeRO stage {stage}", flag, flags=["deepspeed"], flag=flag, value=value, wanted=wanted, stage=stage, fix=f"--deepspeed {wanted}")


@rule("TRN059", "hpz-without-zero-section", routes=TRAIN)
def hpz_without_zero_section(c: JobCheck) -> Iterator[Finding]:
    """`--zero_hpz_partition_size` with a DeepSpeed configuration that has no `zero_optimization`.

    The option is written into that section.

    In the log: a bare `AssertionError` from `_init_deepspeed`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed '{"train_batch_size": "auto"}' --zero_hpz_partition_size 8
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero3 --zero_hpz_partition_size 8
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_deepspeed
    """
    value = given(c, "deepspeed")
    if not isinstance(value, str) or not value or value in PRESETS or not isinstance(c.v.get("zero_hpz_partition_size"), int):
        return
    kind, config = json_value(c, value)
    if kind == "object" and "zero_optimization" not in config:
        template = "--zero_hpz_partition_size needs `zero_optimization` in the DeepSpeed configuration"
        yield c.finding(template, "zero_hpz_partition_size", flags=["deepspeed"], fix="--deepspeed zero3, or a zero_optimization section with stage 3")


@rule("TRN060", "moe-under-zero3", severity="warning", confidence="medium", consequence="waste", routes=TRAIN)
def moe_under_zero3(c: JobCheck) -> Iterator[Finding]:
    """A mixture-of-experts model under ZeRO-3.

    ZeRO-3 gathers all experts of every layer for every micro-batch, although a token uses few of them: steps take minutes, and where ranks visit different
    experts the run can hang. Megatron keeps experts apart (`--expert_model_parallel_size`).

    In the log: several minutes a step, or no step at all at full GPU load

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --deepspeed zero3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --expert_model_parallel_size 8 --num_train_epochs 1 --output_dir out
    ```

    Source: swift/model/register.py:ModelLoader._deepspeed_set_z3_leaf_modules
    """
    if deepspeed_stage(c) != 3 or (c.v.place.world_size or 2) < 2:
        return
    experts = c.shape.experts if c.shape is not None else 0
    entry = c.facts.registries.model_of(str(c.v.get("model") or ""))
    named = entry is not None and any("Moe" in architecture for architecture in entry.architectures)
    if not experts and not (named and c.shape is None):
        return
    model = c.v.get("model")
    template = "{model} has {experts} and runs under ZeRO-3, which gathers every expert of every layer for each micro-batch: slow, and ranks may hang; Megatron with --expert_model_parallel_size keeps them apart"
    instead = c.v.route.replace("swift", "megatron")
    fix = f"`{instead}` with --expert_model_parallel_size" if c.v.rlhf_type in (None, "dpo", "kto", "rm", "grpo", "gkd") and entry is not None and entry.megatron else "--deepspeed zero2 where it fits"
    yield c.finding(template, "deepspeed", flags=["model"], model=model, experts=f"{experts} experts" if experts else "experts", fix=fix)


@rule("TRN061", "template-needs-padding", consequence="wrong", routes=TRAIN, since="4.6")
def template_needs_padding(c: JobCheck) -> Iterator[Finding]:
    """`--packing` or `--padding_free` with a model whose template cannot do without padding.

    Text models can, with few exceptions; of the multimodal ones only those whose template says so (Qwen-VL and Omni, InternVL, GLM-V, Kimi-VL and some more).

    In the log: `ValueError: Template `minicpmv4_5` does not support padding free or packing.`

    Wrong:
    ```sh
    swift sft --model OpenBMB/MiniCPM-V-4_5 --dataset data.jsonl --packing true --attn_impl flash_attn
    ```

    Right:
    ```sh
    swift sft --model OpenBMB/MiniCPM-V-4_5 --dataset data.jsonl
    ```

    Source: swift/pipelines/train/sft.py:SwiftSft._prepare_template
    Not shown on CPU: the template is built after the model is loaded
    """
    feature = next((flag for flag in ("packing", "padding_free") if given(c, flag) is True), None)
    if feature is None:
        return
    from alula.facts.templates import padding_free

    kind, model, template = given(c, "model_type"), given(c, "model"), given(c, "template")
    entry = c.facts.registries.models.get(kind) if isinstance(kind, str) else c.facts.registries.model_of(model) if isinstance(model, str) else None
    if entry is None or (template is not None and not isinstance(template, str)):
        return
    candidates = (template,) if isinstance(template, str) else entry.templates
    if candidates and all(padding_free(c.facts.version, name, entry.multimodal) is False for name in candidates):
        text = "--{feature} true is not possible with {kind}: its template ({templates}) needs padding"
        yield c.finding(text, feature, flags=["model", "template"], feature=feature, kind=entry.model_type, templates=names(candidates), fix=c.set_flag(feature, "false"))
