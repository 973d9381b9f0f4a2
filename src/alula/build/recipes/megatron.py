"""Megatron: training, conversion, and training on Ray."""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import Any

from alula.run.job import RayGroup, RaySpec

from ..intent import BuildError
from ..scaffold import FILES
from ..sizes import engine_tensor_parallel, megatron_batch, megatron_grpo_batch, server_gpus
from ..words import HERE, Required, job, override
from . import Kitchen, Made
from .rl import COMPLETION, PROMPT, ROLLOUT_PORT


def train(k: Kitchen) -> Made:
    """`megatron sft`, `pt` or `rlhf`, with a rollout server beside it where one is asked for."""
    made = Made()
    intent, kind = k.intent, k.intent.rlhf_type
    served = intent.placement == "server"
    tensor = 1
    if kind in ("grpo", "gkd") and intent.placement != "none":
        tensor, said = engine_tensor_parallel(k.shape, k.card_gib, intent.gpus)
        made.assumptions.append(said)
    devices = list(range(intent.gpus))
    server: list[int] = []
    if served and intent.nodes == 1:
        sizes = intent.parallel
        unit = lcm(sizes.tensor * sizes.pipeline * sizes.context, sizes.expert_tensor * sizes.expert * sizes.pipeline)
        server = devices[-server_gpus(intent, tensor, unit) :]
        devices = devices[: -len(server)]
    elif served:
        server = devices[:]
    nodes = intent.nodes - 1 if served and intent.nodes > 1 else intent.nodes
    world = len(devices) * nodes
    flags = _base(k)
    if kind is not None:
        flags = {"rlhf_type": kind, **flags}
    flags |= _batch(k, world, made)
    if kind in ("grpo", "gkd"):
        _sampled(k, made, flags, tensor)
    elif kind == "kto":
        made.assumptions.append("the data has a boolean column `label`")
    elif kind is not None:
        made.assumptions.append("the data has a column `rejected_response`")
    if kind == "gkd":
        flags["teacher_model"] = intent.teacher_model or Required("TEACHER_MODEL")
        made.assumptions.append("teacher and student tokenize alike")
    if served:
        host = "127.0.0.1" if intent.nodes == 1 else Required("ROLLOUT_HOST")
        flags |= {"vllm_server_host": host, "vllm_server_port": ROLLOUT_PORT}
        rollout = {
            "model": flags["model"], "vllm_tensor_parallel_size": tensor if tensor > 1 else None,
            "vllm_data_parallel_size": len(server) // tensor if len(server) > tensor else None,
            "vllm_max_model_len": flags["max_length"] + flags["max_completion_length"], "port": ROLLOUT_PORT,
        }  # fmt: skip
        made.jobs.append(job("swift rollout", rollout, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, server))}, background=True))
    flags["num_train_epochs"] = 1
    flags["output_dir"] = f"{intent.output}/{kind or intent.route.split()[1]}"
    flags = override(flags, intent.settings, k.facts.flags(intent.route))
    env = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))} if len(devices) < intent.gpus else {}
    launch: dict[str, Any] = {"nproc": len(devices)}
    if nodes > 1:
        launch |= {"nnodes": nodes, "node_rank": Required("NODE_RANK"), "master_addr": Required("MASTER_ADDR"), "master_port": 29500}
    made.jobs.append(job(intent.route, flags, env, launch))
    return made


def _base(k: Kitchen) -> dict[str, Any]:
    intent, sizes = k.intent, k.intent.parallel
    flags: dict[str, Any] = {
        "model": intent.model or Required("MODEL"), "dataset": list(intent.dataset) or Required("DATASET"), "tuner_type": intent.tuner,
        "lr": 1e-6 if intent.rlhf_type in ("grpo", "dpo", "kto") and intent.tuner == "full" else None,
    }  # fmt: skip
    return flags | _parallel(k, sizes.tensor, sizes.pipeline)


def _parallel(k: Kitchen, tensor: int, pipeline: int) -> dict[str, Any]:
    sizes = k.intent.parallel
    moe = k.shape is not None and k.shape.is_moe
    flags: dict[str, Any] = {}
    for name, value in (
        ("tensor_model_parallel_size", tensor), ("pipeline_model_parallel_size", pipeline), ("context_parallel_size", sizes.context),
        ("expert_model_parallel_size", sizes.expert), ("expert_tensor_parallel_size", sizes.expert_tensor),
        ("virtual_pipeline_model_parallel_size", sizes.virtual),
    ):  # fmt: skip
        if value > 1:
            flags[name] = value
    if tensor > 1 and (moe or k.shape is None):
        flags["sequence_parallel"] = True
    return flags


