"""Runs a syntax tree without running anything: control flow, and what happens where a condition cannot be known.

The likely side of an open condition is followed; the other side is followed too, on a copy of the state, and the two are joined:
commands found there are `maybe`, variables that end up different have alternatives.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from . import patterns
from .arith import ArithmeticFault, UnknownNumber
from .conditions import Conditions
from .state import FAIL, LIKELY, OK, UNKNOWN_OUTPUT, UNLIKELY, State, Status, Stream, Var, join_states
from .syntax import AndOr, ArithCommand, Case, CFor, Cond, For, Function, Group, If, Item, Node, Pipeline, Redir, Simple, While, Word
from .text import Seg, Value, likely, soft, text_of, unknown

if TYPE_CHECKING:
    from alula.run.job import Command

    from .expand import Field

MAX_STEPS = 40_000  # about two seconds; a script with a thousand turns of twenty commands fits
MAX_TURNS = 1000
MAX_CALLS = 20


class Leave(Exception):
    """`exit`, `return`, `break` or `continue` on its way to what it leaves."""

    def __init__(self, kind: str, status: Status = OK, count: int = 1) -> None:
        super().__init__(kind)
        self.kind = kind
        self.status = status
        self.count = count

    @property
    def gives_up(self) -> bool:
        """An `exit`, or a `return` that says failure: what a script does when something it needs is not there."""
        return self.kind == "exit" or (self.kind == "return" and not self.status.ok)


class Exhausted(Exception):
    """The script takes more steps than it is worth."""


@dataclass(slots=True)
class Scope:
    """What `exit`, `return` or `break` leaves.

    `pending`: likely ends, while the less likely rest is still being followed. `escapes`: good ends that less likely branches met; when
    the likely path gives up, one of them is how the script goes on (a loop that waits for a server).
    """

    kind: str
    pending: list[tuple[State, Leave]] = field(default_factory=list)
    escapes: list[tuple[State, Leave]] = field(default_factory=list)


class Interpreter(Conditions):
    """Control flow. The simple commands are in `commands`."""

    def __init__(self, state: State, exploring: bool) -> None:
        self.state = state
        self.exploring = exploring
        self.commands: list[Command] = []
        self.maybe = 0
        self.loops = 0
        self.background = 0
        self.steps = 0
        self.turns = 0
        self.calls = 0
        self.waits = 0  # how often it slept
        self.escapes = 0  # ends that less likely branches met
        self.scopes: list[Scope] = []
        self.vanished: set[tuple[str, int]] = set()
        self.locals: list[dict[str, Var | None]] = []
        self.files: dict[str, Value | None] = {}

    @abstractmethod
    def simple(self, node: Simple) -> Status: ...

    @abstractmethod
    def redirected(self, redirs: list[Redir], action: Callable[[], Status]) -> Status: ...

    @abstractmethod
    def set_scalar(self, name: str, value: Value, kind: str = "variable") -> None: ...

    def spend(self, steps: int) -> None:
        """Count what is done, in simple commands."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise Exhausted

    @property
    def uncertain(self) -> bool:
        return self.maybe > 0 or any(scope.pending for scope in self.scopes)

    # --- running ---

    def run(self, node: Node) -> Status:
        if isinstance(node, Simple):
            return self.simple(node)
        if isinstance(node, AndOr):
            return self._and_or(node)
        if isinstance(node, Pipeline):
            return self._pipeline(node)
        if node.redirs and not isinstance(node, Function):
            return self.redirected(node.redirs, lambda: self._compound(node))
        return self._compound(node)

    def run_items(self, items: list[Item]) -> Status:
        status = OK
        for item in items:
            if item.background:
                self.background += 1
                try:
                    self.isolated(partial(self.run, item.node))
                finally:
                    self.background -= 1
                status = OK
            else:
                status = self.run(item.node)
            self.state.status = status
        return status

    def _compound(self, node: Node) -> Status:
        if isinstance(node, Group):
            return self.isolated(lambda: self.run_items(node.body)) if node.subshell else self.run_items(node.body)
        if isinstance(node, If):
            return self._if(node, 0)
        if isinstance(node, For):
            return self._for(node)
        if isinstance(node, While):
            return self._while(node)
        if isinstance(node, Case):
            return self._case(node)
        if isinstance(node, Cond):
            assert node.test is not None
            return self.cond(node.test)
        if isinstance(node, ArithCommand):
            assert node.expr is not None
            return self._arithmetic_command(node.expr)
        if isinstance(node, CFor):
            return self._cfor(node)
        if isinstance(node, Function):
            assert node.body is not None
            self.state.functions[node.name] = node
        return OK

    def _attempt(self, action: Callable[[], Status]) -> tuple[Status, Leave | None]:
        try:
            return action(), None
        except Leave as leave:
            return leave.status, leave

    def branch(self, probable: Callable[[], Status], other: Callable[[], Status]) -> Status:
        """Follow both sides of an open condition."""
        self.spend(3)
        other_state = self.state.fork()
        count = len(self.commands)
        a, a_leave = self._attempt(probable)
        a_state, found = self.state, len(self.commands) > count
        self.state = other_state
        self.maybe += 1
        try:
            b, b_leave = self._attempt(other)
        finally:
            self.maybe -= 1
        b_state, self.state = self.state, a_state
        if b_leave is not None:
            self.escapes += b_leave.kind != "continue"
            if a_leave is None:
                if not b_leave.gives_up and b_leave.kind != "continue":
                    self._scope_of(b_leave).escapes.append((b_state, b_leave))
                return a
            if a_leave.gives_up and not b_leave.gives_up:
                self.state = b_state
                raise b_leave
            raise a_leave
        if a_leave is None:
            self.state = join_states(a_state, b_state)
            return Status(a.code, a.sure and b.sure and a.code == b.code)
        if a_leave.kind in ("break", "continue"):
            raise a_leave
        self.state = b_state
        if not (a_leave.gives_up and not found):  # not a mere refusal: what follows happens only on the other path
            self._scope_of(a_leave).pending.append((a_state, a_leave))
        return b

    def _scope_of(self, leave: Leave) -> Scope:
        kinds = {"return": ("function",), "break": ("loop",), "continue": ("loop",)}.get(leave.kind, ("shell",))
        for scope in reversed(self.scopes):
            if scope.kind in kinds:
                return scope
        return self.scopes[0]

    def scoped(self, kind: str, action: Callable[[], Status]) -> Status:
        """Run what `return` (a function, a sourced file) or `exit` (a shell) leaves."""
        scope, waits = Scope(kind), self.waits
        self.scopes.append(scope)
        try:
            status, leave = self._attempt(action)
        finally:
            self.scopes.pop()
        failed = leave.gives_up if leave is not None else kind == "function" and not status.ok and status.sure
        if failed and scope.escapes:
            if self.waits > waits or (leave is not None and leave.kind == "exit"):
                self.state = scope.escapes[0][0]
                return LIKELY
            if leave is None or leave.kind == "return":
                return UNLIKELY
        if leave is not None and not self._ends(kind, leave):
            if not scope.pending:
                raise leave
            leave = None
            self.state = scope.pending[0][0]
        if scope.pending:
            first, first_leave = scope.pending[0]
            self.state = join_states(first, self.state) if leave is None or not leave.gives_up else first
            return first_leave.status
        return status if leave is None else leave.status

    @staticmethod
    def _ends(kind: str, leave: Leave) -> bool:
        return leave.kind == "return" or (kind == "shell" and leave.kind == "exit") or (kind == "shell" and leave.kind in ("break", "continue"))

    def isolated(self, action: Callable[[], Status]) -> Status:
        """In a subshell: what it changes is lost, what it prints is not."""
        self.spend(3)
        base = self.state
        self.state = base.fork()
        try:
            return self.scoped("shell", action)
        finally:
            base.out = self.state.out
            self.state = base

    def capture(self, action: Callable[[], Status], stdin: Stream | None = None) -> tuple[Value | None, Status]:
        """What a subshell prints (None: not known), and its status."""
        self.spend(3)
        base = self.state
        self.state = base.fork()
        self.state.out = []
        if stdin is not None:
            self.state.stdin = stdin
        try:
            status = self.scoped("shell", action)
            out = self.state.out or []
        finally:
            self.state = base
        if any(seg is UNKNOWN_OUTPUT for seg in out):
            return None, status
        return tuple(out), status

    # --- lists and pipelines ---

    def _and_or(self, node: AndOr) -> Status:
        status = self.run(node.first)
        for op, part in node.rest:
            self.state.status = status
            wanted = status.ok == (op == "&&")
            if status.sure:
                if wanted:
                    status = self.run(part)
                continue
            if wanted:
                status = self.branch(partial(self.run, part), partial(Status, 1 - min(status.code, 1), False))
            else:
                status = self.branch(status.itself, partial(self._after, part, 0 if op == "&&" else 1))
        return status

    def _after(self, part: Node, code: int) -> Status:
        """Run what follows `&&` or `||` on the less likely path, where `$?` is what leads there."""
        self.state.status = Status(code, False)
        return self.run(part)

    def _pipeline(self, node: Pipeline) -> Status:
        if len(node.parts) == 1:
            status = self.run(node.parts[0])
        else:
            stream = self.state.stdin
            sure = True
            status = OK
            for part in node.parts[:-1]:
                value, status = self.capture(partial(self.run, part), stream)
                sure = sure and status.sure
                stream = Stream(value)
            last = node.parts[-1]

            def final() -> Status:
                self.state.stdin = stream
                return self.run(last)

            status = self.isolated(final)
            status = Status(status.code, status.sure and (sure or not status.ok or stream.value is not None))
        if node.negate:
            return Status(0 if not status.ok else 1, status.sure)
        return status

    # --- branches ---

    def _if(self, node: If, at: int) -> Status:
        if at >= len(node.branches):
            return self.run_items(node.otherwise) if node.otherwise is not None else OK
        cond, body = node.branches[at]
        status = self.run_items(cond)
        if status.sure:
            return self.run_items(body) if status.ok else self._if(node, at + 1)
        if status.ok:
            return self.branch(lambda: self.run_items(body), lambda: self._if(node, at + 1))

        def taken() -> Status:
            self.state.status = LIKELY
            return self.run_items(body)

        return self.branch(lambda: self._if(node, at + 1), taken)

    def _case(self, node: Case) -> Status:
        value = self.value(node.word, compared=True)
        open_word = unknown(value)
        text = text_of(likely(value))
        sure = not (soft(value) or (self.exploring and not text))
        chosen = -1
        others: list[int] = []
        default = -1
        for at, item in enumerate(node.items):
            for word in item.patterns:
                pattern, pattern_sure = self.pattern(word)
                if pattern == "*" and default < 0:
                    default = at
                hit = (pattern == "*") if open_word else patterns.matches(pattern, text)
                if hit and chosen < 0:
                    chosen = at
                elif not (sure and pattern_sure) and at not in others and at != chosen:
                    others.append(at)
            if chosen >= 0 and sure:
                break
        others = [at for at in others if at != chosen]
        if not others:
            return self._case_body(node, chosen)

        def nested(rest: list[int]) -> Status:
            if not rest:
                return self._case_body(node, chosen)
            return self.branch(lambda: nested(rest[:-1]), lambda: self._case_body(node, rest[-1]))

        return nested(others[:30])

    def _case_body(self, node: Case, at: int) -> Status:
        status = OK
        while 0 <= at < len(node.items):
            item = node.items[at]
            status = self.run_items(item.body)
            if item.term == ";&":
                at += 1
                continue
            if item.term == ";;&":
                value = text_of(self.value(node.word))
                at = next((n for n in range(at + 1, len(node.items)) if any(patterns.matches(self.pattern(w)[0], value) for w in node.items[n].patterns)), -1)
                continue
            break
        return status

    # --- loops ---

    def _turn(self, body: list[Item], scope: Scope) -> tuple[Status, bool]:
        """One turn of a loop: its status, and whether the loop ends with it."""
        self.turns += 1
        self.loops += 1
        waits = self.waits
        pending = sum(len(item.pending) for item in self.scopes)
        self.scopes.append(scope)
        try:
            status = self.run_items(body)
        except Leave as leave:
            if leave.gives_up and scope.escapes:
                self.state = scope.escapes[0][0]
                return LIKELY, True
            if leave.kind not in ("break", "continue"):
                raise
            if leave.count > 1:
                leave.count -= 1
                raise
            return leave.status, leave.kind == "break"
        finally:
            self.loops -= 1
            self.scopes.pop()
        if scope.escapes and self.waits > waits:  # it waits for something: at last it comes
            self.state = scope.escapes[0][0]
            return LIKELY, True
        # once the likely path has left through `return` or `exit`, another turn finds nothing new
        return status, sum(len(item.pending) for item in self.scopes) > pending or self.turns > 5 * MAX_TURNS

    def _for(self, node: For) -> Status:
        status, scope = OK, Scope("loop")
        if node.words is None:
            fields = self.fields_of_args()
        else:
            fields = [field for word in node.words for field in self.fields(word)]
        if node.select:
            fields = fields[:1]
        if self.exploring and not fields:  # over arguments that nobody gave
            self.set_scalar(node.name, (Seg("", soft=True),), "loop")
            return self.branch(lambda: OK, lambda: self._turn(node.body, scope)[0])
        for found in fields[:MAX_TURNS]:
            value = self.from_field(found)
            self.set_scalar(node.name, value, "loop")
            if found.maybe > 1:
                ended = False

                def once() -> Status:
                    return self._turn(node.body, scope)[0]

                status = self.branch(lambda: OK, once)
            else:
                status, ended = self._turn(node.body, scope)
            if ended:
                break
        return status

    @abstractmethod
    def fields_of_args(self) -> list[Field]:
        """The positional arguments as words."""

    def _while(self, node: While) -> Status:
        status, scope = OK, Scope("loop")
        first_turn = 0
        endless = _is_constant(node.cond)
        for turn in range(MAX_TURNS):
            escapes = self.escapes
            before, where, read = dict(self.state.vars), self.state.cwd, self.state.stdin.at
            self.loops += 1
            try:
                cond = self.run_items(node.cond)
            except Leave as leave:
                if leave.kind in ("break", "continue") and leave.count == 1:
                    return OK
                raise
            finally:
                self.loops -= 1
            enters = cond.ok != node.until
            if not cond.sure:
                def body() -> Status:
                    return self._turn(node.body, scope)[0]

                return self.branch(body, lambda: OK) if enters else self.branch(lambda: OK, body)
            if not enters:
                return status
            status, ended = self._turn(node.body, scope)
            if turn == 0:
                first_turn = len(self.commands)
            if ended or (endless and self.escapes > escapes):
                return status
            after = self.state.vars
            if (where, read) == (self.state.cwd, self.state.stdin.at) and len(after) == len(before) and all(after.get(name) is var for name, var in before.items()):
                return status  # the next turn would be just like this one
        del self.commands[first_turn:]  # it never ends: one turn says what it starts
        return status

    def _cfor(self, node: CFor) -> Status:
        assert node.exprs is not None
        start, cond, step = node.exprs
        status, scope = OK, Scope("loop")
        self._arithmetic_command(start)
        for _ in range(MAX_TURNS):
            test = self._arithmetic_command(cond) if cond.parts and text_of(self.value(cond)).strip() else OK
            if not test.sure:
                return self.branch(lambda: self._turn(node.body, scope)[0], lambda: OK)
            if not test.ok:
                return status
            status, ended = self._turn(node.body, scope)
            if ended:
                return status
            self._arithmetic_command(step)
        return status

    def _arithmetic_command(self, expr: Word) -> Status:
        value = self.value(expr)
        if unknown(value):
            return self._open_number(text_of(value))
        try:
            result, doubtful = self.calculate(text_of(likely(value)))
        except UnknownNumber:
            return self._open_number(text_of(value))
        except ArithmeticFault:
            return FAIL
        return Status(0 if result else 1, not (doubtful or soft(value)))

    @staticmethod
    def _open_number(text: str) -> Status:
        return LIKELY if ">" in text and "==" not in text else UNLIKELY

    # --- functions ---

    def call(self, function: Function, args: tuple[Value, ...]) -> Status:
        if self.calls >= MAX_CALLS:
            return LIKELY
        state = self.state
        saved = (state.args, state.function)
        self.locals.append({})
        self.calls += 1
        state.args, state.function = args, function.name
        body = function.body
        assert body is not None
        try:
            if function.redirs:
                return self.redirected(function.redirs, lambda: self.scoped("function", lambda: self.run(body)))
            return self.scoped("function", lambda: self.run(body))
        finally:
            self.calls -= 1
            self.state.args, self.state.function = saved
            for local, var in self.locals.pop().items():
                if var is None:
                    self.state.vars.pop(local, None)
                else:
                    self.state.vars[local] = var


def _is_constant(cond: list[Item]) -> bool:
    """`while true`, `while :`."""
    node = cond[0].node if len(cond) == 1 else None
    return isinstance(node, Simple) and len(node.words) == 1 and isinstance(node.words[0], Word) and node.words[0].lit in ("true", ":", "false")
