"""Megatron on Ray: keys that nothing reads, and teachers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches
from alula.swift.ray import ROLES, RayPlan, ray_plan

from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.source import Token

    from .context import JobCheck

ROUTE = ("megatron rlhf",)
_DRIVER = ("rlhf_type", "colocate_groups", "nnodes", "sleep_level", "ENV", *ROLES)
_ENGINE = ("model", "sleep_level", "trust_remote_code", "dtype", "load_format")
"""Keys of VllmEngineConfig beside the vllm_ ones (swift/ray/megatron/rollout/replica.py)."""
_DEFAULT_LOGPROBS = 20  # vLLM's max_logprobs


def _flags(c: JobCheck) -> set[str]:
    """Names that the trainer's parser or an engine reads."""
    rollout = c.facts.flags("swift rollout") if "swift rollout" in c.facts.routes else {}
    return {*c.v.flags, *(name for name in rollout if name.startswith("vllm_"))}


@rule("RAY012", "ray-unknown-key", consequence="wrong", routes=ROUTE, since="4.3")
def unknown_key(c: JobCheck) -> Iterator[Finding]:
    """A key of a Ray config that nothing reads.

    Anywhere else an unknown flag stops ms-swift; here it is a warning among thousands of lines, and in a rollout or teacher group not even that. The run
    then trains with the default.

    In the log: `parse_args_from_dict: unrecognised args: ['--num_generatons', '16']`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    num_generatons: 16
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 128
    num_generations: 16
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/driver_utils.py:parse_args_from_dict
    Not shown on CPU: it is no more than a warning
    """
    plan = ray_plan(c.v)
    if plan is None:
        return
    known = _flags(c)
    left = {token.text[2:] for token in c.v.parsed.extras if token.text.startswith("--")}  # not so what argparse takes for an abbreviation
    for name, token in plan.spec.top.items():
        if (name in left and name not in _DRIVER) or (name == "gpus" and plan.gpus["train"]):
            yield _unknown(c, name, token, "", known | set(_DRIVER))
    for role, group in plan.spec.groups.items():
        for name, token in group.keys.items():
            if name not in ("gpus", "colocate_groups", "nnodes") and (name in left if role == "train" else name not in known):
                yield _unknown(c, name, token, f"{role}.", known | {"gpus"})


def _unknown(c: JobCheck, name: str, token: Token, where: str, known: set[str]) -> Finding:
    close = get_close_matches(name, sorted(known), 1, 0.75)
    hint = f"; did you mean {close[0]}?" if close else ""
    if name == "gpus":
        hint = "; GPUs are counted in each group"
    fix = f"{close[0]} instead of {name}" if close else f"remove {where}{name}"
    return c.finding("{where}{name} is read by nothing: ms-swift only warns of it{hint}", token, flags=[name, *close], where=where, name=name, hint=hint, fix=fix)


@rule("RAY013", "ray-vllm-mode-contradicts-layout", severity="warning", consequence="wrong", routes=ROUTE, since="4.3")
def vllm_mode(c: JobCheck) -> Iterator[Finding]:
    """`vllm_mode` in a Ray config that is laid out otherwise.

    On Ray the layout is decided by `colocate_groups` alone: with `[train, rollout]` the engines share the trainer's GPUs, without it they have their own.
    `vllm_mode` is not read, so that it only misleads whoever reads the file.

    In the log: nothing

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    vllm_mode: colocate
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/pipeline.py:MegatronRayPipeline._is_rollout_hybrid
    """
    plan = ray_plan(c.v)
    mode = c.v.get("vllm_mode")
    if plan is None or not isinstance(mode, str) or not plan.gpus["rollout"]:
        return
    real = "share the trainer's GPUs (colocate_groups has train and rollout)" if plan.hybrid else "have GPUs of their own (no colocate_groups with train and rollout)"
    if mode == "server" or (mode == "colocate") != plan.hybrid:
        fix = "remove vllm_mode" + ("" if plan.hybrid or mode != "colocate" else ", or add colocate_groups: [[train, rollout]]")
        yield c.finding("vllm_mode {mode} is not read on Ray, and contradicts the layout: the engines {real}", "vllm_mode", flags=["colocate_groups"], mode=mode, real=real, fix=fix)


