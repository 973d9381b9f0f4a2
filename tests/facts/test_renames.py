"""Every line of renames.toml holds against the extracted releases."""

from __future__ import annotations

import itertools

import pytest

from alula.facts import swift
from alula.facts._data import numbers

# Parsed by the launcher, not by an argument class (`swift/cli/main.py` up to 4.0).
LAUNCHER_ONLY = {"config"}


def _routes(entry: swift.Rename, version: str) -> list[str]:
    return [route for route in swift.load(version).routes if entry.holds_for(route)]


@pytest.mark.parametrize("entry", swift.renames(), ids=lambda e: f"{e.old}@{e.since}")
def test_rename_holds(entry: swift.Rename) -> None:
    gone = [v for v in swift.versions() if numbers(v) >= numbers(entry.since) and (not entry.until or numbers(v) < numbers(entry.until))]
    before = [v for v in swift.versions() if numbers(v) < numbers(entry.since)]
    assert gone, "no shipped version shows this"
    for version in gone:
        facts = swift.load(version)
        routes = _routes(entry, version)
        assert routes
        for route in routes:
            assert entry.old not in facts.flags(route), f"{version} {route} still has it"
        if entry.new and numbers(version) == max(numbers(v) for v in gone):
            assert any(entry.new in facts.flags(route) for route in routes), f"{version}: no route has {entry.new}"
    if before and entry.old not in LAUNCHER_ONLY:
        last = before[-1]
        assert any(entry.old in swift.load(last).flags(route) for route in _routes(entry, last)), f"{last} never had it"
    if entry.until:
        back = [v for v in swift.versions() if numbers(v) >= numbers(entry.until)]
        assert any(entry.old in swift.load(back[0]).flags(route) for route in _routes(entry, back[0]))


def test_every_removal_is_explained() -> None:
    """A flag that one shipped version has and the next has not is either renamed or said to be gone. Transformers' own are not ours."""
    silent = []
    for earlier, later in itertools.pairwise(swift.versions()):
        a, b = swift.load(earlier), swift.load(later)
        for route in a.routes:
            base = a.transformers[0]
            after = b.flags(route, base)
            silent += [(later, route, name) for name in a.flags(route, base) if name not in after and not swift.rename(name, route, later)]
    assert not silent


def test_rename_ends_where_the_old_name_returns() -> None:
    assert swift.rename("megatron_extra_kwargs", "megatron rlhf", "4.2.3") is not None
    assert swift.rename("megatron_extra_kwargs", "megatron rlhf", "4.3.2") is None
    assert swift.rename("megatron_extra_kwargs", "megatron rlhf", "3.12.6") is None


def test_rename_is_of_its_routes() -> None:
    entry = swift.rename("save", "megatron sft", "4.6.0")
    assert entry is not None
    assert entry.new == "output_dir"
    assert swift.rename("save", "swift sft", "4.6.0") is None
    assert swift.rename("train-type", "swift rlhf", "4.6.0") is not None
    assert swift.rename("train_type", "swift rlhf", "4.0.4") is None
