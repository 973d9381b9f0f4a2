"""From words to the fields that a program gets: parameters, substitution, splitting, file names, each with its provenance."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence

from alula.run.source import Origin, Span, Token

from . import patterns
from .arith import Arithmetic, ArithmeticFault, UnknownNumber
from .params import Params
from .state import Element, Var, join_elements
from .syntax import Arith, ArrayLit, CmdSub, Hole, Lit, Param, Part, ProcSub, Word
from .text import (
    EXPANDED,
    NOWHERE,
    QUOTED,
    WRITTEN,
    Place,
    Seg,
    Text,
    Value,
    decode,
    likely,
    place_of,
    requote,
    soft,
    text_of,
    unknown,
    via,
)

_WHITE = re.compile(r"[^ \t\n]+")


class Break:
    """Between two elements of `"${A[@]}"`: the next field begins here. `none` stands for the elements that are not there, until the
    whole word is known. `glue` stands between the elements where nothing is split, as in an assignment, and for a `star` (`$*`) in a comparison."""

    __slots__ = ("glue", "maybe", "none", "star")

    def __init__(self, maybe: int, none: bool = False, glue: str = " ", star: bool = False) -> None:
        self.maybe = maybe
        self.none = none
        self.glue = glue
        self.star = star


Piece = Seg | Break


class Field:
    """One word as the program gets it.

    Attributes:
        segs: what it is made of.
        place: the word in the text that is executed.
        alts: other texts it may have.
        maybe: as `Element.maybe`.
        split: how many fields its word gave.
    """

    __slots__ = ("alts", "maybe", "place", "segs", "split")

    def __init__(self, segs: Value, place: Place, maybe: int = 0, alts: Sequence[str] = (), split: int = 1) -> None:
        self.segs = segs
        self.place = place
        self.maybe = maybe
        self.alts = tuple(alts)
        self.split = split

    @property
    def text(self) -> str:
        segs = self.segs
        return segs[0].text if len(segs) == 1 else text_of(segs)

    def cut(self, start: int) -> Field:
        """The field without its first `start` characters."""
        from .text import cut

        size = len(self.text)
        segs = cut(self.segs, start, size)
        if not segs and self.segs:
            last = self.segs[-1]
            segs = (Seg("", last.file, last.end, last.end, last.hops),)
        place = self.place
        here = [seg for seg in segs if seg.start >= 0 and not seg.hops and seg.file == place[0]]
        if here and not place[3]:
            place = (place[0], max(place[1], min(seg.start for seg in here)), place[2], ())
        return Field(segs, place, self.maybe, tuple(alt[start:] for alt in self.alts), self.split)


def span_of(place: Place) -> Span:
    """The outermost bytes of a place: where it is used."""
    file, start, end, hops = place
    if hops:
        _, _, file, start, end = hops[-1]
    return Span(file, max(0, start), max(0, end))


def origins(segs: Value) -> tuple[Origin, ...]:
    """The definitions that the text came through, innermost first. What several segments make together has origins without spans."""
    if not segs:
        return ()
    file, start, end, hops = place_of(segs)
    if hops:
        out: list[Origin] = []
        for kind, name, outer_file, outer_start, outer_end in hops:
            span = Span(file, start, end) if start >= 0 else None
            out.append(Origin(kind, decode(name), span))  # type: ignore[arg-type]
            file, start, end = outer_file, outer_start, outer_end
        return tuple(out)
    seen: dict[tuple[str, str], Origin] = {}
    for seg in segs:
        for kind, name, *_ in seg.hops[-1:]:
            seen.setdefault((kind, name), Origin(kind, decode(name), None))  # type: ignore[arg-type]
    return tuple(seen.values())


def token_of(field: Field) -> Token:
    """A field as the rest of alula sees it."""
    segs = field.segs
    if len(segs) == 1 and not segs[0].hops and not segs[0].unk and not field.alts:
        seg = segs[0]
        return Token(decode(seg.text), span_of(field.place), (), (), (), field.maybe > 0, field.split)
    unresolved = tuple(dict.fromkeys(decode(seg.unk) for seg in segs if seg.unk))
    text = "".join([seg.unk or seg.text for seg in segs]) if unresolved else text_of(segs)
    return Token(
        decode(text), span_of(field.place), origins(segs), unresolved, tuple(decode(alt) for alt in field.alts), field.maybe > 0, field.split
    )  # fmt: skip


class Expander(Params):
    """Expands words in `self.state`. `vanished`: (file, offset) of the words that gave no field at all."""

    vanished: set[tuple[str, int]]

    @abstractmethod
    def substitute(self, part: CmdSub, text: Text) -> Value:
        """What `$(…)` gives."""

    @abstractmethod
    def process(self, part: ProcSub, text: Text) -> Value:
        """The file name that `<(…)` gives."""

    # --- the three ways to expand a word ---

    def fields(self, word: Word) -> list[Field]:
        """Everything: braces, parameters, splitting, file names."""
        if word.lit is not None:
            place = word.text.place(word.start, word.end)
            return [Field((Seg(word.lit, *place, q=WRITTEN),), place)]
        words = patterns.expand_braces(word.parts) if patterns.has_braces(word.parts) else [word.parts]
        place = word.text.place(word.start, word.end)
        out: list[Field] = []
        for parts in words:
            pieces = self.pieces(parts, word.text)
            out.extend(self.split(pieces, place))
        if len(out) != 1:
            if not out:
                self.vanished.add((word.text.file, word.start))
            for field in out:
                field.split = len(out)
        return out

    def value(self, word: Word | None, assignment: bool = False, compared: bool = False) -> Value:
        """As in an assignment: nothing is split; several elements are joined. `compared`: the word of `case` or `[[ … ]]`, which joins in its own way."""
        if word is None:
            return ()
        if word.lit is not None and not (assignment and "~" in word.lit):
            return (Seg(word.lit, *word.text.place(word.start, word.end)),)
        out: list[Seg] = []
        for piece in self.pieces(word.parts, word.text, assignment):
            if isinstance(piece, Break):
                if out:
                    out.append(Seg(piece.glue if piece.star or not compared else " "))
            elif piece.text or piece.alts or piece.soft or not out:
                out.append(piece)
        if len(out) > 1:
            out = [seg for seg in out if seg.text or seg.alts or seg.soft] or out[:1]
        if not out and word.end > word.start:
            out.append(Seg("", *word.text.place(word.start, word.end)))
        return tuple(out)

    def pattern(self, word: Word) -> tuple[str, bool]:
        """A pattern with its quoted characters backslashed, and whether it is certain."""
        if word.lit is not None:
            return word.lit, True
        out: list[str] = []
        sure = True
        for piece in self.pieces(word.parts, word.text):
            if isinstance(piece, Break):
                out.append(" ")
                continue
            sure = sure and not (piece.unk or piece.soft or piece.alts)
            out.append(patterns.escape(piece.text) if piece.q == QUOTED else piece.text)
        return "".join(out), sure

    # --- parts ---

    def pieces(self, parts: Sequence[Part], text: Text, assignment: bool = False) -> list[Piece]:
        out: list[Piece] = []
        none = False
        starts: list[int] = []
        for at, part in enumerate(parts):
            kind = type(part)
            starts.append(len(out))
            if kind is Lit:
                assert isinstance(part, Lit)
                if not part.q and "~" in part.value and (at == 0 or assignment):
                    out.extend(self._tilde(part, text, assignment, at == 0))
                else:
                    out.append(Seg(part.value, *text.place(part.start, part.end), q=QUOTED if part.q else WRITTEN))
            elif kind is Param:
                assert isinstance(part, Param)
                found = self.param(part, text)
                none = none or (len(found) == 1 and isinstance(found[0], Break) and found[0].none)
                out.extend(found)
            else:
                out.extend(self._other(part, text))
        return self._without_none(parts, out, [*starts, len(out)]) if none else out

    @staticmethod
    def _without_none(parts: Sequence[Part], pieces: list[Piece], starts: list[int]) -> list[Piece]:
        """`"${A[@]}"` without elements gives no field, nor does what stands empty beside it in the same quotes."""
        out: list[Piece] = []
        at = 0
        while at < len(parts):
            end = at + 1
            while end < len(parts) and parts[end - 1].q and parts[end].q and parts[end - 1].end == parts[end].start:
                end += 1
            group = pieces[starts[at] : starts[end]]
            kept = [piece for piece in group if isinstance(piece, Seg) or not piece.none]
            if len(kept) == len(group) or any(isinstance(piece, Break) or piece.text or piece.soft for piece in kept):
                out.extend(kept)
            at = end
        return out

    def _other(self, part: Part, text: Text) -> Value:
        if isinstance(part, Hole):
            source = text.s[part.start : part.end]
            return (Seg(source, *text.place(part.start, part.end), unk=source),)
        if isinstance(part, CmdSub):
            value = self.substitute(part, text)
            if not value:
                value = (Seg("", *text.place(part.start, part.end)),)
        elif isinstance(part, ProcSub):
            value = self.process(part, text)
        else:
            assert isinstance(part, Arith)
            value = self.arithmetic(part, text)
        return requote(value, QUOTED if part.q else EXPANDED)

    def _tilde(self, part: Lit, text: Text, assignment: bool, first: bool) -> list[Piece]:
        home = self.lookup_value("HOME")
        match = re.match(r"~(?=[/:]|$)", part.value) if first else None
        out: list[Piece] = []
        at = 0
        found = [match] if match else []
        if assignment:
            found += list(re.finditer(r"(?<=:)~(?=[/:]|$)", part.value))
        for hit in found:
            if home is None or hit is None:
                continue
            before = part.value[at : hit.start()]
            if before:
                out.append(Seg(before, *text.place(part.start + at, part.start + hit.start()), q=WRITTEN))
            place = text.place(part.start + hit.start(), part.start + hit.end())
            out.extend(via(home, "environment", "HOME", place))
            at = hit.end()
        rest = part.value[at:]
        if rest:
            out.append(Seg(rest, *text.place(part.start + at, part.end), q=WRITTEN))
        return out

    def arithmetic(self, part: Arith, text: Text) -> Value:
        source = text.s[part.start : part.end]
        place = text.place(part.start, part.end)
        value = self.value(part.expr)
        if unknown(value):
            return (Seg(source, *place, unk=source),)
        try:
            result, doubtful = self.calculate(text_of(value))
        except UnknownNumber:
            return (Seg(source, *place, unk=source),)
        except ArithmeticFault:
            return (Seg("", *place),)
        return (Seg(str(result), *place, soft=doubtful or soft(value)),)

    def calculate(self, text: str) -> tuple[int, bool]:
        """The number that an expression gives and whether that is only likely."""
        doubtful = False

        def read(name: str, key: str | None) -> str:
            nonlocal doubtful
            value = self.element_value(name, key) if key is not None else self.lookup_value(name)
            if value is None:
                doubtful = doubtful or self.exploring
                return "0"
            if unknown(value):
                raise UnknownNumber
            doubtful = doubtful or soft(value)
            return text_of(likely(value)) or "0"

        def write(name: str, key: str | None, result: str) -> None:
            self.assign(name, key, (Seg(result),))

        return Arithmetic(read, write).evaluate(text), doubtful

    @abstractmethod
    def assign(self, name: str, key: str | None, value: Value) -> None:
        """Set a variable or one element."""

    # --- splitting ---

    def split(self, pieces: list[Piece], place: Place) -> list[Field]:
        fields = self._split(pieces, place)
        if not any(isinstance(piece, Seg) and piece.alts for piece in pieces):
            return fields
        fields = self._split(self._chosen(pieces, -1, 0), place)
        for at, piece in enumerate(pieces):
            if isinstance(piece, Seg) and piece.alts:
                for n in range(1, len(piece.alts)):
                    fields = self._align(fields, self._split(self._chosen(pieces, at, n), place), place)
        return fields

    @staticmethod
    def _chosen(pieces: list[Piece], at: int, choice: int) -> list[Piece]:
        out: list[Piece] = []
        for n, piece in enumerate(pieces):
            if isinstance(piece, Seg) and piece.alts:
                out.extend(requote(likely(piece.alts[choice if n == at else 0]), piece.q))
            else:
                out.append(piece)
        return out

    @staticmethod
    def _align(fields: list[Field], others: list[Field], place: Place) -> list[Field]:
        """One list of fields for two ways the word may expand."""
        if len(fields) == 1 and len(others) == 1:
            other = others[0].text
            if other != fields[0].text and other not in fields[0].alts:
                fields[0].alts = (*fields[0].alts, other)
            return fields
        known = {field.text: field for field in fields}
        joined = join_elements([Element(f.segs, f.maybe) for f in fields], [Element(f.segs, f.maybe) for f in others])
        out: list[Field] = []
        for item in joined:
            alternatives: list[str] = []
            value = item.value
            for seg in value:
                if seg.alts:
                    alternatives = [text_of(likely(alt)) for alt in seg.alts[1:]]
            text = text_of(value)
            earlier = known.get(text)
            out.append(Field(likely(value), place, item.maybe, (*(earlier.alts if earlier else ()), *alternatives)))
        return out

    def _split(self, pieces: list[Piece], place: Place) -> list[Field]:
        out: list[Field] = []
        segs: list[Seg] = []
        started = magic = False
        maybe = 0

        def flush() -> None:
            nonlocal segs, started, magic
            if started:
                if len(segs) > 1:
                    segs = [seg for seg in segs if seg.text or seg.soft] or segs[:1]
                if magic:
                    out.extend(self._files(segs, place, maybe))
                else:
                    out.append(Field(tuple(segs), place, maybe))
            segs, started, magic = [], False, False

        for piece in pieces:
            if isinstance(piece, Break):
                flush()
                maybe = piece.maybe
                continue
            if piece.q == QUOTED or piece.unk:
                segs.append(piece)
                started = started or piece.q == QUOTED or bool(piece.text)
            elif piece.q == WRITTEN:
                segs.append(piece)
                started = started or bool(piece.text)
                magic = magic or patterns.is_glob(piece.text)
            else:
                at = 0
                for start, end, lead in self._words(piece.text):
                    if lead and started:
                        flush()
                    segs.append(piece.cut(start, end))
                    started = True
                    magic = magic or patterns.is_glob(piece.text[start:end])
                    at = end
                if at < len(piece.text) and started:
                    flush()
        flush()
        return out

    def _words(self, text: str) -> list[tuple[int, int, bool]]:
        """(start, end, whether a separator stands before) of each word of an expanded text under IFS."""
        ifs = self.ifs()
        if ifs == " \t\n":
            return [(m.start(), m.end(), m.start() > 0) for m in _WHITE.finditer(text)]
        if not ifs:
            return [(0, len(text), False)] if text else []
        white = "".join(c for c in ifs if c in " \t\n")
        out: list[tuple[int, int, bool]] = []
        at, lead = 0, False
        size = len(text)
        while at < size and text[at] in white:
            at, lead = at + 1, True
        while at < size:
            start = at
            while at < size and text[at] not in ifs:
                at += 1
            out.append((start, at, lead))
            lead = True
            while at < size and text[at] in white:
                at += 1
            if at < size and text[at] in ifs and text[at] not in white:
                at += 1
                while at < size and text[at] in white:
                    at += 1
        return out

    def _files(self, segs: list[Seg], place: Place, maybe: int) -> list[Field]:
        if any(seg.unk for seg in segs) or self.state.external or self.state.noglob:
            return [Field(tuple(segs), place, maybe)]
        pattern = "".join(patterns.escape(seg.text) if seg.q == QUOTED else seg.text for seg in segs)
        found = patterns.glob(pattern, self.state.cwd, self.written_paths())
        if not found:
            return [] if self.state.nullglob else [Field(tuple(segs), place, maybe)]
        file, start, end, hops = place_of(segs)
        return [Field((Seg(name, file, start, end, hops),), place, maybe) for name in found]

    @abstractmethod
    def written_paths(self) -> Sequence[str]:
        """Absolute paths of the files that the script itself wrote."""

    # --- arrays ---

    def elements(self, literal: ArrayLit, assoc: bool) -> dict[int | str, Element]:
        out: dict[int | str, Element] = {}
        at = 0
        pairs: list[Field] = []
        for key, word in literal.items:
            if key is not None:
                value = self.value(word)
                if assoc:
                    out[text_of(self.value(key))] = Element(value)
                else:
                    index = self.index(text_of(self.value(key)))
                    if index is not None:
                        at = index
                    out[at] = Element(value)
                    at += 1
                continue
            for field in self.fields(word):
                if assoc:
                    pairs.append(field)
                    continue
                out[at] = Element(self.from_field(field), field.maybe)
                at += 1
        for n in range(0, len(pairs), 2):
            out[pairs[n].text] = Element(pairs[n + 1].segs if n + 1 < len(pairs) else ())
        return out

    @staticmethod
    def from_field(field: Field) -> Value:
        """A field's value, with its alternatives inside it."""
        if not field.alts:
            return field.segs or (Seg("", *field.place),)
        file, start, end, hops = place_of(field.segs) if field.segs else NOWHERE
        return (Seg(field.text, file, start, end, hops, alts=(field.segs, *((Seg(alt, file, start, end, hops),) for alt in field.alts))),)

    def set_var(self, name: str, var: Var) -> None:
        self.state.vars[name] = var
