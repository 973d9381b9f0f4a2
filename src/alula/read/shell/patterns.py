"""Patterns of the shell: globs as regular expressions, file names, braces."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice, pairwise

from .syntax import Lit, Part
from .text import decode, encode

MAX_FILES = 2000
MAX_TEXT = 10_000  # longer values are not searched: patterns may take quadratic time
_CLASSES = {
    "alpha": "A-Za-z", "digit": "0-9", "alnum": "A-Za-z0-9", "upper": "A-Z", "lower": "a-z", "space": r" \t\n\r\f\v", "blank": r" \t",
    "punct": r"!-/:-@\[-`{-~", "xdigit": "0-9A-Fa-f", "word": "A-Za-z0-9_", "cntrl": r"\x00-\x1f\x7f", "print": r"\x20-\x7e", "graph": r"\x21-\x7e",
}  # fmt: skip
_CHAR = r"(?:[\x00-\x7f]|[\xc2-\xf4][\x80-\xbf]{1,3}|[\x80-\xff])"  # one character of UTF-8, seen as bytes
_QUANTIFIERS = {"?": "?", "*": "*", "+": "+", "@": ""}


def escape(text: str) -> str:
    """Text that a pattern matches literally."""
    return re.sub(r"([\\*?\[\]!+@|()^-])", r"\\\1", text)


@lru_cache(maxsize=512)
def regex(pattern: str, path: bool = False) -> re.Pattern[str]:
    """A shell pattern (quoted characters are backslashed) as a regular expression for `fullmatch`. `path`: `*` stops at `/`."""
    try:
        return re.compile(_without_backtracking(_translate(pattern, path)), re.DOTALL)
    except (re.error, RecursionError, OverflowError):
        return re.compile(re.escape(pattern.replace("\\", "")))


def _without_backtracking(source: str) -> str:
    """Between two stars the first place that fits is as good as any, so nothing need be tried twice (as `fnmatch` does it)."""
    pieces = re.split(r"(?<!\\)\.\*", source)
    if len(pieces) < 4 or "(" in source.replace(_CHAR, ""):
        return source
    middle = "".join(f"(?=(?P<g{n}>.*?{piece}))(?P=g{n})" for n, piece in enumerate(pieces[1:-1]))
    return f"{pieces[0]}{middle}.*{pieces[-1]}"


def _translate(pattern: str, path: bool) -> str:
    out: list[str] = []
    i, n = 0, len(pattern)
    while i < n:
        c = pattern[i]
        i += 1
        if c == "\\" and i < n:
            out.append(re.escape(pattern[i]))
            i += 1
        elif c in "?*+@!" and pattern.startswith("(", i) and (end := _close(pattern, i)) > 0:
            inner = "|".join(_translate(part, path) for part in _alternatives(pattern[i + 1 : end]))
            out.append(f"(?:(?!(?:{inner})\\Z){'[^/]' if path else '.'}*)" if c == "!" else f"(?:{inner}){_QUANTIFIERS[c]}")
            i = end + 1
        elif c == "*":
            while pattern.startswith("*", i):
                i += 1
            out.append("[^/]*" if path else ".*")
        elif c == "?":
            out.append("[^/]" if path else _CHAR)
        elif c == "[" and pattern.find("]", i) < 0:
            out.append(r"\[")
        elif c == "[":
            j = i + 1 if pattern.startswith(("!", "^"), i) else i
            j = j + 1 if pattern.startswith("]", j) else j
            while j < n and pattern[j] != "]":
                j = pattern.find(":]", j) + 2 if pattern.startswith("[:", j) and pattern.find(":]", j) > 0 else j + (2 if pattern[j] == "\\" else 1)
            if j >= n:
                out.append(r"\[")
            else:
                out.append(_bracket(pattern[i:j]))
                i = j + 1
        else:
            out.append(re.escape(c))
    return "".join(out)


def _bracket(body: str) -> str:
    negate = body[:1] in ("!", "^")
    body = body[1:] if negate else body
    out: list[str] = []
    i = 0
    while i < len(body):
        match = re.compile(r"\[:(\w+):\]").match(body, i)
        if match:
            out.append(_CLASSES.get(match.group(1), ""))
            i = match.end()
        elif body[i] == "\\" and i + 1 < len(body):
            out.append(re.escape(body[i + 1]))
            i += 2
        else:
            out.append("-" if body[i] == "-" and 0 < i < len(body) - 1 else re.escape(body[i]))
            i += 1
    inner = "".join(out)
    return f"[{'^' if negate else ''}{inner}]" if inner else ("." if negate else "(?!)")


def _close(pattern: str, i: int) -> int:
    depth = 0
    while i < len(pattern):
        if pattern[i] == "\\":
            i += 1
        elif pattern[i] == "(":
            depth += 1
        elif pattern[i] == ")":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    return -1


def _alternatives(body: str) -> list[str]:
    out, depth, start, i = [], 0, 0, 0
    while i < len(body):
        if body[i] == "\\":
            i += 1
        elif body[i] == "(":
            depth += 1
        elif body[i] == ")":
            depth -= 1
        elif body[i] == "|" and depth == 0:
            out.append(body[start:i])
            start = i + 1
        i += 1
    out.append(body[start:])
    return out


def harmless(source: str) -> bool:
    """True for a regular expression that cannot backtrack without end: no repeated group that repeats inside, few stars."""
    nested = re.search(r"\((?:[^()\\]|\\.)*[+*}?|](?:[^()\\]|\\.)*\)[+*{]", source)
    return len(source) <= 500 and nested is None and "))" not in source.replace("\\)", "") and len(re.findall(r"[+*}]", source)) <= 6


def matches(pattern: str, text: str) -> bool:
    return regex(pattern).fullmatch(text) is not None


def trim(text: str, pattern: str, op: str) -> tuple[int, int]:
    """What `${x#p}`, `##`, `%`, `%%` keep: a range of the text."""
    size = len(text)
    if size > MAX_TEXT:
        return 0, size
    compiled = regex(pattern)
    if op[0] == "#":
        cuts: Iterable[int] = range(size + 1) if op == "#" else range(size, -1, -1)
        for at in cuts:
            if compiled.fullmatch(text, 0, at):
                return at, size
        return 0, size
    cuts = range(size, -1, -1) if op == "%" else range(size + 1)
    for at in cuts:
        if compiled.fullmatch(text, at):
            return 0, at
    return 0, size


def find(text: str, pattern: str, op: str) -> list[tuple[int, int]]:
    """The ranges that `${x/p/…}` (`//` all, `/#` at the start, `/%` at the end) replaces: the longest match at each place."""
    if len(text) > MAX_TEXT or (len(text) > 500 and pattern.count("*") > 3):
        return []
    body = _translate(pattern, False)
    if op == "/#":
        compiled = re.compile(body, re.DOTALL)
        return next(([(0, end)] for end in range(len(text), -1, -1) if compiled.fullmatch(text, 0, end)), [])
    if op == "/%":
        compiled = re.compile(body, re.DOTALL)
        return next(([(at, len(text))] for at in range(len(text) + 1) if compiled.fullmatch(text, at)), [])
    found = [match.span() for match in re.compile(body, re.DOTALL).finditer(text) if match.end() > match.start()]
    return found if op == "//" else found[:1]


# --- file names ---


def is_glob(text: str) -> bool:
    return "*" in text or "?" in text or "[" in text


def glob(pattern: str, cwd: str, extra: Iterable[str] = ()) -> list[str]:
    """The files that a pattern names, sorted; `extra` are absolute paths that exist beside the real ones."""
    if len(pattern) > 4096:
        return []
    rest = pattern
    start = ""
    if rest.startswith("/"):
        start, rest = "/", rest.lstrip("/")
    found = [start]
    parts = rest.split("/")
    known = set(extra)
    for n, part in enumerate(parts):
        final = n == len(parts) - 1
        following: list[str] = []
        for base in found:
            where = os.path.join(cwd, decode(base))
            if not part:
                following.append(base)
                continue
            if not is_glob(part.replace("\\*", "").replace("\\?", "").replace("\\[", "")):
                name = part.replace("\\", "")
                path = os.path.join(where, decode(name))
                if _exists(path) or path in known or any(item.startswith(path + "/") for item in known):
                    following.append(base + name + ("" if final else "/"))
                continue
            compiled = regex(part, True)
            for name in sorted(_names(where, known)):
                if (not name.startswith(".") or part.startswith(".")) and compiled.fullmatch(name) and (final or _is_dir(os.path.join(where, decode(name)))):
                    following.append(base + name + ("" if final else "/"))
        found = following[:MAX_FILES]
    return found if found != [start] else []


def _names(where: str, known: Iterable[str]) -> set[str]:
    names: set[str] = set()
    try:
        with os.scandir(where or ".") as entries:
            for entry in entries:
                names.add(encode(entry.name))
                if len(names) >= MAX_FILES:
                    break
    except (OSError, ValueError):
        pass
    prefix = os.path.normpath(where) + "/"
    names.update(encode(path[len(prefix) :].split("/")[0]) for path in known if path.startswith(prefix))
    return names


def _exists(path: str) -> bool:
    try:
        return os.path.lexists(path)
    except (OSError, ValueError):
        return False


def _is_dir(path: str) -> bool:
    try:
        return os.path.isdir(path)
    except (OSError, ValueError):
        return False


# --- braces ---

_Item = Part | tuple[str, Lit, int]  # an opaque part, or one unquoted character of a literal
_SEQUENCE = re.compile(r"(?:(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?)")
MAX_BRACES = 1000


def has_braces(parts: list[Part]) -> bool:
    opened = False
    for part in parts:
        if isinstance(part, Lit) and not part.q:
            at = part.value.find("{")
            if opened or at >= 0:
                opened = True
                if "," in part.value or ".." in part.value:
                    return True
    return False


def expand_braces(parts: list[Part]) -> list[list[Part]]:
    """`a{b,c}d` -> the parts of each word; one entry when there is nothing to expand."""
    items: list[_Item] = []
    for part in parts:
        if isinstance(part, Lit) and not part.q:
            items.extend((char, part, at) for at, char in enumerate(part.value))
        else:
            items.append(part)
    return [_regroup(word) for word in _expand(items, 0)[:MAX_BRACES]]


def _char(item: _Item) -> str:
    return item[0] if isinstance(item, tuple) else ""


def _expand(items: list[_Item], depth: int) -> list[list[_Item]]:
    if depth > 20:
        return [items]
    for start, item in enumerate(items):
        if _char(item) != "{":
            continue
        level, commas, end = 0, [], -1
        for at in range(start, len(items)):
            c = _char(items[at])
            if c == "{":
                level += 1
            elif c == "}":
                level -= 1
                if level == 0:
                    end = at
                    break
            elif c == "," and level == 1:
                commas.append(at)
        if end < 0:
            continue
        choices: list[list[_Item]] = []
        if commas:
            edges = [start, *commas, end]
            for a, b in pairwise(edges):
                choices.extend(_expand(items[a + 1 : b], depth + 1))
        else:
            choices = _sequence(items[start : end + 1])
            if not choices:
                continue
        tails = _expand(items[end + 1 :], depth + 1)
        out = list(islice(([*choice, *tail] for choice in choices for tail in tails), MAX_BRACES))
        return [[*items[:start], *word] for word in out]
    return [items]


def _sequence(items: list[_Item]) -> list[list[_Item]]:
    inner = items[1:-1]
    text = "".join(_char(item) for item in inner)
    match = _SEQUENCE.fullmatch(text)
    if not match or len(text) != len(inner):
        return []
    first, last = items[0], items[-1]
    assert isinstance(first, tuple)
    assert isinstance(last, tuple)
    low, high, step, a, b, char_step = match.groups()
    width = 0
    if low is not None:
        start, stop, by = int(low), int(high), abs(int(step or 1)) or 1
        if any(re.match(r"-?0\d", end) for end in (low, high)):
            width = max(len(low), len(high))
    else:
        start, stop, by = ord(a), ord(b), abs(int(char_step or 1)) or 1
    numbers = range(start, stop + 1, by) if start <= stop else range(start, stop - 1, -by)
    begin, end = first[1].start + first[2], last[1].start + last[2] + 1
    out: list[list[_Item]] = []
    for number in numbers[:MAX_BRACES]:
        value = chr(number) if low is None else (f"{number:0{width}d}" if width else str(number))
        out.append([Lit(begin, end, value, False)])
    return out


def _regroup(items: list[_Item]) -> list[Part]:
    parts: list[Part] = []
    at = 0
    while at < len(items):
        item = items[at]
        if not isinstance(item, tuple):
            parts.append(item)
            at += 1
            continue
        _, lit, offset = item
        stop = at + 1
        while stop < len(items):
            following = items[stop]
            if not isinstance(following, tuple) or following[1] is not lit or following[2] != offset + stop - at:
                break
            stop += 1
        size = stop - at
        exact = lit.end - lit.start == len(lit.value)
        start = lit.start + offset if exact else lit.start
        parts.append(Lit(start, start + size if exact else lit.end, lit.value[offset : offset + size], False))
        at = stop
    return parts
