"""Exports, conversions and inference."""

from __future__ import annotations

from pathlib import Path

import pytest

from alula.run.finding import Finding

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B"
TP = "--tensor_model_parallel_size 2"

HITS = [
    ("EXP001", f"swift export {MODEL} --quant_bits 4"),
    ("EXP001", f"swift export {MODEL} --dataset d --quant_method awq"),
    ("EXP001", "swift merge-lora --adapters a --quant_bits 4"),
    ("EXP002", f"swift export {MODEL} --quant_method gptq --quant_bits 4"),
    ("EXP002", f"swift export {MODEL} --quant_method gptq_v2 --quant_bits 4"),
    ("EXP003", f"swift export {MODEL} --dataset d --to_cached_dataset true --streaming true"),
    ("EXP005", "swift export --adapters a --merge_lora true --dataset d --quant_method gptq --quant_bits 4"),
    ("EXP006", "swift export --model zai-org/GLM-4.5-Air --dataset d --quant_method awq --quant_bits 4"),
    ("EXP007", f"swift export {MODEL}"),
    ("EXP007", "swift export --adapters a --merge_lora false"),
    ("EXP008", f"swift export {MODEL} --to_mcore true --merge_lora true"),
    ("EXP009", f"swift merge-lora {MODEL}"),
    ("EXP101", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP}"),
    ("EXP101", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --output_dir out/x"),
    ("EXP101", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --to_mcore true"),
    ("EXP102", f"NPROC_PER_NODE=8 NNODES=8 NODE_RANK=0 MASTER_ADDR=10.0.0.1 megatron export {MODEL} {TP} --to_mcore true"),
    ("EXP102", f"NPROC_PER_NODE=6 megatron export {MODEL} --to_mcore true"),
    ("EXP103", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --mcore_adapter out/v0/checkpoint-12"),
    ("EXP103", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --adapter_load out/v0/checkpoint-12/"),
    ("EXP104", "swift export --model deepseek-ai/DeepSeek-V3 --to_mcore true"),
    ("EXP104", f"NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3.5-35B-A3B {TP} --to_hf true"),
    ("EXP105", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --fp8_format e4m3 --test_convert_precision true"),
    ("EXP201", f"NPROC_PER_NODE=2 swift infer {MODEL}"),
    ("EXP201", f"NPROC_PER_NODE=2 swift infer {MODEL} --dataset d --split_dataset_ratio 0"),
    ("EXP201", f"NPROC_PER_NODE=2 swift infer {MODEL} --val_dataset v --stream true"),
    ("EXP202", "swift infer --model x --task_type seq_cls --infer_backend vllm --vllm_use_async_engine false"),
]  # fmt: skip

SILENT = [
    ("EXP001", f"swift export {MODEL} --quant_method fp8"),
    ("EXP001", f"swift export {MODEL} --quant_method bnb --quant_bits 4"),
    ("EXP002", f"swift export {MODEL} --quant_method bnb --quant_bits 4"),
    ("EXP002", "swift export --adapters a --load_data_args true --quant_method gptq --quant_bits 4"),
    ("EXP003", f"swift export {MODEL} --dataset d --to_cached_dataset true"),
    ("EXP004", "swift export --adapters a --merge_lora true --dataset d --quant_method gptq --quant_bits 4"),
    ("EXP005", "swift export --adapters a --merge_lora true"),
    ("EXP006", "swift export --model Qwen/Qwen3-30B-A3B --dataset d --quant_method awq --quant_bits 4"),
    ("EXP006", "swift export --model /models/mine --dataset d --quant_method awq --quant_bits 4"),
    ("EXP007", f"swift export {MODEL} --push_to_hub true --hub_model_id me/x"),
    ("EXP008", f"swift export {MODEL} --to_mcore true"),
    ("EXP009", "swift merge-lora --adapters a"),
    ("EXP101", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true"),
    ("EXP101", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf $(choose)"),
    ("EXP102", f"NPROC_PER_NODE=8 megatron export {MODEL} --to_mcore true"),
    ("EXP103", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --mcore_adapter out/v0-mcore"),
    ("EXP103", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_mcore true --mcore_adapter out/v0/checkpoint-12"),
    ("EXP104", f"NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3.5-35B-A3B {TP} --to_hf true --mtp_num_layers 1"),
    ("EXP104", f"NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3.5-35B-A3B {TP} --to_hf true --save_missing_weights true"),
    ("EXP104", f"swift export {MODEL} --to_mcore true"),
    ("EXP105", f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_hf true --test_convert_precision true"),
    ("EXP106", f"swift export {MODEL} --quant_method fp8 --output_dir not/there"),
    ("EXP201", f"swift infer {MODEL}"),
    ("EXP201", f"NPROC_PER_NODE=2 swift infer {MODEL} --val_dataset v"),
    ("EXP201", "NPROC_PER_NODE=2 swift infer --adapters a --load_data_args true"),
    ("EXP202", "swift infer --model x --task_type seq_cls --infer_backend vllm"),
    ("EXP202", "swift infer --model x --task_type seq_cls --vllm_use_async_engine false"),
    ("EXP202", "swift rollout --model x --task_type embedding --vllm_use_async_engine false"),  # the server takes its engine as it is told
]  # fmt: skip


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


@pytest.mark.parametrize(("code", "script"), HITS)
def test_found(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script))


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_not_found(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script))


def test_merging_and_quantising_before_4_5(check: Checker) -> None:
    script = "swift export --adapters a --merge_lora true --dataset d --quant_method gptq --quant_bits 4"
    found = {f.code: f.consequence for f in check(script, version="4.4.2")}
    assert found["EXP004"] == "wrong"
    assert "EXP005" not in found


def test_gptq_v2_is_not_refused_for_missing_data(check: Checker) -> None:
    by_method = {m: next(f for f in check(f"swift export {MODEL} --quant_method {m} --quant_bits 4") if f.code == "EXP002").consequence for m in ("gptq", "gptq_v2")}
    assert by_method == {"gptq": "refused", "gptq_v2": "wrong"}


def test_a_checkpoint_on_disk_decides(check: Checker, tmp_path: Path) -> None:
    script = f"NPROC_PER_NODE=2 megatron export {MODEL} {TP} --to_mcore true --mcore_adapter ckpt"
    folder = tmp_path / "ckpt"
    (folder / "iter_0000005").mkdir(parents=True)
    assert "EXP103" not in codes(check(script))  # nothing is known of it
    (folder / "adapter_config.json").write_text("{}")
    (folder / "iter_0000005" / "common.pt").write_bytes(b"")
    assert "EXP103" in codes(check(script))  # PEFT weights only
    (folder / "iter_0000005" / "__0_0.distcp").write_bytes(b"")
    assert "EXP103" not in codes(check(script))  # both


def test_an_output_folder_that_is_there(check: Checker, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    script = f"swift export {MODEL} --quant_method fp8 --output_dir out"
    assert "EXP106" in codes(check(script))
    assert "EXP106" not in codes(check(script + " --exist_ok true"))
