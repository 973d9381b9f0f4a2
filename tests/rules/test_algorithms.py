"""Algorithms: hits, and what stands one step beside them and must be silent."""

from __future__ import annotations

import pytest

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
HF = f"swift rlhf {MODEL}"
GRPO = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"
MEGATRON = f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo {MODEL} --num_train_epochs 1 --use_vllm true --vllm_mode colocate --global_batch_size 64"

HITS = [
    ("ALG001", f"{HF} --rlhf_type kto --gradient_accumulation_steps 4 --loss_type kto apo_zero_unpaired"),
    ("ALG001", f"{GRPO} --loss_type grpo dapo bnpo"),
    ("ALG002", f"{HF} --rlhf_type dpo --loss_weights 1 0.5"),  # one loss by default
    ("ALG002", f"{HF} --rlhf_type dpo --loss_type sigmoid sft --loss_weights 1"),
    ("ALG002", f"{HF} --rlhf_type cpo --loss_type simpo --loss_weights 1"),
    ("ALG003", f"{HF} --rlhf_type dpo --loss_type dpo"),
    ("ALG003", f"{HF} --rlhf_type dpo --loss_type sigmoid kto_pair"),
    ("ALG003", f"{HF} --rlhf_type simpo --loss_type sft"),
    ("ALG003", f"{MEGATRON} --reward_funcs accuracy --loss_type gspo"),
    ("ALG004", f"{GRPO} --loss_type real"),
    ("ALG004", f"{GRPO} --off_policy_sequence_mask_delta 0.1"),
    ("ALG004", f"{MEGATRON} --reward_funcs accuracy --loss_type fipo"),
    ("ALG005", f"{HF} --rlhf_type dpo --ref_model Qwen/Qwen3-8B"),  # LoRA is the default
    ("ALG005", f"{HF} --rlhf_type orpo --tuner_type full --ref_model Qwen/Qwen3-8B"),
    ("ALG005", f"{HF} --rlhf_type gkd --tuner_type full --ref_model None"),  # YAML null arrives as text
    ("ALG006", f"{HF} --rlhf_type rm --ref_adapters a"),
    ("ALG006", f"{HF} --rlhf_type dpo --ref_adapters a b"),
    ("ALG007", f"{HF} --rlhf_type dpo --adapters a"),
    ("ALG007", f"{GRPO} --adapters a"),
    ("ALG008", f"{GRPO} --sync_ref_model true"),
    ("ALG008", f"{GRPO} --tuner_type full --beta 0 --sync_ref_model true"),
    ("ALG009", f"{HF} --rlhf_type kto"),
    ("ALG010", f"{HF} --rlhf_type kto --gradient_accumulation_steps 1"),
    ("ALG010", f"NPROC_PER_NODE=1 megatron rlhf --rlhf_type kto {MODEL} --num_train_epochs 1 --global_batch_size 1"),
    ("ALG011", f"{HF} --rlhf_type ppo"),
    ("ALG011", f"{HF} --rlhf_type ppo --reward_model a b"),
    ("ALG012", f"{HF} --rlhf_type ppo --reward_model a --max_steps 100"),
    ("ALG013", f"{GRPO} --max_completion_length 2048 --response_length 512"),
    ("ALG014", f"{GRPO} --temperature 0"),
    ("ALG014", f"{HF} --rlhf_type gkd --teacher_model Qwen/Qwen3-32B --temperature 0.0"),
]

SILENT = [
    ("ALG001", f"{HF} --rlhf_type dpo --loss_type sigmoid sft"),
    ("ALG001", f"{HF} --loss_type sigmoid sft"),  # dpo is the default
    ("ALG001", f"{HF} --rlhf_type $(pick) --loss_type sigmoid sft"),
    ("ALG002", f"{HF} --rlhf_type dpo --loss_weights 1"),
    ("ALG002", f"{HF} --rlhf_type kto --gradient_accumulation_steps 4 --loss_weights 1 2"),  # never read without a loss_type
    ("ALG003", f"{HF} --rlhf_type simpo"),
    ("ALG003", f"{HF} --rlhf_type orpo --loss_type anything"),  # not read
    ("ALG003", f"{GRPO} --loss_type $(pick)"),
    ("ALG004", f"{GRPO} --loss_type dapo"),
    ("ALG004", f"{HF} --rlhf_type dpo --off_policy_sequence_mask_delta 0.1"),
    ("ALG005", f"{HF} --rlhf_type dpo --tuner_type full --ref_model Qwen/Qwen3-8B"),
    ("ALG005", f"{GRPO} --tuner_type lora --beta 0 --ref_model Qwen/Qwen3-8B"),  # dropped without a word
    ("ALG005", f"{HF} --rlhf_type dpo --tuner_type $(pick) --ref_model Qwen/Qwen3-8B"),
    ("ALG006", f"{HF} --rlhf_type kto --gradient_accumulation_steps 4 --adapters a --ref_adapters a"),
    ("ALG007", f"{HF} --rlhf_type dpo --adapters a --ref_adapters a"),
    ("ALG007", f"{HF} --rlhf_type cpo --adapters a"),  # no reference at all
    ("ALG007", f"{GRPO} --adapters a --beta 0"),
    ("ALG007", f"{HF} --rlhf_type dpo --adapters a $(pick)"),
    ("ALG008", f"{GRPO} --tuner_type full --sync_ref_model true"),
    ("ALG009", f"{HF} --rlhf_type kto --loss_type apo_zero_unpaired"),
    ("ALG009", f"{HF} --rlhf_type kto --gradient_accumulation_steps $(pick)"),
    ("ALG009", f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type kto {MODEL} --num_train_epochs 1"),
    ("ALG010", f"{HF} --rlhf_type kto --gradient_accumulation_steps 2"),
    ("ALG011", f"{HF} --rlhf_type ppo --reward_model a"),
    ("ALG011", f"{HF} --rlhf_type ppo $(pick)"),
    ("ALG012", f"{HF} --rlhf_type dpo --max_steps 100"),
    ("ALG013", f"{GRPO} --max_completion_length 512 --response_length 512"),
    ("ALG013", f"{GRPO} --response_length 1024"),
    ("ALG014", f"{GRPO} --temperature 0.1"),
    ("ALG014", f"{HF} --rlhf_type dpo --temperature 0"),
]


@pytest.mark.parametrize(("code", "command"), HITS)
def test_hit(check: Checker, code: str, command: str) -> None:
    found = check(command + "\n")
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "command"), SILENT)
def test_silent(check: Checker, code: str, command: str) -> None:
    assert [f.message for f in check(command + "\n") if f.code == code] == []


def test_losses_that_ran_before_teachers(check: Checker) -> None:
    """4.3 had no teacher on GRPO, so `real` worked."""
    assert "ALG004" not in {f.code for f in check(f"{GRPO} --loss_type real\n", version="4.3.2")}


def test_unknown_loss_names_what_there_is(check: Checker) -> None:
    (finding,) = [f for f in check(f"{GRPO} --loss_type drgrpo\n") if f.code == "ALG003"]
    assert "dr_grpo" in finding.message
    assert finding.consequence == "wrong"


def test_ppo_message_tells_rewards_apart(check: Checker) -> None:
    (finding,) = [f for f in check(f"{HF} --rlhf_type ppo --reward_funcs accuracy\n") if f.code == "ALG011"]
    assert "reward_model" in finding.message
    assert "reward_funcs" in finding.message
