"""Activation recomputation on Megatron."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches

from .context import JobCheck, names
from .mcore import ROUTES, entry, numbers, on_ray, setting, whole
from .registry import MEGATRON, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

GRANULARITY, METHOD, COUNT, MODULES = "recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules"
_MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")


@rule("MEG301", "selective-recompute-with-method", routes=ROUTES, since="4.0")
def selective_method(c: JobCheck) -> Iterator[Finding]:
    """A method of recomputation beside selective recomputation, the default.

    Selective recomputation names modules; uniform and block say how whole layers are grouped, so they belong to `full`.

    In the log: `ValueError: recompute method is not yet supported for selective recomputing granularity`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_method uniform
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1
    ```

    Source: swift/megatron/arguments/megatron_args.py:MegatronArguments.__post_init__
    """
    if c.v.get(GRANULARITY) == "selective" and isinstance(c.v.get(METHOD), str):
        default = " (the default)" if c.v.absent(GRANULARITY) else ""
        finding = c.finding(
            "--recompute_method {method} belongs to --recompute_granularity full; it is selective{default}", METHOD, flags=[GRANULARITY, COUNT], method=c.v.get(METHOD),
            default=default, fix=c.set_flag(GRANULARITY, "full", f"--{GRANULARITY} full --{METHOD} {c.v.get(METHOD)} --{COUNT} 1, or remove --{METHOD}"),
        )  # fmt: skip
        yield on_ray(finding, c)


@rule("MEG302", "recompute-layers", consequence="wrong", routes=ROUTES)
def layers(c: JobCheck) -> Iterator[Finding]:
    """Recomputation with a method or number of layers missing, or too many given.

    `full` needs a method and a number of layers (uniform: layers a checkpointed group; block: layers a stage that are recomputed); `selective` takes none.

    In the log: `ValueError: Using recompute_granularity: full so recompute_method must be "block" or "uniform"`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_granularity full
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    granularity = c.v.get(GRANULARITY)
    if granularity == "full":
        missing = [name for name in (METHOD, COUNT) if c.v.get(name) is None]
        if missing:
            yield c.finding(
                "--recompute_granularity full needs {missing}", GRANULARITY, flags=missing, missing=" and ".join("--" + name for name in missing),
                fix=" ".join({METHOD: f"--{METHOD} uniform", COUNT: f"--{COUNT} 1"}[name] for name in missing),
            )  # fmt: skip
        if c.v.get("moe_layer_recompute") is True:
            yield c.finding("--moe_layer_recompute is a selective recomputation and excludes full", "moe_layer_recompute", flags=[GRANULARITY], fix=c.drop_flag("moe_layer_recompute"))
    elif granularity == "selective" and whole(c.v.get(COUNT)) is not None:
        default = " (the default)" if c.v.absent(GRANULARITY) else ""
        yield c.finding(
            "--recompute_num_layers belongs to --recompute_granularity full; it is selective{default}", COUNT, flags=[GRANULARITY, METHOD], default=default,
            fix=c.drop_flag(COUNT, f"remove --{COUNT}, or --{GRANULARITY} full --{METHOD} uniform --{COUNT} {c.v.get(COUNT)}"),
        )  # fmt: skip


@rule("MEG303", "recompute-modules", consequence="wrong", routes=ROUTES)
def modules(c: JobCheck) -> Iterator[Finding]:
    """Modules for selective recomputation that there are not, or that this model or setting does not have.

    Any words are accepted by the parser. With full recomputation the list is not looked at.

    In the log: `AssertionError: Invalid choices for recompute_modules: {'attention'}.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_modules attention mlp
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_modules core_attn mlp
    ```

    Source: megatron/core/transformer/transformer_config.py:TransformerConfig.__post_init__ (megatron-core)
    """
    given = c.v.get(MODULES)
    if c.v.get(GRANULARITY) != "selective" or not isinstance(given, tuple):
        return
    unknown = [name for name in given if name not in _MODULES]
    if unknown:
        close = [match for name in unknown for match in get_close_matches(str(name), _MODULES, 1)]
        yield c.finding(
            "--recompute_modules {unknown}: must be among {valid}", MODULES, unknown=names(unknown), valid=names(_MODULES),
            fix=f"--{MODULES} " + " ".join([*(n for n in given if n in _MODULES), *close] or ["core_attn"]),
        )  # fmt: skip
        return
    if "moe_act" in given and c.v.get("moe_grouped_gemm") is False:
        yield c.finding("recomputation of moe_act needs --moe_grouped_gemm true", MODULES, flags=["moe_grouped_gemm"], fix=c.set_flag("moe_grouped_gemm", "true"))
    shape = numbers(c)
    if "mla_up_proj" in given and shape is not None and shape.latent is None:
        yield c.finding("recomputation of mla_up_proj is for models with latent attention; this one has none", MODULES, flags=["model"], fix="leave mla_up_proj out")


@rule("MEG304", "recompute-mtp", consequence="wrong", routes=MEGATRON, since="4.0")
def mtp(c: JobCheck) -> Iterator[Finding]:
    """Full recomputation in larger groups together with MTP layers.

    An MTP layer is recomputed by itself, so that uniform groups must be of one layer.

    In the log: `AssertionError: recompute_num_layers must be 1 for MTP recompute`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-35B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --mtp_num_layers 1 --recompute_granularity full --recompute_method uniform --recompute_num_layers 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3.5-35B-A3B --dataset data.jsonl --num_train_epochs 1 --expert_model_parallel_size 8 --mtp_num_layers 1 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1
    ```

    Source: mcore_bridge/model/modules/mtp_layer.py:_checkpointed_forward
    Not shown on CPU: it is raised by the first forward on a GPU
    """
    count, layers = whole(c.v.get(COUNT)), whole(setting(c, "mtp_num_layers"))
    if c.v.get(GRANULARITY) == "full" and c.v.get(METHOD) == "uniform" and count is not None and count > 1 and layers:
        fix = c.set_flag(COUNT, "1")
        yield c.finding("with --mtp_num_layers {mtp}, uniform recomputation needs --recompute_num_layers 1, not {count}", COUNT, flags=["mtp_num_layers", METHOD], mtp=layers, count=count, fix=fix)


@rule("MEG305", "recompute-no-layers", consequence="hangs", routes=MEGATRON)
def none(c: JobCheck) -> Iterator[Finding]:
    """Uniform recomputation in groups of no layers.

    The forward pass goes through the stage in steps of `--recompute_num_layers`; with 0 it never gets on. The number is not checked anywhere.

    In the log: nothing; the first step never ends

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_granularity full --recompute_method uniform --recompute_num_layers 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --recompute_granularity none
    ```

    Source: megatron/core/transformer/transformer_block.py:TransformerBlock._checkpointed_forward (megatron-core)
    Not shown on CPU: it shows in the first forward on a GPU
    """
    count = whole(c.v.get(COUNT))
    if c.v.get(GRANULARITY) == "full" and c.v.get(METHOD) == "uniform" and count is not None and count < 1:
        fix = c.set_flag(COUNT, "1", f"--{COUNT} 1, or --{GRANULARITY} none for no recomputation")
        yield c.finding("--recompute_num_layers {count} with method uniform never gets through the layers: it must be 1 or more", COUNT, flags=[METHOD], count=count, fix=fix)


@rule("MEG306", "selective-recompute-with-lora", routes=ROUTES, since="4.6")
def deepseek(c: JobCheck) -> Iterator[Finding]:
    """Selective recomputation of DeepSeek-V4.1 under LoRA.

    The adapter changes the order of the backward pass, and the recomputation finds its inputs freed. Selective is the default.

    In the log: `ValueError: recompute_granularity="selective" is not supported with LoRA for deepseek_v41`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model deepseek-ai/DeepSeek-V4.1-Flash --model_type deepseek_v41 --dataset data.jsonl --num_train_epochs 1 --tuner_type lora
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron sft --model deepseek-ai/DeepSeek-V4.1-Flash --model_type deepseek_v41 --dataset data.jsonl --num_train_epochs 1 --tuner_type lora --recompute_granularity none
    ```

    Source: swift/megatron/arguments/megatron_args.py:_check_recompute
    """
    known = entry(c)
    if known is None or known.model_type != "deepseek_v41" or c.v.get(GRANULARITY) != "selective":
        return
    use = c.v.use("tuner_type")  # adapters turn full into lora only after this check
    if use is not None and not use.maybe and use.value in ("lora", "lora_llm"):
        finding = c.finding(
            "selective recomputation does not work with LoRA for deepseek_v41", GRANULARITY, flags=["tuner_type"],
            fix=c.set_flag(GRANULARITY, "full", f"--{GRANULARITY} full --{METHOD} uniform --{COUNT} 1, or none"),
        )  # fmt: skip
        yield on_ray(finding, c)
