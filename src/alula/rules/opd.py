"""Distillation inside GRPO: OPD-RL (a teacher's log-ratio as advantage), RLSD and SDAR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .registry import RLHF, rule
from .rl import empty, explicit_teacher, given, kind, number

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import JobCheck


@rule("ALG201", "opd-rl-incompatible", routes=RLHF, since="4.4")
def opd_rl_incompatible(c: JobCheck) -> Iterator[Finding]:
    """A teacher on GRPO beside an option that it excludes.

    A teacher turns GRPO into OPD-RL: its log-ratio to the policy is added to the advantage of every token. Losses that need one advantage a sequence
    (real, fipo, the off-policy sequence mask) do not fit, nor does Liger's fused loss; and without reward functions there is no spread of rewards for
    `dynamic_sample` and `scale_rewards gdpo` to work on.

    In the log: `ValueError: OPD-RL (teacher) does not support loss_type='fipo' …` (or the like)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --teacher_model Qwen/Qwen3-32B --dataset data.jsonl --dynamic_sample true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --teacher_model Qwen/Qwen3-32B --dataset data.jsonl
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_opd_rl, _check_teacher; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._check_opd_rl
    """
    if kind(c) != "grpo" or not explicit_teacher(c.v):
        return
    teacher = "teacher_model" if c.v.written("teacher_model") else "teacher_model_server"
    related = [(teacher, "the teacher")]
    loss = c.v.get("loss_type")
    if loss in ("real", "fipo"):
        template = "--loss_type {loss} needs one advantage a sequence; with a teacher the advantage is per token: use grpo, bnpo, dr_grpo, dapo, cispo or sapo"
        yield c.finding(template, "loss_type", flags=[teacher], related=related, loss=loss, fix=c.set_flag("loss_type", "grpo"))
    if number(c.v.get("off_policy_sequence_mask_delta")) is not None:
        template = "--off_policy_sequence_mask_delta needs one advantage a sequence; with a teacher the advantage is per token: drop it"
        fix = c.drop_flag("off_policy_sequence_mask_delta")
        yield c.finding(template, "off_policy_sequence_mask_delta", flags=[teacher], related=related, fix=fix)
    if c.v.get("use_liger_kernel") is True and not c.v.megatron:
        template = "--use_liger_kernel true is refused with a teacher: Liger's GRPO loss has no teacher term"
        yield c.finding(template, "use_liger_kernel", flags=[teacher], related=related, fix=c.set_flag("use_liger_kernel", "false"))
    if not empty(c.v.get("reward_funcs")):
        return
    if c.v.get("dynamic_sample") is True:
        template = "--dynamic_sample true filters groups by the spread of their rewards, but there are no --reward_funcs (pure distillation): drop it"
        yield c.finding(template, "dynamic_sample", flags=["reward_funcs", teacher], related=related, fix=c.set_flag("dynamic_sample", "false"))
    if c.v.get("scale_rewards") == "gdpo":
        template = "--scale_rewards gdpo normalises each reward function, but there are no --reward_funcs (pure distillation): use group or none"
        yield c.finding(template, "scale_rewards", flags=["reward_funcs", teacher], related=related, fix=c.set_flag("scale_rewards", "group"))


@rule("ALG202", "rlsd-incompatible", routes=("swift rlhf",), since="4.5")
def rlsd_incompatible(c: JobCheck) -> Iterator[Finding]:
    """`advantage_reweight rlsd` beside what it cannot work with.

    RLSD weighs the tokens of a GRPO advantage by how much more likely they are for a teacher that sees the answer. It needs reward functions for the
    sign of the advantage, `rlsd_lambda` within 0 … 1 and a clip range of at least 0, and takes a local teacher or the policy itself, never a server.

    In the log: `ValueError: advantage_reweight=rlsd requires reward_funcs …` (or the like)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --advantage_reweight rlsd --rlsd_lambda 1.5
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --advantage_reweight rlsd --rlsd_lambda 0.5
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_rlsd
    """
    if kind(c) != "grpo" or c.v.get("advantage_reweight") != "rlsd":
        return
    share, clip = number(c.v.get("rlsd_lambda")), number(c.v.get("rlsd_reweight_clip_range"))
    if share is not None and not 0.0 <= share <= 1.0:
        template = "--rlsd_lambda {share} must lie within 0 … 1 (0 is plain GRPO, 1 full reweighting)"
        yield c.finding(template, "rlsd_lambda", share=share, fix=c.set_flag("rlsd_lambda", "0.5"))
    if clip is not None and clip < 0:
        yield c.finding("--rlsd_reweight_clip_range {clip} must be 0 or more", "rlsd_reweight_clip_range", clip=clip, fix=c.set_flag("rlsd_reweight_clip_range", "0.2"))
    if empty(c.v.get("reward_funcs")):
        template = "--advantage_reweight rlsd needs --reward_funcs: it weighs tokens by the sign of a reward's advantage"
        yield c.finding(template, "advantage_reweight", flags=["reward_funcs"], fix="--reward_funcs accuracy|…")
    yield from _excluded(c, "--advantage_reweight rlsd", "advantage_reweight")
    loss = c.v.get("loss_type")
    if loss in ("real", "fipo"):
        template = "--advantage_reweight rlsd weighs single tokens; --loss_type {loss} reduces the advantage to one number a sequence"
        yield c.finding(template, "loss_type", flags=["advantage_reweight"], loss=loss, fix=c.set_flag("loss_type", "grpo"))
    if number(c.v.get("off_policy_sequence_mask_delta")) is not None:
        template = "--advantage_reweight rlsd is refused with --off_policy_sequence_mask_delta"
        fix = c.drop_flag("off_policy_sequence_mask_delta")
        yield c.finding(template, "off_policy_sequence_mask_delta", flags=["advantage_reweight"], fix=fix)


@rule("ALG203", "sdar-incompatible", routes=("swift rlhf",), since="4.5")
def sdar_incompatible(c: JobCheck) -> Iterator[Finding]:
    """`sdar_loss_coef` above 0 beside what it cannot work with.

    SDAR adds a gated distillation loss to GRPO's. The gate's slope `sdar_gate_beta` must be above 0; Liger's fused loss, RLSD and a teacher server are
    excluded.

    In the log: `ValueError: sdar_gate_beta must be > 0` (or the like)

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --sdar_loss_coef 0.1 --advantage_reweight rlsd
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --sdar_loss_coef 0.1
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_sdar
    """
    coefficient, slope = number(c.v.get("sdar_loss_coef")), number(c.v.get("sdar_gate_beta"))
    if kind(c) != "grpo" or coefficient is None or coefficient <= 0:
        return
    if slope is not None and slope <= 0:
        yield c.finding("--sdar_gate_beta {slope} must be above 0", "sdar_gate_beta", slope=slope, fix=c.set_flag("sdar_gate_beta", "5.0"))
    if c.v.get("advantage_reweight") == "rlsd":
        template = "--sdar_loss_coef {coefficient} and --advantage_reweight rlsd are two ways to distil; take one"
        fix = c.drop_flag("advantage_reweight")
        yield c.finding(template, "sdar_loss_coef", flags=["advantage_reweight"], coefficient=coefficient, fix=fix)
    yield from _excluded(c, f"--sdar_loss_coef {coefficient}", "sdar_loss_coef")


def _excluded(c: JobCheck, what: str, flag: str) -> Iterator[Finding]:
    """What RLSD and SDAR both refuse."""
    if c.v.get("use_liger_kernel") is True:
        template = "{what} is refused with --use_liger_kernel true: the fused loss skips the term it adds"
        yield c.finding(template, "use_liger_kernel", flags=[flag], what=what, fix=c.set_flag("use_liger_kernel", "false"))
    if isinstance(given(c.v, "teacher_model_server"), str):
        template = "{what} takes no --teacher_model_server; give a local --teacher_model, or none (the policy itself is the teacher)"
        yield c.finding(template, "teacher_model_server", flags=[flag], what=what, fix=c.drop_flag("teacher_model_server"))
