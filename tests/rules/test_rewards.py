"""Rewards: names, weights, models, and what they need from the rows."""

from __future__ import annotations

import json

import pytest

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
GRPO = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL}"
MEGATRON = f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo {MODEL} --num_train_epochs 1 --global_batch_size 64 --vllm_mode colocate"
SERVER = f"{GRPO} --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5"
PLUGIN = """
from swift.rewards import ORM, orms

class Brief(ORM):
    def __call__(self, completions, {parameters}**kwargs):
        return [1.0 if len(c) < 80 else 0.0 for c in completions]

orms["brief"] = Brief
"""


def plugin(*parameters: str) -> str:
    return PLUGIN.format(parameters="".join(f"{p}, " for p in parameters))


HITS = [
    ("RWD001", f"{GRPO} --reward_funcs acuracy", {}),
    ("RWD001", f"{GRPO} --reward_funcs accuracy,format", {}),
    ("RWD001", f"{MEGATRON} --reward_funcs nothing_like_it", {}),
    ("RWD001", f"{GRPO} --reward_funcs short --external_plugins plugin.py", {"plugin.py": plugin()}),
    ("RWD002", f"{GRPO} --reward_funcs math", {}),
    ("RWD003", f"{GRPO} --reward_funcs accuracy format --reward_weights 1.0", {}),
    ("RWD003", f"{GRPO} --reward_funcs accuracy --reward_model Qwen/Qwen2.5-Math-RM-72B --reward_weights 1.0", {}),
    ("RWD003", f"{MEGATRON} --reward_funcs accuracy --reward_weights 1.0 0.5 0.5", {}),
    ("RWD003", f"{SERVER} --reward_funcs accuracy --reward_weights 1.0 0.5 0.5", {}),
    ("RWD003", f"{GRPO} --reward_funcs accuracy --use_vllm true --vllm_mode colocate --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 2 "
               "--reward_weights 1.0", {}),
    ("RWD004", f"{GRPO} --reward_model Qwen/Qwen2.5-Math-RM-72B --reward_model_plugin default genrm", {}),
    ("RWD004", f"{GRPO} --reward_funcs accuracy --reward_model_plugin genrm", {}),
    ("RWD005", f"{GRPO} --reward_model Qwen/Qwen3-4B --reward_model_plugin mine", {}),
    ("RWD006", f"{GRPO} --reward_model Qwen/Qwen2.5-Math-RM-72B --reward_template qwen2_5 qwen2_5", {}),
    ("RWD007", f"{GRPO} --reward_funcs soft_overlong --max_completion_length 1024 --soft_cache_length 1024", {}),
    ("RWD007", f"{GRPO} --reward_funcs soft_overlong --max_completion_length 1024 --soft_max_length 4096 --soft_cache_length 1024", {}),
    ("RWD007", f"{MEGATRON} --reward_funcs soft_overlong --max_completion_length 1024 --soft_cache_length 2048", {}),
    ("RWD008", f"{GRPO} --reward_funcs cosine --max_completion_length 4096 --cosine_max_len 2048", {}),
    ("RWD009", f"{GRPO} --reward_funcs accuracy accuracy", {}),
    ("RWD010", f"{GRPO} --reward_funcs accuracy --reward_model Qwen/Qwen2_5-3B-Instruct --reward_model_plugin genrm", {}),
    ("RWD010", "swift sample --model Qwen/Qwen2_5-3B-Instruct --dataset d --sampler_engine vllm", {}),
    ("RWD011", f"{GRPO} --reward_model Qwen/Qwen2.5-7B-Instruct", {}),
    ("RWD011", f"NPROC_PER_NODE=8 swift rlhf --rlhf_type ppo {MODEL} --reward_model Qwen/Qwen2.5-7B-Instruct", {}),
]  # fmt: skip

