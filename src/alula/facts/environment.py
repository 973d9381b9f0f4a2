"""Environment variables that programs around ms-swift read, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ._data import FOLDER, toml


@cache
def _raw() -> Mapping[str, Any]:
    return toml(FOLDER / "environment.toml")


@cache
def readers() -> Mapping[str, str]:
    """Variable -> who reads it: swift, torch, nccl, vllm, ray, services or system."""
    return {name: reader for reader, names in _raw()["names"].items() for name in names}


def aliases() -> Mapping[str, str]:
    """Another way to write a variable -> the variable that is read."""
    names: Mapping[str, str] = _raw()["aliases"]
    return names
