"""Megatron arguments: what ms-swift and megatron-core refuse is found, one value off is not."""

from __future__ import annotations

import pytest

from alula.run.finding import Finding

from .conftest import Checker

DENSE, MOE = "--model Qwen/Qwen3-8B", "--model Qwen/Qwen3-30B-A3B"
VISION, GPT = "--model Qwen/Qwen3-VL-8B-Instruct", "--model openai/gpt-oss-20b"


def sft(flags: str, model: str = DENSE, env: str = "", length: str = "--num_train_epochs 1") -> str:
    return f"{env}NPROC_PER_NODE=8 megatron sft {model} --dataset d.jsonl {length} {flags}"


def rlhf(flags: str, kind: str = "grpo", mode: str = "--vllm_mode colocate") -> str:
    rewards = "--reward_funcs accuracy " if kind == "grpo" else ""
    return f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type {kind} {DENSE} --dataset d.jsonl --num_train_epochs 1 --global_batch_size 64 {rewards}{mode} {flags}"


FULL = "--recompute_granularity full"
HITS = [
    ("MEG001", "NPROC_PER_NODE=8 megatron sft --dataset d.jsonl --num_train_epochs 1"),
    ("MEG001", "NPROC_PER_NODE=2 megatron export --to_hf true --tensor_model_parallel_size 2"),
    ("MEG002", f"NPROC_PER_NODE=8 megatron pt {DENSE} --val_dataset v.jsonl --num_train_epochs 1"),
    ("MEG003", sft("", "--model OpenBMB/MiniCPM3-4B")),
    ("MEG003", sft("", "--model /models/mine --model_type minicpm3")),
    ("MEG003", rlhf("--teacher_model OpenBMB/MiniCPM3-4B --lmbda 0", "gkd")),
    ("MEG004", sft("--freeze_parameters_ratio 0.3 --pipeline_model_parallel_size 2")),
    ("MEG005", sft("--group_by_length true")),
    ("MEG005", sft("--group_by_length true --padding_free false --packing true")),
    ("MEG006", sft("--bridge_backend megatron-bridge --tuner_type lora")),
    ("MEG006", sft("--bridge_backend megatron-bridge", VISION)),
    ("MEG006", sft("--bridge_backend megatron-bridge --task_type embedding")),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true")),  # a text model
    ("MEG007", sft("--tuner_type lora_llm", VISION)),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true --merge_lora false", VISION)),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true --save_safetensors false", VISION)),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true --language_model_only true", VISION)),
    ("MEG008", sft("--save_total_limit 1")),
    ("MEG008", sft("--save_total_limit 3 --async_save true")),
    ("MEG009", sft("--attention_backend flash_attention_2")),
    ("MEG009", sft("--attention_backend flash_5")),
    ("MEG010", sft("--apply_wd_to_qk_layernorm true")),
    ("MEG011", sft("--adapters a b")),
    ("MEG012", sft("", length="")),
    ("MEG012", sft("--streaming true")),
    ("MEG013", sft("--streaming true --save_strategy epoch", length="--train_iters 9")),
    ("MEG013", sft("--streaming true --val_dataset v.jsonl", length="--train_iters 9")),
    ("MEG014", sft("--aligner_lr 1e-5")),
    ("MEG015", sft("--ddp_timeout 60")),
    ("MEG016", sft("--megatron_extra_kwargs nonsense")),
    ("MEG016", sft("--megatron_extra_kwargs '[1]'")),
    ("MEG016", sft("--task_type embedding --mrl_dims 64")),
    ("MEG017", sft("--mtp_shared_weights true")),
    ("MEG018", sft("--tuner_type lora --merge_lora false", GPT)),
    ("MEG101", sft("--start_weight_decay 0.1")),
    ("MEG101", sft("--weight_decay_incr_style linear --start_weight_decay 0.1")),
    ("MEG102", sft("--lr 1e-6 --min_lr 1e-5")),
    ("MEG102", sft("--min_lr 1e-4")),  # above the default of full training
    ("MEG102", sft("--lr_warmup_fraction 1")),
    ("MEG102", sft("--lr_warmup_iters 100", length="--train_iters 100")),
    ("MEG102", sft("--lr_decay_style WSD")),
    ("MEG103", sft("--exp_avg_sq_dtype fp8")),
    ("MEG103", sft("--use_precision_aware_optimizer true --optimizer sgd")),
    ("MEG103", sft("--use_precision_aware_optimizer true --use_distributed_optimizer false")),
    ("MEG104", sft("--fp8_param_gather true")),
    ("MEG104", sft("--fp8_format e4m3 --fp4_format e2m1")),
    ("MEG104", sft("--fp16 true --bf16 true")),
    ("MEG104", sft("--fp8_format e4m3 --recompute_modules moe_act core_attn")),
    ("MEG105", sft("--optimizer muon --overlap_param_gather true")),
    ("MEG105", sft("--muon_lr 1e-3")),
    ("MEG106", sft("--optimizer dist_muon --torch_dtype float16")),
    ("MEG107", sft("--use_megatron_fsdp true")),
    ("MEG107", sft("--use_megatron_fsdp true", env="CUDA_DEVICE_MAX_CONNECTIONS=1 ")),
    ("MEG107", sft("--use_megatron_fsdp true --optimizer muon", env="CUDA_DEVICE_MAX_CONNECTIONS=8 ")),
    ("MEG108", sft("--use_megatron_fsdp true --async_save true", env="CUDA_DEVICE_MAX_CONNECTIONS=8 ")),
    ("MEG109", sft("", GPT)),
    ("MEG109", sft("--attention_backend flash_3", GPT)),
    ("MEG201", sft("--moe_token_dispatcher_type allgather")),
    ("MEG202", sft("--moe_enable_deepep true", MOE)),
    ("MEG202", sft("--moe_token_dispatcher_type flex --moe_pad_expert_input_to_capacity true --moe_expert_capacity_factor 1", MOE)),
    ("MEG203", sft("--moe_shared_expert_overlap true --moe_token_dispatcher_type flex", "--model Qwen/Qwen3.5-35B-A3B")),
    ("MEG203", sft("--moe_shared_expert_overlap true --recompute_modules shared_experts", "--model Qwen/Qwen3.5-35B-A3B")),
    ("MEG204", sft("--moe_shared_expert_overlap true", MOE)),
    ("MEG205", sft("--moe_router_load_balancing_type aux_loss seq_aux_loss", MOE)),
    ("MEG206", sft("--moe_router_load_balancing_type auxloss", MOE)),
    ("MEG207", sft("--moe_pad_expert_input_to_capacity true", MOE)),
    ("MEG207", sft("--moe_expert_capacity_factor 1 --moe_router_load_balancing_type sinkhorn", MOE)),
    ("MEG208", sft("--moe_expert_capacity_factor 1", MOE)),
    ("MEG209", sft("--tuner_type lora --expert_tensor_parallel_size 2", MOE)),
    ("MEG210", sft("--expert_tensor_parallel_size 2", GPT)),
    ("MEG211", sft("""--megatron_extra_kwargs '{"overlap_moe_expert_parallel_comm": true}'""", MOE)),
    ("MEG211", sft(f"""--expert_model_parallel_size 8 {FULL} --megatron_extra_kwargs '{{"overlap_moe_expert_parallel_comm": true}}'""", MOE)),
    ("MEG212", sft("--expert_model_parallel_size 2", "--model Qwen/Qwen3.5-397B-A17B", "ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 ")),
    ("MEG301", sft("--recompute_method block")),
    ("MEG302", sft(FULL)),
    ("MEG302", sft(f"{FULL} --recompute_method uniform")),
    ("MEG302", sft("--recompute_num_layers 1")),
    ("MEG302", sft(f"{FULL} --recompute_method uniform --recompute_num_layers 1 --moe_layer_recompute true", MOE)),
    ("MEG303", sft("--recompute_modules attention")),
    ("MEG303", sft("--recompute_modules mla_up_proj")),
    ("MEG303", sft("--recompute_modules moe_act --moe_grouped_gemm false", MOE)),
    ("MEG304", sft(f"{FULL} --recompute_method uniform --recompute_num_layers 4 --mtp_num_layers 1")),
    ("MEG305", sft(f"{FULL} --recompute_method uniform --recompute_num_layers 0")),
    ("MEG306", sft("--model_type deepseek_v41 --tuner_type lora", "--model /models/v41")),
    ("MEG401", rlhf("--num_iterations 2")),
    ("MEG401", rlhf("--async_generate true")),
    ("MEG401", rlhf("--sync_ref_model true")),
    ("MEG402", rlhf("--use_vllm false", mode="")),
    ("MEG403", rlhf("", mode="")),
    ("MEG403", rlhf("--teacher_model Qwen/Qwen3-32B", "gkd", "")),
    ("MEG404", rlhf("--reward_model Qwen/Qwen2.5-Math-RM-72B")),
    ("MEG404", rlhf("--move_model_batches 16")),
    ("MEG405", rlhf("--pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 2")),
    ("MEG405", rlhf("--teacher_model Qwen/Qwen3-32B --pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 2", "gkd")),
]  # fmt: skip

