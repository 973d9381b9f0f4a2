"""What the rules about reinforcement learning ask a View again and again. Every answer is "no" where the value is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alula.swift.parse import UNKNOWN

if TYPE_CHECKING:
    from alula.swift.effective import View

    from .context import JobCheck

ROLLOUT_TYPES = ("grpo", "gkd")
LOOPBACK = ("127.0.0.1", "localhost", "0.0.0.0", "::1", "[::1]", "::")


def kind(c: JobCheck) -> str | None:
    """rlhf_type where it is known, else None."""
    value = c.v.rlhf_type
    return value if isinstance(value, str) else None


def minor(c: JobCheck) -> tuple[int, int]:
    """The checked version as (major, minor)."""
    major, _, rest = c.facts.version.partition(".")
    return int(major), int(rest.split(".")[0])


def whole(value: Any) -> int | None:
    """An integer that is known."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """A number that is known."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def words(value: Any) -> tuple[Any, ...]:
    """A list flag's values; empty where it is absent or not known."""
    return value if isinstance(value, tuple) else ()


def empty(value: Any) -> bool:
    """True for a list or text that is surely not given."""
    return value is not UNKNOWN and not value


def given(v: View, name: str) -> Any:
    """What was written for a flag, before ms-swift derives anything: None where it surely was not, UNKNOWN where that cannot be told."""
    use = v.use(name)
    if use is None:
        return UNKNOWN if v.open_ended and name in v.flags else None
    return UNKNOWN if use.maybe or not use.valid else use.value


def set_to(v: View, name: str) -> bool:
    """True when a flag surely holds a value other than None, False and the empty list."""
    value = v.get(name)
    return value is not UNKNOWN and value is not None and value is not False and value != ()


def server_mode(v: View) -> bool:
    return v.get("use_vllm") is True and v.get("vllm_mode") == "server"


def colocate(v: View) -> bool:
    return v.get("use_vllm") is True and v.get("vllm_mode") == "colocate"


def explicit_teacher(v: View) -> bool | None:
    """Whether a teacher model or server is written; None where that is not known."""
    values = (given(v, "teacher_model"), given(v, "teacher_model_server"))
    if any(value is not None and value is not UNKNOWN for value in values):
        return True
    return None if UNKNOWN in values else False


def is_loopback(host: str) -> bool:
    """A host name that means the machine itself (0.0.0.0 as a destination does, on Linux)."""
    return host.strip().lower() in LOOPBACK or host.startswith("127.")
