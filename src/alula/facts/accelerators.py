"""Accelerators by the names that people write and that vendors' tools print."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from alula.run.record import record

from ._data import FOLDER, toml


@record
class Accelerator:
    """One device as software sees it.

    Attributes:
        memory_gib: memory that software can use, GiB.
        marketed_gb: the number in its name.
        memory_gbps: memory bandwidth, GB/s.
        tflops: dense bf16 (fp16 where `bf16` is false) matrix rate by its data sheet; `tflops_measured` by a large matrix product; 0 unknown.
        tflops_fp8: dense fp8 rate; 0 where it has none.
        link_gbps: NVLink, xGMI or HCCS to its neighbours in the node, GB/s in one direction; 0: only PCIe.
        pcie_gbps, network_gbps: to the host, and its usual share of the network between nodes, GB/s in one direction.
        arch: compute capability (`sm90`) or instruction set; empty where there is no such name.
        bf16: it computes in bfloat16.
        names, aliases: what people write, and what nvidia-smi, rocm-smi or npu-smi print.
    """

    name: str
    vendor: str
    memory_gib: float
    marketed_gb: int
    memory_gbps: float
    tflops: float
    source: str
    tflops_fp8: float = 0
    tflops_measured: float = 0
    link_gbps: float = 0
    pcie_gbps: float = 0
    network_gbps: float = 0
    arch: str = ""
    bf16: bool = True
    note: str = ""
    names: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


def all_accelerators() -> tuple[Accelerator, ...]:
    """Every known device, in the order of the file."""
    return tuple(dict.fromkeys(_index().values()))


def find(name: str) -> Accelerator | None:
    """The device of a name such as `H100`, `a100-80g`, `NVIDIA H100 80GB HBM3` or `910B3`; a bare family is its commonest device."""
    return _index().get(_key(name))


_COUNTED = re.compile(r"(?P<before>\d+)\s*[x*×]\s*(?P<a>\S.*)|(?P<b>\S.*?)\s*[:x*×]\s*(?P<after>\d+)", re.IGNORECASE)


def parse_gpus(text: str) -> tuple[str | None, int]:
    """`8xH100`, `H100:8`, `H100` or `8` as (canonical name or None, count).

    Raises:
        ValueError: the count is no positive number, or no such device is known; one line, with devices of a similar name.
    """
    text = text.strip()
    if text.isdecimal():
        return None, _count(text, text)
    if device := find(text):  # a name may itself end in a number after an x
        return device.name, 1
    match = _COUNTED.fullmatch(text)
    if not match:
        raise ValueError(_unknown(text))
    name, count = (match["a"], match["before"]) if match["a"] else (match["b"], match["after"])
    device = find(name)
    if device is None:
        raise ValueError(_unknown(name))
    return device.name, _count(count, text)


def _count(digits: str, text: str) -> int:
    count = int(digits) if len(digits) < 10 else 0
    if count < 1:
        raise ValueError(f"{text!r}: the number of accelerators must be between 1 and 999999999")
    return count


def _unknown(name: str) -> str:
    import difflib

    known = [accelerator.name for accelerator in all_accelerators()]
    near = difflib.get_close_matches(_key(name), [_key(k) for k in known], n=3, cutoff=0.5)
    close = [k for k in known if _key(k) in near] or ["H100", "A100-80GB", "RTX4090"]
    return f"unknown accelerator {name!r}; write for example 8xH100, H100:8 or 8; known names like it: {', '.join(close)}"


def _key(name: str) -> str:
    """Names differ in vendor, case, blanks and dashes only."""
    return re.sub(r"nvidia|geforce|tesla|amd |instinct|[\s_()-]+", "", name.strip().lower())


@cache
def _index() -> Mapping[str, Accelerator]:
    out: dict[str, Accelerator] = {}
    for entry in toml(FOLDER / "accelerators.toml")["accelerator"]:
        names, aliases = tuple(entry.pop("names", ())), tuple(entry.pop("aliases", ()))
        device = Accelerator(**entry, names=names, aliases=aliases)
        for name in (device.name, *names, *aliases):
            out.setdefault(_key(name), device)
    return out
