"""GRPO's own switches: what it refuses, and what starts but teaches nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import empty, explicit_teacher, given, kind, minor, number, server_mode, set_to, whole, words

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.swift.effective import View

CHORD_NEEDS = ("chord_sft_per_device_train_batch_size", "chord_mu_warmup_steps", "chord_mu_decay_steps", "chord_mu_peak", "chord_mu_valley")


@rule("ALG101", "grpo-cached-dataset", routes=("swift rlhf",))
def grpo_cached_dataset(c: JobCheck) -> Iterator[Finding]:
    """GRPO with a cached (already tokenised) data set.

    GRPO needs the raw rows: rewards read their columns, and prompts are encoded for every rollout.

    In the log: `ValueError: cached_dataset is not supported for GRPO.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --cached_dataset cache/math --reward_funcs accuracy
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data/math.jsonl --reward_funcs accuracy
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_grpo
    """
    if kind(c) != "grpo":
        return
    for name in ("cached_dataset", "cached_val_dataset"):
        if words(c.v.get(name)):
            template = "--{name} is refused by GRPO, which needs the raw rows; give the original data as --{raw}"
            raw = "dataset" if name == "cached_dataset" else "val_dataset"
            yield c.finding(template, name, name=name, raw=raw, fix=f"--{raw} <rows> in place of --{name}")


@rule("ALG102", "grpo-truncation-strategy", routes=RLHF)
def grpo_truncation_strategy(c: JobCheck) -> Iterator[Finding]:
    """GRPO cuts prompts on the left or drops them, nothing else.

    `delete` draws another row in place of one that is too long, `left` (the default) keeps the end of the prompt.

    In the log: `ValueError: GRPO requires truncation_strategy 'left' or 'delete'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --truncation_strategy right
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --truncation_strategy delete
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_grpo; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._init_grpo
    """
    strategy = c.v.get("truncation_strategy")
    if kind(c) == "grpo" and strategy in ("right", "split"):
        template = "--truncation_strategy {strategy}: GRPO takes left or delete only"
        yield c.finding(template, "truncation_strategy", strategy=strategy, fix=c.set_flag("truncation_strategy", "delete"))


@rule("ALG103", "soft-overlong-without-cache", routes=RLHF)
def soft_overlong_without_cache(c: JobCheck) -> Iterator[Finding]:
    """The reward `soft_overlong` without `soft_cache_length`.

    The penalty rises over the last `soft_cache_length` tokens before `soft_max_length` (the completion limit by default), so it must be given, and
    be shorter than that limit. DAPO used 4096 of 20480 tokens.

    In the log: `AssertionError: The soft_cache_length must be set when using soft overlong rewards.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy soft_overlong --max_completion_length 8192
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy soft_overlong --max_completion_length 8192 --soft_cache_length 2048
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_grpo; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._init_grpo
    """
    if kind(c) == "grpo" and "soft_overlong" in words(c.v.get("reward_funcs")) and c.v.get("soft_cache_length") is None:
        limit = whole(c.v.get("soft_max_length")) or whole(c.v.get("max_completion_length")) or 0
        value = max(limit // 4, 1)
        template = "the reward soft_overlong needs --soft_cache_length, the tokens before the limit of {limit} over which the penalty rises"
        yield c.finding(template, "reward_funcs", flags=["soft_cache_length"], limit=limit, fix=c.set_flag("soft_cache_length", str(value)))


@rule("ALG104", "one-generation", routes=("swift rlhf",))
def one_generation(c: JobCheck) -> Iterator[Finding]:
    """GRPO with one completion a prompt and no teacher.

    The advantage of a completion is its distance from the group's mean: a group of one has none. Only distillation (a teacher) works with one.

    In the log: `ValueError: num_generations must be greater than 1 for GRPO`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 8
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_teacher
    """
    if kind(c) == "grpo" and whole(c.v.get("num_generations")) == 1 and explicit_teacher(c.v) is False:
        template = "--num_generations 1: GRPO compares the completions of one prompt and needs at least 2 (8 is the default)"
        yield c.finding(template, "num_generations", fix=c.set_flag("num_generations", "8"))


@rule("ALG105", "no-generation", consequence="wrong", routes=("swift rlhf",))
def no_generation(c: JobCheck) -> Iterator[Finding]:
    """`num_generations` of 0 or less.

    The parser takes any number, and only numbers above 1 are checked against the batch. The sampler then divides by it.

    In the log: `ZeroDivisionError: integer division or modulo by zero`, once the trainer is built

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 8
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._get_train_sampler
    Not shown on CPU: the arguments are accepted; building the trainer raises
    """
    count = whole(c.v.get("num_generations"))
    if kind(c) == "grpo" and count is not None and count <= 0:
        yield c.finding("--num_generations {count}: must be at least 2 (8 is the default)", "num_generations", count=count, fix=c.set_flag("num_generations", "8"))


@rule("ALG106", "liger-exclusions", routes=("swift rlhf",), since="4.0")
def liger_exclusions(c: JobCheck) -> Iterator[Finding]:
    """Liger's fused GRPO loss beside an option that it does not implement.

    The fused loss computes GRPO's plain objective chunk by chunk and has no room for two-sided clipping, entropy masks, packed rows, sequence parallelism
    or other advantage estimators. Give up one of the two.

    In the log: `ValueError: Liger loss does not support padding free yet.` (or the like)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_liger_kernel true --log_entropy true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --log_entropy true
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_grpo
    """
    if kind(c) != "grpo" or c.v.get("use_liger_kernel") is not True:
        return
    parallel, quantile = whole(c.v.get("sequence_parallel_size")), number(c.v.get("top_entropy_quantile"))
    clashes: dict[str, bool] = {
        "delta": number(c.v.get("delta")) is not None,
        "sequence_parallel_size": parallel is not None and parallel > 1,
        "padding_free": c.v.get("padding_free") is True,
        "packing": c.v.get("packing") is True,
        "top_entropy_quantile": quantile is not None and quantile < 1.0,
        "log_entropy": c.v.get("log_entropy") is True,
        "off_policy_sequence_mask_delta": number(c.v.get("off_policy_sequence_mask_delta")) is not None,
        "importance_sampling_level": c.v.get("importance_sampling_level") == "sequence_token",
        "advantage_estimator": c.v.get("advantage_estimator") in ("rloo", "reinforce_plus_plus"),
    }
    found = [name for name, clash in clashes.items() if clash]
    if found:
        shown = names(f"--{name} {_text(c.v, name)}" for name in found)
        template = "--use_liger_kernel true is refused with {shown}: Liger's GRPO loss does not implement it; drop one of them"
        related = [(name, "not with Liger") for name in found]
        yield c.finding(template, "use_liger_kernel", flags=found, related=related, shown=shown, fix=c.set_flag("use_liger_kernel", "false"))


def _text(v: View, name: str) -> str:
    value = v.get(name)
    return str(value).lower() if isinstance(value, bool) else str(value)


@rule("ALG107", "no-reward-source", consequence="wrong", routes=RLHF)
def no_reward_source(c: JobCheck) -> Iterator[Finding]:
    """GRPO without anything that scores completions.

    Rewards come from `--reward_funcs`, a `--reward_model` (not on Megatron), a gym environment, or a teacher. Older versions raise; since 4.4 the check
    cannot be reached any more, and the run trains on a reward of 0: every advantage is 0, and only the KL term moves the model.

    In the log: `reward: 0.0, reward_std: 0.0` from the first step; before 4.4 `ValueError: You must specify reward_funcs or reward_model`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --reward_funcs accuracy
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer.__init__; swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._setup_teacher
    Not shown on CPU: the arguments are accepted; the rewards are 0
    """
    if kind(c) != "grpo" or not empty(c.v.get("reward_funcs")) or explicit_teacher(c.v) is not False:
        return
    if not c.v.megatron and c.v.get("reward_model") is not None:
        return
    gym = c.v.get("use_gym_env")
    if gym is UNKNOWN or gym is True:
        return
    server = _gym_of_server(c)
    if gym is None and server is True:
        return
    megatron = "" if not c.v.megatron or not set_to(c.v, "reward_model") else " (--reward_model is not read on Megatron)"
    where = " and the rollout server of this run starts no gym environment" if server is False else ""
    template = (
        "nothing scores the completions: no --reward_funcs, reward model, gym environment or teacher{where}{megatron}, so every reward is 0; "
        "give --reward_funcs, or --use_gym_env true with --gym_env and a gym scheduler on the rollout side"
    )
    finding = c.finding(
        template, "rlhf_type", flags=["reward_funcs", "reward_model", "use_gym_env"], where=where, megatron=megatron,
        fix="--reward_funcs accuracy|format|… (or names that --external_plugins registers)",
    )  # fmt: skip
    unsure = (server is None and server_mode(c.v) and gym is None) or set_to(c.v, "external_plugins")  # a server's gym, or rows with teacher_prompt
    yield replace(finding, severity="warning", confidence="medium") if unsure else finding


def _gym_of_server(c: JobCheck) -> bool | None:
    """Whether a rollout server of this run brings a gym environment; None where there is none to look at."""
    if not server_mode(c.v) or not c.whole.servers:
        return None
    values = [view.get("use_gym_env") for view in c.whole.servers]
    return True if True in values else None if UNKNOWN in values else False


@rule("ALG108", "cispo-clips-everything", severity="warning", consequence="wrong", routes=RLHF, since="4.0")
def cispo_clips_everything(c: JobCheck) -> Iterator[Finding]:
    """CISPO with an upper clip below 1.

    CISPO cuts the importance ratio itself at `epsilon_high` (the other losses cut at 1 + epsilon). On-policy the ratio is 1, so with the default of 0.2
    every token is cut to 0.2 and the gradient is a fifth of what it should be. The paper's value is around 5.

    In the log: `cispo_clip_ratio` near 1

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type cispo
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --loss_type cispo --epsilon_high 5.0
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._compute_loss_and_metrics
    """
    if kind(c) != "grpo" or c.v.get("loss_type") != "cispo" or c.v.get("epsilon_high") is UNKNOWN:
        return
    high = number(c.v.get("epsilon_high"))
    name = "epsilon_high" if high is not None else "epsilon"
    limit = high if high is not None else number(c.v.get("epsilon"))
    if limit is not None and limit < 1:
        template = (
            "loss_type cispo cuts the importance ratio at {name} {limit}, below the ratio of 1 that on-policy tokens have: every gradient is scaled by "
            "{limit}; give --epsilon_high of 1 or more, such as 5.0"
        )
        yield c.finding(template, name, flags=["epsilon_high", "loss_type"], name=name, limit=limit, fix=c.set_flag("epsilon_high", "5.0"))


@rule("ALG109", "best-model-by-loss", severity="warning", consequence="wrong", routes=("swift rlhf",))
def best_model_by_loss(c: JobCheck) -> Iterator[Finding]:
    """The best checkpoint of GRPO chosen by its loss.

    GRPO's loss is near 0 on-policy and says nothing about quality. `load_best_model_at_end`, `early_stop_interval` and the `best` link need the reward,
    which is the default, except in 4.0 and 4.1.

    In the log: `best_metric` of the size of the loss

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --reward_funcs accuracy --load_best_model_at_end true --metric_for_best_model loss
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --val_dataset val.jsonl --reward_funcs accuracy --load_best_model_at_end true --metric_for_best_model reward
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_metric_for_best_model
    """
    metric, version = given(c.v, "metric_for_best_model"), minor(c)
    if kind(c) != "grpo" or not (c.v.get("load_best_model_at_end") is True or whole(c.v.get("early_stop_interval"))):
        return
    if metric in ("loss", "eval_loss"):
        template = "--metric_for_best_model {metric}: GRPO's loss does not measure quality; use reward with --greater_is_better true"
        yield c.finding(template, "metric_for_best_model", metric=metric, fix=c.set_flag("metric_for_best_model", "reward"))
    elif metric is None and (4, 0) <= version <= (4, 1):
        template = "ms-swift {version} measures the best GRPO model by its loss unless told otherwise; add --metric_for_best_model reward --greater_is_better true"
        at = "load_best_model_at_end" if c.v.use("load_best_model_at_end") is not None else "early_stop_interval"
        yield c.finding(template, at, flags=["metric_for_best_model", "greater_is_better"], version=c.facts.version, fix=c.set_flag("metric_for_best_model", "reward"))


@rule("ALG110", "no-iteration", consequence="wrong", routes=("swift rlhf",))
def no_iteration(c: JobCheck) -> Iterator[Finding]:
    """`num_iterations` below 1: a rollout would never be trained on.

    `num_iterations` is how often each rollout is gone through; 1 is plain GRPO. Nothing checks it.

    In the log: with `--max_steps` nothing, the run ends well at step 0; else `ValueError: args.max_steps must be set to a positive value …`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_iterations 0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_iterations 1
    ```

    Source: trl/trainer/utils.py:RepeatSampler; swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._get_train_sampler
    Not shown on CPU: the arguments are accepted; the sampler gives no batch
    """
    count = whole(c.v.get("num_iterations"))
    if kind(c) == "grpo" and count is not None and count < 1:
        yield c.finding("--num_iterations {count}: must be at least 1", "num_iterations", count=count, fix=c.set_flag("num_iterations", "1"))


@rule("ALG111", "gdpo-drops-kl-in-reward", severity="warning", consequence="wrong", routes=RLHF, since="4.0")
def gdpo_drops_kl_in_reward(c: JobCheck) -> Iterator[Finding]:
    """`scale_rewards gdpo` with the KL penalty in the reward.

    GDPO normalises each reward function alone and has no place for the penalty: ms-swift moves it back into the loss, whatever was asked.

    In the log: `GDPO mode does not support kl_in_reward=True. Setting kl_in_reward=False.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format --scale_rewards gdpo --kl_in_reward true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format --scale_rewards gdpo
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_algorithm_params
    """
    if kind(c) != "grpo" or c.v.get("scale_rewards") != "gdpo" or c.v.get("kl_in_reward") is not True or c.v.get("beta") == 0:
        return
    at = "kl_in_reward" if c.v.written("kl_in_reward") else "advantage_estimator"
    template = "scale_rewards gdpo switches kl_in_reward off ({why}); the KL penalty goes into the loss"
    why = "--kl_in_reward true is overridden" if at == "kl_in_reward" else f"the default of advantage_estimator {c.v.get('advantage_estimator')} is true"
    yield c.finding(template, at, flags=["scale_rewards", "kl_in_reward"], why=why, fix=c.set_flag("kl_in_reward", "false"))


@rule("ALG112", "two-sided-clip-too-low", severity="warning", consequence="wrong", routes=RLHF, since="4.0")
def two_sided_clip_too_low(c: JobCheck) -> Iterator[Finding]:
    """`delta` at or below the ordinary upper clip.

    `delta` is the second, far bound for tokens with a negative advantage. At or below 1 + epsilon_high it takes the place of the ordinary clip.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --delta 1.1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --delta 4.0
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._compute_loss_and_metrics
    """
    delta = number(c.v.get("delta"))
    high = c.v.get("epsilon_high")
    bound = number(c.v.get("epsilon") if high is None else high)
    if kind(c) == "grpo" and delta is not None and bound is not None and delta <= 1 + bound:
        template = "--delta {delta} is not above 1 + epsilon_high = {limit}: it replaces the ordinary clip; use a value well above, such as 4.0"
        yield c.finding(template, "delta", flags=["epsilon_high"], delta=delta, limit=round(1 + bound, 6), fix=c.set_flag("delta", "4.0"))


@rule("ALG113", "chord-incomplete", consequence="wrong", routes=("swift rlhf",), since="4.0")
def chord_incomplete(c: JobCheck) -> Iterator[Finding]:
    """CHORD's SFT data without its batch size and schedule.

    None of them has a default: without the batch size the data loader refuses, without the schedule the first loss compares a step with None.

    In the log: `ValueError: batch_size=None option disables auto-batching …`, or `TypeError: '<' not supported between instances of 'int' and 'NoneType'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --chord_sft_dataset sft.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --chord_sft_dataset sft.jsonl --chord_sft_per_device_train_batch_size 1 --chord_mu_warmup_steps 0 --chord_mu_decay_steps 200 --chord_mu_peak 0.9 --chord_mu_valley 0.05
    ```

    Source: swift/rlhf_trainers/utils.py:mu_schedule_function, get_chord_sft_dataloader
    Not shown on CPU: the arguments are accepted; building the trainer, or the first loss, raises
    """
    if kind(c) != "grpo" or not words(c.v.get("chord_sft_dataset")):
        return
    missing = [name for name in CHORD_NEEDS if c.v.get(name) is None]
    if missing:
        template = "--chord_sft_dataset needs {missing}, which have no defaults"
        fix = "--chord_sft_per_device_train_batch_size 1 --chord_mu_warmup_steps 0 --chord_mu_decay_steps 200 --chord_mu_peak 0.9 --chord_mu_valley 0.05"
        yield c.finding(template, "chord_sft_dataset", flags=missing, missing=names(f"--{name}" for name in missing), fix=fix)
