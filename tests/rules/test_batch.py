"""Batch arithmetic: what does not divide is found, with choices that do."""

from __future__ import annotations

import json
import re

import pytest

from alula.run.finding import Finding
from alula.run.job import Cluster

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
GRPO = f"swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"
GKD = f"swift rlhf --rlhf_type gkd {MODEL} --teacher_model Qwen/Qwen3-32B"
MEGATRON = f"megatron rlhf --rlhf_type grpo {MODEL} --num_train_epochs 1 --reward_funcs accuracy --use_vllm true --vllm_mode colocate"


def n(count: int) -> str:
    return f"NPROC_PER_NODE={count} "


HITS = [
    ("BAT001", n(7) + GRPO),
    ("BAT001", GRPO),  # one process, one completion
    ("BAT001", n(8) + f"{GRPO} --num_generations 6"),
    ("BAT001", n(4) + f"{GRPO} --steps_per_generation 3 --num_generations 8"),
    ("BAT001", n(8) + f"{GRPO} --generation_batch_size 24 --num_generations 16"),
    ("BAT001", "torchrun --nproc_per_node 6 -m swift.cli.rlhf " + GRPO.removeprefix("swift rlhf ")),
    ("BAT001", n(8) + f"{MEGATRON} --global_batch_size 16 --num_generations 12"),
    ("BAT002", n(8) + f"{GRPO} --generation_batch_size 20 --num_generations 4"),
    ("BAT002", n(8) + f"{GKD} --generation_batch_size 20"),
    ("BAT002", n(8) + f"{MEGATRON} --global_batch_size 64 --generation_batch_size 96"),
    ("BAT003", n(8) + f"{GRPO} --generation_batch_size 64 --steps_per_generation 2"),
    ("BAT003", n(8) + f"{MEGATRON} --global_batch_size 64 --generation_batch_size 64 --steps_per_generation 2"),
    ("BAT004", n(8) + f"{GRPO} --gradient_accumulation_steps 0"),
    ("BAT004", n(8) + f"{MEGATRON} --global_batch_size 64 --steps_per_generation 0"),
    ("BAT005", n(4) + f"{GRPO} --per_device_train_batch_size 2 --val_dataset v.jsonl"),
    ("BAT005", n(8) + f"{GRPO} --split_dataset_ratio 0.01 --num_generations_eval 3"),
    ("BAT006", n(8) + GRPO.replace("data.jsonl", "AI-MO/NuminaMath-TIR#7") + " --gradient_accumulation_steps 8"),
    ("BAT007", n(8) + f"{GRPO} --gradient_accumulation_steps 4 --steps_per_generation 6"),
    ("BAT008", n(8) + f"{GRPO} --num_iterations 2"),
    ("BAT008", n(8) + f"{MEGATRON} --global_batch_size 64 --steps_per_generation 2"),
    ("BAT009", n(8) + f"{GRPO} --val_dataset x/y#1 --per_device_eval_batch_size 2"),
    ("BAT010", n(4) + f"{GRPO} --per_device_train_batch_size 2 --per_device_eval_batch_size 1 --eval_strategy steps"),
    ("BAT101", n(6) + f"megatron sft {MODEL} --num_train_epochs 1 --global_batch_size 16 --micro_batch_size 2"),
    ("BAT101", n(8) + f"{MEGATRON} --global_batch_size 12 --num_generations 4"),
    ("BAT102", n(8) + f"megatron pt {MODEL} --num_train_epochs 1 --micro_batch_size 0"),
    ("BAT103", n(8) + f"{MEGATRON} --global_batch_size 16 --num_generations 16 --tensor_model_parallel_size 2"),
    ("BAT103", n(4) + f"{MEGATRON} --global_batch_size 32 --num_generations 8 --micro_batch_size 2"),
    ("BAT103", n(2) + f"megatron rlhf --rlhf_type gkd {MODEL} --num_train_epochs 1 --teacher_model Qwen/Qwen3-32B --vllm_mode colocate --global_batch_size 4 --micro_batch_size 4"),
    ("BAT104", n(8) + f"{MEGATRON} --num_generations 0"),
    ("BAT105", n(8) + f"{MEGATRON} --num_generations 1 --global_batch_size 64"),
    ("BAT106", n(8) + f"{MEGATRON} --loss_type real --global_batch_size 64"),
]  # fmt: skip

