"""The syntax tree of a shell script. Every node has its half-open range of offsets in the text it was parsed from."""

from __future__ import annotations

from dataclasses import dataclass, field

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


@dataclass(slots=True)
class Lit:
    start: int
    end: int
    value: str
    q: bool


@dataclass(slots=True)
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


@dataclass(slots=True)
class CmdSub:
    start: int
    end: int
    q: bool
    body: list[Item]


@dataclass(slots=True)
class Arith:
    start: int
    end: int
    q: bool
    expr: Word


@dataclass(slots=True)
class ProcSub:
    start: int
    end: int
    q: bool
    body: list[Item]
    out: bool


@dataclass(slots=True)
class Hole:
    """`<your_path>` left in a script for its user to fill in; bash would read it as redirections."""

    start: int
    end: int
    q: bool = True


Part = Lit | Param | CmdSub | Arith | ProcSub | Hole


@dataclass(slots=True)
class Word:
    """`lit` is set when the word is exactly these characters and nothing in it is special."""

    text: Text
    start: int
    end: int
    parts: list[Part]
    lit: str | None = None

    @property
    def src(self) -> str:
        return self.text.s[self.start : self.end]


@dataclass(slots=True)
class ArrayLit:
    start: int
    end: int
    items: list[tuple[Word | None, Word]]


@dataclass(slots=True)
class Assign:
    text: Text
    start: int
    end: int
    name: str
    sub: Word | None
    append: bool
    value: Word | ArrayLit | None


@dataclass(slots=True)
class Redir:
    """`op` is one of `> >> >| < <> <& >& &> &>> << <<- <<<`; a here-document's body is its `word`."""

    start: int
    end: int
    fd: str
    op: str
    word: Word


# --- commands ---


@dataclass(slots=True)
class Simple:
    text: Text
    start: int
    end: int
    assigns: list[Assign]
    words: list[Word | Assign]
    redirs: list[Redir]


@dataclass(slots=True)
class Pipeline:
    start: int
    end: int
    parts: list[Node]
    negate: bool


@dataclass(slots=True)
class AndOr:
    start: int
    end: int
    first: Node
    rest: list[tuple[str, Node]]


@dataclass(slots=True)
class Item:
    """One entry of a list: a command and whether `&` ends it."""

    node: Node
    background: bool


@dataclass(slots=True)
class Compound:
    start: int
    end: int
    redirs: list[Redir] = field(default_factory=list)


@dataclass(slots=True)
class Group(Compound):
    body: list[Item] = field(default_factory=list)
    subshell: bool = False


@dataclass(slots=True)
class If(Compound):
    branches: list[tuple[list[Item], list[Item]]] = field(default_factory=list)
    otherwise: list[Item] | None = None


@dataclass(slots=True)
class For(Compound):
    name: str = ""
    words: list[Word] | None = None
    body: list[Item] = field(default_factory=list)
    select: bool = False


@dataclass(slots=True)
class CFor(Compound):
    exprs: tuple[Word, Word, Word] | None = None
    body: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class While(Compound):
    cond: list[Item] = field(default_factory=list)
    body: list[Item] = field(default_factory=list)
    until: bool = False


@dataclass(slots=True)
class CaseItem:
    patterns: list[Word]
    body: list[Item]
    term: str


@dataclass(slots=True)
class Case(Compound):
    word: Word | None = None
    items: list[CaseItem] = field(default_factory=list)


@dataclass(slots=True)
class Function(Compound):
    name: str = ""
    body: Node | None = None


@dataclass(slots=True)
class ArithCommand(Compound):
    expr: Word | None = None


@dataclass(slots=True)
class Test:
    """Inside `[[ ]]`: `op` is a unary or binary operator, `!`, `&&`, `||` or "" (a lone word)."""

    op: str
    args: list[Word]
    kids: list[Test]


@dataclass(slots=True)
class Cond(Compound):
    test: Test | None = None


Node = Simple | Pipeline | AndOr | Group | If | For | CFor | While | Case | Function | ArithCommand | Cond
