"""Flags that the chosen algorithm never reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import rule
from .rl import kind

if TYPE_CHECKING:
    from alula.run.finding import Finding

# Which `rlhf_type`s of `swift rlhf` read a flag. Read from the trainers of ms-swift 4.6 and from the fields of their configurations.
_ROLLOUT = ("grpo", "gkd")
_SAMPLING = ("grpo", "gkd", "ppo")
READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("num_ppo_epochs", "whiten_rewards", "kl_coef", "cliprange", "vf_coef", "cliprange_value", "gamma", "lam", "num_mini_batches",
         "local_rollout_forward_batch_size", "num_sample_generations", "missing_eos_penalty"),
        ("ppo",),
    ),
    **dict.fromkeys(
        ("num_generations", "num_generations_eval", "reward_weights", "num_iterations", "epsilon", "epsilon_high", "delta", "reward_model_plugin",
         "chord_sft_dataset", "sync_ref_model", "ref_model_sync_steps", "ref_model_mixup_alpha", "max_turns", "gym_env", "dynamic_sample", "overlong_filter",
         "soft_max_length", "soft_cache_length", "scale_rewards", "top_entropy_quantile", "log_entropy", "importance_sampling_level", "tau_pos", "tau_neg",
         "advantage_estimator", "kl_in_reward", "teacher_kl_coef", "advantage_reweight", "sdar_loss_coef", "real_tau",
         "rollout_importance_sampling_mode", "off_policy_sequence_mask_delta", "cosine_max_len", "repetition_n_grams"),
        ("grpo",),
    ),
    **dict.fromkeys(
        ("sleep_level", "move_model_batches", "offload_model", "offload_optimizer", "async_generate", "generation_batch_size", "steps_per_generation",
         "structured_outputs_regex", "vllm_server_host", "vllm_server_base_url", "vllm_gpu_memory_utilization", "vllm_tensor_parallel_size",
         "vllm_max_model_len", "vllm_enable_lora", "offload_teacher_model", "log_completions"),
        _ROLLOUT,
    ),
    **dict.fromkeys(("lmbda", "gkd_logits_topk", "sft_alpha"), ("gkd",)),
    **dict.fromkeys(("rpo_alpha", "ld_alpha", "discopop_tau"), ("dpo",)),
    "label_smoothing": ("dpo", "cpo", "simpo"),
    **dict.fromkeys(("cpo_alpha", "simpo_gamma"), ("cpo", "simpo")),
    **dict.fromkeys(("desirable_weight", "undesirable_weight"), ("kto",)),
    "center_rewards_coefficient": ("rm",),
    **dict.fromkeys(("max_completion_length", "temperature"), _SAMPLING),
}  # fmt: skip


@rule("ALG301", "flag-of-another-algorithm", severity="info", consequence="waste", routes=("swift rlhf",), since="4.0")
def flag_of_another_algorithm(c: JobCheck) -> Iterator[Finding]:
    """A flag that the chosen `rlhf_type` never reads.

    All algorithms share one set of arguments, so ms-swift accepts every flag with every type and says nothing about the ones it does not use.

    In the log: nothing

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_generations 4 --epsilon_high 0.28
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --rpo_alpha 0.1
    ```

    Source: swift/trainers/trainer_factory.py:TrainerFactory.get_training_args (each trainer's configuration takes only the fields it has)
    """
    algorithm = kind(c)
    if algorithm is None:
        return
    unread: list[str] = []
    for name, readers in READERS.items():
        use = c.v.use(name)
        if use is None or use.maybe or algorithm in readers or use.value is UNKNOWN or use.value == c.v.flags[name].default:
            continue
        unread.append(name)
    if unread:
        template = "--rlhf_type {kind} does not read {unread} ({readers})"
        readers_text = "; ".join(f"{name}: {', '.join(READERS[name])}" for name in unread[:6])
        related = [(name, "not read") for name in unread[1:]]
        yield c.finding(
            template, unread[0], flags=unread, related=related, kind=algorithm, unread=names(f"--{name}" for name in unread), readers=readers_text,
            fix="remove " + names(f"--{name}" for name in unread),
        )  # fmt: skip


@rule("ALG302", "rewards-of-another-algorithm", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def rewards_of_another_algorithm(c: JobCheck) -> Iterator[Finding]:
    """Reward functions with an algorithm that has none.

    Only GRPO calls `--reward_funcs`. The preference algorithms learn from pairs, PPO from a reward model, GKD from a teacher: the functions never run.

    In the log: nothing

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF._get_trainer_kwargs
    """
    algorithm = kind(c)
    if algorithm is None or algorithm in ("grpo", "ppo"):  # PPO: ppo-needs-one-reward-model says it
        return
    functions = c.v.get("reward_funcs")
    if isinstance(functions, tuple) and functions:
        template = "--reward_funcs {functions} never run with --rlhf_type {kind}: only GRPO calls reward functions"
        yield c.finding(template, "reward_funcs", flags=["rlhf_type"], functions=names(functions), kind=algorithm, fix="--rlhf_type grpo, or remove --reward_funcs")


@rule("ALG303", "vllm-of-another-algorithm", severity="warning", consequence="waste", routes=("swift rlhf",), since="4.0")
def vllm_of_another_algorithm(c: JobCheck) -> Iterator[Finding]:
    """`use_vllm` with an algorithm that never starts vLLM.

    Only GRPO and GKD generate with vLLM. PPO generates with transformers, the preference algorithms and RM do not generate at all; a rollout server
    beside them stays idle.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift rlhf --rlhf_type ppo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm
    ```

    Source: swift/arguments/rlhf_args.py:rlhf_support_vllm_types
    """
    algorithm = kind(c)
    if algorithm is None or algorithm in _ROLLOUT or c.v.get("use_vllm") is not True:
        return
    how = "generates with transformers" if algorithm == "ppo" else "generates nothing"
    template = "--use_vllm true is not read with --rlhf_type {kind}, which {how}; vLLM serves GRPO and GKD only"
    yield c.finding(template, "use_vllm", flags=["rlhf_type", "vllm_mode"], kind=algorithm, how=how, fix=c.drop_flag("use_vllm"))


@rule("ALG304", "reward-model-of-another-algorithm", consequence="wrong", routes=("swift rlhf",), since="4.0")
def reward_model_of_another_algorithm(c: JobCheck) -> Iterator[Finding]:
    """A reward model with an algorithm that has no use for one.

    ms-swift loads it for every `rlhf_type` and hands it to the trainer. Only those of PPO and GRPO take it.

    In the log: `TypeError: Trainer.__init__() got an unexpected keyword argument 'reward_model'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model output/rm
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF._get_trainer_kwargs
    Not shown on CPU: the arguments are accepted; building the trainer raises
    """
    algorithm, models = kind(c), c.v.get("reward_model")
    if algorithm is None or algorithm in ("ppo", "grpo") or not isinstance(models, tuple) or not models:
        return
    template = "--reward_model with --rlhf_type {kind}: the model is loaded, and the trainer then stops at the argument; only PPO and GRPO take one"
    yield c.finding(template, "reward_model", flags=["rlhf_type"], kind=algorithm, fix=c.drop_flag("reward_model"))


@rule("ALG305", "reference-without-penalty", severity="warning", consequence="waste", routes=("swift rlhf",), since="4.0")
def reference_without_penalty(c: JobCheck) -> Iterator[Finding]:
    """A reference for GRPO, and `beta 0`.

    With `beta 0` there is no KL penalty, and ms-swift drops the reference model without a word. (GRPO's default is 0.04.)

    In the log: no `kl`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type full --beta 0 --ref_model output/sft
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type full --beta 0.04 --ref_model output/sft
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments.__post_init__
    """
    if kind(c) != "grpo" or c.v.get("beta") != 0:
        return
    for name in ("ref_model", "ref_adapters"):
        if c.v.written(name):
            template = "--{name} is not used: --beta 0 has no KL penalty; give a beta above 0 (0.04 is the default), or drop the reference"
            yield c.finding(template, name, flags=["beta"], name=name, related=[("beta", "0 here")], fix=c.drop_flag(name))
