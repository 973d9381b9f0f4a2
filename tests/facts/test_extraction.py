"""What is read as syntax is what the real thing registers."""

from __future__ import annotations

import dataclasses
import importlib
import json
import subprocess
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from alula.facts import swift

ROOT = Path(__file__).parents[2]
REAL = ROOT / ".cache" / "swift460" / "bin" / "python"
needs_real = pytest.mark.skipif(not REAL.exists(), reason="no environment with the real ms-swift 4.6.0 at .cache/swift460")


def _introspect(*arguments: str) -> dict[str, Any]:
    command = [str(REAL), str(ROOT / "tools" / "introspect.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(json.loads(done.stdout))


# About twenty seconds each on a quiet machine: importing torch, transformers and every model file of ms-swift.
@pytest.fixture(scope="module")
def live() -> dict[str, Any]:
    return _introspect()


@needs_real
@pytest.mark.slow
def test_all_routes_are_there(live: dict[str, Any]) -> None:
    facts = swift.load("4.6.0")
    assert {name: route.argument_class for name, route in facts.routes.items()} == {name: entry["class"] for name, entry in live.items()}


@needs_real
@pytest.mark.slow
@pytest.mark.parametrize("route", swift.load("4.6.0").routes)
def test_flags_equal_the_live_parser(live: dict[str, Any], route: str) -> None:
    """Names, order, types, number of values, choices, defaults: everything that argparse was really given."""
    facts = swift.load("4.6.0").flags(route)
    real = live[route]["flags"]
    assert list(facts) == list(real)
    wrong = []
    for name, action in real.items():
        flag = facts[name]
        # An enum's constructor refuses what is no member, as choices would; a path is text; any other class takes no text.
        kind = {"DebugOption": "str", "Path": "str"}.get(action["type"], action["type"])
        kind = kind if kind in ("int", "float", "str", "bool", "dict") else "object"
        choices = action["choices"] if action["type"] != "DebugOption" else ["underflow_overflow", "tpu_metrics_debug"]
        want = (kind, action["nargs"], choices, action["default"], action["required"], action["negatable"])
        have = (flag.type, flag.nargs, flag.choices, flag.default, flag.required, flag.negatable)
        have = tuple(list(x) if isinstance(x, tuple) else x for x in have)
        if have != want or action["const"] not in (None, True) or (action["const"] is True) != (flag.nargs == "?"):
            wrong.append((name, have, want))
        if action["options"] not in ([f"--{name}"], [f"--{name}", f"--{name.replace('_', '-')}"]):
            wrong.append((name, action["options"], "other spellings"))
    assert not wrong


@needs_real
@pytest.mark.slow
def test_registries_equal_the_live_ones() -> None:
    real = _introspect("--registries")
    tables = swift.load("4.6.0").registries
    assert list(tables["templates"]) == real["templates"]
    assert set(tables.models) == set(real["models"])
    for name, model in real["models"].items():
        have = tables.models[name]
        assert list(have.architectures) == model["architectures"], name
        assert list(have.templates) == model["templates"], name
        assert (have.multimodal, have.reward) == (model["is_multimodal"], model["is_reward"]), name
        assert list(have.ids) == model["ids"], name
        if model["megatron"] is not None and not have.megatron_conditional:
            assert have.megatron == model["megatron"], name
    assert {name for name, model in tables.models.items() if model.megatron_conditional} == {"deepseek_v41", "nemotron_h", "qwen4_exp"}


# The reader of dataclasses against dataclasses themselves.

PACKAGE = {
    "__init__.py": "from .args import Args\n",
    "kinds.py": (
        "from enum import Enum\n"
        "class Mode(Enum):\n    FAST = 'fast'\n    SLOW = 'slow'\n"
        "NAMES = ['a', *('b', 'c')]\nSIZE = 2 * 8\nclass Keys:\n    one = 'k1'\n"
    ),
    "base.py": (
        "from dataclasses import dataclass, field\n"
        "from typing import Any, ClassVar, Dict, List, Literal, Optional, Union\n"
        "@dataclass\nclass A:\n    first: int = 1\n    second: Optional[str] = None\n    shared: float = 0.5\n"
        "    table: Optional[Union[str, dict]] = None\n"
        "@dataclass\nclass B(A):\n    third: bool = True\n"
        "@dataclass\nclass C(A):\n    shared: int = 7\n    names: List[str] = field(default_factory=lambda: ['x', 'y'])\n"
        "class Plain(C):\n    ignored: int = 3\n    count: ClassVar[int] = 0\n"
    ),
    "args.py": (
        "from __future__ import annotations\n"
        "import os\nfrom dataclasses import dataclass, field\nfrom typing import List, Literal, Optional, Union\n"
        "from . import kinds\nfrom .base import B, Plain\nfrom .kinds import Keys, NAMES as LETTERS, SIZE\n"
        "@dataclass\nclass Args(B, Plain):\n"
        "    default_size = SIZE\n"
        "    second: Optional[str] = 'set'\n"
        "    size: int = default_size\n"
        "    mode: Literal['group', 'none', None] = None\n"
        "    level: Union[kinds.Mode, str] = field(default='fast', metadata={'help': f'{LETTERS}'})\n"
        "    letters: List[str] = field(default_factory=lambda: LETTERS + [Keys.one])\n"
        "    maybe: Optional[bool] = None\n"
        "    negative: float = -1e-5\n"
        "    env: str = os.getenv('SOME_VARIABLE_NOBODY_SETS', 'fallback')\n"
        "    hidden: int = field(default=0, init=False)\n"
        "    picked: str = field(default='p', metadata={'choices': ['p', 'q']})\n"
        "    new: int | None = None\n"
        "    must: int = field(kw_only=True)\n"
        "    unannotated = 5\n"
    ),
}


@pytest.fixture(scope="module")
def static_tools() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "tools"))
    yield importlib.import_module("static.dataclass_fields")
    sys.path.remove(str(ROOT / "tools"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, static_tools: ModuleType) -> Iterator[tuple[dict[str, Any], type]]:
    folder = tmp_path_factory.mktemp("package")
    (folder / "sample_pkg").mkdir()
    for name, text in PACKAGE.items():
        (folder / "sample_pkg" / name).write_text(text, encoding="utf-8")
    tree = importlib.import_module("static.source").Tree(folder)
    flags = static_tools.Classes(tree).flags(tree.member("sample_pkg", "Args"))
    sys.path.insert(0, str(folder))
    yield flags, importlib.import_module("sample_pkg").Args
    sys.path.remove(str(folder))


def test_fields_as_dataclasses_collects_them(both: tuple[dict[str, Any], type]) -> None:
    """Order, defaults and the diamond: B brings A's own `shared` back over C's, while the type hint stays C's."""
    flags, real = both
    fields = {f.name: f for f in dataclasses.fields(real) if f.init}
    assert list(flags) == list(fields)
    for name, field in fields.items():
        default = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if default is dataclasses.MISSING:
            assert flags[name].required
        else:
            assert flags[name].default == default, name
    assert flags["shared"].default == 0.5
    assert flags["shared"].type == "int"
    assert typing.get_type_hints(real)["shared"] is int


def test_flags_as_the_parser_reads_types(both: tuple[dict[str, Any], type]) -> None:
    flags, _ = both
    kinds = {name: (flag.type, flag.nargs, flag.choices) for name, flag in flags.items()}
    assert kinds["second"] == ("str", None, None)
    assert kinds["table"] == ("str", None, None)
    assert kinds["third"] == ("bool", "?", None)
    assert flags["third"].negatable
    assert kinds["mode"] == ("str", None, ("group", "none", None))
    assert kinds["level"] == ("str", None, ("fast", "slow"))
    assert kinds["letters"] == ("str", "+", None)
    assert kinds["maybe"] == ("bool", None, None)
    assert kinds["picked"] == ("str", None, ("p", "q"))
    assert kinds["new"] == ("int", None, None)
    assert (flags["maybe"].optional, flags["mode"].optional, flags["first"].optional) == (True, True, False)
    assert flags["env"].default == "fallback"
    assert flags["second"].source == "args.py:Args"


def test_unknown_values_are_refused_not_guessed(tmp_path: Path, static_tools: ModuleType) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "__init__.py").write_text(
        "from dataclasses import dataclass\nimport time\n@dataclass\nclass A:\n    when: float = time.time()\n", encoding="utf-8"
    )
    source = importlib.import_module("static.source")
    tree = source.Tree(tmp_path)
    with pytest.raises(source.Unknown, match=r"default of .*A\.when"):
        static_tools.Classes(tree).flags(tree.member("p", "A"))
