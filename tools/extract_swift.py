"""Turn ms-swift and transformers releases into facts: routes, flags, types, defaults, choices and registries, read from the wheels as syntax.

    python tools/extract_swift.py 4.6.0 [VERSION…] [--wheels DIR] [--out src/alula/facts]
    python tools/extract_swift.py --transformers 5.19.0 4.57.6

Wheels that DIR lacks are downloaded with `pip download --no-deps`. Nothing of them is imported or executed, and no help text is copied.
For every ms-swift version two files are written: `swift/<version>.json` (routes and flags) and `swift/<version>.registries.json`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from static.dataclass_fields import Classes, Flag
from static.registries import registries
from static.source import Module, Place, Tree, Unknown

SHIPPED_TRANSFORMERS = ("4.51.3", "4.56.2", "4.57.6", "5.3.0", "5.6.2", "5.8.1", "5.12.1", "5.16.1", "5.19.0")
MCORE_BRIDGE = "1.6.5"
HF_CLASS = "Seq2SeqTrainingArguments"


def wheel(package: str, version: str, folder: Path) -> Path:
    """The wheel of a release, downloaded when the folder has none."""
    stem = package.replace("-", "_")
    if not any(folder.glob(f"{stem}-{version}-*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), f"{package}=={version}"]
        subprocess.run(command, check=True)
    return next(folder.glob(f"{stem}-{version}-*.whl"))


def requirements(metadata: str, extra: str | None = None) -> dict[str, str]:
    """`Requires-Dist` as {package: specifier}, of the base or of one extra."""
    out: dict[str, str] = {}
    for line in metadata.splitlines():
        match = re.match(r"Requires-Dist: ([A-Za-z0-9._-]+)(\[[^]]*])?\s*([^;]*)(;.*)?$", line)
        if not match:
            continue
        marker = re.search(r"extra == [\"']([^\"']+)", match[4] or "")
        if (marker[1] if marker else None) == extra:
            out[match[1]] = match[3].strip().strip("()")
    return out


def argument_class(tree: Tree, module: Module) -> Place:
    """The class that a route's module parses its arguments with: that of its `…_main(args)`, or its own pipeline's."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name.endswith("_main"):
                    target = tree.member(tree._absolute(module, node), alias.name)
                    assert isinstance(target.node, ast.FunctionDef), target
                    home = tree.module(target.module)
                    assert home is not None
                    return _pipeline_arguments(tree, home, target.node)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            return _args_class(tree, Place(module.name, node.name, node))
    raise Unknown(f"no argument class in {module.name}")


def _pipeline_arguments(tree: Tree, module: Module, function: ast.FunctionDef) -> Place:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = tree.resolve(module, node.func.id)
            if isinstance(place.node, ast.ClassDef):
                return _args_class(tree, place)
    raise Unknown(f"{function.name} starts no pipeline")


def _args_class(tree: Tree, pipeline: Place) -> Place:
    classes = Classes(tree)
    for cls in classes.mro(pipeline):
        if not isinstance(cls.node, ast.ClassDef):
            continue
        for node in cls.node.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "args_class":
                module = tree.module(cls.module)
                assert module is not None
                return tree.lookup(module, node.value)
    raise Unknown(f"{pipeline.name} has no args_class")


def launcher(main: Module) -> tuple[set[str], bool, dict[str, Any]]:
    """From `swift/cli/main.py`: routes that torchrun may start, whether Megatron insists on it, and how a file of arguments is given."""
    source = ast.unparse(main.tree)
    match = re.search(r"method_name not in (\{[^}]*\})", source)
    if not match:
        raise Unknown("the torchrun rule of cli/main.py")
    suffixes = re.findall(r"argv\[0\]\.endswith\('(\.\w+)'\)", source)
    flag = "--config" if "'--config'" in source else None
    return set(ast.literal_eval(match[1])), "Please set torchrun args" in source, {"first": sorted(suffixes), "flag": flag}


