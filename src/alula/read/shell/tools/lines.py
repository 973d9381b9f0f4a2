"""Tools that turn lines into lines."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import patterns
from ..expand import Field
from ..state import LIKELY, OK, Status
from ..text import Seg, Value, cut, decode, likely, lines_of, text_of, unknown
from .kit import Unsupported, basic_regex, each_line, inputs, known_text, options, reject, safe

if TYPE_CHECKING:
    from ..commands import Commands


_BUSY = frozenset(("ss", "netstat", "lsof", "ps", "pgrep", "tmux", "screen", "docker", "squeue"))


# --- whole files and lines ---


def cat(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields)
    reject(found, "u")
    if shell.state.out is None:
        return OK
    try:
        shell.print(inputs(shell, files))
    except Unsupported:
        return shell.unknown_output()
    return OK


def tee(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields)
    value = shell.state.stdin.rest()
    for item in files:
        if not unknown(item.segs) and not item.text.startswith("/dev/"):
            shell.write_file(item.text, value, "a" in found)
    if value is None:
        return shell.unknown_output()
    shell.print(value)
    return OK


def head(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields, "nc", ("lines", "bytes"), numeric=True)
    reject(found, "n c lines bytes q")
    value = inputs(shell, files)
    if "c" in found:
        shell.print(cut(value, 0, int(found["c"])))
        return OK
    count = int(found.get("n") or found.get("lines") or 10)
    lines = lines_of(value)
    for line in lines[:count]:
        shell.print((*line, Seg("\n")))
    return OK


def tail(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields, "nc", ("lines", "bytes"), numeric=True)
    reject(found, "n c lines bytes q")
    value = inputs(shell, files)
    if "c" in found:
        text = text_of(likely(value))
        shell.print(cut(value, max(0, len(text) - int(found["c"])), len(text)))
        return OK
    count = found.get("n") or found.get("lines") or "10"
    lines = lines_of(value)
    chosen = lines[int(count) - 1 :] if count.startswith("+") else lines[-int(count) :] if int(count) else []
    for line in chosen:
        shell.print((*line, Seg("\n")))
    return OK


def wc(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields)
    reject(found, "l w c m lines words bytes chars")
    value = inputs(shell, files)
    text = text_of(likely(value))
    known = not unknown(value)
    if not known and not ({"l", "lines"} & set(found)):
        raise Unsupported
    counts = {"l": text.count("\n"), "w": len(text.split()), "m": len(decode(text)), "c": len(text)}
    chosen = [counts[k] for k in "lwmc" if k in found or {"l": "lines", "w": "words", "m": "chars", "c": "bytes"}[k] in found]
    if len(chosen) != 1:
        raise Unsupported
    suffix = f" {files[0].text}" if len(files) == 1 else ""
    shell.print_text(f"{chosen[0]}{suffix}\n")
    return OK


def sort(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields, "kt", ("key", "field-separator"))
    reject(found, "n r u V f s k t")
    lines = lines_of(inputs(shell, files))
    for line in lines:
        known_text(line)
    key = found.get("k")
    separator = found.get("t")

    def selected(line: Value) -> str:
        text = text_of(likely(line))
        if key is None:
            return text
        match = re.match(r"(\d+)(?:\.\d+)?([nrV]*)(?:,(\d+)([nrV]*))?$", key)
        if not match:
            raise Unsupported
        parts = text.split(separator) if separator else text.split()
        start = int(match.group(1)) - 1
        stop = int(match.group(3)) if match.group(3) else len(parts)
        return (separator or " ").join(parts[start:stop])

    flags = set(found) | set(re.sub(r"[^nrV]", "", key or ""))

    def rank(line: Value) -> tuple[object, ...]:
        text = selected(line)
        if "n" in flags:
            match = re.match(r"\s*(-?\d+(?:\.\d+)?)", text)
            return (float(match.group(1)) if match else 0.0, text_of(line))
        if "V" in flags:
            return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", text))
        return (text.lower() if "f" in flags else text,)

    ordered = sorted(lines, key=rank, reverse="r" in flags)
    seen: set[str] = set()
    for line in ordered:
        text = text_of(line)
        if "u" in flags and text in seen:
            continue
        seen.add(text)
        shell.print((*line, Seg("\n")))
    return OK


def uniq(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields)
    reject(found, "c d u")
    groups: list[tuple[Value, int]] = []
    for line in lines_of(inputs(shell, files)):
        if groups and known_text(groups[-1][0]) == known_text(line):
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((line, 1))
    for line, count in groups:
        if ("d" in found and count < 2) or ("u" in found and count > 1):
            continue
        shell.print((*((Seg(f"{count:7d} "),) if "c" in found else ()), *line, Seg("\n")))
    return OK


def rev_lines(shell: Commands, fields: list[Field]) -> Status:
    _, files = options(fields)
    for line in reversed(lines_of(inputs(shell, files))):
        shell.print((*line, Seg("\n")))
    return OK


def rev(shell: Commands, fields: list[Field]) -> Status:
    _, files = options(fields)
    each_line(shell, inputs(shell, files), lambda line: (Seg(known_text(line)[::-1]),))
    return OK


def xargs(shell: Commands, fields: list[Field]) -> Status:
    """Alone it trims and joins words; with a program it gives them to it."""
    value = inputs(shell, ())
    text = known_text(value)
    if any(c in text for c in "'\"\\") or (len(fields) > 1 and fields[1].text.startswith("-")):
        raise Unsupported
    if len(fields) == 1:
        shell.print_text(" ".join(text.split()) + "\n")
        return OK
    words = [Field(cut(value, match.start(), match.end()), fields[0].place) for match in re.finditer(r"\S+", text)]
    return shell.external([*fields[1:], *words], shell.environment())


def paste(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields, "d", ("delimiters",))
    reject(found, "s d delimiters serial")
    if "s" not in found and "serial" not in found:
        raise Unsupported
    glue = found.get("d") or found.get("delimiters") or "\t"
    out: list[Seg] = []
    for n, line in enumerate(lines_of(inputs(shell, [item for item in files if item.text != "-"]))):
        if n:
            out.append(Seg(glue[0]))
        out.extend(line)
    shell.print((*out, Seg("\n")))
    return OK


# --- parts of lines ---


def _set_of(text: str) -> list[str]:
    """A `tr` set."""
    text = re.sub(r"\[:(\w+):\]", lambda m: "".join(chr(c) for c in range(128) if patterns.matches(f"[[:{m.group(1)}:]]", chr(c))), text)
    out: list[str] = []
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0", "f": "\f", "v": "\v", "a": "\a", "b": "\b"}
    at = 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            char = escapes.get(text[at], text[at])
        if text[at + 1 : at + 2] == "-" and at + 2 < len(text):
            out.extend(chr(c) for c in range(ord(char), ord(text[at + 2]) + 1))
            at += 3
            continue
        out.append(char)
        at += 1
    return out


def tr(shell: Commands, fields: list[Field]) -> Status:
    found, sets = options(fields)
    reject(found, "d s c C")
    value = inputs(shell, ())
    first = _set_of(sets[0].text)
    second = _set_of(sets[1].text) if len(sets) > 1 else []
    inverted = "c" in found or "C" in found

    def one(text: str) -> str:
        chosen = [c for c in map(chr, range(256)) if c not in first] if inverted else first
        if "d" in found:
            kept = "".join(c for c in text if c not in chosen)
            return _squeeze(kept, second) if "s" in found else kept
        if second:
            padded = second + [second[-1]] * max(0, len(chosen) - len(second))
            table = dict(zip(chosen, padded, strict=False))
            text = "".join(table.get(c, c) for c in text)
            return _squeeze(text, second) if "s" in found else text
        return _squeeze(text, chosen)

    if "s" in found:
        shell.print_text(one(known_text(value)))
        return OK
    for seg in likely(value):
        if seg.unk or (text := one(seg.text)) == seg.text:
            shell.print((seg,))
        elif len(text) == len(seg.text):
            shell.print((Seg(text, seg.file, seg.start, seg.end, seg.hops),))
        else:
            shell.print((Seg(text),))
    return OK


def _squeeze(text: str, chosen: Sequence[str]) -> str:
    out: list[str] = []
    for char in text:
        if not (out and out[-1] == char and char in chosen):
            out.append(char)
    return "".join(out)


def cut_(shell: Commands, fields: list[Field]) -> Status:
    found, files = options(fields, "dfcb", ("delimiter", "fields", "characters", "output-delimiter"))
    reject(found, "d f c b s delimiter fields characters only-delimited output-delimiter complement")
    if "complement" in found:
        raise Unsupported
    delimiter = found.get("d") or found.get("delimiter") or "\t"
    columns = found.get("f") or found.get("fields")
    characters = found.get("c") or found.get("b") or found.get("characters")
    glue = found.get("output-delimiter", delimiter)

    def chosen(count: int) -> list[int]:
        out: list[int] = []
        for part in (columns or characters or "").split(","):
            match = re.fullmatch(r"(\d*)(-?)(\d*)", part)
            if not match or part in ("", "-"):
                raise Unsupported
            low = int(match.group(1) or 1)
            high = int(match.group(3)) if match.group(3) else (count if match.group(2) else low)
            out.extend(range(low - 1, min(high, count)))
        return sorted(set(out))

    def change(line: Value) -> Value | None:
        text = known_text(line)
        if characters:
            return tuple(seg for at in chosen(len(text)) for seg in cut(line, at, at + 1))
        if delimiter not in text:
            return None if "s" in found or "only-delimited" in found else line
        places: list[tuple[int, int]] = []
        at = 0
        for part in text.split(delimiter):
            places.append((at, at + len(part)))
            at += len(part) + len(delimiter)
        out: list[Seg] = []
        for n, index in enumerate(chosen(len(places))):
            if n:
                out.append(Seg(glue))
            out.extend(cut(line, *places[index]))
        return tuple(out)

    each_line(shell, inputs(shell, files), change)
    return OK


def grep(shell: Commands, fields: list[Field]) -> Status:
    name = posixpath.basename(fields[0].text)
    found, rest = options(fields, "emABC", ("regexp", "max-count"), numeric=False)
    reject(found, "e q c o i v E F w x m n h s P G r l A B C regexp quiet count only-matching ignore-case invert-match max-count silent")
    if {"A", "B", "C", "r", "l", "n"} & set(found):
        raise Unsupported
    source = found.get("e") or found.get("regexp") or (rest.pop(0).text if rest else "")
    quiet = "q" in found or "quiet" in found or "silent" in found
    try:
        lines = lines_of(inputs(shell, rest))
    except Unsupported:
        absent = rest and all(shell.read_file(shell.path(item.text)) is None and not os.path.exists(shell.path(item.text)) for item in rest)
        if absent or shell.printer in _BUSY:  # "is the port taken already?": most likely not
            return Status(1, False)
        return LIKELY if quiet else shell.unknown_output()
    fixed = "F" in found or name == "fgrep"
    extended = "E" in found or "P" in found or name == "egrep"
    body = re.escape(source) if fixed else source if "P" in found else basic_regex(source, extended)
    body = rf"\b(?:{body})\b" if "w" in found else f"^(?:{body})$" if "x" in found else body
    compiled = safe(body, re.IGNORECASE if "i" in found or "ignore-case" in found else 0)
    negate = "v" in found or "invert-match" in found
    limit = int(found.get("m") or found.get("max-count") or 1_000_000)
    hits: list[Value] = []
    doubtful = False
    for line in lines:
        if unknown(line):
            doubtful = True
            continue
        if (compiled.search(text_of(likely(line))) is not None) != negate and len(hits) < limit:
            hits.append(line)
    if doubtful and not quiet:
        raise Unsupported
    if "c" in found or "count" in found:
        shell.print_text(f"{len(hits)}\n")
    elif "o" in found or "only-matching" in found:
        for line in hits:
            for match in filter(re.Match.group, compiled.finditer(text_of(likely(line)))):
                shell.print((*cut(line, *match.span()), Seg("\n")))
    elif not quiet:
        for line in hits:
            shell.print((*line, Seg("\n")))
    return Status(0 if hits else 1, not doubtful)