SILENT = [
    ("MEG001", "NPROC_PER_NODE=8 megatron sft --mcore_model out/x --dataset d.jsonl --num_train_epochs 1"),
    ("MEG001", "NPROC_PER_NODE=8 megatron sft --dataset d.jsonl --num_train_epochs 1 $(flags)"),
    ("MEG002", f"NPROC_PER_NODE=8 megatron sft {DENSE} --cached_dataset c --num_train_epochs 1"),
    ("MEG003", sft("", "--model /models/mine")),
    ("MEG003", sft("--bridge_backend megatron-bridge", "--model OpenBMB/MiniCPM3-4B")),
    ("MEG004", sft("--freeze_parameters_ratio 0.3")),
    ("MEG004", sft("--freeze_parameters_ratio 1 --pipeline_model_parallel_size 2")),
    ("MEG005", sft("--group_by_length true --padding_free false")),
    ("MEG006", sft("--bridge_backend megatron-bridge")),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true", VISION)),
    ("MEG007", sft("--tuner_type lora_llm --no_save_optim true", "--model /models/mine")),
    ("MEG008", sft("--save_total_limit 2")),
    ("MEG009", sft("--attention_backend unfused")),
    ("MEG009", sft("--attention_backend flash_3")),
    ("MEG010", sft("--apply_wd_to_qk_layernorm true", "--model Qwen/Qwen3.5-35B-A3B")),
    ("MEG011", sft("--adapters a")),
    ("MEG012", sft("", length="--train_iters 100")),
    ("MEG012", sft("", length="--max_epochs 1")),  # an older name; its rename is reported
    ("MEG012", "NPROC_PER_NODE=2 megatron export --model Qwen/Qwen3-8B --to_mcore true --tensor_model_parallel_size 2"),
    ("MEG013", sft("--streaming true --val_dataset v.jsonl --eval_iters 5", length="--train_iters 9")),
    ("MEG014", sft("--vit_lr 1e-5", VISION)),
    ("MEG014", sft("--vit_lr 1e-5", "--model /models/mine")),
    ("MEG015", sft("--ddp_timeout 3600")),
    ("MEG016", sft("""--megatron_extra_kwargs '{"qk_clip": true}'""")),
    ("MEG016", sft("""--megatron_extra_kwargs "{'qk_clip': true}" """)),  # repaired
    ("MEG017", sft("--mtp_shared_weights true --mtp_num_layers 2")),
    ("MEG018", sft("--tuner_type lora --merge_lora true", GPT)),
    ("MEG018", sft("--tuner_type lora --merge_lora false", MOE)),  # single experts in transformers too
    ("MEG018", sft("--tuner_type lora --merge_lora false --target_modules linear_qkv", GPT)),
    ("MEG101", sft("--weight_decay 0.05")),
    ("MEG101", sft("--weight_decay_incr_style linear --start_weight_decay 0.1 --end_weight_decay 0.2")),
    ("MEG102", sft("--lr 1e-5 --min_lr 1e-5 --lr_warmup_fraction 0.05")),
    ("MEG102", sft("--lr_warmup_iters 99", length="--train_iters 100")),
    ("MEG102", sft("--min_lr 1e-4 --lr $(rate)")),
    ("MEG103", sft("--exp_avg_dtype bf16 --use_precision_aware_optimizer true --optimizer_cpu_offload true")),
    ("MEG104", sft("--fp8_format e4m3 --fp8_param_gather true --fp8_recipe blockwise --recompute_modules layernorm")),
    ("MEG104", sft("--fp16 true --bf16 false")),
    ("MEG105", sft("--optimizer dist_muon --overlap_grad_reduce true --muon_lr 1e-3")),
    ("MEG106", sft("--optimizer muon")),
    ("MEG107", sft("--use_megatron_fsdp true", env="CUDA_DEVICE_MAX_CONNECTIONS=8 ")),
    ("MEG107", sft("", env="CUDA_DEVICE_MAX_CONNECTIONS=1 ")),
    ("MEG108", sft("--use_megatron_fsdp true --async_save true --no_save_optim true", env="CUDA_DEVICE_MAX_CONNECTIONS=8 ")),
    ("MEG109", sft("--attention_backend unfused", GPT)),
    ("MEG109", sft("")),
    ("MEG201", sft("--moe_token_dispatcher_type flex", MOE)),
    ("MEG202", sft("--moe_enable_deepep true --moe_token_dispatcher_type flex", MOE)),
    ("MEG203", sft("--moe_shared_expert_overlap true", "--model Qwen/Qwen3.5-35B-A3B")),
    ("MEG204", sft("--moe_shared_expert_overlap true", "--model /models/mine")),
    ("MEG205", sft("--moe_router_load_balancing_type aux_loss --moe_aux_loss_coeff 1e-3", MOE)),
    ("MEG206", sft("--moe_router_load_balancing_type global_aux_loss", MOE)),
    ("MEG207", sft("--moe_expert_capacity_factor 1 --moe_pad_expert_input_to_capacity true", MOE)),
    ("MEG208", sft("--moe_expert_capacity_factor -1", MOE)),
    ("MEG208", sft("--moe_expert_capacity_factor 1")),
    ("MEG209", sft("--tuner_type full --expert_tensor_parallel_size 2", MOE)),
    ("MEG209", sft("--tuner_type lora --expert_tensor_parallel_size 2 --target_modules linear_qkv", MOE)),
    ("MEG210", sft("--expert_tensor_parallel_size 2", MOE)),
    ("MEG211", sft("""--expert_model_parallel_size 8 --megatron_extra_kwargs '{"overlap_moe_expert_parallel_comm": true}'""", MOE)),
    ("MEG212", sft("--expert_model_parallel_size 2", "--model Qwen/Qwen3.5-397B-A17B")),
    ("MEG301", sft("--recompute_granularity none --recompute_method block")),
    ("MEG302", sft(f"{FULL} --recompute_method block --recompute_num_layers 99")),
    ("MEG303", sft(f"{FULL} --recompute_method block --recompute_num_layers 1 --recompute_modules attention")),
    ("MEG303", sft("--recompute_modules mla_up_proj", "--model deepseek-ai/DeepSeek-V3")),
    ("MEG304", sft(f"{FULL} --recompute_method block --recompute_num_layers 4 --mtp_num_layers 1")),
    ("MEG305", sft(f"{FULL} --recompute_method block --recompute_num_layers 0")),
    ("MEG306", sft("--model_type deepseek_v41", "--model /models/v41")),
    ("MEG401", rlhf("--num_iterations 1")),
    ("MEG401", rlhf("--num_iterations 2", "dpo", "")),
    ("MEG402", rlhf("--use_vllm false --lmbda 0", "gkd", "")),
    ("MEG403", rlhf("")),
    ("MEG403", rlhf("--lmbda 0", "gkd", "")),
    ("MEG403", rlhf("", "dpo", "")),
    ("MEG404", rlhf("--reward_model X", "dpo", "")),
    ("MEG405", rlhf("--pipeline_model_parallel_size 2")),
    ("MEG405", rlhf("--beta 0 --pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 2")),
    ("MEG405", rlhf("--pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 2", "dpo", "")),
]  # fmt: skip


