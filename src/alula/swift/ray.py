"""What ms-swift makes of the two Ray schemas: role groups of Megatron-Ray, device groups of `swift sft` and `swift sample`.

Counts are GPUs. Sources (ms-swift 4.6): `ray/megatron/driver_utils.py` (parse_ray_yaml, RayConfig), `ray/megatron/pipeline.py` (_create_pools),
`ray/megatron/rollout/replica.py` (create_replicas), `ray_utils/resource_manager.py` (ResourceManager), `ray_utils/base.py` (_create_workers).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from alula.run.record import record

from .effective import View, view

if TYPE_CHECKING:
    from alula.run.job import RaySpec
    from alula.run.source import Token

ROLES = ("train", "rollout", "teacher")
WORKERS = {"swift sft": ("default",), "swift sample": ("sampler", "prm", "orm")}
"""Roles that a pipeline asks workers for."""


def group_view(v: View, role: str) -> View | None:
    """The job as the parser would see one role's merged keys, or None where there is no such group."""
    spec = v.job.ray
    if spec is None or role not in spec.groups:
        return None
    return view(replace(v.job, argv=spec.groups[role].argv), v.index, v.facts, v.cluster)


def number(token: Token | None, default: int) -> int | None:
    """The integer a YAML scalar holds, `default` where there is none, None where it is no integer."""
    if token is None:
        return default
    try:
        return int(token.text)
    except ValueError:
        try:
            value = float(token.text)
        except ValueError:
            return None
        return int(value) if value == value and abs(value) != float("inf") else None


@record
class RayPlan:
    """The layout that a Megatron-Ray config asks for.

    Attributes:
        gpus: for each role, over all nodes; None where it is no number.
        nnodes: nodes that every pool is spread over.
        colocated: groups of roles that share GPUs, as written.
        hybrid: the rollout engines share the trainer's GPUs.
        sleep_level: as the engines get it; 0 in separate mode, 1 at most in hybrid mode.
    """

    spec: RaySpec
    gpus: Mapping[str, int | None]
    nnodes: int | None
    colocated: tuple[tuple[str, ...], ...]
    hybrid: bool
    sleep_level: int | None

    def engine(self, role: str, key: str, default: int = 1) -> int | None:
        """A vLLM size of a role's engines: the group's own key, else the shared one."""
        return number(self.setting(role, key), default)

    def setting(self, role: str, key: str) -> Token | None:
        """The token of a key as it reaches a role, or None; a null counts as absent."""
        group = self.spec.groups.get(role)
        found = group.keys.get(key) if group is not None else None
        if found is None:
            found = self.spec.top.get(key)
        return None if found is None or found.text == "None" else found

    def ranks_a_replica(self, role: str) -> int | None:
        tensor, data = self.engine(role, "vllm_tensor_parallel_size"), self.engine(role, "vllm_data_parallel_size")
        return None if tensor is None or data is None else tensor * data

    def replicas(self, role: str) -> int | None:
        """Engines of a role, or None where they cannot be made or known."""
        each, gpus = self.ranks_a_replica(role), self.gpus.get(role)
        return None if not each or not gpus or each < 1 or gpus % each else gpus // each

    @property
    def pools(self) -> tuple[tuple[tuple[str, ...], int], ...]:
        """(roles, GPUs) of every pool; roles that share GPUs count once."""
        made: list[tuple[tuple[str, ...], int]] = []
        assigned: set[str] = set()
        for group in self.colocated:
            counts = [self.gpus.get(role) for role in group]
            if counts and counts[0]:
                made.append((group, counts[0]))
                assigned.update(group)
        for role in ROLES:
            count = self.gpus.get(role)
            if role not in assigned and count and count > 0:
                made.append(((role,), count))
        return tuple(made)

    @property
    def total(self) -> int:
        return sum(count for _, count in self.pools)


def ray_plan(v: View) -> RayPlan | None:
    """The layout of a Megatron-Ray job, or None for another."""
    spec = v.job.ray
    if spec is None:
        return None
    gpus = {role: number(spec.groups[role].keys.get("gpus"), 0) if role in spec.groups else 0 for role in ROLES}
    hybrid = any("train" in group and "rollout" in group for group in spec.colocate_groups)
    level = number(spec.top.get("sleep_level"), 1)
    effective = level if level is None else min(level, 1) if hybrid else 0
    return RayPlan(spec, gpus, number(spec.top.get("nnodes"), 1), spec.colocate_groups, hybrid, effective)


# --- device_groups ---


@record
class DeviceGroup:
    """One group of `device_groups`. `ranks` is None where the text cannot be worked out."""

    name: str
    device: str
    ranks: tuple[int, ...] | None
    workers: tuple[str, ...]
    count: int = 0


@record
class DeviceGroups:
    """`--device_groups` read as ms-swift's resource manager reads it.

    Attributes:
        faults: why it stops, in its order; each a sentence with the values in it.
        nodes: Ray nodes it needs, each with `nproc` devices; None where that is not known.
    """

    nproc: int | None = None
    groups: tuple[DeviceGroup, ...] = ()
    faults: tuple[str, ...] = ()
    nodes: int | None = None
    roles: tuple[str, ...] = field(default=())


