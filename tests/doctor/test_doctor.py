"""Needs of runs, judgements over what is found, and the verb end to end."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from click.testing import CliRunner

from alula.cli.doctor import command
from alula.doctor.gather import gather
from alula.doctor.judge import judge, summary
from alula.doctor.needs import needs
from alula.facts import swift as facts
from alula.facts.backends import backends
from alula.read.run import ReadOptions, read_command
from alula.rules.engine import views_of

FACTS = facts.load("4.6.0")


def needed(line: str) -> dict[str, str]:
    run = read_command(line.split(), ReadOptions(environ={}))
    return dict(needs(views_of(run, FACTS)[0]))


# command, backends it needs beyond the core, backends it does not need
NEEDS = [
    ("swift sft --model M --tuner_type lora", {"peft"}, {"vllm", "trl", "deepspeed", "megatron-core"}),
    ("swift rlhf --rlhf_type dpo --tuner_type full --deepspeed zero3", {"trl", "deepspeed"}, {"vllm", "msgspec", "peft"}),
    ("swift rlhf --rlhf_type grpo --use_vllm true --vllm_mode colocate --reward_funcs accuracy", {"vllm", "msgspec", "math_verify", "trl"}, {"ray"}),
    ("swift rlhf --rlhf_type grpo --reward_funcs format", {"msgspec"}, {"vllm", "math_verify"}),
    ("swift rlhf --rlhf_type grpo --use_liger_kernel true --attn_impl flash_attn", {"liger-kernel", "flash-attn"}, set()),
    ("swift rollout --model M", {"vllm"}, {"trl"}),
    ("megatron rlhf --rlhf_type dpo", {"megatron-core", "mcore-bridge", "transformer-engine"}, {"trl", "deepspeed", "vllm"}),
    ("swift sample --sampler_engine lmdeploy", {"lmdeploy"}, {"vllm"}),
    ("swift eval --model M", {"evalscope"}, {"vllm"}),
    ("swift export --model M --quant_method awq", {"autoawq"}, {"gptqmodel"}),
    ("swift sft --use_ray true --report_to swanlab wandb", {"ray", "swanlab", "wandb"}, {"pyzmq"}),
]


@pytest.mark.parametrize(("line", "wanted", "unwanted"), NEEDS)
def test_needs(line: str, wanted: set[str], unwanted: set[str]) -> None:
    found = set(needed(line))
    assert wanted <= found
    assert not unwanted & found


def test_every_need_is_a_known_backend() -> None:
    names = {backend.name for backend in backends()}
    assert all(set(needed(line)) <= names for line, _, _ in NEEDS)


def machine(**versions: str) -> dict[str, Any]:
    return {
        "versions": {name.replace("_", "-"): version for name, version in versions.items()}, "modules": {}, "swift_routes": ["swift rlhf"],
        "devices": {"nvidia": 0, "ascend": 0, "driver": ""},
    }  # fmt: skip


# what is installed, what is needed, backend, status
JUDGED = [
    ({}, {"vllm": "--use_vllm"}, "vllm", "missing"),
    ({}, {}, "vllm", "not-needed"),
    ({"vllm": "0.11.0"}, {}, "vllm", "ok"),
    ({"trl": "0.24.0"}, {"trl": "--rlhf_type grpo"}, "trl", "old"),
    ({"trl": "0.24.0"}, {"trl": "--rlhf_type dpo"}, "trl", "ok"),
    ({"trl": "1.2"}, {"trl": "--rlhf_type dpo"}, "trl", "conflict"),
    ({"transformers": "5.30.0"}, {}, "transformers", "conflict"),
    ({"torch": "2.8.0+cu128"}, {"torch": "x"}, "torch", "ok"),
    ({"liger-kernel": "0.6.2"}, {"liger-kernel": "--rlhf_type grpo"}, "liger-kernel", "old"),
    ({"ray": "broken: ValueError"}, {"ray": "--use_ray"}, "ray", "broken"),
]


@pytest.mark.parametrize(("installed", "asked", "name", "status"), JUDGED)
def test_judged(installed: dict[str, str], asked: dict[str, str], name: str, status: str) -> None:
    found = machine()
    found["versions"] = installed
    probe = next(p for p in judge(found, asked, FACTS) if p.name == name)
    assert probe.status == status
    assert probe.fix or status in ("ok", "not-needed")


def test_gather_imports_nothing_heavy() -> None:
    before = set(sys.modules)
    found = gather(["click", "ms-swift"], ["click", "torch"])
    assert found["versions"]["click"]
    assert not {"torch", "transformers", "swift"} & (set(sys.modules) - before)


def test_verb_reports_json_and_exit_code() -> None:
    result = CliRunner().invoke(command, ["--for", "swift rollout", "--format", "json"], standalone_mode=False)
    data = json.loads(result.output)
    probe = {p["name"]: p for p in data["probes"]}["vllm"]
    assert set(probe) == {"name", "status", "version", "needed_by", "detail", "fix"}
    assert data["summary"] == summary(judge(gather([], []), {}, FACTS)) | data["summary"]
    assert result.return_value == (1 if any(p["status"] in ("missing", "old", "conflict", "broken") for p in data["probes"] if p["name"] != "cuda") else 0)


def test_verb_looks_into_another_interpreter() -> None:
    result = CliRunner().invoke(command, ["--python", sys.executable, "--format", "json"], standalone_mode=False)
    assert json.loads(result.output)["python"].startswith(f"{sys.version_info[0]}.{sys.version_info[1]}")


def test_verb_refuses_what_is_no_interpreter() -> None:
    result = CliRunner().invoke(command, ["--python", "/nonexistent"])
    assert result.exit_code == 2
    assert "cannot be run" in result.output
