"""YAML with places, against PyYAML itself, and hostile files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.read.config import flatten, is_ray, ray_spec, read_config
from alula.read.errors import ReadError
from alula.read.yaml import Node, read_yaml
from alula.run.source import Source


def tree(text: str) -> Node | None:
    return read_yaml(Source("x.yaml", text.encode("utf-8", "surrogatepass")))


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(VALUES, st.booleans())
def test_reads_what_pyyaml_reads(value: Any, flow: bool) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, allow_unicode=True)
    node = tree(text)
    assert (None if node is None else node.plain()) == yaml.safe_load(text)


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="ab:-#&*!|>'\"{}[],?%@` \n\t1.e~<=é", max_size=40))
def test_arbitrary_text_reads_the_same_or_is_refused(text: str) -> None:
    try:
        expected = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, TypeError):
        expected = _REFUSED
    try:
        node = tree(text)
    except ReadError:
        return  # refusing more is fine: tags and odd keys never stand in a config
    if node is None or node.kind == "scalar":
        value = None if node is None else node.value
        assert value == expected or value != value
    else:
        assert expected is _REFUSED or isinstance(expected, (dict, list))


_REFUSED = object()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_give_a_read_error_or_a_tree(data: bytes) -> None:
    try:
        read_config(Source("x.yaml", data))
    except ReadError as error:
        assert "\n" not in str(error)


def test_scalars_point_at_their_bytes() -> None:
    text = "# é\nmodel: 'Qwen/Qwen3-8B'\nlr: 1e-6\nlist:\n  - ä\n  - b\n"
    source = Source("x.yaml", text.encode())
    entries = read_config(source)
    assert source.text(entries["model"].node.span) == "'Qwen/Qwen3-8B'"
    assert source.text(entries["lr"].node.span) == "1e-6"
    assert entries["lr"].node.value == "1e-6"  # PyYAML reads 1e-6 as text, and so does ms-swift
    assert [source.text(item.span) for item in entries["list"].node.value] == ["ä", "b"]
    assert source.text(entries["list"].key.span) == "list"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1, 2", "not valid YAML"),
        ("- a\n- b\n", "must be a mapping"),
        ("", "empty"),
        ("&a [*a]", "no finished anchor"),
        ("[" * 100 + "]" * 100, "nested deeper"),
        ("x: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"x{n}: &b{n} [{','.join(['*' + ('a' if n == 0 else f'b{n - 1}')] * 10)}]\n" for n in range(8)), "aliases"),
        ("a: \x01", "not valid YAML"),
    ],
)
def test_hostile_files_are_refused_in_one_line(text: str, part: str) -> None:
    with pytest.raises(ReadError, match=part) as caught:
        read_config(Source("x.yaml", text.encode()))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("x.yaml")


FLATTENED = [
    ("use_vllm: true", ["--use_vllm", "True"]),
    ("ref_model: null", ["--ref_model", "None"]),
    ("reward_funcs: [accuracy, format]", ["--reward_funcs", "accuracy", "format"]),
    ("reward_funcs: []", ["--reward_funcs"]),
    ("vllm_limit_mm_per_prompt: {image: 2}", ["--vllm_limit_mm_per_prompt", '{"image": 2}']),
    ("ENV: {A: 1}\nbeta: 0.1", ["--beta", "0.1"]),
]


@pytest.mark.parametrize(("text", "words"), FLATTENED)
def test_flattened_as_ms_swift_does(text: str, words: list[str]) -> None:
    assert [token.text for token in flatten(read_config(Source("x.yaml", text.encode())))] == words


def test_ray_groups_get_the_shared_keys_under_their_own() -> None:
    text = "rlhf_type: grpo\nmodel: M\nbf16: true\nval_dataset: null\ntrain: {gpus: 4, model: N}\nrollout:\n  gpus: 2\ncolocate_groups: [[train, rollout]]\n"
    entries = read_config(Source("x.yaml", text.encode()))
    assert is_ray(entries)
    spec = ray_spec(entries, "x.yaml")
    assert [token.text for token in spec.groups["train"].argv] == ["--rlhf_type", "grpo", "--model", "N", "--bf16", "true"]
    assert spec.groups["rollout"].keys["gpus"].text == "2"
    assert spec.colocate_groups == (("train", "rollout"),)
