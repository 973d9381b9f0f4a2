"""Both Ray paths: what does not start, does not fit or is not read."""

from __future__ import annotations

import json

import pytest
import yaml

from alula.run.finding import Finding
from alula.run.job import Cluster

from .conftest import Checker

BASE: dict[str, object] = {
    "rlhf_type": "grpo", "model": "Qwen/Qwen3-8B", "dataset": "d.jsonl", "reward_funcs": ["accuracy"], "num_train_epochs": 1, "global_batch_size": 64,
    "colocate_groups": [["train", "rollout"]], "train": {"gpus": 8}, "rollout": {"gpus": 8},
}  # fmt: skip
GKD = {"rlhf_type": "gkd", "reward_funcs": None, "lmbda": 1, "gkd_logits_topk": 20}
TEACHER = {"gpus": 4, "model": "Qwen/Qwen3-32B"}
START = "megatron rlhf --use_ray true --config ray.yaml"


def config(**changes: object) -> str:
    """The base config with keys changed; None takes a key out."""
    return yaml.safe_dump({key: value for key, value in {**BASE, **changes}.items() if value is not None}, sort_keys=False)


SEPARATE: dict[str, object] = {"colocate_groups": None}
HITS = [
    ("RAY005", config(rlhf_type="dpo")),
    ("RAY005", config(rlhf_type=None)),
    ("RAY006", config(train={"tensor_model_parallel_size": 2}, **SEPARATE)),
    ("RAY006", config(train={"gpus": 0}, **SEPARATE)),
    ("RAY006", config(train={"gpus": "many"}, **SEPARATE)),
    ("RAY007", config(rollout={"gpus": 4})),
    ("RAY007", config(colocate_groups=["train", "rollout"])),
    ("RAY007", config(colocate_groups="train,rollout")),
    ("RAY007", config(colocate_groups=[["train", "actor"]])),
    ("RAY007", config(colocate_groups=[["train", "rollout"], ["rollout", "teacher"]], teacher=TEACHER)),
    ("RAY007", config(colocate_groups=[["train", "rollout", "teacher"]])),
    ("RAY008", config(nnodes=3)),
    ("RAY009", config(rollout={"gpus": 6, "vllm_tensor_parallel_size": 4}, **SEPARATE)),
    ("RAY009", config(rollout={"gpus": 8, "vllm_tensor_parallel_size": 4, "vllm_data_parallel_size": 4})),
    ("RAY009", config(vllm_tensor_parallel_size=16)),  # from the top level
    ("RAY009", config(teacher={"gpus": 2, "model": "m", "vllm_tensor_parallel_size": 4}, **GKD)),
    ("RAY010", config(rollout=None, **SEPARATE)),
    ("RAY011", config(num_train_epochs=None)),
    ("RAY011", config(streaming=True)),
    ("RAY011", config(num_train_epochs=0)),
    ("RAY012", config(num_generatons=16)),
    ("RAY012", config(rollout={"gpus": 8, "vllm_gpu_memory_utilisation": 0.5})),
    ("RAY012", config(gpus=8)),
    ("RAY012", config(rollouts={"gpus": 8})),
    ("RAY013", config(vllm_mode="colocate", **SEPARATE)),
    ("RAY013", config(vllm_mode="server")),
    ("RAY014", config(train={"gpus": 8, "vllm_max_model_len": 4096})),
    ("RAY014", config(rollout={"gpus": 8, "sleep_level": 1})),
    ("RAY014", config(rollout={"gpus": 8, "lr": 1e-6})),
    ("RAY015", config(val_dataset="v.jsonl")),
    ("RAY015", config(split_dataset_ratio=0.1)),
    ("RAY016", config(teacher=TEACHER, **{**GKD, "lmbda": None})),
    ("RAY016", config(teacher=TEACHER, **{**GKD, "gkd_logits_topk": 64})),
    ("RAY016", config(teacher=TEACHER, **{**GKD, "gkd_logits_topk": None})),
    ("RAY016", config(teacher={"gpus": 4}, **GKD)),
    ("RAY016", config(teacher=TEACHER, context_parallel_size=2, **GKD)),
    ("RAY016", config(teacher=TEACHER)),
    ("RAY017", config(teacher_model_server="http://10.0.0.9:8000", **GKD)),
    ("RAY018", config(router_replay_mode="R2")),
    ("RAY019", config(ENV={"MAX_PIXELS": "1000000"})),
    ("RAY022", config(nnodes=2)),
    ("PAR001", config(train={"gpus": 8, "tensor_model_parallel_size": 3})),
]  # fmt: skip

