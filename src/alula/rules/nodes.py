"""Several nodes, and several jobs on one: rendezvous variables, ports and devices that jobs take from each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.launch import integer

from .context import JobCheck, RunCheck, names
from .registry import MEGATRON, TRAIN, rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.job import Job, Launch, Run
    from alula.swift.effective import View

DEFAULT_PORT = 29500  # torchrun's static rendezvous
GROUP_PORT = 51216  # of the weight-sync group, where --vllm_server_group_port is not given (rlhf_trainers/vllm_client.py)
_LOOPBACK = re.compile(r"^(localhost|127(\.\d+){0,3}|::1|0\.0\.0\.0)$")
_WAIT = re.compile(rb"(?m)(?:^|[;&|]|\bthen\b|\bdo\b)\s*wait\b")
_RENDEZVOUS = ("rdzv_endpoint", "rdzv-endpoint", "rdzv_id", "rdzv-id", "standalone")


def loopback(address: str) -> bool:
    """True for an address that every machine takes for itself."""
    return bool(_LOOPBACK.match(address.strip()))


def _torchrun(view: View) -> bool:
    return view.place.torchrun and view.job.launch.launcher in ("cli", "torchrun")


def _other_rendezvous(run: Run, job: Job) -> bool:
    """torchrun with an endpoint of its own needs neither MASTER_ADDR nor NODE_RANK; those options stay in the source text only."""
    source = run.sources.get(job.span.file)
    return job.launch.launcher == "torchrun" and (source is None or any(word in source.text(job.span) for word in _RENDEZVOUS))


def _several_nodes(c: JobCheck) -> int | None:
    """The known number of nodes where it is more than one and torchrun meets over MASTER_ADDR; else None."""
    count = integer(c.job.launch.nnodes)
    if count is None or count < 2 or not _torchrun(c.v) or _other_rendezvous(c.whole.run, c.job):
        return None
    return count


@rule("LCH020", "no-master-address", consequence="hangs", confidence="medium")
def no_master_address(c: JobCheck) -> Iterator[Finding]:
    """Several nodes and no MASTER_ADDR.

    torchrun takes 127.0.0.1 then: every node waits for the others on itself until the rendezvous times out.

    In the log: nothing, then `DistStoreError: Timed out … clients joined`

    Wrong:
    ```sh
    NNODES=2 NODE_RANK=0 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args; torch/distributed/run.py
    Not shown on CPU: the nodes wait for each other before ms-swift starts
    """
    count = _several_nodes(c)
    if count is not None and c.job.launch.master_addr is None:
        template = "NNODES={count} without MASTER_ADDR: every node waits for the others on 127.0.0.1; set the address of node 0 on all {count} nodes"
        yield c.finding(template, "NNODES", flags=["MASTER_ADDR"], count=count, fix="MASTER_ADDR=<address of node 0>")


@rule("LCH021", "no-node-rank", consequence="hangs", confidence="medium")
def no_node_rank(c: JobCheck) -> Iterator[Finding]:
    """Several nodes and no NODE_RANK: every node takes itself for node 0.

    torchrun reads the rank from its option; ms-swift passes it only if NODE_RANK is set.

    In the log: `DistNetworkError: The server socket has failed to listen …`, or a timeout while clients join

    Wrong:
    ```sh
    NNODES=2 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    Not shown on CPU: the nodes wait for each other before ms-swift starts
    """
    count = _several_nodes(c)
    if count is not None and c.job.launch.node_rank is None:
        template = "NNODES={count} without NODE_RANK: every node is node 0; set NODE_RANK to 0 … {last}, another one on each node"
        yield c.finding(template, "NNODES", flags=["NODE_RANK"], count=count, last=count - 1, fix=f"NODE_RANK=0 … {count - 1}")


@rule("LCH022", "node-rank-out-of-range", consequence="hangs")
def node_rank_out_of_range(c: JobCheck) -> Iterator[Finding]:
    """NODE_RANK is no number from 0 to NNODES − 1.

    Ranks count from 0. A node with a rank beyond the end is not waited for, and the one whose rank is missing is waited for until the timeout.

    In the log: a timeout while clients join

    Wrong:
    ```sh
    NNODES=2 NODE_RANK=2 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py
    Not shown on CPU: the nodes wait for each other before ms-swift starts
    """
    for launch in c.job.launches:
        count, rank = integer(launch.nnodes), integer(launch.node_rank)
        if _torchrun(c.v) and count is not None and rank is not None and not 0 <= rank < max(count, 1):
            template = "NODE_RANK={rank} with NNODES={count}: ranks are 0 … {last}"
            yield c.finding(template, launch.node_rank, flags=["NODE_RANK", "NNODES"], rank=rank, count=count, last=count - 1, fix=f"NODE_RANK=0 … {count - 1}")


@rule("LCH023", "loopback-master", consequence="hangs")
def loopback_master(c: JobCheck) -> Iterator[Finding]:
    """MASTER_ADDR is a loopback address on a node that is not node 0.

    127.0.0.1 is another machine on every node: this one looks for node 0 on itself and never finds it.

    In the log: nothing, then a timeout or `Connection refused`

    Wrong:
    ```sh
    NNODES=8 NODE_RANK=1 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=8 NODE_RANK=1 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py
    Not shown on CPU: the nodes wait for each other before ms-swift starts
    """
    yield from _loopback(c, first=False)


@rule("LCH027", "loopback-on-first-node", severity="warning", confidence="medium", consequence="hangs")
def loopback_on_first_node(c: JobCheck) -> Iterator[Finding]:
    """MASTER_ADDR is a loopback address on node 0 of several.

    Node 0 may call itself 127.0.0.1, but the same script on another node looks for node 0 there and hangs. Only scripts that name node 0's real address work
    on every node.

    In the log: node 0 waits for the others until a timeout

    Wrong:
    ```sh
    NNODES=8 NODE_RANK=0 MASTER_ADDR=127.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=8 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py
    """
    yield from _loopback(c, first=True)


def _loopback(c: JobCheck, *, first: bool) -> Iterator[Finding]:
    count = _several_nodes(c)
    if count is None:
        return
    others = [launch for launch in c.job.launches if integer(launch.node_rank) != 0]
    reached = bool(others) and all(launch.master_addr is not None and not (launch.master_addr.known and loopback(launch.master_addr.text)) for launch in others)
    for launch in c.job.launches:
        address = launch.master_addr
        if address is None or not address.known or not loopback(address.text) or (integer(launch.node_rank) == 0) is not first or (first and reached):
            continue
        template = "MASTER_ADDR={address} with NNODES={count}: " + (
            "the other nodes cannot find node 0 there; write the address under which all {count} nodes reach node 0" if first
            else "this node would look for node 0 on itself; write the address under which all {count} nodes reach node 0"
        )  # fmt: skip
        yield c.finding(template, address, flags=["MASTER_ADDR", "NNODES"], address=address.text, count=count, fix="MASTER_ADDR=<address of node 0>")


@rule("LCH024", "nodes-without-processes", severity="warning", consequence="wrong")
def nodes_without_processes(c: JobCheck) -> Iterator[Finding]:
    """NNODES without NPROC_PER_NODE: one process on each node.

    ms-swift passes on what is set; torchrun's own default is one process a node, however many devices there are.

    In the log: `world_size: 2`

    Wrong:
    ```sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    """
    count = _several_nodes(c)
    devices = c.v.place.device_count
    if count is None or c.job.launch.nproc is not None or devices == 1:
        return
    advice = f"NPROC_PER_NODE={devices or '<devices of a node>'}"
    template = "NNODES={count} without NPROC_PER_NODE: torchrun starts one process on each of the {count} nodes; set {advice}"
    yield c.finding(template, "NNODES", flags=["NPROC_PER_NODE"], count=count, advice=advice, fix=advice)


@rule("LCH025", "node-variables-unused", severity="warning", consequence="wrong")
def node_variables_unused(c: JobCheck) -> Iterator[Finding]:
    """NODE_RANK or a MASTER_ADDR of another machine, and no NNODES.

    Without NNODES every node trains for itself. Cluster schedulers hand out WORLD_SIZE and RANK as counters of nodes; ms-swift does not read those as
    such: write `NNODES=$WORLD_SIZE NODE_RANK=$RANK`.

    In the log: `world_size: 8` on every node

    Wrong:
    ```sh
    NODE_RANK=1 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    """
    route = c.facts.routes.get(c.v.route)
    launch = c.job.launch
    if launch.launcher != "cli" or route is None or not route.torchrun or launch.nnodes is not None or c.job.ray is not None:
        return
    rank, address = integer(launch.node_rank), launch.master_addr
    said = []
    if rank is not None and rank > 0:
        said.append(f"NODE_RANK={rank}")
    if address is not None and address.known and address.text and not loopback(address.text):
        said.append(f"MASTER_ADDR={address.text}")
    counters = [f"{name}={c.env(name)}" for name in ("WORLD_SIZE", "RANK") if c.env(name) and _written(c, name)]
    if not said and not (len(counters) == 2 and launch.nproc is not None):
        return
    size = c.env("WORLD_SIZE")
    local = integer(launch.nproc)
    if size and size.isdigit() and int(size) in (1, local or 1) and not said:
        return
    at = "NODE_RANK" if rank else "MASTER_ADDR" if said else "WORLD_SIZE"
    template = "{said} without NNODES: ms-swift starts a job of one node here; set NNODES (and NODE_RANK, MASTER_ADDR) on every node"
    yield c.finding(template, at, flags=["NNODES"], said=names([*said, *counters]), fix="NNODES=<number of nodes> NODE_RANK=<this node>")


def _written(c: JobCheck, name: str) -> bool:
    entry = c.env_entry(name)
    return entry is not None and entry.how != "inherited"


@rule("LCH026", "nodes-disagree", consequence="hangs", scope="run")
def nodes_disagree(run: RunCheck) -> Iterator[Finding]:
    """The scripts of two nodes disagree: the same NODE_RANK, or another NNODES, MASTER_ADDR or MASTER_PORT.

    Checked together (`--together`), the scripts of one job's nodes must differ in NODE_RANK and in nothing else of these.

    In the log: a timeout while clients join

    Wrong:
    ```sh node0.sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```sh node1.sh
    NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29501 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh node0.sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```sh node1.sh
    NNODES=2 NODE_RANK=1 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py
    Not shown on CPU: the nodes wait for each other before ms-swift starts
    """
    for view in run.views:
        c = run.job(view)
        first, *others = view.job.launches
        for launch in others:
            for label in ("nnodes", "nproc", "master_addr", "master_port"):
                a, b = getattr(first, label), getattr(launch, label)
                if label == "master_addr" and any(_calls_itself(node) for node in (first, launch)):
                    continue
                if a is not None and b is not None and a.known and b.known and a.text != b.text:
                    name = {"nproc": "NPROC_PER_NODE"}.get(label, label.upper())
                    template = "the nodes of one job disagree about {name}: {a} and {b}"
                    yield c.finding(template, b, flags=[name], related=[(a, "the other node")], name=name, a=a.text, b=b.text, fix=f"the same {name} on every node")
    yield from _same_rank_twice(run)


def _calls_itself(launch: Launch) -> bool:
    """Node 0 under a loopback address: the others name it otherwise, and rightly so."""
    address = launch.master_addr
    return integer(launch.node_rank) == 0 and address is not None and loopback(address.text)


def _same_rank_twice(run: RunCheck) -> Iterator[Finding]:
    seen: dict[tuple[str, tuple[str, ...]], View] = {}
    for view in run.views:
        job = view.job
        count, rank = integer(job.launch.nnodes), integer(job.launch.node_rank)
        if count is None or count < 2 or rank is None:
            continue
        key = (job.route, tuple(token.text for token in job.argv))
        other = seen.setdefault(key, view)
        if other is not view and other.job.file != job.file and integer(other.job.launch.node_rank) == rank:
            c = run.job(view)
            template = "{file} and {other} are the same job, both with NODE_RANK={rank}: each node needs its own, 0 … {last}"
            yield c.finding(
                template, job.launch.node_rank, flags=["NODE_RANK"], related=[(other.job.launch.node_rank, "the other node")], file=job.file, other=other.job.file,
                rank=rank, last=count - 1, fix=f"NODE_RANK=0 … {count - 1}",
            )  # fmt: skip


# --- jobs at the same time on one host ---


def at_the_same_time(run: Run, a: Job, b: Job) -> bool:
    """True when job `b` surely starts while `a` runs: one script starts `a` in the background and never waits before `b`."""
    if a.file != b.file or a.host != b.host or a.commented or b.commented or a.maybe or b.maybe or not a.background:
        return False
    if a.span == b.span:
        return b.background
    source = run.sources.get(a.span.file)
    if source is None or a.span.file != b.span.file or a.span.end > b.span.start:
        return False
    return not _WAIT.search(source.data, a.span.end, b.span.start)


def _pairs(run: RunCheck, routes: tuple[str, ...]) -> Iterator[tuple[View, View]]:
    views = [view for view in run.views if view.route in routes and view.job.ray is None]
    for at, a in enumerate(views):
        for b in views[at + 1 :]:
            if at_the_same_time(run.run, a.job, b.job):
                yield a, b


def _port(view: View) -> int | None:
    """The port that a one-node torchrun job listens on, or None."""
    if not _torchrun(view) or view.place.nnodes != 1:
        return None
    token = view.job.launch.master_port
    return DEFAULT_PORT if token is None else integer(token)


@rule("LCH030", "same-master-port", consequence="wrong", scope="run")
def same_master_port(run: RunCheck) -> Iterator[Finding]:
    """Two jobs at the same time on one host with the same MASTER_PORT.

    torchrun listens on 29500 unless MASTER_PORT says otherwise; the second job finds the port taken.

    In the log: `The server socket has failed to listen on any local network address. … EADDRINUSE`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset a.jsonl &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset b.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset a.jsonl &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 MASTER_PORT=29501 swift sft --model Qwen/Qwen3-8B --dataset b.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    Not shown on CPU: the port is taken before ms-swift starts
    """
    taken: set[int] = set()
    for view in run.views:
        port = _port(view)
        if port is not None:
            taken.add(port)
    for a, b in _pairs(run, (*TRAIN, *MEGATRON, "megatron export", "swift infer")):
        port = _port(b)
        if port is None or _port(a) != port or _other_rendezvous(run.run, b.job):
            continue
        c = run.job(b)
        free = next(number for number in range(DEFAULT_PORT + 1, DEFAULT_PORT + 1000) if number not in taken)
        taken.add(free)
        template = "two jobs at the same time on MASTER_PORT {port}{default}: the second finds it taken; MASTER_PORT={free}"
        at = b.job.launch.master_port
        yield c.finding(
            template, at if at is not None else "NPROC_PER_NODE", flags=["MASTER_PORT"], port=port, default="" if at is not None else " (the default)", free=free,
            related=[(run.job(a).span(a.job.launch.master_port), "the other job")], fix=c.set_env("MASTER_PORT", str(free), safety="safe"),
        )  # fmt: skip


@rule("LCH031", "jobs-share-devices", severity="warning", consequence="waste", scope="run")
def jobs_share_devices(run: RunCheck) -> Iterator[Finding]:
    """Two training jobs at the same time on the same devices.

    Both keep their weights and optimizer states there and run at half speed, or the second runs out of memory.

    In the log: `torch.OutOfMemoryError`, or slow steps

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 MASTER_PORT=29500 swift sft --model Qwen/Qwen3-8B --dataset a.jsonl &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 MASTER_PORT=29501 swift sft --model Qwen/Qwen3-8B --dataset b.jsonl &
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 MASTER_PORT=29500 swift sft --model Qwen/Qwen3-8B --dataset a.jsonl &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 MASTER_PORT=29501 swift sft --model Qwen/Qwen3-8B --dataset b.jsonl &
    ```

    Source: CUDA C++ Programming Guide, environment variables
    """
    for a, b in _pairs(run, (*TRAIN, *MEGATRON, "swift sample", "swift infer")):
        shared = sorted(set(a.place.devices or ()) & set(b.place.devices or ()))
        if shared:
            c = run.job(b)
            template = "this job and the one still running in the background share device(s) {shared}"
            at = "CUDA_VISIBLE_DEVICES" if "CUDA_VISIBLE_DEVICES" in b.job.env else "ASCEND_RT_VISIBLE_DEVICES"
            yield c.finding(template, at, flags=[at], related=[(run.job(a).span(at), "the other job")], shared=", ".join(shared), fix="other devices, or `wait` before this job")


@rule("LCH032", "master-port-of-a-server", consequence="wrong", routes=("swift rlhf", "megatron rlhf"))
def master_port_of_a_server(c: JobCheck) -> Iterator[Finding]:
    """MASTER_PORT is a port that the rollout server or the weight sync on the same host uses.

    The rendezvous, the rollout server (`--vllm_server_port`, 8000) and the weight-sync group (`--vllm_server_group_port`, 51216) each need their own port.

    In the log: `EADDRINUSE`, or the trainer talks to the wrong service and times out

    Wrong:
    ```sh
    NPROC_PER_NODE=4 MASTER_PORT=8000 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 \\
        --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 MASTER_PORT=29500 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 \\
        --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMClient
    Not shown on CPU: the port is taken before ms-swift starts
    """
    port, hosts = integer(c.job.launch.master_port), c.v.get("vllm_server_host")
    if port is None or c.v.get("vllm_mode") != "server" or not isinstance(hosts, tuple) or not any(isinstance(h, str) and loopback(h) for h in hosts):
        return
    for flag in ("vllm_server_port", "vllm_server_group_port"):
        value = c.v.get(flag)
        if value is None and flag == "vllm_server_group_port":
            value = GROUP_PORT
        ports = value if isinstance(value, tuple) else (value,)
        if port in ports or str(port) in ports:
            template = "MASTER_PORT={port} is also --{flag} {port} on this host: one port cannot serve both; MASTER_PORT={free}"
            yield c.finding(template, "MASTER_PORT", flags=[flag], port=port, flag=flag, free=DEFAULT_PORT, fix=c.set_env("MASTER_PORT", str(DEFAULT_PORT)))
