"""Megatron on Ray: roles, GPUs and engines of the config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.finding import Finding, Fix
from alula.run.lazy import get_close_matches
from alula.swift.arithmetic import divisors
from alula.swift.parse import UNKNOWN
from alula.swift.ray import ROLES, RayPlan, ray_plan

from .context import JobCheck, names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.source import Token

ROUTE = ("megatron rlhf",)


def _rewrite(c: JobCheck, token: Token, text: str, description: str) -> Fix:
    source = c.whole.run.sources.get(token.span.file)
    return Fix(description) if source is None or source.path is None else c.edit(description, [(token.span, text)])


def _key(plan: RayPlan, role: str, name: str) -> Token | None:
    group = plan.spec.groups.get(role)
    return group.keys.get(name) if group is not None else None


@rule("RAY005", "ray-algorithm", routes=ROUTE, since="4.3")
def algorithm(c: JobCheck) -> Iterator[Finding]:
    """A Ray config without an algorithm that runs on Ray.

    `rlhf_type` must stand at the top level; Megatron on Ray has grpo and gkd.

    In the log: `ValueError: Unknown rlhf_type None. Available: ['grpo', 'gkd']`

    Wrong:
    ```yaml
    rlhf_type: dpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
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

    Source: swift/ray/megatron/pipeline.py:MegatronRayPipeline.__init__
    """
    plan = ray_plan(c.v)
    if plan is None:
        return
    token = plan.spec.top.get("rlhf_type")
    if token is None or token.text not in ("grpo", "gkd"):
        said = "is missing at the top level" if token is None else f"is {token.text}"
        fix: Fix | str = "rlhf_type: grpo" if token is None else _rewrite(c, token, "grpo", "rlhf_type: grpo or gkd")
        yield c.finding("rlhf_type {said}; Megatron on Ray has grpo and gkd", token, flags=["rlhf_type"], said=said, fix=fix)


@rule("RAY006", "ray-train-gpus", routes=ROUTE, since="4.3")
def train_gpus(c: JobCheck) -> Iterator[Finding]:
    """No GPUs for the trainer, or a count that is no number.

    Each role's `gpus` counts the GPUs over all nodes; a role without it gets none. A bare assertion says that the trainer has none, after the data is
    loaded.

    In the log: `AssertionError` in pipeline.py:_compute_train_iters

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    train: {tensor_model_parallel_size: 2}
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
    train: {gpus: 8, tensor_model_parallel_size: 2}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/pipeline.py:MegatronRayPipeline._compute_train_iters
    """
    plan = ray_plan(c.v)
    if plan is None:
        return
    for role in ROLES:
        token = _key(plan, role, "gpus")
        if plan.gpus[role] is None and token is not None:
            yield c.finding("{role}.gpus {text} is no number of GPUs", token, flags=[f"{role}.gpus"], role=role, text=token.text, fix=f"{role}: gpus: 8")
    count = plan.gpus["train"]
    if count is not None and count <= 0:
        at = _key(plan, "train", "gpus")
        hint = "" if plan.spec.top.get("gpus") is None else " (`gpus` at the top level is not read)"
        yield c.finding("the train group has no GPUs: train.gpus must be 1 or more{hint}", at or plan.spec.top.get("gpus"), flags=["train.gpus", "train"], hint=hint, fix="train: gpus: 8")


@rule("RAY007", "ray-colocation", routes=ROUTE, since="4.3")
def colocation(c: JobCheck) -> Iterator[Finding]:
    """Colocate groups that cannot share GPUs.

    `colocate_groups` is a list of lists of roles. Roles of one list share one set of GPUs, so there must be two of them, each known, in one list only,
    with the same number of GPUs above 0.

    In the log: `ValueError: colocate_groups[0] roles have different GPU counts …`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 4}
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

    Source: swift/ray/megatron/driver_utils.py:_validate_colocate_groups
    """
    plan = ray_plan(c.v)
    token = plan.spec.top.get("colocate_groups") if plan is not None else None
    if plan is None or token is None or token.text in ("None", "[]", "{}", ""):
        return
    fault = _colocation_fault(plan, token)
    if fault is not None:
        why, fix = fault
        yield c.finding("colocate_groups: {why}", token, flags=["colocate_groups", *(f"{role}.gpus" for group in plan.colocated for role in group if role in ROLES)], why=why, fix=fix)


def _colocation_fault(plan: RayPlan, token: Token) -> tuple[str, str] | None:
    example = "colocate_groups: [[train, rollout]]"
    if not plan.colocated:
        return f"`{token.text}` is no list of lists of roles", example
    seen: set[str] = set()
    for group in plan.colocated:
        if len(group) < 2:
            return f"`{', '.join(group)}` is no list of two or more roles", example
        for role in group:
            if role not in ROLES:
                close = get_close_matches(role, ROLES, 1)
                return f"`{role}` is no role; there are {names(ROLES)}", f"{close[0]} instead of {role}" if close else example
            if role in seen:
                return f"`{role}` stands in two groups; a role can share GPUs once", "one list with all roles that share GPUs"
            seen.add(role)
            count = plan.gpus.get(role)
            if count is not None and count <= 0:
                return f"`{role}` shares GPUs but has none of its own: {role}.gpus must be above 0", f"{role}: gpus: as many as the others"
        counts = {role: plan.gpus.get(role) for role in group}
        known = {count for count in counts.values() if count is not None}
        if len(known) > 1:
            said = ", ".join(f"{role} {count}" for role, count in counts.items())
            return f"roles that share GPUs must ask for the same number; here {said}", f"gpus: {max(known)} for each of {names(group)}"
    return None


@rule("RAY008", "ray-gpus-over-nodes", routes=ROUTE, since="4.3")
def over_nodes(c: JobCheck) -> Iterator[Finding]:
    """A role's GPUs that cannot be spread evenly over the nodes.

    Every pool takes the same number of GPUs from each of `nnodes` nodes.

    In the log: `ValueError: total_gpus=12 is not evenly divisible by nnodes=8`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 96
    nnodes: 8
    train: {gpus: 12}
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
    nnodes: 2
    train: {gpus: 16}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/driver_utils.py:RayConfig.gpus_as_process_on_nodes
    """
    plan = ray_plan(c.v)
    if plan is None or plan.nnodes is None or plan.nnodes <= 1:
        return
    for roles, count in plan.pools:
        if count % plan.nnodes:
            at = _key(plan, roles[0], "gpus")
            low = count // plan.nnodes * plan.nnodes
            yield c.finding(
                "{role}.gpus {count} cannot be spread evenly over nnodes {nodes}", at, flags=["nnodes", *(f"{role}.gpus" for role in roles)], role=roles[0], count=count,
                nodes=plan.nnodes, fix=f"{roles[0]}.gpus {(str(low) + ' or ') if low else ''}{low + plan.nnodes}, or nnodes one of: {names(divisors(count))}",
            )  # fmt: skip


@rule("RAY009", "ray-engines-do-not-fit", routes=ROUTE, since="4.3")
def engines(c: JobCheck) -> Iterator[Finding]:
    """Rollout or teacher GPUs that do not make whole vLLM engines.

    One engine takes vllm_tensor_parallel_size × vllm_data_parallel_size GPUs, and the role's GPUs must be a multiple of that. The sizes are read from the
    role's group, else from the top level.

    In the log: `ValueError: tp*dp (8) exceeds rollout GPUs (4)` or `rollout GPUs (3) must be divisible by tp*dp (2)`

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    train: {gpus: 8}
    rollout: {gpus: 6, vllm_tensor_parallel_size: 4}
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
    rollout: {gpus: 6, vllm_tensor_parallel_size: 2}
    ```

    Source: swift/ray/megatron/rollout/replica.py:RolloutReplica.create_replicas
    """
    plan = ray_plan(c.v)
    if plan is None:
        return
    for role in ("rollout", "teacher"):
        count, each = plan.gpus[role], plan.ranks_a_replica(role)
        if count is None or each is None or count <= 0 or (each >= 1 and count % each == 0):
            continue
        tensor, data = plan.engine(role, "vllm_tensor_parallel_size"), plan.engine(role, "vllm_data_parallel_size")
        name = "vllm_tensor_parallel_size" if (tensor or 0) > 1 else "vllm_data_parallel_size"
        at = plan.setting(role, name) or _key(plan, role, "gpus")
        relation = f"tp*dp ({each}) exceeds its {count} GPUs" if each > count else f"its {count} GPUs are no multiple of tp*dp ({each})"
        fits = [n for n in divisors(count) if (data or 1) >= 1 and count % (n * (data or 1)) == 0] or [1]
        yield c.finding(
            "{role}: an engine takes vllm_tensor_parallel_size {tp} × vllm_data_parallel_size {dp} = {each} GPUs, and {relation}", at,
            flags=[f"{role}.gpus", "vllm_tensor_parallel_size", "vllm_data_parallel_size"], role=role, tp=tensor, dp=data, each=each, relation=relation,
            fix=f"{role}.gpus a multiple of {each} (such as {max(each, count // max(each, 1) * each or each)}), or vllm_tensor_parallel_size one of: {names(fits)}"
            + (" with vllm_data_parallel_size 1" if (data or 1) > 1 else ""),
        )  # fmt: skip


@rule("RAY010", "ray-no-rollout", consequence="wrong", routes=ROUTE, since="4.3")
def no_rollout(c: JobCheck) -> Iterator[Finding]:
    """A Ray job that generates without a rollout group.

    Nothing checks that there are engines. GRPO, and GKD unless `lmbda` is 0, fail at the first generation.

    In the log: `ZeroDivisionError` in base_trainer.py:_distribute_to_replicas

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    train: {gpus: 8}
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

    Source: swift/ray/megatron/base_trainer.py:BaseRayTrainer._distribute_to_replicas
    Not shown on CPU: it fails at the first generation
    """
    plan = ray_plan(c.v)
    if plan is None or plan.gpus["rollout"] is None or plan.gpus["rollout"] > 0 or not plan.gpus["train"]:
        return
    if c.v.rlhf_type == "gkd" and c.v.get("lmbda") in (0, UNKNOWN):
        return
    at = _key(plan, "rollout", "gpus")
    yield c.finding(
        "no rollout GPUs: {kind} has nothing to generate with", at, flags=["rollout", "rollout.gpus"], kind=str(c.v.rlhf_type or "the job").upper(),
        fix="rollout: gpus: 8, with colocate_groups: [[train, rollout]] to share the trainer's",
    )  # fmt: skip


@rule("RAY011", "ray-no-end-of-training", consequence="wrong", routes=ROUTE, since="4.3")
def no_end(c: JobCheck) -> Iterator[Finding]:
    """A Ray job without a length of training.

    The driver works out the number of iterations before it starts anything and asserts that it is above 0. Streamed data has no length, so that epochs do
    not count there.

    In the log: `AssertionError` in pipeline.py:_compute_train_iters

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
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

    Source: swift/ray/megatron/pipeline.py:MegatronRayPipeline._compute_train_iters; swift/ray/megatron/driver_utils.py:compute_iter_params
    """
    if c.job.ray is None:
        return
    iterations, epochs = c.v.get("train_iters"), c.v.get("num_train_epochs")
    streaming = c.v.get("streaming") is True
    if iterations is None and (epochs is None or streaming):
        why = "streamed data has no length, so train_iters must be given" if streaming else "neither train_iters nor num_train_epochs is given"
        yield c.finding("no end of training: {why}", flags=["train_iters", "num_train_epochs"], why=why, fix="train_iters: N" if streaming else "num_train_epochs: 1")
    elif isinstance(iterations, int) and iterations <= 0 and epochs is None:
        yield c.finding("train_iters {count} must be above 0", "train_iters", count=iterations, fix="train_iters: 100")
    elif isinstance(epochs, int) and epochs <= 0 and not streaming:
        yield c.finding("num_train_epochs {count} gives no iterations", "num_train_epochs", count=epochs, fix="num_train_epochs: 1")


@rule("RAY021", "ray-cluster-too-small", consequence="hangs", confidence="medium", routes=ROUTE, since="4.3")
def cluster(c: JobCheck) -> Iterator[Finding]:
    """More GPUs than the machines have.

    Roles that do not share GPUs add up. Ray waits for missing GPUs without end and without an error. A pool takes its GPUs evenly from `nnodes` nodes,
    each part on one node.

    In the log: nothing after `Started a local Ray instance`, or pending placement groups

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 megatron rlhf --use_ray true --config ray.yaml
    ```
    ```yaml ray.yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 megatron rlhf --use_ray true --config ray.yaml
    ```
    ```yaml ray.yaml
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

    Source: swift/ray/megatron/resource_pool.py:ResourcePool.create; swift/ray/megatron/pipeline.py:_create_pools
    Not shown on CPU: it waits for GPUs of a Ray cluster
    """
    plan = ray_plan(c.v)
    if plan is None or plan.nnodes is None or not plan.pools:
        return
    nodes = c.v.cluster.nodes or max(plan.nnodes, 1)
    each = c.v.cluster.gpus_per_node
    source = "--gpus"
    if each is None and plan.nnodes <= 1 and c.v.place.devices is not None:
        each, nodes, source = len(c.v.place.devices), 1, "the visible devices"
    if each is None:
        return
    said = " + ".join(f"{'/'.join(roles)} {count}" for roles, count in plan.pools)
    at = plan.spec.groups["train"].keys.get("gpus") if "train" in plan.spec.groups else None
    flags = ["train.gpus", "rollout.gpus", "nnodes", "colocate_groups"]
    if plan.total > each * nodes:
        yield c.finding(
            "the pools need {said} = {total} GPUs; {source} give {have}: Ray waits without end", at, flags=flags, said=said, total=plan.total, source=source, have=each * nodes,
            fix="fewer GPUs a role, or colocate_groups so that roles share them",
        )  # fmt: skip
        return
    for roles, count in plan.pools:
        part = -(-count // max(plan.nnodes, 1))
        if part > each:
            yield c.finding(
                "{roles}: {count} GPUs over nnodes {nodes} are {part} on each node; {source} give {each}: Ray waits without end", at, flags=flags, roles="/".join(roles),
                count=count, nodes=plan.nnodes, part=part, source=source, each=each, fix=f"nnodes: {-(-count // each)}",
            )  # fmt: skip
