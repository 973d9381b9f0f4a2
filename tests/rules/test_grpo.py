"""GRPO's switches, distillation inside it, and flags that another algorithm reads."""

from __future__ import annotations

import pytest

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
BARE = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL}"
GRPO = f"{BARE} --reward_funcs accuracy"
HF = f"swift rlhf {MODEL}"
MEGATRON = f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo {MODEL} --num_train_epochs 1 --use_vllm true --vllm_mode colocate --global_batch_size 64"
SERVER = "--use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5"

HITS = [
    ("ALG101", f"{BARE} --reward_funcs accuracy --cached_val_dataset c"),
    ("ALG102", f"{GRPO} --truncation_strategy split"),
    ("ALG102", f"{MEGATRON} --reward_funcs accuracy --truncation_strategy right"),
    ("ALG103", f"{GRPO} soft_overlong"),
    ("ALG103", f"{MEGATRON} --reward_funcs soft_overlong"),
    ("ALG104", f"{GRPO} --num_generations 1"),
    ("ALG105", f"{GRPO} --num_generations -2"),
    ("ALG106", f"{GRPO} --use_liger_kernel true --delta 4"),
    ("ALG106", f"{GRPO} --use_liger_kernel true --advantage_estimator rloo"),
    ("ALG106", f"{GRPO} --use_liger_kernel true --top_entropy_quantile 0.2"),
    ("ALG106", f"{GRPO} --use_liger_kernel true --importance_sampling_level sequence_token"),
    ("ALG107", BARE),
    ("ALG107", f"{BARE} {SERVER}"),
    ("ALG107", f"{BARE} --external_plugins plugin.py"),
    ("ALG107", f"{MEGATRON} --reward_model a"),  # not read on Megatron
    ("ALG108", f"{GRPO} --loss_type cispo --epsilon_high 0.28"),
    ("ALG109", f"{GRPO} --early_stop_interval 3 --metric_for_best_model loss"),
    ("ALG110", f"{GRPO} --num_iterations 0"),
    ("ALG111", f"{GRPO} --scale_rewards gdpo --advantage_estimator rloo"),
    ("ALG112", f"{GRPO} --delta 1.2"),
    ("ALG113", f"{GRPO} --chord_sft_dataset s.jsonl --chord_mu_peak 0.9"),
    ("ALG201", f"{GRPO} --teacher_model Qwen/Qwen3-32B --loss_type real"),
    ("ALG201", f"{GRPO} --teacher_model Qwen/Qwen3-8B --off_policy_sequence_mask_delta 1"),  # the same model is a teacher too
    ("ALG201", f"{GRPO} --teacher_model_server http://t:8000 --use_liger_kernel true"),
    ("ALG201", f"{BARE} --teacher_model Qwen/Qwen3-32B --scale_rewards gdpo"),
    ("ALG201", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --dynamic_sample true"),
    ("ALG202", f"{BARE} --advantage_reweight rlsd"),
    ("ALG202", f"{GRPO} --advantage_reweight rlsd --rlsd_reweight_clip_range -0.1"),
    ("ALG202", f"{GRPO} --advantage_reweight rlsd --teacher_model_server http://t:8000"),
    ("ALG203", f"{GRPO} --sdar_loss_coef 0.1 --sdar_gate_beta 0"),
    ("ALG203", f"{GRPO} --sdar_loss_coef 0.1 --use_liger_kernel true"),
    ("ALG301", f"{HF} --rlhf_type dpo --num_iterations 2"),
    ("ALG301", f"{GRPO} --rpo_alpha 0.1"),
    ("ALG302", f"{HF} --rlhf_type gkd --teacher_model Qwen/Qwen3-32B --reward_funcs accuracy"),
    ("ALG303", f"{HF} --rlhf_type kto --gradient_accumulation_steps 4 --use_vllm true"),
    ("ALG305", f"{GRPO} --beta 0 --ref_adapters a"),
    ("ALG304", f"{HF} --rlhf_type gkd --teacher_model Qwen/Qwen3-32B --reward_model a"),
]

SILENT = [
    ("ALG101", f"{HF} --rlhf_type gkd --cached_dataset c --teacher_model Qwen/Qwen3-32B"),
    ("ALG102", f"{GRPO} --truncation_strategy delete"),
    ("ALG102", f"{HF} --rlhf_type dpo --truncation_strategy right"),
    ("ALG103", f"{GRPO} soft_overlong --soft_cache_length 128"),
    ("ALG103", f"{GRPO} soft_overlong $(pick)"),
    ("ALG104", f"{GRPO} --num_generations 1 --teacher_model Qwen/Qwen3-32B"),
    ("ALG104", f"{HF} --rlhf_type gkd --num_generations 1"),
    ("ALG106", f"{GRPO} --use_liger_kernel true --importance_sampling_level sequence"),
    ("ALG106", f"{GRPO} --use_liger_kernel $(pick) --delta 4"),
    ("ALG107", GRPO),
    ("ALG107", f"{BARE} --reward_model a"),
    ("ALG107", f"{BARE} --teacher_model Qwen/Qwen3-32B"),
    ("ALG107", f"{BARE} --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 3"),
    ("ALG107", f"{BARE} $(pick)"),
    ("ALG107", f"{BARE} --teacher_model_server $(pick)"),
    ("ALG108", f"{GRPO} --loss_type cispo --epsilon_high 5"),
    ("ALG108", f"{GRPO} --loss_type grpo --epsilon_high 0.28"),
    ("ALG109", f"{GRPO} --metric_for_best_model loss"),  # nothing asks for the best
    ("ALG109", f"{HF} --rlhf_type dpo --load_best_model_at_end true --metric_for_best_model loss"),
    ("ALG111", f"{GRPO} --scale_rewards gdpo"),
    ("ALG111", f"{GRPO} --advantage_estimator rloo"),
    ("ALG112", f"{GRPO} --delta 1.5"),
    ("ALG201", f"{BARE} --teacher_model Qwen/Qwen3-32B --loss_type dapo"),
    ("ALG201", f"{GRPO} --teacher_model Qwen/Qwen3-32B --dynamic_sample true"),
    ("ALG201", f"{GRPO} --loss_type real"),
    ("ALG202", f"{GRPO} --advantage_reweight rlsd --rlsd_lambda 1.0 --teacher_model Qwen/Qwen3-32B"),
    ("ALG202", f"{GRPO} --rlsd_lambda 3"),  # not switched on
    ("ALG203", f"{GRPO} --sdar_gate_beta 0"),
    ("ALG301", f"{HF} --rlhf_type dpo --num_generations 8"),  # the default
    ("ALG301", f"{HF} --rlhf_type $(pick) --num_iterations 2"),
    ("ALG301", f"{GRPO} --num_iterations 2 --use_vllm true --vllm_mode colocate --sleep_level 1"),
    ("ALG302", f"{HF} --rlhf_type ppo --reward_funcs accuracy"),  # ALG011 says it
    ("ALG303", f"{HF} --rlhf_type kto --gradient_accumulation_steps 4 --use_vllm false"),
    ("ALG305", f"{GRPO} --ref_adapters a"),
    ("ALG305", f"{HF} --rlhf_type dpo --beta 0 --tuner_type full --ref_model a"),
    ("ALG304", f"{HF} --rlhf_type ppo --reward_model a"),
    ("ALG304", f"{GRPO} --reward_model a"),
]


@pytest.mark.parametrize(("code", "command"), HITS)
def test_hit(check: Checker, code: str, command: str) -> None:
    found = check(command + "\n")
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "command"), SILENT)
def test_silent(check: Checker, code: str, command: str) -> None:
    assert [f.message for f in check(command + "\n") if f.code == code] == []


