"""The judge: what it says of commands whose verdict is known, and that nothing leaks or hangs."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance.client import Oracle

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Oracle.installed(), reason="needs `make conformance-install`"),
]

GRPO = "--rlhf_type grpo --model Qwen/Qwen3-8B --dataset d.jsonl --reward_funcs accuracy"
MEGATRON = "--model Qwen/Qwen3-30B-A3B --dataset d.jsonl --train_iters 2 --global_batch_size 64"
MOE = {"num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128, "hidden_size": 2048}
RAY = """
rlhf_type: grpo
model: Qwen/Qwen3-8B
dataset: d.jsonl
reward_funcs: [accuracy]
global_batch_size: 16
num_generations: 4
num_train_epochs: 1
colocate_groups: [[train, rollout]]
train: {gpus: 4, tensor_model_parallel_size: 2}
rollout: {gpus: 4, vllm_tensor_parallel_size: 2}
"""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as worker:
        yield worker


def ask(oracle: Oracle, route: str, argv: str, world: int = 1, **more: Any) -> dict[str, Any]:
    env = {"NPROC_PER_NODE": str(world)} if world > 1 else {}
    return oracle.ask({"route": route, "argv": argv.split(), "env": env, "world_size": world, "local_world_size": world, **more})


def test_accepts_and_derives(oracle: Oracle) -> None:
    answer = ask(oracle, "swift rlhf", f"{GRPO} --per_device_train_batch_size 4 --gradient_accumulation_steps 2", 8)
    assert (answer["argparse"], answer["post_init"]) == ("ok", "ok"), answer
    assert answer["derived"]["beta"] == 0.04
    assert answer["derived"]["model"] == "Qwen/Qwen3-8B", "a stand-in's path must not show"
    trainer = answer["derived"]["trainer"]
    assert (trainer["world_size"], trainer["generation_batch_size"], trainer["steps_per_generation"]) == (8, 64, 2)


@pytest.mark.parametrize(
    ("argv", "world", "where", "words"),
    [
        (f"{GRPO} --num_generations 3", 4, "args_mixin.py", "must be evenly divisible by num_generations (3)"),
        (f"{GRPO} --use_vllm true --num_generations 4", 4, "rlhf_args.py", "vllm_mode is required"),
        (
            "--rlhf_type ppo --model Qwen/Qwen3-8B --dataset d --padding_free true --attn_impl flash_attn",
            1,
            "rlhf_args.py",
            "does not support padding_free",
        ),
        ("--rlhf_type dpo --dataset d.jsonl", 1, "model_args.py", "Please set --model"),
        ("--rlhf_type dpo --model m --model_type nonsense --dataset d", 1, "model_meta.py", "'nonsense' not in"),
    ],
)
def test_refuses_as_ms_swift_does(oracle: Oracle, argv: str, world: int, where: str, words: str) -> None:
    answer = ask(oracle, "swift rlhf", argv, world)
    assert answer["post_init"] == "error", answer
    assert answer["where"].startswith(where)
    assert words in answer["post_message"]


def test_leftovers_do_not_hide_the_checks(oracle: Oracle) -> None:
    answer = ask(oracle, "swift rlhf", f"{GRPO} --train_type lora --num_generations 1")
    assert answer["remaining"] == ["--train_type", "lora"]
    assert answer["argparse"] == "error"
    assert "must be greater than 1" in answer["post_message"]


def test_parser_gives_up(oracle: Oracle) -> None:
    answer = ask(oracle, "swift rlhf", "--rlhf_type grpox")
    assert (answer["argparse"], answer["post_init"]) == ("error", "not-run")
    assert answer["message"].startswith("rlhf.py: error: argument --rlhf_type")


def test_device_map_and_server_mode(oracle: Oracle) -> None:
    cut = ask(oracle, "swift rlhf", f"{GRPO} --deepspeed zero2 --per_device_train_batch_size 8", devices=4)
    assert "not compatible with `device_map`" in cut["post_message"]
    served = ask(oracle, "swift rlhf", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host h --num_generations 4", 4)
    assert served["post_init"] == "ok", served
    uneven = ask(oracle, "swift rlhf", f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host h i --num_generations 4", 4)
    assert "must have same length" in uneven["post_message"]


@pytest.mark.parametrize(
    ("argv", "world", "stage", "words"),
    [
        ("--tensor_model_parallel_size 3", 8, "post_init", "not divisible by 3"),
        ("--moe_token_dispatcher_type allgather", 8, "model config", "does not support variable sequence length"),
        ("--pipeline_model_parallel_size 4 --virtual_pipeline_model_parallel_size 5", 8, "model build", "should be divisible by vp_size 5"),
        ("--tensor_model_parallel_size 4", 8, "first step", "sequence parallel"),
    ],
)
def test_megatron(oracle: Oracle, argv: str, world: int, stage: str, words: str) -> None:
    answer = ask(oracle, "megatron sft", f"{MEGATRON} {argv}", world, shape=MOE)
    assert (answer["post_init"], answer["stage"]) == ("error", stage), answer
    assert words in answer["post_message"]


def test_megatron_fits(oracle: Oracle) -> None:
    argv = f"{MEGATRON} --tensor_model_parallel_size 4 --expert_model_parallel_size 8 --sequence_parallel true"
    answer = ask(oracle, "megatron sft", argv, 8, shape=MOE)
    assert answer["post_init"] == "ok", answer
    assert answer["derived"]["data_parallel_size"] == 2


def test_ray_driver(oracle: Oracle) -> None:
    good = oracle.ask({"route": "ray", "yaml": RAY})
    assert good["post_init"] == "ok", good
    assert good["derived"]["rollout_replicas"] == 2
    assert good["derived"]["pools"] == {"train": [4], "rollout": [4]}
    bad = oracle.ask({"route": "ray", "yaml": RAY.replace("rollout: {gpus: 4", "rollout: {gpus: 2")})
    assert (bad["stage"], bad["exc"]) == ("yaml", "ValueError")
    few = oracle.ask({"route": "ray", "yaml": RAY, "rows": 1})
    assert few["stage"] == "iterations"


def test_device_groups(oracle: Oracle) -> None:
    groups = '{"nproc_per_node":4,"a":{"device":"CPU","ranks":2,"workers":["sampler","prm","orm"]},"b":{"device":"GPU","ranks":2,"workers":["x"]}}'
    answer = ask(oracle, "swift sample", f"--model Qwen/Qwen3-8B --dataset d --use_ray true --device_groups {groups}")
    assert (answer["stage"], answer["post_message"]) == ("ray", "'CPU'")


def test_configuration_file_and_plugin_of_the_request(oracle: Oracle) -> None:
    files = {
        "run.yaml": "rlhf_type: grpo\nmodel: Qwen/Qwen3-8B\ndataset: [d.jsonl]\nnum_generations: 4\nper_device_train_batch_size: 4\nexternal_plugins: [p.py]\n",
        "p.py": "raise RuntimeError('imported')\n",
    }
    answer = ask(oracle, "swift rlhf", "run.yaml", files=files)
    assert (answer["exc"], answer["post_message"]) == ("RuntimeError", "imported")
    assert ask(oracle, "swift rlhf", "run.yaml")["argparse"] == "error"


def test_requests_do_not_leak(oracle: Oracle) -> None:
    before = ask(oracle, "swift rlhf", f"{GRPO} --num_generations 2 --per_device_train_batch_size 2")
    ask(oracle, "swift rlhf", f"{GRPO} --fsdp fsdp2 --num_generations 4", 4)
    oracle.ask({"route": "swift rlhf", "argv": GRPO.split(), "env": {"USE_HF": "1", "SWIFT_SINGLE_DEVICE_MODE": "1"}})
    after = ask(oracle, "swift rlhf", f"{GRPO} --num_generations 2 --per_device_train_batch_size 2")
    for answer in (before, after):
        for name in ("seconds", "id"):
            answer.pop(name)
        answer["derived"].pop("training_args", None)
    assert {k: v for k, v in before.items() if k != "derived"} == {k: v for k, v in after.items() if k != "derived"}
    assert before["derived"]["use_hf"] == after["derived"]["use_hf"] is False
    assert before["derived"]["trainer"]["world_size"] == after["derived"]["trainer"]["world_size"] == 1


def test_a_request_that_overruns_is_a_crash_and_no_more(oracle: Oracle) -> None:
    answer = ask(oracle, "swift rlhf", GRPO, timeout=0.001)
    assert "no answer within" in answer["crash"]
    assert ask(oracle, "swift rlhf", f"{GRPO} --num_generations 1")["post_init"] == "error"


def test_a_killed_worker_is_replaced() -> None:
    with Oracle() as oracle:
        process = oracle._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert ask(oracle, "swift rlhf", GRPO)["post_init"] == "error"
        second = oracle._process
        assert second is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(second.pid, 0)


def test_unknown_route(oracle: Oracle) -> None:
    assert oracle.ask({"route": "swift grpo", "argv": []})["message"] == "KeyError: 'grpo'"
