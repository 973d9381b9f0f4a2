"""Tools that count and calculate, and `getopt`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..arith import ArithmeticFault, UnknownNumber
from ..state import FAIL, OK, Status
from ..text import decode, lines_of
from .kit import Unsupported, basic_regex, inputs, known_text, options

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field


def seq(shell: Commands, fields: list[Field]) -> Status:
    args: list[str] = []
    glue, width, at = "\n", False, 1
    while at < len(fields):
        text = fields[at].text
        if any(seg.unk and not seg.soft for seg in fields[at].segs):
            raise Unsupported
        if text in ("-s", "--separator"):
            at += 1
            glue = fields[at].text
        elif text.startswith("--separator="):
            glue = text[12:]
        elif text.startswith("-s"):
            glue = text[2:]
        elif text in ("-w", "--equal-width"):
            width = True
        elif re.fullmatch(r"[-+]?\d+(\.\d+)?", text):
            args.append(text)
        else:
            raise Unsupported
        at += 1
    if not 1 <= len(args) <= 3 or any("." in item for item in args):
        raise Unsupported
    start, step, stop = (1, 1, int(args[0])) if len(args) == 1 else (int(args[0]), 1, int(args[1])) if len(args) == 2 else tuple(int(a) for a in args)
    if step == 0:
        raise Unsupported
    numbers = [str(n) for n in range(start, stop + (1 if step > 0 else -1), step)[:100_000]]
    if width:
        size = max((len(item) for item in numbers), default=0)
        numbers = [item.zfill(size) for item in numbers]
    if numbers:
        shell.print_text(glue.join(numbers) + "\n")
    return OK


def expr(shell: Commands, fields: list[Field]) -> Status:
    words: list[str] = []
    for item in fields[1:]:
        words.append(known_text(item.segs))
    if len(words) == 3 and words[1] == ":":
        match = re.match(basic_regex(words[2], False), words[0])
        result = (match.group(1) if match and match.groups() else str(match.end()) if match else "0") or ""
    elif len(words) == 2 and words[0] == "length":
        result = str(len(decode(words[1])))
    elif len(words) == 3 and words[1] in ("=", "!=") and not (words[0].lstrip("-").isdigit() and words[2].lstrip("-").isdigit()):
        result = str(int((words[0] == words[2]) == (words[1] == "=")))
    else:
        source = " ".join("==" if word == "=" else word for word in words)
        if not re.fullmatch(r"[-+*/%()<>=!&|\s\d]+", source):
            raise Unsupported
        try:
            result = str(shell.calculate(source)[0])
        except (ArithmeticFault, UnknownNumber):
            raise Unsupported from None
    shell.print_text(result + "\n")
    return Status(1 if result in ("", "0") else 0)


def bc(shell: Commands, fields: list[Field]) -> Status:
    _, files = options(fields)
    for line in lines_of(inputs(shell, files)):
        text = known_text(line).strip()
        if not re.fullmatch(r"[-+*/%()\s\d]+", text):
            raise Unsupported
        try:
            shell.print_text(f"{shell.calculate(text)[0]}\n")
        except (ArithmeticFault, UnknownNumber):
            raise Unsupported from None
    return OK


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def getopt(shell: Commands, fields: list[Field]) -> Status:
    short, long, at = "", [], 1
    while at < len(fields):
        text = fields[at].text
        value = fields[at + 1].text if at + 1 < len(fields) else ""
        if text in ("-o", "--options"):
            short, at = value, at + 2
        elif text in ("-l", "--long", "--longoptions"):
            long.extend(value.split(","))
            at += 2
        elif text in ("-n", "--name"):
            at += 2
        elif text == "--":
            at += 1
            break
        elif text.startswith(("--options=", "--long=", "--longoptions=", "--name=", "-o", "-l", "-n")):
            name, _, joined = text.partition("=")
            joined = joined if text.startswith("--") else text[2:]
            if name in ("--options",) or text.startswith("-o"):
                short = joined
            elif not text.startswith(("--name", "-n")):
                long.extend(joined.split(","))
            at += 1
        else:
            raise Unsupported
    takes = {item.rstrip(":"): item.count(":") for item in long if item}
    words = [known_text(item.segs) for item in fields[at:]]
    out: list[str] = []
    operands: list[str] = []
    n = 0
    while n < len(words):
        word = words[n]
        n += 1
        if word == "--":
            operands.extend(words[n:])
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            full = next((item for item in takes if item == name), None) or next((item for item in takes if item.startswith(name)), None)
            if full is None:
                return FAIL
            out.append("--" + full)
            if takes[full] == 1 and not equals:
                value = words[n] if n < len(words) else ""
                n += 1
            if takes[full]:
                out.append(quote(value))
        elif word.startswith("-") and len(word) > 1:
            for place, letter in enumerate(word[1:], 1):
                where = short.find(letter)
                if where < 0:
                    return FAIL
                out.append("-" + letter)
                if short[where + 1 : where + 2] == ":":
                    value = word[place + 1 :]
                    if not value and short[where + 2 : where + 3] != ":":
                        value = words[n] if n < len(words) else ""
                        n += 1
                    out.append(quote(value))
                    break
        else:
            operands.append(word)
    shell.print_text(" " + " ".join([*out, "--", *(quote(item) for item in operands)]) + "\n")
    return OK