def _batch(k: Kitchen, world: int, made: Made) -> dict[str, Any]:
    intent, sizes = k.intent, k.intent.parallel
    product = sizes.tensor * sizes.pipeline * sizes.context
    if world % product:
        raise BuildError(f"{world} training GPUs are no multiple of TP {sizes.tensor} × PP {sizes.pipeline} × CP {sizes.context} = {product}")
    replicas = world // product
    micro = intent.setting("micro_batch_size", 1)
    if intent.rlhf_type in ("grpo", "gkd"):
        generations = intent.setting("num_generations", 8) if intent.rlhf_type == "grpo" else 1
        size = megatron_grpo_batch(replicas, intent, micro, generations)
        if intent.rlhf_type == "grpo":
            made.assumptions.append(f"{size} completions an optimizer step for {replicas} data parallel ranks: {size // generations} prompts × {generations}")
    else:
        size = megatron_batch(replicas, micro)
        if sizes.virtual > 1 or sizes.pipeline > 1:  # at least one micro-batch for each stage keeps the pipeline busy
            size = micro * replicas * max(sizes.pipeline, size // (micro * replicas) // sizes.pipeline * sizes.pipeline)
    return {"micro_batch_size": micro, "global_batch_size": size}


def _sampled(k: Kitchen, made: Made, flags: dict[str, Any], tensor: int) -> None:
    intent = k.intent
    prompt, completion = intent.setting("max_length", PROMPT), intent.setting("max_completion_length", COMPLETION)
    flags |= {"max_length": prompt, "max_completion_length": completion}
    if intent.placement == "colocate":
        flags |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4, "vllm_max_model_len": prompt + completion, "sleep_level": 1}
        flags |= {"vllm_tensor_parallel_size": tensor if tensor > 1 else None, "offload_model": True, "offload_optimizer": True}
    elif intent.placement == "server":
        flags |= {"use_vllm": True, "vllm_mode": "server"}
    else:
        flags["use_vllm"] = False
        flags["lmbda"] = 0
        made.assumptions.append("without vLLM, GKD learns from the data's own answers (lmbda 0)")
    if intent.rlhf_type == "grpo":
        _rewards(k, made, flags)


def _rewards(k: Kitchen, made: Made, flags: dict[str, Any]) -> None:
    if k.intent.reward == "async":
        flags |= {"external_plugins": "reward_plugin.py", "reward_funcs": "judge_reward"}
        made.files["reward_plugin.py"] = FILES["reward_plugin.py"]
        made.assumptions.append("a judge answers at JUDGE_URL (reward_plugin.py)")
        return
    flags["reward_funcs"] = ["accuracy", "format"]
    made.assumptions.append("rows have a column `solution` (reward accuracy), and the package math_verify is installed")


def export(k: Kitchen) -> Made:
    """A conversion between Megatron's checkpoints and safetensors."""
    made = Made()
    intent = k.intent
    source = {"mcore_model": intent.model or Required("MODEL")} if intent.export == "to_hf" else {"model": intent.model or Required("MODEL")}
    flags: dict[str, Any] = {**source, intent.export: True, **_parallel(k, intent.parallel.tensor, intent.parallel.pipeline)}
    flags.pop("sequence_parallel", None)
    flags["output_dir"] = f"{intent.output}/{'hf' if intent.export == 'to_hf' else 'mcore'}"
    if intent.export == "to_hf":
        made.assumptions.append("the Megatron checkpoint has an args.json that names its model")
    flags = override(flags, intent.settings, k.facts.flags("megatron export"))
    made.jobs.append(job("megatron export", flags, {}, {"nproc": intent.gpus}))
    return made