def routes(tree: Tree) -> tuple[dict[str, dict[str, Any]], dict[str, Place], dict[str, Any]]:
    main = tree.module("swift.cli.main")
    assert main is not None
    eligible, insists, files = launcher(main)
    if not files["first"]:  # up to 3.10 `utils.parse_args` itself took a JSON file
        utils = tree.module("swift.utils.utils")
        assert utils is not None
        files["first"] = sorted(re.findall(r"argv\[0\]\.endswith\('(\.\w+)'\)", ast.unparse(utils.tree)))
    out: dict[str, dict[str, Any]] = {}
    classes: dict[str, Place] = {}
    for program, name in (("swift", "swift.cli.main"), ("megatron", "swift.cli._megatron.main")):
        module = tree.module(name)
        assert module is not None
        for route, target in tree.evaluate(module, module.bindings["ROUTE_MAPPING"][0]).items():
            entry = tree.module(target)
            assert entry is not None, target
            cls = argument_class(tree, entry)
            torchrun = program == "megatron" or route in eligible
            out[f"{program} {route}"] = {"class": cls.name, "torchrun": torchrun, "module": entry.path}
            if program == "megatron" and insists:
                out[f"{program} {route}"]["torchrun_required"] = True
            classes[cls.name] = cls
    return out, classes, files


def swift_facts(version: str, wheels: Path, base: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts of one ms-swift release. `base` is a transformers release to prove the composition with."""
    own = Tree(wheel("ms-swift", version, wheels))
    whole = Tree(wheel("ms-swift", version, wheels), wheel("transformers", base, wheels))
    hf = transformers_flags(whole)
    metadata = own.metadata("ms_swift")
    table, places, files = routes(own)
    pool: dict[str, int] = {}
    classes: dict[str, Any] = {}
    for name, place in sorted(places.items()):
        flags = Classes(own).flags(place)
        full = Classes(whole).flags(place)
        uses_hf = any(flag.source.startswith("training_args") for flag in full.values())
        composed = {**(hf if uses_hf else {}), **flags}
        if list(composed.items()) != list(full.items()):
            raise SystemExit(f"{version} {name}: composing with the transformers base does not give the whole class")
        entries = [[flag.name, pool.setdefault(_compact(flag.to_json()), len(pool))] for flag in flags.values()]
        classes[name] = {"hf_base": uses_hf, "flags": entries}
    facts: dict[str, Any] = {
        "version": version,
        "python": _header(metadata, "Requires-Python"),
        "requires": requirements(metadata),
        "extras": {"megatron": requirements(metadata, "megatron")},
        "argument_files": files,
        "routes": table,
        "classes": classes,
        "flags": [json.loads(text) for text in pool],
    }
    bridge = Tree(wheel("mcore-bridge", MCORE_BRIDGE, wheels)) if "mcore-bridge" in facts["extras"]["megatron"] else None
    return facts, registries(own, bridge)


def transformers_flags(tree: Tree) -> dict[str, Flag]:
    return Classes(tree).flags(tree.member("transformers.training_args_seq2seq", HF_CLASS))


def transformers_facts(version: str, wheels: Path) -> dict[str, Any]:
    tree = Tree(wheel("transformers", version, wheels))
    metadata = tree.metadata("transformers")
    flags = transformers_flags(tree)
    return {
        "version": version,
        "python": _header(metadata, "Requires-Python"),
        "class": HF_CLASS,
        "flags": [[name, flag.to_json()] for name, flag in flags.items()],
    }


def _header(metadata: str, name: str) -> str | None:
    match = re.search(rf"^{name}: (.*)$", metadata, re.MULTILINE)
    return match[1].strip() if match else None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_compact(value) + "\n", encoding="utf-8")
    print(f"{path}  {path.stat().st_size / 1024:.0f} KiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="ms-swift releases")
    parser.add_argument("--transformers", nargs="+", default=[], metavar="VERSION", help="transformers releases")
    parser.add_argument("--base", default=SHIPPED_TRANSFORMERS[-1], help="transformers release to prove the composition with")
    parser.add_argument("--wheels", type=Path, help="folder of wheels (default: a temporary one)")
    parser.add_argument("--out", type=Path, default=Path("src/alula/facts"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        wheels = options.wheels or Path(temporary)
        for version in options.transformers:
            write(options.out / "transformers" / f"{version}.json", transformers_facts(version, wheels))
        for version in options.versions:
            facts, tables = swift_facts(version, wheels, options.base)
            write(options.out / "swift" / f"{version}.json", facts)
            write(options.out / "swift" / f"{version}.registries.json", tables)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
