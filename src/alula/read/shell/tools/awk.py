"""The part of `awk` that launch scripts use: `[condition] {print fields}` with `-F` and `-v`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..state import OK, Status
from ..text import Seg, Value, cut, likely, lines_of, text_of
from .kit import Unsupported, inputs, known_text, options, safe

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

_RULE = re.compile(r"\s*(BEGIN|END|[^{}]*?)\s*\{([^{}]*)\}\s*;?", re.DOTALL)
_TERM = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|\$(NF-\d+|NF|\d+|\(NF-\d+\))|(NF|NR)|(\d+)|([A-Za-z_]\w*))\s*')
_CONDITION = re.compile(r"(NR|NF|\$\d+|\$NF)\s*(==|!=|<=|>=|<|>|~)\s*(\d+|\"[^\"]*\"|/[^/]*/)")


def awk(shell: Commands, fields: list[Field]) -> Status:
    found, rest = options(fields, "Fv")
    if set(found) - {"F", "v"} or not rest:
        raise Unsupported
    program = known_text(rest.pop(0).segs)
    variables: dict[str, str] = {}
    if "v" in found:
        name, _, value = found["v"].partition("=")
        variables[name] = value
    rules: list[tuple[str, str]] = []
    at = 0
    while at < len(program.rstrip()):
        match = _RULE.match(program, at)
        if not match or not match.group():
            if at == 0 and "{" not in program:
                rules.append((program.strip(), "print"))
                break
            raise Unsupported
        rules.append((match.group(1).strip(), match.group(2).strip()))
        at = match.end()
    separator = found.get("F", " ")
    lines = lines_of(inputs(shell, rest))
    last: Value = ()
    for number, line in enumerate(lines, 1):
        known_text(line)
        last = line
        for condition, action in rules:
            if condition in ("BEGIN", "END"):
                if condition == "BEGIN":
                    raise Unsupported
                continue
            if _holds(condition, line, number, separator):
                _act(shell, action, line, number, separator, variables)
                if re.search(r"\bexit\b", action):
                    return OK
    for condition, action in rules:
        if condition == "END":
            _act(shell, action, last, len(lines), separator, variables)
    return OK


def _columns(line: Value, separator: str) -> list[Value]:
    text = text_of(likely(line))
    if separator == " ":
        return [cut(line, m.start(), m.end()) for m in re.finditer(r"[^ \t\n]+", text)]
    if not text:
        return []
    pattern = safe(re.escape(separator) if len(separator) == 1 else separator)
    out: list[Value] = []
    at = 0
    for match in pattern.finditer(text):
        out.append(cut(line, at, match.start()))
        at = match.end()
    out.append(cut(line, at, len(text)))
    return out


def _column(line: Value, name: str, separator: str) -> Value:
    columns = _columns(line, separator)
    name = name.strip("()")
    index = len(columns) - int(name[3:]) if name.startswith("NF-") else len(columns) if name == "NF" else int(name)
    if index == 0:
        return line
    return columns[index - 1] if 0 < index <= len(columns) else ()


def _holds(condition: str, line: Value, number: int, separator: str) -> bool:
    if not condition:
        return True
    if re.fullmatch(r"/[^/]*/", condition):
        return safe(condition[1:-1]).search(text_of(line)) is not None
    match = _CONDITION.fullmatch(condition)
    if not match:
        raise Unsupported
    name, op, operand = match.groups()
    left = str(number) if name == "NR" else str(len(_columns(line, separator))) if name == "NF" else text_of(_column(line, name[1:], separator))
    if op == "~":
        return safe(operand.strip("/")).search(left) is not None
    right = operand.strip('"')
    if left.lstrip("-").isdigit() and right.isdigit():
        a, b = int(left), int(right)
        return {"==": a == b, "!=": a != b, "<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b}[op]
    return {"==": left == right, "!=": left != right}.get(op, False)


def _act(shell: Commands, action: str, line: Value, number: int, separator: str, variables: dict[str, str]) -> None:
    for statement in filter(None, (part.strip() for part in re.split(r"[;\n]", action))):
        if statement == "exit":
            return
        match = re.fullmatch(r"(print|printf)\b\s*(.*)", statement, re.DOTALL)
        if not match:
            raise Unsupported
        verb, body = match.groups()
        out: list[Seg] = []
        if not body:
            out.extend(line)
        arguments = _split(body)
        for n, argument in enumerate(arguments):
            if n and verb == "print":
                out.append(Seg(" "))
            if n and verb == "printf":
                raise Unsupported
            at = 0
            while at < len(argument):
                term = _TERM.match(argument, at)
                if not term or term.end() == at:
                    raise Unsupported
                text, column, special, digits, name = term.groups()
                if text is not None:
                    out.append(Seg(text.replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t")))
                elif column is not None:
                    out.extend(_column(line, column, separator))
                elif special:
                    out.append(Seg(str(number if special == "NR" else len(_columns(line, separator)))))
                elif digits:
                    out.append(Seg(digits))
                elif name in variables:
                    out.append(Seg(variables[name]))
                else:
                    raise Unsupported
                at = term.end()
        if verb == "print":
            out.append(Seg("\n"))
        elif any("%" in seg.text for seg in out):
            raise Unsupported
        shell.print(tuple(out))


def _split(body: str) -> list[str]:
    """The arguments of `print`, cut at commas outside strings."""
    out, start, quoted, at = [], 0, False, 0
    while at < len(body):
        if body[at] == "\\":
            at += 1
        elif body[at] == '"':
            quoted = not quoted
        elif body[at] == "," and not quoted:
            out.append(body[start:at])
            start = at + 1
        at += 1
    if body:
        out.append(body[start:])
    return out
