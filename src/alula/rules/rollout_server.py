"""The rollout server: what `swift rollout` refuses, and what its engine cannot do. Engine rules look at colocated engines too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.arithmetic import divisors
from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import ROLLOUT_TYPES, colocate, empty, given, kind, whole
from .values import json_value

if TYPE_CHECKING:
    from alula.run.finding import Finding

SERVER = ("swift rollout",)
ENCODE_TASKS = ("embedding", "seq_cls", "reranker", "generative_reranker")


@rule("ROL101", "rollout-without-model", routes=SERVER)
def rollout_without_model(c: JobCheck) -> Iterator[Finding]:
    """A rollout server without a model.

    The server loads it at the start, before the first weights of the trainer arrive; its tokenizer and template come from it too.

    In the log: `ValueError: Please set --model <model_id_or_path>, model: None`

    Wrong:
    ```sh
    swift rollout --vllm_tensor_parallel_size 2
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2
    ```

    Source: swift/arguments/base_args/model_args.py:ModelArguments
    """
    if c.v.absent("model") and empty(c.v.get("adapters")):
        yield c.finding("swift rollout needs --model, the one that is trained", None, flags=["model"], fix="--model <id or folder>")


@rule("ROL102", "rollout-pipeline-parallel", routes=SERVER)
def rollout_pipeline_parallel(c: JobCheck) -> Iterator[Finding]:
    """Pipeline parallelism in a rollout server.

    Weights are handed out to tensor and data parallel ranks only.

    In the log: `ValueError: RolloutArguments does not support pipeline parallelism …`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --vllm_pipeline_parallel_size 2
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_args
    """
    size = whole(c.v.get("vllm_pipeline_parallel_size"))
    if size is not None and size > 1:
        template = "--vllm_pipeline_parallel_size {size}: a rollout server knows tensor and data parallelism only; use --vllm_tensor_parallel_size {size}"
        yield c.finding(template, "vllm_pipeline_parallel_size", size=size, fix=c.drop_flag("vllm_pipeline_parallel_size"))


@rule("ROL103", "rollout-reasoning-parser", routes=SERVER)
def rollout_reasoning_parser(c: JobCheck) -> Iterator[Finding]:
    """A reasoning parser in a rollout server: rewards need the whole completion.

    A reasoning parser splits the thoughts off. Training needs every token that was sampled, in order.

    In the log: `ValueError: vllm_reasoning_parser is not supported for Rollout, please unset it.`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --vllm_reasoning_parser qwen3
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_args
    """
    if isinstance(c.v.get("vllm_reasoning_parser"), str):
        yield c.finding("--vllm_reasoning_parser is refused by `swift rollout`; remove it", "vllm_reasoning_parser", fix=c.drop_flag("vllm_reasoning_parser"))


@rule("ROL104", "scheduler-needs-async-engine", routes=SERVER)
def scheduler_needs_async_engine(c: JobCheck) -> Iterator[Finding]:
    """A multi-turn scheduler on a synchronous engine.

    A server-side scheduler drives many conversations at once and needs vLLM's asynchronous engine, which is the default as soon as a scheduler is given.

    In the log: `ValueError: please set vllm_use_async_engine to True with multi-turn scheduler.`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 --vllm_use_async_engine false
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_args
    """
    scheduler = c.v.get("multi_turn_scheduler")
    if isinstance(scheduler, str) and scheduler and given(c.v, "vllm_use_async_engine") is False:
        template = "--multi_turn_scheduler {scheduler} needs the asynchronous engine; drop --vllm_use_async_engine false (true is the default with a scheduler)"
        fix = c.set_flag("vllm_use_async_engine", "true")
        yield c.finding(template, "vllm_use_async_engine", flags=["multi_turn_scheduler"], scheduler=scheduler, fix=fix)


@rule("ROL105", "rollout-needs-more-devices", routes=SERVER)
def rollout_needs_more_devices(c: JobCheck) -> Iterator[Finding]:
    """Fewer visible devices than tensor × data parallel size.

    The server takes that many devices from the visible ones; it does not share one device between ranks.

    In the log: `ValueError: Error: local_device_count (1) must be greater than or equal to the product of vllm_data_parallel_size (1) and …`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_device_count
    """
    needed, devices = needed_devices(c), c.v.place.device_count
    if needed is None or devices is None or devices >= needed:
        return
    tensor, data = c.v.get("vllm_tensor_parallel_size"), c.v.get("vllm_data_parallel_size")
    template = (
        "vllm_tensor_parallel_size {tensor} × vllm_data_parallel_size {data} = {needed} devices, but {devices} visible; show {needed} devices, or "
        "use --vllm_tensor_parallel_size {devices}"
    )
    at = "vllm_tensor_parallel_size" if c.v.use("vllm_tensor_parallel_size") is not None else "vllm_data_parallel_size"
    yield c.finding(
        template, at, flags=["vllm_tensor_parallel_size", "vllm_data_parallel_size", "CUDA_VISIBLE_DEVICES"],
        related=[("CUDA_VISIBLE_DEVICES", f"{devices} here")], tensor=tensor, data=data, needed=needed, devices=devices,
        fix=f"CUDA_VISIBLE_DEVICES with {needed} ids, or --vllm_tensor_parallel_size {devices}",
    )  # fmt: skip


def needed_devices(c: JobCheck) -> int | None:
    """Devices that a rollout server takes: tensor × data parallel size."""
    tensor, data = whole(c.v.get("vllm_tensor_parallel_size")), whole(c.v.get("vllm_data_parallel_size"))
    return tensor * data if tensor is not None and data is not None and tensor > 0 and data > 0 else None


@rule("ROL106", "rollout-idle-devices", severity="warning", consequence="waste", routes=SERVER)
def rollout_idle_devices(c: JobCheck) -> Iterator[Finding]:
    """More visible devices than the server takes: the rest stays idle.

    A server uses the first tensor × data parallel size of its devices. Data parallel ranks are the simplest way to use the rest.

    In the log: `local_device_count (4) is greater than required_device_count (1). Only the first 1 devices will be utilized for rollout.`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift rollout --model Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift rollout --model Qwen/Qwen3-8B --vllm_data_parallel_size 4
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_device_count
    """
    needed, devices = needed_devices(c), c.v.place.devices
    if needed is None or devices is None or len(devices) <= needed:
        return
    tensor = whole(c.v.get("vllm_tensor_parallel_size")) or 1
    data = len(devices) // tensor
    template = "{devices} devices are visible, but the server takes {needed} (tensor × data parallel size); --vllm_data_parallel_size {data} uses {used}"
    yield c.finding(
        template, "CUDA_VISIBLE_DEVICES", flags=["vllm_tensor_parallel_size", "vllm_data_parallel_size"], devices=len(devices), needed=needed, data=data,
        used=data * tensor, fix=c.set_flag("vllm_data_parallel_size", str(data)),
    )  # fmt: skip


@rule("ROL107", "context-manager-removed", routes=SERVER, since="4.3")
def context_manager_removed(c: JobCheck) -> Iterator[Finding]:
    """`context_manager`, which is parsed and then always refused.

    What it did (shorten or rewrite the conversation between turns) goes into the `step` or `run` of a scheduler.

    In the log: `ValueError: The "context_manager" argument has been removed.`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 --context_manager keep_last
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_deprecated_args
    """
    if isinstance(c.v.get("context_manager"), str):
        template = "--context_manager was removed in ms-swift 4.3 and is refused; put what it did into the scheduler's `step` or `run`"
        yield c.finding(template, "context_manager", fix=c.drop_flag("context_manager"))


@rule("ROL108", "encoder-needs-async-engine", routes=SERVER, since="4.0")
def encoder_needs_async_engine(c: JobCheck) -> Iterator[Finding]:
    """A model without text generation as rollout server.

    Classifiers and embedding models run on vLLM's encode path, which the synchronous engine does not have.

    In the log: `ValueError: task_type=seq_cls requires vllm_use_async_engine=True.`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --infer_backend vllm --task_type seq_cls
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B
    ```

    Source: swift/arguments/infer_args.py:InferArguments._init_vllm_async_engine
    """
    task = c.v.get("task_type")
    asynchronous = given(c.v, "vllm_use_async_engine")
    if asynchronous is None:
        asynchronous = UNKNOWN if c.v.get("multi_turn_scheduler") is UNKNOWN else bool(c.v.get("multi_turn_scheduler"))
    if c.v.get("infer_backend") == "vllm" and task in ENCODE_TASKS and asynchronous is False:
        template = "--task_type {task}: such a model generates no text, and a rollout server needs one that does; remove --task_type"
        yield c.finding(template, "task_type", flags=["vllm_use_async_engine"], task=task, fix=c.drop_flag("task_type"))


@rule("ROL109", "rollout-backend-is-vllm", severity="warning", consequence="wrong", routes=SERVER)
def rollout_backend_is_vllm(c: JobCheck) -> Iterator[Finding]:
    """Another engine asked for as rollout backend.

    Rollouts for training run on vLLM only: the server starts vLLM whatever `--infer_backend` says. Flags of the other engine are not read.

    In the log: `Currently, rollout only supports the vLLM backend. Set vLLM backend`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --infer_backend sglang
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B
    ```

    Source: swift/pipelines/infer/rollout.py:SwiftRolloutDeploy.get_infer_engine
    """
    backend = c.v.get("infer_backend")
    if backend in ("sglang", "lmdeploy"):
        template = "--infer_backend {backend}: a rollout server always runs vLLM; remove it (and give vllm_* flags)"
        yield c.finding(template, "infer_backend", backend=backend, fix=c.drop_flag("infer_backend"))


@rule("ROL110", "vllm-heads-not-divisible", consequence="wrong", routes=(*RLHF, "swift rollout"), since="4.0")
def vllm_heads_not_divisible(c: JobCheck) -> Iterator[Finding]:
    """The model's attention heads do not split over the engine's tensor parallel size.

    vLLM cuts attention by heads: their number must be a multiple of the tensor parallel size. Data parallelism has no such limit.

    In the log: `ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 swift rollout --model Qwen/Qwen2.5-7B-Instruct --vllm_tensor_parallel_size 8
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 swift rollout --model Qwen/Qwen2.5-7B-Instruct --vllm_tensor_parallel_size 4 --vllm_data_parallel_size 2
    ```

    Source: vllm/config/model.py:ModelConfig.verify_with_parallel_config
    Not shown on CPU: the arguments are accepted; vLLM's engine raises
    """
    size = whole(c.v.get("vllm_tensor_parallel_size"))
    if size is None or size <= 1 or not runs_engine(c):
        return
    shape = c.shape
    if shape is None or not shape.heads or shape.heads % size == 0:
        return
    valid = [d for d in divisors(shape.heads) if d <= max(size, 8)]
    template = "{model} has {heads} attention heads, which --vllm_tensor_parallel_size {size} does not divide; valid: {valid}"
    best = max(d for d in valid if d <= size)
    yield c.finding(
        template, "vllm_tensor_parallel_size", flags=["model"], model=shape.name, heads=shape.heads, size=size, valid=names(valid),
        fix=c.set_flag("vllm_tensor_parallel_size", str(best)),
    )  # fmt: skip


def runs_engine(c: JobCheck) -> bool:
    """This job builds a vLLM engine of its own."""
    if c.v.route == "swift rollout":
        return True
    return kind(c) in ROLLOUT_TYPES and colocate(c.v) and c.job.ray is None


@rule("ROL111", "vllm-length-beyond-model", consequence="wrong", confidence="medium", routes=(*RLHF, "swift rollout"), since="4.0")
def vllm_length_beyond_model(c: JobCheck) -> Iterator[Finding]:
    """`vllm_max_model_len` above what the model was made for.

    vLLM refuses a context longer than the positions of `config.json`, unless the configuration itself stretches them (`--rope_scaling yarn`).

    In the log: `ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=40960 …)`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --vllm_max_model_len 65536
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --vllm_max_model_len 32768
    ```

    Source: vllm/config/model.py:_get_and_verify_max_len
    Not shown on CPU: the arguments are accepted; vLLM's engine raises
    """
    length = whole(c.v.get("vllm_max_model_len"))
    if length is None or not runs_engine(c) or c.shape is None or not c.shape.max_positions or length <= c.shape.max_positions:
        return
    stretched = ("rope_scaling", "vllm_engine_kwargs", "model_kwargs", "max_model_len")
    if any(given(c.v, name) is not None for name in stretched) or "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in c.job.env:
        return
    template = "--vllm_max_model_len {length} is beyond the {positions} positions of {model}; lower it, or stretch the positions (--rope_scaling yarn)"
    yield c.finding(
        template, "vllm_max_model_len", flags=["model"], length=length, positions=c.shape.max_positions, model=c.shape.name,
        fix=c.set_flag("vllm_max_model_len", str(c.shape.max_positions)),
    )  # fmt: skip


@rule("ROL112", "rollout-expert-parallel-on-dense", severity="warning", consequence="wrong", routes=SERVER, since="4.0")
def expert_parallel_on_dense(c: JobCheck) -> Iterator[Finding]:
    """Expert parallelism in the rollout engine of a model without experts.

    It also switches the server to the asynchronous engine.

    In the log: `vllm_enable_expert_parallel is only supported with vllm_use_async_engine, set vllm_use_async_engine to True.`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2 --vllm_enable_expert_parallel true
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift rollout --model Qwen/Qwen3-30B-A3B --vllm_tensor_parallel_size 2 --vllm_enable_expert_parallel true
    ```

    Source: swift/arguments/deploy_args.py:RolloutArguments._check_vllm_enable_expert_parallel
    """
    if c.v.get("vllm_enable_expert_parallel") is True and c.shape is not None and c.shape.experts == 0:
        template = "--vllm_enable_expert_parallel true: {model} has no experts; remove it"
        yield c.finding(template, "vllm_enable_expert_parallel", flags=["model"], model=c.shape.name, fix=c.drop_flag("vllm_enable_expert_parallel"))


@rule("ROL113", "lora-engine-on-experts", severity="warning", consequence="wrong", confidence="medium", routes=(*RLHF, "swift rollout"), since="4.0")
def lora_engine_on_experts(c: JobCheck) -> Iterator[Finding]:
    """Adapter-only synchronisation for a mixture of experts.

    vLLM does not load adapters on expert layers of every model: the run stops at the first synchronisation, or generates without that part of the
    adapter. Without `vllm_enable_lora` the merged weights are sent, which always works.

    In the log: `vLLM LoRA is enabled for an MoE model. This may cause errors …`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --use_vllm true --vllm_mode colocate --vllm_enable_lora true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-30B-A3B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --use_vllm true --vllm_mode colocate
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm_engine
    """
    if c.v.get("vllm_enable_lora") is True and runs_engine(c) and c.shape is not None and c.shape.experts > 0:
        template = "--vllm_enable_lora true on {model}, a mixture of experts: vLLM may not load adapters on expert layers; drop it to send merged weights"
        yield c.finding(template, "vllm_enable_lora", flags=["model"], model=c.shape.name, fix=c.drop_flag("vllm_enable_lora"))


@rule("ROL114", "vllm-not-json", routes=("swift rlhf", "megatron rlhf", "swift rollout", "swift infer", "swift deploy"), since="4.0")
def vllm_not_json(c: JobCheck) -> Iterator[Finding]:
    """A vLLM flag that takes JSON and gets something else.

    Each of these flags is read as JSON, or as the path of a JSON file. In the shell the braces need single quotes around them.

    In the log: `json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen2.5-VL-7B-Instruct --vllm_limit_mm_per_prompt image=2
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen2.5-VL-7B-Instruct --vllm_limit_mm_per_prompt '{"image": 2}'
    ```

    Source: swift/rlhf_trainers/args_mixin.py:VllmArguments.__post_init__
    """
    flags: tuple[str, ...] = ("vllm_limit_mm_per_prompt", "vllm_engine_kwargs", "vllm_speculative_config")
    if c.v.megatron:
        flags = flags[:2] if kind(c) == "grpo" else flags[1:2] if kind(c) == "gkd" else ()
    for flag in flags:
        value = given(c.v, flag)
        if not isinstance(value, str) or c.job.ray is not None:
            continue
        if json_value(c, value)[0] == "broken":
            template = "--{flag} {value} is no JSON and no file"
            example = '{"image": 2}' if flag == "vllm_limit_mm_per_prompt" else '{"key": value}'
            yield c.finding(template, flag, flag=flag, value=value[:60] or "''", fix=f"--{flag} '{example}'")
