"""Text that remembers where it was written.

Inside the reader all text is `latin-1` decoded bytes: one character is one byte, so that an index is a byte offset and no input
is undecodable. `decode` turns it into real text at the door. A value of the shell is a tuple of segments; each knows the bytes it
was written as and the definitions it came through on its way to where it is used.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

Hop = tuple[str, str, str, int, int]
"""(kind, name, file, start, end): the text came into these bytes of `file` through a definition of this kind and name."""
Place = tuple[str, int, int, tuple[Hop, ...]]
"""(file, start, end, hops): where text stands, and the hops from there outwards to its use. `start` -1: it stands in no file."""

NOWHERE: Place = ("", -1, -1, ())
MAX_HOPS = 10

EXPANDED, QUOTED, WRITTEN = 0, 1, 2
"""How a segment takes part in word splitting: split and globbed, neither, globbed only."""


def encode(text: str) -> str:
    """Real text -> the reader's byte text."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape" if _escapes(text) else "replace").decode("latin-1")


def _escapes(text: str) -> bool:
    return all(not 0xD800 <= ord(char) <= 0xDFFF or 0xDC80 <= ord(char) <= 0xDCFF for char in text)


def decode(text: str) -> str:
    """The reader's byte text -> real text; bytes that are not UTF-8 become U+FFFD."""
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")


class Seg:
    """A stretch of a value.

    Attributes:
        text: the likely text; the expression as written where nothing is known.
        file, start, end: where it is written; `end - start == len(text)` when the bytes are the text.
        hops: the definitions it came through, innermost first.
        unk: the expression, when the text is not known.
        soft: a condition on this text is not certain (the exit status of an unknown program; in exploration, an argument).
        alts: two or more values it may have, likely one first; `text` is the text of the first.
        q: EXPANDED, QUOTED or WRITTEN, while a word is being expanded.
    """

    __slots__ = ("alts", "end", "file", "hops", "q", "soft", "start", "text", "unk")

    def __init__(
        self, text: str, file: str = "", start: int = -1, end: int = -1, hops: tuple[Hop, ...] = (), unk: str = "", soft: bool = False,
        alts: tuple[tuple[Seg, ...], ...] = (), q: int = QUOTED,
    ) -> None:  # fmt: skip
        self.text = text
        self.file = file
        self.start = start
        self.end = end
        self.hops = hops
        self.unk = unk
        self.soft = soft
        self.alts = alts
        self.q = q

    def cut(self, a: int, b: int) -> Seg:
        """The part [a, b) of the text, with its own bytes where the text is as written."""
        if a <= 0 and b >= len(self.text):
            return self
        start, end = self.start, self.end
        if start >= 0 and end - start == len(self.text):
            start, end = start + a, start + b
        return Seg(self.text[a:b], self.file, start, end, self.hops, self.unk, self.soft, (), self.q)

    def same(self, other: Seg) -> bool:
        return self is other or (
            self.text == other.text and self.start == other.start and self.file == other.file and self.unk == other.unk
            and self.hops == other.hops and self.alts == other.alts
        )  # fmt: skip


Value = tuple[Seg, ...]


def text_of(value: Iterable[Seg]) -> str:
    return "".join([seg.text for seg in value])


def unknown(value: Iterable[Seg]) -> bool:
    """True when some of the text is not known at all."""
    return any(seg.unk and not seg.soft for seg in value)


def soft(value: Iterable[Seg]) -> bool:
    """True when a condition on this value is not certain."""
    return any(seg.soft or seg.alts or seg.unk for seg in value)


def likely(value: Value) -> Value:
    """The value without its alternatives."""
    if not any(seg.alts for seg in value):
        return value
    out: list[Seg] = []
    for seg in value:
        out.extend(likely(seg.alts[0]) if seg.alts else (seg,))
    return tuple(out)


def variants(value: Value) -> list[Value]:
    """The likely value first, then one value for each alternative (bounded: one choice differs at a time)."""
    out = [likely(value)]
    for at, seg in enumerate(value):
        for other in seg.alts[1:]:
            if len(out) < 9:
                out.append((*likely(value[:at]), *likely(other), *likely(value[at + 1 :])))
    return out


def cut(value: Value, a: int, b: int) -> Value:
    """The part [a, b) of a value's text."""
    out: list[Seg] = []
    at = 0
    for seg in likely(value):
        size = len(seg.text)
        if at < b and at + size > a:
            out.append(seg.cut(max(0, a - at), min(size, b - at)))
        at += size
    return tuple(out)


def rewrite(value: Value, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str]) -> Value:
    """`pattern.sub(new, …)` on a value: what is not replaced keeps its place."""
    text = text_of(likely(value))
    out: list[Seg] = []
    at = 0
    for match in pattern.finditer(text):
        out.extend(cut(value, at, match.start()))
        made = new(match)
        if made:
            out.append(Seg(made))
        at = match.end()
    if not at:
        return value
    out.extend(cut(value, at, len(text)))
    return tuple(out)


