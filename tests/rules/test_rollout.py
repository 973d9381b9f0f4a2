"""Rollouts: the trainer's side, the server's side, and flags that have no effect."""

from __future__ import annotations

import json

import pytest

from alula.run.job import Cluster

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
GRPO = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"
GKD = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd {MODEL} --teacher_model Qwen/Qwen3-32B"
COLOCATE = f"{GRPO} --use_vllm true --vllm_mode colocate"
SERVER = f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5"
MEGATRON = f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo {MODEL} --num_train_epochs 1 --reward_funcs accuracy --global_batch_size 64"
ROLLOUT = "swift rollout --model Qwen/Qwen3-8B"

HITS = [
    ("ROL001", f"{GKD} --vllm_mode server"),
    ("ROL002", f"{GKD} --use_vllm true"),
    ("ROL003", f"{GRPO} --use_vllm true --vllm_mode server"),
    ("ROL003", f"{MEGATRON} --vllm_mode server"),
    ("ROL004", f"{GRPO} --async_generate true"),
    ("ROL005", f"{SERVER} --vllm_server_port 8000 8001"),
    ("ROL005", f"{SERVER} --vllm_server_group_port 51216 51217"),
    ("ROL005", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_base_url http://a:1 http://b:1 --vllm_server_group_port 51216"),
    ("ROL006", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_base_url a:8000"),
    ("ROL007", f"{COLOCATE} --vllm_server_host 127.0.0.1"),
    ("ROL007", f"{GRPO} --use_vllm false --vllm_server_host 127.0.0.1"),
    ("ROL008", f"{COLOCATE} --vllm_tensor_parallel_size 3"),
    ("ROL008", f"{MEGATRON} --vllm_mode colocate --vllm_tensor_parallel_size 16"),
    ("ROL009", f"{COLOCATE} --vllm_reasoning_parser qwen3"),
    ("ROL010", f"{SERVER} --vllm_server_timeout 100000"),
    ("ROL011", f"{COLOCATE} --max_length 2048 --max_completion_length 2048 --vllm_max_model_len 4095"),
    ("ROL011", f"{COLOCATE} --max_completion_length 4096 --vllm_max_model_len 4096"),
    ("ROL011", f"{MEGATRON} --vllm_mode colocate --max_length 4096 --max_completion_length 4096 --vllm_max_model_len 4096"),
    ("ROL012", f"{COLOCATE} --vllm_gpu_memory_utilization 1.4"),
    ("ROL012", f"{ROLLOUT} --vllm_gpu_memory_utilization 0"),
    ("ROL021", f"{SERVER} --vllm_gpu_memory_utilization 0.6 --vllm_tensor_parallel_size 2"),
    ("ROL022", f"{COLOCATE} --vllm_pipeline_parallel_size 2"),
    ("ROL023", f"{SERVER} --sleep_level 1"),
    ("ROL023", f"{GRPO} --offload_model true"),
    ("ROL024", f"{SERVER} --quant_method bnb --quant_bits 4 --vllm_enable_lora true"),
    ("ROL024", f"{COLOCATE} --quant_method bnb --quant_bits 8"),
    ("ROL024", COLOCATE.replace("Qwen3-8B", "Qwen2.5-7B-Instruct-GPTQ-Int4")),
    ("ROL024", SERVER.replace("Qwen3-8B", "Qwen2.5-7B-Instruct-AWQ")),
    ("ROL025", f"{COLOCATE} --tuner_type full --vllm_enable_lora true"),
    ("ROL026", f"{COLOCATE} --vllm_enable_lora true --sleep_level 2"),
    ("ROL027", f"{GRPO} --log_rollout_offpolicy_metrics true"),
    ("ROL029", f"{GKD} --structured_outputs_regex 'a.*'"),
    ("ROL101", "swift rollout --vllm_data_parallel_size 2"),
    ("ROL102", f"{ROLLOUT} --vllm_pipeline_parallel_size 4"),
    ("ROL103", f"{ROLLOUT} --vllm_reasoning_parser deepseek_r1"),
    ("ROL104", f"{ROLLOUT} --multi_turn_scheduler math_tip_trick --max_turns 2 --vllm_use_async_engine false"),
    ("ROL104", f"{ROLLOUT} --multi_turn_scheduler math_tip_trick --max_turns 2 --vllm_use_async_engine false --vllm_enable_expert_parallel true"),
    ("ROL105", f"CUDA_VISIBLE_DEVICES=0,1,2 {ROLLOUT} --vllm_tensor_parallel_size 2 --vllm_data_parallel_size 2"),
    ("ROL106", f"CUDA_VISIBLE_DEVICES=0,1,2 {ROLLOUT} --vllm_tensor_parallel_size 2"),
    ("ROL107", f"{ROLLOUT} --context_manager x"),
    ("ROL108", f"{ROLLOUT} --infer_backend vllm --task_type embedding"),
    ("ROL109", f"{ROLLOUT} --infer_backend lmdeploy"),
    ("ROL110", "swift rollout --model Qwen/Qwen2.5-7B-Instruct --vllm_tensor_parallel_size 8"),
    ("ROL110", COLOCATE.replace("Qwen3-8B", "Qwen2.5-7B-Instruct") + " --vllm_tensor_parallel_size 8"),
    ("ROL111", f"{COLOCATE} --vllm_max_model_len 131072"),
    ("ROL112", f"{ROLLOUT} --vllm_enable_expert_parallel true"),
    ("ROL113", "swift rollout --model Qwen/Qwen3-30B-A3B --vllm_enable_lora true"),
    ("ROL114", f"{COLOCATE} --vllm_engine_kwargs a=1"),
    ("ROL114", f"{MEGATRON} --vllm_mode colocate --vllm_limit_mm_per_prompt image=2"),
]

SILENT = [
    ("ROL001", f"{GRPO} --vllm_mode colocate --use_vllm $(pick)"),
    ("ROL001", f"swift rlhf --rlhf_type dpo {MODEL} --vllm_mode colocate"),
    ("ROL002", f"{GRPO} --use_vllm true $(pick)"),
    ("ROL002", f"swift rlhf --rlhf_type dpo {MODEL} --use_vllm true"),
    ("ROL003", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_base_url http://a:8000"),
    ("ROL003", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host $(hostname)"),
    ("ROL004", f"{SERVER} --async_generate true"),
    ("ROL005", SERVER),
    ("ROL005", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host a b --vllm_server_port $(ports)"),
    ("ROL005", f"{MEGATRON} --vllm_mode colocate --vllm_server_host a b"),  # not read there
    ("ROL006", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_base_url https://a:8000"),
    ("ROL007", SERVER),
    ("ROL007", COLOCATE),
    ("ROL008", f"{COLOCATE} --vllm_tensor_parallel_size 4"),
    ("ROL008", f"{SERVER} --vllm_tensor_parallel_size 3"),
    ("ROL008", f"NPROC_PER_NODE=$(count) swift rlhf --rlhf_type grpo {MODEL} --use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 3"),
    ("ROL009", f"{GKD} --use_vllm true --vllm_mode colocate --vllm_reasoning_parser qwen3"),
    ("ROL010", f"{SERVER} --vllm_server_timeout 3600"),
    ("ROL011", f"{COLOCATE} --max_length 2048 --max_completion_length 2048 --vllm_max_model_len 4096"),
    ("ROL011", f"{COLOCATE} --vllm_max_model_len 4096 --max_completion_length 2048"),
    ("ROL011", f"{SERVER} --max_length 4096 --max_completion_length 4096 --vllm_max_model_len 4096"),  # not read there
    ("ROL012", f"{COLOCATE} --vllm_gpu_memory_utilization 1.0"),
    ("ROL021", f"{SERVER} --vllm_gpu_memory_utilization 0.9"),  # the default
    ("ROL022", f"{COLOCATE} --vllm_tensor_parallel_size 2 --vllm_max_model_len 8192"),
    ("ROL023", f"{COLOCATE} --sleep_level 1 --offload_model true"),
    ("ROL024", f"{COLOCATE} --quant_method bnb --quant_bits 4 --vllm_enable_lora true"),
    ("ROL024", f"{GRPO} --quant_method bnb --quant_bits 4"),
    ("ROL024", GRPO.replace("Qwen3-8B", "Qwen2.5-7B-Instruct-AWQ")),
    ("ROL026", f"{COLOCATE} --vllm_enable_lora true --sleep_level 1"),
    ("ROL027", f"{COLOCATE} --log_rollout_offpolicy_metrics true"),
    ("ROL029", f"{COLOCATE} --structured_outputs_regex 'a.*'"),
    ("ROL101", "swift rollout --adapters a"),
    ("ROL104", f"{ROLLOUT} --multi_turn_scheduler math_tip_trick --max_turns 2 --vllm_use_async_engine true"),
    ("ROL104", f"{ROLLOUT} --vllm_use_async_engine false"),
    ("ROL105", f"{ROLLOUT} --vllm_tensor_parallel_size 8"),  # how many there are is not known
    ("ROL105", f"CUDA_VISIBLE_DEVICES=$(pick) {ROLLOUT} --vllm_tensor_parallel_size 8"),
    ("ROL106", f"CUDA_VISIBLE_DEVICES=0,1 {ROLLOUT} --vllm_data_parallel_size 2"),
    ("ROL108", f"{ROLLOUT} --task_type embedding"),
    ("ROL109", f"{ROLLOUT} --infer_backend vllm"),
    ("ROL110", "swift rollout --model ./somewhere --vllm_tensor_parallel_size 7"),
    ("ROL111", f"{COLOCATE} --vllm_max_model_len 131072 --rope_scaling yarn --max_model_len 131072"),
    ("ROL112", "swift rollout --model Qwen/Qwen3-30B-A3B --vllm_enable_expert_parallel true"),
    ("ROL114", f"{COLOCATE} --vllm_engine_kwargs '{{\"a\": 1}}'"),
]


@pytest.mark.parametrize(("code", "command"), HITS)
def test_hit(check: Checker, code: str, command: str) -> None:
    found = check(command + "\n")
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "command"), SILENT)
def test_silent(check: Checker, code: str, command: str) -> None:
    assert [f.message for f in check(command + "\n") if f.code == code] == []


def test_devices_of_the_cluster(check: Checker) -> None:
    command = f"{ROLLOUT} --vllm_tensor_parallel_size 8\n"
    assert "ROL105" in {f.code for f in check(command, cluster=Cluster(gpus_per_node=4))}
    assert "ROL105" not in {f.code for f in check(command, cluster=Cluster(gpus_per_node=8))}


def test_address_decides_which_mode_is_proposed(check: Checker) -> None:
    (finding,) = [f for f in check(f"{GRPO} --use_vllm true --vllm_server_host 10.0.0.5\n") if f.code == "ROL002"]
    assert finding.fix is not None
    assert finding.fix.description == "--vllm_mode server"


def test_mode_had_a_default_before_3_11(check: Checker) -> None:
    command = GRPO.replace("swift rlhf", "swift rlhf --train_type lora") + " --use_vllm true\n"
    assert "ROL002" not in {f.code for f in check(command, version="3.10.3")}


@pytest.mark.parametrize(("images", "limit", "found"), [(3, 2, True), (2, 2, False), (0, 1, False)])
def test_images_of_the_rows(check: Checker, images: int, limit: int, found: bool) -> None:
    row = {"messages": [{"role": "user", "content": "<image>" * images + "Which?"}], "solution": "A"}
    rows = json.dumps({**row, "images": ["a.png"] * images}) + "\n"
    flag = json.dumps({"image": limit})
    command = COLOCATE.replace("Qwen3-8B", "Qwen2.5-VL-7B-Instruct") + f" --vllm_limit_mm_per_prompt '{flag}'\n"
    assert ("ROL028" in {f.code for f in check(command, {"data.jsonl": rows})}) is found


def test_images_are_held_against_the_server_of_the_run(check: Checker) -> None:
    rows = json.dumps({"messages": [{"role": "user", "content": "<image><image>?"}], "images": ["a.png", "b.png"], "solution": "A"}) + "\n"
    model = "--model Qwen/Qwen2.5-VL-7B-Instruct"
    server = f"CUDA_VISIBLE_DEVICES=9 swift rollout {model} --vllm_limit_mm_per_prompt '{{\"image\": 1}}' &\n"
    trainer = SERVER.replace("--model Qwen/Qwen3-8B", model).replace("10.0.0.5", "127.0.0.1") + "\n"
    assert "ROL028" in {f.code for f in check(server + trainer, {"data.jsonl": rows})}
