"""The JSON that is loaded says what the TOML that people review says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from compile_facts import compiled, sources


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_json_is_made_from_the_toml(path: Path) -> None:
    assert path.with_suffix(".json").read_text(encoding="utf-8") == compiled(path), "run `make facts`"
