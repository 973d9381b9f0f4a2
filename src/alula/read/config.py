"""Training configs in YAML or JSON: the words ms-swift makes of them, and the two Ray schemas.

Sources (ms-swift 4.6): `cli/main.py:parse_yaml_args`, `ray/megatron/driver_utils.py:parse_ray_yaml, merge_group_dict, _dict_to_argv`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from alula.run.job import EnvEntry, RayGroup, RaySpec
from alula.run.source import Origin, Source, Token

from .errors import ReadError
from .yaml import Entry, Node, read_yaml

RAY_GROUPS = ("train", "rollout", "teacher")
_RAY_ONLY = ("gpus", "colocate_groups", "nnodes")
_PARALLEL = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")


def read_config(source: Source, base: int = 0, data: bytes | None = None) -> Mapping[str, Entry]:
    """A config file -> its top-level entries. Raises ReadError when it is no mapping."""
    root = read_yaml(source, base, data)
    if root is None:
        raise ReadError("the config is empty; it must be a mapping of flags to values", source.name)
    if root.kind != "mapping":
        raise ReadError(f"the config must be a mapping of flags to values, not a {root.kind}", source.name, *source.position(root.span.start))
    entries: Mapping[str, Entry] = root.value
    return entries


def flatten(entries: Mapping[str, Entry]) -> tuple[Token, ...]:
    """Entries -> `--key value …` words as ms-swift's launcher makes them: null becomes the text None, an empty list leaves a bare flag."""
    words: list[Token] = []
    for name, entry in entries.items():
        if name == "ENV":
            continue
        words.append(_token(f"--{name}", entry.key, name))
        words.extend(_values(name, entry.node, str))
    return tuple(words)


def env_block(entries: Mapping[str, Entry]) -> dict[str, EnvEntry]:
    """The `ENV:` block; ms-swift exports only names that are not set yet."""
    block = entries.get("ENV")
    if block is None or block.node.kind != "mapping":
        return {}
    return {name: EnvEntry(name, _token(str(entry.node.plain()), entry.node, name), "block") for name, entry in block.node.value.items()}


def is_ray(entries: Mapping[str, Entry]) -> bool:
    """True when the config is a Megatron-Ray one: it has role groups or colocation."""
    groups = [entries[name].node for name in RAY_GROUPS if name in entries]
    return "colocate_groups" in entries or any(group.kind == "mapping" for group in groups)


def ray_spec(entries: Mapping[str, Entry], file: str) -> RaySpec:
    """A Megatron-Ray config -> its groups with the words each one's parser gets, shared keys merged under the group's own."""
    shared = {name: entry for name, entry in entries.items() if name not in RAY_GROUPS and name not in ("colocate_groups", "sleep_level", "nnodes")}
    groups: dict[str, RayGroup] = {}
    for role in RAY_GROUPS:
        entry = entries.get(role)
        if entry is None:
            continue
        own: Mapping[str, Entry] = entry.node.value if entry.node.kind == "mapping" else {}
        merged = {**shared, **own}
        words = [word for name, value in merged.items() if name not in _RAY_ONLY for word in _ray_words(name, value)]
        keys = {name: _token(_text(value.node), value.node, name) for name, value in own.items()}
        groups[role] = RayGroup(role, tuple(words), keys, entry.key.span)
    top = {name: _token(_text(entry.node), entry.node, name) for name, entry in entries.items()}
    return RaySpec(groups, top, _colocate(entries), file)


def ray_shared_words(entries: Mapping[str, Entry]) -> tuple[Token, ...]:
    """The words of the shared part alone, for a config without a `train` group."""
    shared = (item for item in entries.items() if item[0] not in RAY_GROUPS and item[0] not in ("colocate_groups", "sleep_level", "nnodes", "gpus"))
    return tuple(word for name, entry in shared for word in _ray_words(name, entry))


def _colocate(entries: Mapping[str, Entry]) -> tuple[tuple[str, ...], ...]:
    entry = entries.get("colocate_groups")
    if entry is None or entry.node.kind != "sequence":
        return ()
    groups = []
    for item in entry.node.value:
        plain = item.plain()
        groups.append(tuple(str(role) for role in plain) if isinstance(plain, list) else (str(plain),))
    return tuple(groups)


def _ray_words(name: str, entry: Entry) -> list[Token]:
    if entry.node.kind == "scalar" and entry.node.value is None:
        return []
    return [_token(f"--{name}", entry.key, name), *_values(name, entry.node, _ray_scalar)]


def _ray_scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(name: str, node: Node, text: Any) -> list[Token]:
    if node.kind == "sequence":
        return [_token(str(item.plain()), item, name) for item in node.value]
    if node.kind == "mapping":
        return [_token(json.dumps(_jsonable(node.plain()), ensure_ascii=False), node, name)]
    return [_token(text(node.value), node, name)]


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_jsonable(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _text(node: Node) -> str:
    if node.kind == "scalar":
        return str(node.value)
    return json.dumps(_jsonable(node.plain()), ensure_ascii=False)


def _token(text: str, node: Node, key: str) -> Token:
    return Token(text, node.span, (Origin("yaml", key, node.span),))