@pytest.mark.parametrize(
    ("command", "severity"),
    [(BARE, "error"), (f"{BARE} {SERVER}", "warning"), (f"{BARE} --external_plugins p.py", "warning")],
)
def test_no_reward_is_sure_only_where_nothing_else_can_bring_one(check: Checker, command: str, severity: str) -> None:
    assert [f.severity for f in check(command + "\n") if f.code == "ALG107"] == [severity]


def test_the_server_of_the_run_settles_where_rewards_come_from(check: Checker) -> None:
    trainer = f"{BARE} --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1\n"
    plain = "CUDA_VISIBLE_DEVICES=9 swift rollout --model Qwen/Qwen3-8B &\n"
    gym = plain.replace(" &", " --multi_turn_scheduler gym_scheduler --max_turns 3 --use_gym_env true --gym_env math_env &")
    assert [f.severity for f in check(plain + trainer) if f.code == "ALG107"] == ["error"]
    assert [f.severity for f in check(gym + trainer) if f.code == "ALG107"] == []


@pytest.mark.parametrize(("version", "found"), [("4.0.4", True), ("4.1.3", True), ("4.2.3", False), ("4.6.0", False)])
def test_best_model_default_by_version(check: Checker, version: str, found: bool) -> None:
    command = f"{GRPO} --val_dataset v.jsonl --load_best_model_at_end true --per_device_eval_batch_size 8\n"
    assert ("ALG109" in {f.code for f in check(command, version=version)}) is found


def test_soft_overlong_advice_fits_the_limit(check: Checker) -> None:
    (finding,) = [f for f in check(f"{GRPO} soft_overlong --max_completion_length 8192\n") if f.code == "ALG103"]
    assert finding.fix is not None
    assert "2048" in finding.fix.description
