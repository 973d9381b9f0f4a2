"""Which architecture a `--model` names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import ReadError

if TYPE_CHECKING:
    from alula.run.model import ModelShape


def shape_of(model: str, cwd: str | os.PathLike[str] = ".") -> ModelShape | None:
    """A folder with a config.json, a config.json, or a known id -> its shape; None when it is none of these or its config cannot be used."""
    path = Path(cwd) / model
    try:
        if path.is_dir():
            path = path / "config.json"
        if path.is_file():
            from .model_config import read_config

            return read_config(path)
    except (ReadError, OSError, ValueError):
        return None
    from alula.facts.models import find

    return find(model)
