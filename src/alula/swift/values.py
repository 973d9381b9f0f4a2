"""One effective value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alula.run.record import record

if TYPE_CHECKING:
    from .parse import Use


@record
class Effective:
    """One value of the real argument object.

    Attributes:
        value: as ms-swift holds it after `__post_init__`, or UNKNOWN.
        origin: `written`, `default`, or `derived: <why>`.
        use: the occurrence that counts, where it is written.
    """

    value: Any
    origin: str
    use: Use | None = None
