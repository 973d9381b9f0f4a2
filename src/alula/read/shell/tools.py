"""Programs whose output scripts build commands from, emulated where it is certain: text tools, paths, counters.

A tool that is asked for more than is emulated answers "not known"; it never guesses.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import patterns
from .expand import Field
from .state import FAIL, LIKELY, OK, Status
from .text import Seg, Value, cut, decode, encode, likely, lines_of, text_of, unknown

if TYPE_CHECKING:
    from .commands import Commands

Tool = Callable[["Commands", list[Field]], Status]


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


def tool(function: Tool) -> Tool:
    """Not known, where the emulation ends."""

    def guarded(shell: Commands, fields: list[Field]) -> Status:
        try:
            return function(shell, fields)
        except (Unsupported, ValueError, re.error, OverflowError, RecursionError):
            return shell.unknown_output()

    return guarded


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
    """Alone it trims and joins words."""
    if len(fields) > 1 and [item.text for item in fields[1:]] not in (["echo"], ["echo", "-n"]):
        raise Unsupported
    text = known_text(inputs(shell, ()))
    if any(c in text for c in "'\"\\"):
        raise Unsupported
    shell.print_text(" ".join(text.split()) + "\n")
    return OK


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
    if re.search(r"[+*}]\)+[+*{]", pattern) or len(pattern) > 500:
        raise Unsupported
    return re.compile(pattern, flags)


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
        return Status(2, False) if absent else LIKELY if quiet else shell.unknown_output()
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
            for match in compiled.finditer(text_of(likely(line))):
                shell.print((*cut(line, *match.span()), Seg("\n")))
    elif not quiet:
        for line in hits:
            shell.print((*line, Seg("\n")))
    return Status(0 if hits else 1, not doubtful)


# --- paths and numbers ---


def basename(shell: Commands, fields: list[Field]) -> Status:
    found, rest = options(fields, "s", ("suffix",))
    suffix = found.get("s") or found.get("suffix") or (rest[1].text if len(rest) > 1 and "a" not in found else "")
    for item in rest if "a" in found or "s" in found else rest[:1]:
        text = item.text.rstrip("/") or "/"
        start = text.rfind("/") + 1 if text != "/" else 0
        end = len(text)
        if suffix and text.endswith(suffix) and text[start:] != suffix:
            end -= len(suffix)
        shell.print((*cut(item.segs, start, end), Seg("\n")))
    return OK


def dirname(shell: Commands, fields: list[Field]) -> Status:
    _, rest = options(fields)
    for item in rest:
        text = item.text.rstrip("/")
        if not text:
            shell.print_text("/\n" if item.text else ".\n")
        elif "/" not in text:
            shell.print_text(".\n")
        else:
            head_text = text[: text.rfind("/")].rstrip("/")
            shell.print((*(cut(item.segs, 0, len(head_text)) if head_text else (Seg("/"),)), Seg("\n")))
    return OK


def realpath(shell: Commands, fields: list[Field]) -> Status:
    _, rest = options(fields)
    for item in rest:
        path = shell.path(item.text)
        try:
            shell.print_text(encode(os.path.realpath(path) if os.path.lexists(path) else path) + "\n")
        except (OSError, ValueError):
            raise Unsupported from None
    return OK


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
        from .arith import ArithmeticFault, UnknownNumber

        try:
            result = str(shell.calculate(source)[0])
        except (ArithmeticFault, UnknownNumber):
            raise Unsupported from None
    shell.print_text(result + "\n")
    return Status(1 if result in ("", "0") else 0)


def bc(shell: Commands, fields: list[Field]) -> Status:
    from .arith import ArithmeticFault, UnknownNumber

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


# --- files ---


def ls(shell: Commands, fields: list[Field]) -> Status:
    found, rest = options(fields)
    reject(found, "d 1 t r a A v")
    if shell.state.external:
        raise Unsupported
    paths = [item.text for item in rest] or ["."]
    files: list[str] = []
    listed: list[tuple[str, list[str]]] = []
    missing = False
    for name in paths:
        path = shell.path(name)
        if path in shell.files:
            files.append(name)
        elif not os.path.lexists(path):
            missing = True
        elif os.path.isdir(path) and "d" not in found:
            names = sorted(encode(item) for item in os.listdir(path)[: patterns.MAX_FILES] if not item.startswith(".") or "a" in found or "A" in found)
            listed.append((name, names))
        else:
            files.append(name)
    if len(paths) > 1 and listed:
        raise Unsupported
    base, names = ("", files) if not listed else listed[0]

    def when(name: str) -> float:
        try:
            return -os.stat(shell.path(posixpath.join(base, name))).st_mtime
        except (OSError, ValueError):
            return 0.0

    names = sorted(names, key=when) if "t" in found else sorted(names)
    for name in reversed(names) if "r" in found else names:
        shell.print_text(name + "\n")
    if missing and not names:
        return Status(2, False)
    return OK if not missing else Status(2, False)


def find(shell: Commands, fields: list[Field]) -> Status:
    if shell.state.external or any(unknown(item.segs) for item in fields):
        raise Unsupported
    roots: list[str] = []
    at = 1
    while at < len(fields) and not fields[at].text.startswith(("-", "(", "!")):
        roots.append(fields[at].text)
        at += 1
    tests: list[tuple[str, str]] = []
    depth, least, form = 50, 0, "%p\n"
    while at < len(fields):
        text = fields[at].text
        value = fields[at + 1].text if at + 1 < len(fields) else ""
        at += 2
        if text == "-maxdepth":
            depth = int(value)
        elif text == "-mindepth":
            least = int(value)
        elif text in ("-name", "-type", "-iname", "-path"):
            tests.append((text, value))
        elif text == "-printf":
            form = value
        elif text == "-print":
            at -= 1
        else:
            raise Unsupported
    hits: list[str] = []
    count = 0
    for root in roots or ["."]:
        start = shell.path(root)
        if not os.path.lexists(start):
            continue
        stack = [(encode(root), start, 0)]
        while stack:
            name, path, level = stack.pop()
            count += 1
            if count > 5000:
                raise Unsupported
            is_dir = os.path.isdir(path) and not os.path.islink(path)
            if level >= least and all(_find_test(test, value, name, is_dir) for test, value in tests):
                hits.append(name)
            if is_dir and level < depth:
                for entry in sorted(os.listdir(path), reverse=True):
                    stack.append((f"{name.rstrip('/')}/{encode(entry)}" if name != "/" else "/" + encode(entry), os.path.join(path, entry), level + 1))
    for name in hits:
        known = {"%p": name, "%f": posixpath.basename(name), "%h": posixpath.dirname(name) or ".", "%%": "%"}
        line = re.sub(r"%[pfh%]", lambda m, known=known: known[m.group()], form)  # type: ignore[misc]
        if "%" in re.sub(r"%%", "", form.replace("%p", "").replace("%f", "").replace("%h", "")):
            raise Unsupported
        shell.print_text(line.replace("\\n", "\n").replace("\\t", "\t"))
    return OK if hits else Status(0, False)


def _find_test(test: str, value: str, name: str, is_dir: bool) -> bool:
    if test == "-type":
        return is_dir == (value == "d") if value in ("d", "f") else False
    if test == "-path":
        return patterns.matches(value, name)
    base = posixpath.basename(name)
    return patterns.matches(value.lower(), base.lower()) if test == "-iname" else patterns.matches(value, base)


def copy(shell: Commands, fields: list[Field]) -> Status:
    _, rest = options(fields)
    if len(rest) != 2 or unknown(rest[0].segs) or unknown(rest[1].segs) or os.path.isdir(shell.path(rest[1].text)):
        return OK
    value = shell.read_file(shell.path(rest[0].text))
    if value is not None:
        shell.write_file(rest[1].text, value)
    return OK


def touch(shell: Commands, fields: list[Field]) -> Status:
    _, rest = options(fields, "dtr")
    for item in rest:
        path = shell.path(item.text)
        if path not in shell.files and not os.path.exists(path):
            shell.write_file(item.text, ())
    return OK


def envsubst(shell: Commands, _: list[Field]) -> Status:
    value = inputs(shell, ())
    env = shell.environment()
    out: list[Seg] = []
    text = text_of(likely(value))
    at = 0
    for match in re.finditer(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", text, re.ASCII):
        out.extend(cut(value, at, match.start()))
        var = env.get(match.group(1) or match.group(2))
        out.extend(var.scalar() or () if var is not None else ())
        at = match.end()
    out.extend(cut(value, at, len(text)))
    shell.print(tuple(out))
    return OK


def getopt(shell: Commands, fields: list[Field]) -> Status:
    from .builtins import quote

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


# --- the machine ---


def nvidia_smi(shell: Commands, fields: list[Field]) -> Status:
    count = shell.gpus_per_node
    texts = [item.text for item in fields[1:]]
    if shell.state.out is None:
        return LIKELY
    if not count:
        return shell.unknown_output()
    if texts in (["-L"], ["--list-gpus"]):
        for n in range(count):
            shell.print_text(f"GPU {n}: accelerator (UUID: GPU-{n})\n")
        return OK
    query = next((text for text in texts if text.startswith("--query-gpu=")), "")
    if query and any("noheader" in text for text in texts):
        names = query.partition("=")[2].split(",")
        for n in range(count):
            for place, name in enumerate(names):
                if place:
                    shell.print_text(", ")
                if name in ("index", "count"):
                    shell.print_text(str(n if name == "index" else count))
                else:
                    shell.print((Seg("$(nvidia-smi)", unk="$(nvidia-smi)"),))
            shell.print_text("\n")
        return OK
    return shell.unknown_output()


def machine(shell: Commands, _: list[Field]) -> Status:
    return shell.unknown_output()


def _sed(shell: Commands, fields: list[Field]) -> Status:
    from .sed import sed

    return sed(shell, fields)


def _awk(shell: Commands, fields: list[Field]) -> Status:
    from .awk import awk

    return awk(shell, fields)


def _jq(shell: Commands, fields: list[Field]) -> Status:
    from .jq import jq

    return jq(shell, fields)


def _pure(name: str) -> Tool:
    """A builtin behind a wrapper (`env printf`, `nohup true`)."""

    def run(shell: Commands, fields: list[Field]) -> Status:
        from .builtins import BUILTINS
        from .syntax import Simple
        from .text import Text

        return BUILTINS[name](shell, Simple(Text(""), 0, 0, [], [], []), fields)

    return run


INERT = frozenset(
    """sleep mkdir rm rmdir chmod chown chgrp clear reset sync stty tput wall logger renice pkill killall fuser lsof free df du ps top htop
    module ml deactivate activate pip pip3 pip3.10 pip3.11 apt apt-get yum dnf brew wandb swanlab modelscope huggingface-cli hf git-lfs mount
    umount ldconfig modprobe sysctl notify-send xdg-open open less more vim nano ntpdate tar unzip zip gzip gunzip""".split()
)

TOOLS: dict[str, Tool] = {
    name: tool(function)
    for name, function in {
        "cat": cat, "tee": tee, "head": head, "tail": tail, "wc": wc, "sort": sort, "uniq": uniq, "tac": rev_lines, "rev": rev, "paste": paste, "xargs": xargs,
        "tr": tr, "cut": cut_, "grep": grep, "egrep": grep, "fgrep": grep, "sed": _sed, "awk": _awk, "gawk": _awk, "mawk": _awk, "jq": _jq,
        "basename": basename, "dirname": dirname, "realpath": realpath, "readlink": realpath, "seq": seq, "expr": expr, "bc": bc, "ls": ls,
        "find": find, "cp": copy, "mv": copy, "touch": touch, "envsubst": envsubst, "getopt": getopt, "nvidia-smi": nvidia_smi, "date": machine,
        "hostname": machine, "nproc": machine, "uname": machine, "whoami": machine, "id": machine, "uuidgen": machine, "mktemp": machine,
        "stat": machine, "shuf": machine, "openssl": machine, "md5sum": machine, "sha256sum": machine, "od": machine, "xxd": machine,
        "getconf": machine, "lscpu": machine, "lspci": machine, "npu-smi": machine, "rocm-smi": machine, "ip": machine, "ifconfig": machine,
        "netstat": machine, "ss": machine, "pgrep": machine, "curl": machine, "wget": machine, "nc": machine, "git": machine, "scontrol": machine,
        "squeue": machine, "sinfo": machine, "ping": machine, "printenv": machine, "column": machine, "yq": machine, "diff": machine, "cmp": machine,
        "echo": _pure("echo"), "printf": _pure("printf"), "test": _pure("test"), "[": _pure("["), "true": _pure("true"), "false": _pure("false"),
        "pwd": _pure("pwd"),
    }.items()
}  # fmt: skip
