"""Which trainer talks to which server, and where each of them runs. Pure functions over Views.

Sources (ms-swift 4.6): `rlhf_trainers/vllm_client.py`, `arguments/deploy_args.py`, `rlhf_trainers/gkd_helpers.py:parse_teacher_model_server`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from alula.run.lazy import urlsplit
from alula.run.record import record

from .parse import UNKNOWN

if TYPE_CHECKING:
    from .effective import View

RLHF_ROUTES = ("swift rlhf", "megatron rlhf")
SERVER_ROUTES = ("swift rollout", "swift deploy")
GROUP_PORT = 51216
"""First port of the weight-sync group; server number n gets this + n."""


@record
class Endpoint:
    """One server that a trainer talks to.

    Attributes:
        host: as written.
        port: None where it is not known.
        flag: the flag that names it.
        group_port: where the weights travel (rollout servers only); opened on the server's host.
    """

    host: str
    port: int | None
    flag: str
    group_port: int | None = None

    @property
    def local(self) -> bool:
        """The server runs on the trainer's own machine."""
        return loopback(self.host)


@record
class Pair:
    """A trainer and a server of the same run.

    Attributes:
        agreed: the trainer's port is the one that the server listens on; otherwise they are paired because nothing else fits.
    """

    trainer: View
    server: View
    endpoint: Endpoint
    agreed: bool


def loopback(host: str) -> bool:
    """The machine itself; as a destination `0.0.0.0` and `::` are, on Linux."""
    name = host.strip().strip("[]").lower()
    return name in ("localhost", "0.0.0.0", "::1", "::") or name.startswith("127.")


def talks_to_rollout(view: View) -> bool:
    """A trainer in server mode."""
    if view.route not in RLHF_ROUTES or view.job.ray is not None or view.rlhf_type not in ("grpo", "gkd"):
        return False
    return view.get("use_vllm") is True and view.get("vllm_mode") == "server"


def rollout_endpoints(view: View) -> tuple[Endpoint, ...]:
    """The rollout servers of a trainer in server mode; empty where they are not known."""
    if not talks_to_rollout(view):
        return ()
    urls, hosts, ports, groups = (view.get(f"vllm_server_{name}") for name in ("base_url", "host", "port", "group_port"))
    if UNKNOWN in (urls, hosts, ports):
        return ()
    if isinstance(urls, tuple):
        pairs = [(*_host_and_port(str(url)), "vllm_server_base_url") for url in urls]
    elif isinstance(hosts, tuple) and isinstance(ports, tuple):
        even = list(ports) if len(ports) == len(hosts) else list(ports[:1]) * len(hosts)
        pairs = [(str(host), _integer(port), "vllm_server_host") for host, port in zip(hosts, even, strict=False)]
    else:
        return ()
    return tuple(Endpoint(host, port, flag, _group(groups, at)) for at, (host, port, flag) in enumerate(pairs))


def _group(groups: Any, at: int) -> int | None:
    if groups is None:
        return GROUP_PORT + at
    return _integer(groups[at]) if isinstance(groups, tuple) and at < len(groups) else None


def teacher_endpoints(view: View) -> tuple[Endpoint, ...]:
    """The teacher servers of a trainer; empty where there are none or they are not known."""
    if view.route not in RLHF_ROUTES or view.rlhf_type not in ("grpo", "gkd"):
        return ()
    text = view.get("teacher_model_server")
    if not isinstance(text, str):
        return ()
    urls = [text.strip()]
    if text.strip().startswith("["):
        try:
            urls = [entry["url"] for entry in json.loads(text)]
        except (ValueError, TypeError, KeyError):
            return ()
    return tuple(Endpoint(*_host_and_port(str(url)), "teacher_model_server") for url in urls)


def _host_and_port(url: str) -> tuple[str, int | None]:
    if "://" not in url:
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # a port that is no number
        return "", None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def listens_on(server: View) -> int | None:
    """The port that a server asks for. Where it is taken, ms-swift moves to the next free one without a word."""
    return _integer(server.get("port"))


def moved_to(server: View, views: Sequence[View]) -> int | None:
    """Where a server ends up when the servers written before it in the run take their ports first; its own port when none is in the way."""
    port = listens_on(server)
    if port is None:
        return None
    taken = {moved_to(other, views) for other in views if other.route in SERVER_ROUTES and other.index < server.index}
    while port in taken:
        port += 1
    return port


def rollout_pairs(views: Sequence[View]) -> list[Pair]:
    """Trainers in server mode and the `swift rollout` servers of the same run."""
    return _match(views, "swift rollout", rollout_endpoints)


def teacher_pairs(views: Sequence[View]) -> list[Pair]:
    """Trainers with a teacher server and the `swift deploy` servers of the same run."""
    return _match(views, "swift deploy", teacher_endpoints)


def _match(views: Sequence[View], route: str, endpoints: Callable[[View], tuple[Endpoint, ...]]) -> list[Pair]:
    servers = [view for view in views if view.route == route]
    pairs: list[Pair] = []
    lone: list[tuple[View, Endpoint]] = []
    for trainer in views:
        turn: dict[int | None, int] = {}
        for endpoint in endpoints(trainer):
            same = [server for server in servers if endpoint.port is not None and listens_on(server) == endpoint.port]
            same = same or [server for server in servers if endpoint.port is not None and moved_to(server, views) == endpoint.port]
            if same:  # several servers on one port are several machines, in the order of the hosts
                at = turn.get(endpoint.port, 0)
                turn[endpoint.port] = at + 1
                pairs.append(Pair(trainer, same[min(at, len(same) - 1)], endpoint, True))
            else:
                lone.append((trainer, endpoint))
    taken = {id(pair.server) for pair in pairs}
    free = [server for server in servers if id(server) not in taken and listens_on(server) is not None]
    if len(free) == 1 and lone and len({trainer.index for trainer, _ in lone}) == 1 and all(endpoint.port is not None for _, endpoint in lone):
        trainer, endpoint = lone[0]
        if len(lone) == 1:
            pairs.append(Pair(trainer, free[0], endpoint, False))
    return pairs


def device_ids(view: View) -> frozenset[str] | None:
    """Devices that a job surely uses on its machine, by the ids of the visible-devices variable; None where they are not known.

    Without such a variable the first ones are used: as many as it has processes, or a server has tensor × data parallel ranks.
    """
    visible, hidden = view.place.devices, _hidden(view)
    if visible is None and hidden:
        return None
    if view.route in ("swift rollout", "swift deploy"):
        needed = _server_devices(view)
        if needed is None:
            return None
        return frozenset(visible[:needed]) if visible is not None else frozenset(map(str, range(needed)))
    if visible is not None:
        return frozenset(visible)
    local = view.place.local_world_size
    return frozenset(map(str, range(local))) if local else None


def _hidden(view: View) -> bool:
    from .launch import VISIBLE_DEVICES

    return any(name in view.job.env for name in VISIBLE_DEVICES)


def _server_devices(view: View) -> int | None:
    if view.route == "swift deploy" and view.get("infer_backend") != "vllm":
        return 1
    sizes = [_integer(view.get(f"vllm_{axis}_parallel_size")) for axis in ("tensor", "data")]
    pipeline = _integer(view.get("vllm_pipeline_parallel_size")) if view.route == "swift deploy" else 1
    if None in sizes or pipeline is None:
        return None
    count = pipeline
    for size in sizes:
        count *= size or 1
    return count
