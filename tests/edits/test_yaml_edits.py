"""Edits to YAML, judged by PyYAML: the mapping minus, plus or with exactly what was asked, comments and layout kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.read.yaml import Node, read_yaml
from alula.run.finding import Edit
from alula.run.source import Source, Span
from alula.write.edits import NotEditable, delete_yaml_key, insert_yaml_key, yaml_key, yaml_scalar, yaml_value

FUZZ = settings(max_examples=150, deadline=None)
NAMES = st.sampled_from(["model", "lr", "reward_funcs", "train", "ENV", "beta", "gpus", "max_length"])
SCALARS = st.one_of(
    st.sampled_from(
        [
            "1",
            "1e-6",
            "true",
            "Qwen/Qwen3-8B",
            "'a b'",
            '"x: y"',
            "",
            "null",
            "~",
            "千问",
            "|\n@one\n@two\n",
            "|+\n@one\n\n",
            "|-\n@one\n",
            ">-\n@one\n",
            '"two\n@lines"',
        ]
    ),
    st.integers(0, 999).map(str),
)


def edited(data: bytes, edit: Edit) -> bytes:
    return data[: edit.span.start] + edit.text.encode() + data[edit.span.end :]


@st.composite
def block(draw: st.DrawFn, indent: int = 0, depth: int = 2) -> str:
    """A block mapping, in some layout, ended by a newline."""
    pad = " " * indent
    text = ""
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        text += draw(st.sampled_from(["", "", "\n", f"{pad}# about {name}\n"]))
        key = draw(st.sampled_from([name, name, f'"{name}"']))
        kind = draw(st.sampled_from(["scalar", "scalar", "list", "flow", "mapping"] if depth else ["scalar"]))
        comment = draw(st.sampled_from(["", "  # why"]))
        if kind == "scalar":
            value = draw(SCALARS).replace("@", pad + "  ")
            text += f"{pad}{key}: {value}" + ("" if value.endswith("\n") else ("" if "\n" in value else comment) + "\n")
        elif kind == "list":
            deeper = pad + draw(st.sampled_from(["", "  "]))
            text += f"{pad}{key}:{comment}\n" + "".join(f"{deeper}- {n}\n" for n in range(draw(st.integers(1, 3))))
        elif kind == "flow":
            text += f"{pad}{key}: {draw(st.sampled_from(['[1, 2]', '{a: 1, b: {c: 2}}', '[]', '{a: 1}']))}{comment}\n"
        else:
            text += f"{pad}{key}:{comment}\n" + draw(block(indent=indent + 2, depth=depth - 1))
    return text


def keys(node: Node, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Span]]:
    if node.kind != "mapping":
        return []
    return [(found, span) for name, e in node.value.items() for found, span in [((*path, name), e.key.span), *keys(e.node, (*path, name))]]


def without(tree: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    if len(path) == 1:
        return {name: value for name, value in tree.items() if name != path[0]}
    inner = without(tree[path[0]], path[1:])
    return {name: inner if name == path[0] else value for name, value in tree.items() if name != path[0] or inner}


@FUZZ
@given(text=block(), data=st.data(), cut=st.booleans(), bom=st.booleans())
def test_delete_key_takes_exactly_its_entry(text: str, data: st.DataObject, cut: bool, bom: bool) -> None:
    raw = (b"\xef\xbb\xbf" if bom else b"") + (text.removesuffix("\n") if cut else text).encode()
    source = Source("x.yaml", raw)
    path, span = data.draw(st.sampled_from(keys(read_yaml(source))))
    tree = yaml.safe_load(raw)
    expected = without(tree, path)
    try:
        edit = delete_yaml_key(source, span)
    except NotEditable:
        assert not expected
        return
    new = edited(raw, edit)
    assert yaml.safe_load(new) == expected, new.decode()
    assert new.count(b"# about") == raw.count(b"# about") - raw[edit.span.start : edit.span.end].count(b"# about")


@FUZZ
@given(text=block(), data=st.data(), cut=st.booleans(), value=st.sampled_from(["8", "a b", "[x]", "1e-6"]))
def test_insert_key_adds_exactly_one(text: str, data: st.DataObject, cut: bool, value: str) -> None:
    raw = (text.removesuffix("\n") if cut else text).encode()
    source = Source("x.yaml", raw)
    path, span = data.draw(st.sampled_from(keys(read_yaml(source))))
    expected = yaml.safe_load(raw)
    mapping = expected
    for name in path[:-1]:
        mapping = mapping[name]
    mapping["new_key"] = yaml.safe_load(value) if value in ("8", "1e-6") else value
    try:
        edit = insert_yaml_key(source, span, "new_key", value)
    except NotEditable:
        assert "|" in text
        assert cut or "|+" in text
        return
    new = edited(raw, edit)
    assert yaml.safe_load(new) == expected, new.decode()
    assert raw.count(b"#") == new.count(b"#")


@FUZZ
@given(text=st.text(max_size=20))
def test_scalar_is_read_back(text: str) -> None:
    """ms-swift takes `str()` of the value; booleans are the one thing that may change its case."""
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    value = yaml.safe_load(f"key: {yaml_scalar(text)}\nnext: 1\n")["key"]
    assert str(value) == text or str(value).lower() == text.lower() == yaml_scalar(text).lower()
    assert yaml.safe_load(f"[{yaml_scalar(text)}, 1]") == [value, 1]


@pytest.mark.parametrize(
    "text", ["1e-6", "5.0e-6", "0.1", "-1", "8", "grpo", "true", "Qwen/Qwen3-8B", "a.b@c", "x-y_z", "hello world", "1.0"]
)
def test_scalar_stays_plain(text: str) -> None:
    assert yaml_scalar(text) == text


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "~", "010", "0x1F", "1_000", "12:30", "2024-01-01", "", "a: b", "a #b", "- x", "{a: 1}", "[x]", "*x", "&x", "!x", "%x", "@x", "`x", "x:", "?", "-", "---", ".inf", "=", "on", "it's", 'say "x"', "a\nb", "\x85", "\u2028"]
)  # fmt: skip
def test_scalar_is_quoted_where_yaml_would_read_something_else(text: str) -> None:
    written = yaml_scalar(text)
    assert written[0] in "'\""
    assert yaml.safe_load(f"a: {written}") == {"a": text}


CASES: dict[str, tuple[str, str, str]] = {
    "a line with its comment": ("a: 1\nb: 2  # why\nc: 3\n", "b", "a: 1\nc: 3\n"),
    "a list": ("a: 1\nb:\n- x\n- y\n\n# c\nc: 3\n", "b", "a: 1\n\n# c\nc: 3\n"),
    "behind a dash": ("l:\n  - a: 1\n    b: 2\n", "a", "l:\n  - b: 2\n"),
    "in braces, first": ("m: {a: 1, b: 2}\n", "a", "m: {b: 2}\n"),
    "in braces, last": ("m: {a: 1, b: [1, 2]}\n", "b", "m: {a: 1}\n"),
    "the only one of a mapping": ("a: 1\nENV:\n  X: 1\n", "X", "a: 1\n"),
    "a literal": ("a: |\n  x\n\n  y\n\nb: 1\n", "a", "\nb: 1\n"),
    "no newline at the end": ("a: 1\nb: 2", "b", "a: 1\n"),
    "Windows line ends": ("a: 1\r\nb: 2\r\nc: 3\r\n", "b", "a: 1\r\nc: 3\r\n"),
    "an alias": ("a: &x 1\nb: *x\nc: 3\n", "b", "a: &x 1\nc: 3\n"),
    "in a here-document": (
        "cat > c.yaml <<'EOF'\na: 1\nb: 2\nEOF\nswift sft c.yaml\n",
        "b",
        "cat > c.yaml <<'EOF'\na: 1\nEOF\nswift sft c.yaml\n",
    ),
    "JSON": ('{\n  "a": 1,\n  "b": 2\n}\n', '"b"', '{\n  "a": 1\n}\n'),
}


@pytest.mark.parametrize("name", CASES)
def test_delete_key_layout(name: str) -> None:
    text, key, expected = CASES[name]
    at = text.index(f"{key}:")
    file = "run.sh" if "EOF" in text else "x.json" if name == "JSON" else "x.yaml"
    edit = delete_yaml_key(Source(file, text.encode()), Span(file, at, at + len(key)))
    assert edited(text.encode(), edit).decode() == expected


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a: 1\n", "a"),
        ("l:\n  - a: 1\n", "a"),
        ("a: &x 1\nb: *x\n", "a"),
        ("a: 1\nb: 2\n", "1"),
        ("a: [b: 1, 2]\n", "b"),
        ("a: {b: 1\n", "b"),
    ],
)
def test_delete_key_refuses(text: str, key: str) -> None:
    at = text.index(key)
    with pytest.raises(NotEditable):
        delete_yaml_key(Source("x.yaml", text.encode()), Span("x.yaml", at, at + len(key)))


def test_insert_next_to_a_value_an_item_or_a_mapping() -> None:
    def insert(text: str, near: str, file: str = "x.yaml", value: str = "1") -> str:
        at = text.rindex(near)
        return edited(text.encode(), insert_yaml_key(Source(file, text.encode()), Span(file, at, at + len(near)), "new", value)).decode()

    assert insert("a: 1  # why\nb:\n  - x\n  - y\nc: 3\n", "y") == "a: 1  # why\nb:\n  - x\n  - y\nnew: 1\nc: 3\n"
    assert insert("a:\n  stage: 3\n", "3") == "a:\n  stage: 3\n  new: 1\n"
    assert insert("m: {a: 1}\n", "1") == "m: {a: 1, new: 1}\n"
    assert insert("a: 1", "1") == "a: 1\nnew: 1"
    assert insert("a: 1\r\n", "1") == "a: 1\r\nnew: 1\r\n"
    assert json.loads(insert('{\n  "a": 1\n}\n', "1", "x.json", "x")) == {"a": 1, "new": "x"}
    assert insert('{\n  "a": 1\n}\n', "1", "x.json", "true") == '{\n  "a": 1,\n  "new": true\n}\n'
    assert insert("cat <<EOF >x.yaml\na: 1\nEOF\n", "1", "run.sh") == "cat <<EOF >x.yaml\na: 1\nnew: 1\nEOF\n"
    # A mapping that becomes one argument (`deepspeed: {…}`) is a value itself: the new key stands beside it.
    text = "a: 1\nd:\n  stage: 3\n  x: 1\n"
    source = Source("x.yaml", text.encode())
    span = read_yaml(source).value["d"].node.span
    assert edited(text.encode(), insert_yaml_key(source, span, "new", "1")).decode() == text + "new: 1\n"


def test_value_and_key_keep_their_quotes() -> None:
    def value(text: str, old: str, new: str, file: str = "x.yaml") -> str:
        at = text.index(old)
        return yaml_value(Source(file, text.encode()), Span(file, at, at + len(old)), new)

    assert value("a: 8\n", "8", "6") == "6"
    assert value('a: "8"\n', '"8"', "6") == '"6"'
    assert value("a: 'x'\n", "'x'", "it's") == "'it''s'"
    assert value("a: x\n", "x", "yes") == "'yes'"
    assert value('{"a": "x"}', '"x"', "y", "x.json") == '"y"'
    assert value('{"a": 8}', "8", "6", "x.json") == "6"
    assert value('{"a": 8}', "8", "auto", "x.json") == '"auto"'
    at = Span("x.json", 1, 4)
    assert yaml_key(Source("x.json", b'{"a": 8}'), at, "b") == '"b"'
    assert yaml_key(Source("x.yaml", b"a: 8"), Span("x.yaml", 0, 1), "b") == "b"


@pytest.mark.parametrize("text", ["a: 1\nb: |\n  x", "a: 1\nb: |+\n  x\n\nc: 2\n", "a: {b: 1\n", "? b\n: 1\n"])
def test_insert_key_refuses(text: str) -> None:
    at = text.index("b")
    with pytest.raises(NotEditable):
        insert_yaml_key(Source("x.yaml", text.encode()), Span("x.yaml", at, at + 1), "new", "1")


def test_the_right_here_document_of_several() -> None:
    text = "cat <<A >x\nk: 1\nA\ncat <<-'B' >y\nk: 2\nm: 3\nB\n"
    at = text.rindex("k")
    edit = delete_yaml_key(Source("run.sh", text.encode()), Span("run.sh", at, at + 1))
    assert edited(text.encode(), edit).decode() == text.replace("k: 2\n", "")
