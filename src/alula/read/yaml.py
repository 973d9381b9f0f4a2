"""YAML with places: a tree of nodes that know the bytes they came from.

PyYAML's own parser is used (not libyaml, which differs on tabs), since ms-swift reads with `yaml.safe_load`: `1e-6`, `yes` and dates mean the same here. The tree is built from events, without
recursion, with limits on depth and alias expansion: a hostile file gives a `ReadError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from alula.run.source import Source, Span

from .errors import ReadError

_MAX_BYTES = 400_000
_MAX_DEPTH = 60
_MAX_NODES = 200_000


@dataclass(slots=True)
class Node:
    """One YAML node.

    Attributes:
        value: a scalar's Python value; for a mapping a dict key text -> `Entry`; for a sequence a list of nodes.
        span: its bytes. A block collection ends where its last item ends.
        style: how a scalar is quoted: `'`, `"`, `|`, `>` or None for plain.
    """

    kind: str
    value: Any
    span: Span
    style: str | None = None

    def plain(self) -> Any:
        """The Python object that `yaml.safe_load` would give (aliases expanded; the node budget was checked on reading)."""
        if self.kind == "mapping":
            return {entry.key.value: entry.node.plain() for entry in self.value.values()}
        if self.kind == "sequence":
            return [item.plain() for item in self.value]
        return self.value


@dataclass(slots=True)
class Entry:
    key: Node
    node: Node


@dataclass(slots=True)
class _Open:
    node: Node
    key: Node | None = None
    size: int = 1
    children: list[int] = field(default_factory=list)


class _Scalars(SafeConstructor, yaml.resolver.Resolver):
    """Turns scalar text into the value that `safe_load` gives."""

    def __init__(self) -> None:
        SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)

    def read(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag or self.resolve(yaml.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]  # the stubs leave it out
        return self.construct_object(yaml.ScalarNode(tag, event.value))


def read_yaml(source: Source, base: int = 0, data: bytes | None = None) -> Node | None:
    """Source -> its first document's root, or None when it is empty.

    Args:
        base: where `data` begins in the source, for YAML inside a here-document.
        data: the bytes to read; the whole source when None.

    Raises:
        ReadError: it is no YAML, or too deep or too large.
    """
    raw = source.data if data is None else data
    if len(raw) > _MAX_BYTES:
        raise ReadError(f"has {len(raw):,} bytes; a config may have {_MAX_BYTES:,} at most", source.name)
    text = raw.decode("utf-8-sig" if not base else "utf-8", "replace")
    shift = 3 if raw.startswith(b"\xef\xbb\xbf") and not base else 0
    offsets = _offsets(text, base + shift)
    try:
        return _build(yaml.SafeLoader(text), source, offsets)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = source.position(offsets(mark.index)) if mark is not None else (1, 1)
        raise ReadError(f"not valid YAML: {error.problem}", source.name, *place) from None
    except yaml.reader.ReaderError as error:
        place = source.position(offsets(error.position))
        raise ReadError(f"not valid YAML: the character #x{_code_point(error.character):04x} is not allowed", source.name, *place) from None
    except (ValueError, OverflowError, TypeError) as error:
        said = str(error).partition(";")[0] or type(error).__name__  # what follows advises programmers
        raise ReadError(f"not valid YAML: {said.splitlines()[0]}", source.name) from None


def _code_point(character: Any) -> int:
    """PyYAML gives the character or its number."""
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")


def _offsets(text: str, base: int) -> Any:
    """Character index -> byte offset."""
    if text.isascii():
        return lambda index: base + min(index, len(text))
    table = [0] * (len(text) + 1)
    total = 0
    for at, char in enumerate(text):
        table[at] = total
        total += len(char.encode("utf-8", "surrogatepass"))
    table[len(text)] = total
    return lambda index: base + table[min(index, len(text))]


def _events(loader: Any) -> Iterator[Any]:
    """The parser's events; `Any` since its stubs leave open whether an event has marks, which it always has."""
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


def _build(loader: Any, source: Source, offsets: Any) -> Node | None:
    scalars = _Scalars()
    stack: list[_Open] = []
    anchors: dict[str, tuple[Node, int]] = {}
    total = documents = 0
    root: Node | None = None
    for event in _events(loader):
        first: Any = event.start_mark
        last: Any = event.end_mark
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            kind = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            start = offsets(first.index)
            node = Node(kind, {} if kind == "mapping" else [], Span(source.name, start, start))
            stack.append(_Open(node))
            if event.anchor:
                anchors[event.anchor] = (node, 1)
            if len(stack) > _MAX_DEPTH:
                raise ReadError(f"nested deeper than {_MAX_DEPTH} levels", source.name, first.line + 1)
            continue
        if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = stack.pop()
            end = offsets(last.index)
            node = Node(done.node.kind, done.node.value, Span(source.name, done.node.span.start, end))
            size = done.size
            for name, (anchored, _) in list(anchors.items()):
                if anchored is done.node:
                    anchors[name] = (node, size)
        elif isinstance(event, yaml.ScalarEvent):
            span = Span(source.name, offsets(first.index), offsets(last.index))
            node, size = Node("scalar", scalars.read(event), span, event.style), 1
            if event.anchor:
                anchors[event.anchor] = (node, 1)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors or any(opened.node is anchors[event.anchor][0] for opened in stack):
                raise ReadError(f"alias *{event.anchor} has no finished anchor", source.name, first.line + 1)
            node, size = anchors[event.anchor]
        else:
            documents += isinstance(event, yaml.DocumentStartEvent)
            if documents > 1:
                raise ReadError("holds several YAML documents; a config is one", source.name, first.line + 1)
            continue
        total += size
        if total > _MAX_NODES:
            raise ReadError(f"more than {_MAX_NODES} values once its aliases are expanded", source.name, first.line + 1)
        if not stack:
            root = node
            continue
        _attach(stack[-1], node, size)
    return root


def _attach(parent: _Open, node: Node, size: int) -> None:
    parent.size += size
    if parent.node.kind == "sequence":
        parent.node.value.append(node)
    elif parent.key is None:
        parent.key = node
    else:
        key = parent.key
        parent.key = None
        if key.kind == "scalar" and key.value == "<<" and key.style is None and node.kind == "mapping":
            for name, entry in node.value.items():  # a merge key: explicit keys win
                parent.node.value.setdefault(name, entry)
            return
        parent.node.value[str(key.value) if key.kind == "scalar" else repr(key.span)] = Entry(key, node)
