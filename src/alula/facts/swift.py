"""ms-swift as data: routes, flags, renames and registries of every shipped version.

The flags were read by `tools/extract_swift.py` from the releases' own dataclasses, in the order in which argparse registers them. Flags of
transformers' `Seq2SeqTrainingArguments` are stored apart, one file a transformers version, and composed here: one ms-swift allows many.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, Literal

from alula.run.record import record

from ._data import FOLDER, numbers, satisfies, toml

FlagType = Literal["int", "float", "str", "bool", "dict", "object"]


@record
class Flag:
    """One flag as ms-swift's parser registers it.

    Attributes:
        type: what turns the text into a value. `dict` and `object` take no text at all: the parser refuses every value.
        nargs: `?` (the value may be left out and is then True), `+` (one or more values), or None for exactly one.
        choices: the values allowed, compared as text; they may contain None.
        default: the dataclass default, before `__post_init__` derives anything from it. Lists are tuples.
        optional: None is among the values that the type allows.
        negatable: a bare `--no_<name>` exists too.
        source: `file:Class` of the definition, relative to the package `swift`, or `transformers/file:Class`.
    """

    name: str
    type: FlagType
    default: Any = None
    nargs: str | None = None
    choices: tuple[Any, ...] | None = None
    optional: bool = False
    required: bool = False
    negatable: bool = False
    source: str = ""


@record
class Route:
    """One sub-command.

    Attributes:
        name: as in `Job.route`: `swift rlhf`, `megatron export`.
        argument_class: the dataclass it parses its arguments with.
        torchrun: NPROC_PER_NODE or NNODES makes it start under torchrun.
        torchrun_required: it refuses to start without one of them (Megatron in 3.10).
        module: the script that runs, relative to the package's parent folder.
    """

    name: str
    argument_class: str
    torchrun: bool
    module: str
    torchrun_required: bool = False


@record
class Rename:
    """What became of a flag.

    Attributes:
        new: the flag to use instead; None when it was removed.
        since: the first version in which the old name is refused.
        until: the first version that knows the old name again.
        note: what else changes, in one line.
        routes: the routes, or their program (`megatron`), it holds for; empty for all.
        same_value: the old value means the same under the new name.
    """

    old: str
    new: str | None
    since: str
    until: str | None = None
    note: str = ""
    routes: tuple[str, ...] = ()
    same_value: bool = True

    def holds_for(self, route: str) -> bool:
        return not self.routes or any(route == r or route.split()[0] == r for r in self.routes)


@record
class ModelEntry:
    """One model type that ms-swift knows.

    Attributes:
        templates: its default template first, then those of single groups of models.
        megatron: the Megatron backend can train it; for 4.1 and later as mcore-bridge 1.6.5 maps it.
        megatron_conditional: only with a megatron-core newer than 0.16, or under a setting of mcore-bridge.
        ids: model ids of its hubs.
    """

    model_type: str
    architectures: tuple[str, ...]
    templates: tuple[str, ...]
    multimodal: bool
    reward: bool
    megatron: bool
    ids: tuple[str, ...]
    megatron_conditional: bool = False


@dataclass(frozen=True)
class Registries:
    """Names that ms-swift registers and that flags refer to. `lists` holds every registry that is a plain list of names."""

    models: Mapping[str, ModelEntry]
    lists: Mapping[str, tuple[str, ...]]

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self.lists[name]

    @cached_property
    def _by_name(self) -> Mapping[str, ModelEntry]:
        return {i.rsplit("/", 1)[-1].lower(): entry for entry in self.models.values() for i in entry.ids}

    def model_of(self, model_id: str) -> ModelEntry | None:
        """The model type that ms-swift infers from an id or a folder's name: by its last component, ignoring case."""
        return self._by_name.get(model_id.rstrip("/").rsplit("/", 1)[-1].lower())


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _flag(name: str, raw: Mapping[str, Any], prefix: str = "") -> Flag:
    choices = raw.get("c")
    source = raw.get("src", "")
    return Flag(
        name,
        raw["t"],
        _frozen(raw["d"]),
        raw.get("n"),
        None if choices is None else tuple(choices),
        raw.get("o", False),
        raw.get("r", False),
        raw.get("neg", False),
        prefix + source,
    )


