"""Megatron parallel sizes against the processes and the model."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm
from typing import TYPE_CHECKING

from .mcore import AXES, ROUTES, counted, entry, fitting, is_moe, listed, numbers, on_ray, processes, short_name, sizes
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

    from .context import JobCheck


@rule("PAR001", "world-size-not-divisible", routes=ROUTES)
def world_size(c: JobCheck) -> Iterator[Finding]:
    """The processes cannot be cut into whole copies of the model.

    One copy of the model takes tensor × pipeline × context ranks; what is left over is data parallelism, so the number of processes must be a multiple of
    the product. The usual reason is a missing NPROC_PER_NODE: without it (and without NNODES) a `megatron` command is one process.

    In the log: `RuntimeError: world_size (8) is not divisible by 3` (with GRPO and too few processes `ZeroDivisionError: integer modulo by zero` comes first)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2
    ```

    Source: megatron/core/parallel_state.py:initialize_model_parallel (megatron-core); swift/megatron/utils/megatron_lm_utils.py:_initialize_mpu;
    Source: swift/ray/megatron/driver_utils.py:estimate_dp_size
    """
    s = sizes(c)
    if s.world is None or s.model is None or s.world < 1:
        return
    flags = [AXES[axis] for axis in ("tensor", "pipeline", "context")]
    for axis in ("tensor", "pipeline", "context"):
        if getattr(s, axis) < 1:
            yield c.finding("--{flag} {value}: a parallel size is at least 1", AXES[axis], flag=AXES[axis], value=getattr(s, axis), fix=f"--{AXES[axis]} 1")
            return
    pipeline, context = s.pipeline or 1, s.context or 1
    if s.world % s.model == 0:
        return
    source, said = processes(c)
    template = (
        "{world} process(es) cannot hold copies of the model that take TP {tp} × PP {pp} × CP {cp} = {model} ranks each: the processes ({said}) must be a multiple of {model}"
    )
    shape = numbers(c)
    heads = shape.heads if shape is not None else None
    left = s.world // (pipeline * context) if s.world % (pipeline * context) == 0 else 0
    fix: Fix | str
    if source == "NPROC_PER_NODE" and c.job.launch.nproc is None and s.world < s.model:
        least = lcm(s.model, s.experts or 1)
        nodes = c.v.place.nnodes or 1
        if least <= 8 * nodes and least % nodes == 0:
            fix = c.set_env("NPROC_PER_NODE", str(least // nodes))
        else:
            fix = f"start {least} processes (or a multiple): NPROC_PER_NODE=8 NNODES={-(-least // 8)} on {-(-least // 8)} nodes"
    else:
        choices = listed(fitting(left, heads), "none with this PP and CP") if left else "none with this PP and CP"
        fix = f"{said} = a multiple of {s.model}, or with {s.world} processes --{AXES['tensor']} one of: {choices}"
    at = max(flags, key=lambda flag: (c.v.token(flag) is not None, c.v.get(flag)))
    yield c.finding(
        template, at, flags=[*flags, *([source] if source else [])], related=[("NPROC_PER_NODE", f"{s.world} processes in all")] if source == "NPROC_PER_NODE" else [],
        world=s.world, tp=s.tensor, pp=s.pipeline, cp=s.context, model=s.model, said=said, fix=fix,
    )  # fmt: skip


@rule("PAR002", "expert-world-not-divisible", routes=ROUTES)
def expert_world(c: JobCheck) -> Iterator[Finding]:
    """The processes cannot be cut into whole copies of the experts.

    Experts are placed on their own grid, expert-tensor × expert × pipeline ranks a copy, and that product must divide the number of processes too. It is
    enforced for dense models as well.

    In the log: `RuntimeError: world_size (8) is not divisible by expert_tensor_model_pipeline_parallel size (12)`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: megatron/core/parallel_state.py:initialize_model_parallel (megatron-core)
    """
    s = sizes(c)
    if s.world is None or s.experts is None or s.world < 1 or not s.pipeline or s.pipeline < 1:
        return
    for axis in ("expert", "expert_tensor"):
        if getattr(s, axis) < 1:
            yield on_ray(c.finding("--{flag} {value}: a parallel size is at least 1", AXES[axis], flag=AXES[axis], value=getattr(s, axis), fix=f"--{AXES[axis]} 1"), c)
            return
    if s.world % s.experts == 0 or s.experts == s.pipeline or (not counted(c) and s.model and s.world % s.model):
        return  # with neither EP nor ETP, or without any number of processes, PAR001 says it
    source, said = processes(c)
    base = (s.expert_tensor or 1) * s.pipeline
    shape = numbers(c)
    count = shape.experts if shape is not None else None
    choices = listed(fitting(s.world // base, count), "none") if s.world % base == 0 else "none with this PP and ETP"
    template = (
        "{world} process(es) cannot hold copies of the experts that take ETP {etp} × EP {ep} × PP {pp} = {group} ranks each: the processes ({said}) must be a multiple of {group}"
    )
    at = AXES["expert"] if (s.expert or 1) > 1 else AXES["expert_tensor"]
    finding = c.finding(
        template, at, flags=[AXES["expert_tensor"], AXES["pipeline"], *([source] if source else [])],
        related=[("NPROC_PER_NODE", f"{s.world} processes in all")] if source == "NPROC_PER_NODE" else [],
        world=s.world, etp=s.expert_tensor, ep=s.expert, pp=s.pipeline, group=s.experts, said=said,
        fix=f"{said} = a multiple of {s.experts}, or --{AXES['expert']} one of: {choices}",
    )  # fmt: skip
    yield on_ray(finding, c)


@rule("PAR003", "virtual-pipeline-without-pipeline", routes=ROUTES)
def virtual_without_pipeline(c: JobCheck) -> Iterator[Finding]:
    """Virtual pipeline stages on a pipeline of one.

    Virtual stages interleave the layers of pipeline ranks, so they need at least two of them. 1 counts as unset.

    In the log: `RuntimeError: pipeline-model-parallel size should be greater than 1 with interleaved schedule`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --virtual_pipeline_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --virtual_pipeline_model_parallel_size 2 --pipeline_model_parallel_size 2
    ```

    Source: megatron/core/parallel_state.py:initialize_model_parallel (megatron-core); swift/megatron/arguments/megatron_args.py:_init_vpp_size
    """
    s = sizes(c)
    if s.virtual is None or s.pipeline != 1:
        return
    at = "pipeline_model_parallel_layout" if c.v.written("pipeline_model_parallel_layout") else "virtual_pipeline_model_parallel_size"
    finding = c.finding(
        "{virtual} virtual stages a rank need a pipeline: pipeline_model_parallel_size is 1 and must be 2 or more", at, flags=[AXES["pipeline"]], virtual=s.virtual,
        fix=c.drop_flag(at, f"remove --{at}, or set --{AXES['pipeline']} to 2 or more"),
    )  # fmt: skip
    yield on_ray(finding, c)


@rule("PAR004", "heads-not-divisible", consequence="wrong", routes=ROUTES)
def heads(c: JobCheck) -> Iterator[Finding]:
    """The tensor parallel size does not divide the model's attention heads.

    Tensor parallelism gives each rank a share of the heads. The parser accepts any size; building the model's configuration fails on every rank.

    In the log: `ValueError: num_attention_heads (40) must be a multiple of tensor_model_parallel_size (16).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron sft --model Qwen/Qwen3-14B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron sft --model Qwen/Qwen3-14B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 8
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    s = sizes(c)
    shape = numbers(c)
    if shape is None or s.tensor is None or s.tensor < 2 or not shape.heads:
        return
    fits = [n for n in fitting(shape.heads) if s.settled is None or s.settled % n == 0]
    if shape.heads % s.tensor:
        yield c.finding(
            "{model} has {heads} attention heads, which --tensor_model_parallel_size {tp} does not divide", AXES["tensor"], model=short_name(c), heads=shape.heads, tp=s.tensor,
            fix=f"--{AXES['tensor']} one of: {listed(fits)}",
        )  # fmt: skip
        return
    kv = _query_groups(c)
    if kv and kv % s.tensor and s.tensor % kv:
        both = [n for n in fits if kv % n == 0 or n % kv == 0]
        yield c.finding(
            "{model} has {kv} key/value heads: --tensor_model_parallel_size {tp} must divide them or be a multiple of them", AXES["tensor"], model=short_name(c), kv=kv, tp=s.tensor,
            fix=f"--{AXES['tensor']} one of: {listed(both)}",
        )  # fmt: skip


@rule("PAR005", "kv-heads-below-tensor-parallel", severity="warning", consequence="waste", confidence="medium", routes=ROUTES)
def few_kv_heads(c: JobCheck) -> Iterator[Finding]:
    """More tensor parallel ranks than the model has key/value heads.

    Megatron-core up to 0.15 refuses this: there the key/value heads must be a multiple of the tensor parallel size. From 0.16 on it is allowed, and each
    key/value head is held by several ranks, so that part of the attention gains nothing from the larger size.

    In the log: with megatron-core 0.15 `ValueError: num_query_groups (2) must be a multiple of tensor_model_parallel_size (8).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-397B-A17B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 8 --expert_model_parallel_size 8 --sequence_parallel true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-397B-A17B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2 --expert_model_parallel_size 8 --sequence_parallel true
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core 0.15 and 0.16)
    """
    s = sizes(c)
    shape, kv = numbers(c), _query_groups(c)
    if shape is None or not kv or s.tensor is None or s.tensor <= kv or s.tensor % kv or shape.heads % s.tensor:
        return
    fits = [n for n in fitting(kv) if s.settled is None or s.settled % n == 0]
    template = (
        "{model} has {kv} key/value heads for --tensor_model_parallel_size {tp}: megatron-core 0.15 and older refuse it (the heads must be a multiple of the size), "
        "0.16 and newer keep each head on {copies} ranks"
    )
    yield c.finding(
        template, AXES["tensor"], model=short_name(c), kv=kv, tp=s.tensor, copies=s.tensor // kv,
        fix=f"--{AXES['tensor']} {listed(fits)}, or make sure that megatron-core is 0.16 or newer",
    )  # fmt: skip


@rule("PAR006", "experts-not-divisible", consequence="wrong", routes=ROUTES)
def experts(c: JobCheck) -> Iterator[Finding]:
    """The expert parallel size does not divide the model's experts.

    Every rank of the expert group holds the same number of experts. A bare assertion says so while the first MoE layer is built.

    In the log: `AssertionError` in megatron/core/transformer/moe/moe_layer.py

    Wrong:
    ```sh
    NPROC_PER_NODE=6 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --global_batch_size 12 --expert_model_parallel_size 6
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: megatron/core/transformer/moe/moe_layer.py:BaseMoELayer.__init__ (megatron-core)
    """
    s = sizes(c)
    shape = numbers(c)
    count = shape.experts if shape is not None else None
    if not count or s.expert is None or s.expert < 2 or count % s.expert == 0:
        return
    limit = s.world // ((s.expert_tensor or 1) * s.pipeline) if s.world and s.pipeline and s.pipeline > 0 else count
    fits = [n for n in fitting(count) if limit % n == 0] if limit else fitting(count)
    yield c.finding(
        "{model} has {count} experts, which --expert_model_parallel_size {ep} does not divide", AXES["expert"], model=short_name(c), count=count, ep=s.expert,
        fix=f"--{AXES['expert']} one of: {listed(fits)}",
    )  # fmt: skip


@rule("PAR007", "expert-parallel-on-dense", severity="warning", consequence="waste", routes=ROUTES)
def dense(c: JobCheck) -> Iterator[Finding]:
    """Expert parallelism for a model without experts.

    ms-swift sets both expert sizes back to 1 for such a model, so the flag buys no memory; the product ETP·EP·PP must still divide the processes.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-32B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-32B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 8 --sequence_parallel true
    ```

    Source: swift/megatron/model/utils.py:get_mcore_model_config
    """
    s = sizes(c)
    if is_moe(c) is not False:
        return
    for axis in ("expert", "expert_tensor"):
        value = getattr(s, axis)
        if value is not None and value > 1:
            yield c.finding(
                "{model} has no experts: --{flag} {value} does nothing; to cut a dense model use tensor or pipeline parallelism", AXES[axis], flags=[AXES["tensor"]],
                model=short_name(c), flag=AXES[axis], value=value, fix=c.drop_flag(AXES[axis]),
            )  # fmt: skip


@rule("PAR008", "moe-tensor-parallel-without-sequence-parallel", consequence="wrong", routes=MEGATRON)
def moe_sequence_parallel(c: JobCheck) -> Iterator[Finding]:
    """A mixture of experts with tensor parallelism and without sequence parallelism.

    The message speaks of performance, but it is an exception: the first training forward of a MoE layer raises it. `megatron export` switches sequence
    parallelism on by itself.

    In the log: `ValueError: During training, performance may degrade if MoE and tensor parallelism are enabled without also enabling sequence parallelism.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2 --expert_model_parallel_size 4
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2 --expert_model_parallel_size 4 --sequence_parallel true
    ```

    Source: megatron/core/transformer/moe/moe_layer.py:MoELayer.forward (megatron-core)
    """
    s = sizes(c)
    if not is_moe(c) or s.tensor is None or s.tensor < 2 or c.v.get("sequence_parallel") is not False:
        return
    yield c.finding(
        "{model} has experts: --tensor_model_parallel_size {tp} needs --sequence_parallel true, else the first training step fails", AXES["tensor"],
        flags=["sequence_parallel"], model=short_name(c), tp=s.tensor, fix=c.set_flag("sequence_parallel", "true", safety="safe"),
    )  # fmt: skip


@rule("PAR009", "sequence-parallel-without-tensor-parallel", severity="info", consequence="waste", routes=MEGATRON)
def idle_sequence_parallel(c: JobCheck) -> Iterator[Finding]:
    """Sequence parallelism with a tensor parallel size of 1.

    It splits what tensor parallelism leaves whole, so without it there is nothing to split: ms-swift switches it off without a word.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --sequence_parallel true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --sequence_parallel true --tensor_model_parallel_size 2
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    use = c.v.use("sequence_parallel")
    if use is None or use.maybe or use.value is not True or sizes(c).tensor != 1:
        return
    yield c.finding(
        "--sequence_parallel true has no effect with tensor_model_parallel_size 1: activations are not split", "sequence_parallel", flags=[AXES["tensor"]],
        fix=f"--{AXES['tensor']} 2 or more, or remove --sequence_parallel; to split long sequences use --{AXES['context']}",
    )  # fmt: skip


