"""Megatron sizes and pipeline splits: what does not fit processes or model is found, one value off is not."""

from __future__ import annotations

import pytest

from alula.run.finding import Finding

from .conftest import Checker

DENSE = "--model Qwen/Qwen3-8B --dataset d.jsonl --num_train_epochs 1"  # 36 layers, 32 heads, 8 key/value heads
MOE = "--model Qwen/Qwen3-30B-A3B --dataset d.jsonl --num_train_epochs 1"  # 48 layers, 32 heads, 128 experts
NODES = "NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 "
TP, PP, CP, EP, ETP = (
    "--tensor_model_parallel_size", "--pipeline_model_parallel_size", "--context_parallel_size", "--expert_model_parallel_size", "--expert_tensor_parallel_size"
)  # fmt: skip
VPP, LAYOUT = "--virtual_pipeline_model_parallel_size", "--pipeline_model_parallel_layout"
FIRST, LAST = "--decoder_first_pipeline_num_layers", "--decoder_last_pipeline_num_layers"


def sft(count: int, flags: str, model: str = DENSE, nodes: str = "") -> str:
    return f"{nodes}NPROC_PER_NODE={count} megatron sft {model} {flags}"


HITS = [
    ("PAR001", sft(8, f"{TP} 3")),
    ("PAR001", sft(6, f"{TP} 2 {CP} 2")),
    ("PAR001", f"megatron sft {DENSE} {TP} 2"),  # one process
    ("PAR001", f"torchrun --nproc_per_node 6 -m swift.cli._megatron.sft {DENSE} {TP} 4"),
    ("PAR001", sft(8, f"{PP} 0")),
    ("PAR001", f"NPROC_PER_NODE=8 megatron export --model Qwen/Qwen3-8B --to_mcore true {TP} 5"),
    ("PAR002", sft(8, f"{EP} 16", MOE)),
    ("PAR002", sft(8, f"{EP} 3", MOE)),
    ("PAR002", sft(8, f"{EP} 4 {ETP} 4 {TP} 4 --sequence_parallel true", MOE)),
    ("PAR002", sft(8, f"{EP} 8 {PP} 2", MOE)),
    ("PAR002", sft(8, f"{EP} 0", MOE)),
    ("PAR003", sft(8, f"{VPP} 2")),
    ("PAR003", sft(8, f'{LAYOUT} "Et*18|t*18L"')),
    ("PAR004", sft(6, f"{TP} 3")),
    ("PAR004", sft(8, f"{TP} 16", "--model Qwen/Qwen3-14B --dataset d.jsonl --num_train_epochs 1", NODES)),  # 40 heads
    ("PAR004", "NPROC_PER_NODE=5 megatron sft --mcore_model out/Qwen3-8B-mcore --dataset d.jsonl --num_train_epochs 1 --global_batch_size 1 " + f"{TP} 5"),
    ("PAR005", sft(8, f"{TP} 8 --sequence_parallel true", MOE)),  # 4 key/value heads
    ("PAR006", sft(6, f"{EP} 6 --global_batch_size 6", MOE)),
    ("PAR007", sft(8, f"{EP} 4")),
    ("PAR007", sft(8, f"{ETP} 2")),
    ("PAR008", sft(8, f"{TP} 2", MOE)),
    ("PAR008", sft(8, f"{TP} 2", "--model /models/Qwen3-30B-A3B-Thinking-2507 --dataset d.jsonl --num_train_epochs 1")),
    ("PAR009", sft(8, "--sequence_parallel true")),
    ("PAR010", sft(8, f"{TP} 2 --tp_comm_overlap true")),
    ("PAR010", sft(8, "--tp_comm_overlap true --sequence_parallel true")),
    ("PAR011", sft(8, f"{CP} 2", "--model Qwen/Qwen3.5-27B --dataset d.jsonl --num_train_epochs 1")),
    ("PAR012", sft(8, f"{TP} 16", nodes=NODES)),
    ("PAR013", sft(8, f"{CP} 2", "--model zai-org/GLM-5 --dataset d.jsonl --num_train_epochs 1")),
    ("PAR013", sft(8, "--apply_rope_fusion true", "--model deepseek-ai/DeepSeek-V3.2 --dataset d.jsonl --num_train_epochs 1")),
    ("PAR101", sft(8, f"{FIRST} 12")),
    ("PAR102", sft(8, f"{PP} 8")),
    ("PAR102", "NPROC_PER_NODE=5 megatron sft --load Qwen/Qwen3-8B-mcore --dataset d.jsonl --max_epochs 1 --global_batch_size 1 " + f"{PP} 5"),
    ("PAR103", sft(8, f"{PP} 4 {VPP} 2")),
    ("PAR104", sft(8, f"{PP} 4 {FIRST} 7")),
    ("PAR104", sft(8, f"{PP} 2 {FIRST} 7 {LAST} 7")),
    ("PAR104", sft(8, f"{PP} 4 {FIRST} 0")),
    ("PAR104", sft(8, f"{PP} 4 {VPP} 2 {FIRST} 5 {LAST} 5")),
    ("PAR105", sft(8, f"{PP} 4 {FIRST} 6 --account_for_loss_in_pipeline_split true")),
    ("PAR105", sft(8, f'{PP} 2 {FIRST} 6 {LAYOUT} "Et*18|t*18L"')),
    ("PAR106", sft(8, f"{PP} 4 --account_for_loss_in_pipeline_split true")),
    ("PAR107", sft(8, f'{PP} 2 {LAYOUT} "Et*12|t*12|t*12L"')),
    ("PAR107", sft(8, f'{PP} 2 {LAYOUT} "Ed*18|d*18L"')),
    ("PAR108", sft(8, f'{PP} 2 {LAYOUT} "Et*18|t*17L"')),
    ("PAR108", sft(8, f'{PP} 2 {LAYOUT} "t*18|t*18L"')),
    ("PAR108", sft(8, f'{PP} 2 {LAYOUT} "Et*18|t*18"')),
    ("PAR108", sft(8, f'{PP} 2 {LAYOUT} "Et*18|t*18mL"')),  # no mtp_num_layers
    ("PAR108", sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*18|t*18L"')),
    ("PAR108", sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*12m|t*12|t*6|t*6L"')),  # before transformer layers
    ("PAR108", sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*18|t*18||mL"')),  # alone
    ("PAR109", sft(8, f'{PP} 2 {VPP} 3 {LAYOUT} "Et*18|t*18L"')),
    ("PAR110", sft(8, f"{PP} 4 {VPP} 3 --global_batch_size 2")),
    ("PAR110", sft(8, f"{PP} 4 {VPP} 3 --microbatch_group_size_per_vp_stage 2 --global_batch_size 16")),
    ("PAR110", sft(8, f"{PP} 4 {VPP} 3 --microbatch_group_size_per_vp_stage 5 --global_batch_size 16")),
    ("PAR111", sft(8, f"{PP} 4 --global_batch_size 4")),
]  # fmt: skip

SILENT = [
    ("PAR001", sft(8, f"{TP} 2 {PP} 2 {CP} 2")),
    ("PAR001", sft(8, f"{TP} 16", nodes=NODES)),
    ("PAR001", f"NPROC_PER_NODE=$(choose) megatron sft {DENSE} {TP} 3"),
    ("PAR001", sft(8, f"{TP} $(choose)")),
    ("PAR001", sft(8, "$(choose)") + f" {TP} 2"),
    ("PAR002", sft(8, f"{EP} 8", MOE)),
    ("PAR002", sft(8, f"{PP} 3", MOE)),  # PAR001's
    ("PAR002", f"megatron sft {MOE} {TP} 2 {EP} 2 --sequence_parallel true"),  # so is a missing NPROC_PER_NODE
    ("PAR003", sft(8, f"{VPP} 1")),
    ("PAR003", sft(8, f"{VPP} 2 {PP} 2")),
    ("PAR003", sft(8, f"{VPP} $(choose)")),
    ("PAR004", sft(8, f"{TP} 8")),
    ("PAR004", sft(6, f"{TP} 3", "--model /models/unknown --dataset d.jsonl --num_train_epochs 1")),
    ("PAR005", sft(8, f"{TP} 8")),
    ("PAR005", sft(8, f"{TP} 4", "--model deepseek-ai/DeepSeek-V3 --dataset d.jsonl --num_train_epochs 1")),  # latent attention
    ("PAR006", sft(8, f"{EP} 8", MOE)),
    ("PAR006", sft(8, f"{EP} 1", MOE)),
    ("PAR007", sft(8, f"{EP} 4", MOE)),
    ("PAR007", sft(8, f"{EP} 4", "--model /models/unknown --dataset d.jsonl --num_train_epochs 1")),
    ("PAR008", sft(8, f"{TP} 2 --sequence_parallel true", MOE)),
    ("PAR008", sft(8, f"{EP} 8", MOE)),
    ("PAR008", sft(8, f"{TP} 2")),
    ("PAR008", sft(8, f"{TP} 2 --sequence_parallel $(choose)", MOE)),
    ("PAR008", f"NPROC_PER_NODE=8 megatron export --model Qwen/Qwen3-30B-A3B --to_mcore true {TP} 2"),
    ("PAR009", sft(8, f"{TP} 2 --sequence_parallel true")),
    ("PAR010", sft(8, f"{TP} 2 --tp_comm_overlap true --sequence_parallel true")),
    ("PAR010", f"NPROC_PER_NODE=8 megatron export --model Qwen/Qwen3-8B --to_mcore true {TP} 2 --tp_comm_overlap true"),
    ("PAR011", sft(8, f"{TP} 2", "--model Qwen/Qwen3.5-27B --dataset d.jsonl --num_train_epochs 1")),
    ("PAR011", sft(8, f"{CP} 2")),
    ("PAR012", sft(8, f"{TP} 8", nodes=NODES)),
    ("PAR013", sft(8, f"{CP} 2", "--model deepseek-ai/DeepSeek-V3 --dataset d.jsonl --num_train_epochs 1")),
    ("PAR101", sft(8, f"{FIRST} 12 {PP} 2")),
    ("PAR102", sft(8, f"{PP} 4")),
    ("PAR102", sft(8, f"{PP} 8 {FIRST} 3 {LAST} 3")),
    ("PAR102", sft(8, f"{PP} 8 --account_for_loss_in_pipeline_split true")),  # PAR106's
    ("PAR102", sft(8, f"{PP} 8", "--model /models/unknown --dataset d.jsonl --num_train_epochs 1")),
    ("PAR103", sft(8, f"{PP} 4 {VPP} 3")),
    ("PAR104", sft(8, f"{PP} 4 {FIRST} 6")),
    ("PAR104", sft(8, f"{PP} 2 {FIRST} 20 {LAST} 16")),
    ("PAR104", sft(8, f"{PP} 4 {FIRST} $(choose)")),
    ("PAR105", sft(8, f"{PP} 4 {FIRST} 6 --account_for_loss_in_pipeline_split false")),
    ("PAR106", sft(8, f"{PP} 2 --account_for_loss_in_pipeline_split true --account_for_embedding_in_pipeline_split true")),
    ("PAR107", sft(8, f'{PP} 2 {LAYOUT} "Et*9|t*9|t*9|t*9L"')),
    ("PAR107", sft(8, f'{PP} 2 {LAYOUT} "$(choose)"')),
    ("PAR108", sft(8, f'{PP} 4 {LAYOUT} "Et*9|(t*9|)*2t*9L"')),
    ("PAR108", sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*18|t*18mL"')),
    ("PAR108", sft(8, f'{PP} 2 --mtp_num_layers 3 --mtp_shared_weights true {LAYOUT} "Et*18|t*18mL"')),
    ("PAR108", sft(8, f'{PP} 2 {LAYOUT} "Et*4|t*4L"', "--model /models/unknown --dataset d.jsonl --num_train_epochs 1")),
    ("PAR109", sft(8, f'{PP} 2 {VPP} 2 {LAYOUT} "Et*9|t*9|t*9|t*9L"')),
    ("PAR110", sft(8, f"{PP} 4 {VPP} 3 --global_batch_size 8")),
    ("PAR110", sft(8, f"{PP} 4 --global_batch_size 2")),
    ("PAR111", sft(8, f"{PP} 4 --global_batch_size 8")),
    ("PAR111", sft(8, f"{PP} 2 --global_batch_size 4")),
]  # fmt: skip


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


@pytest.mark.parametrize(("code", "script"), HITS)
def test_found(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script))


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_not_found(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script))


def the(check: Checker, code: str, script: str) -> Finding:
    return next(finding for finding in check(script) if finding.code == code)


def advice(finding: Finding) -> str:
    assert finding.fix is not None
    return finding.fix.description


def test_missing_process_count_is_named(check: Checker) -> None:
    finding = the(check, "PAR001", f"megatron sft {MOE} {TP} 2 {EP} 8 --sequence_parallel true")
    assert advice(finding) == "NPROC_PER_NODE=8"  # 8 experts groups and 2 tensor ranks both fit 8
    assert advice(the(check, "PAR001", f"megatron sft {DENSE} {TP} 8 {PP} 2")).startswith("start 16 processes")


def test_advice_holds(check: Checker) -> None:
    uneven = advice(the(check, "PAR102", sft(8, f"{PP} 8")))
    assert f"{FIRST} 3 {LAST} 3" in uneven  # 3 + 6 × 5 + 3 = 36
    assert not {"PAR102", "PAR104"} & codes(check(sft(8, f"{PP} 8 {FIRST} 3 {LAST} 3")))
    moved = advice(the(check, "PAR108", sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*18|t*16|tt|mL"')))
    assert "stage 3 `t` instead of `tt`, stage 4 `tmL`" in moved
    assert "PAR108" not in codes(check(sft(8, f'{PP} 2 --mtp_num_layers 1 {LAYOUT} "Et*18|t*16|t|tmL"')))


def test_example_of_a_layout_fits(check: Checker) -> None:
    text = advice(the(check, "PAR108", sft(8, f'{PP} 8 {LAYOUT} "E|t|t|t|t|t|t|L"')))
    example = text.split("`")[1]
    assert not {"PAR107", "PAR108"} & codes(check(sft(8, f'{PP} 8 {LAYOUT} "{example}"')))


@pytest.mark.parametrize("version", ["3.12.6", "4.0.4", "4.6.0"])
def test_arithmetic_is_older_than_the_flags(check: Checker, version: str) -> None:
    script = f"NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset d.jsonl {TP} 3"
    assert "PAR001" in codes(check(script, version=version))
    assert ("PAR101" in codes(check(sft(8, f"{FIRST} 12"), version=version))) == (version != "3.12.6")
