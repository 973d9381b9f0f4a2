"""The syntax tree of a shell script. Every node has its half-open range of offsets in the text it was parsed from."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from alula.run.record import node

if TYPE_CHECKING:
    from .text import Text


class ShellSyntaxError(Exception):
    """What bash could not parse.

    Attributes:
        at: where the construct begins that never ends, or the unexpected token.
        kind: `quote`, `heredoc`, `expansion`, `block` (a missing `fi`, `done`, …) or `token`.
    """

    def __init__(self, at: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.kind = kind
        self.message = message


# --- words ---


class Lit:
    """Text that stands for itself. (Written out, as `Word` is: a batch of scripts has tens of thousands of them.)"""

    __slots__ = ("end", "q", "start", "value")

    def __init__(self, start: int, end: int, value: str, q: bool) -> None:
        self.start = start
        self.end = end
        self.value = value
        self.q = q


@node
class Param:
    """`$x` or `${x…}`. `sub` is the subscript: a word, `@`, `*`; `op` the operator; `args` its words."""

    start: int
    end: int
    q: bool
    name: str
    sub: Word | str | None = None
    op: str = ""
    args: tuple[Word, ...] = ()
    length: bool = False
    indirect: bool = False


@node
class CmdSub:
    """`$(…)` or backquotes."""

    start: int
    end: int
    q: bool
    body: list[Item]


@node
class Arith:
    """`$((…))`."""

    start: int
    end: int
    q: bool
    expr: Word


@node
class ProcSub:
    """`<(…)` or `>(…)`."""

    start: int
    end: int
    q: bool
    body: list[Item]
    out: bool


@node
class Hole:
    """`<your_path>` left in a script for its user to fill in; bash would read it as redirections."""

    start: int
    end: int
    q: bool = True


Part = Lit | Param | CmdSub | Arith | ProcSub | Hole


class Word:
    """`lit` is set when the word is exactly these characters and nothing in it is special."""

    __slots__ = ("end", "lit", "parts", "start", "text")

    def __init__(self, text: Text, start: int, end: int, parts: list[Part], lit: str | None = None) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.parts = parts
        self.lit = lit

    @property
    def src(self) -> str:
        return self.text.s[self.start : self.end]


@node
class ArrayLit:
    """`(a b c)` after an assignment."""

    start: int
    end: int
    items: list[tuple[Word | None, Word]]


@node
class Assign:
    """`NAME=value`, `NAME+=value` or `NAME[key]=value`."""

    text: Text
    start: int
    end: int
    name: str
    sub: Word | None
    append: bool
    value: Word | ArrayLit | None


@node
class Redir:
    """`op` is one of `> >> >| < <> <& >& &> &>> << <<- <<<`; a here-document's body is its `word`."""

    start: int
    end: int
    fd: str
    op: str
    word: Word


# --- commands ---


@node
class Simple:
    """A program with its words, assignments and redirections."""

    text: Text
    start: int
    end: int
    assigns: list[Assign]
    words: list[Word | Assign]
    redirs: list[Redir]


@node
class Pipeline:
    """Commands joined by `|`."""

    start: int
    end: int
    parts: list[Node]
    negate: bool


@node
class AndOr:
    """Pipelines joined by `&&` and `||`."""

    start: int
    end: int
    first: Node
    rest: list[tuple[str, Node]]


@node
class Item:
    """One entry of a list: a command and whether `&` ends it."""

    node: Node
    background: bool


@node
class Compound:
    """What all compound commands have."""

    start: int
    end: int
    redirs: list[Redir] = field(default_factory=list)


@node
class Group(Compound):
    """`{ …; }` or `( … )`."""

    body: list[Item] = field(default_factory=list)
    subshell: bool = False


@node
class If(Compound):
    """`if` with its branches."""

    branches: list[tuple[list[Item], list[Item]]] = field(default_factory=list)
    otherwise: list[Item] | None = None


@node
class For(Compound):
    """`for NAME in …`."""

    name: str = ""
    words: list[Word] | None = None
    body: list[Item] = field(default_factory=list)
    select: bool = False


@node
class CFor(Compound):
    """`for ((…; …; …))`."""

    exprs: tuple[Word, Word, Word] | None = None
    body: list[Item] = field(default_factory=list)


@node
class While(Compound):
    """`while` or `until`."""

    cond: list[Item] = field(default_factory=list)
    body: list[Item] = field(default_factory=list)
    until: bool = False


@node
class CaseItem:
    """One branch of a `case`."""

    patterns: list[Word]
    body: list[Item]
    term: str


@node
class Case(Compound):
    """`case WORD in …`."""

    word: Word | None = None
    items: list[CaseItem] = field(default_factory=list)


@node
class Function(Compound):
    """A function's definition."""

    name: str = ""
    body: Node | None = None


@node
class ArithCommand(Compound):
    """`((…))`."""

    expr: Word | None = None


@node
class Test:
    """Inside `[[ ]]`: `op` is a unary or binary operator, `!`, `&&`, `||` or "" (a lone word)."""

    op: str
    args: list[Word]
    kids: list[Test]


@node
class Cond(Compound):
    """`[[ … ]]`."""

    test: Test | None = None


Node = Simple | Pipeline | AndOr | Group | If | For | CFor | While | Case | Function | ArithCommand | Cond
