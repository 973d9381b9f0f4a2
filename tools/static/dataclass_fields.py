"""Dataclasses as syntax, and the flags that `transformers.HfArgumentParser` would register for them.

What is mirrored: C3 method resolution order, `dataclasses` field collection (a base contributes all of its *own collected* fields, the position
of the first definition stays, type hints come from the method resolution order instead), and
`transformers/hf_argparser.py:HfArgumentParser._parse_dataclass_field`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .source import Module, Place, Tree, Unknown

MISSING: Any = object()

_TYPING = ("typing", "typing_extensions", "collections.abc")
_BUILTIN = {"int", "float", "str", "bool", "dict", "list", "tuple", "set", "object", "bytes"}


@dataclass(frozen=True)
class Hint:
    """A resolved type: `kind` is a builtin's name, none, any, union, literal, list, enum, or `object` for every other class."""

    kind: str
    args: tuple[Any, ...] = ()

    @property
    def members(self) -> tuple[Hint, ...]:
        return self.args if self.kind == "union" else (self,)

    @property
    def optional(self) -> bool:
        return any(m.kind == "none" or (m.kind == "literal" and None in m.args) for m in self.members)


NONE = Hint("none")


def union(parts: Iterable[Hint]) -> Hint:
    flat: list[Hint] = []
    for part in parts:
        for member in part.members:
            if member not in flat:
                flat.append(member)
    return flat[0] if len(flat) == 1 else Hint("union", tuple(flat))


@dataclass(frozen=True)
class Field:
    name: str
    default: Any
    factory: Any
    metadata: dict[str, Any]
    source: str
    init: bool = True


@dataclass(frozen=True)
class Flag:
    """What the parser registers. `source` is `file:Class`, relative to the package."""

    name: str
    type: str
    default: Any
    nargs: str | None = None
    choices: tuple[Any, ...] | None = None
    optional: bool = False
    required: bool = False
    negatable: bool = False
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"t": self.type, "d": self.default}
        if self.nargs:
            out["n"] = self.nargs
        if self.choices is not None:
            out["c"] = list(self.choices)
        if self.optional:
            out["o"] = True
        if self.required:
            out["r"] = True
        if self.negatable:
            out["neg"] = True
        if self.source:
            out["src"] = self.source
        return out


