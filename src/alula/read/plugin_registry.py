"""What a plugin file puts into ms-swift's registries: `orms["x"] = X`, `update`, loops over a literal, decorators of its own."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alula.run.plugin import Registration, TargetKind

if TYPE_CHECKING:
    from alula.run.source import Span

    from .plugin_body import FunctionNode

REGISTRIES = ("orms", "prms", "rm_plugins", "multi_turns", "envs", "context_managers")
_READS = ("get", "keys", "items", "values", "pop", "copy")


@dataclass
class Names:
    """How names of the file are resolved."""

    imports: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)  # variables and attributes that hold an imported thing
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def dotted(self, node: ast.AST) -> str:
        """A name or attribute chain as a dotted name, imports resolved; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Call):
            inner = self.dotted(node.func)
            return ".".join([inner, *reversed(parts)]) if inner else ""
        if not isinstance(node, ast.Name):
            return ""
        parts.append(node.id)
        parts.reverse()
        for length in range(len(parts), 0, -1):
            head = ".".join(parts[:length])
            if head in self.holders:
                return ".".join([self.holders[head], *parts[length:]])
        return ".".join([self.imports.get(parts[0], parts[0]), *parts[1:]])


@dataclass
class _Registrar:
    """A function of the plugin that registers what it is given: `register("name")` as decorator, or `register("name", Class)`."""

    registry: str
    name_parameter: int
    class_parameter: int | None


