"""Random commands before both: alula and ms-swift must refuse the same ones.

Commands are drawn from a fixed seed (`ALULA_SEED`, 0) so that a run can be repeated; `ALULA_RANDOM` says how many (400). Each starts from a
sound command of one route and gets a few flags with values from the edges of what they allow, and now and then a fault of the kind that
people make: a misspelt flag, a missing value, a bad choice, an old name.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from conformance import alula_side
from conformance.client import Oracle
from conformance.report import Report
from conformance.suites.derived import compare, verdicts

MODELS = (
    "Qwen/Qwen3-8B",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "LLM-Research/Meta-Llama-3.1-8B-Instruct",
)
WORLDS = (1, 1, 2, 4, 6, 8, 8, 16)
SOUND: dict[str, tuple[str, ...]] = {
    "swift rlhf": (
        "--rlhf_type dpo", "--rlhf_type orpo", "--rlhf_type cpo", "--rlhf_type simpo", "--rlhf_type kto --gradient_accumulation_steps 2", "--rlhf_type rm",
        "--rlhf_type ppo --reward_model Qwen/Qwen2.5-7B-Instruct", "--rlhf_type gkd --teacher_model Qwen/Qwen3-8B",
        "--rlhf_type grpo --reward_funcs accuracy format --per_device_train_batch_size 8",
        "--rlhf_type grpo --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode colocate",
        "--rlhf_type grpo --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1",
    ),
    "swift sft": ("", "--deepspeed zero2", "--tuner_type full --deepspeed zero3"),
    "swift rollout": ("", "--vllm_tensor_parallel_size 2", "--multi_turn_scheduler math_tip_trick"),
    "swift sample": ("--sampler_engine vllm", "--sampler_engine transformers --num_return_sequences 4"),
    "swift export": ("--quant_method awq --quant_bits 4", "--to_mcore true"),
    "megatron sft": ("--train_iters 10", "--num_train_epochs 1 --sequence_parallel true --tensor_model_parallel_size 2"),
    "megatron rlhf": (
        "--rlhf_type dpo --train_iters 10", "--rlhf_type kto --train_iters 10", "--rlhf_type rm --train_iters 10",
        "--rlhf_type grpo --reward_funcs accuracy --train_iters 10 --vllm_mode colocate --global_batch_size 64",
        "--rlhf_type gkd --teacher_model Qwen/Qwen3-8B --train_iters 10 --vllm_mode colocate",
    ),
}  # fmt: skip
EDGES: dict[str, tuple[str, ...]] = {
    "per_device_train_batch_size": ("1", "2", "3", "4", "8"), "per_device_eval_batch_size": ("1", "4", "8"), "gradient_accumulation_steps": ("1", "2", "4"),
    "num_generations": ("1", "2", "4", "6", "8"), "generation_batch_size": ("8", "32", "48", "64"), "steps_per_generation": ("0", "1", "2", "4"),
    "eval_strategy": ("no", "steps"), "split_dataset_ratio": ("0", "0.01"), "num_iterations": ("1", "2"), "beta": ("0", "0.04"),
    "loss_type": ("grpo", "dapo", "real", "fipo", "sigmoid", "kto"), "truncation_strategy": ("left", "delete", "right"), "tuner_type": ("full", "lora"),
    "padding_free": ("true", "false"), "packing": ("true",), "attn_impl": ("flash_attn", "sdpa", "flash_attention_2"), "use_liger_kernel": ("true",),
    "sequence_parallel_size": ("1", "2"), "deepspeed": ("zero0", "zero2", "zero3", "zero3_offload"), "fsdp": ("fsdp2",), "save_only_model": ("true",),
    "use_vllm": ("true", "false"), "vllm_mode": ("colocate", "server"), "async_generate": ("true",), "sleep_level": ("0", "1", "2"),
    "vllm_tensor_parallel_size": ("1", "2", "3", "4"), "vllm_data_parallel_size": ("1", "2"), "vllm_pipeline_parallel_size": ("1", "2"),
    "vllm_use_async_engine": ("true", "false"), "vllm_server_port": ("8000", "8000 8001"), "advantage_estimator": ("grpo", "rloo", "reinforce_plus_plus"),
    "scale_rewards": ("none", "group", "batch", "gdpo"), "dynamic_sample": ("true",), "importance_sampling_level": ("token", "sequence_token"),
    "teacher_model": ("Qwen/Qwen3-8B",), "teacher_model_server": ("http://localhost:8000",), "gkd_logits_topk": ("0", "64"), "seq_kd": ("true", "false"),
    "ref_model": ("Qwen/Qwen3-8B",), "warmup_ratio": ("0.05", "1"), "warmup_steps": ("10",), "lazy_tokenize": ("true",), "streaming": ("true",),
    "torch_dtype": ("bfloat16", "float32"), "loss_weights": ("0.5 0.5", "1.0"), "reward_weights": ("1.0",), "soft_cache_length": ("128",),
    "advantage_reweight": ("rlsd",), "sdar_loss_coef": ("0.1",), "delta": ("1.5",), "log_entropy": ("true",), "multi_turn_scheduler": ("math_tip_trick",),
    "output_file": ("a/b.jsonl", "b.jsonl"), "quant_bits": ("4", "8"), "merge_lora": ("true",), "cached_dataset": ("c",), "reward_funcs": ("soft_overlong",),
    "tensor_model_parallel_size": ("1", "2", "3", "4"), "pipeline_model_parallel_size": ("1", "2", "4"), "context_parallel_size": ("1", "2"),
    "expert_model_parallel_size": ("1", "2", "4"), "expert_tensor_parallel_size": ("1", "2"), "virtual_pipeline_model_parallel_size": ("1", "2"),
    "sequence_parallel": ("true", "false"), "micro_batch_size": ("1", "2", "3"), "global_batch_size": ("8", "16", "48", "64"),
    "recompute_granularity": ("full", "selective", "none"), "recompute_method": ("uniform", "block"), "recompute_num_layers": ("1",),
    "moe_token_dispatcher_type": ("alltoall", "allgather", "flex"), "save_total_limit": ("1", "2"), "async_save": ("true",), "group_by_length": ("true",),
    "tp_comm_overlap": ("true",), "optimizer": ("adam", "muon"), "muon_lr": ("1e-3",), "use_megatron_fsdp": ("true",), "freeze_parameters_ratio": ("0.5",),
    "decoder_first_pipeline_num_layers": ("4",), "attention_backend": ("flash", "unfused"), "moe_shared_expert_overlap": ("true",),
    "overlap_moe_expert_parallel_comm": ("true",), "use_precision_aware_optimizer": ("true",), "main_grads_dtype": ("bf16",), "fp8_format": ("e4m3",),
}  # fmt: skip


def run(oracle: Oracle) -> Report:
    """Draw commands, ask both, and report every refusal on one side only and every value that differs."""
    seed, count = int(os.environ.get("ALULA_SEED", "0")), int(os.environ.get("ALULA_RANDOM", "400"))
    random = Random(seed)
    report = Report(f"random (seed {seed})")
    kinds: Counter[str] = Counter()
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            words = draw(random)
            reading = alula_side.read_words(words, Path(folder))
            asked = alula_side.request(reading, 0)
            if isinstance(asked, str):
                report.skip(asked)
                continue
            answer = oracle.ask(asked)
            report.cases += 1
            refused += "crash" not in answer and alula_side.refused(answer)
            case = " ".join(words)
            found = list(verdicts(case, reading, answer))
            kinds.update(d.what for d in found)
            report.disagreements += found or list(compare(case, reading, answer))
    report.notes.append(f"{refused} refused by ms-swift" + "".join(f", {count} {kind}" for kind, count in kinds.items()))
    return report


def draw(random: Random) -> list[str]:
    """One command with its environment assignments in front."""
    route = random.choices(tuple(SOUND), weights=(10, 2, 1, 1, 1, 4, 4))[0]
    flags = alula_side.FACTS.flags(route)
    argv = f"--model {random.choice(MODELS)} {random.choice(SOUND[route])}".split()
    if "dataset" in flags and route != "swift rollout":
        argv += ["--dataset", "data.jsonl"]
    usable = [name for name in EDGES if name in flags]
    for name in random.sample(usable, random.randint(0, 4)):
        argv += [f"--{name}", *random.choice(EDGES[name]).split()]
    if random.random() < 0.12:
        argv = _fault(random, argv)
    world = random.choice(WORLDS)
    local = min(world, 8)
    env = [f"CUDA_VISIBLE_DEVICES={','.join(str(n) for n in range(random.choice((local, local, local, 8))))}"]
    if world > 1 and route not in ("swift rollout", "swift sample", "swift export"):
        env += [f"NPROC_PER_NODE={local}"] + ([f"NNODES={world // 8}"] if world > 8 else [])
    return [*env, *route.split(), *argv]


def _fault(random: Random, argv: list[str]) -> list[str]:
    """Break one flag the way a hand breaks it."""
    flags = [at for at, word in enumerate(argv) if word.startswith("--")]
    at = random.choice(flags)
    word = argv[at]
    kind = random.randrange(5)
    if kind == 0:  # two letters exchanged
        cut = random.randrange(2, max(len(word) - 1, 3))
        return [*argv[:at], word[:cut] + word[cut + 1 : cut + 2] + word[cut : cut + 1] + word[cut + 2 :], *argv[at + 1 :]]
    if kind == 1:  # its value is gone
        return [*argv[: at + 1], *argv[at + 2 :]]
    if kind == 2:  # shortened
        return [*argv[:at], word[: max(len(word) - random.randint(1, 4), 4)], *argv[at + 1 :]]
    if kind == 3:  # an old name
        return [
            *argv,
            *random.choice(
                ("--train_type lora", "--sft_type lora", "--max_epochs 1", "--vllm_device auto", "--num_infer_workers 1")
            ).split(),
        ]
    return [
        *argv,
        *random.choice(("--no_gradient_checkpointing true", "--torch_dtype bf16", "--num_train_epochs one", "--use_vllm=maybe")).split(),
    ]
