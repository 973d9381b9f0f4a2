"""`@record`: a frozen dataclass with slots whose methods are not generated anew for every class.

`dataclasses` compiles some eight functions for each frozen class; with a hundred classes that is a third of a check's start-up. A record is a
dataclass too (`replace`, `fields` and `asdict` work), but all records share one `__init__`, `__eq__`, `__hash__` and `__repr__`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorator: decorator


T = TypeVar("T")
_set = object.__setattr__
_MISSING = dataclasses.MISSING


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    names = self.__match_args__
    given = len(args)
    for name, value in zip(names, args, strict=False):
        _set(self, name, value)
    if given == len(names) and not kwargs:
        return
    if given > len(names):
        raise TypeError(f"{type(self).__name__} takes {len(names)} values, not {given}")
    fields = self.__dataclass_fields__
    for name in names[given:]:
        if name in kwargs:
            _set(self, name, kwargs.pop(name))
            continue
        field = fields[name]
        if field.default is not _MISSING:
            _set(self, name, field.default)
        elif field.default_factory is not _MISSING:
            _set(self, name, field.default_factory())
        else:
            raise TypeError(f"{type(self).__name__} needs {name!r}")
    if kwargs:
        raise TypeError(f"{type(self).__name__} has no {', '.join(kwargs)}, or was given it twice")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple(getattr(self, name) for name, field in self.__dataclass_fields__.items() if field.compare)


def _eq(self: Any, other: object) -> bool:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, field in self.__dataclass_fields__.items() if field.repr)
    return f"{type(self).__name__}({', '.join(shown)})"


def _frozen(self: Any, name: str, *_: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"{type(self).__name__}.{name} cannot be changed")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _setstate(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        _set(self, name, value)


_SHARED = {
    "__init__": _init, "__eq__": _eq, "__hash__": _hash, "__repr__": _repr, "__setattr__": _frozen, "__delattr__": _frozen, "__getstate__": _getstate,
    "__setstate__": _setstate,
}  # fmt: skip


def _make(cls: type[T], shared: dict[str, Any]) -> type[T]:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else dataclasses works out a signature for it
    for name, method in shared.items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(cls: type[T]) -> type[T]:
    """Make a class of annotated fields a record. A method that the class defines itself is kept."""
    return _make(cls, _SHARED)


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def node(cls: type[T]) -> type[T]:
    """The same for parts that are put together step by step, such as syntax trees: they can change, and each is equal to itself only."""
    return _make(cls, {"__init__": _init, "__repr__": _repr})
