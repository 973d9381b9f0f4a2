"""Functions of the standard library that few runs need and that are slow to import: the import waits for the first call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def get_close_matches(word: str, possibilities: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """`difflib.get_close_matches`: the best of `possibilities` that look like `word`, best first."""
    import difflib

    return difflib.get_close_matches(word, possibilities, n, cutoff)


def urlsplit(url: str) -> SplitResult:
    """`urllib.parse.urlsplit`; raises ValueError for a malformed address."""
    import urllib.parse

    return urllib.parse.urlsplit(url)
