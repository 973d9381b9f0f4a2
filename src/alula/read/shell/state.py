"""What a shell knows at one moment: variables, functions, arguments, where its output goes; and how two moments join.

States are cheap to fork: variables are never changed in place, only replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .text import NOWHERE, Place, Seg, Value, cut, likely, place_of, text_of

if TYPE_CHECKING:
    from alula.run.job import EnvHow

    from .syntax import Function


@dataclass(slots=True)
class Element:
    """One element of an array. `maybe`: 0 on every path, 1 on the likely one but not on all, 2 only on others."""

    value: Value
    maybe: int = 0


Key = int | str


@dataclass(slots=True)
class Var:
    """A variable. `items` makes it an array (integer keys) or a map (`assoc`); neither value nor items: declared, unset.

    `kind` is the origin of a word that it gives, `how` that of the environment entry.
    """

    value: Value | None = None
    items: dict[Key, Element] | None = None
    exported: bool = False
    assoc: bool = False
    integer: bool = False
    ref: str = ""
    kind: str = "variable"
    how: EnvHow = "export"
    maybe: bool = False  # exported or set only on some paths
    place: Place = NOWHERE  # the word that was assigned

    @property
    def set(self) -> bool:
        return self.value is not None or bool(self.items)

    def scalar(self) -> Value | None:
        """What `$name` gives: the value, or element 0."""
        if self.items is None:
            return self.value
        element = self.items.get("0" if self.assoc else 0)
        return element.value if element else None


UNSET = Var()


class Stream:
    """Standard input that is read line by line. `value` None: unknown (a terminal, a program)."""

    __slots__ = ("at", "value")

    def __init__(self, value: Value | None) -> None:
        self.value = value
        self.at = 0

    def rest(self) -> Value | None:
        if self.value is None:
            return None
        out = cut(self.value, self.at, len(text_of(self.value))) if self.at else self.value
        self.at = len(text_of(self.value))
        return out

    def line(self) -> tuple[Value, bool] | None:
        """The next line and whether a newline ended it; None at the end."""
        value = self.value or ()
        text = text_of(value)
        if self.at >= len(text):
            return None
        end = text.find("\n", self.at)
        stop = len(text) if end < 0 else end
        line = cut(value, self.at, stop)
        self.at = stop + 1
        return line, end >= 0


@dataclass(slots=True, frozen=True)
class Status:
    """An exit status. Not `sure`: this is only its likely value."""

    code: int = 0
    sure: bool = True

    @property
    def ok(self) -> bool:
        return self.code == 0

    def itself(self) -> Status:
        """For a branch in which nothing runs."""
        return self


OK = Status(0)
FAIL = Status(1)
LIKELY = Status(0, False)
UNLIKELY = Status(1, False)


UNKNOWN_OUTPUT = Seg("", unk="?")
"""Stands in captured output for what an unknown program printed."""


@dataclass(slots=True)
class State:
    environ: Mapping[str, Var]
    vars: dict[str, Var]
    functions: dict[str, Function]
    args: tuple[Value, ...]
    cwd: str
    out: list[Seg] | None = None  # None: not captured
    stdin: Stream = field(default_factory=lambda: Stream(None))
    status: Status = OK
    allexport: bool = False
    nullglob: bool = False
    noglob: bool = False
    source: tuple[str, ...] = ()  # BASH_SOURCE, innermost last
    function: str = ""
    external: bool = False  # its program runs elsewhere (ssh, a container): nothing of this machine is known
    getopts_at: int = 0

    def lookup(self, name: str) -> Var:
        return self.vars.get(name) or self.environ.get(name) or UNSET

    def fork(self) -> State:
        out = None if self.out is None else list(self.out)
        return State(
            self.environ, dict(self.vars), dict(self.functions), self.args, self.cwd, out, self.stdin, self.status, self.allexport, self.nullglob, self.noglob, self.source, self.function,
            self.external, self.getopts_at,
        )  # fmt: skip


# --- joining ---


def join_values(a: Value | None, b: Value | None) -> Value | None:
    """The likely value `a` with `b` as what it may be instead; stretches that agree stay as they are."""
    if a is b:
        return a
    a, b = a or (), b or ()
    if text_of(a) == text_of(b) and [seg.unk for seg in a] == [seg.unk for seg in b]:
        return a
    head = 0
    while head < min(len(a), len(b)) and a[head].same(b[head]):
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail].same(b[-1 - tail]):
        tail += 1
    mine, other = a[head : len(a) - tail], b[head : len(b) - tail]
    alts: list[Value] = []
    for value in (mine, other):
        found = value[0].alts if len(value) == 1 and value[0].alts else (value,)
        for alt in found:
            if all(text_of(alt) != text_of(known) for known in alts) and len(alts) < 8:
                alts.append(alt)
    if len(alts) < 2:
        return a
    file, start, end, hops = place_of(alts[0]) if alts[0] else place_of(alts[1])
    first = text_of(alts[0])
    joined = Seg(first, file, start, end, hops, "".join(seg.unk for seg in likely(alts[0])), False, tuple(alts))
    return (*a[:head], joined, *a[len(a) - tail :])


def _groups(items: Sequence[Element]) -> list[list[Element]]:
    """Elements cut before each flag."""
    out: list[list[Element]] = [[]]
    for item in items:
        text = text_of(item.value)
        if text.startswith("--") or (len(text) > 1 and text[0] == "-" and text[1].isalpha()):
            out.append([])
        out[-1].append(item)
    return out


def join_elements(a: Sequence[Element], b: Sequence[Element]) -> list[Element]:
    """Two lists of words from two paths as one: flags are matched by name, so that only what differs is uncertain."""
    if [text_of(item.value) for item in a] == [text_of(item.value) for item in b]:
        return [Element(x.value, x.maybe or min(1, y.maybe)) for x, y in zip(a, b, strict=True)]
    mine, other = _groups(a), _groups(b)
    if len(mine) == 1 and len(other) == 1:
        return _join_values_only(mine[0], other[0])
    out: list[Element] = _join_values_only(mine[0], other[0]) if mine[0] or other[0] else []
    left = other[1:]
    for group in mine[1:]:
        name = text_of(group[0].value)
        found = next((item for item in left if text_of(item[0].value) == name), None)
        if found is None:
            out.extend(Element(item.value, max(1, item.maybe)) for item in group)
        else:
            left.remove(found)
            out.append(group[0])
            out.extend(_join_values_only(group[1:], found[1:]))
    for group in left:
        out.extend(Element(item.value, 2) for item in group)
    return out


def _join_values_only(a: Sequence[Element], b: Sequence[Element]) -> list[Element]:
    if len(a) == len(b):
        return [Element(join_values(x.value, y.value) or (), x.maybe or min(1, y.maybe)) for x, y in zip(a, b, strict=True)]
    common = 0
    while common < min(len(a), len(b)) and text_of(a[common].value) == text_of(b[common].value):
        common += 1
    mine = [Element(item.value, max(1, item.maybe)) for item in a[common:]]
    return [*a[:common], *mine, *(Element(item.value, 2) for item in b[common:])]


def join_vars(a: Var, b: Var) -> Var:
    if a is b:
        return a
    if a.items is None and b.items is None:
        value = join_values(a.value, b.value)
        known = a if a.value is not None else b
        maybe = a.maybe or b.maybe or (a.value is None) != (b.value is None)
        return Var(value, None, a.exported or b.exported, a.assoc, a.integer, a.ref, known.kind, known.how, maybe, known.place)
    mine, other = dict(a.items or {}), b.items or {}
    if a.items is None and a.value is not None:
        mine = {0: Element(a.value)}
    if a.assoc or b.assoc:
        for key, item in other.items():
            earlier = mine.get(key)
            mine[key] = Element(join_values(earlier.value, item.value) or (), earlier.maybe) if earlier else Element(item.value, 2)
        return Var(None, mine, a.exported, True)
    elements = list(other.values()) if b.items is not None or b.value is None else [Element(b.value)]
    return Var(None, dict(enumerate(join_elements(list(mine.values()), elements))), a.exported or b.exported)


def join_states(a: State, b: State) -> State:
    """`a` is the likely one and is changed; differences of `b` become alternatives."""
    for name, var in b.vars.items():
        mine = a.lookup(name)
        if mine is not var:
            a.vars[name] = join_vars(mine, var)
    for name in a.vars.keys() - b.vars.keys():
        a.vars[name] = join_vars(a.vars[name], b.lookup(name))
    for name, function in b.functions.items():
        a.functions.setdefault(name, function)
    if a.out is not None and b.out is not None and len(a.out) != len(b.out):
        joined = join_values(tuple(a.out), tuple(b.out))
        a.out = list(joined or ())
    if a.status.code != b.status.code:
        a.status = Status(a.status.code, False)
    return a

