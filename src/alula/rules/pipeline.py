"""Pipeline stages on Megatron: uneven splits, virtual stages and layout strings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.arithmetic import divisors
from alula.swift.layout import Layout, LayoutError, parse_layout, stage_layers
from alula.swift.parse import UNKNOWN

from .mcore import AXES, ROUTES, Sizes, listed, numbers, on_ray, short_name, sizes, whole
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import JobCheck

FIRST, LAST = "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"
EMBEDDING, LOSS = "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"
LAYOUT, VIRTUAL = "pipeline_model_parallel_layout", "virtual_pipeline_model_parallel_size"


def _layers(c: JobCheck) -> int | None:
    """Decoder layers of the model as Megatron counts them."""
    shape = numbers(c)
    return None if shape is None or shape.mamba is not None or shape.model_type == "glm5_next" else shape.layers  # those follow a pattern of sub-layers


def _split_free(c: JobCheck) -> bool:
    """No flag moves layers between stages, for sure."""
    return all(c.v.get(name) is None for name in (FIRST, LAST, LAYOUT)) and c.v.get(EMBEDDING) is False and c.v.get(LOSS) is False


def _layout(c: JobCheck) -> tuple[Layout | None, str | None]:
    """(the layout, why it cannot be read); both None where it is not given or not known."""
    text = c.v.get(LAYOUT)
    if not isinstance(text, str):
        return None, None
    try:
        return parse_layout(text), None
    except LayoutError as error:
        return None, str(error)


def _usable_pipelines(layers: int, s: Sizes) -> list[int]:
    """Pipeline sizes that divide the layers and leave the processes whole."""
    others = (s.tensor or 1) * (s.context or 1)
    return [n for n in divisors(layers) if s.settled is None or s.settled % (n * others) == 0]


@rule("PAR101", "uneven-split-without-pipeline", routes=ROUTES, since="4.0")
def uneven_without_pipeline(c: JobCheck) -> Iterator[Finding]:
    """Layer counts for the first or last pipeline stage without a pipeline.

    In a pipeline of one stage the first stage is the model.

    In the log: `ValueError: pipeline_model_parallel_size must be greater than 1 if you want to set decoder_first_pipeline_num_layers …`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --decoder_first_pipeline_num_layers 17
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --decoder_first_pipeline_num_layers 17 --pipeline_model_parallel_size 2
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    if sizes(c).pipeline != 1:
        return
    for name in (FIRST, LAST):
        if whole(c.v.get(name)) is not None:
            finding = c.finding(
                "--{name} {value} needs a pipeline: pipeline_model_parallel_size is 1 and must be 2 or more", name, flags=[AXES["pipeline"]], name=name, value=c.v.get(name),
                fix=f"--{AXES['pipeline']} 2 or more, or remove --{name}",
            )  # fmt: skip
            yield on_ray(finding, c)
            return


@rule("PAR102", "layers-not-divisible", consequence="wrong", routes=ROUTES)
def layers(c: JobCheck) -> Iterator[Finding]:
    """The pipeline size does not divide the model's layers.

    Without further flags each pipeline stage gets the same number of layers. Uneven splits are given with the layer counts of the first and last stage, or
    with a layout. The configuration accepts any numbers; building the model fails on every rank.

    In the log: `AssertionError: num_layers should be divisible by pipeline_model_parallel_size`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-235B-A22B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --expert_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-235B-A22B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --expert_model_parallel_size 2 --decoder_first_pipeline_num_layers 23 --decoder_last_pipeline_num_layers 23
    ```

    Source: megatron/core/transformer/transformer_block.py:get_num_layers_to_build (megatron-core)
    """
    s, count = sizes(c), _layers(c)
    if not count or s.pipeline is None or s.pipeline < 2 or count % s.pipeline == 0 or not _split_free(c):
        return
    fits = _usable_pipelines(count, s)
    advice = f"--{AXES['pipeline']} one of: {listed(fits)}"
    uneven = stage_layers(count, s.pipeline)
    if uneven is not None:
        first, middle, last = uneven
        between = f", {middle} in each of the {s.pipeline - 2} between" if s.pipeline > 2 else ""
        advice += f"; or an uneven split, such as --{FIRST} {first} --{LAST} {last} ({first} + {last} layers in the outer stages{between})"
    yield c.finding(
        "{model} has {count} layers, which --pipeline_model_parallel_size {pp} does not divide", AXES["pipeline"], flags=[FIRST, LAST], model=short_name(c), count=count,
        pp=s.pipeline, fix=advice,
    )  # fmt: skip


