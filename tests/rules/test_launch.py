"""Launches: hits, and what stands one step beside them and must be silent."""

from __future__ import annotations

import pytest

from alula.run.job import Cluster

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
SFT = f"swift sft {MODEL}"
GRPO = f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy --num_generations 4 --per_device_train_batch_size 4"
FOUR = "CUDA_VISIBLE_DEVICES=0,1,2,3"
RANKS = "NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8"

HITS = [
    ("LCH001", f"{FOUR} {SFT} --deepspeed zero3", "NPROC_PER_NODE=4"),
    ("LCH001", f"{FOUR} NPROC_PER_NODE=2 {SFT} --deepspeed zero2", "over 2 devices"),
    ("LCH001", f"export {FOUR}\npython swift/cli/sft.py {MODEL} --deepspeed zero2", "4 visible devices for 1 process(es)"),
    ("LCH001", f"{FOUR} torchrun --nproc_per_node 2 swift/cli/sft.py {MODEL} --deepspeed zero2", "--nproc_per_node 4"),
    ("LCH001", f"ASCEND_RT_VISIBLE_DEVICES=0,1 {SFT} --deepspeed zero2", "NPROC_PER_NODE=2"),
    ("LCH002", f"{FOUR} {SFT} --fsdp fsdp2", "FSDP2"),
    ("LCH003", f"{FOUR} swift rlhf --rlhf_type dpo {MODEL} --use_liger_kernel true", "Liger"),
    ("LCH004", f"{FOUR} {GRPO} --use_vllm true --vllm_mode colocate", "GRPO with vLLM"),
    ("LCH004", f"{FOUR} swift rlhf --rlhf_type gkd {MODEL} --use_vllm true --vllm_mode colocate", "GKD with vLLM"),
    ("LCH005", f"CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=2 {SFT}", "CUDA_VISIBLE_DEVICES=0,1"),
    ("LCH006", f"{FOUR} NPROC_PER_NODE=8 {SFT}", "8 processes for 4 visible device(s)"),
    ("LCH007", f"{FOUR} NPROC_PER_NODE=8 megatron sft {MODEL}", "NPROC_PER_NODE=4"),
    ("LCH008", f"{FOUR} NPROC_PER_NODE=2 megatron sft {MODEL}", "2 stay idle"),
    ("LCH009", f"{FOUR} {SFT}", "NPROC_PER_NODE=4"),
    ("LCH010", f"NPROC_PER_NODE=16 {SFT}", "NNODES=2 NPROC_PER_NODE=8"),
    ("LCH011", "NPROC_PER_NODE=4 swift rollout --model Qwen/Qwen3-8B", "--vllm_tensor_parallel_size"),
    ("LCH012", f"NPROC_PER_NODE=8 python swift/cli/sft.py {MODEL}", "1 process(es) start"),
    ("LCH012", f"NPROC_PER_NODE=8 torchrun swift/cli/sft.py {MODEL}", "torchrun --nproc_per_node 8"),
    ("LCH013", f"{FOUR} NPROC_PER_NODE=4 {SFT} --device_map auto", "in each of 4 processes"),
    ("LCH013", f"NPROC_PER_NODE=4 {SFT} --device_map sequential", "--deepspeed zero3"),
    ("LCH014", f"NPROC_PER_NODE=0,1 {SFT}", "0,1 is no positive number"),
    ("LCH014", f"NPROC_PER_NODE= {SFT}", "NPROC_PER_NODE=''"),
    ("LCH019", f"NPROC_PER_NODE=$UNSET {SFT}", "NPROC_PER_NODE=$UNSET is empty here"),
    ("LCH014", f"NPROC_PER_NODE=8 NNODES=0 {SFT}", "NNODES=0"),
    ("LCH015", f"CUDA_VISIBLE_DEVICES=0,1,1 NPROC_PER_NODE=3 {SFT}", "lists 1 more than once"),
    ("LCH016", "CUDA_VISIBLE_DEVICES= swift rollout --model Qwen/Qwen3-8B", "hides every device"),
    ("LCH016", f"CUDA_VISIBLE_DEVICES=-1 {SFT} --torch_dtype float32", "hides every device"),
    ("LCH017", f"SWIFT_SINGLE_DEVICE_MODE=1 CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=4 {SFT}", "2 visible devices"),
    ("LCH018", f"CUDA_VISIBLE_DEVICES=$GPUS {SFT}", "bf16 training needs one"),
    ("LCH020", f"NNODES=2 NODE_RANK=0 NPROC_PER_NODE=8 {SFT}", "on all 2 nodes"),
    ("LCH021", f"NNODES=2 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 {SFT}", "NODE_RANK to 0 … 1"),
    ("LCH021", f"torchrun --nnodes 2 --nproc_per_node 8 --master_addr 10.0.0.1 swift/cli/sft.py {MODEL}", "every node is node 0"),
    ("LCH022", f"NNODES=2 NODE_RANK=2 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 {SFT}", "ranks are 0 … 1"),
    ("LCH023", f"NNODES=2 NODE_RANK=1 MASTER_ADDR=localhost NPROC_PER_NODE=8 {SFT}", "look for node 0 on itself"),
    ("LCH023", f"NNODES=4 NODE_RANK=$(rank) MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 megatron sft {MODEL}", "NNODES=4"),
    ("LCH027", f"NNODES=4 NODE_RANK=0 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 {SFT}", "NNODES=4: the other nodes"),
    ("LCH024", f"NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 {FOUR} {SFT}", "NPROC_PER_NODE=4"),
    ("LCH025", f"NODE_RANK=1 NPROC_PER_NODE=8 {SFT}", "NODE_RANK=1 without NNODES"),
    ("LCH025", f"export WORLD_SIZE=2 RANK=1\nNPROC_PER_NODE=8 {SFT}", "WORLD_SIZE=2, RANK=1 without NNODES"),
    ("LCH028", f"NPROC_PER_NODE=4 torchrun --nproc_per_node 4 swift/cli/main.py sft {MODEL}", "NPROC_PER_NODE makes each"),
    ("LCH028", f"NNODES=1 torchrun --nproc_per_node 4 $(which swift) sft {MODEL}", "NNODES makes each"),
    ("LCH030", f"{FOUR} NPROC_PER_NODE=4 {SFT} &\nCUDA_VISIBLE_DEVICES=4,5 NPROC_PER_NODE=2 {SFT}", "MASTER_PORT=29501"),
    ("LCH030", f"NPROC_PER_NODE=2 MASTER_PORT=29600 {SFT} &\nNPROC_PER_NODE=2 MASTER_PORT=29600 megatron sft {MODEL} &\nwait", "MASTER_PORT 29600"),
    ("LCH031", f"{FOUR} NPROC_PER_NODE=4 {SFT} &\nCUDA_VISIBLE_DEVICES=3,4 NPROC_PER_NODE=2 MASTER_PORT=29501 {SFT} &", "device(s) 3"),
    ("LCH032", f"NPROC_PER_NODE=4 MASTER_PORT=51216 {GRPO} --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1", "--vllm_server_group_port 51216"),
]

