"""What a plugin's function surely returns, and whether a list that it builds over its input can end up too short.

Everything here errs on the side of not knowing: a `Return` of kind `other` says nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from alula.run.plugin import Return, ReturnKind

from .plugin_body import NESTED, Body, FunctionNode, Locals, Scope

_NUMBER_CALLS = frozenset(("float", "int", "len", "bool", "hash", "ord", "statistics.mean", "statistics.median"))
_NUMBER_METHODS = frozenset(("item", "mean"))
DEEPEST = 60


def returns_of(body: Body, scope: Scope) -> tuple[Return, ...]:
    """What each `return` gives back. A function that never returns a value has one Return of kind `none` at its name."""
    local = body.local
    function = body.function
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    inputs = [name for name in names if name not in ("self", "cls")][:1]
    found: list[Return] = []
    for node, guards in _returns(function.body, []):
        guarded = any(_mentions(test, inputs) for test in guards)
        value = node.value if node.value is not None else ast.Constant(None)
        kind, size, keys, name, detail = _shape(value, local, inputs, scope, 0)
        found.append(Return(kind, scope.span(node), size, keys, name, detail, guarded))
    generator = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in body.nodes)
    if not found and not generator and not _always_raises(function.body):
        found.append(Return("none", scope.span(function)))
    return tuple(found)


def _returns(body: Sequence[ast.stmt], guards: list[ast.expr]) -> Iterator[tuple[ast.Return, list[ast.expr]]]:
    for node in body:
        if isinstance(node, ast.Return):
            yield node, guards
        elif isinstance(node, ast.If):
            yield from _returns(node.body, [*guards, node.test])
            yield from _returns(node.orelse, [*guards, node.test])
        elif not isinstance(node, NESTED):
            for blocks in _blocks(node):
                yield from _returns(blocks, guards)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block
    for handler in getattr(node, "handlers", []):
        yield handler.body
    for case in getattr(node, "cases", []):
        yield case.body


def _always_raises(body: Sequence[ast.stmt]) -> bool:
    """A body that is abstract or unfinished: `...`, `pass`, or ends by raising."""
    real = [node for node in body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    return not real or isinstance(real[-1], ast.Raise) or all(isinstance(node, ast.Pass) for node in real)


def _mentions(node: ast.AST, names: Iterable[str]) -> bool:
    wanted = set(names)
    return any(isinstance(child, ast.Name) and child.id in wanted for child in ast.walk(node))


_Shape = tuple[ReturnKind, int | None, tuple[str, ...], str, str]


def _shape(value: ast.expr, local: Locals, inputs: Sequence[str], scope: Scope, depth: int) -> _Shape:
    unknown: _Shape = ("other", None, (), "", "")
    if depth > 4:
        return unknown
    if isinstance(value, ast.Constant):
        if value.value is None:
            return ("none", None, (), "", "")
        return ("text" if isinstance(value.value, (str, bytes)) else "number", None, (), "", "")
    if isinstance(value, (ast.List, ast.Tuple)):
        if any(isinstance(item, ast.Starred) for item in value.elts):
            return unknown
        return ("list" if isinstance(value, ast.List) else "tuple", len(value.elts), (), "", "")
    if isinstance(value, ast.Dict):
        if any(key is None or not isinstance(key, ast.Constant) for key in value.keys):
            return unknown
        return ("dict", None, tuple(str(key.value) for key in value.keys if isinstance(key, ast.Constant)), "", "")
    if isinstance(value, ast.ListComp):
        return _filtered(value, inputs, unknown)
    if isinstance(value, ast.Name):
        return _named(value, local, inputs, scope, depth)
    if _is_number(value, local, scope, 0):
        return ("number", None, (), "", "")
    return unknown


def _filtered(value: ast.ListComp, inputs: Sequence[str], unknown: _Shape) -> _Shape:
    first = value.generators[0]
    if len(value.generators) == 1 and first.ifs and _over(first.iter, inputs):
        return ("filtered", None, (), "", ast.unparse(first.ifs[0]))
    return unknown


def _named(value: ast.Name, local: Locals, inputs: Sequence[str], scope: Scope, depth: int) -> _Shape:
    named: _Shape = ("name", None, (), value.id, "")
    once = local.single(value.id)
    if once is not None:
        if _is_empty_list(once):
            missing = _missing(local.body.function, value.id, inputs)
            return ("short", None, (), value.id, missing) if missing else named
        if _only_returned(local.body.function, value.id):
            shape = _shape(once, local, inputs, scope, depth + 1)
            return named if shape[0] == "other" else shape
        return named
    return ("number", None, (), "", "") if value.id in local.values and _is_number(value, local, scope, 0) else named


def _is_empty_list(node: ast.expr) -> bool:
    return (isinstance(node, ast.List) and not node.elts) or (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "list" and not node.args
    )


def _only_returned(function: FunctionNode, name: str) -> bool:
    """The name is read by `return` statements alone."""
    reads = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    return all(any(node is value for value in returned) for node in reads)


def _is_number(node: ast.expr, local: Locals, scope: Scope, depth: int) -> bool:
    """Surely one number, or one boolean."""
    if depth > DEEPEST:
        return False

    def also(child: ast.expr) -> bool:
        return _is_number(child, local, scope, depth + 1)

    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) or also(node.operand)
    if isinstance(node, ast.BinOp):
        return also(node.left) and also(node.right)
    if isinstance(node, ast.IfExp):
        return also(node.body) and also(node.orelse)
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.In, ast.NotIn, ast.Is, ast.IsNot)) for op in node.ops)
    if isinstance(node, ast.Name):
        values = local.values.get(node.id, [])
        return bool(values) and all(
            value is not None and not (isinstance(value, ast.Name) and value.id == node.id) and also(value) for value in values
        )
    if isinstance(node, ast.Call):
        name = scope.dotted(node.func)
        if name in _NUMBER_CALLS or name.startswith("math."):
            return True
        if name in ("round", "abs", "min", "max") and node.args:
            if len(node.args) > 1 or name in ("round", "abs"):
                return all(also(argument) for argument in node.args)
            return _of_numbers(node.args[0], also)
        if name == "sum" and len(node.args) == 1:
            return _of_numbers(node.args[0], also)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _NUMBER_METHODS:
            return not node.args and not node.keywords
    return False


def _of_numbers(node: ast.expr, number: Callable[[ast.expr], bool]) -> bool:
    return isinstance(node, (ast.GeneratorExp, ast.ListComp)) and number(node.elt)


# --- lists that grow in a loop over the input ---


def _over(node: ast.expr, inputs: Sequence[str]) -> bool:
    """An iteration that has one step for each input: `completions`, `zip(completions, …)`, `enumerate(…)`, `range(len(completions))`."""
    if isinstance(node, ast.Name):
        return node.id in inputs
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("zip", "enumerate", "tqdm"):
            return any(_over(argument, inputs) for argument in node.args)
        if node.func.id == "range" and len(node.args) == 1:
            inner = node.args[0]
            return isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "len" and _over_any(inner.args, inputs)
    return False


def _over_any(nodes: Sequence[ast.expr], inputs: Sequence[str]) -> bool:
    return any(isinstance(node, ast.Name) and node.id in inputs for node in nodes)


def _missing(function: FunctionNode, name: str, inputs: Sequence[str]) -> str:
    """How a step of the loop over the input can pass without an item for the list; empty where it cannot, or is not sure."""
    loops = [node for node in _straight(function.body) if isinstance(node, (ast.For, ast.AsyncFor)) and _over(node.iter, inputs)]
    growing = [loop for loop in loops if any(_is_append(node, name) for node in ast.walk(loop))]
    if len(growing) != 1:
        return ""
    loop = growing[0]
    appends = [node for node in ast.walk(function) if _is_append(node, name)]
    inside = [node for node in ast.walk(loop) if _is_append(node, name)]
    uses = sum(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(function))
    returned = sum(isinstance(node, ast.Return) and isinstance(node.value, ast.Name) and node.value.id == name for node in ast.walk(function))
    if len(appends) != len(inside) or uses != len(appends) + returned:
        return ""  # something else touches the list
    return _Steps(name).without(loop.body)


def _straight(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run whatever happens: those of the body and of its `with` and `try` blocks."""
    for node in body:
        yield node
        if isinstance(node, (ast.With, ast.AsyncWith, ast.Try)):
            yield from _straight(node.body)