class Registrations:
    """Finds what a file puts into ms-swift's registries."""

    def __init__(
        self, tree: ast.Module, nodes: Sequence[ast.AST], children: Callable[[ast.AST], list[ast.AST]], names: Names,
        span: Callable[[ast.AST], Span], classes: set[str], functions: set[str],
    ) -> None:  # fmt: skip
        self.tree = tree
        self.nodes = nodes
        self.children = children
        self.names = names
        self.span = span
        self.classes = classes
        self.functions = functions
        self.found: list[Registration] = []
        self.open = False
        self.handled: set[int] = set()
        self.registrars: dict[str, _Registrar] = {}

    def find(self) -> tuple[Registration, ...]:
        if any(self.registry(node) for node in self.nodes):
            self._statements(self.tree, {}, [])
        if self.registrars:
            for node in self.nodes:
                self._uses_of_registrars(node)
        self._other_uses()
        return tuple(sorted(self.found, key=lambda r: r.span.start))

    def registry(self, node: ast.AST) -> str:
        """The registry that an expression names, or an empty string."""
        plain = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if plain not in REGISTRIES and not plain.endswith("_map") and plain not in self.names.imports:
            return ""
        name = self.names.dotted(node)
        head, _, last = name.rpartition(".")
        known = last in REGISTRIES or last.endswith("_map")
        if not known or (not head and last in self.names.constants):
            return ""  # a dict of the plugin's own
        return last if not head or head.split(".")[0] == "swift" else ""

    def _statements(self, node: ast.AST, loop: Mapping[str, list[tuple[ast.expr, ast.expr | None]]], stack: list[FunctionNode]) -> None:
        for child in self.children(node):
            inner, around = loop, stack
            if isinstance(child, ast.For):
                inner = {**loop, **self._loop(child)}
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                around = [*stack, child]
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    if isinstance(target, ast.Subscript):
                        self._store(target, child.value, inner, around)
            elif isinstance(child, ast.AugAssign) and isinstance(child.op, ast.BitOr):
                self._update(child.target, [child.value], [], child)
            elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
                self._method(child, inner, around)
            self._statements(child, inner, around)

    def _loop(self, node: ast.For) -> dict[str, list[tuple[ast.expr, ast.expr | None]]]:
        """Loop variable -> its values, for loops over a literal; paired with the class for `.items()`."""
        iterated = node.iter
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute) and iterated.func.attr == "items":
            made = self._literal(iterated.func.value)
            if isinstance(made, ast.Dict):
                pairs = [(key, value) for key, value in zip(made.keys, made.values, strict=True) if key is not None]
        else:
            made = self._literal(iterated)
            if isinstance(made, (ast.List, ast.Tuple)):
                if isinstance(node.target, ast.Name):
                    return {node.target.id: [(item, None) for item in made.elts]}
                pairs = [(item.elts[0], item.elts[1]) for item in made.elts if isinstance(item, (ast.Tuple, ast.List)) and len(item.elts) == 2]
        if pairs and isinstance(node.target, (ast.Tuple, ast.List)) and len(node.target.elts) == 2:
            key, value = node.target.elts
            if isinstance(key, ast.Name) and isinstance(value, ast.Name):
                return {key.id: [*pairs]}
        return {}

    def _literal(self, node: ast.expr) -> ast.expr:
        return self.names.constants.get(node.id, node) if isinstance(node, ast.Name) else node

    def _text(self, node: ast.expr) -> str | None:
        node = self._literal(node)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def _store(
        self, target: ast.Subscript, value: ast.expr, loop: Mapping[str, list[tuple[ast.expr, ast.expr | None]]], stack: list[FunctionNode]
    ) -> None:
        registry = self.registry(target.value)
        if registry:
            self.handled.add(id(target.value))
            self._register(registry, target.slice, value, target, loop, stack)

    def _register(
        self, registry: str, key: ast.expr, value: ast.expr, at: ast.AST, loop: Mapping[str, list[tuple[ast.expr, ast.expr | None]]],
        stack: list[FunctionNode],
    ) -> None:  # fmt: skip
        if isinstance(key, ast.Name) and key.id in loop:
            for item, paired in loop[key.id]:
                name = self._text(item)
                if name is None:
                    self.open = True
                else:
                    self._add(registry, name, paired if paired is not None else value, item)
            return
        if isinstance(key, ast.Name) and stack:
            registrar = self._registrar(registry, key.id, value, stack)
            if registrar:
                return
        name = self._text(key)
        if name is None:
            self.open = True
        else:
            self._add(registry, name, value, at)

    def _registrar(self, registry: str, key: str, value: ast.expr, stack: list[FunctionNode]) -> bool:
        for function in stack:
            names = [argument.arg for argument in function.args.args]
            if key in names:
                given = value.id if isinstance(value, ast.Name) else ""
                self.registrars[function.name] = _Registrar(registry, names.index(key), names.index(given) if given in names else None)
                return True
        return False

    def _uses_of_registrars(self, node: ast.AST) -> None:
        for decorator in getattr(node, "decorator_list", []):
            known = self.registrars.get(decorator.func.id) if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) else None
            if known is not None and isinstance(decorator, ast.Call):
                self.handled.add(id(decorator))
                self._registrar_call(known, decorator, getattr(node, "name", ""))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and id(node) not in self.handled:
            known = self.registrars.get(node.func.id)
            if known is not None:
                self._registrar_call(known, node, "")

    def _registrar_call(self, known: _Registrar, call: ast.Call, decorated: str) -> None:
        given = call.args[known.name_parameter] if len(call.args) > known.name_parameter else next((k.value for k in call.keywords), None)
        name = self._text(given) if given is not None else None
        if name is None:
            self.open = True
            return
        at = known.class_parameter
        value: ast.expr = ast.Name(decorated, ast.Load()) if decorated else ast.Constant(None)
        if not decorated and at is not None and len(call.args) > at:
            value = call.args[at]
        self._add(known.registry, name, value, call)

    def _method(self, call: ast.Call, loop: Mapping[str, list[tuple[ast.expr, ast.expr | None]]], stack: list[FunctionNode]) -> None:
        assert isinstance(call.func, ast.Attribute)
        registry = self.registry(call.func.value)
        if not registry:
            return
        self.handled.add(id(call.func.value))
        if call.func.attr == "update":
            self._update(call.func.value, call.args, call.keywords, call)
        elif call.func.attr in ("setdefault", "__setitem__") and len(call.args) == 2:
            self._register(registry, call.args[0], call.args[1], call, loop, stack)
        elif call.func.attr not in _READS:
            self.open = True

    def _update(self, target: ast.AST, values: list[ast.expr], keywords: list[ast.keyword], at: ast.AST) -> None:
        registry = self.registry(target)
        if not registry:
            return
        self.handled.add(id(target))
        for value in values:
            made = self._literal(value)
            if not isinstance(made, ast.Dict):
                self.open = True
                continue
            for key, item in zip(made.keys, made.values, strict=True):
                name = self._text(key) if key is not None else None
                if name is None or key is None:
                    self.open = True
                else:
                    self._add(registry, name, item, key)
        for keyword in keywords:
            if keyword.arg is None:
                self.open = True
            else:
                self._add(registry, keyword.arg, keyword.value, at)

    def _add(self, registry: str, name: str, value: ast.expr, at: ast.AST) -> None:
        kind: TargetKind = "unknown"
        target = ""
        if isinstance(value, ast.Lambda):
            kind = "lambda"
        elif isinstance(value, ast.Name):
            if value.id in self.classes:
                kind, target = "class", value.id
            elif value.id in self.functions:
                kind, target = "function", value.id
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in self.classes:
            kind, target = "instance", value.func.id
        self.found.append(Registration(registry, name, self.span(at), target, kind))

    def _other_uses(self) -> None:
        """A registry that is handed on, or stored under another name, may get names that are not seen here."""
        left = [node for node in self.nodes if id(node) not in self.handled and self.registry(node)]
        parents = {id(child): parent for parent in (self.nodes if left else ()) for child in self.children(parent)}
        for node in left:
            parent = parents.get(id(node))
            if isinstance(parent, ast.Attribute) and self.registry(parent):
                continue
            harmless = isinstance(parent, (ast.Compare, ast.Subscript)) or (isinstance(parent, ast.Attribute) and parent.attr in _READS)
            if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in ("len", "print", "list", "sorted", "set"):
                harmless = True
            if not harmless:
                self.open = True