MISSES = [
    ("RWD001", f"{GRPO} --reward_funcs accuracy format cosine repetition soft_overlong --soft_cache_length 10", {}),
    ("RWD001", f"{GRPO} --reward_funcs brief --external_plugins plugin.py", {"plugin.py": plugin()}),
    ("RWD001", f"{GRPO} --reward_funcs mine --external_plugins elsewhere.py", {}),
    ("RWD001", f"{GRPO} --reward_funcs $(get_names)", {}),
    ("RWD001", f"{GRPO} --reward_funcs mine $(get_args)", {}),
    ("RWD001", f"NPROC_PER_NODE=8 swift rlhf --rlhf_type dpo {MODEL} --reward_funcs mine", {}),
    ("RWD001", f"{GRPO} --reward_funcs mine --external_plugins plugin.py", {"plugin.py": plugin() + "\nimport my_other_rewards\n"}),
    ("RWD002", f"{GRPO} --reward_funcs accuracy", {}),
    ("RWD002", f"{GRPO} --reward_funcs math --external_plugins plugin.py", {"plugin.py": plugin().replace("brief", "math")}),
    ("RWD003", f"{GRPO} --reward_funcs accuracy format --reward_weights 1.0 0.5", {}),
    ("RWD003", f"{SERVER} --reward_funcs accuracy --reward_weights 1.0 0.5", {}),
    ("RWD003", f"{GRPO} --reward_funcs accuracy --reward_weights $WEIGHTS", {}),
    ("RWD003", f"{MEGATRON} --reward_funcs accuracy --reward_model x --reward_weights 1.0", {}),
    ("RWD004", f"{GRPO} --reward_model a b --reward_model_plugin default genrm", {}),
    ("RWD005", f"{GRPO} --reward_model Qwen/Qwen3-4B --reward_model_plugin genrm", {}),
    ("RWD006", f"{GRPO} --reward_model a b --reward_model_type qwen2_reward qwen2_reward", {}),
    ("RWD007", f"{GRPO} --reward_funcs soft_overlong --max_completion_length 1024 --soft_cache_length 1023", {}),
    ("RWD007", f"{GRPO} --reward_funcs accuracy --max_completion_length 1024 --soft_cache_length 2048", {}),
    ("RWD008", f"{GRPO} --reward_funcs cosine --max_completion_length 2048", {}),
    ("RWD009", f"{GRPO} --reward_funcs accuracy format", {}),
    ("RWD010", f"{GRPO} --reward_funcs accuracy --reward_model someone/My_own-Reward", {}),
    ("RWD010", f"{GRPO} --reward_funcs accuracy --reward_model ./Qwen2_5-3B-Instruct", {}),
    ("RWD011", f"{GRPO} --reward_model Qwen/Qwen2.5-7B-Instruct --reward_model_plugin genrm", {}),
    ("RWD011", f"{GRPO} --reward_model Qwen/Qwen2.5-Math-RM-72B", {}),
    ("RWD011", f"{GRPO} --reward_model output/rm/checkpoint-100", {}),
    ("RWD011", f"{GRPO} --reward_model Qwen/Qwen2.5-7B-Instruct --reward_adapters rm-lora", {}),
]


@pytest.mark.parametrize(("code", "script", "files"), HITS)
def test_found(check: Checker, code: str, script: str, files: dict[str, str]) -> None:
    found = check(script, files)
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "script", "files"), MISSES)
def test_silent(check: Checker, code: str, script: str, files: dict[str, str]) -> None:
    assert code not in {f.code for f in check(script, files)}


def rows(*values: dict[str, object]) -> str:
    return "".join(json.dumps({"messages": [{"role": "user", "content": f"q{at}"}], **value}) + "\n" for at, value in enumerate(values))


COLUMN_HITS = [
    ("RWD020", "accuracy", {}, {"answer": "2"}, ["`solution`", "answer"]),
    ("RWD020", "cosine", {}, {"solutions": "2"}, ["`solutions` is not `solution`"]),
    ("RWD020", "brief", {"plugin.py": plugin("target", "level")}, {"target": "2"}, ["the column `level`"]),
    ("RWD021", "format", {}, {"completions": ["a"]}, ["`completions`"]),
    ("RWD021", "brief", {"plugin.py": plugin().replace("completions", "answers")}, {"answers": ["a"]}, ["`answers`"]),
    ("RWD022", "accuracy", {}, {"solution": 2}, ["a number", "line 1"]),
    ("RWD022", "accuracy", {}, {"solution": None}, ["null"]),
]


