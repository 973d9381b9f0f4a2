"""Layouts of Megatron-Ray configs, and device groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alula.facts import swift as facts
from alula.read.run import ReadOptions, load_source, read_source
from alula.swift.effective import View, view
from alula.swift.ray import RayPlan, device_groups, group_view, ray_plan

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
rlhf_type: gkd
model: Qwen/Qwen3-8B
dataset: d.jsonl
num_train_epochs: 1
global_batch_size: 64
vllm_tensor_parallel_size: 2
nnodes: 2
sleep_level: 2
colocate_groups: [[train, rollout]]
train: {gpus: 16, tensor_model_parallel_size: 4, micro_batch_size: 2}
rollout: {gpus: 16, vllm_tensor_parallel_size: 4, vllm_data_parallel_size: 2, model: null}
teacher: {gpus: 8, model: Qwen/Qwen3-32B}
"""


def read(folder: Path, text: str) -> View:
    path = folder / "ray.yaml"
    path.write_text(text)
    run = read_source(load_source(str(path)), ReadOptions(environ={}, cwd=folder))
    return view(run.jobs[0], 0, facts.load("4.6.0"))


def plan(folder: Path, text: str) -> RayPlan:
    made = ray_plan(read(folder, text))
    assert made is not None
    return made


def test_hybrid_layout(tmp_path: Path) -> None:
    made = plan(tmp_path, TEXT)
    assert made.hybrid
    assert made.pools == ((("train", "rollout"), 16), (("teacher",), 8))
    assert made.total == 24
    assert (made.replicas("rollout"), made.replicas("teacher")) == (2, 4)  # 16 / (4 × 2), 8 / (2 × 1): the shared size
    assert (made.nnodes, made.sleep_level) == (2, 1)


def test_separate_layout(tmp_path: Path) -> None:
    made = plan(tmp_path, TEXT.replace("colocate_groups: [[train, rollout]]\n", ""))
    assert not made.hybrid
    assert made.total == 40
    assert made.sleep_level == 0


def test_engines_that_do_not_fit_have_no_replicas(tmp_path: Path) -> None:
    assert plan(tmp_path, TEXT.replace("vllm_data_parallel_size: 2", "vllm_data_parallel_size: 3")).replicas("rollout") is None


def test_views_of_groups(tmp_path: Path) -> None:
    whole = read(tmp_path, TEXT)
    assert (whole.get("tensor_model_parallel_size"), whole.place.world_size) == (4, 16)
    rollout, teacher = group_view(whole, "rollout"), group_view(whole, "teacher")
    assert rollout is not None
    assert teacher is not None
    assert (rollout.get("vllm_tensor_parallel_size"), rollout.get("tensor_model_parallel_size")) == (4, 1)
    assert (teacher.get("model"), teacher.get("vllm_tensor_parallel_size"), teacher.get("global_batch_size")) == ("Qwen/Qwen3-32B", 2, 64)
    assert group_view(whole, "critic") is None


def test_device_groups_count_their_nodes() -> None:
    made = device_groups('{"nproc_per_node": 4, "a": {"device": "GPU", "ranks": 6, "workers": ["default"]}, "b": {"device": "gpu", "ranks": "list(range(6, 8))", "workers": "x"}}', ("default",))
    assert not made.faults
    assert made.nodes == 2
    assert [group.ranks for group in made.groups] == [tuple(range(6)), (6, 7)]


def test_an_expression_beyond_ranges_is_not_guessed() -> None:
    made = device_groups('{"nproc_per_node": 4, "a": {"device": "GPU", "ranks": "[i for i in range(3)]", "workers": ["default"]}}', ("default",))
    assert not made.faults
    assert made.nodes is None
