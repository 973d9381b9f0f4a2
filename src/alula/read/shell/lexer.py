"""Words of bash: quotes, expansions, and where they end.

The rules are those of bash 5.2's own lexer, not of the POSIX grammar: a script is read to know what bash makes of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .syntax import Arith, CmdSub, Hole, Item, Lit, Param, Part, ProcSub, ShellSyntaxError, Word
from .text import Seg, Text, Value, encode, rewrite

if TYPE_CHECKING:
    from .parser import Parser

MAX_DEPTH = 40

_RUN = re.compile(r"[^ \t\n|&;<>()$`\\\"']+")
_MAGIC = re.compile(r"[*?\[{~]")
_DQ_RUN = re.compile(r'[^$`\\"]+')
_HERE_RUN = re.compile(r"[^$`\\]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_OPERATOR = re.compile(r":[-=?+]|[-=?+]|##?|%%?|//|/#|/%|/|\^\^?|,,?|@[A-Za-z]|:")
HOLE = re.compile(r"<[A-Za-z][A-Za-z0-9_.:/ -]*>(?=[ \t\n/:,;\"']|\Z)")
_UNTIL = {stops: re.compile(r"[^$`\\\"'" + re.escape(stops) + "]+") for stops in ("}", "/}", ":}", "]")}
_ANSI = re.compile(r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))", re.DOTALL)
_ECHO = re.compile(r"\\(?:([abeEfnrtv\\])|0([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(?!)(.))", re.DOTALL)
_ANSI_CHARS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_BACKQUOTE_ESCAPES = re.compile(r"\\([$`\\])")
_BACKQUOTE_ESCAPES_QUOTED = re.compile(r"\\([$`\\\"])")


def unescape_ansi(text: str) -> str:
    """The contents of `$'…'`."""
    return _ANSI.sub(_unescaped, text) if "\\" in text else text


def unescape_value(value: Value, echo: bool = False) -> Value:
    """The same for what `printf` and `echo -e` print; `echo` wants its octal numbers with a 0 in front."""
    return rewrite(value, _ECHO if echo else _ANSI, _unescaped)


def _unescaped(match: re.Match[str]) -> str:
    char, octal, hexa, short, long, control = match.groups()
    if char:
        return _ANSI_CHARS[char]
    if control:
        return chr(ord(control) & 0x1F)
    number = int(octal, 8) & 0xFF if octal else int(hexa or short or long, 16)
    return chr(number) if octal or hexa else encode(chr(number)) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


class Lexer:
    """Reads words at `i`, up to `n`. The parser adds the grammar."""

    def __init__(self, text: Text, i: int = 0, n: int | None = None, depth: int = 0, dead: set[int] | None = None) -> None:
        self.text = text
        self.s = text.s
        self.i = i
        self.n = len(text.s) if n is None else n
        self.depth = depth
        self.hole = -1  # where the grammar allows a placeholder
        self.holes: list[tuple[int, int]] = []
        self.dead: set[int] = set() if dead is None else dead  # quotes and `$` that never end: plain characters

    # the grammar's part
    def parenthesis(self) -> list[Item]:
        """After `(`: the commands up to and over its `)`."""
        raise NotImplementedError

    def child(self, text: Text, i: int, n: int) -> Parser:
        raise NotImplementedError

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ShellSyntaxError(self.i, "block", f"nested more than {MAX_DEPTH} deep")

    def word(self, mode: str = "") -> Word | None:
        """The word at `i`, or None. `mode` is `pattern` (extended globs count) or `regex` (parentheses and bars do too)."""
        s, start, n = self.s, self.i, self.n
        match = _RUN.match(s, start, n)
        if match and not mode:
            end = match.end()
            after = s[end] if end < n else "\n"
            if after in " \t\n|&;()" or (after in "<>" and not s.startswith("(", end + 1) and not (after == "<" and HOLE.match(s, end, n))):
                run = match.group()
                self.i = end
                return Word(self.text, start, end, [Lit(start, end, run, False)], None if _MAGIC.search(run) else run)
        parts = self._word_parts(mode)
        return Word(self.text, start, self.i, parts) if self.i > start else None

    def _word_parts(self, mode: str) -> list[Part]:
        s, n = self.s, self.n
        parts: list[Part] = []
        while self.i < n:
            i = self.i
            match = _RUN.match(s, i, n)
            if match:
                self.i = match.end()
                parts.append(Lit(i, self.i, match.group(), False))
                continue
            c = s[i]
            if c in "\\'\"$`":
                self._special(c, parts, False)
            elif c == "<" and (i == self.hole or s[i - 1 : i] in ("=", ":", "/", ",", "@")) and (match := HOLE.match(s, i, n)):
                self.i = match.end()
                parts.append(Hole(i, self.i))
                self.holes.append((i, self.i))
            elif c in "<>" and s.startswith("(", i + 1) and mode != "regex":
                self.i = i + 2
                parts.append(ProcSub(i, i, False, self.parenthesis(), c == ">"))
                parts[-1].end = self.i
            elif c == "(" and (mode == "regex" or (mode == "pattern" and i and s[i - 1] in "?*+@!")):
                self._parens(parts, mode)
            elif mode == "regex" and c in "|<>;&":
                if c in ";&" and not s.startswith(c, i + 1):
                    break
                self.i = i + 1
                parts.append(Lit(i, i + 1, c, False))
            else:
                break
        return parts

    def _parens(self, parts: list[Part], mode: str) -> None:
        """`(…)` of an extended glob or a regular expression; blanks inside belong to it."""
        open_at = self.i
        parts.append(Lit(self.i, self.i + 1, "(", False))
        self.i += 1
        self.deeper()
        while self.i < self.n and self.s[self.i] != ")":
            before = self.i
            if self.s[before] == "(":
                self._parens(parts, mode)
                continue
            if self.s[before] in " \t\n|&;<>":
                self.i += 1
                parts.append(Lit(before, self.i, self.s[before], False))
                continue
            parts.extend(self._word_parts(mode))
            if self.i == before:
                break
        self.depth -= 1
        if self.i >= self.n:
            raise ShellSyntaxError(open_at, "token", "this parenthesis is never closed")
        parts.append(Lit(self.i, self.i + 1, ")", False))
        self.i += 1

    def _special(self, c: str, parts: list[Part], q: bool) -> None:
        """One of the characters backslash, quote, double quote, dollar, backquote outside double quotes."""
        s, i = self.s, self.i
        if c == "\\":
            if i + 1 >= self.n or s[i + 1] == "\n":  # bash drops a backslash at the very end, too
                self.i = min(i + 2, self.n)
            else:
                parts.append(Lit(i, i + 2, s[i + 1], True))
                self.i = i + 2
        elif i in self.dead:
            parts.append(Lit(i, i + 1, c, True))
            self.i = i + 1
        elif c == "'":
            end = s.find("'", i + 1, self.n)
            if end < 0:
                raise ShellSyntaxError(i, "quote", "this quote is never closed")
            parts.append(Lit(i + 1, end, s[i + 1 : end], True) if end > i + 1 else Lit(i, end + 1, "", True))
            self.i = end + 1
        elif c == '"':
            self._double(parts)
        elif c == "$":
            self._dollar(parts, q)
        else:
            self._backquote(parts, q)

    def _double(self, parts: list[Part]) -> None:
        s, n, start = self.s, self.n, self.i
        if start in self.dead:
            parts.append(Lit(start, start + 1, '"', True))
            self.i = start + 1
            return
        self.i = start + 1
        before = len(parts)
        while self.i < n:
            i = self.i
            match = _DQ_RUN.match(s, i, n)
            if match:
                self.i = match.end()
                parts.append(Lit(i, self.i, match.group(), True))
                continue
            c = s[i]
            if c == '"':
                self.i = i + 1
                if len(parts) == before:
                    parts.append(Lit(start, self.i, "", True))
                return
            self._in_quotes(c, parts, '$`"\\')
        raise ShellSyntaxError(start, "quote", "this double quote is never closed")

    def _in_quotes(self, c: str, parts: list[Part], escapes: str) -> None:
        """Backslash, dollar or backquote inside double quotes or a here-document."""
        s, i = self.s, self.i
        if c == "\\":
            after = s[i + 1 : i + 2]
            if after == "\n":
                self.i = i + 2
            elif after and after in escapes and i + 1 < self.n:
                parts.append(Lit(i, i + 2, after, True))
                self.i = i + 2
            else:
                parts.append(Lit(i, i + 1, "\\", True))
                self.i = i + 1
        elif i in self.dead:
            parts.append(Lit(i, i + 1, c, True))
            self.i = i + 1
        elif c == "$":
            self._dollar(parts, True)
        else:
            self._backquote(parts, True)

    def _dollar(self, parts: list[Part], q: bool) -> None:
        s, i, n = self.s, self.i, self.n
        after = s[i + 1] if i + 1 < n else ""
        if after == "{":
            self._braced(parts, q)
            return
        if after == "(":
            self.deeper()
            end = self._arith_end(i + 3) if s.startswith("(", i + 2) else -1
            if end >= 0:
                expr = self.range(i + 3, end, "arith")
                self.i = end + 2
                parts.append(Arith(i, self.i, q, expr))
            else:
                self.i = i + 2
                body = self.parenthesis()
                parts.append(CmdSub(i, self.i, q, body))
            self.depth -= 1
            return
        if after == "[":
            end = s.find("]", i, n)
            if end > 0:
                self.i = end + 1
                parts.append(Arith(i, self.i, q, self.range(i + 2, end, "arith")))
                return
        if not q and after == "'":
            end = i + 2
            while end < n and s[end] != "'":
                end += 2 if s[end] == "\\" else 1
            if end >= n:
                raise ShellSyntaxError(i, "quote", "this quote is never closed")
            parts.append(Lit(i, end + 1, unescape_ansi(s[i + 2 : end]), True))
            self.i = end + 1
            return
        if not q and after == '"':
            self.i = i + 1
            self._double(parts)
            return
        match = _SIMPLE_NAME.match(s, i + 1, n)
        if match:
            self.i = match.end()
            parts.append(Param(i, self.i, q, match.group()))
        else:
            self.i = i + 1
            parts.append(Lit(i, i + 1, "$", q))

    def _arith_end(self, i: int) -> int:
        """The offset of the `))` that ends an arithmetic expansion whose expression begins at `i`; -1 when it is no such thing."""
        s, n, depth = self.s, self.n, 0
        while i < n:
            c = s[i]
            if c == "(":
                depth += 1
            elif c == ")":
                if depth == 0:
                    return i if s.startswith(")", i + 1) and i + 1 < n else -1
                depth -= 1
            elif c == "\\":
                i += 1
            elif c in "'\"":
                end = s.find(c, i + 1, n)
                if end < 0:
                    return -1
                i = end
            i += 1
        return -1

    def _backquote(self, parts: list[Part], q: bool) -> None:
        s, i, n = self.s, self.i, self.n
        end = i + 1
        while end < n and s[end] != "`":
            end += 2 if s[end] == "\\" else 1
        if end >= n:
            raise ShellSyntaxError(i, "quote", "this backquote is never closed")
        inner = s[i + 1 : end]
        self.deeper()
        if "\\" in inner:
            segs: list[Seg] = []
            at = 0
            for match in (_BACKQUOTE_ESCAPES_QUOTED if q else _BACKQUOTE_ESCAPES).finditer(inner):
                segs.append(self._seg(inner[at : match.start()], i + 1 + at, i + 1 + match.start()))
                segs.append(self._seg(match.group(1), i + 1 + match.start(), i + 1 + match.end()))
                at = match.end()
            segs.append(self._seg(inner[at:], i + 1 + at, end))
            text = Text.of(tuple(seg for seg in segs if seg.text))
            child = self.child(text, 0, len(text.s))
        else:
            child = self.child(self.text, i + 1, end)
        body = child.program()
        self.depth -= 1
        self.i = end + 1
        parts.append(CmdSub(i, self.i, q, body))

    def _seg(self, text: str, start: int, end: int) -> Seg:
        file, begin, stop, hops = self.text.place(start, end)
        return Seg(text, file, begin, stop, hops)

    def _braced(self, parts: list[Part], q: bool) -> None:
        s, start, n = self.s, self.i, self.n
        self.deeper()
        i = start + 2
        length = indirect = False
        if s.startswith("#", i):
            match = _NAME.match(s, i + 1, n)
            length = bool(match and s[match.end() : match.end() + 1] in ("}", "[") and (s[match.end()] == "}" or match.group()[0].isidentifier()))
        elif s.startswith("!", i):
            match = _NAME.match(s, i + 1, n)
            indirect = bool(match and match.group() not in "-?=+" and s[i + 1] != "}")
        i += length or indirect
        match = _NAME.match(s, i, n)
        if not match:
            raise ShellSyntaxError(start, "expansion", "bad substitution: this is nothing that ${ } can hold")
        name = match.group()
        self.i = match.end()
        sub: Word | str | None = None
        if s.startswith("[", self.i) and self.i < n and (name[0].isalpha() or name[0] == "_"):
            if s[self.i + 1 : self.i + 3] in ("@]", "*]"):
                sub = s[self.i + 1]
                self.i += 3
            else:
                self.i += 1
                sub = self.until("]", False, True)
                self._expect("]", start)
        op = ""
        args: tuple[Word, ...] = ()
        if indirect and s.startswith(("*}", "@}"), self.i):  # ${!prefix*}
            op = "!" + s[self.i]
            self.i += 1
        match = None if op else _OPERATOR.match(s, self.i, n)
        if match and not length:
            op = match.group()
            self.i = match.end()
            args = self._arguments(op, q)
        if self.i >= n or s[self.i] != "}":
            closed = s.find("}", start, min(n, s.find("\n", start, n) if s.find("\n", start, n) > 0 else n)) > 0
            raise ShellSyntaxError(start, "expansion", "bad substitution: this is nothing that ${ } can hold" if closed else "this ${ is never closed")
        self.i += 1
        self.depth -= 1
        parts.append(Param(start, self.i, q, name, sub, op, args, length, indirect))

    def _expect(self, char: str, start: int) -> None:
        if self.i >= self.n or self.s[self.i] != char:
            raise ShellSyntaxError(start, "expansion", "this ${ is never closed")
        self.i += 1

    def _arguments(self, op: str, q: bool) -> tuple[Word, ...]:
        if op in (":-", ":=", ":?", ":+", "-", "=", "?", "+"):
            return (self.until("}", q, False),)
        if op[0] == "/":
            pattern = self.until("/}", q, True)
            if self.s.startswith("/", self.i) and self.i < self.n:
                self.i += 1
                return pattern, self.until("}", q, True)
            return (pattern,)
        if op == ":":
            offset = self.until(":}", q, False)
            if self.s.startswith(":", self.i) and self.i < self.n:
                self.i += 1
                return offset, self.until("}", q, False)
            return (offset,)
        if op[0] == "@":
            return ()
        return (self.until("}", q, True),)

    def until(self, stops: str, q: bool, pattern: bool) -> Word:
        """A word inside `${…}`, up to one of `stops`. In a `pattern` only quotes of its own protect its characters."""
        s, n, start = self.s, self.n, self.i
        parts: list[Part] = []
        run = _UNTIL[stops]
        plain = q and not pattern
        while self.i < n:
            i = self.i
            match = run.match(s, i, n)
            if match:
                self.i = match.end()
                parts.append(Lit(i, self.i, match.group(), plain))
                continue
            c = s[i]
            if c in stops:
                break
            if c == "'" and plain:
                parts.append(Lit(i, i + 1, "'", True))
                self.i = i + 1
            elif c == "\\" and plain:
                self._in_quotes(c, parts, '$`"\\}')
            elif c == '"':
                self._double(parts)
            else:
                self._special(c, parts, plain)
        return Word(self.text, start, self.i, parts)

    def range(self, start: int, end: int, mode: str) -> Word:
        """The text [start, end) as one word: `here` for a here-document, `arith` for an expression (its double quotes vanish)."""
        outer = (self.i, self.n)
        self.i, self.n = start, end
        s = self.s
        parts: list[Part] = []
        run = _HERE_RUN if mode == "here" else _DQ_RUN
        try:
            while self.i < end:
                i = self.i
                match = run.match(s, i, end)
                if match:
                    self.i = match.end()
                    parts.append(Lit(i, self.i, match.group(), True))
                elif s[i] == '"':
                    self.i = i + 1
                else:
                    self._in_quotes(s[i], parts, "$`\\")
        finally:
            self.i, self.n = outer
        return Word(self.text, start, end, parts)