SILENT = [
    ("LCH001", f"{FOUR} NPROC_PER_NODE=4 {SFT} --deepspeed zero3"),
    ("LCH001", f"{FOUR} {SFT}"),
    ("LCH001", f"CUDA_VISIBLE_DEVICES=0 {SFT} --deepspeed zero3"),
    ("LCH001", f"{SFT} --deepspeed zero3"),  # how many devices there are is not known
    ("LCH001", f"CUDA_VISIBLE_DEVICES=$(pick) {SFT} --deepspeed zero3"),
    ("LCH001", f"SWIFT_SINGLE_DEVICE_MODE=1 {FOUR} {SFT} --deepspeed zero3"),
    ("LCH001", f"{FOUR} {SFT} --deepspeed zero3 --use_ray true"),
    ("LCH001", f"{FOUR} megatron sft {MODEL}"),
    ("LCH002", f"{FOUR} NPROC_PER_NODE=4 {SFT} --fsdp fsdp2"),
    ("LCH003", f"{FOUR} {SFT} --use_liger_kernel false"),
    ("LCH004", f"{FOUR} {GRPO} --use_vllm false"),
    ("LCH004", f"{FOUR} swift rlhf --rlhf_type dpo {MODEL}"),
    ("LCH005", f"{FOUR} NPROC_PER_NODE=2 {SFT}"),
    ("LCH005", f"CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=2 megatron sft {MODEL}"),  # Megatron does not count them
    ("LCH006", f"{FOUR} NPROC_PER_NODE=4 {SFT}"),
    ("LCH006", f"CUDA_VISIBLE_DEVICES= NPROC_PER_NODE=4 {SFT}"),  # none at all is said elsewhere
    ("LCH007", f"{FOUR} NPROC_PER_NODE=8 swift rollout --model m"),  # not under torchrun
    ("LCH008", f"{FOUR} NPROC_PER_NODE=4 megatron sft {MODEL}"),
    ("LCH009", f"{FOUR} {SFT} --deepspeed zero2"),  # refused, and said there
    ("LCH009", f"{FOUR} {SFT} $EXTRA_$(flags)"),
    ("LCH010", f"NPROC_PER_NODE=8 {SFT}"),
    ("LCH010", f"ASCEND_RT_VISIBLE_DEVICES=$(ids) NPROC_PER_NODE=16 {SFT}"),
    ("LCH011", "export NPROC_PER_NODE=4\nswift rollout --model m &\n" + SFT),  # meant for the trainer
    ("LCH011", "NPROC_PER_NODE=4 swift infer --model m"),
    ("LCH012", f"NPROC_PER_NODE=8; torchrun --nproc_per_node $NPROC_PER_NODE swift/cli/sft.py {MODEL}"),
    ("LCH012", f"export NPROC_PER_NODE=8; torchrun --nproc_per_node $NPROC_PER_NODE swift/cli/sft.py {MODEL}"),
    ("LCH013", f"{FOUR} {SFT} --device_map auto"),
    ("LCH013", f"{FOUR} NPROC_PER_NODE=2 {SFT} --device_map auto"),  # two devices each: device_map and DDP together
    ("LCH013", f"NPROC_PER_NODE=4 {SFT} --device_map cpu"),
    ("LCH014", f"NPROC_PER_NODE=gpu {SFT}"),
    ("LCH014", f"NPROC_PER_NODE=8 NNODES=1:4 {SFT}"),
    ("LCH014", f"NPROC_PER_NODE=$(nvidia-smi -L | wc -l) {SFT}"),
    ("LCH014", "NPROC_PER_NODE= swift rollout --model m"),
    ("LCH015", f"CUDA_VISIBLE_DEVICES=0,1,2 NPROC_PER_NODE=3 {SFT}"),
    ("LCH016", f"CUDA_VISIBLE_DEVICES=0 {SFT}"),
    ("LCH016", f"CUDA_VISIBLE_DEVICES= {SFT} --use_cpu true"),
    ("LCH016", "CUDA_VISIBLE_DEVICES= swift export --model m --to_mcore true"),
    ("LCH017", f"SWIFT_SINGLE_DEVICE_MODE=1 {FOUR} NPROC_PER_NODE=4 {SFT}"),
    ("LCH017", f"CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=4 {SFT}"),
    ("LCH018", f"CUDA_VISIBLE_DEVICES= {SFT} --torch_dtype float32"),
    ("LCH018", "CUDA_VISIBLE_DEVICES= swift sft --model my/own --dataset d"),  # its dtype is not known
    ("LCH020", f"{RANKS} {SFT}"),
    ("LCH020", f"NNODES=1 NPROC_PER_NODE=8 {SFT}"),
    ("LCH020", f"NNODES=$(count) NODE_RANK=0 NPROC_PER_NODE=8 {SFT}"),
    ("LCH020", f"torchrun --nnodes 2 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint 10.0.0.1:29500 swift/cli/sft.py {MODEL}"),
    ("LCH021", f"{RANKS} {SFT}"),
    ("LCH022", f"NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 {SFT}"),
    ("LCH023", f"NNODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 {SFT}"),
    ("LCH023", f"{RANKS} {SFT}"),
    ("LCH023", f"NNODES=2 NODE_RANK=0 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 {SFT}"),  # LCH027
    ("LCH027", f"NNODES=1 NODE_RANK=0 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 {SFT}"),
    ("LCH019", f"NNODES=${{WORLD_SIZE:-1}} NPROC_PER_NODE=8 {SFT}"),
    ("LCH014", f"NNODES=$WORLD_SIZE NPROC_PER_NODE=8 {SFT}"),
    ("LCH024", f"{RANKS} {SFT}"),
    ("LCH024", f"NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 CUDA_VISIBLE_DEVICES=0 {SFT}"),  # one device, one process
    ("LCH025", f"MASTER_ADDR=127.0.0.1 NODE_RANK=0 NPROC_PER_NODE=8 {SFT}"),
    ("LCH025", f"export WORLD_SIZE=8 RANK=0\nNPROC_PER_NODE=8 {SFT}"),
    ("LCH025", "MASTER_ADDR=10.0.0.1 swift rollout --model m"),
    ("LCH028", f"NPROC_PER_NODE=4 torchrun --nproc_per_node 4 swift/cli/sft.py {MODEL}"),
    ("LCH028", f"torchrun --nproc_per_node 4 swift/cli/main.py sft {MODEL}"),
    ("LCH030", f"NPROC_PER_NODE=2 {SFT}\nNPROC_PER_NODE=2 {SFT}"),  # one after the other
    ("LCH030", f"NPROC_PER_NODE=2 {SFT} &\nwait\nNPROC_PER_NODE=2 {SFT}"),
    ("LCH030", f"NPROC_PER_NODE=2 {SFT} &\nNPROC_PER_NODE=2 MASTER_PORT=29501 {SFT}"),
    ("LCH030", f"CUDA_VISIBLE_DEVICES=0 {SFT} &\nCUDA_VISIBLE_DEVICES=1 {SFT}"),  # plain processes meet nobody
    ("LCH030", f"NPROC_PER_NODE=2 {SFT} &\nNPROC_PER_NODE=2 MASTER_PORT=$(free) {SFT}"),
    ("LCH031", f"{FOUR} NPROC_PER_NODE=4 {SFT} &\nCUDA_VISIBLE_DEVICES=4,5 NPROC_PER_NODE=2 {SFT}"),
    ("LCH031", f"{FOUR} NPROC_PER_NODE=4 {SFT} && {FOUR} NPROC_PER_NODE=4 {SFT}"),
    ("LCH032", f"NPROC_PER_NODE=4 MASTER_PORT=8000 {GRPO} --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.9"),  # another machine
    ("LCH032", f"NPROC_PER_NODE=4 MASTER_PORT=29500 {GRPO} --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1"),
]