def ray(k: Kitchen) -> Made:
    """Megatron on Ray: one driver and role groups."""
    made = Made(ray=True)
    intent, sizes = k.intent, k.intent.parallel
    total = intent.gpus * intent.nodes
    tensor, said = engine_tensor_parallel(k.shape, k.card_gib, intent.gpus)
    made.assumptions.append(said)
    product = sizes.tensor * sizes.pipeline * sizes.context
    groups = _pools(k, total, tensor, product)
    shared: dict[str, Any] = {
        "rlhf_type": intent.rlhf_type, "model": intent.model or Required("MODEL"), "dataset": list(intent.dataset) or Required("DATASET"),
        "tuner_type": intent.tuner, "lr": 1e-6 if intent.tuner == "full" else None,
    }  # fmt: skip
    shared |= _batch(k, groups["train"], made)
    prompt, completion = intent.setting("max_length", PROMPT), intent.setting("max_completion_length", COMPLETION)
    shared |= {"max_length": prompt, "max_completion_length": completion, "use_vllm": True, "vllm_max_model_len": prompt + completion}
    if intent.rlhf_type == "grpo":
        shared["num_generations"] = intent.setting("num_generations", 8)
        _rewards(k, made, shared)
    else:
        if "teacher" in groups:  # its engines give the 20 log-probabilities of vLLM's default, and only for sampled answers
            shared |= {"lmbda": 1.0, "gkd_logits_topk": intent.setting("gkd_logits_topk", 20)}
        else:
            shared["teacher_model"] = intent.teacher_model or Required("TEACHER_MODEL")
        made.assumptions.append("teacher and student tokenize alike")
    shared |= {"num_train_epochs": 1, "output_dir": f"{intent.output}/{intent.rlhf_type}"}
    shared = override(shared, intent.settings, k.facts.flags("megatron rlhf"))
    own: dict[str, dict[str, Any]] = {"train": {"gpus": groups["train"], **_parallel(k, sizes.tensor, sizes.pipeline)}}
    own["rollout"] = {"gpus": groups["rollout"], "vllm_tensor_parallel_size": tensor, "vllm_gpu_memory_utilization": 0.4 if intent.placement == "colocate" else 0.85}
    if "teacher" in groups:
        own["teacher"] = {"gpus": groups["teacher"], "model": intent.teacher_model or Required("TEACHER_MODEL"), "vllm_tensor_parallel_size": 1}
    base = job("megatron rlhf", {**shared, **own["train"]}, {})
    spec = RaySpec(
        {role: RayGroup(role, job("x", {**shared, **keys}, {}).argv, {name: job("x", {name: value}, {}).argv[1] for name, value in keys.items()}) for role, keys in own.items()},
        {name: job("x", {name: value}, {}).argv[1] for name, value in shared.items() if value is not None} | _top(k),
        (("train", "rollout"),) if intent.placement == "colocate" else (),
        "ray.yaml",
    )  # fmt: skip
    made.jobs.append(replace(base, ray=spec, config="ray.yaml", span=HERE))
    made.files["ray.yaml"] = _yaml(k, shared, own)
    made.assumptions.append("Ray runs already on all nodes; the driver is started once, on the head")
    return made


def _top(k: Kitchen) -> dict[str, Any]:
    return {"nnodes": job("x", {"nnodes": k.intent.nodes}, {}).argv[1]} if k.intent.nodes > 1 else {}


def _pools(k: Kitchen, total: int, tensor: int, product: int) -> dict[str, int]:
    """GPUs of each group: colocated groups share all; separate ones take a quarter for the rollout, and a teacher of its own one node's share of the rest."""
    intent = k.intent
    teacher = 0
    if intent.rlhf_type == "gkd" and intent.teacher_placement == "separate":
        teacher = intent.nodes * max(1, intent.gpus // 4)
    rest = total - teacher
    if intent.placement == "colocate":
        train_gpus = rest // (product * intent.nodes) * product * intent.nodes
        if train_gpus == 0 or train_gpus % tensor:
            raise BuildError(f"{rest} GPUs hold no copy of TP × PP × CP = {product} whose GPUs divide by vLLM tensor parallel {tensor}")
        groups = {"train": train_gpus, "rollout": train_gpus}
    else:
        unit = tensor * intent.nodes
        rollout = max(1, rest // 4 // unit) * unit
        train_gpus = (rest - rollout) // (product * intent.nodes) * product * intent.nodes
        if train_gpus <= 0:
            raise BuildError(f"{total} GPUs leave none to a trainer of {product} beside {rollout} rollout GPUs: more GPUs, or --placement colocate")
        groups = {"train": train_gpus, "rollout": rollout}
    return groups | ({"teacher": teacher} if teacher else {})


def _yaml(k: Kitchen, shared: dict[str, Any], own: dict[str, dict[str, Any]]) -> str:
    from alula.write.yaml import mapping_lines

    lines = mapping_lines({name: value for name, value in shared.items() if value is not None})
    if k.intent.nodes > 1:
        lines.append(f"nnodes: {k.intent.nodes}")
    if k.intent.placement == "colocate":
        lines += ["colocate_groups:", "  - [train, rollout]"]
    for role, keys in own.items():
        lines += [f"{role}:", *mapping_lines({name: value for name, value in keys.items() if value is not None}, 2)]
    return "\n".join(lines) + "\n"
