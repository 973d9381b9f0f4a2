"""Mixture of experts on Megatron: dispatchers, load balancing, LoRA over experts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches

from .context import JobCheck, names
from .mcore import AXES, ROUTES, extra, is_moe, numbers, setting, short_name, sizes, whole
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

DISPATCHER, OVERLAP = "moe_token_dispatcher_type", "moe_shared_expert_overlap"
BALANCING, COEFFICIENT = "moe_router_load_balancing_type", "moe_aux_loss_coeff"
_BALANCING = ("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none")
_NPU_EXPERTS = 128  # experts a rank, mcore_bridge/config/model_config.py:_check_npu


@rule("MEG201", "allgather-dispatcher", consequence="wrong", routes=ROUTES)
def allgather(c: JobCheck) -> Iterator[Finding]:
    """The allgather token dispatcher, which ms-swift can never use.

    The bridge declares that sequences vary in length, which that dispatcher does not take; the configuration is refused for dense models too.

    In the log: `ValueError: Token dispatcher type: allgather does not support variable sequence length, please use alltoall dispatcher instead.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_token_dispatcher_type allgather
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_token_dispatcher_type alltoall
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core); mcore_bridge/config/model_config.py:ModelConfig
    """
    if c.v.get(DISPATCHER) == "allgather" and extra(c).get("variable_seq_lengths") is not False:
        fix = c.set_flag(DISPATCHER, "alltoall", safety="safe")
        yield c.finding("--moe_token_dispatcher_type allgather does not take sequences of varying length, which ms-swift always has; use alltoall or flex", DISPATCHER, fix=fix)


@rule("MEG202", "deepep-needs-flex", consequence="wrong", routes=ROUTES)
def deepep(c: JobCheck) -> Iterator[Finding]:
    """DeepEP without the flex dispatcher, or with expert inputs padded to capacity.

    `--moe_enable_deepep` is a back end of the flex dispatcher; that dispatcher does not pad.

    In the log: `ValueError: DeepEP backend is only supported with flex token dispatcher.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_enable_deepep true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_enable_deepep true --moe_token_dispatcher_type flex
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    dispatcher = c.v.get(DISPATCHER)
    if c.v.get("moe_enable_deepep") is True and isinstance(dispatcher, str) and dispatcher != "flex":
        yield c.finding(
            "--moe_enable_deepep needs --moe_token_dispatcher_type flex, not {dispatcher}", "moe_enable_deepep", flags=[DISPATCHER], dispatcher=dispatcher,
            fix=c.set_flag(DISPATCHER, "flex"),
        )  # fmt: skip
    elif dispatcher == "flex" and c.v.get("moe_pad_expert_input_to_capacity") is True and setting(c, "moe_flex_dispatcher_backend") in (None, "deepep"):
        yield c.finding(
            "the flex dispatcher cannot pad expert inputs to capacity", "moe_pad_expert_input_to_capacity", flags=[DISPATCHER], fix=c.drop_flag("moe_pad_expert_input_to_capacity")
        )