def codes(findings: list[Finding]) -> set[str]:
    return {finding.code for finding in findings}


@pytest.mark.parametrize(("code", "script"), HITS)
def test_found(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script))


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_not_found(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script))


@pytest.mark.parametrize(("code", "script"), [("MEG005", sft("--group_by_length true")), ("MEG008", sft("--save_total_limit 1")), ("MEG301", sft("--recompute_method block"))])
def test_only_since_version_4(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script, version="3.12.6"))
    assert code in codes(check(script, version="4.0.4"))


def test_flash_versions_came_with_4_4(check: Checker) -> None:
    script = sft("--attention_backend flash_3")
    assert "MEG009" in codes(check(script, version="4.2.3"))
    assert "MEG009" not in codes(check(script, version="4.4.2"))


def test_refused_by_arguments_or_later(check: Checker) -> None:
    found = {f.code: f.consequence for f in check(sft("--save_total_limit 1 --recompute_granularity full"))}
    assert (found["MEG008"], found["MEG302"]) == ("refused", "wrong")


def test_on_ray_the_workers_refuse_later(check: Checker) -> None:
    text = """
rlhf_type: grpo
model: Qwen/Qwen3-8B
dataset: d.jsonl
reward_funcs: [accuracy]
num_train_epochs: 1
global_batch_size: 64
save_total_limit: 1
colocate_groups: [[train, rollout]]
train: {gpus: 8}
rollout: {gpus: 8}
"""
    found = {f.code: f.consequence for f in check(text, name="ray.yaml")}
    assert found == {"MEG008": "wrong"}