@rule("PAR010", "tp-overlap-without-sequence-parallel", routes=ROUTES, since="4.0")
def tp_overlap(c: JobCheck) -> Iterator[Finding]:
    """Overlap of tensor parallel communication without sequence parallelism.

    Sequence parallelism counts as off where the tensor parallel size is 1.

    In the log: `ValueError: Tensor parallel communication/GEMM overlap can happen only when sequence parallelism is enabled`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2 --tp_comm_overlap true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2 --tp_comm_overlap true --sequence_parallel true
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    if c.v.get("tp_comm_overlap") is not True or c.v.get("sequence_parallel") is not False:
        return
    tensor = sizes(c).tensor
    why = "tensor_model_parallel_size is 1, which switches sequence parallelism off" if tensor == 1 else "sequence_parallel is off"
    finding = c.finding(
        "--tp_comm_overlap true needs sequence parallelism: {why}", "tp_comm_overlap", flags=["sequence_parallel", AXES["tensor"]], why=why,
        fix=c.set_flag("sequence_parallel", "true") if tensor != 1 else c.drop_flag("tp_comm_overlap"),
    )  # fmt: skip
    yield on_ray(finding, c)


@rule("PAR011", "linear-attention-parallel", consequence="wrong", confidence="medium", routes=ROUTES)
def linear_attention(c: JobCheck) -> Iterator[Finding]:
    """Parallel sizes that the linear attention layers of a hybrid model cannot take.

    Gated delta net layers (Qwen3-Next, Qwen3.5) split their own key and value heads over the tensor parallel ranks. Megatron-core 0.16 has no context
    parallelism for them; newer versions split the heads over TP × CP.

    In the log: `AssertionError: linear_num_key_heads must be a multiple of tensor_model_parallel_size.` or `Gated delta net does not support context parallel for now`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-27B --dataset data.jsonl --num_train_epochs 1 --context_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-27B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 2
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    s = sizes(c)
    counts = _linear_heads(c)
    if counts is None or s.tensor is None or s.context is None or s.tensor < 1 or c.env("USE_MCORE_GDN") in ("0", "false", "False"):
        return
    for kind, count in counts.items():
        if count % s.tensor:
            yield c.finding(
                "{model} has {count} {kind} heads in its linear attention, which --tensor_model_parallel_size {tp} does not divide", AXES["tensor"],
                model=short_name(c), count=count, kind=kind, tp=s.tensor, fix=f"--{AXES['tensor']} one of: {listed(fitting(count))}",
            )  # fmt: skip
            return
    if s.context > 1:
        newer = all(count % (s.tensor * s.context) == 0 for count in counts.values())
        note = "newer ones can, since TP × CP divides its linear heads" if newer else f"newer ones need TP × CP = {s.tensor * s.context} to divide its linear heads ({listed(list(counts.values()))})"
        yield c.finding(
            "{model} has linear attention layers: megatron-core 0.16 cannot split them with --context_parallel_size {cp}; {note}", AXES["context"], model=short_name(c),
            cp=s.context, note=note, fix=f"--{AXES['context']} 1 and a larger --{AXES['tensor']}, or megatron-core newer than 0.16",
        )  # fmt: skip


