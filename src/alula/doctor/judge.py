"""Found things against needed things: pure judgements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from alula.facts._data import numbers, satisfies
from alula.facts.backends import Backend, backends
from alula.run.record import record

if TYPE_CHECKING:
    from alula.facts.swift import SwiftFacts

Status = Literal["ok", "missing", "old", "conflict", "broken", "not-needed"]


@record
class Probe:
    """One answer.

    Attributes:
        needed_by: what in the run asks for it; empty when nothing does.
        fix: a literal command where something is to be done.
    """

    name: str
    status: Status
    version: str | None
    needed_by: str
    detail: str = ""
    fix: str = ""


def judge(found: Mapping[str, Any], needed: Mapping[str, str], facts: SwiftFacts) -> list[Probe]:
    """What `gather` found, and backend name -> what needs it -> one Probe a backend, in the order of the table, then CUDA."""
    out = [_backend(backend, found, needed.get(backend.name, ""), facts) for backend in backends()]
    out.append(_accelerator(found, needed))
    return out


def _backend(backend: Backend, found: Mapping[str, Any], needed_by: str, facts: SwiftFacts) -> Probe:
    name = next((n for n in backend.distributions if n in found["versions"]), None)
    note = backend.note
    if name is None:
        if found["modules"].get(backend.module) and backend.name != "megatron-core":
            return Probe(backend.name, "ok", None, needed_by, "the module is there without package metadata")
        if not needed_by:
            return Probe(backend.name, "not-needed", None, "", "not installed")
        return Probe(backend.name, "missing", None, needed_by, note or f"not installed, and {needed_by} needs it", backend.install)
    version: str = found["versions"][name]
    if version.startswith("broken"):
        return Probe(backend.name, "broken", None, needed_by, "its package metadata cannot be read", f"pip install --force-reinstall {name}")
    wanted = facts.requires.get(name) or facts.megatron_requires.get(name)
    if wanted and not satisfies(_release(version), wanted):
        return Probe(backend.name, "conflict", version, needed_by, f"ms-swift {facts.version} asks for {name}{wanted}", f"pip install '{name}{wanted}'")
    if backend.minimum and needed_by and (not backend.minimum_for or backend.minimum_for in needed_by) and numbers(_release(version)) < numbers(backend.minimum):
        return Probe(backend.name, "old", version, needed_by, f"{backend.minimum} is the least that works ({backend.source})", backend.install)
    return Probe(backend.name, "ok", version, needed_by)


def _release(version: str) -> str:
    """`2.8.0+cu128` and `0.11.0rc1` -> the numbers that bounds compare."""
    out: list[str] = []
    for part in version.partition("+")[0].split("."):
        digits = "".join(char for at, char in enumerate(part) if char.isdigit() and part[: at + 1].isdigit())
        if not digits:
            break
        out.append(digits)
    return ".".join(out) or "0"


def _accelerator(found: Mapping[str, Any], needed: Mapping[str, str]) -> Probe:
    devices = found["devices"]
    torch = found["versions"].get("torch", "")
    build = torch.partition("+")[2]
    count = devices["nvidia"] or devices["ascend"]
    if devices["nvidia"]:
        detail = f"{devices['nvidia']} NVIDIA device files, driver {devices['driver'] or 'not readable'}" + (f", torch built for {build}" if build else "")
        if build == "cpu":
            return Probe("cuda", "conflict", devices["driver"] or None, "torch", detail, "install a CUDA build of torch")
        return Probe("cuda", "ok", devices["driver"] or None, "", detail)
    if devices["ascend"]:
        return Probe("cuda", "not-needed", None, "", f"{count} Ascend NPU device files")
    if "vllm" in needed or "megatron-core" in needed or "deepspeed" in needed:
        return Probe("cuda", "missing", None, "the run", "no accelerator on this machine (fine on a login node)")
    return Probe("cuda", "not-needed", None, "", "no accelerator on this machine")


def routes(found: Mapping[str, Any], facts: SwiftFacts) -> list[dict[str, Any]]:
    """ms-swift's commands and whether they can start here."""
    here = set(found["swift_routes"])
    megatron = all(found["modules"].get(module) for module in ("megatron", "mcore_bridge"))
    return [{"command": route, "available": route in here and (megatron or not route.startswith("megatron "))} for route in facts.routes]


def summary(probes: Sequence[Probe]) -> dict[str, int]:
    kinds: tuple[Status, ...] = ("ok", "missing", "old", "conflict", "broken", "not-needed")
    return {kind: sum(probe.status == kind for probe in probes) for kind in kinds}
