"""Cases beside the project, `../shared`; the tests say so and skip where they are absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(os.environ.get("ALULA_SHARED", Path(__file__).resolve().parents[3] / "shared")) / "cases"


def cases(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


needs_cases = pytest.mark.skipif(not SHARED.exists(), reason="../shared/cases is not here")