class Classes:
    """Dataclasses of a tree. Classes outside the tree (`object`, `ABC`, other packages) count as empty."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._mro: dict[Place, tuple[Place, ...]] = {}
        self._fields: dict[Place, dict[str, Field]] = {}

    def bases(self, cls: Place) -> list[Place]:
        assert isinstance(cls.node, ast.ClassDef)
        module = self._module(cls)
        out = []
        for base in cls.node.bases:
            if isinstance(base, ast.Subscript):  # Generic[T]
                base = base.value
            try:
                place = self.tree.lookup(module, base)
            except Unknown:
                continue  # a builtin
            out.append(place)
        return out

    def mro(self, cls: Place) -> tuple[Place, ...]:
        if cls not in self._mro:
            if not isinstance(cls.node, ast.ClassDef):
                return (cls,)
            bases = self.bases(cls)
            lines = [list(self.mro(base)) for base in bases] + [list(bases)]
            out = [cls]
            while any(lines):
                lines = [line for line in lines if line]
                for line in lines:
                    head = line[0]
                    if not any(head in other[1:] for other in lines):
                        break
                else:
                    raise TypeError(f"no method resolution order for {cls.name}")
                out.append(head)
                for line in lines:
                    if line[0] == head:
                        del line[0]
            self._mro[cls] = tuple(out)
        return self._mro[cls]

    def fields(self, cls: Place) -> dict[str, Field]:
        """As `dataclasses.fields`, with ClassVar left out."""
        if cls not in self._fields:
            self._fields[cls] = self._collect(cls)
        return self._fields[cls]

    def _collect(self, cls: Place) -> dict[str, Field]:
        if not isinstance(cls.node, ast.ClassDef):
            return {}
        bases = self.mro(cls)[1:]
        if not _is_dataclass(cls.node):  # attribute lookup finds the nearest base's collection
            return next((self.fields(base) for base in bases if self.fields(base)), {})
        out: dict[str, Field] = {}
        for base in reversed(bases):
            out.update(self.fields(base))
        out.update(self._own(cls))
        return out

    def _own(self, cls: Place) -> dict[str, Field]:
        assert isinstance(cls.node, ast.ClassDef)
        module = self._module(cls)
        source = f"{module.path.split('/', 1)[1]}:{cls.name}"
        local = _class_values(cls.node)
        out: dict[str, Field] = {}
        for node in cls.node.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            if "ClassVar" in ast.unparse(node.annotation) or "InitVar" in ast.unparse(node.annotation):
                continue
            name = node.target.id
            default, factory, metadata, init = MISSING, MISSING, {}, True
            if _is_field(node.value):
                assert isinstance(node.value, ast.Call)
                for keyword in node.value.keywords:
                    if keyword.arg == "default":
                        default = self._value(module, keyword.value, local, f"{source}.{name}")
                    elif keyword.arg == "default_factory":
                        factory = self._factory(module, keyword.value, local, f"{source}.{name}")
                    elif keyword.arg == "metadata":
                        metadata = self._metadata(module, keyword.value, local)
                    elif keyword.arg == "init":
                        init = bool(self._value(module, keyword.value, local, name))
            elif node.value is not None:
                default = self._value(module, node.value, local, f"{source}.{name}")
            out[name] = Field(name, default, factory, metadata, source, init)
        return out

    def _value(self, module: Module, node: ast.expr, local: dict[str, ast.expr], where: str) -> Any:
        try:
            return self.tree.evaluate(module, node, local)
        except Unknown as error:
            raise Unknown(f"default of {where}: {error}") from error

    def _factory(self, module: Module, node: ast.expr, local: dict[str, ast.expr], where: str) -> Any:
        if isinstance(node, ast.Lambda):
            return self._value(module, node.body, local, where)
        name = ast.unparse(node)
        if name in ("list", "dict", "set", "tuple"):
            return {} if name == "dict" else []
        raise Unknown(f"default_factory of {where}: {name}")

    def _metadata(self, module: Module, node: ast.expr, local: dict[str, ast.expr]) -> dict[str, Any]:
        """Everything in a field's metadata except the help text goes on to `add_argument`."""
        if not isinstance(node, ast.Dict):
            raise Unknown(ast.unparse(node))
        out = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and key.value != "help":
                out[str(key.value)] = self.tree.evaluate(module, value, local)
        return out

    def _module(self, cls: Place) -> Module:
        module = self.tree.module(cls.module)
        assert module is not None, cls
        return module

    # types

    def hints(self, cls: Place) -> dict[str, Hint]:
        """As `typing.get_type_hints`: the annotation nearest in the method resolution order, dataclass or not."""
        out: dict[str, Hint] = {}
        for base in reversed(self.mro(cls)):
            if not isinstance(base.node, ast.ClassDef):
                continue
            module = self._module(base)
            for node in base.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    out[node.target.id] = self.hint(module, node.annotation)
        for name, hint in out.items():
            # `swift/utils/utils.py:_patch_get_type_hints`, since 3.11, so that the parser takes the text as it is. Before, the order depended
            # on which of two equal unions Python's own cache had met first; reading them as text too never refuses what was accepted.
            if {m.kind for m in hint.members} == {"str", "dict", "none"}:
                out[name] = Hint("union", (Hint("dict"), Hint("str"), NONE))
        return out

    def hint(self, module: Module, node: ast.expr) -> Hint:
        if isinstance(node, ast.Constant):
            if node.value is None:
                return NONE
            if isinstance(node.value, str):
                return self.hint(module, ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return union([self.hint(module, node.left), self.hint(module, node.right)])
        if isinstance(node, ast.Subscript):
            return self._generic(module, node)
        if isinstance(node, ast.Name) and node.id in _BUILTIN and node.id not in module.bindings:
            return Hint(node.id)
        try:
            place = self.tree.lookup(module, node)
        except Unknown:
            return Hint("object", (ast.unparse(node),))
        return self._named(place, ast.unparse(node))

    def _named(self, place: Place, text: str) -> Hint:
        if place.module in _TYPING:
            name = place.name.lower()
            return Hint(
                {"any": "any", "dict": "dict", "list": "list", "mapping": "dict"}.get(name, "object"),
                () if name != "list" else (Hint("any"),),
            )
        if isinstance(place.node, ast.ClassDef):
            module = self._module(place)
            if any(base.name in ("Enum", "ExplicitEnum", "StrEnum") for base in self.mro(place)[1:]):
                values = [
                    self.tree.evaluate(module, node.value)
                    for node in place.node.body
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not node.targets[0].id.startswith("_")
                ]
                return Hint("enum", tuple(values))
            return Hint("object", (place.name,))
        if isinstance(place.node, ast.expr):
            return self.hint(self._module(place), place.node)
        if place.module == "pathlib":
            return Hint("path")
        return Hint("object", (place.name or text,))

    def _generic(self, module: Module, node: ast.Subscript) -> Hint:
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        try:
            place = self.tree.lookup(module, node.value)
            name = place.name if place.module in _TYPING else ast.unparse(node.value)
        except Unknown:
            name = ast.unparse(node.value)
        name = name.rpartition(".")[2]
        if name == "Optional":
            return union([self.hint(module, items[0]), NONE])
        if name == "Union":
            return union(self.hint(module, item) for item in items)
        if name == "Literal":
            return Hint("literal", tuple(self.tree.evaluate(module, item) for item in items))
        if name in ("List", "list"):
            return Hint("list", (self.hint(module, items[0]),))
        if name in ("Dict", "dict", "Mapping"):
            return Hint("dict")
        if name in ("Tuple", "tuple", "Set", "set"):
            return Hint(name.lower())
        return Hint("object", (ast.unparse(node),))

    # flags

    def flags(self, cls: Place) -> dict[str, Flag]:
        """The flags of the class in registration order."""
        hints = self.hints(cls)
        return {name: _flag(field, hints[name]) for name, field in self.fields(cls).items() if field.init}


def _is_dataclass(node: ast.ClassDef) -> bool:
    return any(ast.unparse(d).split("(")[0].rpartition(".")[2] == "dataclass" for d in node.decorator_list)


def _is_field(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("field", "HfArg")


def _class_values(node: ast.ClassDef) -> dict[str, ast.expr]:
    """Plain class variables that later defaults may name. Where branches differ the last one stands: they ask for newer packages."""
    out: dict[str, ast.expr] = {}
    stack = list(node.body)
    for statement in stack:
        if isinstance(statement, ast.If):
            stack.extend(statement.body)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            out[statement.targets[0].id] = statement.value
    return out


def _choice_type(choices: tuple[Any, ...]) -> str:
    kinds = {type(choice).__name__ for choice in choices if choice is not None}
    return kinds.pop() if len(kinds) == 1 else "str"


def _scalar(hint: Hint) -> str:
    """The name of the callable that turns text into a value, reduced to what a reader of command lines must know."""
    return {"int": "int", "float": "float", "str": "str", "path": "str", "enum": "str", "bool": "bool", "dict": "dict"}.get(
        hint.kind, "object"
    )


def _flag(field: Field, hint: Hint) -> Flag:
    """`HfArgumentParser._parse_dataclass_field`."""
    optional = hint.optional
    if hint.kind == "union":
        members = hint.args
        has_none = NONE in members
        if Hint("str") not in members and (len(members) != 2 or not has_none):
            raise Unknown(f"{field.source}.{field.name}: the parser refuses this union")
        if not has_none:
            hint = members[0] if members[1].kind == "str" else members[1]
        elif Hint("bool") not in members:
            hint = members[0] if members[1] == NONE else members[1]
            if hint.kind == "list" and members[1] != NONE:
                # The parser cannot digest `Union[str, List[str], None]` in this order; Python's cache gives it the equal union that
                # transformers spelled the other way round before.
                hint = Hint("str")
    is_bool = hint.kind == "bool" or (hint.kind == "union" and {m.kind for m in hint.args} == {"bool", "none"})
    choices = tuple(field.metadata["choices"]) if "choices" in field.metadata else None
    nargs: str | None = field.metadata.get("nargs")
    if set(field.metadata) - {"choices", "nargs", "const"} or field.metadata.get("const", True) is not True:
        raise Unknown(f"{field.source}.{field.name}: metadata {sorted(field.metadata)}")
    default, required = field.default, False
    kind: str
    if hint.kind in ("literal", "enum"):
        choices = hint.args
        kind = _choice_type(choices)
        required = default is MISSING
    elif is_bool:
        kind = "bool"
        if hint.kind == "bool" or default not in (None, MISSING):
            default = False if default is MISSING else default
            nargs = "?"
        else:
            default = None  # add_argument is then given no default
    elif hint.kind == "list":
        element = hint.args[0]
        kind, nargs = _scalar(element), "+"
        if element.kind == "enum":
            choices = element.args
        if field.factory is not MISSING:
            default = field.factory
        elif default is MISSING:
            required = True
        else:
            default = None  # the parser passes a list's default only from a factory
    else:
        kind = _scalar(hint)
        if default is MISSING:
            if field.factory is not MISSING:
                default = field.factory
            else:
                required = True
    return Flag(
        name=field.name,
        type=kind,
        default=None if default is MISSING else default,
        nargs=nargs,
        choices=choices,
        optional=optional,
        required=required,
        negatable=field.default is True and is_bool,
        source=field.source,
    )