SILENT = [
    ("BAT001", n(8) + GRPO),
    ("BAT001", n(8) + f"{GRPO} --num_generations 1"),
    ("BAT001", "NPROC_PER_NODE=$(nvidia-smi -L | wc -l) " + GRPO),
    ("BAT001", n(7) + f"{GRPO} --num_generations $(pick)"),
    ("BAT001", n(7) + f"{GRPO} $(pick)"),
    ("BAT001", n(7) + GKD),
    ("BAT001", "NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 " + n(4) + GRPO),  # 8 processes
    ("BAT002", n(8) + f"{GRPO} --generation_batch_size 24 --num_generations 4"),
    ("BAT003", n(8) + f"{GRPO} --generation_batch_size 16 --steps_per_generation 2"),
    ("BAT004", n(8) + f"{GRPO} --gradient_accumulation_steps 0 --generation_batch_size 16"),
    ("BAT005", n(4) + f"{GRPO} --per_device_train_batch_size 2"),  # no validation data
    ("BAT005", n(4) + f"{GRPO} --per_device_train_batch_size 2 --val_dataset v.jsonl --save_strategy no"),
    ("BAT005", n(4) + f"{GRPO} --per_device_train_batch_size 2 --val_dataset v.jsonl --num_generations_eval 4"),
    ("BAT005", n(4) + f"{GKD} --val_dataset v.jsonl"),
    ("BAT006", n(8) + GRPO.replace("data.jsonl", "AI-MO/NuminaMath-TIR#8") + " --gradient_accumulation_steps 8"),
    ("BAT006", n(8) + GRPO.replace("data.jsonl", "AI-MO/NuminaMath-TIR") + " --gradient_accumulation_steps 8"),
    ("BAT007", n(8) + f"{GRPO} --gradient_accumulation_steps 4 --steps_per_generation 2"),
    ("BAT007", n(8) + f"{GRPO} --gradient_accumulation_steps 4 --steps_per_generation 8"),
    ("BAT008", n(8) + f"{GRPO} --gradient_accumulation_steps 4"),
    ("BAT009", n(8) + f"{GRPO} --val_dataset x/y#2 --per_device_eval_batch_size 2"),
    ("BAT010", n(4) + f"{GRPO} --per_device_train_batch_size 2 --eval_strategy steps"),
    ("BAT010", n(4) + f"{GRPO} --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --eval_strategy steps"),
    ("BAT101", n(6) + f"megatron sft {MODEL} --num_train_epochs 1 --global_batch_size 24 --micro_batch_size 2"),
    ("BAT101", n(6) + f"megatron sft {MODEL} --num_train_epochs 1 --tensor_model_parallel_size 4"),  # PAR001 says it
    ("BAT103", n(8) + f"{MEGATRON} --global_batch_size 64 --num_generations 8"),
    ("BAT103", n(8) + f"{MEGATRON} --global_batch_size 32 --num_generations 8 --tensor_model_parallel_size 2"),
    ("BAT103", n(8) + f"{MEGATRON} --global_batch_size 16 --steps_per_generation 4"),  # the rule is about the rollout, not the step
    ("BAT103", f"{MEGATRON} --global_batch_size $(pick)"),
    ("BAT105", n(8) + f"{MEGATRON} --num_generations 1 --global_batch_size 64 --teacher_model Qwen/Qwen3-32B"),
    ("BAT106", n(8) + f"{MEGATRON} --loss_type real --global_batch_size 64 --micro_batch_size 8"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "command"), HITS)
def test_hit(check: Checker, code: str, command: str) -> None:
    found = check(command + "\n")
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "command"), SILENT)
def test_silent(check: Checker, code: str, command: str) -> None:
    assert [f.message for f in check(command + "\n") if f.code == code] == []


def only(found: list[Finding], code: str) -> Finding:
    (finding,) = [f for f in found if f.code == code]
    return finding