SILENT = [
    ("RAY005", config()),
    ("RAY006", config()),
    ("RAY007", config(**SEPARATE)),
    ("RAY007", config(colocate_groups=[])),
    ("RAY007", config(colocate_groups=[["train", "rollout", "teacher"]], teacher={"gpus": 8, "model": "m"}, **GKD)),
    ("RAY008", config(nnodes=2)),
    ("RAY009", config(rollout={"gpus": 8, "vllm_tensor_parallel_size": 4, "vllm_data_parallel_size": 2})),
    ("RAY009", config(vllm_tensor_parallel_size=16, rollout={"gpus": 8, "vllm_tensor_parallel_size": 2})),  # its own wins
    ("RAY010", config(rollout=None, colocate_groups=None, **{**GKD, "lmbda": 0})),
    ("RAY011", config(num_train_epochs=None, train_iters=100)),
    ("RAY011", config(streaming=True, train_iters=100)),
    ("RAY012", config(use_ray=True, sleep_level=1, nnodes=1)),
    ("RAY012", config(rollout={"gpus": 8, "vllm_data_parallel_size": 2})),
    ("RAY012", config(num_train_epoch=1)),  # argparse's business
    ("RAY013", config(vllm_mode="colocate")),
    ("RAY013", config(**SEPARATE)),
    ("RAY014", config(rollout={"gpus": 8, "vllm_max_model_len": 4096, "model": "m"})),
    ("RAY014", config(vllm_max_model_len=4096)),
    ("RAY015", config(split_dataset_ratio=0)),
    ("RAY016", config(teacher=TEACHER, **GKD)),
    ("RAY016", config(teacher={**TEACHER, "vllm_engine_kwargs": {"max_logprobs": 64}}, **{**GKD, "gkd_logits_topk": 64})),
    ("RAY017", config(teacher_model="Qwen/Qwen3-32B", **GKD)),
    ("RAY018", config(router_replay_mode="R3")),
    ("RAY022", config()),
]  # fmt: skip


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


@pytest.mark.parametrize(("code", "text"), HITS)
def test_config_found(check: Checker, code: str, text: str) -> None:
    assert code in codes(check(text, name="ray.yaml"))


@pytest.mark.parametrize(("code", "text"), SILENT)
def test_config_not_found(check: Checker, code: str, text: str) -> None:
    assert code not in codes(check(text, name="ray.yaml"))


def test_a_sound_config_is_clean(check: Checker) -> None:
    assert not check(config(), name="ray.yaml")
    assert not check(START, {"ray.yaml": config()})
    assert not check(config(teacher=TEACHER, **GKD), name="ray.yaml")


START_HITS = [
    ("RAY001", "megatron rlhf --use_ray true"),
    ("RAY001", "megatron rlhf ray.yaml --use_ray"),
    ("RAY002", "megatron rlhf --use_ray=true --config ray.yaml"),
    ("RAY002", "megatron rlhf --use-ray true --config ray.yaml"),
    ("RAY003", START + " --num_generations 16"),
    ("RAY004", "NPROC_PER_NODE=8 " + START),
    ("RAY004", "NNODES=2 " + START),
    ("RAY020", "megatron rlhf ray.yaml"),
    ("RAY020", "megatron rlhf --config ray.yaml"),
    ("RAY021", "CUDA_VISIBLE_DEVICES=0,1,2,3 " + START),
]
START_SILENT = [
    ("RAY001", START),
    ("RAY001", "megatron rlhf --use_ray false --rlhf_type dpo"),
    ("RAY002", START),
    ("RAY003", START),
    ("RAY004", START),
    ("RAY004", "NPROC_PER_NODE=1 " + START),
    ("RAY020", START),
    ("RAY020", "megatron rlhf --config missing.yaml"),
    ("RAY021", "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 " + START),
    ("RAY021", START),
]


@pytest.mark.parametrize(("code", "script"), START_HITS)
def test_start_found(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script, {"ray.yaml": config()}))


@pytest.mark.parametrize(("code", "script"), START_SILENT)
def test_start_not_found(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script, {"ray.yaml": config()}))


@pytest.mark.parametrize(
    ("cluster", "found"),
    [(Cluster(None, 8, 1), False), (Cluster(None, 4, 2), True), (Cluster(None, 4, 1), True), (Cluster(None, 16, 1), False)],
)
def test_pools_against_the_machines(check: Checker, cluster: Cluster, found: bool) -> None:
    assert ("RAY021" in codes(check(config(), name="ray.yaml", cluster=cluster))) == found


def test_separate_pools_add_up(check: Checker) -> None:
    finding = next(f for f in check(config(**SEPARATE), name="ray.yaml", cluster=Cluster(None, 8, 1)) if f.code == "RAY021")
    assert "train 8 + rollout 8 = 16" in finding.message


