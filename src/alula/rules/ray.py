"""Megatron on Ray: how it is started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.launch import integer
from alula.swift.ray import ray_plan

from .context import JobCheck, names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.source import Token

ROUTE = ("megatron rlhf",)


def _flags_seen(c: JobCheck) -> list[Token]:
    return [token for token in c.job.words if token.known and token.text.startswith("--")]


@rule("RAY001", "ray-config-missing", routes=ROUTE, since="4.3")
def config_missing(c: JobCheck) -> Iterator[Finding]:
    """Megatron on Ray without `--config`.

    With `--use_ray` the whole job is described by one YAML that `--config` names; nothing else on the command line is read. A YAML as first word is how
    the other commands take theirs.

    In the log: `ValueError: Usage: python -m swift.ray.megatron.pipeline --config <yaml>`

    Wrong:
    ```sh
    megatron rlhf grpo.yaml --use_ray true
    ```

    Right:
    ```sh
    megatron rlhf --use_ray true --config grpo.yaml
    ```

    Source: swift/ray/megatron/pipeline.py:main; swift/cli/_megatron/rlhf.py:_use_ray
    """
    words = c.job.words
    at = next((n for n, token in enumerate(words) if token.text == "--use_ray"), None)
    if at is None or (at + 1 < len(words) and words[at + 1].text.lower() == "false") or any(token.unresolved for token in words):
        return
    if any(token.text == "--config" and n + 1 < len(words) for n, token in enumerate(words)):
        return
    first = words[0].text if words[0].text.endswith((".yaml", ".yml", ".json")) else None
    template = "--use_ray starts Megatron on Ray, which reads its whole job from --config" + ("; `{first}` as first word is not read" if first else "")
    yield c.finding(template, words[at], flags=["use_ray", "config"], first=first or "", fix=f"megatron rlhf --use_ray true --config {first or '<file>.yaml'}")


@rule("RAY002", "ray-switch-not-recognised", consequence="wrong", routes=ROUTE, since="4.3")
def switch(c: JobCheck) -> Iterator[Finding]:
    """`--use_ray` in a spelling that does not start Ray.

    The command line is searched for the exact word `--use_ray` before it is parsed. `--use_ray=true` and `--use-ray` are taken by the parser alone: plain
    Megatron starts, in one process, with checks for Ray.

    In the log: no line about Ray; a `--config` ends as `remaining_argv`

    Wrong:
    ```sh
    megatron rlhf --use_ray=true --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --reward_funcs accuracy --vllm_mode colocate --global_batch_size 64
    ```

    Source: swift/cli/_megatron/rlhf.py:_use_ray
    Not shown on CPU: the arguments are in order, they start something else
    """
    if c.job.ray is not None or any(token.text == "--use_ray" for token in c.job.words):
        return
    use = c.v.parsed.last("use_ray")
    if use is None or use.maybe or use.value is not True:
        return
    yield c.finding(
        "`{word}` starts no Ray: only the exact words `--use_ray true` do, together with --config", use.token, flags=["use_ray", "config"], word=use.token.text,
        fix="megatron rlhf --use_ray true --config <file>.yaml",
    )  # fmt: skip


@rule("RAY003", "ray-arguments-dropped", consequence="wrong", routes=ROUTE, since="4.3")
def dropped(c: JobCheck) -> Iterator[Finding]:
    """Flags beside `--use_ray` and `--config`.

    The driver reads the YAML and nothing else; every other word on the command line is ignored without a message.

    In the log: nothing; the run uses the values of the YAML

    Wrong:
    ```sh
    megatron rlhf --use_ray true --config ray.yaml --num_generations 16
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

    Right:
    ```sh
    megatron rlhf --use_ray true --config ray.yaml
    ```
    ```yaml ray.yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 64
    num_generations: 8
    colocate_groups: [[train, rollout]]
    train: {gpus: 8}
    rollout: {gpus: 8}
    ```

    Source: swift/ray/megatron/pipeline.py:main
    Not shown on CPU: it is silent
    """
    if c.job.ray is None or c.job.words == c.job.argv:
        return
    lost = [token for token in _flags_seen(c) if token.text.partition("=")[0] not in ("--use_ray", "--config")]
    if lost:
        yield c.finding(
            "{words} on the command line: Megatron on Ray reads only the YAML, so this is ignored", lost[0],
            flags=[token.text[2:].partition("=")[0].replace("-", "_") for token in lost], words=names(token.text for token in lost),
            fix=f"write {'it' if len(lost) == 1 else 'them'} into {c.job.config}",
        )  # fmt: skip


@rule("RAY004", "ray-under-torchrun", consequence="wrong", routes=("megatron rlhf", "swift sft"), since="4.3")
def torchrun(c: JobCheck) -> Iterator[Finding]:
    """A Ray driver started under torchrun.

    NPROC_PER_NODE or NNODES make the launcher start torchrun. Each of its processes becomes a driver with all workers of its own, and they wait for
    each other's GPUs. The numbers of a Ray job stand in its config.

    In the log: several drivers, then placement groups that stay pending

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --use_ray true --config ray.yaml
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

    Right:
    ```sh
    megatron rlhf --use_ray true --config ray.yaml
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

    Source: swift/cli/main.py:use_torchrun
    Not shown on CPU: it takes a Ray cluster
    """
    on_ray = c.job.ray is not None or (c.v.route == "swift sft" and c.v.get("use_ray") is True)
    if not on_ray:
        return
    entries = [c.env_entry(name) for name in ("NPROC_PER_NODE", "NNODES")]
    given = [entry for entry in entries if entry is not None and entry.how != "block"]
    counts = [integer(entry.token) for entry in given]
    if not given or all(count == 1 for count in counts):
        return
    where = "train.gpus and nnodes of the config" if c.job.ray is not None else "nproc_per_node of device_groups"
    yield c.finding(
        "{name} starts torchrun, and every one of its processes becomes a Ray driver; the sizes of a Ray job are {where}", given[0].name,
        flags=["use_ray", *(entry.name for entry in given)], name=given[0].name, where=where, fix=f"unset {' and '.join(entry.name for entry in given)} for this command",
    )  # fmt: skip


@rule("RAY020", "ray-config-without-ray", routes=ROUTE, since="4.3")
def not_started(c: JobCheck) -> Iterator[Finding]:
    """A config of role groups given to a command that starts no Ray.

    Without the words `--use_ray true` plain Megatron starts, to which groups are unknown flags. `use_ray: true` inside the config does not count.

    In the log: `ValueError: remaining_argv: ['--train', '{"gpus": 8}', …]`

    Wrong:
    ```sh
    megatron rlhf ray.yaml
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

    Right:
    ```sh
    megatron rlhf --use_ray true --config ray.yaml
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

    Source: swift/cli/_megatron/rlhf.py:_use_ray
    """
    if c.job.ray is not None or any(token.text == "--use_ray" for token in c.job.words):
        return
    words = c.job.words
    flattened = next((token for token in c.v.parsed.extras if token.text in ("--train", "--rollout", "--colocate_groups")), None)
    if flattened is not None and c.job.config is not None:
        yield c.finding("{file} is a config of Ray role groups, and this command starts no Ray", flattened, flags=["use_ray", "config"], file=c.job.config, fix=f"megatron rlhf --use_ray true --config {c.job.config}")
        return
    place = next((n for n, token in enumerate(words[:-1]) if token.text == "--config"), None)
    if place is not None and _names_groups(c, words[place + 1]):
        file = words[place + 1].text
        yield c.finding("{file} is a config of Ray role groups, and this command starts no Ray", words[place], flags=["use_ray", "config"], file=file, fix=f"megatron rlhf --use_ray true --config {file}")


def _names_groups(c: JobCheck, token: Token) -> bool:
    path = os.path.join(c.whole.cwd, token.text)
    if not token.known or not os.path.isfile(path):
        return False
    from alula.read.config import is_ray, read_config
    from alula.read.errors import ReadError
    from alula.read.run import load_source

    try:
        return is_ray(read_config(load_source(path)))
    except ReadError:
        return False


@rule("RAY022", "ray-cluster-not-started", severity="info", consequence="wrong", confidence="medium", routes=ROUTE, since="4.3")
def not_running(c: JobCheck) -> Iterator[Finding]:
    """A Ray job over several nodes from a script that starts no cluster.

    The driver joins a Ray cluster that is already there, else it starts one of this machine alone, where it waits for the other nodes' GPUs.

    In the log: `Started a local Ray instance`, then pending placement groups

    Wrong:
    ```yaml
    rlhf_type: grpo
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    reward_funcs: [accuracy]
    num_train_epochs: 1
    global_batch_size: 128
    nnodes: 2
    colocate_groups: [[train, rollout]]
    train: {gpus: 16}
    rollout: {gpus: 16}
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

    Source: swift/ray/megatron/pipeline.py:MegatronRayPipeline.init
    """
    plan = ray_plan(c.v)
    if plan is None or plan.nnodes is None or plan.nnodes <= 1 or "RAY_ADDRESS" in c.job.env:
        return
    if any(b"ray start" in source.data or b"ray job submit" in source.data or b"RAY_ADDRESS" in source.data for source in c.whole.run.sources.values()):
        return
    at = plan.spec.top.get("nnodes")
    yield c.finding(
        "nnodes {nodes}: start Ray on every node first (`ray start --head` on one, `ray start --address=HEAD:6379` on the others)", at, flags=["nnodes"], nodes=plan.nnodes,
        fix="ray start --head, ray start --address=…, then the command on the head node",
    )  # fmt: skip