@rule("PAR103", "layers-per-virtual-stage", consequence="wrong", routes=ROUTES)
def virtual_layers(c: JobCheck) -> Iterator[Finding]:
    """The virtual pipeline size does not divide the layers of a stage.

    Each pipeline rank cuts its layers / PP into VPP equal pieces.

    In the log: `AssertionError: num_layers_per_pipeline_rank 5 should be divisible by vp_size 2`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 3
    ```

    Source: megatron/core/transformer/transformer_block.py:get_num_layers_to_build (megatron-core)
    """
    s, count = sizes(c), _layers(c)
    if not count or s.pipeline is None or s.pipeline < 2 or s.virtual is None or s.virtual < 1 or count % s.pipeline or not _split_free(c):
        return
    stage = count // s.pipeline
    if stage % s.virtual == 0:
        return
    pipelines = [n for n in _usable_pipelines(count, s) if n > 1 and count // n % s.virtual == 0]
    yield c.finding(
        "{model}: {count} layers / PP {pp} = {stage} a stage, which --virtual_pipeline_model_parallel_size {vpp} does not divide", VIRTUAL, flags=[AXES["pipeline"]],
        model=short_name(c), count=count, pp=s.pipeline, stage=stage, vpp=s.virtual,
        fix=f"--{VIRTUAL} one of: {listed(divisors(stage))}; or with {s.virtual} virtual stages --{AXES['pipeline']} one of: {listed(pipelines)}",
    )  # fmt: skip


@rule("PAR104", "uneven-split-does-not-add-up", consequence="wrong", routes=ROUTES)
def uneven(c: JobCheck) -> Iterator[Finding]:
    """Layer counts of the first and last pipeline stage that leave the stages between them without a whole number of layers.

    What the first and last stage do not take is divided evenly over the other stages; nothing may be left over, and every stage must divide into its
    virtual stages.

    In the log: `ValueError: number of layers at middle stage: 34 must be divisible by the middle pipeline model parallel size 3`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --decoder_first_pipeline_num_layers 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --decoder_first_pipeline_num_layers 6
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    s = sizes(c)
    given = {name: whole(c.v.get(name)) for name in (FIRST, LAST) if c.v.get(name) is not None}
    if not given or None in given.values() or s.pipeline is None or s.pipeline < 2 or c.v.get(LAYOUT) is not None:
        return
    taken = {name: value for name, value in given.items() if value is not None}
    for name, value in taken.items():
        if value <= 0:
            yield c.finding("--{name} {value} must be at least 1", name, name=name, value=value, fix=f"--{name} 1 or more")
            return
        if s.virtual and value % s.virtual:
            yield c.finding(
                "--{name} {value} is not divisible by the {vpp} virtual stages of each rank", name, flags=[VIRTUAL], name=name, value=value, vpp=s.virtual,
                fix=f"--{name} a multiple of {s.virtual}, or --{VIRTUAL} one of: {listed(divisors(value))}",
            )  # fmt: skip
            return
    count = _layers(c)
    if count is None or not s.virtual_known:
        return
    left, stages = count - sum(taken.values()), s.pipeline - len(taken)
    said = " + ".join(str(value) for value in taken.values())
    at = next(iter(taken))
    if (stages == 0) != (left == 0):
        template = "{model} has {count} layers; {said} in the outer stages leave {left} for {stages} stage(s) between"
        want = f"--{FIRST} and --{LAST} together {count}" if stages == 0 else f"fewer than {count} layers in the outer stages"
        yield c.finding(template, at, flags=[*taken, AXES["pipeline"]], model=short_name(c), count=count, said=said, left=left, stages=stages, fix=want)
        return
    unit = stages * (s.virtual or 1)
    if stages and left % unit:
        template = "{model} has {count} layers; {said} in the outer stages leave {left} for {stages} stage(s){virtual}: not divisible by {unit}"
        choices = [n for n in range(1, count) if (count - sum(taken.values()) + taken[at] - n) % unit == 0 and n % (s.virtual or 1) == 0][:12]
        yield c.finding(
            template, at, flags=[*taken, AXES["pipeline"]], model=short_name(c), count=count, said=said, left=left, stages=stages, unit=unit,
            virtual=f" × {s.virtual} virtual stages" if s.virtual else "", fix=f"--{at} one of: {listed(choices)}",
        )  # fmt: skip


@rule("PAR105", "split-flags-exclude-each-other", consequence="wrong", routes=ROUTES)
def exclusive(c: JobCheck) -> Iterator[Finding]:
    """Two ways to split the pipeline at once.

    A layout excludes everything else; layer counts of the outer stages exclude counting the embedding or the loss as a layer.

    In the log: `ValueError: pipeline_model_parallel_layout cannot be set with other pipeline layout arguments.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --decoder_first_pipeline_num_layers 17 --account_for_loss_in_pipeline_split true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --decoder_first_pipeline_num_layers 19
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    counts = [name for name in (FIRST, LAST) if whole(c.v.get(name)) is not None]
    accounts = [name for name in (EMBEDDING, LOSS) if c.v.get(name) is True]
    if isinstance(c.v.get(LAYOUT), str) and (counts or accounts):
        others = [*counts, *accounts]
        yield c.finding(
            "--pipeline_model_parallel_layout says where every layer goes, so it excludes {others}", LAYOUT, flags=others, others=" and ".join("--" + name for name in others),
            fix="keep the layout alone",
        )  # fmt: skip
    elif counts and accounts:
        yield c.finding(
            "{counts} excludes {accounts}: the counts already say what the outer stages hold", accounts[0], flags=[*counts, *accounts],
            counts=" and ".join("--" + name for name in counts), accounts=" and ".join("--" + name for name in accounts), fix=c.drop_flag(accounts[0]),
        )  # fmt: skip


@rule("PAR106", "embedding-or-loss-as-layer", consequence="wrong", routes=ROUTES)
def accounted(c: JobCheck) -> Iterator[Finding]:
    """The layers do not divide over the stages when the embedding or the loss counts as one more.

    Each of the two flags adds one to the number of layers, and the sum must divide into pipeline and virtual stages.

    In the log: `ValueError: number of middle layers: 37 must be divisible by middle pipeline_model_parallel_size 2`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --account_for_loss_in_pipeline_split true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --account_for_loss_in_pipeline_split true --account_for_embedding_in_pipeline_split true
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    s, count = sizes(c), _layers(c)
    added = [name for name in (EMBEDDING, LOSS) if c.v.get(name) is True]
    if not added or not count or s.pipeline is None or s.pipeline < 1 or not s.virtual_known or any(c.v.get(name) is not None for name in (FIRST, LAST, LAYOUT)):
        return
    if any(c.v.get(name) is UNKNOWN for name in (EMBEDDING, LOSS)):
        return
    total, unit = count + len(added), s.pipeline * (s.virtual or 1)
    if total % unit == 0:
        return
    other = next((extra for extra in (0, 1, 2) if (count + extra) % unit == 0), None)
    advice = {0: "remove both flags", 1: "keep only one of the two flags", 2: f"set both --{EMBEDDING} and --{LOSS}", None: f"--{AXES['pipeline']} one of: "}[other]
    if other is None:
        advice += listed([n for n in divisors(total) if s.settled is None or s.settled % (n * (s.tensor or 1) * (s.context or 1)) == 0])
    yield c.finding(
        "{model}: {count} layers + {more} = {total}, which PP {pp}{virtual} = {unit} stages do not divide", added[0], flags=[*added, AXES["pipeline"]], model=short_name(c),
        count=count, more=len(added), total=total, pp=s.pipeline, virtual=f" × VPP {s.virtual}" if s.virtual else "", unit=unit, fix=advice,
    )  # fmt: skip


@rule("PAR107", "layout-unreadable", routes=ROUTES, since="4.0")
def layout_stages(c: JobCheck) -> Iterator[Finding]:
    """A pipeline layout that cannot be read, or whose stages do not fit the pipeline.

    `E` is the embedding, `t` a transformer layer, `m` the MTP layers, `L` the loss; `|` ends a stage and `(tt|)*4` repeats. The number of stages must be a
    multiple of the pipeline size; the quotient is the virtual pipeline size.

    In the log: `AssertionError: The length of pipeline_model_parallel_layout must be divisible by pipeline_model_parallel_size (num_stages=3, …)`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*12|t*12|t*12L"
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*18|t*18L"
    ```

    Source: swift/megatron/arguments/megatron_args.py:_init_vpp_size; megatron/core/transformer/pipeline_parallel_layer_layout.py:parse_str_to_list (megatron-core)
    """
    layout, why = _layout(c)
    if why is not None:
        yield on_ray(c.finding("--pipeline_model_parallel_layout cannot be read: {why}", LAYOUT, why=why, fix="stages of E, t, m and L, divided by |, such as Et*18|t*18L"), c)
        return
    pipeline = sizes(c).pipeline
    if layout is None or not pipeline or pipeline < 1 or len(layout.stages) % pipeline == 0:
        return
    finding = c.finding(
        "--pipeline_model_parallel_layout has {stages} stages (parts between |), no multiple of pipeline_model_parallel_size {pp}", LAYOUT, flags=[AXES["pipeline"]],
        stages=len(layout.stages), pp=pipeline, fix=f"a multiple of {pipeline} stages, or --{AXES['pipeline']} one of: {listed(divisors(len(layout.stages)))}",
    )  # fmt: skip
    yield on_ray(finding, c)


@rule("PAR108", "layout-does-not-fit-model", consequence="wrong", routes=ROUTES)
def layout_content(c: JobCheck) -> Iterator[Finding]:
    """A pipeline layout that does not describe the model.

    It must begin with the embedding, end with the loss, and hold exactly the model's layers. MTP layers are placed only when `--mtp_num_layers` asks for
    them, after all transformer layers, together in one stage among the last virtual stages. In ms-swift that stage must also hold a transformer layer,
    from which the MTP layer is made.

    In the log: `AssertionError: Number of decoder layers 58 must match num_layers 60`; with a stage of MTP alone `IndexError: list index out of range`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*16|t*18L"
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*18|t*18L"
    ```

    Source: megatron/core/transformer/pipeline_parallel_layer_layout.py:validate_layer_layout (megatron-core);
    Source: megatron/core/models/gpt/gpt_layer_specs.py:get_gpt_mtp_block_spec_for_backend; mcore_bridge/model/register.py:build_model
    """
    layout, _ = _layout(c)
    pipeline = sizes(c).pipeline
    if layout is None or not pipeline or pipeline < 1 or len(layout.stages) % pipeline:
        return
    mtp = c.v.get("mtp_num_layers")
    if mtp is UNKNOWN or c.v.get("mtp_shared_weights") is UNKNOWN:
        return
    if c.v.get("mtp_shared_weights") is True and mtp is not None:
        mtp = 1  # one layer, run several times
    faults = list(layout.faults(_layers(c), mtp, pipeline))
    for why in faults:
        yield c.finding(
            "--pipeline_model_parallel_layout: {why}", LAYOUT, flags=["mtp_num_layers"] if "MTP" in why else [], why=why, fix=_layout_advice(c, pipeline, mtp)
        )
    if faults:
        return
    for stage in layout.lone_mtp_stages():
        yield c.finding(
            "--pipeline_model_parallel_layout: stage {number} (`{stage}`) holds MTP layers without a transformer layer; in ms-swift the stage of the m must hold at least one t",
            LAYOUT, flags=["mtp_num_layers"], number=stage + 1, stage=layout.stages[stage],
            fix=_move_layer(layout, stage),
        )  # fmt: skip


def _move_layer(layout: Layout, stage: int) -> str:
    """Which two stages to change so that the MTP stage gets a transformer layer."""
    giver = next((at for at in range(stage - 1, -1, -1) if layout.stages[at].count("t") > 1), None)
    new = f"t{layout.stages[stage]}"
    if giver is None:
        return f"move a t next to the m: `{new}`"
    left = layout.stages[giver].replace("t", "", 1)
    return f"move a t next to the m: stage {giver + 1} `{left}` instead of `{layout.stages[giver]}`, stage {stage + 1} `{new}`"


def _layout_advice(c: JobCheck, pipeline: int, mtp: int | None) -> str:
    count = _layers(c)
    tail = "m" * (mtp or 0) + "L"
    if count is None or pipeline < 2:
        return f"E first, one t a layer, {tail} last, such as Et*18|t*18{tail}"
    split = stage_layers(count, pipeline)
    if split is None:
        return f"E first, {count} t, {tail} last"
    first, middle, last = (count // pipeline,) * 3 if count % pipeline == 0 else split
    inner = f"(t*{middle}|)*{pipeline - 2}" if pipeline > 2 else ""
    return f"for example `Et*{first}|{inner}t*{last}{tail}`"


@rule("PAR109", "layout-overrides-virtual-size", severity="warning", consequence="wrong", routes=ROUTES, since="4.0")
def layout_overrides(c: JobCheck) -> Iterator[Finding]:
    """A virtual pipeline size beside a layout that gives another.

    ms-swift takes stages / pipeline size of the layout and overwrites the flag without a word.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 3 --pipeline_model_parallel_layout "Et*9|t*9|t*9|t*9L"
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 2 --pipeline_model_parallel_layout "Et*9|t*9|t*9|t*9L"
    ```

    Source: swift/megatron/arguments/megatron_args.py:_init_vpp_size
    """
    layout, _ = _layout(c)
    pipeline = sizes(c).pipeline
    use = c.v.use(VIRTUAL)
    if layout is None or not pipeline or pipeline < 1 or len(layout.stages) % pipeline or use is None or use.maybe or whole(use.value) is None:
        return
    real = len(layout.stages) // pipeline
    if use.value != real:
        yield c.finding(
            "--virtual_pipeline_model_parallel_size {given} is overwritten: the layout's {stages} stages / PP {pp} make it {real}", VIRTUAL, flags=[LAYOUT],
            given=use.value, stages=len(layout.stages), pp=pipeline, real=real, fix=c.drop_flag(VIRTUAL),
        )  # fmt: skip


@rule("PAR110", "virtual-pipeline-micro-batches", consequence="wrong", routes=MEGATRON)
def virtual_micro_batches(c: JobCheck) -> Iterator[Finding]:
    """Too few, or unevenly many, micro-batches for the interleaved pipeline.

    With virtual stages a rank runs groups of consecutive micro-batches (as many as pipeline stages, or `--microbatch_group_size_per_vp_stage`). A group may
    not be larger than the micro-batches of a step nor smaller than the pipeline, and the last, incomplete group must fill the pipeline too.

    In the log: `ValueError: The number of contiguous micro-batches in a virtual pipeline stage should range in [PP=4 , M=2]`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 3 --global_batch_size 4
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 3 --global_batch_size 16
    ```

    Source: megatron/core/pipeline_parallel/schedules.py:forward_backward_pipelining_with_interleaving (megatron-core)
    Not shown on CPU: it is raised by the first training step
    """
    s, count = sizes(c), _micro_batches(c)
    if count is None or not s.pipeline or s.pipeline < 2 or s.virtual is None:
        return
    name = "microbatch_group_size_per_vp_stage"
    if c.v.get(name) is UNKNOWN:
        return
    group = whole(c.v.get(name)) or s.pipeline
    unit = (whole(c.v.get("micro_batch_size")) or 1) * (c.v.data_parallel or 1)
    flags = [VIRTUAL, AXES["pipeline"], "global_batch_size", "micro_batch_size"]
    if not s.pipeline <= group <= count:
        at = name if c.v.written(name) and group < s.pipeline else "global_batch_size"
        yield c.finding(
            "virtual stages run groups of {group} micro-batches: the group must lie between PP {pp} and the {count} micro-batches of a step "
            "(global_batch_size / (micro_batch_size × data parallel))",
            at, flags=flags, group=group, pp=s.pipeline, count=count,
            fix=f"--global_batch_size {unit * max(group, s.pipeline)} or a multiple of it, or no --{VIRTUAL}" if group >= s.pipeline else f"--{name} {s.pipeline} or more",
        )  # fmt: skip
    elif 0 < count % group < s.pipeline:
        yield c.finding(
            "{count} micro-batches a step in groups of {group} leave a last group of {rest}, which must be 0 or at least PP {pp}", "global_batch_size", flags=flags,
            count=count, group=group, rest=count % group, pp=s.pipeline,
            fix=f"--global_batch_size {unit * (count // group * group)} or {unit * (count // group + 1) * group}",
        )  # fmt: skip


@rule("PAR111", "pipeline-mostly-idle", severity="warning", consequence="waste", confidence="medium", routes=MEGATRON)
def idle_pipeline(c: JobCheck) -> Iterator[Finding]:
    """Fewer micro-batches a step than pipeline stages.

    A pipeline of PP stages runs M micro-batches in M + PP - 1 turns, so it stands still for (PP - 1) / (M + PP - 1) of the time, more than half where M is
    below PP.

    In the log: nothing; the throughput is low

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --global_batch_size 4 --micro_batch_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --pipeline_model_parallel_size 4 --global_batch_size 64 --micro_batch_size 2
    ```

    Source: megatron/core/pipeline_parallel/schedules.py:forward_backward_pipelining_without_interleaving (megatron-core)
    """
    s, count = sizes(c), _micro_batches(c)
    if count is None or not s.pipeline or s.pipeline < 3 or s.virtual is not None or not s.virtual_known or count >= s.pipeline:
        return
    unit = (whole(c.v.get("micro_batch_size")) or 1) * (c.v.data_parallel or 1)
    yield c.finding(
        "{count} micro-batch(es) a step (global_batch_size / (micro_batch_size × data parallel)) for {pp} pipeline stages: the stages stand idle {share}% of the time",
        "global_batch_size", flags=[AXES["pipeline"], "micro_batch_size"], count=count, pp=s.pipeline, share=round(100 * (s.pipeline - 1) / (count + s.pipeline - 1)),
        fix=f"--global_batch_size {unit * s.pipeline * 2} or more, or a smaller --{AXES['pipeline']}",
    )  # fmt: skip


def _micro_batches(c: JobCheck) -> int | None:
    """Micro-batches of one optimizer step, or None where they are not known or not whole."""
    total, micro, data = whole(c.v.get("global_batch_size")), whole(c.v.get("micro_batch_size")), c.v.data_parallel
    if not total or not micro or not data or total < 1 or micro < 1 or total % (micro * data):
        return None
    return total // (micro * data)
