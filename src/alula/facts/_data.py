"""Where the data lies and how versions compare."""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def toml(path: Path) -> dict[str, Any]:
    """A TOML file of this package, read from the JSON that `make facts` makes of it: parsing TOML is start-up time."""
    made = path.with_suffix(".json")
    if made.exists():
        return dict(json.loads(made.read_bytes()))
    reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # a new table, not compiled yet
    return dict(reader.loads(path.read_text(encoding="utf-8")))


@cache
def numbers(version: str) -> tuple[int, ...]:
    """`4.5.1.post1` -> (4, 5, 1): the release part of a version; raises ValueError when there is none."""
    out: list[int] = []
    for part in version.strip().removeprefix("v").split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        out.append(int(digits))
        if digits != part:
            break
    if not out:
        raise ValueError(f"{version!r} is not a version")
    return tuple(out)


def satisfies(version: str, specifier: str) -> bool:
    """Whether a release fits a requirement such as `<5.20.0,>=4.33`."""
    have = _padded(version)
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        for sign in ("<=", ">=", "==", "!=", "<", ">"):
            if clause.startswith(sign):
                want = _padded(clause[len(sign) :].strip())
                if not {"<=": have <= want, ">=": have >= want, "==": have == want, "!=": have != want, "<": have < want, ">": have > want}[
                    sign
                ]:
                    return False
                break
        else:
            raise ValueError(f"{clause!r} is not a version requirement")
    return True


def _padded(version: str) -> tuple[int, ...]:
    parts = numbers(version)
    return parts + (0,) * (4 - len(parts))
