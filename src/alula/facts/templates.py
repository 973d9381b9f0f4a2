"""What templates can do, where their names do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ._data import FOLDER, toml


@cache
def _raw() -> Mapping[str, Any]:
    return toml(FOLDER / "padding_free.toml")


def padding_free(version: str, template: str, multimodal: bool) -> bool | None:
    """Whether a template can train without padding (`--padding_free`, `--packing`); None where it is not known for this version."""
    lists = _raw().get(version)
    if lists is None:
        return None
    if template in lists["cannot"]:
        return False
    return not multimodal or template in lists["multimodal_that_can"]
