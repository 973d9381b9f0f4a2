"""What a reader says when it cannot read at all (exit code 2)."""

from __future__ import annotations


class ReadError(Exception):
    """Input that cannot be read. `str()` is one line: what was found, what must hold, with the place in front where there is one."""

    def __init__(self, message: str, file: str | None = None, line: int | None = None, column: int | None = None) -> None:
        place = "" if file is None else file if line is None else f"{file}:{line}" if column is None else f"{file}:{line}:{column}"
        super().__init__(f"{place}: {message}" if place else message)
