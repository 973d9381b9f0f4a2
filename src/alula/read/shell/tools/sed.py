"""The part of `sed` that launch scripts use: substitution, deletion, printing, by line number or pattern, and `-i`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..state import OK, Status
from ..text import Seg, Value, cut, likely, lines_of, text_of
from .kit import Unsupported, basic_regex, inputs, known_text, options, safe

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

_ADDRESS = r"(\d+|\$|/(?:[^/\\]|\\.)*/)"
_COMMAND = re.compile(rf"\s*(?:{_ADDRESS}(?:,{_ADDRESS})?)?\s*(!?)\s*([spdq=])", re.DOTALL)


@dataclass(slots=True)
class _Step:
    first: str
    last: str
    negate: bool
    name: str
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    everywhere: bool = False
    prints: bool = False
    nth: int = 1
    active: bool = False


def _compile(script: str, extended: bool) -> list[_Step]:
    steps: list[_Step] = []
    at = 0
    while at < len(script):
        if script[at] in " \t\n;":
            at += 1
            continue
        match = _COMMAND.match(script, at)
        if not match:
            raise Unsupported
        step = _Step(match.group(1) or "", match.group(2) or "", bool(match.group(3)), match.group(4))
        at = match.end()
        if step.name == "s":
            delimiter = script[at : at + 1]
            parts: list[str] = []
            at += 1
            for _ in range(2):
                start = at
                while at < len(script) and script[at] != delimiter:
                    at += 2 if script[at] == "\\" else 1
                if at >= len(script):
                    raise Unsupported
                parts.append(script[start:at].replace("\\" + delimiter, delimiter if delimiter not in "|.*+?()[]" else "\\" + delimiter))
                at += 1
            flags = re.compile(r"[gpiI0-9]*").match(script, at)
            assert flags is not None
            at = flags.end()
            step.pattern = safe(basic_regex(parts[0], extended), re.IGNORECASE if "i" in flags.group().lower() else 0)
            step.replacement = parts[1]
            step.everywhere = "g" in flags.group()
            step.prints = "p" in flags.group()
            number = re.sub(r"\D", "", flags.group())
            step.nth = int(number) if number else 1
        steps.append(step)
        rest = re.compile(r"[ \t]*(?:[;\n}]|$)").match(script, at)
        if not rest:
            raise Unsupported
        at = rest.end()
    return steps


def _fits(address: str, number: int, count: int, text: str, extended: bool) -> bool:
    if address == "$":
        return number == count
    if address.isdigit():
        return number == int(address)
    return safe(basic_regex(address[1:-1], extended)).search(text) is not None


def _selected(step: _Step, number: int, count: int, text: str, extended: bool) -> bool:
    if not step.first:
        hit = True
    elif not step.last:
        hit = _fits(step.first, number, count, text, extended)
    elif step.active:
        hit = True
        step.active = not (number >= int(step.last) if step.last.isdigit() else _fits(step.last, number, count, text, extended))
    else:
        hit = _fits(step.first, number, count, text, extended)
        step.active = hit and not (step.last.isdigit() and int(step.last) <= number)
    return hit != step.negate


def _replacement(step: _Step, match: re.Match[str]) -> str:
    def one(found: re.Match[str]) -> str:
        text = found.group()
        if text == "&":
            return match.group()
        if text[1].isdigit():
            return match.group(int(text[1])) or ""
        return {"n": "\n", "t": "\t"}.get(text[1], text[1])

    return re.sub(r"&|\\.", one, step.replacement, flags=re.DOTALL)


def _substitute(step: _Step, line: Value) -> tuple[Value, bool]:
    assert step.pattern is not None
    text = text_of(likely(line))
    out: list[Seg] = []
    at = 0
    hits = list(step.pattern.finditer(text))
    chosen = hits[step.nth - 1 :] if step.everywhere else hits[step.nth - 1 : step.nth]
    for match in chosen:
        out.extend(cut(line, at, match.start()))
        new = _replacement(step, match)
        if new:
            out.append(Seg(new))
        at = match.end()
    out.extend(cut(line, at, len(text)))
    return tuple(out), bool(chosen)


def sed(shell: Commands, fields: list[Field]) -> Status:
    found, rest = options([item for item in fields if not item.text.startswith("-i")], "e", ("expression",))
    if set(found) - {"e", "n", "E", "r", "expression", "regexp-extended", "quiet", "silent"}:
        raise Unsupported
    in_place = any(item.text.startswith("-i") for item in fields[1:])
    extended = bool({"E", "r", "regexp-extended"} & set(found))
    scripts = [fields[n + 1].text for n, item in enumerate(fields[:-1]) if item.text in ("-e", "--expression")]
    if not scripts:
        if not rest:
            raise Unsupported
        scripts = [known_text(rest.pop(0).segs)]
    if in_place:
        for item in rest:
            value = shell.read_file(shell.path(item.text))
            if value is None:
                continue
            try:
                out = _run(_compile("\n".join(scripts), extended), value, extended, "n" in found)
            except (Unsupported, re.error):
                shell.write_file(item.text, None)
                continue
            shell.write_file(item.text, out)
        return OK
    shell.print(_run(_compile("\n".join(scripts), extended), inputs(shell, rest), extended, bool({"n", "quiet", "silent"} & set(found))))
    return OK


def _run(steps: list[_Step], value: Value, extended: bool, quiet: bool) -> Value:
    lines = lines_of(value)
    out: list[Seg] = []
    for number, line in enumerate(lines, 1):
        if any(seg.unk for seg in line):
            raise Unsupported
        kept, stop = True, False
        for step in steps:
            if not _selected(step, number, len(lines), text_of(line), extended):
                continue
            if step.name == "d":
                kept = False
                break
            if step.name == "q":
                stop = True
                break
            if step.name == "s":
                line, done = _substitute(step, line)
                if not (done and step.prints):
                    continue
            if step.name in ("p", "s"):
                out.extend((*line, Seg("\n")))
            elif step.name == "=":
                out.append(Seg(f"{number}\n"))
        if kept and not quiet:
            out.extend((*line, Seg("\n")))
        if stop:
            break
    return tuple(out)