def _is_append(node: ast.AST, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
    )


class _Steps:
    """The ways through one step of a loop, as pairs (items appended, reason of the last turn that avoided one)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unsure = False

    def without(self, body: Sequence[ast.stmt]) -> str:
        ends = self._run(body, {0: ""})
        counts = {**ends.done, **ends.fall}
        if self.unsure or not any(counts) or 0 not in counts:
            return ""
        return counts[0] or "some steps"

    def _run(self, body: Sequence[ast.stmt], start: Mapping[int, str]) -> _Ends:
        here = dict(start)
        done: dict[int, str] = {}
        for node in body:
            if not here:
                break
            ends = self._statement(node, here)
            done.update(ends.done)
            here = ends.fall
        return _Ends(here, done)

    def _statement(self, node: ast.stmt, here: dict[int, str]) -> _Ends:
        if isinstance(node, ast.Continue):
            return _Ends({}, here)
        if isinstance(node, (ast.Break, ast.Return, ast.Raise)):
            return _Ends({}, {})
        if isinstance(node, ast.If):
            return self._if(node, here)
        if isinstance(node, ast.Try):
            return self._try(node, here)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            return self._run(node.body, here)
        adds = sum(_is_append(child, self.name) for child in ast.walk(node))
        if adds and not isinstance(node, (ast.Expr, ast.Assign)):
            self.unsure = True  # inside a loop, a match or a function of its own
        return _Ends({min(count + adds, 2): reason for count, reason in here.items()}, {})

    def _if(self, node: ast.If, here: dict[int, str]) -> _Ends:
        reason = f"not ({ast.unparse(node.test)})"[:80]
        then = self._run(node.body, here)
        if node.orelse:
            other = self._run(node.orelse, here)
            if isinstance(node.orelse[0], ast.If) and len(node.orelse) == 1 and not self._has_else(node) and self._all_add(node):
                self.unsure = True  # an elif chain without else that may cover every case
        else:
            other = _Ends({count: known or reason for count, known in here.items()}, {})
        return _Ends({**then.fall, **other.fall}, {**then.done, **other.done})

    def _has_else(self, node: ast.If) -> bool:
        while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
            node = node.orelse[0]
        return bool(node.orelse)

    def _all_add(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.If):
            return True
        adds = any(_is_append(child, self.name) for statement in node.body for child in ast.walk(statement))
        return adds and all(self._all_add(child) for child in node.orelse)

    def _try(self, node: ast.Try, here: dict[int, str]) -> _Ends:
        body = self._run([*node.body, *node.orelse], here)
        fall, done = dict(body.fall), dict(body.done)
        for handler in node.handlers:
            caught = "an exception is caught"
            ends = self._run(handler.body, {count: known or caught for count, known in here.items()})
            fall.update({count: reason for count, reason in ends.fall.items() if count not in fall})
            done.update({count: reason for count, reason in ends.done.items() if count not in done})
        if node.finalbody:
            fall = self._run(node.finalbody, fall).fall
        return _Ends(fall, done)


@dataclass(frozen=True)
class _Ends:
    """Counts that reach the next statement, and counts at which the step is over."""

    fall: dict[int, str]
    done: dict[int, str]