def test_engine_message_has_relation_and_choices(check: Checker) -> None:
    text = config(rollout={"gpus": 6, "vllm_tensor_parallel_size": 4}, **SEPARATE)
    finding = next(f for f in check(text, name="ray.yaml") if f.code == "RAY009")
    assert "4 × vllm_data_parallel_size 1 = 4 GPUs" in finding.message
    assert finding.fix is not None
    assert "1, 2, 3, 6" in finding.fix.description


def test_ray_start_in_the_script_counts(check: Checker) -> None:
    script = f"ray start --head --num-gpus 8\n{START}"
    assert "RAY022" not in codes(check(script, {"ray.yaml": config(nnodes=2)}))


# --- device_groups ---


def groups(**parts: object) -> str:
    return json.dumps({"nproc_per_node": 4, "g": {"device": "GPU", "ranks": 4, "workers": ["default"]}, **parts})


def sft(text: str, switch: str = "--use_ray true") -> str:
    return f"swift sft --model Qwen/Qwen3-8B --tuner_type lora --dataset d.jsonl {switch} --device_groups '{text}'"


def group(ranks: object = 4, device: str = "GPU", workers: object = ("default",)) -> dict[str, object]:
    return {"device": device, "ranks": ranks, "workers": list(workers) if isinstance(workers, tuple) else workers}


REFUSED = [
    groups(nproc_per_node=0),
    groups(g={"device": "GPU", "ranks": 4}),
    groups(g=group(device="CUDA")),
    groups(g=group(workers=("sampler",))),
    groups(g=group(0)),
    groups(g=group([4, 5])),  # a gap: two ranks make one node, rank 4 lies on the second
    groups(h=group([3, 4], workers=("x",))),  # rank 3 twice
    groups(g=group(4, "CPU"), h=group(2, workers=("x",))),
    groups(h=group(2, "NPU", ("x",))),
    json.dumps({"g": group()}),
    "[1]",
    "{",
]
ACCEPTED = [
    groups(),
    groups(g=group("list(range(0, 4))")),
    groups(g=group("[0, 1]")),
    groups(g=group([0, 1]), h=group(2, workers=("x",))),
    groups(g=group("4")),
    groups(g=group("sorted({1})")),  # cannot be worked out
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_device_groups_refused(check: Checker, text: str) -> None:
    assert "RAY102" in codes(check(sft(text)))


@pytest.mark.parametrize("text", ACCEPTED)
def test_device_groups_accepted(check: Checker, text: str) -> None:
    assert not {"RAY101", "RAY102"} & codes(check(sft(text)))


def test_sample_needs_its_three_roles(check: Checker) -> None:
    def sample(*workers: str) -> set[str]:
        text = json.dumps({"nproc_per_node": 4, "g": group(workers=workers)})
        return codes(
            check(f"swift sample --model Qwen/Qwen3-8B --dataset d.jsonl --orm_model math --use_ray true --device_groups '{text}'")
        )

    assert "RAY102" in sample("sampler", "prm")
    assert "RAY102" not in sample("sampler", "prm", "orm")


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("RAY101", "swift sft --model Qwen/Qwen3-8B --dataset d.jsonl --use_ray true"),
        ("RAY103", "CUDA_VISIBLE_DEVICES=0,1 " + sft(groups())),
        ("RAY104", sft("{bad", "")),
        ("RAY105", "swift pt --model Qwen/Qwen3-8B --dataset d.jsonl --use_ray true"),
        ("RAY106", sft(groups(), "--use_ray")),
        ("RAY004", "NPROC_PER_NODE=4 " + sft(groups())),
    ],
)
def test_device_group_commands(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script))


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("RAY101", "swift sft --model Qwen/Qwen3-8B --dataset d.jsonl"),
        ("RAY101", "swift sft --model Qwen/Qwen3-8B --dataset d.jsonl --use_ray true $(groups)"),
        ("RAY102", sft(groups(g=group(workers=("x",))), "")),  # not used
        ("RAY103", "CUDA_VISIBLE_DEVICES=0,1,2,3 " + sft(groups())),
        ("RAY104", sft(groups(), "")),
        ("RAY106", sft(groups())),
    ],
)
def test_device_group_commands_not_found(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script))


@pytest.mark.parametrize(
    ("words", "driver"),
    [
        ("--use_ray", True),
        ("--use_ray true", True),
        ("--use_ray True", True),
        ("--use_ray false", False),
        ("--use_ray FALSE", False),
        ("", False),
    ],
)
def test_use_ray_starts_the_driver_unless_false(check: Checker, words: str, driver: bool) -> None:
    script = f"megatron rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset d.jsonl --num_train_epochs 1 {words}"
    assert ("RAY001" in codes(check(script))) == driver