def test_message_has_the_numbers(check: Checker) -> None:
    finding = next(f for f in check(sft("--moe_router_load_balancing_type aux_loss seq_aux_loss none --moe_aux_loss_coeff 1e-3", MOE)) if f.code == "MEG205")
    assert "3 kinds" in finding.message
    assert "not 1" in finding.message
    assert finding.fix is not None
    assert finding.fix.description.count("1e-3") == 3


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("MEG019", sft("""--megatron_extra_kwargs '{"qk_clp": true}'""")),
        ("MEG020", sft("--report_to none")),
        ("MEG020", sft("--callbacks early_stop")),
        ("MEG110", sft("--optimizer muon --muon_coefficient_type simple")),
        ("MEG021", sft("--model_type nemotron_h", "--model /models/n")),
    ],
)
def test_names_that_there_are_not(check: Checker, code: str, script: str) -> None:
    assert code in codes(check(script))


@pytest.mark.parametrize(
    ("code", "script"),
    [
        ("MEG019", sft("""--megatron_extra_kwargs '{"qk_clip": true}'""")),
        ("MEG020", sft("--report_to wandb tensorboard")),
        ("MEG020", sft("--callbacks early_stop --external_plugins p.py")),
        ("MEG110", sft("--optimizer muon --muon_scalar_optimizer adam")),
        ("MEG110", sft("--muon_scalar_optimizer sgd")),
        ("MEG021", sft("")),
        ("MEG003", sft("--model_type nemotron_h", "--model /models/n")),
    ],
)
def test_names_that_there_are(check: Checker, code: str, script: str) -> None:
    assert code not in codes(check(script))


def test_an_unheard_of_setting_may_be_new(check: Checker) -> None:
    finding = next(f for f in check(sft("""--megatron_extra_kwargs '{"nonsense": 1}'""")) if f.code == "MEG019")
    assert finding.severity == "warning"
