"""A set of wheels as one importable-looking tree of syntax: name resolution and evaluation of constant expressions."""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Unknown(Exception):
    """An expression whose value cannot be known from the source."""


@dataclass(frozen=True)
class Place:
    """What a name stands for: a definition in a module of the tree, or something outside of it.

    `node` is a ClassDef, a FunctionDef, or the expression assigned; None when `module` (and `name`) lie outside the tree, or name a module.
    """

    module: str
    name: str
    node: ast.AST | None = None


@dataclass
class Module:
    name: str
    path: str
    package: str
    tree: ast.Module
    bindings: dict[str, list[ast.AST]] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)
    lazy: dict[str, str] = field(default_factory=dict)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when a module or class body runs, whichever branch is taken."""
    for node in body:
        yield node
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from _statements(getattr(node, name, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)


class Tree:
    """The Python files of some wheels or folders, parsed on demand."""

    def __init__(self, *origins: Path) -> None:
        self._files: dict[str, bytes] = {}
        for origin in origins:
            if origin.is_dir():
                for path in origin.rglob("*.py"):
                    self._files[path.relative_to(origin).as_posix()] = path.read_bytes()
                continue
            with zipfile.ZipFile(origin) as wheel:
                for entry in wheel.namelist():
                    if entry.endswith((".py", "/METADATA")):
                        self._files[entry] = wheel.read(entry)
        self._modules: dict[str, Module | None] = {}

    def files(self, under: str, suffix: str = ".py") -> list[str]:
        return sorted(path for path in self._files if path.startswith(under) and path.endswith(suffix))

    def text(self, path: str) -> str:
        return self._files[path].decode("utf-8")

    def metadata(self, distribution: str) -> str:
        """The METADATA of a wheel, by the beginning of its dist-info folder's name."""
        for path in self._files:
            if path.startswith(distribution) and path.endswith(".dist-info/METADATA"):
                return self.text(path)
        raise LookupError(f"no metadata of {distribution}")

    def module_of(self, path: str) -> Module:
        name = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        module = self.module(name)
        assert module is not None, path
        return module

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            self._modules[name] = self._parse(name)
        return self._modules[name]

    def _parse(self, name: str) -> Module | None:
        base = name.replace(".", "/")
        candidates = {f"{base}/__init__.py": name, f"{base}.py": name.rpartition(".")[0]}
        path = next((candidate for candidate in candidates if candidate in self._files), None)
        if path is None:
            return None
        module = Module(name, path, candidates[path], ast.parse(self.text(path)))
        for node in _statements(module.tree.body):
            self._bind(module, node)
        return module

    def _bind(self, module: Module, node: ast.stmt) -> None:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            module.bindings.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ImportFrom):
            if any(alias.name == "*" for alias in node.names):
                module.stars.append(node)
            for alias in node.names:
                module.bindings.setdefault(alias.asname or alias.name, []).append(node)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.bindings.setdefault(alias.asname or alias.name.split(".")[0], []).append(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    module.bindings.setdefault(target.id, []).append(node.value)
                    if target.id == "_import_structure" and isinstance(node.value, ast.Dict):
                        self._lazy(module, node.value)
                elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == "_import_structure":
                    self._lazy(module, ast.Dict(keys=[target.slice], values=[node.value]))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            module.bindings.setdefault(node.target.id, []).append(node.value)

    def _lazy(self, module: Module, table: ast.Dict) -> None:
        for key, names in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(names, ast.List):
                for item in names.elts:
                    if isinstance(item, ast.Constant):
                        module.lazy.setdefault(str(item.value), str(key.value))

    @staticmethod
    def _absolute(module: Module, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.package.split(".")
        parts = parts[: len(parts) - (node.level - 1)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def resolve(self, module: Module, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Place:
        """What `name` stands for at the top level of `module`; raises `Unknown` when nothing binds it."""
        key = (module.name, name)
        if key in seen:
            raise Unknown(f"{name} in {module.name} is defined by itself")
        seen = seen | {key}
        for node in module.bindings.get(name, ()):
            try:
                if isinstance(node, ast.ImportFrom):
                    alias = next(a for a in node.names if (a.asname or a.name) == name)
                    return self.member(self._absolute(module, node), alias.name, seen)
                if isinstance(node, ast.Import):
                    alias = next(a for a in node.names if name in (a.asname, a.name.split(".")[0]))
                    return Place(alias.name if alias.asname else name, "")
                if isinstance(node, ast.Name) and node.id != name:
                    return self.resolve(module, node.id, seen)
                return Place(module.name, name, node)
            except Unknown:
                continue
        for star in module.stars:
            target = self.module(self._absolute(module, star))
            if target is not None:
                try:
                    return self.resolve(target, name, seen)
                except Unknown:
                    continue
        if name in module.lazy:
            return self.member(f"{module.package}.{module.lazy[name]}", name, seen)
        raise Unknown(f"{name} is not defined in {module.name}")

    def member(self, module_name: str, name: str, seen: frozenset[tuple[str, str]] = frozenset()) -> Place:
        """What `from module_name import name` gives; a `Place` without node when the module lies outside the tree."""
        module = self.module(module_name)
        if module is None:
            return Place(module_name, name)
        try:
            return self.resolve(module, name, seen)
        except Unknown:
            if self.module(f"{module_name}.{name}") is not None:
                return Place(f"{module_name}.{name}", "")
            raise

    def lookup(self, module: Module, expression: ast.expr) -> Place:
        """What a dotted expression stands for (`a`, `a.b`)."""
        if isinstance(expression, ast.Name):
            return self.resolve(module, expression.id)
        if isinstance(expression, ast.Attribute):
            base = self.lookup(module, expression.value)
            if not base.name:
                return self.member(base.module, expression.attr)
            if isinstance(base.node, ast.ClassDef):
                return Place(base.module, f"{base.name}.{expression.attr}", self._class_attribute(base, expression.attr))
            return Place(base.module, f"{base.name}.{expression.attr}")
        raise Unknown(ast.unparse(expression))

    def _class_attribute(self, base: Place, attribute: str) -> ast.AST:
        assert isinstance(base.node, ast.ClassDef)
        for node in base.node.body:
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == attribute for t in node.targets):
                return node.value
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == attribute and node.value:
                return node.value
        module = self.module(base.module)
        assert module is not None
        for parent in base.node.bases:
            try:
                place = self.lookup(module, parent)
                if isinstance(place.node, ast.ClassDef):
                    return self._class_attribute(place, attribute)
            except Unknown:
                continue
        raise Unknown(f"{base.name}.{attribute}")

    def evaluate(self, module: Module, node: ast.AST, local: Mapping[str, ast.expr] | None = None) -> Any:
        """The value of a constant expression; raises `Unknown` for what depends on anything but the source.

        `os.getenv(name, default)` and `os.environ.get` give their default: the environment is not the source.
        """
        return _Evaluator(self, module, dict(local or {})).value(node)


@dataclass
class _Evaluator:
    tree: Tree
    module: Module
    local: dict[str, ast.expr]
    depth: int = 0

    def value(self, node: ast.AST) -> Any:
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise Unknown(ast.unparse(node))
        self.depth += 1
        try:
            if self.depth > 40:
                raise Unknown("too deep")
            return method(node)
        finally:
            self.depth -= 1

    def _Constant(self, node: ast.Constant) -> Any:
        return node.value

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                out.extend(self.value(node.value))
            else:
                out.append(self.value(node))
        return out

    def _List(self, node: ast.List) -> list[Any]:
        return self._items(node.elts)

    def _Tuple(self, node: ast.Tuple) -> list[Any]:
        return self._items(node.elts)

    def _Set(self, node: ast.Set) -> list[Any]:
        return self._items(node.elts)

    def _Dict(self, node: ast.Dict) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                out.update(self.value(value))
            else:
                out[self.value(key)] = self.value(value)
        return out

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.USub):
            return -operand
        if isinstance(node.op, ast.Not):
            return not operand
        raise Unknown(ast.unparse(node))

    def _BinOp(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        operations = {ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.Pow: "__pow__", ast.Div: "__truediv__"}
        name = operations.get(type(node.op))
        result = getattr(left, name)(right) if name and hasattr(left, name) else NotImplemented
        if result is NotImplemented:
            raise Unknown(ast.unparse(node))
        return result

    def _JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(
            str(self.value(part.value)) if isinstance(part, ast.FormattedValue) else str(self.value(part)) for part in node.values
        )

    def _Name(self, node: ast.Name) -> Any:
        if node.id in self.local:
            return self.value(self.local[node.id])
        return self._place(self.tree.resolve(self.module, node.id))

    def _Attribute(self, node: ast.Attribute) -> Any:
        if node.attr in ("value", "name") and isinstance(node.value, ast.Attribute):
            return self.value(node.value)
        return self._place(self.tree.lookup(self.module, node))

    def _Subscript(self, node: ast.Subscript) -> Any:
        try:
            return self.value(node.value)[self.value(node.slice)]
        except (KeyError, IndexError, TypeError) as error:
            raise Unknown(ast.unparse(node)) from error

    def _place(self, place: Place) -> Any:
        if place.node is None or isinstance(place.node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            raise Unknown(f"{place.module}.{place.name}")
        return self._elsewhere(place).value(place.node)

    def _Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name in ("os.getenv", "os.environ.get"):
            return self.value(node.args[1]) if len(node.args) > 1 else None
        if name in ("list", "dict", "set", "tuple") and not node.args:
            return (
                {}
                if name == "dict" and not node.keywords
                else []
                if name != "dict"
                else {k.arg: self.value(k.value) for k in node.keywords}
            )
        if name in ("list", "set", "tuple", "sorted"):
            return list(self.value(node.args[0]))
        if name in ("int", "float", "str", "bool") and node.args:
            value = self.value(node.args[0])
            return {"int": int, "float": float, "str": str, "bool": bool}[name](value)
        if name.endswith(".keys") and isinstance(node.func, ast.Attribute):
            return self._keys(node.func.value)
        raise Unknown(ast.unparse(node))

    def _keys(self, node: ast.AST) -> list[Any]:
        """The keys of a mapping, whose values need not be constant."""
        if isinstance(node, ast.Dict):
            return [
                k
                for key, value in zip(node.keys, node.values, strict=True)
                for k in (self._keys(value) if key is None else [self.value(key)])
            ]
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) == "dict":
                return [k for keyword in node.keywords for k in (self._keys(keyword.value) if keyword.arg is None else [keyword.arg])]
            if isinstance(node.func, ast.Attribute) and node.func.attr == "copy":
                return self._keys(node.func.value)
            place = self.tree.lookup(self.module, node.func)
            if isinstance(place.node, ast.FunctionDef) and isinstance(place.node.body[-1], ast.Return) and place.node.body[-1].value:
                return self._elsewhere(place)._keys(place.node.body[-1].value)
        if isinstance(node, (ast.Name, ast.Attribute)):
            place = self.tree.lookup(self.module, node)
            if place.node is not None:
                return self._elsewhere(place)._keys(place.node)
        raise Unknown(ast.unparse(node))

    def _elsewhere(self, place: Place) -> _Evaluator:
        module = self.tree.module(place.module)
        assert module is not None
        return _Evaluator(self.tree, module, {}, self.depth)