@rule("PAR013", "sparse-attention-parallel", consequence="wrong", confidence="medium", routes=ROUTES, since="4.1")
def sparse_attention(c: JobCheck) -> Iterator[Finding]:
    """Context parallelism, or the fused rotary embedding, for a model with indexed sparse attention.

    DeepSeek-V3.2 and GLM-5 choose the keys of each query with an indexer, which megatron-core 0.16 can neither split along the sequence nor fuse.

    In the log: `AssertionError: Currently context parallelism is not supported by DSAttention!`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model deepseek-ai/DeepSeek-V3.2 --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --context_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model deepseek-ai/DeepSeek-V3.2 --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    known, shape = entry(c), numbers(c)
    kinds = {known.model_type if known is not None else "", shape.model_type if shape is not None else ""}
    if not kinds & {"deepseek_v32", "glm_moe_dsa"}:
        return
    size = sizes(c).context
    if size is not None and size > 1:
        yield c.finding(
            "{model} has indexed sparse attention, which megatron-core 0.16 cannot split with --context_parallel_size {size}", AXES["context"], model=short_name(c), size=size,
            fix=f"--{AXES['context']} 1 and a larger --{AXES['tensor']} or --{AXES['pipeline']}, or a newer megatron-core",
        )  # fmt: skip
    if c.v.get("apply_rope_fusion") is True:
        yield c.finding("{model} has indexed sparse attention, which excludes --apply_rope_fusion", "apply_rope_fusion", model=short_name(c), fix=c.drop_flag("apply_rope_fusion"))


@rule("PAR012", "tensor-parallel-across-nodes", severity="warning", consequence="waste", confidence="medium", routes=ROUTES)
def across_nodes(c: JobCheck) -> Iterator[Finding]:
    """A tensor parallel group that spans nodes.

    Tensor parallel ranks exchange activations twice a layer, forward and backward. Ranks are numbered so that they sit next to each other; a group larger
    than a node, or one that does not divide it, puts this traffic on the network between nodes.

    In the log: nothing; steps are several times slower

    Wrong:
    ```sh
    NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron sft --model Qwen/Qwen2.5-72B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 16
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron sft --model Qwen/Qwen2.5-72B --dataset data.jsonl --num_train_epochs 1 --tensor_model_parallel_size 8 --pipeline_model_parallel_size 2
    ```

    Source: megatron/core/parallel_state.py:RankGenerator (megatron-core; order tp-cp-ep-dp-pp)
    """
    s = sizes(c)
    if s.world is None or s.local is None or s.tensor is None or s.tensor < 2 or s.local < 1 or s.world <= s.local:
        return
    if s.world % s.tensor or s.local % s.tensor == 0:
        return
    yield c.finding(
        "--tensor_model_parallel_size {tp} does not divide the {local} processes of a node: tensor parallel traffic crosses the network", AXES["tensor"],
        flags=[AXES["pipeline"]], tp=s.tensor, local=s.local, fix=f"--{AXES['tensor']} one of: {listed(fitting(s.local))}, and --{AXES['pipeline']} across the nodes",
    )  # fmt: skip


def _model(c: JobCheck) -> str:
    name = c.v.get("model")
    return name.rstrip("/").rsplit("/", 1)[-1] if isinstance(name, str) else "the model"


def _query_groups(c: JobCheck) -> int | None:
    """Key/value heads as Megatron counts them; latent attention has none of its own."""
    shape = numbers(c)
    if shape is None or shape.latent is not None:
        return None
    return shape.kv_heads


def _linear_heads(c: JobCheck) -> dict[str, int] | None:
    shape = numbers(c)
    if shape is None or shape.linear is None:
        return None
    return {"key": shape.linear.key_heads, "value": shape.linear.value_heads}
