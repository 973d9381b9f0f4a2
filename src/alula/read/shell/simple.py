"""Line ends, here-documents and simple commands: assignments, words, redirections."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import TYPE_CHECKING

from .lexer import HOLE, Lexer
from .syntax import ArrayLit, Assign, Lit, Redir, ShellSyntaxError, Simple, Word
from .text import Seg, Text

if TYPE_CHECKING:
    from .parser import Parser

DECLARATIONS = frozenset(("export", "declare", "typeset", "local", "readonly"))

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(\+?=)|(?=\[))")
REDIRECTION = re.compile(r"([0-9]*|\{[A-Za-z_][A-Za-z0-9_]*\})(&>>|&>|<<<|<<-|<<|<&|>&|<>|>>|>\||>(?!\()|<(?!\())")


class SimpleCommands(Lexer):
    """The part of the grammar that has no keywords.

    Attributes:
        errors: what could not be parsed.
        comments: (start, end) of every comment.
        simples: every simple command, nested ones too, in order of their ends.
    """

    def __init__(self, text: Text, i: int = 0, n: int | None = None, depth: int = 0, dead: set[int] | None = None) -> None:
        super().__init__(text, i, n, depth, dead)
        self.errors: list[ShellSyntaxError] = []
        self.comments: list[tuple[int, int]] = []
        self.simples: list[Simple] = []
        self._pending: list[tuple[Redir, str, bool]] = []

    @abstractmethod
    def child(self, text: Text, i: int, n: int) -> Parser:
        """A parser for a stretch of the same text, or for a text of its own."""

    # --- blanks and line ends ---

    def blank(self) -> None:
        if self.i < self.n and self.s[self.i] in " \t\\":
            match = _BLANKS.match(self.s, self.i, self.n)
            if match:
                self.i = match.end()
            if self.i + 1 == self.n and self.s[self.i] == "\\":
                self.i = self.n

    def comment(self) -> None:
        end = self.s.find("\n", self.i, self.n)
        end = self.n if end < 0 else end
        self.comments.append((self.i, end))
        self.i = end

    def newline(self) -> None:
        """Over a line end, and over the here-documents that were announced on the line."""
        self.i += 1
        pending, self._pending = self._pending, []
        for redir, delimiter, raw in pending:
            self._heredoc(redir, delimiter, raw)

    def newlines(self) -> None:
        while True:
            self.blank()
            if self.i >= self.n:
                return
            c = self.s[self.i]
            if c == "\n":
                self.newline()
            elif c == "#":
                self.comment()
            else:
                return

    def _heredoc(self, redir: Redir, delimiter: str, raw: bool) -> None:
        s, start, n = self.s, self.i, self.n
        strip = redir.op == "<<-"
        at = start
        lines: list[tuple[int, int]] = []
        while True:
            if at >= n:
                self.errors.append(ShellSyntaxError(redir.start, "heredoc", f"no line is just {delimiter}, so this here-document never ends"))
                break
            end = s.find("\n", at, n)
            stop = n if end < 0 else end
            begin = at
            if strip:
                while begin < stop and s[begin] == "\t":
                    begin += 1
            if s[begin:stop] == delimiter:
                break
            lines.append((begin, stop + 1 if end >= 0 else stop))
            at = stop + 1 if end >= 0 else n
        body_end = min(at, n)
        if strip and lines:
            segs: list[Seg] = [self._seg(s[a:b], a, b) for a, b in lines if b > a]
            text = Text.of(tuple(segs)) if segs else self.text
            reader = self.child(text, 0, len(text.s)) if segs else self
            redir.word = reader.here_word(0, len(text.s), raw) if segs else Word(self.text, start, start, [])
        else:
            redir.word = self.here_word(start, body_end, raw)
        end = s.find("\n", body_end, n)
        self.i = n if end < 0 or at >= n else end + 1

    def here_word(self, start: int, end: int, raw: bool) -> Word:
        if raw:
            return Word(self.text, start, end, [Lit(start, end, self.s[start:end], True)])
        return self.range(start, end, "here")

    # --- simple commands ---

    def simple(self) -> Simple:
        s, n, start = self.s, self.n, self.i
        node = Simple(self.text, start, start, [], [], [])
        declaring = False
        while True:
            self.blank()
            i = self.i
            if i >= n:
                break
            c = s[i]
            if c == "<" and node.words and i not in self.dead and self._after_flag(node) and HOLE.match(s, i, n):
                self.hole = i
            elif c in "<>&0123456789{":
                match = REDIRECTION.match(s, i, n)
                if match:
                    node.redirs.append(self._redirection(match))
                    node.end = self.i
                    continue
            if c in "\n;|&)":
                break
            if c == "#":
                self.comment()
                break
            if not node.words or declaring:
                assign = self._assignment()
                if assign is not None:
                    (node.words if declaring else node.assigns).append(assign)
                    node.end = self.i
                    continue
            word = self.word()
            if word is None:
                break
            if not node.words and word.lit in DECLARATIONS:
                declaring = True
            node.words.append(word)
            node.end = self.i
        if node.end == start and not (node.words or node.assigns or node.redirs):
            at = self.i if self.i < n else start
            raise ShellSyntaxError(at, "token", f"unexpected `{s[at : at + 1]}`" if s[at : at + 1].strip() else "a command is missing")
        self.simples.append(node)
        return node

    def _after_flag(self, node: Simple) -> bool:
        """True where a `<name>` stands for a value: after a flag, or after another such value."""
        last = node.words[-1]
        return isinstance(last, Word) and (last.src.startswith("--") or last.src.startswith("<"))

    def _assignment(self) -> Assign | None:
        s, start = self.s, self.i
        match = _ASSIGN.match(s, start, self.n)
        if not match:
            return None
        name, op = match.group(1), match.group(2)
        sub: Word | None = None
        self.i = match.end()
        if op is None:
            self.i += 1
            try:
                sub = self.until("]", False, True)
            except ShellSyntaxError:
                self.i = start
                return None
            after = s[self.i + 1 : self.i + 3]
            if s[self.i : self.i + 1] != "]" or not (after[:1] == "=" or after == "+="):
                self.i = start
                return None
            op = "+=" if after == "+=" else "="
            self.i += 1 + len(op)
        value: Word | ArrayLit | None
        if s.startswith("(", self.i) and self.i < self.n and sub is None:
            value = self._array()
        else:
            value = self.word()
        return Assign(self.text, start, self.i, name, sub, op == "+=", value)

    def _array(self) -> ArrayLit:
        start = self.i
        node = ArrayLit(start, start, [])
        self.i += 1
        self.deeper()
        while True:
            self.newlines()
            if self.i >= self.n:
                raise ShellSyntaxError(start, "block", "this array is never closed")
            c = self.s[self.i]
            if c == ")":
                break
            key: Word | None = None
            if c == "[":
                at = self.i
                self.i += 1
                try:
                    key = self.until("]", False, True)
                except ShellSyntaxError:
                    key = None
                if key is not None and self.s.startswith("]=", self.i):
                    self.i += 2
                else:
                    self.i, key = at, None
            word = self.word()
            if word is None:
                if key is not None:
                    node.items.append((key, Word(self.text, self.i, self.i, [])))
                    continue
                raise ShellSyntaxError(self.i, "token", f"unexpected `{c}` in an array")
            node.items.append((key, word))
        self.depth -= 1
        self.i += 1
        node.end = self.i
        return node

    def _redirection(self, match: re.Match[str]) -> Redir:
        start = self.i
        fd, op = match.groups()
        self.i = match.end()
        self.blank()
        word = self.word()
        if word is None:
            raise ShellSyntaxError(self.i if self.i < self.n else start, "token", f"`{op}` takes a word")
        redir = Redir(start, self.i, fd, op, word)
        if op in ("<<", "<<-"):
            quoted = any(getattr(part, "q", False) for part in word.parts)
            delimiter = "".join(part.value if hasattr(part, "value") else self.s[part.start : part.end] for part in word.parts)
            redir.word = Word(self.text, start, start, [])
            self._pending.append((redir, delimiter, quoted))
        return redir
