"""Places in the user's files, and the text that came from them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field, replace
from typing import Literal

from alula.run.record import record


@record
class Span:
    """A half-open byte range of one source. `file` is the name the user gave (`-` for stdin, `<args>` for a command after `--`)."""

    file: str
    start: int
    end: int


OriginKind = Literal["variable", "default", "array", "heredoc", "yaml", "environment", "argument", "command", "file", "loop"]


@record
class Origin:
    """One link in the chain of definitions that a token's text came through.

    Attributes:
        kind: what defined it: a `variable` assignment, the `default` of `${X:-…}`, an `array` element, …
        name: the variable's name, or the program's for `command`.
        span: where the value itself is written, so that a fix can go there; None for the process environment and arguments.
    """

    kind: OriginKind
    name: str = ""
    span: Span | None = None


@record
class Token:
    """One word of a command line, as the program would receive it.

    Attributes:
        text: the word. What could not be known stands in it as the expression that was written, such as `run_$(date +%s)`.
        span: where the word is used.
        chain: where its text was defined, nearest definition first. Empty when it is written in place.
        unresolved: the expressions inside `text` whose value is not known. Empty when `text` is exact.
        alternatives: the other texts the word may have, from branches whose condition is not known.
        maybe: the word is there only in some branches.
        split: how many words the one source word gave (an unquoted `$ARGS` gives several); 1 when it is a word of its own.
    """

    text: str
    span: Span
    chain: tuple[Origin, ...] = ()
    unresolved: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    maybe: bool = False
    split: int = 1

    @property
    def known(self) -> bool:
        """True when the text is exactly what the program receives on every path."""
        return not (self.unresolved or self.alternatives or self.maybe)

    @property
    def definition(self) -> Span:
        """Where a fix of this value belongs: its definition, or the word itself."""
        for origin in self.chain:
            if origin.span is not None:
                return origin.span
        return self.span

    def with_text(self, text: str) -> Token:
        return replace(self, text=text)


@record
class Source:
    """One text that was read, with the line arithmetic that findings need.

    Attributes:
        name: as the user gave it.
        data: the bytes as they are on disk; spans count these bytes.
        path: the file to write a fix to; None for stdin and `--` commands.
    """

    name: str
    data: bytes
    path: str | None = None
    _starts: list[int] = field(default_factory=list, compare=False, repr=False)

    def _line_starts(self) -> list[int]:
        if not self._starts:
            self._starts.append(0)
            at = self.data.find(b"\n")
            while at != -1:
                self._starts.append(at + 1)
                at = self.data.find(b"\n", at + 1)
        return self._starts

    def position(self, offset: int) -> tuple[int, int]:
        """Byte offset -> (line, column), both from 1; the column counts characters, as editors do."""
        starts = self._line_starts()
        line = bisect_right(starts, offset)
        begin = starts[line - 1]
        return line, len(self.data[begin:offset].decode("utf-8", "replace")) + 1

    def line(self, number: int) -> str:
        """The text of line `number` (from 1), without its end."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] - 1 if number < len(starts) else len(self.data)
        return self.data[starts[number - 1] : end].decode("utf-8", "replace").rstrip("\r")

    def text(self, span: Span) -> str:
        return self.data[span.start : span.end].decode("utf-8", "replace")