@pytest.mark.parametrize(("code", "script", "says"), HITS)
def test_said(check: Checker, code: str, script: str, says: str) -> None:
    found = [finding for finding in check(script) if finding.code == code]
    assert found, f"{code} is silent"
    assert any(says in finding.message for finding in found), [finding.message for finding in found]


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_silent(check: Checker, code: str, script: str) -> None:
    assert [finding.message for finding in check(script) if finding.code == code] == []


@pytest.mark.parametrize(("code", "per_node"), [("LCH001", 8), (None, 1), (None, None)])
def test_devices_of_the_cluster(check: Checker, code: str | None, per_node: int | None) -> None:
    """What `--gpus` says counts where the script lists no devices."""
    found = {f.code for f in check(f"{SFT} --deepspeed zero3", cluster=Cluster(gpus_per_node=per_node)) if f.code.startswith("LCH")}
    assert found == ({code} if code else set())


def test_device_that_the_node_lacks(check: Checker) -> None:
    found = [f.message for f in check(f"CUDA_VISIBLE_DEVICES=1,2,3,4 NPROC_PER_NODE=4 {SFT}", cluster=Cluster(gpus_per_node=4)) if f.code == "LCH015"]
    assert found == ["CUDA_VISIBLE_DEVICES names device 4, and a node has 4 (0 to 3): the list ends there"]


