"""The grammar of bash over `lexer`: text -> list of commands, with what could not be parsed beside it.

bash stops at a syntax error; a checker goes on, so that one missing quote does not hide everything else: a quote that never ends
counts as a character, a block that never ends loses its first line.
"""

from __future__ import annotations

import re
from typing import Any

from .simple import REDIRECTION, SimpleCommands
from .syntax import (
    AndOr,
    ArithCommand,
    Case,
    CaseItem,
    CFor,
    Cond,
    For,
    Function,
    Group,
    If,
    Item,
    Node,
    Pipeline,
    ShellSyntaxError,
    Simple,
    Test,
    While,
    Word,
)  # fmt: skip
from .text import Text

_KEYWORD = re.compile(r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|time|coproc|in|\{|\}|!|\[\[)(?=[ \t\n;|&()<>]|\\\n|\Z)")
_CLOSERS = frozenset(("then", "elif", "else", "fi", "do", "done", "esac", "}"))
_FUNCTION = re.compile(r"([^ \t\n|&;<>()$`\\\"'=]+)[ \t]*\([ \t]*\)")
_FUNCTION_NAME = re.compile(r"[ \t]+([^ \t\n|&;<>()$`\\\"']+)(?:[ \t]*\([ \t]*\))?")
_COPROC = re.compile(r"[A-Za-z_]\w*(?=[ \t]+[{(])")
_UNARY = frozenset("-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -o -v -z -n -R".split())
_BINARY = re.compile(r"(==|=~|=|!=|<|>|-eq|-ne|-lt|-le|-gt|-ge|-nt|-ot|-ef)(?=[ \t\n]|\\\n)")


class Parser(SimpleCommands):
    """Commands, lists and blocks. After `program` the notes of `SimpleCommands` hold what a fault finder wants."""

    def __init__(self, text: Text, i: int = 0, n: int | None = None, depth: int = 0, dead: set[int] | None = None) -> None:
        super().__init__(text, i, n, depth, dead)
        self._keyword_at = -1
        self._keyword = ""

    def child(self, text: Text, i: int, n: int) -> Parser:
        child = Parser(text, i, n, self.depth, self.dead if text is self.text else None)
        if text is self.text:
            child.comments, child.simples, child.holes, child.errors = self.comments, self.simples, self.holes, self.errors
        return child

    # --- lists ---

    def program(self) -> list[Item]:
        """The whole text; never raises."""
        items: list[Item] = []
        while True:
            start = self.i
            pending, depth = list(self._pending), self.depth
            notes: tuple[list[Any], ...] = (self.simples, self.comments, self.holes, self.errors)
            counts = [len(found) for found in notes]
            try:
                self.newlines()
                if self.i >= self.n:
                    break
                start = self.i
                items.append(self.item())
            except (ShellSyntaxError, RecursionError) as error:
                if isinstance(error, RecursionError):
                    error = ShellSyntaxError(self.i, "block", "nested too deeply")
                self.depth, self._pending = depth, pending
                for found, count in zip(notes, counts, strict=True):
                    del found[count:]
                if len(self.errors) > 50:
                    break
                self.errors.append(error)
                self._recover(start, error)
        if self._pending:
            self.i = self.n
            pending, self._pending = self._pending, []
            for redir, delimiter, raw in pending:
                self._heredoc(redir, delimiter, raw)
        return items

    def _recover(self, start: int, error: ShellSyntaxError) -> None:
        if error.kind in ("quote", "expansion") and error.at not in self.dead:
            self.dead.add(error.at)
            self.i = start
            return
        if error.kind == "token" and error.at > start and self.s[error.at : error.at + 1] not in ("", "\n"):
            end = self.s.find("\n", error.at, self.n)  # a stray token: what stood before it on other lines is tried again without it
            before = self.s.rfind("\n", start, error.at)
            if before > start:
                self._retry(start, before + 1)
            self.i = self.n if end < 0 else end
            return
        end = self.s.find("\n", start, self.n)
        self.i = self.n if end < 0 else end + 1
        keyword = self._peek()
        while keyword in ("then", "do", "else", "fi", "done", "esac"):
            self.i += len(keyword)
            keyword = self._peek()

    def _retry(self, start: int, end: int) -> None:
        """Simple commands of a stretch that did not parse as a whole are still worth a fault finder's look."""
        child = Parser(self.text, start, end, self.depth + 1, self.dead)
        if child.depth < 5:
            child.program()
            self.simples.extend(child.simples)

    def parenthesis(self) -> list[Item]:
        self.deeper()
        open_at = self.i - 1
        items = self.items(")")
        if self.i >= self.n or self.s[self.i] != ")":
            raise ShellSyntaxError(open_at, "block", "this parenthesis is never closed")
        self.i += 1
        self.depth -= 1
        return items

    def items(self, *ends: str) -> list[Item]:
        """Commands up to (not over) one of `ends`: keywords, `)` or `;;`."""
        items: list[Item] = []
        while True:
            self.newlines()
            if self.i >= self.n:
                return items
            c = self.s[self.i]
            if c == ")" and ")" in ends:
                return items
            if c == ";" and self.s.startswith((";;", ";&"), self.i) and ";;" in ends:
                return items
            keyword = self._peek()
            if keyword in _CLOSERS:
                if keyword in ends:
                    return items
                raise ShellSyntaxError(self.i, "token", f"unexpected `{keyword}`")
            items.append(self.item())

    def item(self) -> Item:
        node = self.and_or()
        self.blank()
        c = self.s[self.i] if self.i < self.n else ""
        if c == "&" and not self.s.startswith("&&", self.i):
            self.i += 1
            return Item(node, True)
        if c == ";" and not self.s.startswith((";;", ";&"), self.i):
            self.i += 1
        elif c == "#":
            self.comment()
        elif c not in ("", "\n", ")", ";"):
            raise ShellSyntaxError(self.i, "token", f"unexpected `{c}`")
        return Item(node, False)

    def and_or(self) -> Node:
        first = self.pipeline()
        rest: list[tuple[str, Node]] = []
        while True:
            self.blank()
            op = self.s[self.i : min(self.i + 2, self.n)]
            if op not in ("&&", "||"):
                break
            self.i += 2
            self.newlines()
            rest.append((op, self.pipeline()))
        return AndOr(first.start, rest[-1][1].end, first, rest) if rest else first

    def pipeline(self) -> Node:
        self.blank()
        start, negate = self.i, False
        while (keyword := self._peek()) in ("!", "time"):
            self.i += len(keyword)
            negate ^= keyword == "!"
            self.blank()
            if keyword == "time" and self.s.startswith("-p", self.i):
                self.i += 2
                self.blank()
        parts = [self.command()]
        while True:
            self.blank()
            if self.i >= self.n or self.s[self.i] != "|" or self.s.startswith("||", self.i):
                break
            self.i += 2 if self.s.startswith("|&", self.i) else 1
            self.newlines()
            parts.append(self.command())
        return Pipeline(start, parts[-1].end, parts, negate) if negate or len(parts) > 1 else parts[0]

    # --- commands ---

    def _peek(self) -> str:
        """The reserved word at `i`, or ""."""
        self.blank()
        if self._keyword_at != self.i:
            match = _KEYWORD.match(self.s, self.i, self.n)
            self._keyword_at = self.i
            self._keyword = match.group() if match else ""
        return self._keyword

    def _need(self, keyword: str, start: int) -> None:
        self.newlines()
        if self._peek() != keyword:
            if self.i >= self.n:
                name = self.s[start : start + 8].split()[0] if self.s[start : start + 8].split() else ""
                raise ShellSyntaxError(start, "block", f"this `{name}` has no `{keyword}`")
            raise ShellSyntaxError(self.i, "token", f"expected `{keyword}`")
        self.i += len(keyword)

    def command(self) -> Node:
        s = self.s
        keyword = self._peek()
        start = self.i
        if start >= self.n:
            raise ShellSyntaxError(max(0, start - 1), "token", "a command is missing at the end")
        node: Node
        if keyword:
            if keyword in _CLOSERS:
                raise ShellSyntaxError(start, "token", f"unexpected `{keyword}`")
            if keyword == "in":
                return self.simple()
            self.deeper()
            node = self._compound(keyword, start)
            self.depth -= 1
        elif s[start] == "(":
            self.deeper()
            end = self._arith_end(start + 2) if s.startswith("((", start) else -1
            if end >= 0:
                self.i = end + 2
                node = ArithCommand(start, self.i, [], self.range(start + 2, end, "arith"))
            else:
                self.i = start + 1
                node = Group(start, start, [], self.parenthesis(), True)
            self.depth -= 1
        else:
            match = _FUNCTION.match(s, start, self.n)
            if match:
                self.i = match.end()
                return self._function(start, match.group(1))
            return self.simple()
        node.end = self.i
        self._redirections(node)
        return node

    def _redirections(self, node: Group | If | For | CFor | While | Case | Function | ArithCommand | Cond) -> None:
        while True:
            self.blank()
            match = REDIRECTION.match(self.s, self.i, self.n)
            if not match:
                return
            node.redirs.append(self._redirection(match))
            node.end = self.i

    def _compound(self, keyword: str, start: int) -> Group | If | For | CFor | While | Case | Function | Cond:
        self.i += len(keyword)
        if keyword == "if":
            return self._if(start)
        if keyword in ("for", "select"):
            return self._for(start, keyword == "select")
        if keyword in ("while", "until"):
            cond = self.items("do")
            self._need("do", start)
            body = self.items("done")
            self._need("done", start)
            return While(start, start, [], cond, body, keyword == "until")
        if keyword == "case":
            return self._case(start)
        if keyword == "{":
            body = self.items("}")
            self._need("}", start)
            return Group(start, start, [], body, False)
        if keyword == "[[":
            test = self._test_or()
            self.newlines()
            if not self.s.startswith("]]", self.i):
                raise ShellSyntaxError(start if self.i >= self.n else self.i, "token", "this `[[` has no `]]`")
            self.i += 2
            return Cond(start, start, [], test)
        if keyword == "function":
            match = _FUNCTION_NAME.match(self.s, self.i, self.n)
            if not match:
                raise ShellSyntaxError(self.i, "token", "this function has no name")
            self.i = match.end()
            return self._function(start, match.group(1))
        if keyword == "coproc":
            self.blank()
            match = _COPROC.match(self.s, self.i, self.n)
            if match:
                self.i = match.end()
            node = self.command()
            return Group(start, start, [], [Item(node, True)], False)
        raise ShellSyntaxError(start, "token", f"unexpected `{keyword}`")

    def _if(self, start: int) -> If:
        node = If(start, start)
        while True:
            cond = self.items("then")
            self._need("then", start)
            node.branches.append((cond, self.items("elif", "else", "fi")))
            keyword = self._peek()
            if keyword == "elif":
                self.i += 4
                continue
            if keyword == "else":
                self.i += 4
                node.otherwise = self.items("fi")
            self._need("fi", start)
            return node

    def _for(self, start: int, select: bool) -> For | CFor:
        self.blank()
        if self.s.startswith("((", self.i):
            end = self._arith_end(self.i + 2)
            if end < 0:
                raise ShellSyntaxError(start, "block", "this `for ((` has no `))`")
            at, ranges = self.i + 2, []
            for _ in range(2):
                semicolon = self.s.find(";", at, end)
                if semicolon < 0:
                    raise ShellSyntaxError(start, "token", "`for ((` takes three expressions with `;` between them")
                ranges.append((at, semicolon))
                at = semicolon + 1
            ranges.append((at, end))
            one, two, three = (self.range(a, b, "arith") for a, b in ranges)
            self.i = end + 2
            return CFor(start, start, [], (one, two, three), self._do(start))
        word = self.word()
        if word is None or word.lit is None:
            raise ShellSyntaxError(self.i, "token", "`for` takes a name")
        words: list[Word] | None = None
        self.newlines()
        if self._peek() == "in":
            self.i += 2
            words = []
            while True:
                self.blank()
                item = self.word() if self.i < self.n and self.s[self.i] != "#" else None
                if item is None:
                    break
                words.append(item)
        self.blank()
        if self.s.startswith(";", self.i):
            self.i += 1
        return For(start, start, [], word.lit, words, self._do(start), select)

    def _do(self, start: int) -> list[Item]:
        self.blank()
        if self.s.startswith(";", self.i):
            self.i += 1
        self.newlines()
        if self._peek() == "{":
            self.i += 1
            body = self.items("}")
            self._need("}", start)
            return body
        self._need("do", start)
        body = self.items("done")
        self._need("done", start)
        return body

    def _case(self, start: int) -> Case:
        self.blank()
        node = Case(start, start, [], self.word())
        self.newlines()
        self._need("in", start)
        while True:
            self.newlines()
            if self.i >= self.n:
                raise ShellSyntaxError(start, "block", "this `case` has no `esac`")
            if self._peek() == "esac":
                self.i += 4
                return node
            if self.s[self.i] == "(":
                self.i += 1
            patterns: list[Word] = []
            while True:
                self.blank()
                word = self.word("pattern")
                if word is None:
                    raise ShellSyntaxError(self.i if self.i < self.n else start, "token", "`case` takes a pattern here")
                patterns.append(word)
                self.blank()
                if not self.s.startswith("|", self.i):
                    break
                self.i += 1
            if not self.s.startswith(")", self.i):
                raise ShellSyntaxError(self.i if self.i < self.n else start, "token", "a `case` pattern ends with `)`")
            self.i += 1
            body = self.items(";;", "esac")
            term = ""
            for op in (";;&", ";;", ";&"):
                if self.s.startswith(op, self.i):
                    term = op
                    self.i += len(op)
                    break
            node.items.append(CaseItem(patterns, body, term))

    def _function(self, start: int, name: str) -> Function:
        self.newlines()
        self.deeper()
        body = self.command()
        self.depth -= 1
        if isinstance(body, Simple):
            raise ShellSyntaxError(body.start, "token", "a function's body is a `{` block")
        return Function(start, body.end, [], name, body)

    # --- [[ ]] ---

    def _test_or(self) -> Test:
        left = self._test_and()
        while self._test_op("||"):
            left = Test("||", [], [left, self._test_and()])
        return left

    def _test_and(self) -> Test:
        left = self._test_not()
        while self._test_op("&&"):
            left = Test("&&", [], [left, self._test_not()])
        return left

    def _test_op(self, op: str) -> bool:
        self.newlines()
        if self.s.startswith(op, self.i):
            self.i += 2
            return True
        return False

    def _test_not(self) -> Test:
        self.newlines()
        if self._peek() == "!":
            self.i += 1
            self.deeper()
            kid = self._test_not()
            self.depth -= 1
            return Test("!", [], [kid])
        if self.s.startswith("(", self.i):
            self.deeper()
            self.i += 1
            kid = self._test_or()
            self.newlines()
            if not self.s.startswith(")", self.i):
                raise ShellSyntaxError(self.i, "token", "expected `)`")
            self.i += 1
            self.depth -= 1
            return kid
        first = self.word()
        if first is None or first.lit == "]]":
            raise ShellSyntaxError(self.i, "token", "`[[` takes an expression")
        self.newlines()
        if first.lit in _UNARY and not self.s.startswith(("]]", "&&", "||", ")"), self.i) and not _BINARY.match(self.s, self.i, self.n):
            operand = self.word()
            if operand is not None:
                return Test(first.lit or "", [operand], [])
        match = _BINARY.match(self.s, self.i, self.n)
        if not match:
            return Test("", [first], [])
        self.i = match.end()
        self.newlines()
        op = match.group()
        second = self.word("regex" if op == "=~" else "pattern" if op in ("==", "=", "!=") else "")
        if second is None:
            raise ShellSyntaxError(self.i, "token", f"`{op}` takes a second operand")
        return Test(op, [first, second], [])
