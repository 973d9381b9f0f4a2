"""Environment variables: hits, and what stands one step beside them and must be silent."""

from __future__ import annotations

import pytest

from alula.facts.environment import aliases, readers

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
SFT = f"swift sft {MODEL}"
GRPO = f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"
COLOCATE = f"{GRPO} --use_vllm true --vllm_mode colocate"
SERVER = f"{GRPO} --use_vllm true --vllm_mode server"
PROXY = "http_proxy=http://10.0.0.1:3128"
VL = "--model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl"
INTERN = "--model OpenGVLab/InternVL3-8B --dataset data.jsonl"

HITS = [
    ("ENV001", f"CUDA_VISIBLE_DEVICE=0 {SFT}", "CUDA_VISIBLE_DEVICES"),
    ("ENV001", f"export NPROC_PRE_NODE=4\n{SFT}", "NPROC_PER_NODE"),
    ("ENV001", f"NCCL_P2P_DISABLED=1 {SFT}", "NCCL_P2P_DISABLE"),
    ("ENV001", f"MASTER_ADDRESS=10.0.0.1 {SFT}", "MASTER_ADDR"),
    ("ENV001", f"Max_Pixels=1003520 {SFT}", "MAX_PIXELS"),
    ("ENV001", f"WANDB_API_KYE=$KEY {SFT}", "WANDB_API_KEY"),
    ("ENV002", f"NCCL_TIMEOUT=7200 {SFT}", "--ddp_timeout"),
    ("ENV002", f"export VLLM_SERVER_GROUP_PORT=51216\n{SERVER} --vllm_server_host h", "--vllm_server_group_port"),
    ("ENV002", f"MEGATRON_LM_PATH=/opt/megatron megatron sft {MODEL}", "megatron-core comes from pip"),
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=expandable_segments:True {COLOCATE} --sleep_level 1", "on Ascend sleep then frees nothing"),
    ("ENV003", f"PYTORCH_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True {COLOCATE} --sleep_level 2", "--sleep_level 2"),
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n# {COLOCATE} --sleep_level 1", "PYTORCH_NPU_ALLOC_CONF"),  # a command noted beside its variables
    ("ENV004", f"{PROXY} {SERVER} --vllm_server_host 127.0.0.1", "no_proxy=127.0.0.1,localhost"),
    ("ENV004", f"export HTTP_PROXY=http://p:1 NO_PROXY=example.com\n{SERVER} --vllm_server_host localhost", "HTTP_PROXY"),
    ("ENV004", f"ALL_PROXY=socks5://p:1 {SERVER} --vllm_server_base_url http://127.0.0.1:8000", "127.0.0.1"),
    ("ENV005", f"{PROXY} {SERVER} --vllm_server_host 10.0.0.7", "10.0.0.7"),
    ("ENV006", f"VLLM_USE_V1=0 {COLOCATE}", "no V0 engine"),
    ("ENV007", f"CUDA_LAUNCH_BLOCKING=1 {SFT}", "for debugging only"),
    ("ENV008", f"NCCL_DEBUG=info {SFT}", "fills the log"),
    ("ENV009", f"swift sft {INTERN} --max_pixels 1003520", "MAX_NUM=4"),
    ("ENV009", f"MAX_PIXELS=1003520 swift sft {INTERN}", "MAX_NUM tiles"),
    ("ENV009", f"{SFT} --max_pixels 1003520", "text model"),
    ("ENV010", f"USE_HF=hf {SFT}", "neither true nor false"),
    ("ENV010", f"USE_HF= {SFT}", "USE_HF=''"),
    ("ENV011", f"USE_HF=1 {SFT} --use_hf false", "has no effect"),
    ("ENV012", f"MAX_PIXELS=1 swift sft {VL} --model_kwargs '{{\"max_pixels\": 2}}'", "MAX_PIXELS=2 over the 1"),
    ("ENV013", f"ASCEND_RT_VISIBLE_DEVICES=0 NCCL_DEBUG=WARN {SFT}", "HCCL_"),
    ("ENV013", f"CUDA_VISIBLE_DEVICES=0 HCCL_CONNECT_TIMEOUT=600 {SFT}", "Ascend"),
]

