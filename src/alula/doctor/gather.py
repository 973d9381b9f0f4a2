"""What one Python environment has installed, from package metadata alone.

The file is also run by other interpreters (`doctor --python PATH`), so it needs nothing but the standard library, on Python 3.8 and later.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys


def gather(distributions: list[str], modules: list[str]) -> dict:  # type: ignore[type-arg]  # runs in the asked interpreter too, where dict[...] may not exist
    """Versions of distributions, presence of modules, and facts of the machine that need no import.

    Returns:
        `{python, versions: {distribution: version}, modules: {module: bool}, swift_routes: [file stems], cuda: {...}, devices: {...}}`
    """
    versions = {}
    for name in distributions:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        except Exception as error:  # noqa: BLE001  # a broken dist-info is a finding, not a crash
            versions[name] = "broken: " + type(error).__name__
    present = {name: _has(name) for name in modules}
    return {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "versions": versions,
        "modules": present,
        "swift_routes": _swift_files() if "ms-swift" in versions else [],
        "commands": {name: shutil.which(name) is not None for name in ("swift", "megatron", "ray", "nvidia-smi", "npu-smi", "nvcc", "ninja")},
        "devices": _devices(),
    }


def _has(module: str) -> bool:
    """Top-level modules only: looking for a submodule would import its parent."""
    try:
        return importlib.util.find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _swift_files() -> list:  # type: ignore[type-arg]  # see gather
    spec = importlib.util.find_spec("swift")
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    out = []
    for folder in folders:
        for sub, program in (("cli", "swift"), (os.path.join("cli", "_megatron"), "megatron")):
            try:
                names = os.listdir(os.path.join(folder, sub))
            except OSError:
                continue
            out += [program + " " + name[:-3].replace("_", "-") for name in names if name.endswith(".py") and name[:-3] not in ("__init__", "main", "utils")]
    return sorted(out)


def _devices() -> dict:  # type: ignore[type-arg]  # see gather
    """Device files, which need no driver call."""
    try:
        names = os.listdir("/dev")
    except OSError:
        names = []
    nvidia = [name for name in names if name.startswith("nvidia") and name[6:].isdigit()]
    ascend = [name for name in names if name.startswith("davinci") and name[7:].isdigit()]
    return {"nvidia": len(nvidia), "ascend": len(ascend), "driver": _driver()}


def _driver() -> str:
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return ""
    return next((word for word in words if word[0:1].isdigit() and "." in word), "")


if __name__ == "__main__":
    request = json.load(sys.stdin)
    json.dump(gather(request["distributions"], request["modules"]), sys.stdout)
