"""The loader of ms-swift's facts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from alula.facts import swift
from alula.facts._data import numbers, satisfies

LAST_PATCHES = ("3.8.3", "3.9.3", "3.10.3", "3.11.3", "3.12.6", "4.0.4", "4.1.3", "4.2.3", "4.3.2", "4.4.2", "4.5.3", "4.6.0")
PAIRS = [(version, route) for version in LAST_PATCHES for route in swift.load(version).routes]


def test_every_minor_is_shipped() -> None:
    assert swift.versions() == LAST_PATCHES
    assert swift.newest() == "4.6.0"


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("4.6.0", "4.6.0"),
        ("4.6", "4.6.0"),
        ("4.5.1", "4.5.3"),
        ("3.10", "3.10.3"),
        ("v3.12.2", "3.12.6"),
        ("4.6.0.dev0", "4.6.0"),
        ("4.4.9", "4.4.2"),
    ],
)
def test_resolve(asked: str, given: str) -> None:
    assert swift.resolve(asked) == given


@pytest.mark.parametrize("asked", ["2.6.1", "3.7.3", "4.7", "5", "", "latest", "4"])
def test_resolve_lists_what_there_is(asked: str) -> None:
    with pytest.raises(ValueError, match=r"known versions of ms-swift: 3\.8\.3, .*4\.6\.0"):
        swift.resolve(asked)
    if asked != "latest":
        with pytest.raises(ValueError, match="known versions"):
            swift.load(asked)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The only folder that Python finds packages in."""
    swift.installed.cache_clear()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path)])
    yield tmp_path
    swift.installed.cache_clear()


@pytest.mark.parametrize(("there", "stands_for"), [("4.5.1", "4.5.3"), ("3.2.0", None), ("4.6.0", "4.6.0"), (None, None)])
def test_installed_version(site: Path, there: str | None, stands_for: str | None) -> None:
    if there:
        (site / f"ms_swift-{there}.dist-info").mkdir()
    assert swift.installed() == stands_for
    assert swift.resolve(None) == (stands_for or swift.newest())


@pytest.mark.parametrize(("version", "route"), PAIRS, ids=lambda x: x)
def test_flags_are_well_formed(version: str, route: str) -> None:
    """What argparse itself guarantees of what it registers, and what a reader relies on."""
    flags = swift.load(version).flags(route)
    assert flags
    for name, flag in flags.items():
        assert flag.name == name
        assert flag.type in ("int", "float", "str", "bool", "dict", "object")
        assert flag.nargs in (None, "?", "+")
        assert flag.source.count(":") == 1
        assert not flag.negatable or (flag.type == "bool" and flag.default is True)
        if flag.choices is not None:
            assert flag.choices
            if flag.default is not None and flag.nargs != "+":
                assert flag.default in flag.choices, f"{name}: default {flag.default!r} is no choice"
        if flag.default is not None and flag.choices is None:
            kinds = {"int": int, "float": (int, float), "str": (str, dict), "bool": (bool, str), "dict": dict, "object": object}
            for value in flag.default if isinstance(flag.default, tuple) else (flag.default,):
                assert isinstance(value, kinds[flag.type]), f"{name}: {value!r} is no {flag.type}"


@pytest.mark.parametrize(
    ("version", "route", "name", "default", "choices"),
    [
        ("4.6.0", "swift rlhf", "num_generations", 8, None),
        ("4.6.0", "swift rlhf", "vllm_mode", None, ("server", "colocate")),
        ("3.10.3", "swift rlhf", "vllm_mode", "colocate", ("server", "colocate")),
        ("4.6.0", "swift rlhf", "vllm_max_num_seqs", None, None),
        ("4.6.0", "swift rollout", "vllm_max_num_seqs", 256, None),
        ("4.6.0", "swift rlhf", "target_modules", ("all-linear",), None),
        ("4.6.0", "megatron rlhf", "rlhf_type", "dpo", ("dpo", "kto", "grpo", "gkd", "rm")),
        ("3.12.6", "megatron rlhf", "finetune", False, None),
        ("4.0.4", "megatron rlhf", "finetune", True, None),
        ("4.6.0", "swift sft", "optim", "adamw_torch_fused", ...),
    ],
)
def test_known_facts(version: str, route: str, name: str, default: object, choices: object) -> None:
    flag = swift.load(version).flags(route)[name]
    assert flag.default == default
    if choices is not ...:
        assert flag.choices == choices


def test_routes() -> None:
    facts = swift.load("4.6.0")
    assert len(facts.routes) == 16
    assert {name for name, route in facts.routes.items() if route.torchrun} == {
        *(f"swift {x}" for x in ("pt", "sft", "rlhf", "infer")),
        *(f"megatron {x}" for x in ("pt", "sft", "rlhf", "export")),
    }
    assert "megatron export" not in swift.load("3.9.3").routes
    assert swift.load("3.10.3").routes["megatron sft"].torchrun_required
    assert not swift.load("3.11.3").routes["megatron sft"].torchrun_required
    with pytest.raises(KeyError):
        facts.flags("swift grpo")


