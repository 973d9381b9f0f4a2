"""Model shapes: found by id, and their parameters counted as the real models have them."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alula.facts import models
from alula.read.errors import ReadError
from alula.read.model_config import from_config, read_config
from alula.run.model import ModelShape

ALL = list(models.all_models())
TABLE = Path(__file__).parents[3] / "shared" / "data" / "models.csv"


def language(shape: ModelShape) -> int:
    return shape.published - (shape.vision.parameters if shape.vision else 0)


@pytest.mark.parametrize("shape", [m for m in ALL if m.exact and m.published], ids=lambda m: m.name)
def test_counts_are_the_real_ones(shape: ModelShape) -> None:
    """`published` was counted on the model that transformers builds from the same configuration."""
    assert shape.counts.total == language(shape)


@pytest.mark.parametrize("shape", [m for m in ALL if not m.exact and m.published and "Super-49B" not in m.name], ids=lambda m: m.name)
def test_estimated_counts_are_close(shape: ModelShape) -> None:
    assert shape.counts.total == pytest.approx(language(shape), rel=0.03)


def test_families_are_many() -> None:
    assert len(ALL) >= 80
    assert sum(m.exact for m in ALL) >= 70
    assert {m.source for m in ALL if not m.source} == set()


def test_an_id_names_one_model() -> None:
    last = [i.rsplit("/", 1)[-1].lower() for m in ALL for i in (m.name, *m.ids)]
    assert len(last) == len(set(last))


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-8B", "qwen3-8b", "models/Qwen3-8B", "/data/hub/Qwen3-8B/", "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "Qwen3-8B-FP8"]
)
def test_find_by_last_component(name: str) -> None:
    shape = models.find(name)
    assert shape is not None
    assert (shape.layers, shape.heads, shape.kv_heads, shape.hidden_size) == (36, 32, 8, 4096)


@pytest.mark.parametrize("name", ["", "/", "Qwen", "Qwen3-8", "my-Qwen3-8B-sft", "Qwen3-8B/checkpoint-20", "qwen3"])
def test_find_does_not_guess(name: str) -> None:
    assert models.find(name) is None


def test_context_length_is_that_of_the_id() -> None:
    lengths = {name: shape.max_positions for name in ("Qwen3-4B", "Qwen3-4B-Instruct-2507", "Qwen3-4B-FP8") if (shape := models.find(name))}
    assert lengths == {"Qwen3-4B": 40960, "Qwen3-4B-Instruct-2507": 262144, "Qwen3-4B-FP8": 40960}


def test_model_type_where_only_one_has_it() -> None:
    shape = models.find("qwen3_next")
    assert shape is not None
    assert shape.linear is not None
    assert shape.linear.full_layers == 12


def test_kv_cache_elements() -> None:
    dense, latent, hybrid = models.find("Qwen3-8B"), models.find("DeepSeek-V3"), models.find("Qwen3.5-4B")
    assert dense is not None
    assert latent is not None
    assert hybrid is not None
    assert dense.kv_elements_per_token == 36 * 2 * 8 * 128
    assert latent.kv_elements_per_token == 61 * (512 + 64)
    assert hybrid.kv_elements_per_token == 8 * 2 * 4 * 256


def test_active_parameters() -> None:
    moe = models.find("Qwen3-30B-A3B")
    assert moe is not None
    assert moe.is_moe
    assert 3.0e9 < moe.active_parameters < 3.5e9 < moe.parameters


@pytest.mark.skipif(not TABLE.exists(), reason="shared/data/models.csv is not beside this checkout")
def test_agrees_with_the_table() -> None:
    columns = {
        "hidden": "hidden_size",
        "layers": "layers",
        "heads": "heads",
        "kv_heads": "kv_heads",
        "vocab": "vocab",
        "experts": "experts",
    }
    wrong = []
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            shape = models.find(row["model"])
            assert shape is not None, row["model"]
            wrong += [
                (row["model"], column, row[column], getattr(shape, name))
                for column, name in columns.items()
                if row[column] and int(row[column]) != getattr(shape, name)
            ]
            if row["known_params"]:
                assert shape.counts.total == int(row["known_params"])
    assert not wrong


NESTED = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    "tie_word_embeddings": True,
    "text_config": {
        "model_type": "qwen3_vl_text",
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 9728,
        "vocab_size": 151936,
    },
    "vision_config": {
        "hidden_size": 1024,
        "depth": 24,
        "num_heads": 16,
        "intermediate_size": 4096,
        "patch_size": 16,
        "spatial_merge_size": 2,
    },
}


def test_from_config_takes_the_language_model_of_a_multimodal_one() -> None:
    shape, known = from_config(NESTED), models.find("Qwen3-VL-4B-Instruct")
    assert known is not None
    assert shape.vision is not None
    assert shape.counts == known.counts
    assert (shape.vision.hidden_size, shape.vision.layers, shape.vision.merge) == (1024, 24, 2)
    twice = from_config({"model_type": "qwen3_omni_moe", "thinker_config": NESTED})
    assert (twice.hidden_size, twice.multimodal) == (2560, True)


def test_read_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(NESTED), encoding="utf-8")
    assert read_config(tmp_path) == read_config(tmp_path / "config.json")
    assert read_config(tmp_path).name == tmp_path.name


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"model_type": "qwen3"}', '{"text_config": 3}', '{"hidden_size": "x"}', "[" * 100_000])
def test_bad_configs_are_read_errors(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReadError):
        read_config(path)


_KEYS = st.sampled_from(
    [
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "text_config",
        "vision_config",
        "layer_types",
        "kv_lora_rank",
        "num_experts",
        "linear_num_value_heads",
        "linear_attn_config",
        "hybrid_override_pattern",
        "layers_block_type",
        "mamba_num_heads",
        "mlp_layer_types",
        "moe_layer_freq",
        "architectures",
        "model_type",
        "indexer_types",
        "index_n_heads",
        "sliding_window",
    ]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**6) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=12,
)


@given(st.dictionaries(_KEYS, _VALUES))
def test_any_object_is_a_shape_or_a_read_error(config: dict[str, object]) -> None:
    with contextlib.suppress(ReadError):
        from_config(config)


def test_missing_config(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"config\.json"):
        read_config(tmp_path)
