"""`swift rlhf` with its servers, and `swift rollout` alone."""

from __future__ import annotations

from math import lcm
from typing import Any

from ..scaffold import FILES
from ..sizes import engine_tensor_parallel, grpo_batch, server_gpus
from ..words import Required, job, override
from . import Kitchen, Made

PROMPT, COMPLETION = 2048, 1024  # tokens; the person sets them with --set
ROLLOUT_PORT, TEACHER_PORT = 8000, 8100


def rlhf(k: Kitchen) -> Made:
    """One trainer, and beside it the servers it needs."""
    made = Made()
    intent, kind = k.intent, k.intent.rlhf_type
    served = intent.placement in ("server", "async-server")
    tensor = 1
    if kind in ("grpo", "gkd") and intent.placement != "none":
        tensor, said = engine_tensor_parallel(k.shape, k.card_gib, intent.gpus)
        made.assumptions.append(said)
    devices = list(range(intent.gpus))
    if served and intent.nodes == 1:
        rollout_devices = devices[-server_gpus(intent, tensor) :]
        devices = devices[: -len(rollout_devices)]
    elif served:
        rollout_devices = devices[:]
    teacher_devices: list[int] = []
    if kind == "gkd" and intent.teacher == "server":
        teacher_devices = [devices.pop()]
    nodes = intent.nodes - 1 if served and intent.nodes > 1 else intent.nodes
    world = (1 if intent.sharding == "single" else len(devices)) * nodes
    flags = _base(k, made)
    if kind in ("grpo", "gkd"):
        _sampled(k, made, flags, world, tensor)
    elif kind == "kto":
        flags["gradient_accumulation_steps"] = max(1, 16 // world)
        made.assumptions.append("the data has a boolean column `label`; kto needs its accumulation written down")
    elif kind == "ppo":
        flags["reward_model"] = intent.reward_model or Required("REWARD_MODEL")
        made.assumptions.append("the reward model is a sequence-classification model that reads the policy's tokens")
    else:
        made.assumptions.append("the data has a column `rejected_response`")
    if served:
        _server_side(k, made, flags, tensor, rollout_devices)
    if kind == "gkd":
        _teacher(k, made, flags, teacher_devices)
    flags["output_dir"] = f"{intent.output}/{kind}"
    flags = override(flags, intent.settings, k.facts.flags("swift rlhf"))
    env, launch = _placed(k, devices, nodes, exclusive=served or bool(teacher_devices))
    made.jobs.append(job("swift rlhf", flags, env, launch))
    return made


def _base(k: Kitchen, made: Made) -> dict[str, Any]:
    intent = k.intent
    flags: dict[str, Any] = {
        "rlhf_type": intent.rlhf_type, "model": intent.model or Required("MODEL"), "dataset": list(intent.dataset) or Required("DATASET"),
        "tuner_type": intent.tuner,
    }  # fmt: skip
    if intent.tuner == "full" and intent.rlhf_type in ("grpo", "ppo", "dpo", "kto"):
        flags["learning_rate"] = 1e-6
        made.assumptions.append("learning rate 1e-6: full training of a policy moves too far with ms-swift's default of 1e-5")
    if intent.sharding in ("zero2", "zero3"):
        flags["deepspeed"] = intent.sharding
    elif intent.sharding == "fsdp2":
        flags["fsdp"] = "fsdp2"
        flags["gradient_checkpointing"] = False
        made.assumptions.append("the fsdp2 preset checkpoints activations itself, so gradient_checkpointing is off")
    return flags


def _placed(k: Kitchen, devices: list[int], nodes: int, *, exclusive: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment and launch of the trainer on these devices of each of its nodes."""
    intent = k.intent
    if intent.sharding == "single":
        return {"CUDA_VISIBLE_DEVICES": str(devices[0])}, {}
    env = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))} if exclusive and len(devices) < intent.gpus else {}
    launch: dict[str, Any] = {"nproc": len(devices)}
    if nodes > 1:
        launch |= {"nnodes": nodes, "node_rank": Required("NODE_RANK"), "master_addr": Required("MASTER_ADDR"), "master_port": 29500}
    return env, launch


def _sampled(k: Kitchen, made: Made, flags: dict[str, Any], world: int, tensor: int) -> None:
    """What grpo and gkd add: lengths, engine, rewards, batch."""
    intent = k.intent
    prompt, completion = intent.setting("max_length", PROMPT), intent.setting("max_completion_length", COMPLETION)
    flags["max_length"], flags["max_completion_length"] = prompt, completion
    if intent.placement == "colocate":
        flags |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4, "vllm_max_model_len": prompt + completion, "sleep_level": 1}
        if tensor > 1:
            flags["vllm_tensor_parallel_size"] = tensor
        if intent.tuner == "full":
            flags |= {"offload_model": True, "offload_optimizer": True}
    elif intent.placement != "none":
        flags |= {"use_vllm": True, "vllm_mode": "server"}
        if intent.placement == "async-server":
            flags["async_generate"] = True
            made.assumptions.append("asynchronous generation samples with the weights of the step before: slightly off-policy")
    if intent.rlhf_type == "grpo":
        generations = intent.setting("num_generations", 8)
        if "num_generations" in intent.settings:
            flags["num_generations"] = generations
        per_device = intent.setting("per_device_train_batch_size", 1)
        batch = grpo_batch(world, intent, per_device, generations)
        flags |= batch
        total = per_device * world * batch.get("gradient_accumulation_steps", 1)
        if "gradient_accumulation_steps" in batch and total % lcm(generations, 1) == 0:
            made.assumptions.append(f"{total} completions an optimizer step: {total // generations} prompts × {generations}")
        _rewards(k, made, flags)


def _rewards(k: Kitchen, made: Made, flags: dict[str, Any]) -> None:
    reward = k.intent.reward
    served = k.intent.placement in ("server", "async-server")
    if reward == "async":
        _plugin(made, flags, "reward_plugin.py")
        flags["reward_funcs"] = "judge_reward"
        made.assumptions.append("a judge answers at JUDGE_URL (reward_plugin.py)")
    elif reward == "model":
        flags["reward_model"] = k.intent.reward_model or Required("REWARD_MODEL")
        made.assumptions.append("the reward model is a sequence-classification model")
    elif reward == "gym":
        _plugin(made, flags, "env_plugin.py")
        made.assumptions.append('rows have a column env_config such as {"name": "guess_number", "target": 7}')
        if not served:
            flags |= {"multi_turn_scheduler": "gym_scheduler", "gym_env": "guess_number", "use_gym_env": True, "max_turns": 4}
    else:
        flags["reward_funcs"] = ["accuracy", "format"] if reward == "function" else ["accuracy"]
        made.assumptions.append("rows have a column `solution` (reward accuracy), and the package math_verify is installed")
        if reward == "multi-turn":
            _plugin(made, flags, "scheduler_plugin.py")
            if not served:
                flags |= {"multi_turn_scheduler": "ask_again", "max_turns": 3}


def _plugin(made: Made, flags: dict[str, Any], name: str) -> None:
    flags["external_plugins"] = name
    made.files[name] = FILES[name]


def _server_side(k: Kitchen, made: Made, flags: dict[str, Any], tensor: int, devices: list[int]) -> None:
    """The rollout job, and the trainer's address of it."""
    intent = k.intent
    host = "127.0.0.1" if intent.nodes == 1 else Required("ROLLOUT_HOST")
    flags |= {"vllm_server_host": host, "vllm_server_port": ROLLOUT_PORT}
    server: dict[str, Any] = {
        "model": flags["model"], "vllm_tensor_parallel_size": tensor if tensor > 1 else None,
        "vllm_data_parallel_size": len(devices) // tensor if len(devices) > tensor else None,
        "vllm_max_model_len": flags["max_length"] + flags["max_completion_length"], "port": ROLLOUT_PORT,
    }  # fmt: skip
    if intent.tuner == "lora":
        rank = intent.setting("lora_rank", 8)
        server |= {"vllm_enable_lora": True, "vllm_max_lora_rank": max(rank, 8)}
        flags["vllm_enable_lora"] = True
    if intent.rlhf_type == "grpo" and intent.reward == "multi-turn":
        server |= {"external_plugins": "scheduler_plugin.py", "multi_turn_scheduler": "ask_again", "max_turns": 3}
    if intent.rlhf_type == "grpo" and intent.reward == "gym":
        server |= {"external_plugins": "env_plugin.py", "multi_turn_scheduler": "gym_scheduler", "gym_env": "guess_number", "use_gym_env": True, "max_turns": 4}
        flags["vllm_server_pass_dataset"] = True
    env = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}
    made.jobs.append(job("swift rollout", server, env, background=True))
    made.assumptions.append(
        f"the server has GPUs {env['CUDA_VISIBLE_DEVICES']}" + ("" if intent.nodes == 1 else " of a node of its own; trainers reach it on ports 8000 and 51216")
    )  # fmt: skip


def _teacher(k: Kitchen, made: Made, flags: dict[str, Any], devices: list[int]) -> None:
    intent = k.intent
    made.assumptions.append("teacher and student tokenize alike")
    if intent.teacher == "model":
        flags["teacher_model"] = intent.teacher_model or Required("TEACHER_MODEL")
        if intent.sharding in ("zero2", "zero3"):
            flags["teacher_deepspeed"] = "zero3"
    elif intent.teacher == "self":
        made.assumptions.append("no teacher is given: the student on a `teacher_prompt` column is its own teacher")
    else:
        topk = intent.setting("gkd_logits_topk", 64)
        flags |= {"teacher_model_server": f"http://127.0.0.1:{TEACHER_PORT}", "gkd_logits_topk": topk}
        teacher = {"model": intent.teacher_model or Required("TEACHER_MODEL"), "infer_backend": "vllm", "port": TEACHER_PORT, "max_logprobs": topk}
        made.jobs.append(job("swift deploy", teacher, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, devices))}, background=True))