@rule("MEG203", "shared-expert-overlap", consequence="wrong", routes=ROUTES)
def shared_overlap(c: JobCheck) -> Iterator[Finding]:
    """Overlap of the shared experts where it cannot work.

    It hides the shared experts behind the communication of the alltoall dispatcher, and so they cannot be recomputed.

    In the log: `ValueError: moe_shared_expert_overlap only works with alltoall token dispatcher.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-35B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_shared_expert_overlap true --moe_token_dispatcher_type flex
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-35B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_shared_expert_overlap true
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    shape = numbers(c)
    if c.v.get(OVERLAP) is not True or shape is None or not shape.shared_intermediate:
        return
    dispatcher = c.v.get(DISPATCHER)
    if isinstance(dispatcher, str) and dispatcher != "alltoall":
        yield c.finding("--moe_shared_expert_overlap needs the alltoall dispatcher, not {dispatcher}", OVERLAP, flags=[DISPATCHER], dispatcher=dispatcher, fix=c.drop_flag(OVERLAP))
    modules = c.v.get("recompute_modules")
    if c.v.get("recompute_granularity") == "selective" and isinstance(modules, tuple) and "shared_experts" in modules:
        fix = "leave shared_experts out of --recompute_modules"
        yield c.finding("--moe_shared_expert_overlap excludes the recomputation of shared_experts", OVERLAP, flags=["recompute_modules"], fix=fix)


@rule("MEG204", "shared-expert-overlap-without-shared-experts", severity="info", consequence="waste", routes=ROUTES)
def no_shared(c: JobCheck) -> Iterator[Finding]:
    """Overlap of shared experts in a model that has none.

    Qwen3-MoE, Mixtral and GPT-OSS have routed experts only: the flag does nothing, and what was hoped for from it does not come.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_shared_expert_overlap true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: megatron/core/transformer/moe/moe_layer.py:MoELayer.__init__ (megatron-core)
    """
    shape = numbers(c)
    if c.v.get(OVERLAP) is not True or shape is None or shape.shared_intermediate:
        return
    what = "no shared experts, only routed ones" if shape.is_moe else "no experts"
    yield c.finding("{model} has {what}: --moe_shared_expert_overlap does nothing", OVERLAP, model=short_name(c), what=what, fix=c.drop_flag(OVERLAP))


@rule("MEG205", "load-balancing-lists", consequence="wrong", routes=ROUTES, since="4.0")
def balancing(c: JobCheck) -> Iterator[Finding]:
    """Several kinds of load balancing without one coefficient for each.

    With more than one `--moe_router_load_balancing_type`, `--moe_aux_loss_coeff` must have as many values.

    In the log: `AssertionError: moe_aux_loss_coeff must be a list of the same length as moe_router_load_balancing_type`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_router_load_balancing_type aux_loss seq_aux_loss --moe_aux_loss_coeff 1e-3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_router_load_balancing_type aux_loss seq_aux_loss --moe_aux_loss_coeff 1e-3 1e-4
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    kinds, weights = c.v.get(BALANCING), c.v.get(COEFFICIENT)
    if isinstance(kinds, tuple) and len(kinds) > 1 and c.v.known(COEFFICIENT):
        count = len(weights) if isinstance(weights, tuple) else 1
        if count != len(kinds):
            yield c.finding(
                "{kinds} kinds of load balancing need {kinds} values of --moe_aux_loss_coeff, not {count}", BALANCING, flags=[COEFFICIENT], kinds=len(kinds), count=count,
                fix=f"--{COEFFICIENT} " + " ".join(["1e-3"] * len(kinds)),
            )  # fmt: skip
    elif isinstance(weights, tuple) and len(weights) > 1 and c.v.known(BALANCING) and is_moe(c):
        yield c.finding(
            "{count} values of --moe_aux_loss_coeff for one kind of load balancing", COEFFICIENT, flags=[BALANCING], count=len(weights), fix=f"--{COEFFICIENT} with one value"
        )


@rule("MEG206", "unknown-load-balancing", severity="warning", consequence="wrong", routes=ROUTES)
def unknown_balancing(c: JobCheck) -> Iterator[Finding]:
    """A kind of load balancing that Megatron does not know.

    Any text is accepted; one that is no kind adds no loss, so that the experts are not balanced. Together with a capacity factor it is refused.

    In the log: nothing (no load_balancing_loss among the metrics)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_router_load_balancing_type auxloss --moe_aux_loss_coeff 1e-3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_router_load_balancing_type aux_loss --moe_aux_loss_coeff 1e-3
    ```

    Source: megatron/core/transformer/moe/router.py:TopKRouter (megatron-core)
    """
    given = c.v.get(BALANCING)
    kinds = (given,) if isinstance(given, str) else given if isinstance(given, tuple) else ()
    for kind in kinds:
        if isinstance(kind, str) and kind not in _BALANCING:
            close = get_close_matches(kind, _BALANCING, 1)
            fix = c.set_flag(BALANCING, close[0]) if close and len(kinds) == 1 else f"one of: {names(_BALANCING)}"
            yield c.finding("--moe_router_load_balancing_type {kind} is none of: {valid}", BALANCING, kind=kind, valid=names(_BALANCING), fix=fix)


