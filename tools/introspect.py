"""Print what the installed ms-swift itself registers for a route: the truth that the extracted facts are held to.

    python tools/introspect.py [ROUTE…]        e.g. "swift rlhf" "megatron export"; no route: all of them
    python tools/introspect.py --registries    the model and template registries instead

Run it with the interpreter of an environment that has ms-swift (and, for `megatron …`, megatron-core and mcore-bridge). It needs no
accelerator: Transformer Engine, which has no CPU build, is replaced by empty modules when it is absent. The output is JSON:
`{route: {"class": …, "flags": {name: {type, nargs, const, choices, default, required, negatable, options}}}}`, flags in the order in which
argparse registered them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import sys
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OPTIONAL = ("transformer_engine", "transformer_engine_torch")
_STUB_VERSION = "2.8.0"  # megatron-core refuses to import below 2.3


class _StubModule(types.ModuleType):
    """A module in which every name exists: a subclassable class, whose own attributes are such classes again."""

    __version__ = _STUB_VERSION

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "__file__":
            raise AttributeError(name)
        value = _stub_class(name)
        setattr(self, name, value)
        return value


class _StubMeta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stub_class(name)


def _stub_class(name: str) -> type:
    torch = importlib.import_module("torch")
    return _StubMeta(name, (torch.nn.Module,), {})


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = frozenset(roots)

    def find_spec(self, fullname: str, _path: Any = None, _target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.split(".")[0] in self.roots:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        del module  # there is nothing to run


def stub_optional_packages() -> None:
    """Let Megatron's argument classes import where Transformer Engine, which has no CPU build, is absent."""
    roots = [name for name in _OPTIONAL if importlib.util.find_spec(name) is None]
    if not roots:
        return
    sys.meta_path.insert(0, _StubFinder(roots))
    real = importlib.metadata.version

    def version(distribution_name: str) -> str:
        if distribution_name.replace("-", "_") in roots:
            return _STUB_VERSION
        return real(distribution_name)

    importlib.metadata.version = version


def routes() -> dict[str, str]:
    """Every `program sub-command` with the module that runs it."""
    out: dict[str, str] = {}
    for program, module in (("swift", "swift.cli.main"), ("megatron", "swift.cli._megatron.main")):
        with contextlib.suppress(ModuleNotFoundError):
            for name, target in importlib.import_module(module).ROUTE_MAPPING.items():
                out[f"{program} {name}"] = target
    return out


def argument_class(route: str, module: str) -> type:
    """The dataclass that a route's module parses, by the annotations of the `…_main(args)` that it calls.

    The function is read, not imported: some pipelines import vLLM or the web interface at once.
    """
    spec = importlib.util.find_spec(module)
    assert spec is not None, module
    assert spec.origin is not None, module
    tree = _parse(Path(spec.origin))
    mains = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names if alias.name.endswith("_main")
    }
    if mains:
        root = Path(spec.origin).parents[len(module.split(".")) - 2]
        defined = _functions(root, mains)
        names = [name.id for function in defined for name in ast.walk(function.args) if isinstance(name, ast.Name)]
    else:  # the pipeline class stands in the module itself: `args_class = X`
        names = [
            node.value.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and getattr(node.targets[0], "id", "") == "args_class"
        ]
    for package in (
        ("swift.megatron.arguments", "swift.megatron.argument") if route.startswith("megatron") else ("swift.arguments", "swift.llm")
    ):
        with contextlib.suppress(ModuleNotFoundError):
            namespace = importlib.import_module(package)
            for name in names:
                if name.endswith("Arguments"):
                    return typing.cast(type, getattr(namespace, name))
    raise LookupError(f"{module}: no argument class found among {names}")


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _functions(root: Path, names: set[str]) -> list[ast.FunctionDef]:
    out = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(f"def {name}(" in text for name in names):
            out += [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef) and node.name in names]
    return out


def parser_of(cls: type) -> argparse.ArgumentParser:
    """The parser as `swift.utils.parse_args` builds it."""
    HfArgumentParser = importlib.import_module("transformers").HfArgumentParser
    utils = importlib.import_module("swift.utils.utils")
    patch = getattr(utils, "_patch_get_type_hints", contextlib.nullcontext)
    with patch():
        return typing.cast(argparse.ArgumentParser, HfArgumentParser([cls]))


def _type_name(action: argparse.Action) -> str:
    if action.choices is not None and getattr(action.type, "__name__", "") == "<lambda>":
        kinds = {type(choice).__name__ for choice in action.choices if choice is not None}
        return kinds.pop() if len(kinds) == 1 else "str"
    origin = typing.get_origin(action.type) or action.type
    name = getattr(origin, "__name__", None) or str(origin)
    return "bool" if name == "string_to_bool" else name


def _plain(value: Any) -> Any:
    """A default as JSON: enums by their value, sets and tuples as lists."""
    if hasattr(value, "value") and not isinstance(value, (str, int, float)):
        return value.value
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value


def flags_of(cls: type) -> dict[str, dict[str, Any]]:
    """Every flag of the class, in registration order."""
    out: dict[str, dict[str, Any]] = {}
    for action in parser_of(cls)._actions:
        if action.dest == "help":
            continue
        if isinstance(action, argparse._StoreFalseAction):
            out[action.dest]["negatable"] = True
            continue
        out[action.dest] = {
            "type": _type_name(action),
            "nargs": action.nargs,
            "const": action.const,
            "choices": None if action.choices is None else list(action.choices),
            "default": _plain(action.default),
            "required": action.required,
            "negatable": False,
            "options": list(action.option_strings),
        }
    return out


def registries() -> dict[str, Any]:
    """The registered models and templates, and the Megatron type of each model where mcore-bridge is there."""
    models, templates = importlib.import_module("swift.model").MODEL_MAPPING, importlib.import_module("swift.template").TEMPLATE_MAPPING
    mcore: Any = None
    with contextlib.suppress(ImportError):
        stub_optional_packages()
        mcore = importlib.import_module("mcore_bridge.model")
    out: dict[str, Any] = {}
    for name, meta in models.items():
        ids = [i for group in meta.model_groups for m in group.models for i in (m.ms_model_id, m.hf_model_id, m.model_path) if i]
        megatron = None if mcore is None else bool(meta.mcore_model_type or mcore.get_mcore_model_type(name))
        out[name] = {
            "architectures": list(meta.architectures),
            "templates": list(meta.candidate_templates),
            "is_multimodal": bool(meta.is_multimodal),
            "is_reward": bool(meta.is_reward),
            "megatron": megatron,
            "ids": list(dict.fromkeys(ids)),
        }
    return {"models": out, "templates": sorted(templates)}


def main(argv: Sequence[str]) -> int:
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    stdout, sys.stdout = sys.stdout, sys.stderr  # ms-swift logs while it is imported
    if list(argv) == ["--registries"]:
        json.dump(registries(), stdout)
        return 0
    known = routes()
    wanted = list(argv) or list(known)
    unknown = [route for route in wanted if route not in known]
    if unknown:
        print(f"unknown route {unknown[0]!r}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    stub_optional_packages()
    out = {}
    for route in wanted:
        cls = argument_class(route, known[route])
        out[route] = {"class": cls.__name__, "flags": flags_of(cls)}
    json.dump(out, stdout)
    stdout.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