@rule("RAY014", "ray-key-in-wrong-place", severity="warning", consequence="wrong", routes=ROUTE, since="4.3")
def misplaced(c: JobCheck) -> Iterator[Finding]:
    """A key of a Ray config in a group that does not read it.

    `sleep_level` and `nnodes` are taken from the top level only. Engines read `vllm_…` keys from their own group and the top level, not from `train`; and
    they read nothing of what concerns training.

    In the log: nothing

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8, vllm_tensor_parallel_size: 2}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8, vllm_tensor_parallel_size: 2}
    ```

    Source: swift/ray/megatron/driver_utils.py:parse_ray_yaml; swift/ray/megatron/rollout/replica.py:VllmEngineConfig.from_rollout_cfg
    """
    plan = ray_plan(c.v)
    if plan is None:
        return
    known = _flags(c)
    for role, group in plan.spec.groups.items():
        for name, token in group.keys.items():
            if name in ("sleep_level", "nnodes", "colocate_groups", "rlhf_type"):
                yield c.finding("{name} is read at the top level only, not in {role}", token, flags=[name, role], name=name, role=role, fix=f"move {name} to the top level")
            elif role == "train" and name.startswith("vllm_") and name in known and plan.gpus["rollout"]:
                yield c.finding("{name} in train is not read: engines read their own group and the top level", token, flags=[name, "rollout"], name=name, fix=f"move {name} into rollout")
            elif role != "train" and name in known and not name.startswith("vllm_") and name not in _ENGINE and not _also_for_engine(name):
                yield c.finding("{name} in {role} is not read: engines take vllm_… keys and the model", token, flags=[name, role], name=name, role=role, fix=f"move {name} to the top level or into train")


def _also_for_engine(name: str) -> bool:
    """Keys that say something about the engine's adapters or are looked at beside its own fields."""
    return name in ("tuner_type", "use_vllm", "max_length", "max_completion_length", "template", "torch_dtype")


@rule("RAY015", "ray-no-evaluation", severity="warning", consequence="wrong", routes=ROUTE, since="4.3")
def no_evaluation(c: JobCheck) -> Iterator[Finding]:
    """Validation data in a Ray job.

    The driver has no evaluation: `val_dataset` is dropped with a warning, and nothing is split off the training data.

    In the log: `Ray pipeline has no validation loop yet; ignoring val_dataset=…`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    val_dataset: val.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/driver_utils.py:_prepare_dataset
    """
    if c.job.ray is None:
        return
    if c.v.written("val_dataset"):
        yield c.finding("val_dataset is ignored: Megatron on Ray has no evaluation", "val_dataset", fix=c.drop_flag("val_dataset", "evaluate saved checkpoints instead"))
    ratio = c.v.use("split_dataset_ratio")
    if ratio is not None and not ratio.maybe and isinstance(ratio.value, (int, float)) and ratio.value > 0 and not c.v.get("val_dataset"):
        yield c.finding(
            "split_dataset_ratio {ratio} is set to 0: Megatron on Ray has no evaluation", "split_dataset_ratio", ratio=ratio.value, fix=c.set_flag("split_dataset_ratio", "0")
        )


