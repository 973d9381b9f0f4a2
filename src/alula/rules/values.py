"""What rules ask about single values: is it JSON as ms-swift reads it, what was it meant to be, may a plugin have registered it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alula.run.lazy import get_close_matches
from alula.swift.parse import UNKNOWN

if TYPE_CHECKING:
    from .context import JobCheck

JsonKind = Literal["object", "other", "broken", "unknown"]
MAX_CONFIG = 1_000_000  # bytes of a JSON file that is worth reading for a check


def json_value(c: JobCheck, text: str) -> tuple[JsonKind, Any]:
    """A flag's text as `json_parse_to_dict` takes it: a file, else JSON, repaired where it can be.

    Returns:
        `object` or `other` with the value; `broken` where ms-swift raises; `unknown` where a file that is not here decides, or the repair does.
    """
    path = Path(c.whole.cwd) / text
    try:
        if path.is_file():
            if path.stat().st_size > MAX_CONFIG:
                return "unknown", None
            return _kind(json.loads(path.read_bytes()))
        if path.exists():
            return "broken", None  # a folder cannot be opened
    except ValueError:
        return "broken", None
    except OSError:  # too long for a file name, or not ours to read
        pass
    try:
        return _kind(json.loads(text))
    except (ValueError, RecursionError):
        pass
    if "{" in text or "[" in text:  # json_repair makes something of it
        return "unknown", None
    if text.endswith(".json"):
        return "unknown", None
    return "broken", None


def _kind(value: Any) -> tuple[JsonKind, Any]:
    return ("object" if isinstance(value, dict) else "other"), value


def closest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """The known name that was probably meant, or None."""
    options = {name.lower().replace("-", "_"): name for name in known}
    match = get_close_matches(word.lower().replace("-", "_"), list(options), 1, cutoff)
    return options[match[0]] if match else None


def given(c: JobCheck, name: str) -> Any:
    """A flag's value as it is written, before ms-swift derives anything; UNKNOWN where it cannot be known, None where it is not given."""
    use = c.v.use(name)
    if use is None:
        return UNKNOWN if c.v.open_ended and name in c.v.flags else None
    return UNKNOWN if use.maybe or not use.valid else use.value


def may_register(c: JobCheck) -> bool:
    """True where a plugin file, or flags that are not known, may add names to ms-swift's registries."""
    return c.v.open_ended or any(c.v.parsed.last(name) is not None for name in ("external_plugins", "custom_register_path"))


def loads_nothing(c: JobCheck) -> bool:
    """True for `swift sample` through a server: the flags that describe a model are then never looked at."""
    return bool(c.v.get("sampler_engine") == "client")


def from_checkpoint(c: JobCheck) -> bool:
    """True where flags that are not given may come from the `args.json` of a checkpoint (`--load_args`, on outside training)."""
    model = c.v.get("model")
    known = isinstance(model, str) and c.facts.registries.model_of(model) is not None
    return c.v.get("load_args") is True and (not c.v.absent("adapters") or not known)


def exists(c: JobCheck, text: str) -> bool:
    """True when this path exists where the run would start."""
    try:
        return (Path(c.whole.cwd) / Path(text).expanduser()).exists()
    except (OSError, ValueError, RuntimeError):
        return False


def number(value: Any) -> float | None:
    """A number as a float; None for anything else, UNKNOWN and booleans included."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def names_in(c: JobCheck, folder: str, suffix: str) -> list[str]:
    """Names of the files with this suffix in a folder; a few hundred at most."""
    try:
        return sorted(path.name for path, _ in zip((Path(c.whole.cwd) / Path(folder).expanduser()).glob(f"*{suffix}"), range(300), strict=False))
    except (OSError, ValueError, RuntimeError):
        return []