def device_groups(text: str, wanted: tuple[str, ...]) -> DeviceGroups:
    """`text` is the JSON; `wanted` are the roles of the pipeline. Stops at the first fault that leaves nothing more to say."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        return DeviceGroups(faults=(f"it is no JSON: {error}",))
    if not isinstance(raw, dict):
        return DeviceGroups(faults=("it must be a JSON object",))
    return _Reader(raw, wanted).read()


class _Reader:
    def __init__(self, raw: Mapping[str, Any], wanted: tuple[str, ...]) -> None:
        self.raw = raw
        self.wanted = wanted

    def read(self) -> DeviceGroups:
        faults = list(self._shape())
        nproc = _integer(self.raw.get("nproc_per_node"))
        if faults:
            return DeviceGroups(nproc, faults=tuple(faults))
        groups = tuple(self._groups())
        faults = list(self._ranks(groups, nproc or 0))
        roles = tuple(role for group in groups for role in group.workers)
        known = [rank for group in groups if group.ranks is not None for rank in group.ranks]
        complete = all(group.ranks is not None for group in groups if group.device.upper() != "CPU")
        nodes = ceil(len(known) / nproc) if complete and nproc else None
        for role in self.wanted:
            if role not in roles:
                faults.append(f"no group lists the worker `{role}` (this pipeline needs: {', '.join(self.wanted)})")
        for group in groups:
            if group.device.upper() == "CPU" and any(role in group.workers for role in self.wanted):
                faults.append(f"group `{group.name}` is on CPU, which ms-swift cannot start (KeyError: 'CPU')")
        return DeviceGroups(nproc, groups, tuple(faults), nodes, roles)

    def _named(self) -> Iterator[tuple[str, Any]]:
        return ((name, group) for name, group in self.raw.items() if name not in ("nproc_per_node", "nnodes"))

    def _shape(self) -> Iterator[str]:
        if "nproc_per_node" not in self.raw:
            yield "`nproc_per_node` (devices of one node) is missing"
            return
        nproc = _integer(self.raw["nproc_per_node"])
        if nproc is None or nproc < 1:
            yield f"`nproc_per_node` must be a number of devices, not {self.raw['nproc_per_node']!r}"
            return
        for name in ("nproc_per_node", "nnodes"):
            if isinstance(self.raw.get(name), str):
                yield f"`{name}` must be a number, not the text {self.raw[name]!r}"
                return
        types = set()
        for name, group in self._named():
            if not isinstance(group, dict):
                yield f"group `{name}` must be an object with device, ranks and workers"
                return
            missing = [key for key in ("device", "ranks", "workers") if key not in group]
            if missing:
                yield f"group `{name}` lacks {' and '.join(missing)}"
                return
            types.add(str(group["device"]).upper())
        types -= {"CPU"}
        if len(types) != 1:
            yield f"all groups must be on one kind of device (GPU or NPU), not {' and '.join(sorted(types)) or 'CPU alone'}"
        elif types - {"GPU", "NPU"}:
            yield f"device must be GPU or NPU, not {next(iter(types))}"

    def _groups(self) -> Iterator[DeviceGroup]:
        last = -1
        for name, group in self._named():
            device, workers = str(group["device"]), group["workers"]
            listed = tuple(str(role) for role in workers) if isinstance(workers, list) else (str(workers),)
            if device.upper() == "CPU":
                yield DeviceGroup(name, device, (), listed, _integer(group["ranks"]) or 0)
                continue
            ranks = _ranks(group["ranks"], last)
            last = ranks[-1] if ranks else last
            yield DeviceGroup(name, device, ranks, listed)

    def _ranks(self, groups: tuple[DeviceGroup, ...], nproc: int) -> Iterator[str]:
        owners: dict[int, str] = {}
        for group in groups:
            if group.device.upper() == "CPU":
                if not isinstance(self.raw[group.name]["ranks"], int):
                    yield f"group `{group.name}`: on CPU, ranks must be a number"
                continue
            if group.ranks == ():
                yield f"group `{group.name}` has no ranks"
            for rank in group.ranks or ():
                if rank in owners:
                    yield f"rank {rank} is in group `{owners[rank]}` and in group `{group.name}`"
                    return
                owners[rank] = group.name
        if any(group.ranks is None for group in groups) or not nproc or not owners:
            return
        nodes = ceil(len(owners) / nproc)
        beyond = [rank for rank in owners if rank // nproc >= nodes or rank < 0]
        if beyond:
            yield f"rank {beyond[0]} lies on node {beyond[0] // nproc}, but {len(owners)} ranks with nproc_per_node {nproc} make {nodes} node(s): ranks may leave no gap"


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return int(value)
    except ValueError:
        return None


def _ranks(value: Any, last: int) -> tuple[int, ...] | None:
    """A number takes the next ranks; a list stands for itself; a text may be a list or `list(range(…))`."""
    count = _integer(value)
    if count is not None:
        return tuple(range(last + 1, last + 1 + count)) if count <= 1_000_000 else None
    if isinstance(value, list):
        return tuple(rank for rank in value if isinstance(rank, int)) if all(isinstance(rank, int) for rank in value) else None
    return _expression(value) if isinstance(value, str) else None


def _expression(text: str) -> tuple[int, ...] | None:
    try:
        node: ast.AST = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "list" and len(node.args) == 1 and not node.keywords:
        node = node.args[0]
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        return tuple(items) if len(items) == len(node.elts) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range" and 1 <= len(node.args) <= 3:
        bounds = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, int)]
        if len(bounds) == len(node.args) and (len(bounds) < 3 or bounds[2] != 0):
            span = range(*bounds)
            return tuple(span) if len(span) <= 1_000_000 else None
    return None
