"""Tools about paths and files: what is on disk, and what the script itself has written."""

from __future__ import annotations

import os
import posixpath
import re
from typing import TYPE_CHECKING

from .. import patterns
from ..state import OK, Status
from ..text import Seg, cut, encode, likely, text_of, unknown
from .kit import Unsupported, inputs, options, reject

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field


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
        line = "".join(known.get(part, part) for part in re.split(r"(%[pfh%])", form))
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