class SwiftFacts:
    """The facts of one ms-swift version. Get it with `load`."""

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self.version: str = raw["version"]
        self.requires: Mapping[str, str] = raw["requires"]
        self.megatron_requires: Mapping[str, str] = raw["extras"]["megatron"]
        self.routes: Mapping[str, Route] = {
            name: Route(name, r["class"], r["torchrun"], r["module"], r.get("torchrun_required", False))
            for name, r in raw["routes"].items()
        }
        self.argument_file_suffixes: tuple[str, ...] = tuple(raw["argument_files"]["first"])
        """Suffixes of a file of arguments that may stand first after the route."""
        self.argument_file_flag: str | None = raw["argument_files"]["flag"]
        """The flag that names a file of arguments (`--config` in 3.10 … 4.0), or None."""
        self._flags: dict[tuple[str, str], Mapping[str, Flag]] = {}

    @cached_property
    def transformers(self) -> tuple[str, ...]:
        """The shipped transformers versions that this ms-swift allows, ascending."""
        return transformers_versions(self.version)

    @property
    def default_transformers(self) -> str:
        """The shipped transformers version closest to what an installation gets: the newest that is allowed."""
        return self.transformers[-1]

    def flags(self, route: str, transformers: str | None = None) -> Mapping[str, Flag]:
        """The flags of a route in registration order, which matters for abbreviations.

        Args:
            transformers: a shipped transformers version; the default one when not given.

        Raises:
            KeyError: the version has no such route.
        """
        base = transformers or self.default_transformers
        name = self.routes[route].argument_class
        key = (name, base)
        if key not in self._flags:
            cls, pool = self._raw["classes"][name], self._raw["flags"]
            out = dict(_transformers(base)) if cls["hf_base"] else {}
            for flag, index in cls["flags"]:
                out[flag] = _flag(flag, pool[index])
            self._flags[key] = MappingProxyType(out)
        return self._flags[key]

    def uses_transformers(self, route: str) -> bool:
        """Whether the route's flags include those of transformers' training arguments."""
        return bool(self._raw["classes"][self.routes[route].argument_class]["hf_base"])

    def transformers_choices(self, name: str) -> tuple[str, ...]:
        """What the allowed transformers versions together accept for a training argument, also where ms-swift's own flag lists no choices."""
        flags = (_transformers_raw(version).get(name) for version in self.transformers)
        return tuple(dict.fromkeys(str(choice) for flag in flags if flag is not None for choice in flag.get("c") or ()))

    def transformers_only_elsewhere(self, name: str) -> tuple[str, ...]:
        """Allowed transformers versions that have the flag, when the default one has not."""
        if name in _transformers_raw(self.default_transformers):
            return ()
        return tuple(v for v in self.transformers if name in _transformers_raw(v))

    @cached_property
    def registries(self) -> Registries:
        raw = json.loads((FOLDER / "swift" / f"{self.version}.registries.json").read_bytes())
        models = {
            name: ModelEntry(
                name,
                tuple(m.get("architectures", ())),
                tuple(m.get("templates", ())),
                m.get("is_multimodal", False),
                m.get("is_reward", False),
                m.get("megatron", False),
                tuple(m.get("ids", ())),
                m.get("megatron_conditional", False),
            )
            for name, m in raw.pop("models").items()
        }
        return Registries(models, {name: tuple(values) for name, values in raw.items()})


@cache
def _transformers_raw(version: str) -> Mapping[str, Mapping[str, Any]]:
    return dict(json.loads((FOLDER / "transformers" / f"{version}.json").read_bytes())["flags"])


@cache
def _transformers(version: str) -> Mapping[str, Flag]:
    return MappingProxyType({name: _flag(name, flag, "transformers/") for name, flag in _transformers_raw(version).items()})


