"""Edits to YAML and JSON text, also inside a here-document. Nothing is re-dumped: comments, order and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from alula.run.finding import Edit
from alula.run.record import record
from alula.run.source import Source, Span

from .shell_edits import NotEditable

if TYPE_CHECKING:
    from alula.read.yaml import Entry, Node

_PLAIN = re.compile(r"(?!---|\.\.\.|-(?: |$))[\w/.-][\w/.+@%=:-]*(?<!:)(?: [\w/.+@%=-][\w/.+@%=:-]*(?<!:))*")
_NUMBER = re.compile(r"[-+]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][-+]?\d+)?", re.ASCII)
# What YAML 1.1 may read as octal, hexadecimal, sexagesimal, a date or a number with underscores.
_NUMBERLIKE = re.compile(r"[-+.]?\d[\d_:.xXa-fA-FobTtZ +-]*")
_WORDS = frozenset({"null", "yes", "no", "on", "off", "y", "n", ".inf", "-.inf", ".nan"})
_JSON_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null", re.ASCII)
_HEREDOC = re.compile(rb"<<-?[ \t]*\\?(?:['\"]?)([A-Za-z_]\w*)")
_COLON = re.compile(rb"[ \t]*:?")
_ALIAS = re.compile(rb"[ \t]*:[ \t]*\*[^\s,\]}]+")
_ANCHOR = re.compile(rb"(?:^|[\s\[{,:-])&\w")


def yaml_scalar(text: str) -> str:
    """The text as a YAML scalar that ms-swift reads as this argument: plain where it can be, quoted where YAML would read something else.

    Numbers stay numbers, and `true` and `false` booleans, as one writes them in a config.
    """
    if (
        _PLAIN.fullmatch(text)
        and text.lower() not in _WORDS
        and (_NUMBER.fullmatch(text) or not _NUMBERLIKE.fullmatch(text))
        and text != "-"
    ):
        return text
    if "'" not in text and text.isprintable():
        return f"'{text}'"
    return _double(text)


def _double(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" if char <= "\uffff" else f"\\U{ord(char):08x}" for char in quoted)


def yaml_value(source: Source, span: Span, text: str) -> str:
    """The bytes to write over the scalar at `span`, in the quotes it has; in a JSON file as JSON."""
    old = source.data[span.start : span.end]
    if _is_json(source):
        return text if _JSON_PLAIN.fullmatch(text) and not old.startswith(b'"') else json.dumps(text, ensure_ascii=False)
    if len(old) > 1 and old.startswith(b'"'):
        return _double(text)
    if len(old) > 1 and old.startswith(b"'") and text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    return yaml_scalar(text) + ("\n" if old.startswith((b"|", b">")) and old.endswith(b"\n") else "")


def yaml_key(source: Source, span: Span, name: str) -> str:
    """The bytes to write over the key at `span`, in the quotes it has."""
    quote = source.data[span.start : span.start + 1].decode("utf-8", "replace")
    return f"{quote}{name}{quote}" if quote in ("'", '"') else yaml_scalar(name)


def delete_yaml_key(source: Source, key: Span) -> Edit:
    """Take a key with its value out. A mapping that holds nothing else goes with it, since an empty one would mean null.

    Raises:
        NotEditable: there is no such key, it is all that its list item or document holds, or an alias needs it.
    """
    path = _find(_root(source, key), lambda entry: entry.key.span == key)
    for step in reversed(path):
        if len(_entries(step.mapping)) > 1:
            return Edit(Span(source.name, *_removal(source, step)), "")
        if not step.is_value:
            break
    raise NotEditable("it is all that the mapping holds")


def insert_yaml_key(source: Source, near: Span, name: str, value: str) -> Edit:
    """Add `name: value` behind the entry that `near` belongs to (its key, its value, or an item of its list), in the same mapping.

    Raises:
        NotEditable: there is no such entry.
    """
    step = _find(_root(source, near), lambda entry: _within(near, entry.key.span) or _is_value(near, entry.node))[-1]
    data, key = source.data, step.entry.key.span
    if _is_json(source):
        shown = f"{json.dumps(name)}: {value if _JSON_PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)}"
    else:
        shown = f"{yaml_scalar(name)}: {yaml_scalar(value)}"
    end = _end(data, step.entry)
    line = _line_start(data, key.start)
    before = data[line : key.start]
    newline = data.find(b"\n", end)
    ending = "\r\n" if newline > 0 and data[newline - 1 : newline] == b"\r" else "\n"
    if _is_flow(data, step.mapping):
        return Edit(Span(source.name, end, end), ("," + (f"{ending}{before.decode()}" if line and not before.strip() else " ")) + shown)
    if before.strip(b" -"):
        raise NotEditable("the mapping is not laid out in lines")
    last = _last_scalar(step.entry)
    chomp = data[last.span.start : last.span.start + 3] if last is not None and last.style in ("|", ">") else b"-"
    if b"+" in chomp or (newline == -1 and b"-" not in chomp):
        raise NotEditable("the newlines at the end belong to the value before")
    indent = " " * len(before.decode("utf-8", "replace"))
    if newline == -1:
        return Edit(Span(source.name, len(data), len(data)), f"\n{indent}{shown}")
    return Edit(Span(source.name, newline + 1, newline + 1), f"{indent}{shown}{ending}")


@record
class _Step:
    """An entry on the way to a place. `is_value`: its mapping is itself the value of a key, not a list item or the document."""

    mapping: Node
    entry: Entry
    is_value: bool


def _root(source: Source, near: Span) -> Node:
    """The YAML that a place is in: the file, or a here-document of a script."""
    from alula.read.errors import ReadError
    from alula.read.yaml import read_yaml

    base, data = 0, source.data
    for m in _HEREDOC.finditer(source.data):
        start = source.data.find(b"\n", m.end()) + 1
        if not 0 < start <= near.start:
            continue
        stop = re.compile(rb"^\t*" + re.escape(m[1]) + rb"\r?$", re.MULTILINE).search(source.data, start)
        if stop is not None and near.end <= stop.start():
            base, data = start, source.data[start : stop.start()]
    try:
        data.decode()
        root = read_yaml(source, base, data)
    except (ReadError, UnicodeDecodeError):
        root = None
    if root is None:
        raise NotEditable("the YAML around it does not parse")
    return root


def _entries(mapping: Node) -> list[Entry]:
    """A mapping's own entries in order; those that a merge key brings stand elsewhere."""
    own = [entry for entry in mapping.value.values() if _within(entry.key.span, mapping.span)]
    return sorted(own, key=lambda entry: entry.key.span.start)


