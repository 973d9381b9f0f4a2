"""Plugins read as syntax: what they register, their signatures, what they surely return."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.read.hints import context_job
from alula.read.plugin import read_plugin
from alula.run.plugin import Function, Plugin
from alula.run.source import Source

HEAD = "from swift.rewards import ORM, orms\n\nclass A(ORM):\n    pass\n\nclass B(ORM):\n    pass\n\n"


def read(text: str, path: str | None = None) -> Plugin:
    return read_plugin(Source("plugin.py", text.encode(), path))


@pytest.mark.parametrize(
    "text",
    [
        "orms['a'] = A\norms['b'] = B",
        "orms.update({'a': A, 'b': B})",
        "orms.update(a=A, b=B)",
        "orms |= {'a': A, 'b': B}",
        "orms.setdefault('a', A)\norms.__setitem__('b', B)",
        "for name, cls in {'a': A, 'b': B}.items():\n    orms[name] = cls",
        "TABLE = {'a': A, 'b': B}\nfor name, cls in TABLE.items():\n    orms[name] = cls",
        "for name, cls in [('a', A), ('b', B)]:\n    orms[name] = cls",
        "TABLE = {'a': A, 'b': B}\norms.update(TABLE)",
        "NAME = 'a'\norms[NAME] = A\norms['b'] = B",
        "if True:\n    orms['a'] = A\ntry:\n    orms['b'] = B\nexcept KeyError:\n    pass",
        "import swift.rewards\nswift.rewards.orms['a'] = A\nfrom swift.rewards.orm import orms as table\ntable['b'] = B",
        "def register(name):\n    def wrap(cls):\n        orms[name] = cls\n        return cls\n    return wrap\n\n"
        "@register('a')\nclass X(ORM):\n    pass\n\n@register('b')\nclass Y(ORM):\n    pass",
        "def add(name, cls):\n    orms[name] = cls\nadd('a', A)\nadd('b', B)",
    ],
)
def test_every_way_to_register(text: str) -> None:
    plugin = read(HEAD + text)
    assert plugin.names("orms") == {"a", "b"}
    assert not plugin.open
    assert plugin.error is None
    assert all(r.kind == "class" and r.target for r in plugin.registrations)


@pytest.mark.parametrize(
    "text",
    [
        "orms[make_name()] = A",
        "orms.update(load())",
        "register_all(orms)",
        "for name in names():\n    orms[name] = A",
        "import my_rewards",
        "from .others import *",
        "table = [orms]",
    ],
)
def test_names_that_cannot_be_known_leave_it_open(text: str) -> None:
    assert read(HEAD + text).open


@pytest.mark.parametrize("text", ["print(orms)", "if 'a' not in orms:\n    orms['a'] = A", "x = orms.get('a')", "for k in orms.keys():\n    pass", "import json, torch, numpy as np"])
def test_reading_a_registry_leaves_it_closed(text: str) -> None:
    assert not read(HEAD + text).open


def test_a_dict_of_its_own_is_no_registry() -> None:
    assert not read("orms = {}\nclass A:\n    pass\norms['a'] = A\n").registrations


def test_modules_beside_it_are_read(tmp_path: Path) -> None:
    (tmp_path / "others.py").write_text("from swift.rewards import orms\nimport more\norms['b'] = object\n")
    (tmp_path / "more.py").write_text("import others\nfrom swift.rewards import orms\norms['c'] = object\n")
    path = tmp_path / "plugin.py"
    path.write_text(HEAD + "import others\norms['a'] = A\n")
    plugin = read_plugin(Source("plugin.py", path.read_bytes(), str(path)))
    assert plugin.names("orms") == {"a", "b", "c"}
    assert not plugin.open


def test_a_syntax_error_has_its_place() -> None:
    plugin = read("x = 1\nclass A(\n    pass\n")
    assert plugin.error is not None
    message, span = plugin.error
    assert message
    assert span.start >= len("x = 1\n")
    assert plugin.open


def test_syntax_of_a_newer_python_is_no_error() -> None:
    for text in ("type X = int\n", "x = f'{1!z}'\n", "class A[T]:\n    pass\n"):
        assert read(text).error is None


def function(text: str) -> Function:
    plugin = read("import requests, subprocess, time\nfrom openai import OpenAI\nclass A:\n" + "\n".join("    " + line for line in text.splitlines()) + "\n")
    assert plugin.error is None
    return next(iter(plugin.classes["A"].methods.values()))


def test_signatures() -> None:
    made = function("def f(self, a, b=1, *rest, c, d=2, **more):\n    pass")
    assert [(p.name, p.required, p.keyword_only) for p in made.parameters] == [("a", True, False), ("b", False, False), ("c", True, True), ("d", False, True)]
    assert made.var_positional
    assert made.var_keyword
    assert not function("async def f(self):\n    pass").accepts("x")
    assert function("async def f(self):\n    pass").is_async


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return 1", "number"),
        ("return float(x)", "number"),
        ("n = 0\nn += 1\nreturn n / len(x)", "number"),
        ("return min(len(c) for c in x)", "number"),
        ("return x.mean()", "number"),
        ("return None", "none"),
        ("pass", None),
        ("print(x)", "none"),
        ("raise ValueError", None),
        ("return 'a'", "text"),
        ("return [1]", "list"),
        ("return (1, 2)", "tuple"),
        ("return {'a': 1}", "dict"),
        ("return [c for c in x if c]", "filtered"),
        ("return [c for c in x]", "other"),
        ("return [c for c in self.y if c]", "other"),
        ("out = []\nfor c in x:\n    if c:\n        out.append(1)\nreturn out", "short"),
        ("out = []\nfor i, c in enumerate(x):\n    if c:\n        continue\n    out.append(1)\nreturn out", "short"),
        ("out = []\nfor i in range(len(x)):\n    with a:\n        if i:\n            out.append(1)\nreturn out", "short"),
        ("out = []\nfor c in x:\n    out.append(1)\nreturn out", "name"),
        ("out = []\nfor c in x:\n    if c:\n        out.append(1)\n    else:\n        raise ValueError\nreturn out", "name"),
        ("out = []\nfor c in x:\n    for d in c:\n        out.append(1)\nreturn out", "name"),
        ("out = []\nfor c in x:\n    if c:\n        out.append(1)\nreturn pad(out)", "other"),
        ("out = []\nfor c in x:\n    if c:\n        out.append(1)\nout.extend([0] * 3)\nreturn out", "name"),
        ("return sum(x)", "other"),
        ("return a + b", "other"),
        ("return x > 0", "other"),
    ],
)
def test_what_is_surely_returned(body: str, kind: str | None) -> None:
    made = function("def f(self, x, **kw):\n" + "\n".join("    " + line for line in body.splitlines()))
    assert [r.kind for r in made.returns] == ([] if kind is None else [kind])


def test_calls_are_resolved() -> None:
    made = function("def f(self, x):\n    s = requests.Session()\n    return [s.post(c, timeout=1) for c in x], requests.get(x[0]), await_(time.sleep(1))")
    calls = {call.name: call for call in made.calls}
    assert calls["requests.Session.post"].keywords == {"timeout"}
    assert calls["requests.Session.post"].looped
    assert not calls["requests.get"].looped
    assert "time.sleep" in calls


def test_endless_loops() -> None:
    assert function("def f(self):\n    while True:\n        x = 1").endless
    assert not function("def f(self):\n    while True:\n        if self.x:\n            return 1").endless
    assert not function("def f(self):\n    while self.x:\n        pass").endless
    assert function("def f(self):\n    while 1:\n        for i in range(3):\n            break").endless


@pytest.mark.parametrize(
    ("comment", "route", "flags"),
    [
        ("# launched with: --reward_funcs a b --deepspeed zero3", "swift rlhf", {"--reward_funcs", "--deepspeed", "--rlhf_type"}),
        ("# swift rollout --model M --multi_turn_scheduler s", "swift rollout", {"--model", "--multi_turn_scheduler"}),
        ("# run it: NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo \\\n#   --reward_funcs a", "swift rlhf", {"--rlhf_type", "--reward_funcs"}),
        ("# plugin.py ; megatron rlhf --rlhf_type grpo ...", "megatron rlhf", {"--rlhf_type"}),
        ("# used as --orm_model mine", "swift sample", {"--orm_model"}),
    ],
)
def test_comments_that_say_how_it_is_used(comment: str, route: str, flags: set[str]) -> None:
    job = context_job(Source("plugin.py", f"import os\n{comment}\n".encode()))
    assert job is not None
    assert job.route == route
    assert flags <= {token.text for token in job.argv}
    assert job.commented
    assert job.argv[0].unresolved, "a comment never counts as the whole command"


@pytest.mark.parametrize("text", ["x = '--reward_funcs a'", "# see --help", "# swift is a language", "# pass --verbose to the script", ""])
def test_other_comments_say_nothing(text: str) -> None:
    assert context_job(Source("plugin.py", text.encode())) is None


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.binary(max_size=400), st.text(max_size=400).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_no_bytes_end_in_a_traceback(data: bytes) -> None:
    source = Source("plugin.py", data)
    plugin = read_plugin(source)
    context_job(source)
    if plugin.error is not None:
        source.position(plugin.error[1].start)


def test_deep_nesting_and_long_chains() -> None:
    for text in ("(" * 5000, "x = " + "+".join("1" for _ in range(20000)), "\n".join(" " * i + "if x:" for i in range(150)), "a" + ".b" * 5000):
        read(text)
