"""The door to changing a user's files: edits are chosen, applied to the bytes, shown as a diff, and written whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from posixpath import normpath
from typing import TYPE_CHECKING

from alula.run.finding import SEVERITIES, Edit, Finding

from .files import WriteError, write_atomic
from .shell_edits import NotEditable, delete_flag, insert_flag, quote_for, shell_word
from .yaml_edits import delete_yaml_key, insert_yaml_key, yaml_key, yaml_scalar, yaml_value

if TYPE_CHECKING:
    from alula.run.source import Source

__all__ = [
    "NotEditable",
    "WriteError",
    "apply",
    "chosen",
    "delete_flag",
    "delete_yaml_key",
    "insert_flag",
    "insert_yaml_key",
    "plan_diff",
    "quote_for",
    "shell_word",
    "write_atomic",
    "yaml_key",
    "yaml_scalar",
    "yaml_value",
]

_NAME = re.compile(r"[\s\\,]*([^\s=:]*)")


def chosen(findings: Iterable[Finding], sources: Mapping[str, Source], *, unsafe: bool = False) -> tuple[Finding, ...]:
    """The findings whose fixes go together: the gravest first, then by place; all edits of a fix or none.

    Edits that several fixes share count once. Two insertions at one place go together unless they set the same name.
    """
    order = {name: number for number, name in enumerate(sources)}

    def key(finding: Finding) -> tuple[int, int, int]:
        edits = finding.fix.edits if finding.fix is not None else ()
        first = min(((order.get(e.span.file, 0), e.span.start) for e in edits), default=(0, 0))
        return (SEVERITIES.index(finding.severity), *first)

    taken: dict[str, list[Edit]] = {}
    picked: list[Finding] = []
    for finding in sorted(findings, key=key):
        fix = finding.fix
        if fix is None or not fix.edits or fix.safety == "manual" or (fix.safety == "unsafe" and not unsafe):
            continue
        if any(edit.span.file not in sources for edit in fix.edits):
            continue
        new = [edit for edit in dict.fromkeys(fix.edits) if edit not in taken.get(edit.span.file, ())]
        if any(_conflict(edit, other) for edit in new for other in taken.get(edit.span.file, ())):
            continue
        for edit in new:
            taken.setdefault(edit.span.file, []).append(edit)
        picked.append(finding)
    return tuple(picked)


def apply(findings: Iterable[Finding], sources: Mapping[str, Source], *, unsafe: bool = False) -> dict[str, bytes]:
    """Apply the fixes that go together (see `chosen`): name -> new bytes, of the texts that change.

    Raises:
        ValueError: an edit lies outside its text.
    """
    edits: dict[str, dict[Edit, None]] = {}
    for finding in chosen(findings, sources, unsafe=unsafe):
        for edit in finding.fix.edits if finding.fix is not None else ():
            edits.setdefault(edit.span.file, {})[edit] = None
    new = {name: _edited(sources[name].data, list(parts)) for name, parts in edits.items()}
    return {name: data for name, data in new.items() if data != sources[name].data}


def _conflict(one: Edit, two: Edit) -> bool:
    a, b = one.span, two.span
    if a.start == a.end == b.start == b.end:
        name = _NAME.match(one.text)
        other = _NAME.match(two.text)
        return name is not None and other is not None and name[1] == other[1]
    return a.start < b.end and b.start < a.end


def _edited(data: bytes, edits: list[Edit]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for edit in sorted(edits, key=lambda e: (e.span.start, e.span.end)):  # stable: insertions at one place keep their order
        if not at <= edit.span.start <= edit.span.end <= len(data):
            raise ValueError(f"edit of bytes {edit.span.start} to {edit.span.end} lies outside {edit.span.file} or inside another edit")
        parts += [data[at : edit.span.start], edit.text.encode("utf-8", "surrogateescape")]
        at = edit.span.end
    return b"".join([*parts, data[at:]])


def plan_diff(new: Mapping[str, bytes], sources: Mapping[str, Source]) -> str:
    """A unified diff from the sources to `new`, as `patch -p1` and `git apply` take it.

    Secrets are hidden; where one stands next to a change, the diff is for reading only, and `git apply` refuses it. Bytes that are no UTF-8 are surrogates in the text: encode it with `surrogateescape`.
    """
    from difflib import unified_diff

    from alula.run.redact import Redactor

    parts: list[str] = []
    for name, data in new.items():
        old = sources[name].data
        hide = Redactor([old.decode("utf-8", "surrogateescape"), data.decode("utf-8", "surrogateescape")])
        path = name if name.startswith("/") else normpath(name)
        before, after = (path, path) if path.startswith("/") else (f"a/{path}", f"b/{path}")
        for line in unified_diff(_lines(old), _lines(data), _header(before), _header(after)):
            line = hide(line)
            parts.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(parts)


def _lines(data: bytes) -> list[str]:
    """Lines with their ends; only `\\n` ends one, unlike `str.splitlines`."""
    return [line.decode("utf-8", "surrogateescape") for line in re.findall(rb"[^\n]*\n|[^\n]+\Z", data)]


def _header(path: str) -> str:
    """A file name as git writes it: quoted where it holds control characters, quotes or backslashes."""
    if path.isprintable() and '"' not in path and "\\" not in path:
        return path
    raw = path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else f"\\{b:03o}" for b in raw) + '"'
