"""The part of `jq` that launch scripts use: paths, `to_entries`, `keys`, `length`, `join`, `//`, string interpolation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..state import OK, Status
from ..text import decode, encode
from .kit import Unsupported, inputs, known_text, options

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

_PATH = re.compile(r'\.(?:([A-Za-z_]\w*)|"([^"]*)")?')
_INDEX = re.compile(r'\[\s*(?:(-?\d+)|"([^"]*)")?\s*\]')


def jq(shell: Commands, fields: list[Field]) -> Status:
    found, rest = options(fields)
    if set(found) - {"r", "c", "e", "raw-output", "M"} or not rest:
        raise Unsupported
    program = decode(known_text(rest.pop(0).segs))
    data = json.loads(decode(known_text(inputs(shell, rest))))
    raw = "r" in found or "raw-output" in found
    lines: list[str] = []
    for value in _pipe(program, data, 0):
        if isinstance(value, str) and raw:
            lines.append(value)
        else:
            lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":") if "c" in found else None, indent=None if "c" in found else 2))
    if lines:
        shell.print_text(encode("\n".join(lines) + "\n"))
    return OK


def _cut(text: str, operator: str) -> list[str]:
    """Cut at an operator that stands outside strings and brackets."""
    out, start, depth, quoted, at = [], 0, 0, False, 0
    while at < len(text):
        char = text[at]
        if char == "\\" and quoted:
            at += 2
            continue
        if char == '"':
            quoted = not quoted
        elif not quoted and char in "([{":
            depth += 1
        elif not quoted and char in ")]}":
            depth -= 1
        elif not quoted and depth == 0 and text.startswith(operator, at):
            out.append(text[start:at])
            at += len(operator)
            start = at
            continue
        at += 1
    out.append(text[start:])
    return out


def _pipe(program: str, value: Any, depth: int) -> Iterator[Any]:
    if depth > 20:
        raise Unsupported
    first, *rest = _cut(program, "|")
    results = _comma(first.strip(), value, depth)
    if not rest:
        yield from results
        return
    for result in results:
        yield from _pipe("|".join(rest), result, depth + 1)


def _comma(program: str, value: Any, depth: int) -> Iterator[Any]:
    for part in _cut(program, ","):
        yield from _default(part.strip(), value, depth)


def _default(program: str, value: Any, depth: int) -> Iterator[Any]:
    first, *rest = _cut(program, "//")
    if not rest:
        yield from _term(first.strip(), value, depth)
        return
    try:
        results = [item for item in _term(first.strip(), value, depth) if item is not None and item is not False]
    except Unsupported:
        results = []
    yield from results or _default("//".join(rest).strip(), value, depth + 1)


def _term(program: str, value: Any, depth: int) -> Iterator[Any]:
    if program.startswith('"') and program.endswith('"'):
        yield _interpolate(program[1:-1], value, depth)
        return
    if program.startswith("(") and program.endswith(")"):
        yield from _pipe(program[1:-1], value, depth + 1)
        return
    match = re.fullmatch(r"(to_entries|keys|length|tostring|add|empty|values|tojson|ascii_downcase|first|last)((?:\[.*)?)", program)
    if match:
        result = _function(match.group(1), value)
        yield from _path(match.group(2), result, 0) if match.group(2) else iter((result,))
        return
    match = re.fullmatch(r'join\(\s*"([^"]*)"\s*\)', program)
    if match:
        if not isinstance(value, list):
            raise Unsupported
        yield match.group(1).join(_text(item) for item in value)
        return
    match = re.fullmatch(r"map\((.*)\)", program)
    if match:
        if not isinstance(value, list):
            raise Unsupported
        yield [result for item in value for result in _pipe(match.group(1), item, depth + 1)]
        return
    if re.fullmatch(r"-?\d+|true|false|null", program):
        yield json.loads(program)
        return
    if program.startswith("."):
        yield from _path(program, value, 0)
        return
    raise Unsupported


def _function(name: str, value: Any) -> Any:
    if name == "to_entries" and isinstance(value, dict):
        return [{"key": key, "value": item} for key, item in value.items()]
    if name == "keys" and isinstance(value, dict):
        return sorted(value)
    if name == "length" and isinstance(value, (dict, list, str)):
        return len(value)
    if name in ("tostring", "tojson"):
        return _text(value)
    if name == "ascii_downcase" and isinstance(value, str):
        return value.lower()
    if name in ("first", "last") and isinstance(value, list) and value:
        return value[0 if name == "first" else -1]
    raise Unsupported


def _path(path: str, value: Any, at: int) -> Iterator[Any]:
    if path.startswith("?", at):
        at += 1
    if at >= len(path):
        yield value
        return
    index = _INDEX.match(path, at)
    if index is None and path.startswith(".[", at):
        index = _INDEX.match(path, at + 1)
    if index:
        number, key = index.groups()
        if number is None and key is None:
            if not isinstance(value, (list, dict)):
                raise Unsupported
            for item in value.values() if isinstance(value, dict) else value:
                yield from _path(path, item, index.end())
            return
        if number is not None:
            if not isinstance(value, list):
                raise Unsupported
            inner = value[int(number)] if -len(value) <= int(number) < len(value) else None
        else:
            inner = value.get(key) if isinstance(value, dict) else None
        yield from _path(path, inner, index.end())
        return
    match = _PATH.match(path, at)
    if not match or match.end() == at:
        raise Unsupported
    name = match.group(1) or match.group(2)
    if name is None:
        yield from _path(path, value, match.end())
        return
    if value is not None and not isinstance(value, dict):
        raise Unsupported
    yield from _path(path, (value or {}).get(name), match.end())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _interpolate(text: str, value: Any, depth: int) -> str:
    out: list[str] = []
    at = 0
    while at < len(text):
        if text.startswith("\\(", at):
            level, end = 1, at + 2
            while end < len(text) and level:
                level += (text[end] == "(") - (text[end] == ")")
                end += 1
            out.append("".join(_text(item) for item in _pipe(text[at + 2 : end - 1], value, depth + 1)))
            at = end
        elif text[at] == "\\" and at + 1 < len(text):
            out.append({"n": "\n", "t": "\t"}.get(text[at + 1], text[at + 1]))
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)
