"""Architectures of well-known models, one TOML file a family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ..run.model import LatentAttention, LinearAttention, Mamba, ModelShape, Vision
from ._data import FOLDER, toml

_PARTS = {"latent": LatentAttention, "linear": LinearAttention, "mamba": Mamba, "vision": Vision}


def find(name: str) -> ModelShape | None:
    """The model of a hub id or of a folder named like one: its last path component, ignoring case, must be one that is known.

    A model type (`qwen3_next`) is taken too where only one known model has it.
    """
    wanted = name.rstrip("/").rsplit("/", 1)[-1].lower()
    if not wanted:
        return None
    for path in _files():
        if wanted in _text(path):  # parsing is slow, looking is not
            for shape, positions in _family(path):
                if any(wanted == known.rsplit("/", 1)[-1].lower() for known in (shape.name, *shape.ids)):
                    return replace(shape, max_positions=positions[wanted]) if wanted in positions else shape
    typed = [shape for path in _files() if f'"{wanted}"' in _text(path) for shape, _ in _family(path) if shape.model_type == wanted]
    return typed[0] if len(typed) == 1 else None


def all_models() -> Iterator[ModelShape]:
    """Every known model, once for all ids that share an architecture."""
    for path in _files():
        yield from (shape for shape, _ in _family(path))


@cache
def _files() -> tuple[Path, ...]:
    return tuple(sorted((FOLDER / "models").glob("*.toml")))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").lower()


@cache
def _family(path: Path) -> tuple[tuple[ModelShape, Mapping[str, int]], ...]:
    """Each model with the context lengths of those of its ids that differ."""
    return tuple((_shape(path.stem, entry), entry.get("positions", {})) for entry in toml(path)["model"])


def _shape(family: str, entry: Mapping[str, Any]) -> ModelShape:
    fields = {key: _PARTS[key](**value) if key in _PARTS else value for key, value in entry.items() if key != "positions"}
    fields["ids"] = tuple(fields.get("ids", ()))
    return ModelShape(family=family, **fields)