@rule("RAY016", "ray-teacher-group", consequence="wrong", routes=ROUTE, since="4.3")
def teacher(c: JobCheck) -> Iterator[Finding]:
    """A teacher group that cannot teach.

    Teacher engines (`teacher.gpus`) exist for GKD. They score what the student has just generated, so `lmbda` must be 1; they return the top `gkd_logits_topk`
    log-probabilities, which must be given and which vLLM must allow (max_logprobs, 20 by default); and they serve the model that the group names, else the
    student's own. They do not go with context parallelism.

    In the log: `NotImplementedError: Teacher replicas currently require on-policy generation (lmbda=1).`

    Wrong:
    ```yaml
    rlhf_type: gkd
    model: Qwen/Qwen3-4B
    dataset: data.jsonl
    num_train_epochs: 1
    global_batch_size: 16
    gkd_logits_topk: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 4}
    rollout: {gpus: 4}
    teacher: {gpus: 4, model: Qwen/Qwen3-32B, vllm_tensor_parallel_size: 4}
    ```

    Right:
    ```yaml
    rlhf_type: gkd
    model: Qwen/Qwen3-4B
    dataset: data.jsonl
    num_train_epochs: 1
    global_batch_size: 16
    gkd_logits_topk: 64
    lmbda: 1
    colocate_groups: [[train, rollout]]
    train: {gpus: 4}
    rollout: {gpus: 4}
    teacher:
      gpus: 4
      model: Qwen/Qwen3-32B
      vllm_tensor_parallel_size: 4
      vllm_engine_kwargs: {max_logprobs: 64}
    ```

    Source: swift/ray/megatron/gkd_trainer.py:GKDTrainer
    Not shown on CPU: it fails at the first step
    """
    plan = ray_plan(c.v)
    if plan is None or not plan.gpus["teacher"] or plan.gpus["teacher"] < 0:
        return
    group = plan.spec.groups["teacher"]
    at = group.keys.get("gpus")
    if c.v.rlhf_type == "grpo":
        yield c.finding("GRPO on Ray uses no teacher engines: the teacher's {gpus} GPUs stand idle", at, flags=["teacher", "teacher_model"], gpus=plan.gpus["teacher"], fix="teacher_model at the top level, without teacher.gpus")
        return
    part, topk, context = c.v.get("lmbda"), c.v.get("gkd_logits_topk"), c.v.get("context_parallel_size")
    if isinstance(part, (int, float)) and part < 1:
        default = "" if c.v.written("lmbda") else " (the default)"
        yield c.finding("teacher engines need lmbda 1, not {part}{default}: they score only what the student generates", "lmbda" if c.v.written("lmbda") else at, flags=["lmbda", "teacher"], part=part, default=default, fix="lmbda: 1, or a colocated teacher_model without teacher.gpus")
    if topk is None:
        yield c.finding("teacher engines need gkd_logits_topk", at, flags=["gkd_logits_topk", "teacher"], fix=f"gkd_logits_topk: {_DEFAULT_LOGPROBS}")
    elif isinstance(topk, int):
        most = _max_logprobs(plan)
        if most is not None and topk > most:
            yield c.finding(
                "gkd_logits_topk {topk} is above the {most} log-probabilities that the teacher engines allow", "gkd_logits_topk", flags=["teacher", "vllm_engine_kwargs"], topk=topk,
                most=most, fix=f"teacher: vllm_engine_kwargs: {{max_logprobs: {topk}}}",
            )  # fmt: skip
    if isinstance(context, int) and context > 1:
        yield c.finding("teacher engines do not go with context_parallel_size {context}", "context_parallel_size", flags=["teacher"], context=context, fix="a colocated teacher_model, or context_parallel_size: 1")
    if "model" not in group.keys:
        yield c.finding("the teacher group names no model, so that it serves the student's own", at, flags=["teacher", "model"], fix="teacher: model: <the teacher>")


def _max_logprobs(plan: RayPlan) -> int | None:
    token = plan.setting("teacher", "vllm_engine_kwargs")
    if token is None:
        return _DEFAULT_LOGPROBS
    try:
        value = json.loads(token.text)
    except ValueError:
        return None
    most = value.get("max_logprobs", _DEFAULT_LOGPROBS) if isinstance(value, dict) else None
    return None if not isinstance(most, int) or most < 0 else most


