"""Processes, devices and ms-swift's arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.facts import swift as facts
from alula.read.run import ReadOptions, read_command
from alula.run.job import Cluster
from alula.swift.arithmetic import data_parallel, divisors, generation, nearest_multiples
from alula.swift.effective import View, view
from alula.swift.summary import gpu_map, summary

FACTS = facts.load("4.6.0")


def see(command: str, cluster: Cluster | None = None) -> View:
    run = read_command(command.split(), ReadOptions(environ={}, cluster=cluster or Cluster()))
    return view(run.jobs[0], 0, FACTS, run.cluster)


# command, world size, processes a node, nodes, device_map, uneven
PLACES = [
    ("swift rlhf --rlhf_type dpo", 1, 1, 1, None, False),
    ("CUDA_VISIBLE_DEVICES=0,1 swift rlhf --rlhf_type dpo", 1, 1, 1, True, False),
    ("CUDA_VISIBLE_DEVICES=0,1 SWIFT_SINGLE_DEVICE_MODE=1 swift rlhf --rlhf_type dpo", 1, 1, 1, False, False),
    ("NPROC_PER_NODE=4 CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft", 4, 4, 1, False, False),
    ("NPROC_PER_NODE=3 CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft", 3, 3, 1, False, True),
    ("NNODES=2 NPROC_PER_NODE=8 swift sft", 16, 8, 2, None, False),
    ("NNODES=2 swift sft", 2, 1, 2, None, False),
    ("NPROC_PER_NODE=8 swift rollout --model M", 1, 1, 1, None, False),
    ("NPROC_PER_NODE=8 megatron sft", 8, 8, 1, None, False),
    ("torchrun --nproc_per_node=4 --nnodes 2 -m swift.cli.rlhf --rlhf_type dpo", 8, 4, 2, None, False),
    ("python -m torch.distributed.run --nproc-per-node 4 swift/cli/_megatron/rlhf.py --rlhf_type dpo", 4, 4, 1, None, False),
    ("accelerate launch --num_processes 8 --num_machines 2 swift/cli/rlhf.py --rlhf_type dpo", 8, 4, 2, None, False),
    ("deepspeed --num_gpus=2 swift/cli/sft.py --model M", 2, 2, 1, None, False),
    ("python -m swift.cli.rlhf --rlhf_type dpo", 1, 1, 1, None, False),
    ("MASTER_PORT=1 swift sft", 1, 1, 1, None, False),
]


@pytest.mark.parametrize(("command", "world", "local", "nodes", "device_map", "uneven"), PLACES)
def test_placement(command: str, world: int, local: int, nodes: int, device_map: bool | None, uneven: bool) -> None:
    place = see(command).place
    assert (place.world_size, place.local_world_size, place.nnodes, place.device_map, place.uneven) == (world, local, nodes, device_map, uneven)


def test_the_cluster_says_how_many_devices_a_process_sees() -> None:
    assert see("swift sft", Cluster(gpus_per_node=8)).place.device_map is True


def test_unknown_counts_stay_unknown() -> None:
    place = see("NPROC_PER_NODE=gpu swift sft").place
    assert place.world_size is None


@given(st.integers(1, 64), st.integers(1, 16), st.none() | st.integers(1, 512), st.none() | st.integers(1, 32))
def test_generation_follows_ms_swift(micro: int, accumulation: int, size: int | None, steps: int | None) -> None:
    made = generation(micro, accumulation, size, steps)
    if size is None:
        assert made.generation_batch_size == micro * (accumulation if steps is None else steps)
    if made.conflict is None:
        assert made.generation_batch_size == made.micro_global * made.steps_per_generation
        assert made.steps_per_generation > 0
    elif made.conflict == "not-multiple":
        assert size is not None
        assert size % micro
    elif made.conflict == "mismatch":
        assert size != micro * (steps or 0)


@given(st.integers(1, 5000))
def test_divisors_are_all_and_only_the_divisors(number: int) -> None:
    assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


@given(st.integers(0, 10_000), st.integers(1, 500))
def test_nearest_multiples_enclose(number: int, step: int) -> None:
    values = nearest_multiples(number, step)
    assert values
    assert all(value % step == 0 and value > 0 for value in values)
    assert values[-1] > number >= (values[0] if len(values) == 2 else 0)


@pytest.mark.parametrize(("world", "sizes", "expected"), [(16, (2, 2, 1), 4), (8, (3, 1, 1), None), (8, (8, 1, 1), 1), (4, (8, 1, 1), None)])
def test_data_parallel(world: int, sizes: tuple[int, int, int], expected: int | None) -> None:
    assert data_parallel(world, *sizes) == expected


SUMMARIES = [
    (
        "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --per_device_train_batch_size 4 --gradient_accumulation_steps 2",
        {"completions_per_step": 64, "generation_batch_size": 64, "prompts_per_rollout": 8, "steps_per_rollout": 1, "on_policy": True},
    ),
    (
        "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --steps_per_generation 4 --num_iterations 2",
        {"generation_batch_size": 32, "prompts_per_rollout": 4, "steps_per_rollout": 8, "on_policy": False},
    ),
    ("NPROC_PER_NODE=4 swift rlhf --rlhf_type dpo", {"gradient_accumulation_steps": 4, "samples_per_step": 16}),
    (
        "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --tensor_model_parallel_size 2 --global_batch_size 32 --micro_batch_size 1",
        {"data_parallel": 4, "prompts_per_rollout": 4, "num_microbatches": 8, "completions_per_step": 32},
    ),
    ("CUDA_VISIBLE_DEVICES=0,1 swift rollout --vllm_tensor_parallel_size 2", {"gpus": 2, "tensor_parallel": 2}),
]


@pytest.mark.parametrize(("command", "expected"), SUMMARIES)
def test_summary(command: str, expected: dict[str, object]) -> None:
    numbers = summary(see(command))
    assert {name: numbers.get(name) for name in expected} == expected


def test_gpu_map_shows_a_shared_card() -> None:
    server = see("CUDA_VISIBLE_DEVICES=6,7 swift rollout --vllm_tensor_parallel_size 2")
    run = read_command("CUDA_VISIBLE_DEVICES=0,6 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo".split(), ReadOptions(environ={}))
    trainer = view(run.jobs[0], 1, FACTS)
    assert {place["device"]: place["jobs"] for place in gpu_map([server, trainer])} == {"0": [1], "6": [0, 1], "7": [0]}