def _find(root: Node, wanted: Callable[[Entry], bool]) -> list[_Step]:
    def search(node: Node, is_value: bool) -> list[_Step] | None:
        if node.kind == "sequence":
            return next((path for item in node.value if (path := search(item, False))), None)
        if node.kind == "mapping":
            for entry in _entries(node):
                step = _Step(node, entry, is_value)
                if wanted(entry):
                    return [step]
                if entry.node.span.start >= entry.key.span.end and (path := search(entry.node, True)):  # an alias stands elsewhere
                    return [step, *path]
        return None

    path = search(root, False)
    if path is None:
        raise NotEditable("no such entry in the YAML")
    return path


def _within(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _is_value(near: Span, node: Node) -> bool:
    return near == node.span if node.kind == "mapping" else _within(near, node.span)


def _is_flow(data: bytes, node: Node) -> bool:
    return data[node.span.start : node.span.start + 1] in (b"{", b"[")


def _is_json(source: Source) -> bool:
    return source.name.endswith(".json")


def _line_start(data: bytes, at: int) -> int:
    newline = data.rfind(b"\n", 0, at)
    return newline + 1 if newline != -1 else 3 if data.startswith(b"\xef\xbb\xbf") else 0


def _end(data: bytes, entry: Entry) -> int:
    """Where an entry's last visible character ends, its trailing comment left out."""
    alias = _ALIAS.match(data, entry.key.span.end)
    if alias is not None:
        return alias.end()
    end = _leaf_end(data, entry.node)
    while end > entry.key.span.end + 1 and data[end - 1 : end].isspace():
        end -= 1
    return max(end, _COLON.match(data, entry.key.span.end).end())  # type: ignore[union-attr]  # a key of a mapping has its colon


def _leaf_end(data: bytes, node: Node) -> int:
    if node.kind == "scalar" or _is_flow(data, node):
        return node.span.end
    if node.kind == "sequence":
        return max((_leaf_end(data, item) for item in node.value if _within(item.span, node.span)), default=node.span.start)
    return max((_end(data, entry) for entry in _entries(node)), default=node.span.start)


def _last_scalar(entry: Entry) -> Node | None:
    node = entry.node
    while node.kind != "scalar":
        inner = [item.node for item in _entries(node)] if node.kind == "mapping" else node.value
        if not inner:
            return None
        node = inner[-1]
    return node


def _removal(source: Source, step: _Step) -> tuple[int, int]:
    data, entry = source.data, step.entry
    start, end = entry.key.span.start, _end(data, entry)
    if _ANCHOR.search(data, entry.key.span.end, end):
        raise NotEditable("it holds an anchor that an alias may need")
    siblings = _entries(step.mapping)
    at = next(number for number, sibling in enumerate(siblings) if sibling is entry)
    if _is_flow(data, step.mapping):
        return (start, siblings[at + 1].key.span.start) if at + 1 < len(siblings) else (_end(data, siblings[at - 1]), end)
    line = _line_start(data, start)
    before = data[line:start]
    if before.strip(b" -"):
        raise NotEditable("the mapping is not laid out in lines")
    if before.strip():  # `- key: …`: the next key moves up behind the dash
        return start, siblings[at + 1].key.span.start
    newline = data.find(b"\n", end)
    # Without a newline at the end of the file, the one before stays: it may belong to a literal.
    return line, len(data) if newline == -1 else newline + 1