@rule("RAY017", "ray-teacher-server", routes=ROUTE, since="4.3")
def teacher_server(c: JobCheck) -> Iterator[Finding]:
    """A teacher behind a server in a Ray job.

    On Ray the teacher is a model of the workers (`teacher_model`) or has engines of its own (`teacher.gpus`).

    In the log: `ValueError: teacher_model_server is not supported with use_ray`

    Wrong:
    ```yaml
    rlhf_type: gkd
    model: Qwen/Qwen3-4B
    dataset: data.jsonl
    num_train_epochs: 1
    global_batch_size: 16
    gkd_logits_topk: 20
    lmbda: 1
    teacher_model_server: http://10.0.0.9:8000
    colocate_groups: [[train, rollout]]
    train: {gpus: 4}
    rollout: {gpus: 4}
    ```

    Right:
    ```yaml
    rlhf_type: gkd
    model: Qwen/Qwen3-4B
    dataset: data.jsonl
    num_train_epochs: 1
    global_batch_size: 16
    gkd_logits_topk: 20
    lmbda: 1
    teacher_model: Qwen/Qwen3-32B
    colocate_groups: [[train, rollout]]
    train: {gpus: 4}
    rollout: {gpus: 4}
    ```

    Source: swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._check_teacher
    """
    if c.job.ray is not None and c.v.rlhf_type in ("grpo", "gkd") and isinstance(c.v.get("teacher_model_server"), str):
        fix = "teacher_model: <model>, or a teacher group with gpus and model (GKD)"
        yield c.finding("teacher_model_server does not work on Ray", "teacher_model_server", flags=["teacher_model", "teacher"], fix=fix)


@rule("RAY018", "ray-router-replay", routes=ROUTE, since="4.3")
def router_replay(c: JobCheck) -> Iterator[Finding]:
    """A way to replay expert routing that Ray does not have.

    R2 records the routing in the trainer's own forward pass, which on Ray does not come back to the batch; R3 takes it from the rollout.

    In the log: `ValueError: Ray Megatron GRPO supports router_replay_mode in {'disabled', 'R3'}`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-30B-A3B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    router_replay_mode: R2
    colocate_groups: [[train, rollout]]
    train: {gpus: 8, expert_model_parallel_size: 8}
    rollout: {gpus: 8, vllm_tensor_parallel_size: 2}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-30B-A3B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    router_replay_mode: R3
    colocate_groups: [[train, rollout]]
    train: {gpus: 8, expert_model_parallel_size: 8}
    rollout: {gpus: 8, vllm_tensor_parallel_size: 2}
    ```

    Source: swift/ray/megatron/grpo_trainer.py:GRPOTrainer._prepare_state
    """
    if c.job.ray is not None and c.v.rlhf_type == "grpo" and c.v.get("router_replay_mode") == "R2":
        yield c.finding("router_replay_mode R2 does not work on Ray; there are disabled and R3", "router_replay_mode", fix=c.set_flag("router_replay_mode", "R3"))


@rule("RAY019", "ray-environment-block", severity="warning", consequence="wrong", routes=ROUTE, since="4.3")
def environment(c: JobCheck) -> Iterator[Finding]:
    """An `ENV:` block in a Ray config.

    Other commands export it; the Ray driver takes it for an unknown argument. Variables of a Ray job are set where Ray is started, or in front of the
    command.

    In the log: `parse_args_from_dict: unrecognised args: ['--ENV', …]`

    Wrong:
    ```yaml
    ENV: {MAX_PIXELS: 1003520}
    rlhf_type: grpo
    model: Qwen/Qwen2.5-VL-7B-Instruct
    dataset: data.jsonl
    reward_funcs: [format]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen2.5-VL-7B-Instruct
    dataset: data.jsonl
    reward_funcs: [format]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/driver_utils.py:parse_ray_yaml
    """
    token = c.job.ray.top.get("ENV") if c.job.ray is not None else None
    if token is not None:
        yield c.finding("the ENV block is not read on Ray: its variables are not set", token, flags=["ENV"], fix="export them before `ray start` and before the command")
