"""Parameters: what `$x` and `${x…}` give, and every operator inside the braces."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import patterns
from .state import UNSET, Element, State, Var
from .syntax import Lit, Param, Part, Word
from .text import (
    EXPANDED,
    QUOTED,
    Place,
    Seg,
    Text,
    Value,
    computed,
    cut,
    decode,
    encode,
    likely,
    requote,
    soft,
    text_of,
    unknown,
    via,
)  # fmt: skip

if TYPE_CHECKING:
    from .expand import Piece

_UNKNOWABLE = frozenset(("RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "BASHPID", "PPID", "LINENO"))
_MACHINE = frozenset(("HOSTNAME", "UID", "EUID", "USER", "HOME", "OSTYPE", "HOSTTYPE", "MACHTYPE", "BASH", "SHLVL", "GROUPS", "COLUMNS", "LINES"))
_ASSIGNABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class Params(ABC):
    """`state` is what the shell knows; `exploring`: conditions on variables that nobody set are open."""

    state: State
    exploring: bool

    @abstractmethod
    def pieces(self, parts: Sequence[Part], text: Text, assignment: bool = False) -> list[Piece]: ...

    @abstractmethod
    def value(self, word: Word | None, assignment: bool = False) -> Value: ...

    @abstractmethod
    def pattern(self, word: Word) -> tuple[str, bool]: ...

    @abstractmethod
    def calculate(self, text: str) -> tuple[int, bool]: ...

    @abstractmethod
    def assign(self, name: str, key: str | None, value: Value) -> None: ...

    # --- reading ---

    def ifs(self) -> str:
        var = self.state.vars.get("IFS")
        return " \t\n" if var is None or var.value is None else text_of(var.value)

    def variable(self, name: str) -> Var:
        var = self.state.lookup(name)
        for _ in range(8):
            if not var.ref:
                break
            name = var.ref
            var = self.state.lookup(name)
        return var

    def lookup_value(self, name: str) -> Value | None:
        """The value of a parameter, None when it is unset."""
        var = self.variable(name)
        if var is not UNSET:
            found = var.scalar()
            if found is not None or name in self.state.vars:
                return found
        return self._special(name)

    def _special(self, name: str) -> Value | None:
        state = self.state
        if name.isdigit():
            number = int(name[:6])
            if number == 0:
                return (Seg(encode(self.script_name())),)
            return state.args[number - 1] if number <= len(state.args) else None
        if name == "#":
            return (Seg(str(len(state.args)), soft=self.exploring and not state.function),)
        if name == "?":
            return (Seg(str(state.status.code), unk="" if state.status.sure else "$?", soft=not state.status.sure),)
        if name in _UNKNOWABLE or name in ("$", "!"):
            return (Seg("$" + name, unk="$" + name),)
        if name == "PWD":
            return (Seg(encode(state.cwd)),)
        if name in _MACHINE:
            return (Seg("$" + name, unk="$" + name),)
        if name == "-":
            return (Seg("hB"),)
        if name == "_":
            return (Seg("$_", unk="$_"),)
        if name == "BASH_VERSION":
            return (Seg("5.2.15(1)-release"),)
        if name == "FUNCNAME":
            return (Seg(state.function),) if state.function else None
        if name == "BASH_SOURCE":
            return (Seg(encode(state.source[-1] if state.source else self.script_name())),)
        if name == "BASH_LINENO":
            return (Seg("0"),)
        if name == "OPTIND":
            return (Seg("1"),)
        if name == "PIPESTATUS":
            return self._special("?")
        return None

    @abstractmethod
    def script_name(self) -> str:
        """`$0`."""

    def _all(self, name: str, sub: str | None) -> list[Element] | None:
        """The elements of `$@`, `$*`, `${A[@]}`; None when the name is no list."""
        if name in ("@", "*"):
            return [Element(value) for value in self.state.args]
        if sub is None:
            return None
        var = self.variable(name)
        if var.items is not None:
            if not var.assoc and list(var.items) != sorted(var.items, key=int):
                return [var.items[key] for key in sorted(var.items, key=int)]
            return list(var.items.values())
        value = self.lookup_value(name)
        return [] if value is None else [Element(value)]

    def index(self, text: str) -> int | None:
        from .arith import ArithmeticFault, UnknownNumber

        try:
            return self.calculate(text)[0]
        except (ArithmeticFault, UnknownNumber):
            return None

    def element_value(self, name: str, key: str) -> Value | None:
        """`${name[key]}`; a negative index counts from the end."""
        var = self.variable(name)
        if var.assoc:
            found = (var.items or {}).get(key)
            return found.value if found else None
        index = self.index(key)
        if index is None:
            return (Seg(f"${{{name}[{key}]}}", unk=f"${{{name}[{key}]}}"),)
        if var.items is None:
            return self.lookup_value(name) if index in (0, -1) else None
        if index < 0 and var.items:
            index += max(int(k) for k in var.items) + 1
        found = var.items.get(index)
        return found.value if found else None

    # --- one parameter ---

    def param(self, part: Param, text: Text) -> list[Piece]:
        """Raises nothing: what cannot be done gives what bash gives, nothing."""
        q = QUOTED if part.q else EXPANDED
        place = text.place(part.start, part.end)
        source = text.s[part.start : part.end]
        name, sub = part.name, part.sub
        if part.indirect:
            if part.op[:1] == "!":
                names = sorted(key for key in {*self.state.vars, *self.state.environ} if key.startswith(name) and self.state.lookup(key).set)
                return self._list([Element((Seg(item),)) for item in names], part.op[1] == "@", q, "variable", name, place)
            if isinstance(sub, str):
                var = self.variable(name)
                keys = [Element((Seg(str(key)),)) for key in (var.items if var.items is not None else [0] if var.set else [])]
                return self._list(keys, sub == "@", q, "array", name, place, sub == "*" or q == QUOTED)
            target = self._scalar(name, sub)
            if target is None:
                return list(self._unset(name, q, place))
            if unknown(target):
                return [Seg(source, *place, unk=source, q=q)]
            pointed = re.fullmatch(r"([A-Za-z_]\w*|\d+|[@*])(?:\[(.*)\])?", text_of(likely(target)), re.ASCII)
            if not pointed:
                return []
            name = pointed.group(1)
            key = pointed.group(2)
            sub = None if key is None else key if key in ("@", "*") else Word(text, part.start, part.start, [Lit(part.start, part.end, key, True)])
        if part.length:
            return [self._length(name, sub, place, q)]
        elements = self._all(name, sub if isinstance(sub, str) else None)
        if elements is not None:
            return self._many(part, text, name, sub if isinstance(sub, str) else name, elements, q, place)
        value = self._scalar(name, sub)
        kind = "argument" if name.isdigit() else self.variable(name).kind if sub is None else "array"
        return list(self._apply(part, text, name, value, kind, q, place, source))

    def _scalar(self, name: str, sub: Word | str | None) -> Value | None:
        if isinstance(sub, Word):
            return self.element_value(name, text_of(self.value(sub)))
        return self.lookup_value(name)

    def _unset(self, name: str, q: int, place: Place) -> Value:
        kind = "argument" if name.isdigit() else "variable"
        return (Seg("", "", -1, -1, ((kind, name, place[0], place[1], place[2]), *place[3]), "", self.exploring and self.from_outside(name), (), q),)

    def from_outside(self, name: str) -> bool:
        """True for what only the caller of the script could set."""
        return (name.isdigit() and not self.state.function) or (not name.isdigit() and name not in self.state.vars)

    def _apply(self, part: Param, text: Text, name: str, value: Value | None, kind: str, q: int, place: Place, source: str) -> Value:
        op = part.op
        if op in (":-", ":=", ":?", ":+", "-", "=", "?", "+"):
            return self._default(part, text, name, value, kind, q, place, source)
        if value is None:
            return self._unset(name, q, place)
        if not op:
            return via(value, kind, name, place, q)
        if unknown(value):
            return (Seg(source, *place, unk=source, q=q),)
        result = self._operate(part, likely(value))
        if result is None:
            return (Seg(source, *place, unk=source, q=q),)
        result = via(result, kind, name, place, q)
        if soft(value) and self.exploring:
            for seg in result:
                seg.soft = True
        return result

    def _default(self, part: Param, text: Text, name: str, value: Value | None, kind: str, q: int, place: Place, source: str) -> Value:
        op, arg = part.op, part.args[0]
        null = value is None or (op[0] == ":" and not any(seg.text or seg.unk for seg in value))
        nothing: Value = (Seg("", *place, q=q),) if q == QUOTED else ()
        if op[-1] == "+":
            return nothing if null else self._argument(arg, text, q) or nothing
        if not null:
            assert value is not None
            return via(value, kind, name, place, q)
        if op[-1] == "?":
            return (Seg(source, *place, unk=source, q=q),)
        result = via(self._argument(arg, text, q), "default", name, place, None)
        if op[-1] == "=" and _ASSIGNABLE.fullmatch(name):
            self.assign(name, None, requote(result, QUOTED))
        if self.exploring and self.from_outside(name):
            for seg in result:
                seg.soft = True
        return result or (Seg("", *place, q=q, soft=self.exploring and self.from_outside(name)),)

    def _argument(self, arg: Word, text: Text, q: int) -> Value:
        """The word of `${x:-word}`: outside quotes its unquoted parts are split as the result of an expansion is."""
        from .expand import Break

        out: list[Seg] = []
        for piece in self.pieces(arg.parts, text):
            if isinstance(piece, Break):
                out.append(Seg(piece.glue, q=q))
            else:
                piece.q = q if piece.q != QUOTED else QUOTED
                out.append(piece)
        return tuple(out)

    def _many(self, part: Param, text: Text, name: str, mode: str, elements: list[Element], q: int, place: Place) -> list[Piece]:
        op = part.op
        kind = "argument" if name in ("@", "*") else "array"
        if op in (":-", ":+", "-", "+", ":?", "?", ":=", "="):
            filled = any(text_of(item.value) for item in elements) if op[0] == ":" and len(elements) < 2 else bool(elements)
            nothing: list[Piece] = [Seg("", *place, q=q)] if q == QUOTED else []
            if op[-1] == "+":
                return self._words_of(part.args[0], text, q) if filled else nothing
            if not filled:
                return self._words_of(part.args[0], text, q) or nothing
        elif op == ":":
            elements = self._slice(part, elements, name in ("@", "*"))
        elif op:
            out: list[Element] = []
            for item in elements:
                result = None if unknown(item.value) else self._operate(part, likely(item.value))
                source = text.s[part.start : part.end]
                out.append(Element(result if result is not None else (Seg(source, *place, unk=source),), item.maybe))
            elements = out
        if not elements and self.exploring and kind == "argument":
            return [Seg("", soft=True, q=EXPANDED)]
        glued = mode == "*" or (bool(op) and op[-1] not in "-+?=" and (q == QUOTED or op[0] in "#%"))
        return self._list(elements, mode == "@", q, kind, name if kind == "array" else mode, place, glued)

    def _words_of(self, word: Word, text: Text, q: int) -> list[Piece]:
        from .expand import Break

        out: list[Piece] = []
        for piece in self.pieces(word.parts, text):
            if isinstance(piece, Break):
                out.append(piece)
                continue
            piece.q = q if piece.q != QUOTED else QUOTED
            out.append(piece)
        return out

    def _list(self, elements: list[Element], separate: bool, q: int, kind: str, name: str, place: Place, glued: bool = False) -> list[Piece]:
        """The elements as fields, or joined. `glued`: where nothing is split bash joins them by IFS all the same (`*`, and `@` with an operator)."""
        from .expand import Break

        out: list[Piece] = []
        glue = self.ifs()[:1]
        if separate or q == EXPANDED:
            for item in elements:
                out.append(Break(item.maybe, glue=(glue or " " * separate) if glued else " ", star=not separate))
                out.extend(via(item.value, kind, name, place, q) or (Seg("", q=q),))
            if not out:
                return [Break(0, True)] if q == QUOTED else []
            if not elements[0].maybe:
                del out[0]  # the first element continues what stands before it
            return out
        for n, item in enumerate(elements):
            if n and glue:
                out.append(Seg(glue, q=q))
            out.extend(via(item.value, kind, name, place, q))
        return out or [Seg("", *place, q=q)]

    def _slice(self, part: Param, elements: list[Element], positional: bool) -> list[Element]:
        offset = self.index(text_of(self.value(part.args[0]))) if part.args else 0
        if offset is None:
            return elements
        if positional:
            elements = [Element((Seg(encode(self.script_name())),)), *elements]
        if offset < 0:
            offset += len(elements)
            if offset < 0:
                return []
        if len(part.args) > 1:
            count = self.index(text_of(self.value(part.args[1])))
            if count is not None:
                return elements[offset : offset + count] if count >= 0 else elements[offset:count]
        return elements[offset:]

    def _length(self, name: str, sub: Word | str | None, place: Place, q: int) -> Seg:
        elements = self._all(name, sub if isinstance(sub, str) else None)
        if elements is not None:
            size = sum(item.maybe < 2 for item in elements)
            doubt = any(item.maybe for item in elements) or (self.exploring and name in ("@", "*") and not self.state.function)
            return computed(str(size), "array" if sub else "argument", name, place, q, soft=doubt)
        value = self._scalar(name, sub)
        if value is not None and unknown(value):
            source = f"${{#{name}}}"
            return Seg(source, *place, unk=source, q=q)
        return computed(str(len(decode(text_of(value or ())))), "variable", name, place, q, soft=value is None and self.exploring)

    # --- operators on a known value ---

    def _operate(self, part: Param, value: Value) -> Value | None:
        """The value of `${x<op>…}`; None when it cannot be known."""
        op = part.op
        text = text_of(value)
        if op == ":":
            return self._substring(part, value)
        if op[0] in "#%":
            pattern, sure = self.pattern(part.args[0])
            if not sure:
                return None
            return cut(value, *patterns.trim(text, pattern, op)) or (Seg(""),)
        if op[0] == "/":
            return self._replace(part, value)
        if op[0] in "^,":
            pattern = self.pattern(part.args[0])[0] if part.args and part.args[0].parts else ""
            return (Seg(self._letter_case(decode(text), op, pattern)),)
        if op[0] == "@":
            return (Seg(self._transform(text, op[1])),)
        return value

    def _substring(self, part: Param, value: Value) -> Value | None:
        text = text_of(value)
        offset = self.index(text_of(self.value(part.args[0])))
        size = len(decode(text))
        if offset is None:
            return None
        start = max(0, size + offset) if offset < 0 else min(offset, size)
        if offset < -size:
            return (Seg(""),)
        end = size
        if len(part.args) > 1:
            count = self.index(text_of(self.value(part.args[1])))
            if count is None:
                return None
            end = min(size, start + count) if count >= 0 else max(start, size + count)
        if text.isascii():
            return cut(value, start, end) or (Seg(""),)
        return (Seg(encode(decode(text)[start:end])),)

    def _replace(self, part: Param, value: Value) -> Value | None:
        pattern, sure = self.pattern(part.args[0])
        if not sure:
            return None
        text = text_of(value)
        found = patterns.find(text, pattern, part.op) if pattern or part.op in ("/#", "/%") else []
        if not found:
            return value
        new = self.value(part.args[1]) if len(part.args) > 1 else ()
        out: list[Seg] = []
        at = 0
        for start, end in found:
            out.extend(cut(value, at, start))
            out.extend(new)
            at = end
        out.extend(cut(value, at, len(text)))
        return tuple(out) or (Seg(""),)

    @staticmethod
    def _letter_case(text: str, op: str, pattern: str) -> str:
        change = str.upper if op[0] == "^" else str.lower
        out = []
        for n, char in enumerate(text):
            fits = not pattern or patterns.matches(pattern, encode(char))
            out.append(change(char) if fits and (n == 0 or len(op) == 2) else char)
        return encode("".join(out))

    @staticmethod
    def _transform(text: str, kind: str) -> str:
        if kind == "Q":
            return "'" + text.replace("'", "'\\''") + "'"
        if kind == "U":
            return encode(decode(text).upper())
        if kind == "u":
            real = decode(text)
            return encode(real[:1].upper() + real[1:])
        if kind == "L":
            return encode(decode(text).lower())
        if kind == "E":
            from .lexer import unescape_ansi

            return unescape_ansi(text)
        return text
