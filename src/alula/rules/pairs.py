"""A trainer and the servers it talks to: addresses, ports and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.pairs import (
    Endpoint,
    Pair,
    device_ids,
    listens_on,
    loopback,
    rollout_endpoints,
    rollout_pairs,
    talks_to_rollout,
    teacher_endpoints,
    teacher_pairs,
)
from alula.swift.parse import UNKNOWN

from .context import RunCheck, names
from .nodes import at_the_same_time
from .registry import rule
from .rl import ROLLOUT_TYPES

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.swift.effective import View

_ELSEWHERE = re.compile(
    r"node|terminal|machine|host|server|trainer|step|window|session|shell|节点|终端|机器|first|then|after|another|wait|background", re.I
)  # fmt: skip
_DETACHED = re.compile(rb"\b(tmux|screen|nohup|docker|srun|sbatch|kubectl|ssh|pdsh|setsid|systemd-run)\b")


def rollouts(run: RunCheck) -> list[Pair]:
    """Trainers and rollout servers of the run; made once."""
    made: list[Pair] = run.once("pairs:rollout", lambda: rollout_pairs(run.views))
    return made


def teachers(run: RunCheck) -> list[Pair]:
    """Trainers and teacher servers of the run; made once."""
    made: list[Pair] = run.once("pairs:teacher", lambda: teacher_pairs(run.views))
    return made


_LABEL = re.compile(r"\b(?:node|machine|host)\s*[-_#: ]?\s*([a-z]|\d+|[a-z]+\d+|\d+\.\d+\.\d+\.\d+)\b", re.I)


def machines(run: RunCheck, view: View) -> frozenset[str]:
    """Labels of the machines that a job is meant for: its host, else what the comments above it say (`# node A`). Empty where nothing says it."""
    job = view.job
    if job.host is not None:
        return frozenset((job.host,))
    source = run.run.sources.get(job.span.file)
    if source is None:
        return frozenset()
    before = [other.job.span.end for other in run.views if other.job.span.file == job.span.file and other.job.span.end <= job.span.start]
    text = source.data[max(before, default=0) : job.span.start].decode("utf-8", "replace")
    return frozenset(label.lower() for line in text.splitlines() if line.lstrip().startswith("#") for label in _LABEL.findall(line))


def apart(run: RunCheck, a: View, b: View) -> bool:
    """The two jobs are said to run on different machines."""
    one, other = machines(run, a), machines(run, b)
    return bool(one) and bool(other) and not one & other


@rule("PRS001", "server-port-differs", consequence="hangs", scope="run", since="3.10")
def server_port_differs(run: RunCheck) -> Iterator[Finding]:
    """The trainer knocks at another port than the one its server listens on.

    `swift rollout` and `swift deploy` listen on 8000 unless `--port` says otherwise, and move on to the next free port without a word where it is
    taken. The trainer waits for `--vllm_server_timeout` seconds and gives up.

    In the log: `ConnectionError: Servers not reachable after 240.0s: ['http://127.0.0.1:8000']`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --port 8001 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --port 8001 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8001
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.check_server; swift/arguments/deploy_args.py:DeployArguments.__post_init__
    Not shown on CPU: no server is there to be reached
    """
    for pair in (*rollouts(run), *teachers(run)):
        if pair.agreed:
            continue
        c, port = run.job(pair.trainer), listens_on(pair.server)
        flag = "vllm_server_port" if pair.endpoint.flag == "vllm_server_host" else pair.endpoint.flag
        default = "" if pair.trainer.use(flag) is not None else " (the default)"
        said = "" if pair.server.use("port") is not None else " (the default)"
        template = "the trainer looks for its server at {host}:{wanted}{default}, but `{route}` of this run listens on {port}{said}; use one port on both sides"
        wanted = pair.endpoint.port or 0
        counted_on = bool(said) and 0 < wanted - (port or 0) <= 10  # another program may hold the default port, and the server move on
        if counted_on:
            template += f" (it moves on where {port} is taken; do not count on it, give it --port {wanted})"
        fix = c.set_flag(flag, str(port)) if flag == "vllm_server_port" else f"--{flag} with port {port}"
        finding = c.finding(
            template, flag if pair.trainer.use(flag) is not None else pair.endpoint.flag, flags=[flag, "port"], host=pair.endpoint.host,
            related=[(run.job(pair.server).span("port"), f"listens on {port}")], wanted=wanted, default=default, route=pair.server.route, port=port, said=said,
            fix=fix,
        )  # fmt: skip
        yield replace(finding, severity="warning", confidence="medium") if counted_on else finding


@rule("PRS002", "server-and-trainer-share-devices", consequence="wrong", scope="run", since="3.10")
def server_and_trainer_share_devices(run: RunCheck) -> Iterator[Finding]:
    """A rollout server and its trainer on the same devices of one machine.

    They are two programs with their own weights, and the weights travel between them over NCCL, which refuses two ranks on one GPU. Jobs on one machine
    need disjoint `CUDA_VISIBLE_DEVICES`; without the variable both begin at device 0.

    In the log: `Duplicate GPU detected`, or `torch.OutOfMemoryError`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=6 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6 NPROC_PER_NODE=7 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 7 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6 NPROC_PER_NODE=7 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 7 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMClient.init_communicator
    Not shown on CPU: the devices are pretended there
    """
    for pair in (*rollouts(run), *teachers(run)):
        yield from _shared(run, pair)


def _shared(run: RunCheck, pair: Pair) -> Iterator[Finding]:
    if not (pair.endpoint.local or at_the_same_time(run.run, pair.server.job, pair.trainer.job)) or apart(run, pair.server, pair.trainer):
        return
    mine, theirs = device_ids(pair.trainer), device_ids(pair.server)
    shared = sorted((mine or frozenset()) & (theirs or frozenset()), key=lambda x: (len(x), x))
    if not shared:
        return
    c, server = run.job(pair.trainer), run.job(pair.server)
    teacher = pair.server.route == "swift deploy"
    unset = [route for view, route in ((pair.server, pair.server.route), (pair.trainer, pair.trainer.route)) if view.place.devices is None]
    why = f"; {' and '.join(unset)} set no CUDA_VISIBLE_DEVICES and start at device 0" if unset else ""
    where = "on the same machine" if pair.endpoint.local else "in the same script"
    free = sorted((theirs or frozenset()) - (mine or frozenset()))
    template = "`{route}` and the trainer, {where} ({host}), both use device(s) {shared}{why}; give them disjoint CUDA_VISIBLE_DEVICES"
    at = next((name for name in ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES") if name in pair.server.job.env), None)
    finding = server.finding(
        template, at, flags=["CUDA_VISIBLE_DEVICES", pair.endpoint.flag], related=[(c.span("CUDA_VISIBLE_DEVICES"), f"the trainer uses {names(sorted(mine or ()))}")],
        route=pair.server.route, where=where, host=pair.endpoint.host, shared=names(shared), why=why,
        fix="CUDA_VISIBLE_DEVICES of the server: ids that the trainer does not use" + (f" ({names(free)} are free)" if free else ""),
    )  # fmt: skip
    yield replace(finding, severity="warning", consequence="waste") if teacher else finding


@rule("PRS003", "server-hears-only-itself", consequence="hangs", scope="run", since="4.0")
def server_hears_only_itself(run: RunCheck) -> Iterator[Finding]:
    """A server bound to the loopback address, and a trainer that comes from elsewhere.

    `--host` of a server is the address it listens on, 0.0.0.0 (all) by default. With 127.0.0.1 it answers only programs of its own machine.

    In the log: `ConnectionError: Servers not reachable after 240.0s`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --host 127.0.0.1 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --host 127.0.0.1 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/arguments/deploy_args.py:DeployArguments
    Not shown on CPU: no server is there to be reached
    """
    for pair in (*rollouts(run), *teachers(run)):
        host = pair.server.get("host")
        if isinstance(host, str) and host != "0.0.0.0" and host != "::" and loopback(host) and not pair.endpoint.local and pair.endpoint.host:
            c = run.job(pair.server)
            template = "the server listens on {host} only, but the trainer comes to {wanted}; use --host 0.0.0.0 (the default), or 127.0.0.1 on both sides"
            related = [(run.job(pair.trainer).span(pair.endpoint.flag), "the trainer")]
            flags = [pair.endpoint.flag]
            yield c.finding(template, "host", flags=flags, related=related, host=host, wanted=pair.endpoint.host, fix=c.set_flag("host", "0.0.0.0"))


@rule("PRS004", "server-asks-for-a-key", consequence="wrong", scope="run", since="4.0")
def server_asks_for_a_key(run: RunCheck) -> Iterator[Finding]:
    """`api_key` on a server that a trainer talks to.

    The trainer sends no key, so every call but the health check is refused. Keep the server in a closed network instead (`--host 127.0.0.1` on one machine).

    In the log: `Server 0 failed: 401` or `Exception: Server 0 failed: {"detail":"Missing bearer token"}`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --api_key token-abc &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --host 127.0.0.1 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.infer; swift/pipelines/infer/rollout.py:SwiftRolloutDeploy._require_api_key
    Not shown on CPU: no server is there to be reached
    """
    asked: set[int] = set()
    servers = [*run.servers, *(pair.server for pair in teachers(run))]
    for server in servers:
        if server.index not in asked and isinstance(server.get("api_key"), str) and server.get("api_key"):
            asked.add(server.index)
            c = run.job(server)
            template = "--api_key on `{route}`: trainers send no key and are refused with 401; drop it and close the network instead (--host 127.0.0.1)"
            yield c.finding(template, "api_key", flags=["host"], route=server.route, fix=c.drop_flag("api_key"))


@rule("PRS005", "same-weight-sync-port", consequence="wrong", scope="run", since="3.10")
def same_weight_sync_port(run: RunCheck) -> Iterator[Finding]:
    """Two trainers whose servers on one machine use the same weight-sync port.

    Besides the HTTP port each rollout server opens a port for the weights, 51216 unless the trainer says otherwise (`--vllm_server_group_port`).
    A second pair on the machine needs another one.

    In the log: `address already in use` on the server, while the trainer waits after `Start connecting to vLLM server`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --port 8000 &
    CUDA_VISIBLE_DEVICES=1 NPROC_PER_NODE=1 MASTER_PORT=29501 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset a.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000 &
    CUDA_VISIBLE_DEVICES=2 swift rollout --model Qwen/Qwen3-8B --port 8001 &
    CUDA_VISIBLE_DEVICES=3 NPROC_PER_NODE=1 MASTER_PORT=29502 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset b.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8001
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --port 8000 &
    CUDA_VISIBLE_DEVICES=1 NPROC_PER_NODE=1 MASTER_PORT=29501 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset a.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000 &
    CUDA_VISIBLE_DEVICES=2 swift rollout --model Qwen/Qwen3-8B --port 8001 &
    CUDA_VISIBLE_DEVICES=3 NPROC_PER_NODE=1 MASTER_PORT=29502 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset b.jsonl --reward_funcs accuracy --per_device_train_batch_size 8 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8001 --vllm_server_group_port 51217
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMClient.__init__, init_communicator
    Not shown on CPU: no server is there to be reached
    """
    taken = {e.group_port for view in run.views for e in rollout_endpoints(view)}
    seen: list[tuple[View, Endpoint]] = []
    for view in run.views:
        for endpoint in rollout_endpoints(view):
            clash = next((other for other in seen if _same_machine(run, other, (view, endpoint))), None)
            seen.append((view, endpoint))
            if clash is None:
                continue
            c = run.job(view)
            free = next(port for port in range(51217, 52217) if port not in taken)
            taken.add(free)
            default = "" if view.use("vllm_server_group_port") is not None else " (the default)"
            template = (
                "two trainers whose servers stand on one machine ({host}) both synchronise weights over port {port}{default}: the second finds it in use; "
                "add --vllm_server_group_port {free} here"
            )
            at = "vllm_server_group_port" if not default else "vllm_server_port"
            yield c.finding(
                template, at, flags=["vllm_server_group_port"], related=[(run.job(clash[0]).span("vllm_server_port"), "the other trainer")],
                host=endpoint.host, port=endpoint.group_port, default=default, free=free, fix=c.set_flag("vllm_server_group_port", str(free)),
            )  # fmt: skip


def _same_machine(run: RunCheck, a: tuple[View, Endpoint], b: tuple[View, Endpoint]) -> bool:
    """Two endpoints of different trainers, running at the same time, whose servers open the same weight-sync port on one machine."""
    (first, one), (second, two) = a, b
    if first is second or one.group_port is None or one.group_port != two.group_port or (one.host, one.port) == (two.host, two.port):
        return False
    if not at_the_same_time(run.run, first.job, second.job):
        return False
    return (one.local and two.local) or (one.host == two.host and not one.local)


@rule("PRS006", "two-servers-on-one-port", consequence="wrong", scope="run", since="3.10")
def two_servers_on_one_port(run: RunCheck) -> Iterator[Finding]:
    """Two servers with one port on one machine.

    The rollout server and a teacher server both listen on 8000 by default. The one that starts last moves to the next free port without a word, and the
    trainer sends both kinds of requests to the first.

    In the log: `404 Not Found` for `/init_communicator/`, or completions of the wrong model

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --infer_backend vllm --max_logprobs 64 &
    CUDA_VISIBLE_DEVICES=1 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8000 --gkd_logits_topk 64 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --infer_backend vllm --max_logprobs 64 --port 8100 &
    CUDA_VISIBLE_DEVICES=1 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 64 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/arguments/deploy_args.py:DeployArguments.__post_init__ (find_free_port)
    Not shown on CPU: no server is there to be reached
    """
    told: set[int | None] = set()
    for view in run.views:
        for teacher in teacher_endpoints(view):
            for rollout in rollout_endpoints(view):
                if teacher.port is None or teacher.port != rollout.port or not (teacher.host == rollout.host or (teacher.local and rollout.local)):
                    continue
                told.add(teacher.port)
                c = run.job(view)
                template = "the teacher server and the rollout server are both looked for on port {port} of {host}: one port serves one; e.g. teacher {free}, rollout {port}"
                yield c.finding(
                    template, "teacher_model_server", flags=["vllm_server_port", "port"], related=[(c.span("vllm_server_port"), "the rollout server")],
                    port=teacher.port, host=teacher.host, free=teacher.port + 100, fix=f"--port {teacher.port + 100} on the teacher, and in --teacher_model_server",
                )  # fmt: skip
    servers = [view for view in run.views if view.route in ("swift rollout", "swift deploy")]
    for at, b in enumerate(servers):
        a = next((a for a in servers[:at] if listens_on(a) == listens_on(b) and at_the_same_time(run.run, a.job, b.job)), None)
        if a is None or listens_on(b) is None or listens_on(b) in told:
            continue
        c, port = run.job(b), listens_on(b) or 0
        template = "two servers at the same time on port {port}: this one moves to the next free port without a word; give it --port {free}"
        at_port = "port" if b.use("port") is not None else None
        yield c.finding(template, at_port, flags=["port"], related=[(run.job(a).span("port"), "the other server")], port=port, free=port + 1, fix=c.set_flag("port", str(port + 1)))


@rule("PRS007", "server-in-the-foreground", consequence="hangs", scope="run")
def server_in_the_foreground(run: RunCheck) -> Iterator[Finding]:
    """A script that starts a server in the foreground and the trainer after it.

    A server runs until it is stopped, so the line after it is never reached. Start it with `&` (and stop it in a `trap`), or in a script of its own.

    In the log: the server's log, and no trainer

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    trap 'kill $!' EXIT
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/pipelines/infer/rollout.py:SwiftRolloutDeploy.run
    Not shown on CPU: the shell never reaches the second command
    """
    for server in run.views:
        if server.route not in ("swift rollout", "swift deploy") or not _runs_here(run, server):
            continue
        source = run.run.sources.get(server.job.span.file)
        for view in run.views:
            after = view.job.span.file == server.job.span.file and view.job.span.start >= server.job.span.end
            if not after or source is None or view.job.commented or view.job.maybe or view.job.host != server.job.host:
                continue
            between = source.data[server.job.span.end : view.job.span.start].decode("utf-8", "replace")
            before = source.data[: server.job.span.start].decode("utf-8", "replace").splitlines()
            comments = [line for line in (*between.splitlines(), *before[-4:]) if line.lstrip().startswith("#")]
            if any(_ELSEWHERE.search(line) for line in comments):
                return  # a listing of commands for several machines or terminals
            c = run.job(server)
            template = "`{route}` runs in the foreground and never ends: {next} after it is never reached; end this command with `&`"
            yield c.finding(template, None, related=[(run.job(view).span(None), "never reached")], route=server.route, next=f"`{view.route}`", fix="a `&` after this command")
            break


def _runs_here(run: RunCheck, view: View) -> bool:
    """The script itself surely starts this job, in the foreground."""
    job = view.job
    source = run.run.sources.get(job.span.file)
    if job.background or job.commented or job.maybe or job.loop or source is None:
        return False
    begin = source.data.rfind(b"\n", 0, job.span.start) + 1
    return _DETACHED.search(source.data, begin, job.span.end) is None


@rule("PRS008", "server-not-used", severity="warning", consequence="waste", scope="run", since="3.11")
def server_not_used(run: RunCheck) -> Iterator[Finding]:
    """A rollout server that no trainer of the run talks to.

    It was started, takes GPUs, and nothing asks it for completions: the trainers generate otherwise, or look for another address.

    In the log: nothing; its GPUs stay idle

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_external_vllm
    """
    trainers = [view for view in run.views if view.rlhf_type is not None]
    if not trainers or not run.servers or any(view.rlhf_type is UNKNOWN or view.get("vllm_mode") is UNKNOWN or view.open_ended for view in trainers):
        return
    if any(view.get("use_vllm") is UNKNOWN for view in trainers):
        return
    active = [view for view in trainers if talks_to_rollout(view)]
    if active and any(not rollout_endpoints(view) for view in active):
        return  # an address that is not known may be any server's
    used = {pair.server.index for pair in rollouts(run)}
    for server in run.servers:
        if server.index in used or (not active and (server.job.commented or any(_names_a_server(view) for view in trainers))):
            continue  # a server commented out beside a colocated trainer is an alternative, not a fault
        c = run.job(server)
        if active:
            listed = names(f"{e.host}:{e.port}" for view in active for e in rollout_endpoints(view))
            template = "no trainer of this run talks to this server (port {port}); they look for {listed}"
            yield c.finding(template, "port", flags=["vllm_server_host", "vllm_server_port"], port=listens_on(server), listed=listed, fix="add its host and port to --vllm_server_host and --vllm_server_port")
        else:
            view = trainers[0]
            how = "--vllm_mode colocate" if view.get("vllm_mode") == "colocate" else "no --vllm_mode server" if view.rlhf_type in ROLLOUT_TYPES else f"--rlhf_type {view.rlhf_type}"
            template = "no trainer of this run uses this server ({how}): give the trainer --vllm_mode server --vllm_server_host …, or drop the server"
            related = [(run.job(view).span("vllm_mode"), "the trainer")]
            yield c.finding(template, None, flags=["vllm_mode"], related=related, how=how, fix="--use_vllm true --vllm_mode server on the trainer, or no server")


def _names_a_server(view: View) -> bool:
    return bool(view.get("vllm_server_host")) or bool(view.get("vllm_server_base_url"))


@rule("PRS009", "loopback-to-another-machine", consequence="hangs", confidence="medium", scope="run", since="4.0")
def loopback_to_another_machine(run: RunCheck) -> Iterator[Finding]:
    """The server stands on another machine, but the trainer looks for it on its own.

    The comments above the commands (or the hosts they are sent to) put them on different machines, and the trainer's address is the loopback one.

    In the log: `ConnectionError: Servers not reachable after 240.0s: ['http://127.0.0.1:8000']`

    Wrong:
    ```sh
    # node A
    # CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B
    # node B
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    # node A
    # CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B
    # node B
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.check_server
    Not shown on CPU: no server is there to be reached
    """
    for pair in (*rollouts(run), *teachers(run)):
        if pair.endpoint.local and apart(run, pair.server, pair.trainer):
            c = run.job(pair.trainer)
            theirs, mine = names(sorted(machines(run, pair.server))), names(sorted(machines(run, pair.trainer)))
            template = "the server is meant for {theirs} and the trainer for {mine}, but the trainer looks for it at {host}, on its own machine; give the server's address"
            related = [(run.job(pair.server).span(None), "the server")]
            yield c.finding(
                template, pair.endpoint.flag, related=related, theirs=theirs, mine=mine, host=pair.endpoint.host, fix=f"--{pair.endpoint.flag} <address of the server's machine>"
            )  # fmt: skip
