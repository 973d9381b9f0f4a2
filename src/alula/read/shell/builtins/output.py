"""`echo`, `printf`, `read`, `mapfile`: text between variables and files, with its provenance."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lexer import unescape_ansi, unescape_value
from ..state import FAIL, LIKELY, OK, Element, Key, Status, Var
from ..text import Seg, Value, cut, likely, text_of

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DIRECTIVE = re.compile(r"%(?:%|([-+ 0#]*)(\d+|\*)?(?:\.(\d+|\*))?([diouxXeEfFgGcsbqa]|\([^)]*\)T))")


# --- output ---


def echo(shell: Commands, fields: list[Field]) -> Status:
    if shell.state.out is None:
        return OK
    at, newline, escapes = 1, True, False
    while at < len(fields) and re.fullmatch(r"-[neE]+", fields[at].text):
        newline = newline and "n" not in fields[at].text
        escapes = "e" in fields[at].text
        at += 1
    out: list[Seg] = []
    for n, found in enumerate(fields[at:]):
        if n:
            out.append(Seg(" "))
        out.extend(shell.from_field(found))
    if escapes:
        value = tuple(out)
        stop = text_of(value).find("\\c")
        newline = newline and stop < 0
        out = list(unescape_value(cut(value, 0, stop) if stop >= 0 else value, echo=True))
    if newline:
        out.append(Seg("\n"))
    shell.print(tuple(out))
    return OK


def format_text(form: Value, args: Sequence[Value]) -> Value:
    """`printf`: the format is used again until the arguments are used up."""
    source = text_of(form)
    rest = list(args)
    out: list[Seg] = []
    for _ in range(1000):
        count = len(rest)
        at = 0
        for match in _DIRECTIVE.finditer(source):
            if match.start() > at:
                out.extend(_literal(form, at, match.start()))
            at = match.end()
            if match.group() == "%%":
                out.append(Seg("%"))
                continue
            out.extend(_directive(match, rest))
        if at < len(source):
            out.extend(_literal(form, at, len(source)))
        if not rest or len(rest) == count:
            break
    return tuple(out)


def _literal(form: Value, start: int, end: int) -> Value:
    return unescape_value(cut(form, start, end))


def _directive(match: re.Match[str], rest: list[Value]) -> Value:
    flags, width, precision, kind = match.groups()
    flags = flags or ""
    if width == "*":
        width = text_of(rest.pop(0)) if rest else ""
    if precision == "*":
        precision = text_of(rest.pop(0)) if rest else ""
    value = rest.pop(0) if rest else ()
    if any(seg.unk for seg in value):
        return value
    text = text_of(likely(value))
    size = min(int(width), 10_000) if width and width.isdigit() else 0
    if kind in "sb" and not size and not precision:
        return value if kind == "s" or "\\" not in text else (Seg(unescape_ansi(text)),)
    if kind == "q":
        return (Seg(quote(text)),)
    if kind in "sb":
        result = text[: int(precision)] if precision and precision.isdigit() else text
    elif kind == "c":
        result = text[:1]
    elif kind in "diouxX":
        try:
            number = int(text, 0) if text.strip() else 0
        except ValueError:
            number = 0
        number = int(text) if re.fullmatch(r"0\d*[1-9]\d*", text) and not number else number
        result = f"{number:{'d' if kind in 'iu' else kind}}"
        if precision and precision.isdigit():
            result = result.zfill(min(int(precision), 1000))
    elif kind in "eEfFgG":
        try:
            result = f"{float(text or 0):.{precision or 6}{kind}}"
        except (ValueError, OverflowError):
            result = text
    else:
        return (Seg(match.group(), unk=match.group()),)
    if "-" in flags:
        result = result.ljust(size)
    else:
        result = result.zfill(size) if "0" in flags and kind not in "sbc" else result.rjust(size)
    return (Seg(result),)


def quote(text: str) -> str:
    """As `printf %q` does."""
    if not text:
        return "''"
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:./,-]+", text) else re.sub(r"([^A-Za-z0-9_@%+=:./,-])", r"\\\1", text)


def printf(shell: Commands, fields: list[Field]) -> Status:
    args = fields[1:]
    if args and args[0].text == "--":
        args = args[1:]
    name = None
    if len(args) > 1 and args[0].text == "-v":
        name, args = args[1].text, args[2:]
    if not args:
        return Status(2)
    if name is None and shell.state.out is None:
        return OK
    value = format_text(likely(args[0].segs), [shell.from_field(item) for item in args[1:]])
    if name is None:
        shell.print(value)
    elif match := re.fullmatch(r"([A-Za-z_]\w*)(?:\[(.*)\])?", name):
        shell.assign(match.group(1), match.group(2), value)
    return OK


# --- input ---


def read(shell: Commands, fields: list[Field]) -> Status:
    at, array, delimiter, names = 1, None, "\n", []
    while at < len(fields):
        text = fields[at].text
        if not text.startswith("-") or len(text) < 2:
            break
        letter = next((c for c in text[1:] if c in "adnNptui"), "")
        if letter:
            given = text[text.index(letter) + 1 :]
            if not given:
                at += 1
                given = fields[at].text if at < len(fields) else ""
            if letter == "a":
                array = given
            elif letter == "d":
                delimiter = given[:1]
        at += 1
    names = [item.text for item in fields[at:] if _NAME.fullmatch(item.text)]
    stream = shell.state.stdin
    if array is None and not names:
        names = ["REPLY"]
    if stream.value is None:
        for name in [array] if array else names:
            hole: Value = (Seg("$" + name, unk="$" + name),)
            if array:
                shell.set_var(name, Var(None, {0: Element(hole)}))
            else:
                shell.set_scalar(name, hole)
        return LIKELY
    if delimiter == "\n":
        found = stream.line()
    else:
        rest = stream.rest() or ()
        found = (rest, False) if rest else None
    value, ended = found if found is not None else ((), False)
    text = text_of(value)
    words = shell._words(text)
    if array:
        items: dict[Key, Element] = {n: Element(cut(value, a, b)) for n, (a, b, _) in enumerate(words)}
        shell.set_var(array, Var(None, items))
    elif names == ["REPLY"] and array is None:
        shell.set_scalar("REPLY", value)
    else:
        for n, name in enumerate(names):
            if n >= len(words):
                part: Value = (Seg(""),)
            elif n == len(names) - 1:
                start, end = words[n][0], words[-1][1]
                part = cut(value, start, end)
            else:
                part = cut(value, words[n][0], words[n][1])
            shell.set_scalar(name, part or (Seg(""),))
    return OK if ended else FAIL


def mapfile(shell: Commands, fields: list[Field]) -> Status:
    at, strip, delimiter, skip, origin = 1, False, "\n", 0, 0
    while at < len(fields) and fields[at].text.startswith("-") and len(fields[at].text) > 1:
        text = fields[at].text
        strip = strip or "t" in text[1:]
        last = text[-1]
        if last in "dnOsuCc":
            at += 1
            given = fields[at].text if at < len(fields) else ""
            if last == "d":
                delimiter = given[:1] or "\0"
            elif last == "s" and given.isdigit():
                skip = int(given)
            elif last == "O" and given.isdigit():
                origin = int(given)
        at += 1
    name = fields[at].text if at < len(fields) else "MAPFILE"
    value = shell.state.stdin.rest()
    if value is None:
        source = "${" + name + "[@]}"
        shell.set_var(name, Var(None, {0: Element((Seg(source, unk=source),))}))
        return LIKELY
    text = text_of(likely(value))
    items: dict[Key, Element] = {}
    start = 0
    while start < len(text):
        end = text.find(delimiter, start)
        stop = len(text) if end < 0 else end
        if skip:
            skip -= 1
        else:
            items[origin + len(items)] = Element(cut(value, start, stop if strip or end < 0 else stop + 1) or (Seg(""),))
        start = stop + 1
    shell.set_var(name, Var(None, items))
    return OK