def rollout(k: Kitchen) -> Made:
    """A rollout server alone."""
    made = Made()
    intent = k.intent
    tensor, said = engine_tensor_parallel(k.shape, k.card_gib, intent.gpus, share=0.8)
    made.assumptions.append(said)
    flags: dict[str, Any] = {
        "model": intent.model or Required("MODEL"), "vllm_tensor_parallel_size": tensor if tensor > 1 else None,
        "vllm_data_parallel_size": intent.gpus // tensor if intent.gpus > tensor else None,
        "vllm_max_model_len": intent.setting("vllm_max_model_len", PROMPT + COMPLETION), "port": ROLLOUT_PORT,
    }  # fmt: skip
    if intent.tuner == "lora":
        flags |= {"vllm_enable_lora": True, "vllm_max_lora_rank": max(8, intent.setting("vllm_max_lora_rank", 8))}
    if intent.reward == "multi-turn":
        _plugin(made, flags, "scheduler_plugin.py")
        flags |= {"multi_turn_scheduler": "ask_again", "max_turns": 3}
    elif intent.reward == "gym":
        _plugin(made, flags, "env_plugin.py")
        flags |= {"multi_turn_scheduler": "gym_scheduler", "gym_env": "guess_number", "use_gym_env": True, "max_turns": 4}
    flags = override(flags, intent.settings, k.facts.flags("swift rollout"))
    made.jobs.append(job("swift rollout", flags, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(intent.gpus)))}))
    return made
