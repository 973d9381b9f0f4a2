"""Pipeline layouts as megatron-core reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.swift.layout import LayoutError, parse_layout, stage_layers


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("Ettt|t,L", ("Ettt", "tL")),
        ("Et*3|(tt|)*2m|L", ("Ettt", "tt", "tt", "m", "L")),
        ("E(|tt)*3,|mL", ("E", "tt", "tt", "tt", "mL")),
        ("Et*9|(t*9|)*2t*9L", ("Ettttttttt", "ttttttttt", "ttttttttt", "tttttttttL")),
        ("E||L", ("E", "", "L")),
        ("", ("",)),
    ],
)
def test_stages(text: str, stages: tuple[str, ...]) -> None:
    assert parse_layout(text).stages == stages


@pytest.mark.parametrize("text", ["Et|x|L", "E t|L", "e|l", "Et*9999999L", "(t*999999|)*999999"])
def test_unreadable(text: str) -> None:
    with pytest.raises(LayoutError):
        parse_layout(text)


def test_faults_come_in_order() -> None:
    assert not list(parse_layout("Ett|ttL").faults(4, None, 2))
    assert [fault[:12] for fault in parse_layout("tE|t").faults(3, 1, 2)] == ["it must begi", "it must end ", "it places 2 ", "it places 0 "]
    assert "last virtual stage" in next(parse_layout("Et|tm||L").faults(2, 1, 2))
    assert not list(parse_layout("Et|tmL").faults(2, 1, 2))


@given(st.integers(1, 300), st.integers(2, 64))
def test_uneven_split_adds_up(layers: int, pipeline: int) -> None:
    split = stage_layers(layers, pipeline)
    if split is None:
        assert layers < pipeline or layers - layers // pipeline * (pipeline - 2) < 2
        return
    first, middle, last = split
    assert first + middle * (pipeline - 2) + last == layers
    assert first >= 1
    assert last >= 1


@given(st.text("Etml|()*,0123456789", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        layout = parse_layout(text)
    except LayoutError:
        return
    assert list(layout.faults(4, None, 1)) is not None
