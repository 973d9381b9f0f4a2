"""Reinforcement learning on Megatron."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .mcore import sizes, whole
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

RLHF = ("megatron rlhf",)
VIRTUAL = "virtual_pipeline_model_parallel_size"


@rule("MEG401", "megatron-grpo-unsupported", routes=RLHF, since="3.11")
def unsupported(c: JobCheck) -> Iterator[Finding]:
    """A GRPO feature of the Hugging Face trainer that Megatron does not have.

    Asynchronous generation, a reference model that follows the policy, and several optimizer passes over one rollout are refused.

    In the log: `ValueError: num_iterations > 1 is not supported for Megatron GRPO right now`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --vllm_mode colocate --global_batch_size 64 --num_iterations 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --vllm_mode colocate --global_batch_size 64 --steps_per_generation 2
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._init_grpo
    """
    if c.v.rlhf_type != "grpo":
        return
    for name in ("async_generate", "sync_ref_model"):
        if c.v.get(name) is True:
            yield c.finding("--{name} is not supported by Megatron GRPO", name, flags=["rlhf_type"], name=name, fix=c.drop_flag(name))
    passes = whole(c.v.get("num_iterations"))
    if passes is not None and passes > 1:
        fix = c.drop_flag("num_iterations", "remove --num_iterations; to use a rollout for several optimizer steps set --steps_per_generation")
        yield c.finding("--num_iterations {passes} is not supported by Megatron GRPO: it must be 1", "num_iterations", flags=["rlhf_type"], passes=passes, fix=fix)


@rule("MEG402", "megatron-grpo-needs-vllm", routes=RLHF, since="3.11")
def needs_vllm(c: JobCheck) -> Iterator[Finding]:
    """Megatron GRPO without vLLM.

    Megatron has no generation of its own here; `--use_vllm` is on by default.

    In the log: `AssertionError: use_vllm must be True for Megatron GRPO`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --global_batch_size 64 --use_vllm false
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --global_batch_size 64 --vllm_mode colocate
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._init_grpo
    """
    if c.v.rlhf_type == "grpo" and c.job.ray is None and c.v.get("use_vllm") is False and c.v.get("use_ray") is False:
        yield c.finding("--use_vllm false: Megatron GRPO generates with vLLM only", "use_vllm", flags=["vllm_mode"], fix=c.set_flag("use_vllm", "true", "--use_vllm true --vllm_mode colocate|server"))


@rule("MEG403", "megatron-vllm-mode-missing", consequence="wrong", routes=RLHF, since="3.12")
def vllm_mode(c: JobCheck) -> Iterator[Finding]:
    """Rollouts on Megatron without `--vllm_mode`.

    `--use_vllm` is on by default, the mode has no default, and nothing checks it before the model is loaded. GKD with `--lmbda 0` never generates and needs
    none.

    In the log: `ValueError: Invalid vllm_mode: None`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --global_batch_size 64
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --global_batch_size 64 --vllm_mode colocate
    ```

    Source: swift/megatron/trainers/rollout_mixin.py:MegatronRolloutMixin._init_rollout_engine
    Not shown on CPU: it is checked after the model is loaded
    """
    kind = c.v.rlhf_type
    if kind not in ("grpo", "gkd") or c.job.ray is not None or c.v.get("use_vllm") is not True or not c.v.absent("vllm_mode"):
        return
    if kind == "gkd" and c.v.get("lmbda") in (0, UNKNOWN):
        return
    if c.v.get("vllm_mode", "") is not None:
        return  # versions in which it had a default
    yield c.finding(
        "{kind} generates with vLLM (use_vllm is true by default) but --vllm_mode is not given: it fails once the model is loaded", "use_vllm" if c.v.written("use_vllm") else "rlhf_type",
        flags=["vllm_mode"], kind=str(kind).upper(), fix=c.set_flag("vllm_mode", "server" if c.v.written("vllm_server_host") or c.v.written("vllm_server_base_url") else "colocate"),
    )  # fmt: skip


@rule("MEG404", "megatron-rlhf-flag-ignored", severity="warning", consequence="wrong", routes=RLHF, since="3.11")
def ignored(c: JobCheck) -> Iterator[Finding]:
    """A flag of GRPO or GKD that Megatron accepts and does not read.

    Reward models and the chunked weight transfer exist in the parser only. A run whose only reward is a reward model trains with reward 0.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs format --vllm_mode colocate --global_batch_size 64 --reward_model Qwen/Qwen2.5-Math-RM-72B
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs format --vllm_mode colocate --global_batch_size 64
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin (not supported yet); swift/megatron/trainers/grpo_trainer.py:_prepare_rewards
    """
    if c.v.rlhf_type not in ("grpo", "gkd"):
        return
    hints = {
        "reward_model": "score with it inside a reward function (--external_plugins), for example through a served model",
        "move_model_batches": "use --offload_model and --offload_optimizer to save memory",
    }
    for name, hint in hints.items():
        value = c.v.get(name)
        if c.v.written(name) and value not in (None, (), UNKNOWN):
            shown = names(value) if isinstance(value, tuple) else str(value)
            yield c.finding("--{name} {value} is not read by Megatron {kind}: {hint}", name, flags=["rlhf_type"], name=name, value=shown, kind=str(c.v.rlhf_type).upper(), hint=hint, fix=c.drop_flag(name))


@rule("MEG405", "megatron-rlhf-virtual-pipeline", consequence="wrong", routes=RLHF, since="3.11")
def virtual(c: JobCheck) -> Iterator[Finding]:
    """Virtual pipeline stages in GRPO or with a teacher.

    The reference log-probabilities and those of a local teacher are computed over one model chunk a rank; several chunks stop at an assertion.

    In the log: `AssertionError: GRPO currently does not support VPP.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --vllm_mode colocate --global_batch_size 64 --pipeline_model_parallel_size 2 --virtual_pipeline_model_parallel_size 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --vllm_mode colocate --global_batch_size 64 --pipeline_model_parallel_size 2
    ```

    Source: swift/megatron/trainers/grpo_trainer.py:_maybe_compute_logps; swift/megatron/trainers/rollout_mixin.py:_load_teacher_model; swift/ray/megatron/gkd_trainer.py
    Not shown on CPU: without Ray it is raised by the first step or while the teacher is loaded
    """
    s = sizes(c)
    if s.virtual is None or s.virtual < 2 or s.pipeline == 1:
        return
    kind, beta, teacher = c.v.rlhf_type, c.v.get("beta"), c.v.get("teacher_model")
    at = VIRTUAL if c.v.written(VIRTUAL) else "pipeline_model_parallel_layout"
    who = None
    if kind == "grpo" and isinstance(beta, (int, float)) and beta != 0:
        who = "the reference model of GRPO"
    elif kind in ("grpo", "gkd") and isinstance(teacher, str) and not (c.v.get("tuner_type") != "full" and teacher == c.v.get("model")):
        who = "a local teacher"
    elif kind == "gkd" and c.job.ray is not None:
        who = "GKD on Ray"
    if who is not None:
        yield c.finding("{who} does not support virtual pipeline stages ({virtual} here)", at, flags=["rlhf_type"], who=who, virtual=s.virtual, fix=c.drop_flag(at))
