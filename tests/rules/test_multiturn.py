"""Multi-turn rollouts and gym environments, one job at a time."""

from __future__ import annotations

import json

import pytest

from .conftest import Checker

GRPO = "NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_generations 2"
COLOCATE = f"{GRPO} --reward_funcs format --use_vllm true --vllm_mode colocate"
SERVER = f"{GRPO} --reward_funcs format --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5 --vllm_server_port 8000"
ROLLOUT = "swift rollout --model Qwen/Qwen3-8B"
PLUGIN = """
from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

class Mine(MultiTurnScheduler):
    def check_finished(self, infer_request, response_choice, current_turn):
        return {finished}

    def step(self, infer_request, response_choice, current_turn):
        infer_request.messages.append({{"role": "user", "content": "go on"}})
        return {{"infer_request": infer_request}}

multi_turns["mine"] = Mine
"""
ENDLESS = PLUGIN.format(finished='"done" in response_choice.message.content')
BOUNDED = PLUGIN.format(finished='response_choice.finish_reason == "length" or "done" in response_choice.message.content')
CALM = BOUNDED.replace("check_finished", "other")


def rows(**columns: object) -> str:
    return "".join(json.dumps({"messages": [{"role": "user", "content": f"q{at}"}], **columns}) + "\n" for at in range(2))


HITS = [
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler math_tips --max_turns 2", {}),
    ("MTS001", f"{COLOCATE} --multi_turn_scheduler nobody --max_turns 2", {}),
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler yours --max_turns 2 --external_plugins plugin.py", {"plugin.py": ENDLESS}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env math_env", {}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 0", {}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler mine --external_plugins plugin.py", {"plugin.py": ENDLESS}),
    ("MTS003", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env sokoban --max_turns 2", {}),
    ("MTS004", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --use_gym_env true --max_turns 2", {"data.jsonl": rows(solution="2")}),
    ("MTS004", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --use_gym_env true --max_turns 2", {"data.jsonl": rows(env_config={"name": "sokoban"})}),
    ("MTS005", f"{COLOCATE} --gym_env math_env", {}),
    ("MTS005", f"{COLOCATE} --use_gym_env true", {}),
    ("MTS005", f"{ROLLOUT} --gym_env math_env", {}),
    ("MTS006", f"{GRPO} --reward_funcs format --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 2", {}),
    ("MTS007", f"{SERVER} --async_generate true --multi_turn_scheduler math_tip_trick --max_turns 2", {}),
    ("MTS008", f"{COLOCATE} --max_turns 4", {}),
    ("MTS008", f"{ROLLOUT} --max_turns 4", {}),
    ("MTS008", f"{COLOCATE} --max_turns 1 --multi_turn_scheduler math_tip_trick", {}),
    ("MTS008", f"{COLOCATE} --max_turns 1 --multi_turn_scheduler mine --external_plugins plugin.py", {"plugin.py": CALM}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler math_tip_trick --max_turns 2", {"data.jsonl": rows(gold="2")}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 2", {"data.jsonl": rows(solution="2")}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 2", {"data.jsonl": '{"problem": "q", "solution": "2"}\n' * 2}),
]

MISSES = [
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler math_tip_trick --max_turns 2", {}),
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler mine --max_turns 2 --external_plugins plugin.py", {"plugin.py": ENDLESS}),
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler yours --max_turns 2 --external_plugins elsewhere.py", {}),
    ("MTS001", f"{ROLLOUT} --multi_turn_scheduler $(pick) --max_turns 2", {}),
    ("MTS001", "swift rollout --model output/checkpoint-9 --multi_turn_scheduler yours --max_turns 2", {}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 3", {}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler math_tip_trick", {}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler mine --external_plugins plugin.py", {"plugin.py": BOUNDED}),
    ("MTS002", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env math_env $(get_args)", {}),
    ("MTS003", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 2", {}),
    ("MTS003", f"{ROLLOUT} --multi_turn_scheduler gym_scheduler --gym_env sokoban --max_turns 2 --external_plugins elsewhere.py", {}),
    ("MTS003", f"{ROLLOUT} --multi_turn_scheduler openenv_scheduler --gym_env sokoban --max_turns 2", {}),
    ("MTS004", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 2", {"data.jsonl": rows(problem="q", solution="2")}),
    ("MTS004", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --use_gym_env true --max_turns 2", {}),
    ("MTS005", f"{COLOCATE} --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 2", {}),
    ("MTS005", f"{SERVER} --use_gym_env true", {}),
    ("MTS005", f"{COLOCATE} --use_gym_env false", {}),
    ("MTS006", f"{COLOCATE} --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 2", {}),
    ("MTS007", f"{SERVER} --async_generate true", {}),
    ("MTS008", f"{COLOCATE} --max_turns 2 --multi_turn_scheduler math_tip_trick", {}),
    ("MTS008", f"{SERVER} --max_turns 4", {}),
    ("MTS008", f"{ROLLOUT} --max_turns 1 --multi_turn_scheduler gym_scheduler --gym_env math_env", {}),
    ("MTS008", f"{COLOCATE} --max_turns $(turns)", {}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler math_tip_trick --max_turns 2", {"data.jsonl": rows(solution="2")}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler math_tip_trick --max_turns 2", {}),
    ("MTS009", f"{COLOCATE} --multi_turn_scheduler gym_scheduler --gym_env math_env --max_turns 2", {"data.jsonl": rows(problem="q", solution="2")}),
]


@pytest.mark.parametrize(("code", "script", "files"), HITS)
def test_found(check: Checker, code: str, script: str, files: dict[str, str]) -> None:
    found = check(script, files)
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "script", "files"), MISSES)
def test_silent(check: Checker, code: str, script: str, files: dict[str, str]) -> None:
    found = check(script, files)
    assert code not in {f.code for f in found}, [f.message for f in found if f.code == code]


def test_a_plugin_of_the_other_side_does_not_count(check: Checker) -> None:
    pair = (
        f"CUDA_VISIBLE_DEVICES=0 {ROLLOUT} --multi_turn_scheduler mine --max_turns 2 &\n"
        f"CUDA_VISIBLE_DEVICES=1,2 {SERVER.replace('10.0.0.5', '127.0.0.1')} --external_plugins plugin.py\n"
    )
    (found,) = [f for f in check(pair, {"plugin.py": BOUNDED}) if f.code == "MTS001"]
    assert "is given to `swift rlhf` only" in found.message


@pytest.mark.parametrize(("extra", "scheduler", "fires"), [
    ("--padding_free true --attn_impl flash_attn", "thinking_tips_scheduler", True),
    ("", "thinking_tips_scheduler", False),
    ("--padding_free true --attn_impl flash_attn", "math_tip_trick", False),
])  # fmt: skip
def test_split_trajectories(check: Checker, extra: str, scheduler: str, fires: bool) -> None:
    pair = (
        f"CUDA_VISIBLE_DEVICES=0 {ROLLOUT} --multi_turn_scheduler {scheduler} --max_turns 2 &\n"
        f"CUDA_VISIBLE_DEVICES=1,2 {SERVER.replace('10.0.0.5', '127.0.0.1')} --vllm_server_pass_dataset true {extra}\n"
    )
    assert ("MTS010" in {f.code for f in check(pair)}) is fires
