"""Generation flags that have no effect where they stand, or cost more than they give."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .beside import data_of
from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import ROLLOUT_TYPES, colocate, given, kind, server_mode, whole

if TYPE_CHECKING:
    from alula.run.finding import Finding

ONLY_ON_THE_SERVER = (
    "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size", "vllm_data_parallel_size", "vllm_pipeline_parallel_size", "vllm_max_model_len",
    "vllm_max_num_seqs", "vllm_enforce_eager", "vllm_limit_mm_per_prompt", "vllm_enable_prefix_caching", "vllm_disable_cascade_attn",
    "vllm_mm_processor_cache_gb", "vllm_engine_kwargs", "vllm_quantization", "vllm_speculative_config", "vllm_enable_expert_parallel",
    "vllm_use_async_engine", "vllm_max_lora_rank",
)  # fmt: skip
"""Read by the engine, which in server mode is the server's."""

NOT_IN_COLOCATE = (
    "vllm_pipeline_parallel_size", "vllm_data_parallel_size", "vllm_enable_expert_parallel", "vllm_quantization", "vllm_speculative_config",
    "vllm_use_async_engine", "vllm_max_lora_rank", "vllm_server_timeout", "vllm_server_group_port", "vllm_server_pass_dataset",
)  # fmt: skip
"""Accepted, but the colocated engine is built without them."""

SHAPES_THE_ENGINE = NOT_IN_COLOCATE[:5]
_QUANTISED = re.compile(r"[-_](awq|gptq|bnb-4bit|4bit|8bit)\b", re.I)

ONLY_IN_COLOCATE = ("sleep_level", "offload_model", "offload_optimizer")


def _written(c: JobCheck, flags: Sequence[str]) -> list[str]:
    """Those that are written with a value other than their default."""
    out: list[str] = []
    for name in flags:
        value = given(c.v, name)
        if value is not None and value is not UNKNOWN and value != c.v.flags[name].default:
            out.append(name)
    return out


@rule("ROL021", "engine-flags-in-server-mode", severity="info", consequence="waste", routes=RLHF, since="4.0")
def engine_flags_in_server_mode(c: JobCheck) -> Iterator[Finding]:
    """Engine flags on a trainer that generates on a server.

    In server mode the engine belongs to `swift rollout`; on the trainer these flags are accepted and not read.

    In the log: `Configuration conflict: 'vllm_max_model_len=…' is ignored for external vLLM.` (for that one only)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_max_model_len 8192
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm
    """
    if kind(c) not in ROLLOUT_TYPES or not server_mode(c.v) or c.job.ray is not None:
        return
    unread = _written(c, [name for name in ONLY_ON_THE_SERVER if name in c.v.flags])
    if unread:
        template = "in server mode the engine belongs to `swift rollout`: {unread} not read here; give them to `swift rollout`"
        shown = names(f"--{name}" for name in unread) + (" is" if len(unread) == 1 else " are")
        yield c.finding(template, unread[0], flags=unread, unread=shown, fix="move to `swift rollout`: " + names(f"--{name}" for name in unread))


