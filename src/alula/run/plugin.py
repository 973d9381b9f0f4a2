"""A plugin file, as far as its syntax tells: what it registers, its classes, what they call and return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from alula.run.record import record

if TYPE_CHECKING:
    from .source import Span

ReturnKind = Literal["number", "none", "text", "list", "tuple", "dict", "filtered", "short", "name", "other"]
TargetKind = Literal["class", "function", "lambda", "instance", "unknown"]


@record
class Parameter:
    """One parameter of a function, `self` left out. `required`: it has no default."""

    name: str
    required: bool
    keyword_only: bool = False


@record
class Call:
    """A call inside a function.

    Attributes:
        name: dotted, imports and variables that hold an imported thing resolved: `requests.post`, `openai.OpenAI.chat.completions.create`, `self.score`.
        keywords: names of its keyword arguments; `**` among them when some are not known.
        arguments: number of positional arguments.
        awaited: it stands behind `await`, or is handed to something that awaits it.
        looped: it stands in a loop or a comprehension.
        device: a device with a number that it names (`cuda:0`), as in `.cuda(0)`, `.to("cuda:0")`, `device_map="cuda:0"`.
    """

    name: str
    span: Span
    keywords: frozenset[str] = frozenset()
    arguments: int = 0
    awaited: bool = False
    looped: bool = False
    device: str | None = None


@record
class Return:
    """One `return`, or the missing one at the end.

    Attributes:
        kind: what is surely returned: a `number`, `none`, a `text`, a literal `list`, `tuple` or `dict`; `filtered` and `short` are lists that may
            have fewer items than the function got; `name` is a variable or parameter; `other` is not known.
        size: items of a literal list or tuple.
        keys: constant keys of a literal dict.
        name: the variable.
        detail: for `filtered` and `short`, the condition that lets items go missing.
        guarded: it stands under a condition about its input, such as `if not completions`.
    """

    kind: ReturnKind
    span: Span
    size: int | None = None
    keys: tuple[str, ...] = ()
    name: str = ""
    detail: str = ""
    guarded: bool = False


@record
class Function:
    """A function or method.

    Attributes:
        parameters: without `self` and without `*args` and `**kwargs`.
        rebuilds: the places where the messages of a request are replaced by a new list without the old ones.
        assigns: constant keys that are stored into some dict (`result["response_token_ids"] = …`).
        endless: loops without condition and without a way out.
        mentions: names and attributes that occur in it.
    """

    name: str
    span: Span
    parameters: tuple[Parameter, ...] = ()
    var_positional: bool = False
    var_keyword: bool = False
    is_async: bool = False
    generator: bool = False
    calls: tuple[Call, ...] = ()
    returns: tuple[Return, ...] = ()
    rebuilds: tuple[Span, ...] = ()
    assigns: frozenset[str] = frozenset()
    endless: tuple[Span, ...] = ()
    mentions: frozenset[str] = frozenset()

    @property
    def positional(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if not p.keyword_only)

    def accepts(self, name: str) -> bool:
        """True when the keyword argument can be given."""
        return self.var_keyword or any(p.name == name for p in self.parameters)


@record
class PluginClass:
    """A class. `bases` are dotted names, imports resolved."""

    name: str
    span: Span
    bases: tuple[str, ...] = ()
    methods: Mapping[str, Function] = field(default_factory=dict)


@record
class Registration:
    """A name put into one of ms-swift's registries.

    Attributes:
        registry: the dict's own name: `orms`, `rm_plugins`, `multi_turns`, `envs`, …
        target: name of the class or function; empty where it is none of this file.
    """

    registry: str
    name: str
    span: Span
    target: str = ""
    kind: TargetKind = "unknown"


@record
class Import:
    """An imported module of ms-swift. `guarded`: under `try`, `if` or inside a function, so that it need not happen at import."""

    module: str
    names: tuple[str, ...]
    span: Span
    guarded: bool = False


@record
class Plugin:
    """One plugin file.

    Attributes:
        file: as the user wrote it; the name of its Source.
        open: more names may be registered than are known here (computed names, modules that are not at hand).
        registers_data: it registers data sets, whose columns are then mapped its own way.
        error: a syntax error: message and place.
    """

    file: str
    classes: Mapping[str, PluginClass] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=dict)
    registrations: tuple[Registration, ...] = ()
    imports: tuple[Import, ...] = ()
    open: bool = False
    registers_data: bool = False
    error: tuple[str, Span] | None = None

    def names(self, registry: str) -> frozenset[str]:
        return frozenset(r.name for r in self.registrations if r.registry == registry)

    def find(self, registry: str, name: str) -> Registration | None:
        """The registration that counts: the last."""
        found = [r for r in self.registrations if r.registry == registry and r.name == name]
        return found[-1] if found else None

    def lineage(self, cls: PluginClass) -> tuple[tuple[PluginClass, ...], tuple[str, ...]]:
        """The class and its bases in this file, nearest first, and the dotted names of the bases that are not in it."""
        own: list[PluginClass] = []
        outside: list[str] = []
        todo = [cls]
        while todo:
            one = todo.pop(0)
            if one in own:
                continue
            own.append(one)
            for base in one.bases:
                known = self.classes.get(base)
                if known is not None and known is not one:
                    todo.append(known)
                else:
                    outside.append(base)
        return tuple(own), tuple(outside)

    def method(self, cls: PluginClass, name: str) -> Function | None:
        """A method of the class or of a base in this file."""
        return next((one.methods[name] for one in self.lineage(cls)[0] if name in one.methods), None)

    def descends(self, cls: PluginClass, *names: str) -> bool:
        """Whether a base outside this file has one of these plain names."""
        return any(base.rsplit(".", 1)[-1] in names for base in self.lineage(cls)[1])

    def reached(self, cls: PluginClass | None, start: Function) -> Iterator[Function]:
        """The function and what it calls in this file, each once."""
        seen: set[int] = set()
        todo = [start]
        while todo:
            one = todo.pop()
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one
            for call in one.calls:
                head, _, tail = call.name.partition(".")
                known = self.functions.get(call.name)
                if head in ("self", "cls") and cls is not None and "." not in tail:
                    known = self.method(cls, tail)
                if known is not None:
                    todo.append(known)
