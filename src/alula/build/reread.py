"""Built files read back as the run that a person would start with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from alula.read.run import ReadOptions, load_source, read_source, together

if TYPE_CHECKING:
    from alula.run.job import Run

    from .compose import Built
    from .intent import Target


def reread(built: Built, target: Target, folder: Path, version: str) -> Run:
    """Write the files into `folder` and read the entry, with the other scripts of the run beside it.

    A RayJob is read by the Ray config inside its ConfigMap.
    """
    if target == "rayjob":
        text = _inner(built.files[built.entry])
        built = replace(built, files={"ray.yaml": text})
        target = "ray"
    for name, text in built.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    options = ReadOptions(environ={}, cwd=folder, version=version, route="ray" if target == "ray" else None)
    scripts = [name for name in built.files if name == built.entry or name.endswith(".sh")]
    return together([read_source(load_source(str(folder / name)), options) for name in scripts])


def _inner(manifest: str) -> str:
    import yaml

    first = next(iter(yaml.safe_load_all(manifest)))
    return str(first["data"]["ray.yaml"])