@cache
def versions() -> tuple[str, ...]:
    """Every shipped ms-swift version, ascending."""
    found = (path.name.removesuffix(".json") for path in (FOLDER / "swift").glob("*.json"))
    return tuple(sorted((v for v in found if not v.endswith(".registries")), key=numbers))


def newest() -> str:
    return versions()[-1]


@cache
def installed() -> str | None:
    """The shipped version that stands for the ms-swift of this environment; None when there is none, or one of an unknown minor."""
    # importlib.metadata would tell too, at the price of a third of a check's start-up
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found = next((name for name in names if name.startswith("ms_swift-") and name.endswith((".dist-info", ".egg-info"))), None)
        if found is not None:
            try:
                return resolve(found.split("-")[1])
            except ValueError:
                return None
    return None


def resolve(version: str | None) -> str:
    """The shipped version that stands for the one asked for: itself, or that of the same minor. None: the installed one, else the newest.

    Raises:
        ValueError: no shipped version has that minor; the message lists what there is.
    """
    if version is None:
        return installed() or newest()
    known = f"known versions of ms-swift: {', '.join(versions())}"
    try:
        asked = numbers(version)
    except ValueError as error:
        raise ValueError(f"{error}; {known}") from None
    if len(asked) < 2:
        raise ValueError(f"{version!r} does not say which minor version; {known}")
    for candidate in versions():
        if numbers(candidate)[:2] == asked[:2]:
            return candidate
    raise ValueError(f"no facts about ms-swift {version}; {known}")


@cache
def load(version: str) -> SwiftFacts:
    """The facts of a shipped version; `resolve` other spellings first.

    Raises:
        ValueError: it is not shipped.
    """
    if version not in versions():
        raise ValueError(f"no facts about ms-swift {version}; known versions of ms-swift: {', '.join(versions())}")
    return SwiftFacts(json.loads((FOLDER / "swift" / f"{version}.json").read_bytes()))


@cache
def transformers_versions(swift_version: str) -> tuple[str, ...]:
    """The shipped transformers versions that this ms-swift allows, ascending."""
    found = sorted((path.stem for path in (FOLDER / "transformers").glob("*.json")), key=numbers)
    specifier = load(swift_version).requires["transformers"]
    return tuple(v for v in found if satisfies(v, specifier))


def history(flag: str, route: str) -> list[tuple[str, Flag | None]]:
    """The flag in every shipped version, ascending; None where the version, or the route in it, has no such flag."""
    out: list[tuple[str, Flag | None]] = []
    for version in versions():
        facts = load(version)
        out.append((version, facts.flags(route).get(flag) if route in facts.routes else None))
    return out


@cache
def _renames() -> Mapping[str, tuple[Rename, ...]]:
    out: dict[str, list[Rename]] = {}
    for entry in toml(FOLDER / "renames.toml")["rename"]:
        rename = Rename(
            entry["old"], entry.get("new"), entry["since"], entry.get("until"), entry.get("note", ""), tuple(entry.get("routes", ())),
            not entry.get("other_value", False),
        )  # fmt: skip
        out.setdefault(rename.old, []).append(rename)
    return {name: tuple(entries) for name, entries in out.items()}


def renames() -> tuple[Rename, ...]:
    """Every known rename and removal."""
    return tuple(entry for entries in _renames().values() for entry in entries)


def rename(name: str, route: str, version: str) -> Rename | None:
    """What became of a flag of an older version, as of `version`; None when nothing is known, or the old name still holds then."""
    for entry in _renames().get(name.replace("-", "_"), ()):
        gone = numbers(entry.since) <= numbers(version) and (entry.until is None or numbers(version) < numbers(entry.until))
        if gone and entry.holds_for(route):
            return entry
    return None


@cache
def _descriptions() -> Mapping[str, str]:
    return {name: text for section in toml(FOLDER / "descriptions.toml").values() for name, text in section.items()}


def describe(name: str) -> str | None:
    """One line about a flag; None when there is none."""
    return _descriptions().get(name)