def test_argument_files() -> None:
    def way(version: str) -> tuple[tuple[str, ...], str | None]:
        facts = swift.load(version)
        return facts.argument_file_suffixes, facts.argument_file_flag

    assert way("3.9.3") == ((".json",), None)
    assert way("3.10.3") == ((".json",), "--config")
    assert way("4.0.4")[1] == "--config"
    assert way("4.6.0") == ((".json", ".yaml", ".yml"), None)


def test_transformers_base() -> None:
    assert swift.load("4.6.0").default_transformers == "5.19.0"
    assert swift.load("3.12.6").default_transformers == "4.57.6"
    assert swift.load("3.8.3").default_transformers == "4.56.2"
    facts = swift.load("4.6.0")
    assert facts.transformers[0] == "4.51.3"
    assert facts.uses_transformers("swift rlhf")
    assert not facts.uses_transformers("megatron rlhf")
    assert "no_cuda" not in facts.flags("swift sft")
    assert "no_cuda" in facts.flags("swift sft", "4.57.6")
    assert facts.transformers_only_elsewhere("no_cuda") == ("4.51.3", "4.56.2", "4.57.6")
    assert facts.transformers_only_elsewhere("use_cpu") == ()
    assert facts.transformers_only_elsewhere("no_such_flag") == ()


def test_composition_keeps_the_order_of_the_base() -> None:
    """ms-swift's own flags override transformers' in place: the order in which argparse registers them decides abbreviations."""
    facts = swift.load("4.6.0")
    names = list(facts.flags("swift sft"))
    assert names.index("output_dir") == 0
    assert facts.flags("swift sft")["output_dir"].source.startswith("arguments/sft_args.py")
    assert facts.flags("swift sft")["adam_beta1"].source.startswith("transformers/")


def test_history() -> None:
    seen = {version: flag is not None for version, flag in swift.history("teacher_kl_coef", "swift rlhf")}
    assert tuple(seen) == LAST_PATCHES
    assert [v for v, there in seen.items() if there] == ["4.4.2", "4.5.3", "4.6.0"]
    defaults = {version: flag.default for version, flag in swift.history("top_k", "swift rlhf") if flag}
    assert (defaults["3.12.6"], defaults["4.0.4"]) == (50, -1)
    assert swift.history("to_hf", "megatron export")[0] == ("3.8.3", None)


@pytest.mark.parametrize("version", LAST_PATCHES)
def test_registries(version: str) -> None:
    tables = swift.load(version).registries
    assert {"accuracy", "format", "cosine", "repetition", "soft_overlong", "toolbench"} <= set(tables["orms"])
    assert set(tables["prms"]) == {"qwen_max", "client"}
    assert "grpo" in tables["grpo_loss_types"]
    templates = set(tables["templates"])
    assert len(tables.models) > 200
    for model in tables.models.values():
        assert set(model.templates) <= templates | {"dummy"}
    qwen3 = tables.model_of("Qwen/Qwen3-8B")
    assert qwen3 is not None
    assert (qwen3.model_type, qwen3.megatron, qwen3.multimodal) == ("qwen3", True, False)
    assert tables.model_of("models/qwen3-8b/") == qwen3
    assert tables.model_of("checkpoint-20") is None


def test_descriptions_are_short_and_of_real_flags() -> None:
    known = {name for version in swift.versions() for route in swift.load(version).routes for name in swift.load(version).flags(route)}
    described = swift._descriptions()
    assert len(described) >= 350
    assert set(described) <= known
    for name, text in described.items():
        assert 8 <= len(text) <= 100, name
        assert "\n" not in text
        assert text[0].isupper() or not text[0].isalpha(), name
    assert swift.describe("no_such_flag") is None


@pytest.mark.parametrize("route", ["swift rlhf", "swift rollout", "swift sample", "megatron rlhf", "megatron export"])
def test_every_flag_of_the_rl_routes_is_described(route: str) -> None:
    """All but what plain training also has on every route, and internal fields."""
    facts = swift.load("4.6.0")
    own = [n for n, f in facts.flags(route).items() if not f.source.startswith("transformers/") and not n.startswith("_")]
    assert [n for n in own if swift.describe(n) is None] == []


def test_numbers_and_requirements() -> None:
    assert numbers("4.5.1.post1") == (4, 5, 1)
    assert numbers("4.7.0rc1") == (4, 7, 0)
    assert numbers("3.10") > numbers("3.9.3")
    assert satisfies("5.19.0", "<5.20.0,>=4.33")
    assert not satisfies("5.20.0", "<5.20.0,>=4.33")
    assert satisfies("4.57.6", "<4.58")
    assert satisfies("1.0", "==1.0.0,!=1.1")
    with pytest.raises(ValueError, match="requirement"):
        satisfies("1.0", "newest")


def test_loading_is_fast() -> None:
    """One version with one route's flags, in processor time; the best of several, since neighbours slow a processor down too."""

    def once() -> float:
        swift.load.cache_clear()
        swift._transformers.cache_clear()
        start = time.process_time()
        swift.load("4.6.0").flags("swift rlhf")
        return time.process_time() - start

    try:
        assert min(once() for _ in range(25)) < 0.015
    finally:
        swift.load.cache_clear()