def _chain(inner: tuple[Hop, ...], hop: Hop, outer: tuple[Hop, ...]) -> tuple[Hop, ...]:
    hops = (*inner, hop, *outer)
    return hops if len(hops) <= MAX_HOPS else (*hops[: MAX_HOPS // 2], *hops[-MAX_HOPS // 2 :])


def via(value: Value, kind: str, name: str, place: Place, q: int | None = QUOTED) -> Value:
    """The value as it arrives at `place` through a definition. `q` None: each segment keeps its own."""
    hop = (kind, name, place[0], place[1], place[2])
    outer = place[3]
    return tuple(
        [
            Seg(
                seg.text, seg.file, seg.start, seg.end, _chain(seg.hops, hop, outer), seg.unk, seg.soft,
                tuple(via(alt, kind, name, place, q) for alt in seg.alts), seg.q if q is None else q,
            )
            for seg in value
        ]
    )  # fmt: skip


def requote(value: Value, q: int) -> Value:
    return tuple(
        Seg(seg.text, seg.file, seg.start, seg.end, seg.hops, seg.unk, seg.soft, tuple(requote(alt, q) for alt in seg.alts), q) for seg in value
    )


def computed(text: str, kind: str, name: str, place: Place, q: int = QUOTED, soft: bool = False) -> Seg:
    """Text that a program or an operator made at `place`; it is written nowhere."""
    return Seg(text, "", -1, -1, ((kind, name, place[0], place[1], place[2]), *place[3]), "", soft, (), q)




def lines_of(value: Value) -> list[Value]:
    """The lines of a value without their newlines; a last empty line does not count."""
    out: list[Value] = []
    line: list[Seg] = []
    for seg in likely(value):
        if seg.unk or "\n" not in seg.text:
            line.append(seg)
            continue
        at = 0
        while (end := seg.text.find("\n", at)) != -1:
            if end > at:
                line.append(seg.cut(at, end))
            out.append(tuple(line))
            line = []
            at = end + 1
        if at < len(seg.text):
            line.append(seg.cut(at, len(seg.text)))
    if line:
        out.append(tuple(line))
    return out


def strip_newlines(value: Value) -> Value:
    """Without the newlines at its end, as a command substitution gives it."""
    items = list(value)
    while items:
        last = items[-1]
        if last.alts:
            alts = tuple(strip_newlines(alt) for alt in last.alts)
            items[-1] = Seg(text_of(alts[0]), last.file, last.start, last.end, last.hops, last.unk, last.soft, alts, last.q)
            break
        if last.unk:
            break
        kept = last.text.rstrip("\n")
        if kept == last.text and kept:
            break
        items.pop()
        if kept:
            items.append(last.cut(0, len(kept)))
            break
    return tuple(items)


# --- places ---


def join_places(places: Sequence[Place]) -> Place:
    """The one place that several stretches of a word stand in: descend through their definitions as long as they agree."""
    if len(places) == 1:
        return places[0]
    if not places:
        return NOWHERE
    depth = 0
    best: Place = NOWHERE
    hops: tuple[Hop, ...] = ()
    while True:
        level: list[tuple[str, int, int]] = []
        for file, start, end, chain in places:
            at = len(chain) - 1 - depth
            level.append(chain[at][2:] if at >= 0 else (file, start, end))
        first = level[0]
        if any(item[0] != first[0] or item[1] < 0 for item in level):
            return best
        low, high = min(item[1] for item in level), max(item[2] for item in level)
        best = (first[0], low, high, hops)
        if any(item != first for item in level) or any(len(place[3]) <= depth for place in places):
            return best
        kinds = {place[3][len(place[3]) - 1 - depth][:2] for place in places}
        if len(kinds) != 1:
            return best
        kind, name = kinds.pop()
        hops = ((kind, name, first[0], low, high), *hops)
        depth += 1


def place_of(value: Sequence[Seg]) -> Place:
    return join_places([(seg.file, seg.start, seg.end, seg.hops) for seg in value])


class Text:
    """Text to parse, with the place of every part of it.

    `file` and `shift` serve text that stands in a file byte by byte; `cuts` are offsets before which bytes of the file were left
    out (carriage returns); `segs` serve text that was put together from values (`eval`, `bash -c`, an unescaped backquote).
    """

    __slots__ = ("cuts", "file", "s", "segs", "shift", "starts")

    def __init__(self, s: str, file: str = "", shift: int = 0, segs: Value = (), cuts: Sequence[int] = ()) -> None:
        self.s = s
        self.file = file
        self.shift = shift
        self.cuts = cuts
        self.segs = segs
        self.starts: list[int] = []
        if segs:
            at = 0
            for seg in segs:
                self.starts.append(at)
                at += len(seg.text)

    @classmethod
    def of(cls, value: Value) -> Text:
        segs = likely(value)
        return cls(text_of(segs), segs=segs)

    def place(self, start: int, end: int) -> Place:
        if not self.segs:
            if not self.cuts:
                return (self.file, start + self.shift, end + self.shift, ())
            return (self.file, start + bisect_right(self.cuts, start), end + bisect_right(self.cuts, max(start, end - 1)), ())
        if end <= start:
            at = max(0, bisect_right(self.starts, start) - 1)
            seg = self.segs[at]
            inner = seg.cut(start - self.starts[at], start - self.starts[at]) if start > self.starts[at] or seg.text else seg
            return (inner.file, inner.start, max(inner.start, inner.end), inner.hops)
        at = bisect_right(self.starts, start) - 1
        found: list[Seg] = []
        while at < len(self.segs) and self.starts[at] < end:
            begin = self.starts[at]
            piece = self.segs[at]
            if begin + len(piece.text) > start:
                found.append(piece.cut(max(0, start - begin), min(len(piece.text), end - begin)))
            at += 1
        return place_of(found)
