"""The optional backends of ms-swift as data."""

from __future__ import annotations

from functools import cache

from alula.run.record import record

from ._data import FOLDER, toml


@record
class Backend:
    """One backend.

    Attributes:
        distributions: names it is installed under; the first is the usual one.
        module: its top-level module.
        minimum: least version, for `minimum_for` when that is set, else whenever it is needed.
    """

    name: str
    distributions: tuple[str, ...]
    module: str
    install: str
    minimum: str | None = None
    minimum_for: str = ""
    source: str = ""
    note: str = ""


@cache
def backends() -> tuple[Backend, ...]:
    return tuple(
        Backend(
            entry["name"], tuple(entry["distributions"]), entry["module"], entry["install"], entry.get("minimum"), entry.get("minimum_for", ""),
            entry.get("source", ""), entry.get("note", ""),
        )
        for entry in toml(FOLDER / "backends.toml")["backend"]
    )  # fmt: skip