@pytest.mark.parametrize(("code", "name", "files", "row", "words"), COLUMN_HITS)
def test_columns(check: Checker, code: str, name: str, files: dict[str, str], row: dict[str, object], words: list[str]) -> None:
    plugins = " --external_plugins plugin.py" if files else ""
    found = [f for f in check(f"{GRPO} --reward_funcs {name}{plugins}", {**files, "data.jsonl": rows(row, row)}) if f.code == code]
    assert found
    for word in words:
        assert word in found[0].message


COLUMN_MISSES = [
    ("RWD020", f"{GRPO} --reward_funcs accuracy", {"data.jsonl": rows({"solution": "2"})}),
    ("RWD020", f"{GRPO} --reward_funcs accuracy --columns '{{\"gold\": \"solution\"}}'", {"data.jsonl": rows({"gold": "2"})}),
    ("RWD020", f"{GRPO} --reward_funcs accuracy", {"data.jsonl": '{"problem": "1 + 1 = ?", "solution": "2"}\n'}),
    ("RWD020", f"{GRPO} --reward_funcs accuracy", {}),
    ("RWD020", f"{GRPO} --reward_funcs brief --external_plugins plugin.py", {"data.jsonl": rows({}), "plugin.py": plugin("target=None", "level=1")}),
    ("RWD020", f"{GRPO} --reward_funcs brief --external_plugins plugin.py", {"data.jsonl": rows({}), "plugin.py": plugin("trainer_state", "messages")}),
    ("RWD020", f"{GRPO} --reward_funcs brief --external_plugins elsewhere.py", {"data.jsonl": rows({})}),
    ("RWD020", f"{GRPO} --reward_funcs accuracy --dataset data.jsonl AI-MO/NuminaMath-TIR", {"data.jsonl": rows({})}),
    ("RWD021", f"{GRPO} --reward_funcs format", {"data.jsonl": rows({"completion": "a"})}),
    ("RWD022", f"{GRPO} --reward_funcs format", {"data.jsonl": rows({"solution": 2})}),
    ("RWD022", f"{GRPO} --reward_funcs accuracy", {"data.jsonl": rows({"solution": "2"})}),
]


@pytest.mark.parametrize(("code", "script", "files"), COLUMN_MISSES)
def test_columns_silent(check: Checker, code: str, script: str, files: dict[str, str]) -> None:
    assert code not in {f.code for f in check(script, files)}


def test_a_folded_answer_is_explained(check: Checker) -> None:
    files = {"plugin.py": plugin("answer"), "data.jsonl": '{"question": "1 + 1 = ?", "answer": "2"}\n'}
    found = [f for f in check(f"{GRPO} --reward_funcs brief --external_plugins plugin.py", files) if f.code == "RWD020"]
    assert found
    assert "drops it before the rollout" in found[0].message
    assert found[0].fix is not None
    assert "gold_answer" in found[0].fix.description


def test_weights_message_holds_the_relation(check: Checker) -> None:
    script = f"{GRPO} --reward_funcs accuracy format --reward_model Qwen/Qwen2.5-Math-RM-72B --reward_weights 1.0 1.0"
    (found,) = [f for f in check(script) if f.code == "RWD003"]
    assert "2 reward weight(s) for 3 reward(s) (2 reward function(s) + 1 reward model(s))" in found.message
    assert found.fix is not None
    assert found.fix.description == "--reward_weights 1.0 1.0 1.0"


def test_versions_differ(check: Checker) -> None:
    script = f"{GRPO} --reward_funcs acuracy"
    for version in ("3.12.6", "4.0.4", "4.6.0"):
        assert "RWD001" in {f.code for f in check(script, version=version)}