@rule("MEG207", "capacity-without-factor", consequence="wrong", routes=ROUTES)
def capacity(c: JobCheck) -> Iterator[Finding]:
    """Expert capacity settings that do not go together.

    Padding to capacity needs a capacity factor, and a factor needs load balancing by auxiliary losses (or none), not by sinkhorn.

    In the log: `ValueError: moe_expert_capacity_factor must be set to use moe_pad_expert_input_to_capacity`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_pad_expert_input_to_capacity true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    factor = c.v.get("moe_expert_capacity_factor")
    pads = c.v.get("moe_pad_expert_input_to_capacity") is True
    if pads and (factor is None or (isinstance(factor, (int, float)) and factor < 0)):
        yield c.finding(
            "--moe_pad_expert_input_to_capacity needs --moe_expert_capacity_factor of 0 or more", "moe_pad_expert_input_to_capacity", flags=["moe_expert_capacity_factor"],
            fix=c.drop_flag("moe_pad_expert_input_to_capacity"),
        )  # fmt: skip
    given = c.v.get(BALANCING)
    kinds = (given,) if isinstance(given, str) else given if isinstance(given, tuple) else ()
    bad = [kind for kind in kinds if isinstance(kind, str) and kind not in ("aux_loss", "seq_aux_loss", "global_aux_loss", "none")]
    if isinstance(factor, (int, float)) and bad:
        yield c.finding(
            "--moe_expert_capacity_factor does not go with load balancing {bad}", "moe_expert_capacity_factor", flags=[BALANCING], bad=names(bad),
            fix=f"--{BALANCING} aux_loss, or no capacity factor",
        )  # fmt: skip


@rule("MEG208", "capacity-drops-tokens", severity="warning", consequence="wrong", confidence="medium", routes=MEGATRON)
def drops(c: JobCheck) -> Iterator[Finding]:
    """A capacity factor, which drops tokens.

    Each expert then takes at most factor × tokens × top-k / experts; what is above passes the layer unprocessed. Rollout engines and inference drop
    nothing, so a policy is trained on other outputs than it generates. It is meant for runs that would otherwise run out of memory on an overloaded
    expert.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_expert_capacity_factor 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --moe_aux_loss_coeff 1e-3
    ```

    Source: megatron/core/transformer/moe/moe_utils.py:apply_router_token_dropping (megatron-core)
    """
    factor = c.v.get("moe_expert_capacity_factor")
    if isinstance(factor, (int, float)) and factor >= 0 and is_moe(c) is not False:
        shape = numbers(c)
        share = f" ({factor:g} × {shape.top_k}/{shape.experts} of the tokens for each expert)" if shape is not None and shape.is_moe else ""
        yield c.finding(
            "--moe_expert_capacity_factor {factor:g} drops the tokens above an expert's capacity{share}; leave it out unless unbalanced experts run out of memory",
            "moe_expert_capacity_factor", factor=factor, share=share, fix=c.drop_flag("moe_expert_capacity_factor"),
        )  # fmt: skip


@rule("MEG209", "lora-with-expert-tensor-parallel", consequence="wrong", routes=ROUTES, since="4.0")
def lora_expert_tensor(c: JobCheck) -> Iterator[Finding]:
    """LoRA on experts that are split by tensor parallelism.

    Adapters of experts exist only for whole experts.

    In the log: `ValueError: Currently, LoRA does not support ETP.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --tuner_type lora --expert_tensor_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --tuner_type lora --expert_model_parallel_size 2
    ```

    Source: mcore_bridge/tuners/lora.py:LoraParallelLinear.__init__
    Not shown on CPU: the adapter's layers are made after the model, which needs a GPU
    """
    size = sizes(c).expert_tensor
    modules = c.v.get("target_modules")
    everywhere = c.v.get("target_regex") is None and (modules is None or (isinstance(modules, tuple) and "all-linear" in modules))
    if c.v.get("tuner_type") not in ("lora", "lora_llm") or not is_moe(c) or size is None or size < 2 or not everywhere:
        return
    yield c.finding(
        "LoRA does not support expert_tensor_parallel_size {size}: it must be 1", AXES["expert_tensor"], flags=["tuner_type", AXES["expert"]], size=size,
        fix=c.set_flag(AXES["expert_tensor"], "1", f"--{AXES['expert_tensor']} 1 (and --{AXES['expert']} to spread the experts)"),
    )  # fmt: skip


@rule("MEG210", "expert-bias-with-expert-tensor-parallel", consequence="wrong", routes=ROUTES)
def expert_bias(c: JobCheck) -> Iterator[Finding]:
    """Experts with biases split by tensor parallelism.

    GPT-OSS has biases in its experts; Megatron adds them only where an expert is whole.

    In the log: `AssertionError: Bias in Moe is only supported when ETP==1`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model openai/gpt-oss-120b --dataset data.jsonl --num_train_epochs 1 --attention_backend fused --expert_tensor_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model openai/gpt-oss-120b --dataset data.jsonl --num_train_epochs 1 --attention_backend fused --expert_model_parallel_size 8
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    shape, size = numbers(c), sizes(c).expert_tensor
    if shape is not None and shape.model_type == "gpt_oss" and size is not None and size > 1:
        yield c.finding(
            "{model} has biases in its experts: expert_tensor_parallel_size {size} must be 1", AXES["expert_tensor"], model=short_name(c), size=size,
            fix=c.set_flag(AXES["expert_tensor"], "1"),
        )  # fmt: skip


@rule("MEG211", "expert-communication-overlap", consequence="wrong", routes=ROUTES, since="4.3")
def overlap(c: JobCheck) -> Iterator[Finding]:
    """Overlap of expert communication (`overlap_moe_expert_parallel_comm` in `--megatron_extra_kwargs`) without what it needs.

    It runs two micro-batches against each other, so it needs expert parallelism, no full recomputation, no shared-expert overlap, and in a pipeline
    virtual stages; with MTP exactly one layer and a pipeline.

    In the log: `AssertionError: overlap_moe_expert_parallel_comm is only supported with expert model parallelism`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --megatron_extra_kwargs '{"overlap_moe_expert_parallel_comm": true}'
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --megatron_extra_kwargs '{"overlap_moe_expert_parallel_comm": true}'
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    if extra(c).get("overlap_moe_expert_parallel_comm") is not True:
        return
    s = sizes(c)
    faults: list[tuple[str, str]] = []
    if s.pipeline is not None and s.pipeline > 1 and s.virtual is None and s.virtual_known:
        faults.append(("virtual_pipeline_model_parallel_size", f"with pipeline_model_parallel_size {s.pipeline} it needs virtual stages"))
    if s.expert == 1 or is_moe(c) is False:
        faults.append((AXES["expert"], "it needs expert_model_parallel_size 2 or more and a model with experts"))
    if c.v.get("recompute_granularity") == "full":
        faults.append(("recompute_granularity", "it excludes full recomputation"))
    elif c.v.get("recompute_method") is not None or whole(c.v.get("recompute_num_layers")) is not None:
        faults.append(("recompute_method", "it excludes recompute_method and recompute_num_layers"))
    if c.v.get(OVERLAP) is True:
        faults.append((OVERLAP, "it excludes moe_shared_expert_overlap"))
    mtp = whole(setting(c, "mtp_num_layers"))
    if mtp is not None and mtp != 1 and c.v.get("mtp_shared_weights") is not True:
        faults.append(("mtp_num_layers", f"it takes one MTP layer, not {mtp}"))
    elif mtp is not None and s.pipeline == 1:
        faults.append((AXES["pipeline"], "with MTP it needs a pipeline of 2 or more"))
    for flag, why in faults:
        yield c.finding("overlap_moe_expert_parallel_comm: {why}", "megatron_extra_kwargs", flags=[flag], why=why, fix=f"change --{flag}, or leave the overlap out")


@rule("MEG212", "npu-experts-per-rank", severity="warning", consequence="wrong", confidence="medium", routes=ROUTES, since="4.1")
def npu_experts(c: JobCheck) -> Iterator[Finding]:
    """More experts a rank than MindSpeed on an Ascend NPU takes.

    It groups at most 128 experts; the bridge warns of more and goes on.

    In the log: `MindSpeed on NPU supports up to 128 experts per EP group.`

    Wrong:
    ```sh
    ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-397B-A17B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 2
    ```

    Right:
    ```sh
    ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-397B-A17B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: mcore_bridge/config/model_config.py:_check_npu
    """
    shape, size = numbers(c), sizes(c).expert
    if c.env_entry("ASCEND_RT_VISIBLE_DEVICES") is None or shape is None or size is None or size < 1 or shape.experts <= _NPU_EXPERTS * size:
        return
    least = -(-shape.experts // _NPU_EXPERTS)
    yield c.finding(
        "{count} experts / expert_model_parallel_size {size} = {each} a rank; MindSpeed on NPU takes {most}", AXES["expert"], flags=["ASCEND_RT_VISIBLE_DEVICES"],
        count=shape.experts, size=size, each=-(-shape.experts // size), most=_NPU_EXPERTS, fix=f"--{AXES['expert']} {least} or more",
    )  # fmt: skip