SILENT = [
    ("ENV001", f"MY_RUN_NAME=a WANDB_PROJECT=b CUDA_VISIBLE_DEVICES=0 {SFT}"),
    ("ENV001", f"export NNODE=2\nNNODES=$NNODE NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 {SFT}"),  # the right one is set, from it
    ("ENV001", f"export NUM_NODES=2\ntorchrun --nnodes $NUM_NODES --nproc_per_node 8 --master_addr 10.0.0.1 --node_rank 0 swift/cli/sft.py {MODEL}"),
    ("ENV001", f"VIDEO_MIN_PIXELS=1 VIDEO_MAX_PIXELS=2 {SFT}"),
    ("ENV001", f"NCCL_IB_HCA=mlx5 NCCL_IB_TC=106 NCCL_SOME_NEW_SWITCH=1 {SFT}"),
    ("ENV001", f"GPU0=1 GPU1=2 {SFT}"),
    ("ENV001", "NPROC_PRE_NODE=4\n" + SFT),  # a shell variable that no program gets
    ("ENV002", f"TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=7200 {SFT}"),
    ("ENV002", f"NCCL_TIMEOUT=7200; {SFT} --ddp_timeout $NCCL_TIMEOUT"),
    ("ENV002", f"export NCCL_TIMEOUT=7200\n{SFT} --ddp_timeout $NCCL_TIMEOUT"),
    ("ENV003", f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {COLOCATE} --sleep_level 1"),  # ms-swift switches it off by itself
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=expandable_segments:True {COLOCATE}"),
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=expandable_segments:False {COLOCATE} --sleep_level 1"),
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=expandable_segments:True {SERVER} --vllm_server_host h --sleep_level 1"),
    ("ENV003", f"PYTORCH_NPU_ALLOC_CONF=$(conf) {COLOCATE} --sleep_level 1"),
    ("ENV004", f"{PROXY} no_proxy=localhost,127.0.0.1 {SERVER} --vllm_server_host 127.0.0.1"),
    ("ENV004", f"{PROXY} NO_PROXY='*' {SERVER} --vllm_server_host 127.0.0.1"),
    ("ENV004", f"{PROXY} no_proxy=127.0.0.0/8 {SERVER} --vllm_server_host 127.0.0.1"),
    ("ENV004", f"{PROXY} no_proxy=$(hosts) {SERVER} --vllm_server_host 127.0.0.1"),
    ("ENV004", f"https_proxy=http://10.0.0.1:3128 {SERVER} --vllm_server_host 127.0.0.1"),  # the server speaks http
    ("ENV004", f"http_proxy= {SERVER} --vllm_server_host 127.0.0.1"),
    ("ENV004", f"{PROXY} {COLOCATE}"),
    ("ENV005", f"{PROXY} no_proxy=10.0.0.0/8 {SERVER} --vllm_server_host 10.0.0.7"),
    ("ENV005", f"{PROXY} {SERVER} --vllm_server_host rollout.example.com"),
    ("ENV006", f"VLLM_USE_V1=1 {COLOCATE}"),
    ("ENV006", f"VLLM_USE_V1=0 {SFT}"),
    ("ENV007", f"CUDA_LAUNCH_BLOCKING=0 {SFT}"),
    ("ENV008", f"NCCL_DEBUG=WARN TORCH_DISTRIBUTED_DEBUG=OFF {SFT}"),
    ("ENV009", f"MAX_PIXELS=1003520 swift sft {VL}"),
    ("ENV009", f"swift sft {VL} --max_pixels 1003520"),
    ("ENV009", f"MAX_NUM=4 swift sft {INTERN}"),
    ("ENV009", "MAX_PIXELS=1003520 swift sft --model my/own --dataset d"),
    ("ENV009", f"MAX_PIXELS=1003520 {SFT}"),  # exported for all scripts alike, and harmless
    ("ENV010", f"USE_HF=True {SFT}"),
    ("ENV010", f"USE_HF=hf {SFT} --use_hf true"),  # not looked at then
    ("ENV011", f"USE_HF=0 {SFT} --use_hf false"),
    ("ENV011", f"USE_HF=1 {SFT}"),
    ("ENV012", f"MAX_PIXELS=2 swift sft {VL} --model_kwargs '{{\"max_pixels\": 2}}'"),
    ("ENV012", f"swift sft {VL} --model_kwargs '{{\"max_pixels\": 2}}'"),
    ("ENV013", f"ASCEND_RT_VISIBLE_DEVICES=0 HCCL_CONNECT_TIMEOUT=600 {SFT}"),
    ("ENV013", f"NCCL_DEBUG=WARN {SFT}"),
]


@pytest.mark.parametrize(("code", "script", "says"), HITS)
def test_said(check: Checker, code: str, script: str, says: str) -> None:
    found = [finding for finding in check(script) if finding.code == code]
    assert found, f"{code} is silent"
    assert any(says in finding.message for finding in found), [finding.message for finding in found]


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_silent(check: Checker, code: str, script: str) -> None:
    assert [finding.message for finding in check(script) if finding.code == code] == []


@pytest.mark.parametrize(("version", "said"), [("3.8.3", True), ("3.9.3", False)])
def test_expandable_segments_on_cuda(check: Checker, version: str, said: bool) -> None:
    """Since 3.9 ms-swift switches the setting off around vLLM."""
    script = f"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {COLOCATE} --sleep_level 1"
    assert ("ENV003" in {f.code for f in check(script, version=version)}) is said


def test_megatron_path_was_read_once(check: Checker) -> None:
    script = f"MEGATRON_LM_PATH=/opt/megatron megatron sft {MODEL}"
    assert "ENV002" not in {f.code for f in check(script, version="3.12.6")}


def test_no_known_variable_is_taken_for_another(check: Checker) -> None:
    """Every variable that the facts know, set at once: none of them is a misspelling of its neighbour."""
    names = [name for name in readers() if name.isupper()]
    script = "".join(f"export {name}=1\n" for name in names) + SFT
    assert [f.message for f in check(script) if f.code == "ENV001"] == []


def test_every_alias_leads_to_a_known_variable() -> None:
    assert {name for name in aliases().values() if name not in readers()} == set()
    assert not set(aliases()) & set(readers())
