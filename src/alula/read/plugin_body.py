"""What the body of a plugin's function surely does: its calls, the requests it rebuilds, loops without an end."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from alula.run.plugin import Call

if TYPE_CHECKING:
    from alula.run.source import Span

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_AWAITERS = frozenset(("gather", "wait_for", "create_task", "ensure_future", "to_thread", "run_in_executor", "wait", "as_completed", "run"))


@dataclass(frozen=True)
class Scope:
    """How names and places of one file are resolved."""

    dotted: Callable[[ast.AST], str]
    span: Callable[[ast.AST], Span]
    children: Callable[[ast.AST], list[ast.AST]]


class Body:
    """One function, its own nodes (without those of functions and classes inside it) and its local variables, each made once."""

    def __init__(self, function: FunctionNode, scope: Scope) -> None:
        self.function = function
        self.nodes: list[ast.AST] = []
        todo: list[ast.AST] = list(reversed(function.body))
        while todo:
            node = todo.pop()
            self.nodes.append(node)
            if not isinstance(node, NESTED):
                todo.extend(reversed(scope.children(node)))

    @cached_property
    def local(self) -> Locals:
        return Locals(self)


# --- calls ---


def calls_of(function: FunctionNode, scope: Scope) -> tuple[Call, ...]:
    found: list[Call] = []
    todo: list[tuple[ast.AST, bool, bool]] = [(node, False, False) for node in reversed(function.body)]
    while todo:
        node, awaited, looped = todo.pop()
        if isinstance(node, ast.Call):
            name = scope.dotted(node.func)
            keywords = frozenset(keyword.arg or "**" for keyword in node.keywords)
            if name:
                found.append(Call(name, scope.span(node), keywords, len(node.args), awaited, looped, _device(node)))
            if name.rsplit(".", 1)[-1] in _AWAITERS:
                awaited = True
        elif isinstance(node, ast.Await):
            awaited = True
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While, *_COMPREHENSIONS)):
            looped = True
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        elif isinstance(node, ast.stmt):
            awaited = False
        for child in reversed(scope.children(node)):
            todo.append((child, awaited and not isinstance(child, ast.stmt), looped))
    return tuple(found)


def _device(node: ast.Call) -> str | None:
    """The numbered device that a call names."""
    last = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("device", "device_map"))]
    for value in given:
        if isinstance(value, ast.Constant):
            if isinstance(value.value, str) and value.value.startswith(("cuda:", "npu:")):
                return value.value
            if last == "cuda" and isinstance(value.value, int) and not isinstance(value.value, bool):
                return f"cuda:{value.value}"
    return None


# --- local variables ---


class Locals:
    """Assignments to plain names in one function."""

    def __init__(self, body: Body) -> None:
        self.values: dict[str, list[ast.expr | None]] = {}
        self.body = body
        for node in body.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._target(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._target(node.target, node.value)
            elif isinstance(node, ast.AugAssign):
                self._target(node.target, node.value if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)) else None)
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
                self._target(node.target, None)
            elif isinstance(node, ast.NamedExpr):
                self._target(node.target, node.value)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                for item in node.items:
                    if item.optional_vars is not None:
                        self._target(item.optional_vars, None)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                for name in node.names:
                    self.values.setdefault(name, []).append(None)

    def _target(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self._target(item, None)
        elif isinstance(target, ast.Starred):
            self._target(target.value, None)

    def single(self, name: str) -> ast.expr | None:
        """The expression of a name that is assigned exactly once."""
        values = self.values.get(name, [])
        return values[0] if len(values) == 1 else None


# --- requests and loops ---


def rebuilds_of(body: Body, scope: Scope) -> tuple[Span, ...]:
    """Places where a request's messages become a new literal list that holds none of the old messages."""
    if not any(getattr(node, "attr", getattr(node, "arg", "")) == "messages" for node in body.nodes):
        return ()
    tainted = {"messages"}
    for node in body.nodes:
        if isinstance(node, ast.Assign) and _holds_history(node.value, tainted):
            tainted.update(target.id for target in node.targets if isinstance(target, ast.Name))
    found: list[Span] = []
    local = body.local
    for node in body.nodes:
        if isinstance(node, ast.Call):
            name = scope.dotted(node.func).rsplit(".", 1)[-1]
            given = next((keyword.value for keyword in node.keywords if keyword.arg == "messages"), None)
            if given is not None and name in ("RolloutInferRequest", "InferRequest", "replace") and _is_new(given, tainted, local):
                found.append(scope.span(node))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and target.attr == "messages" and _is_new(node.value, tainted, local):
                    found.append(scope.span(node))
    return tuple(found)


def _is_new(value: ast.expr, tainted: set[str], local: Locals) -> bool:
    if isinstance(value, ast.Name):
        once = local.single(value.id)
        return once is not None and isinstance(once, ast.List) and value.id not in tainted and _never_extended(local.body, value.id)
    return isinstance(value, ast.List) and not _holds_history(value, tainted)


def _never_extended(body: Body, name: str) -> bool:
    return not any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name and node.attr in ("extend", "append", "insert")
        for node in body.nodes
    )


def _holds_history(value: ast.AST, tainted: set[str]) -> bool:
    """Whole old messages, not just their text: an attribute `.messages` or a variable that came from it, outside a content string."""
    for node in ast.walk(value):
        if isinstance(node, ast.Attribute) and node.attr == "messages":
            return True
        if isinstance(node, ast.Name) and node.id in tainted:
            return True
    return False


def endless_of(body: Body, scope: Scope) -> tuple[Span, ...]:
    """`while True:` loops that nothing leaves."""
    found: list[Span] = []
    for node in body.nodes:
        if isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and node.test.value:
            if not any(_leaves(child) for child in node.body):
                found.append(scope.span(node))
    return tuple(found)


def _leaves(node: ast.AST, inner: bool = False) -> bool:
    if isinstance(node, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)) or (isinstance(node, ast.Break) and not inner):
        return True
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("exit", "_exit"):
        return True
    if isinstance(node, NESTED):
        return False
    deeper = inner or isinstance(node, (ast.For, ast.While, ast.AsyncFor))
    return any(_leaves(child, deeper) for child in ast.iter_child_nodes(node))


def assigns_of(body: Body) -> frozenset[str]:
    return frozenset(
        target.slice.value
        for node in body.nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    )


def mentions_of(body: Body) -> frozenset[str]:
    names = {node.id for node in body.nodes if isinstance(node, ast.Name)}
    return frozenset(names | {node.attr for node in body.nodes if isinstance(node, ast.Attribute)})