@pytest.mark.parametrize(
    ("version", "codes"),
    [("3.8.3", {"LCH001"}), ("3.11.3", {"LCH001"}), ("3.12.6", {"LCH001", "LCH002"}), ("4.6.0", {"LCH001", "LCH002"})],
)
def test_versions(check: Checker, version: str, codes: set[str]) -> None:
    """FSDP2 came with 3.12."""
    script = f"{FOUR} {SFT} --deepspeed zero3 --fsdp fsdp2"
    assert {f.code for f in check(script, version=version) if f.code in ("LCH001", "LCH002")} == codes


def test_gkd_on_vllm_came_later(check: Checker) -> None:
    script = f"{FOUR} swift rlhf --rlhf_type gkd {MODEL} --use_vllm true --vllm_mode colocate"
    assert not [f for f in check(script, version="3.8.3") if f.code == "LCH004"]
    assert [f for f in check(script, version="3.10.3") if f.code == "LCH004"]


NODE = "NNODES=2 NODE_RANK={rank} MASTER_ADDR={address} MASTER_PORT=29500 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl"


@pytest.mark.parametrize(
    ("ranks", "addresses", "says"),
    [
        ((0, 1), ("10.0.0.1", "10.0.0.1"), None),
        ((0, 1), ("10.0.0.1", "10.0.0.2"), "disagree about MASTER_ADDR: 10.0.0.1 and 10.0.0.2"),
        ((0, 0), ("10.0.0.1", "10.0.0.1"), "both with NODE_RANK=0"),
        ((0, 1), ("127.0.0.1", "10.0.0.1"), None),  # node 0 may call itself so
    ],
)
def test_scripts_of_two_nodes(check: Checker, ranks: tuple[int, int], addresses: tuple[str, str], says: str | None) -> None:
    first, second = (NODE.format(rank=rank, address=address) for rank, address in zip(ranks, addresses, strict=True))
    found = [f.message for f in check(first, {"b.sh": second}, name="a.sh") if f.code == "LCH026"]
    assert (says is None and not found) or (says is not None and any(says in message for message in found)), found


def test_node_0_may_call_itself_loopback(check: Checker) -> None:
    first, second = NODE.format(rank=0, address="127.0.0.1"), NODE.format(rank=1, address="10.0.0.1")
    assert "LCH027" in {f.code for f in check(first)}
    assert not {"LCH023", "LCH027"} & {f.code for f in check(first, {"b.sh": second}, name="a.sh")}


def test_fix_of_a_missing_process_count_is_written_before_the_command(check: Checker) -> None:
    script = f"{FOUR} {SFT} --deepspeed zero3\n"
    fix = next(f.fix for f in check(script) if f.code == "LCH001")
    assert fix is not None
    assert fix.safety == "safe"
    edit = fix.edits[0]
    fixed = script[: edit.span.start] + edit.text + script[edit.span.end :]
    assert not [f for f in check(fixed) if f.code.startswith("LCH")]