def test_message_lists_what_would_divide(check: Checker) -> None:
    finding = only(check(n(7) + GRPO + "\n"), "BAT001")
    assert "7 completions" in finding.message
    assert "valid num_generations: 7;" in finding.message
    assert finding.fix is not None
    assert finding.fix.description == "--gradient_accumulation_steps 8"
    assert any("7 processes" in label for _, label in finding.related)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 7, 8])
@pytest.mark.parametrize("count", [3, 6, 8, 16])
@pytest.mark.parametrize("flag", ["", "--steps_per_generation 5", "--generation_batch_size 0"])
def test_the_fix_of_a_rollout_is_accepted(check: Checker, world: int, count: int, flag: str) -> None:
    """Whatever the numbers, the advised value makes the finding go away."""
    if flag.startswith("--generation"):
        flag = f"--generation_batch_size {world * 5}"
    command = n(world) + f"{GRPO} --num_generations {count} {flag}\n"
    found = [f for f in check(command) if f.code == "BAT001"]
    if not found:
        assert world * (5 if flag else 1) % count == 0
        return
    assert found[0].fix is not None
    name, value = found[0].fix.description.split()
    fixed = re.sub(rf"{name} \d+", f"{name} {value}", command) if name in command else command.replace("\n", f" {name} {value}\n")
    assert "BAT001" not in {f.code for f in check(fixed)}


def test_one_process_is_pointed_out(check: Checker) -> None:
    assert "NPROC_PER_NODE is not set" in only(check(GRPO + "\n"), "BAT001").message


def test_processes_from_the_cluster_do_not_count_without_a_launcher(check: Checker) -> None:
    assert "1 process" in only(check(GRPO + "\n", cluster=Cluster(gpus_per_node=1)), "BAT001").message


@pytest.mark.parametrize(("rows", "found"), [(7, True), (8, False)])
def test_rows_of_a_local_file(check: Checker, rows: int, found: bool) -> None:
    line = json.dumps({"messages": [{"role": "user", "content": "1 + 1?"}], "solution": "2"}) + "\n"
    command = n(8) + f"{GRPO} --gradient_accumulation_steps 8\n"
    assert ("BAT006" in {f.code for f in check(command, {"data.jsonl": line * rows})}) is found


def test_megatron_prompts_name_every_way_out(check: Checker) -> None:
    command = n(6) + f"{MEGATRON} --global_batch_size 48 --micro_batch_size 4 --num_generations 4\n"
    message = only(check(command), "BAT103").message
    for part in ("12 prompts", "2 for each of 6", "micro_batch_size 1 or 2", "global_batch_size 96"):
        assert part in message


@pytest.mark.parametrize(("version", "found"), [("4.0.4", True), ("4.3.2", True), ("4.4.2", False)])
def test_both_sizes_were_refused_before_4_4(check: Checker, version: str, found: bool) -> None:
    command = n(8) + f"{GRPO} --generation_batch_size 16 --steps_per_generation 2\n"
    assert ("BAT003" in {f.code for f in check(command, version=version)}) is found


RAY = """\
rlhf_type: grpo
model: Qwen/Qwen3-8B
dataset: [data.jsonl]
num_train_epochs: 1
{size}
num_generations: 8
micro_batch_size: 1
reward_funcs: [accuracy]
colocate_groups: [[train, rollout]]
train: {{gpus: 8, tensor_model_parallel_size: 2}}
rollout: {{gpus: 8, vllm_tensor_parallel_size: 4}}
"""


@pytest.mark.parametrize(
    ("size", "codes"),
    [("global_batch_size: 64", set()), ("save_steps: 10", {"BAT107"}), ("global_batch_size: 16", {"BAT103"}), ("global_batch_size: 60", {"BAT001"})],
)
def test_ray_driver(check: Checker, size: str, codes: set[str]) -> None:
    found = {f.code for f in check(RAY.format(size=size), name="run.yaml") if f.code.startswith("BAT")}
    assert codes <= found
    assert bool(found - {"BAT008"}) is bool(codes)
