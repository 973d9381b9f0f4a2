"""What the emulated tools share: options, input, and the admission that something is not emulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..patterns import harmless
from ..state import Status
from ..text import Seg, Value, likely, lines_of, text_of, unknown

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

Tool = Callable[["Commands", "list[Field]"], Status]


class Unsupported(Exception):
    """More than is emulated."""


def options(fields: Sequence[Field], valued: str = "", long: Sequence[str] = (), numeric: bool = False) -> tuple[dict[str, str], list[Field]]:
    """GNU style options (anywhere before `--`) and operands. An option that takes no value has an empty one. Raises Unsupported."""
    found: dict[str, str] = {}
    rest: list[Field] = []
    at = 1
    while at < len(fields):
        text = fields[at].text
        if any(seg.unk and not seg.soft for seg in fields[at].segs):
            raise Unsupported
        at += 1
        if text == "--":
            rest.extend(fields[at:])
            break
        if len(text) < 2 or text[0] != "-" or (numeric and re.fullmatch(r"-\d.*", text)):
            if numeric and re.fullmatch(r"-\d+", text):
                found["n"] = text[1:]
            else:
                rest.append(fields[at - 1])
        elif text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            if not equals and name in long:
                value = fields[at].text if at < len(fields) else ""
                at += 1
            found[name] = value
        else:
            for place, letter in enumerate(text[1:], 1):
                if letter in valued:
                    value = text[place + 1 :]
                    if not value:
                        value = fields[at].text if at < len(fields) else ""
                        at += 1
                    found[letter] = value
                    break
                found[letter] = ""
    return found, rest


def reject(found: dict[str, str], known: str) -> None:
    if set(found) - set(known.split()):
        raise Unsupported


def inputs(shell: Commands, files: Sequence[Field]) -> Value:
    """The contents of the files, or of standard input. Raises Unsupported when they are not known."""
    if not files:
        value = shell.state.stdin.rest()
        if value is None:
            raise Unsupported
        return value
    out: list[Seg] = []
    for item in files:
        value = shell.state.stdin.rest() if item.text == "-" else shell.read_file(shell.path(item.text))
        if value is None:
            raise Unsupported
        out.extend(value)
    return tuple(out)


def known_text(value: Value) -> str:
    if unknown(value):
        raise Unsupported
    return text_of(likely(value))


def each_line(shell: Commands, value: Value, change: Callable[[Value], Value | None]) -> None:
    """Print every line as changed; None drops it."""
    for line in lines_of(value):
        result = change(line)
        if result is not None:
            shell.print((*result, Seg("\n")))


def basic_regex(source: str, extended: bool) -> str:
    """A POSIX regular expression as a Python one."""
    source = re.sub(r"\[:(\w+):\]", lambda m: {"space": r"\s", "digit": "0-9", "alpha": "a-zA-Z", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "punct": "!-/:-@[-`{-~", "blank": " \t", "xdigit": "0-9a-fA-F"}.get(m.group(1), ""), source)
    source = source.replace(r"\<", r"\b").replace(r"\>", r"\b")
    if extended:
        return source
    out: list[str] = []
    at, inside = 0, False
    while at < len(source):
        char = source[at]
        if inside:
            out.append("\\\\" if char == "\\" else char)
            inside = char != "]" or out[-2:-1] in (["["], ["^"])
        elif char == "\\" and at + 1 < len(source):
            at += 1
            following = source[at]
            out.append(following if following in "(){}|+?" else "\\" + following)
        elif char == "[":
            inside = True
            out.append(char)
        elif char in "(){}|+?" or (char == "*" and (not out or out[-1] in ("(", "^"))):
            out.append("\\" + char)
        else:
            out.append(char)
        at += 1
    return "".join(out)


def safe(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Compile what cannot backtrack without end."""
    if not harmless(pattern):
        raise Unsupported
    return re.compile(pattern, flags)


def tool(function: Tool) -> Tool:
    """Not known, where the emulation ends."""

    def guarded(shell: Commands, fields: list[Field]) -> Status:
        try:
            return function(shell, fields)
        except (Unsupported, ValueError, re.error, OverflowError, RecursionError):
            return shell.unknown_output()

    return guarded