@rule("ROL022", "flags-not-read-in-colocate", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def flags_not_read_in_colocate(c: JobCheck) -> Iterator[Finding]:
    """Flags that the colocated engine is built without.

    Colocated engines know tensor parallelism only; pipeline, data and expert parallelism, speculation and quantisation belong to `swift rollout`. The
    LoRA rank of the engine follows `lora_rank`.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_data_parallel_size 4 --vllm_tensor_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 2
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm_engine
    """
    if kind(c) not in ROLLOUT_TYPES or not colocate(c.v):
        return
    unread = _written(c, [name for name in NOT_IN_COLOCATE if name in c.v.flags])
    if not unread:
        return
    template = "the colocated engine is built without {unread}: not read with --vllm_mode colocate"
    finding = c.finding(template, unread[0], flags=[*unread, "vllm_mode"], unread=names(f"--{name}" for name in unread), fix="remove " + names(f"--{name}" for name in unread))
    yield finding if any(name in SHAPES_THE_ENGINE for name in unread) else replace(finding, severity="info", consequence="waste")


@rule("ROL023", "offload-without-colocate", severity="info", consequence="waste", routes=RLHF, since="4.0")
def offload_without_colocate(c: JobCheck) -> Iterator[Finding]:
    """Sleep and off-load flags without a colocated engine.

    `sleep_level`, `offload_model` and `offload_optimizer` make room for an engine on the training GPUs. With a server, or without vLLM, nothing sleeps
    and nothing is moved.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --offload_model true --sleep_level 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --offload_model true --sleep_level 1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm; swift/arguments/rlhf_args.py:RLHFArguments._init_grpo
    """
    use, mode = c.v.get("use_vllm"), c.v.get("vllm_mode")
    if kind(c) not in ROLLOUT_TYPES or c.job.ray is not None or UNKNOWN in (use, mode) or (use is True and mode != "server"):
        return
    unread = _written(c, [*ONLY_IN_COLOCATE, *(["move_model_batches"] if use is False else [])])
    if unread:
        where = "in server mode the trainer's GPUs hold no engine" if use is True else "without vLLM there is no engine"
        template = "{where}: {unread} does nothing"
        yield c.finding(template, unread[0], flags=[*unread, "vllm_mode"], where=where, unread=names(f"--{name}" for name in unread), fix="remove " + names(f"--{name}" for name in unread))


@rule("ROL024", "quantised-weights-to-vllm", consequence="wrong", confidence="medium", routes=("swift rlhf",), since="4.0")
def quantised_weights_to_vllm(c: JobCheck) -> Iterator[Finding]:
    """Quantised weights and vLLM.

    The trainer sends its weights to the engine, and quantised ones do not fit: an engine in bf16 stops at their shape, and one in 4 bits keeps the old
    scales when an adapter is merged into them. Only the adapter itself can be sent: 4-bit bitsandbytes, colocate, `--vllm_enable_lora true`.

    In the log: a shape assertion in a vLLM `weight_loader` at the first weight synchronisation

    Wrong:
    ```sh
    NPROC_PER_NODE=1 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --quant_method bnb --quant_bits 4 --tuner_type lora --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=1 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --tuner_type lora --use_vllm true --vllm_mode colocate
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._move_full_model_to_vllm, _prepare_vllm_engine
    Not shown on CPU: the arguments are accepted; the first weight synchronisation fails
    """
    method, model = c.v.get("quant_method"), c.v.get("model")
    if kind(c) not in ROLLOUT_TYPES or c.v.get("use_vllm") is not True:
        return
    quantised = _QUANTISED.search(model.rstrip("/").rsplit("/", 1)[-1]) if isinstance(model, str) else None
    if quantised is not None and method is None:
        template = "{model} holds quantised weights ({name}): adapters cannot be merged into them, and they cannot be sent to the vLLM engine; train the unquantised model, or generate with --use_vllm false"
        yield c.finding(template, "model", flags=["use_vllm"], model=model, name=quantised.group(1), fix="the unquantised model, or --use_vllm false")
        return
    if method not in ("bnb", "hqq", "eetq", "quanto"):
        return
    bits, lora = c.v.get("quant_bits"), c.v.get("vllm_enable_lora")
    if bits is UNKNOWN or (bits is None and method != "eetq"):
        return
    adapter_only = method == "bnb" and bits in (4, "4") and colocate(c.v)
    if adapter_only and lora is not False:
        return
    template = (
        "weights quantised with {method} ({bits} bits) cannot be sent to the vLLM engine: drop --quant_method and --quant_bits{lora}, or generate with "
        "--use_vllm false"
    )
    way = ", send the adapter alone (--vllm_enable_lora true)" if adapter_only else ""
    fix = c.set_flag("vllm_enable_lora", "true") if adapter_only else c.drop_flag("quant_bits", "remove --quant_bits and --quant_method")
    yield c.finding(template, "quant_method", flags=["quant_bits", "use_vllm", "vllm_enable_lora"], method=method, bits=bits or 8, lora=way, fix=fix)


@rule("ROL025", "lora-engine-without-lora", severity="info", consequence="waste", routes=RLHF, since="4.0")
def lora_engine_without_lora(c: JobCheck) -> Iterator[Finding]:
    """`vllm_enable_lora` while the whole model is trained.

    The flag makes the engine load adapters so that only the adapter travels. Full training has none.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type full --use_vllm true --vllm_mode colocate --vllm_enable_lora true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --use_vllm true --vllm_mode colocate --vllm_enable_lora true
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm_engine
    """
    if kind(c) in ROLLOUT_TYPES and c.v.get("vllm_enable_lora") is True and c.v.get("tuner_type") == "full" and colocate(c.v):
        yield c.finding("--vllm_enable_lora true does nothing with --tuner_type full: all weights are sent", "vllm_enable_lora", flags=["tuner_type"], fix=c.drop_flag("vllm_enable_lora"))


@rule("ROL026", "lora-sync-undone-by-sleep", severity="warning", consequence="waste", routes=("swift rlhf",), since="4.0")
def lora_sync_undone_by_sleep(c: JobCheck) -> Iterator[Finding]:
    """`sleep_level 2` throws away what `vllm_enable_lora` saves.

    Level 2 discards the engine's weights, so the whole model is sent again before every rollout. Level 1 keeps a copy in host memory, and only the
    adapter travels.

    In the log: long `move_model_to_vllm` times

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --use_vllm true --vllm_mode colocate --vllm_enable_lora true --sleep_level 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --use_vllm true --vllm_mode colocate --vllm_enable_lora true --sleep_level 1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._move_model_to_vllm
    """
    if kind(c) in ROLLOUT_TYPES and colocate(c.v) and c.v.get("vllm_enable_lora") is True and c.v.get("tuner_type") == "lora" and c.v.get("sleep_level") == 2:
        template = "--sleep_level 2 discards the engine's weights, so the whole model is sent before every rollout and --vllm_enable_lora saves nothing; use 1"
        yield c.finding(template, "sleep_level", flags=["vllm_enable_lora"], fix=c.set_flag("sleep_level", "1"))


@rule("ROL027", "importance-sampling-without-vllm", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def importance_sampling_without_vllm(c: JobCheck) -> Iterator[Finding]:
    """Correction of the gap between engine and trainer, without an engine.

    `rollout_importance_sampling_mode` weighs completions by the engine's own log-probabilities. Without vLLM the model itself samples: there are none,
    and no gap either.

    In the log: no `rollout_correction` metrics

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --rollout_importance_sampling_mode token_truncate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --rollout_importance_sampling_mode token_truncate
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_rollout_params (logprobs)
    """
    if kind(c) != "grpo" or c.v.get("use_vllm") is not False:
        return
    for name in ("rollout_importance_sampling_mode", "log_rollout_offpolicy_metrics"):
        if c.v.get(name) not in (None, False, UNKNOWN):
            yield c.finding("--{name} needs the log-probabilities of vLLM; without --use_vllm true it does nothing", name, flags=["use_vllm"], name=name, fix=c.drop_flag(name))


@rule("ROL028", "more-media-than-allowed", consequence="wrong", routes=(*RLHF, "swift rollout"), since="4.0")
def more_media_than_allowed(c: JobCheck) -> Iterator[Finding]:
    """Rows hold more images, videos or audios than `vllm_limit_mm_per_prompt` lets through.

    The engine reserves memory for that many media a prompt and refuses requests with more. The rows that were looked at hold more.

    In the log: `ValueError: At most 2 image(s) may be provided in one prompt.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl --reward_funcs format --use_vllm true --vllm_mode colocate --vllm_limit_mm_per_prompt '{"image": 1}'
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image><image>Which is larger?"}], "images": ["a.png", "b.png"], "solution": "A"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl --reward_funcs format --use_vllm true --vllm_mode colocate --vllm_limit_mm_per_prompt '{"image": 2}'
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image><image>Which is larger?"}], "images": ["a.png", "b.png"], "solution": "A"}
    ```

    Source: vllm/config/multimodal.py:MultiModalConfig
    Not shown on CPU: the arguments are accepted; vLLM refuses the request
    """
    limits = media_limits(c)
    if not limits:
        return
    rows = c if c.v.route != "swift rollout" else _trainer(c)
    if rows is None or (rows is c and not colocate(c.v)):
        return
    data = data_of(rows)
    for entry in data.entries if data is not None else ():
        most: dict[str, int] = {}
        for row in entry.sample.rows if entry.sample is not None else ():
            for medium in limits:
                most[medium] = max(most.get(medium, 0), _count(row.values.get(f"{medium}s")))
        for medium, allowed in limits.items():
            if most.get(medium, 0) > allowed:
                template = '--vllm_limit_mm_per_prompt allows {allowed} {medium}(s) a prompt, but rows of {file} have up to {most}; use \'{{"{medium}": {most}}}\''
                text = f'{{"{medium}": {most[medium]}}}'
                yield c.finding(
                    template, "vllm_limit_mm_per_prompt", flags=["dataset"], allowed=allowed, medium=medium, file=entry.name, most=most[medium],
                    fix=f"--vllm_limit_mm_per_prompt '{text}'",
                )  # fmt: skip


def media_limits(c: JobCheck) -> dict[str, int]:
    """`vllm_limit_mm_per_prompt` as numbers; empty where it is not given or not plain JSON."""
    import json

    text = given(c.v, "vllm_limit_mm_per_prompt")
    if not isinstance(text, str):
        return {}
    try:
        made = json.loads(text)
    except ValueError:
        return {}
    return {str(name): count for name, count in made.items() if whole(count) is not None} if isinstance(made, dict) else {}


def _trainer(c: JobCheck) -> JobCheck | None:
    """The run's only trainer in server mode."""
    trainers = [view for view in c.whole.of_route(*RLHF) if server_mode(view)]
    return c.whole.job(trainers[0]) if len(trainers) == 1 else None


def _count(value: object) -> int:
    return len(value) if isinstance(value, (list, tuple)) else 0 if value is None else 1


@rule("ROL029", "regex-without-vllm", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def regex_without_vllm(c: JobCheck) -> Iterator[Finding]:
    """`structured_outputs_regex` without vLLM: completions are not held to the pattern.

    Only vLLM samples under a pattern; the transformers engine does not look at it.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --structured_outputs_regex '<think>.*</think>'
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --structured_outputs_regex '<think>.*</think>' --use_vllm true --vllm_mode colocate
    ```

    Source: swift/infer_engine/vllm_engine.py:VllmEngine; swift/rlhf_trainers/args_mixin.py:RolloutTrainerArgumentsMixin
    """
    if kind(c) in ROLLOUT_TYPES and c.v.get("use_vllm") is False and isinstance(given(c.v, "structured_outputs_regex"), str):
        template = "--structured_outputs_regex holds completions to a pattern with vLLM only; add --use_vllm true --vllm_mode colocate, or drop it"
        yield c.finding(template, "structured_outputs_regex", flags=["use_vllm"], fix=c.drop_flag("structured_outputs_regex"))
