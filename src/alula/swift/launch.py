"""Processes and devices: what a Job's launch variables give, as ms-swift and torchrun read them.

Sources: `swift/cli/main.py` (use_torchrun, get_torchrun_args), `swift/utils/env.py` (get_dist_setting, is_mp).
Counts are numbers of processes or accelerators; None means that it cannot be known from what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from alula.run.record import record

if TYPE_CHECKING:
    from alula.run.job import Cluster, EnvEntry, Job
    from alula.run.source import Token

VISIBLE_DEVICES = ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES")


@record
class Placement:
    """Where the processes of a job run.

    Attributes:
        torchrun: the training code runs under torchrun (or accelerate, deepspeed), so that rank variables are set.
        local_world_size: processes on one node.
        nnodes: nodes.
        world_size: all processes.
        devices: ids visible on each node, as written; None where only a count or nothing is known.
        device_count: accelerators visible on each node.
        device_map: several devices for one process, so that the model is cut over them (`is_mp`); None where not known.
        uneven: devices are no multiple of the processes: every training command stops at `is_mp`'s assertion.
    """

    torchrun: bool
    local_world_size: int | None
    nnodes: int | None
    world_size: int | None
    devices: tuple[str, ...] | None
    device_count: int | None
    device_map: bool | None
    uneven: bool = False


def integer(token: Token | None) -> int | None:
    """The number that a token holds, or None."""
    if token is None or not token.known:
        return None
    try:
        return int(token.text.strip())
    except ValueError:
        return None


def env_text(env: Mapping[str, EnvEntry], name: str) -> str | None:
    """An environment variable's exact text, or None when it is absent or not known."""
    entry = env.get(name)
    return entry.token.text if entry is not None and entry.token.known else None


def visible_devices(env: Mapping[str, EnvEntry]) -> tuple[str, ...] | None:
    """The ids of the first visible-devices variable that is set; CUDA stops at the first id that is no device."""
    for name in VISIBLE_DEVICES:
        text = env_text(env, name)
        if text is None:
            continue
        ids: list[str] = []
        for item in text.split(","):
            item = item.strip()
            if not item or item == "-1":
                break
            ids.append(item)
        return tuple(ids)
    return None


def place(job: Job, cluster: Cluster, torchrun_route: bool) -> Placement:
    """Job -> Placement. `torchrun_route` says whether ms-swift ever starts this route under torchrun."""
    launch = job.launch
    devices = visible_devices(job.env)
    hidden = devices is None and any(name in job.env for name in VISIBLE_DEVICES)
    count = len(devices) if devices is not None else (None if hidden else cluster.gpus_per_node)
    if launch.launcher == "ray":  # nproc is the train group's GPUs over all nodes; Ray gives each worker one device
        world = integer(launch.nproc)
        hosts = 1 if launch.nnodes is None else integer(launch.nnodes)
        per_node = world // hosts if world is not None and hosts else None
        return Placement(True, per_node, hosts, world, devices, count, False)
    if launch.launcher == "python" or (launch.launcher == "cli" and not (torchrun_route and (launch.nproc or launch.nnodes))):
        # A plain process; a WORLD_SIZE in the environment without ranks changes no batch arithmetic (the trainer asks accelerate).
        local: int | None = 1
        nodes: int | None = 1
        distributed = False
    else:
        distributed = True
        local = _processes(launch.nproc, count)
        nodes = 1 if launch.nnodes is None else integer(launch.nnodes)
    total = local * nodes if local is not None and nodes is not None else None
    single = env_text(job.env, "SWIFT_SINGLE_DEVICE_MODE") == "1"
    device_map: bool | None = None
    uneven = False
    if single:
        device_map = False
    elif count is not None and local:
        uneven = count % local != 0
        device_map = count // local >= 2
    return Placement(distributed, local, nodes, total, devices, count, device_map, uneven and not single)


def _processes(token: Token | None, devices: int | None) -> int | None:
    if token is None:
        return 1
    if token.known and token.text in ("gpu", "auto"):
        return devices
    return integer(token)
