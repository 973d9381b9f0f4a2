"""A Hugging Face `config.json` read as a ModelShape."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..run.model import LatentAttention, LinearAttention, Mamba, ModelShape, Vision
from .errors import ReadError

_TEXT = ("text_config", "llm_config", "language_config", "thinker_config")
_VISION = ("vision_config", "visual", "vision_encoder_config")
# Architectures whose parameters `ModelShape.counts` reproduces to the last one (held against transformers on the meta device).
_EXACT = {
    "llama", "llama4", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "qwen3_vl",
    "qwen3_vl_moe", "qwen2_vl", "qwen2_5_vl", "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2", "kimi_k25", "gpt_oss", "glm4", "glm4_moe",
    "minimax_m2", "nemotron_h",
}  # fmt: skip
_TIED_BY_DEFAULT = ("gemma",)
_QK_NORM = ("qwen3", "gemma", "qwen4")
_QKV_BIAS = ("qwen2", "qwen2_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "mimo")
_GATED = ("qwen3_next", "qwen3_5")


def read_config(path: Path) -> ModelShape:
    """The shape of the model in a folder, or of a `config.json` itself.

    Raises:
        ReadError: the file is missing, is no JSON, or does not describe a transformer.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        raw = json.loads(file.read_bytes())
    except OSError as error:
        raise ReadError(error.strerror or str(error), str(file)) from error
    except (ValueError, RecursionError) as error:
        raise ReadError(f"not JSON: {error}", str(file)) from error
    if not isinstance(raw, dict):
        raise ReadError("not a JSON object", str(file))
    return from_config(raw, name=file.parent.name or str(file), source=str(file))


def from_config(config: Mapping[str, Any], name: str = "", source: str = "config.json") -> ModelShape:
    """The shape that a parsed `config.json` describes. A multimodal model gives its language model, with `vision` set.

    Raises:
        ReadError: a number that no transformer can do without is missing, or a value is of the wrong kind.
    """
    try:
        return _shape(config, name, source)
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ReadError(f"not a model configuration: {type(error).__name__}: {error}", name or source) from error


def _shape(config: Mapping[str, Any], name: str, source: str) -> ModelShape:
    text = _text(config)
    top_type, kind = str(config.get("model_type", "")), str(text.get("model_type", config.get("model_type", ""))).removesuffix("_text")
    get = _Reader(text, name or source)
    pattern = _pattern(text)
    hidden, heads = get.size("hidden_size", "n_embd", "d_model"), get.size("num_attention_heads", "n_head")
    layers = len(pattern) or get.size("num_hidden_layers", "n_layer")
    latent = _latent(text, layers)
    linear = _linear(text, layers)
    experts = get.number("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")
    intermediate = get.number("dense_intermediate_size", "intermediate_size", "n_inner", "ffn_hidden_size")
    expert_width = get.number("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    first_dense = get.number("first_k_dense_replace", "moe_layer_start_index") if experts else 0
    expert_layers = (pattern.count("E") if pattern else _expert_layers(text, layers, first_dense)) if experts else 0
    shared = _shared(text, expert_width) if experts else 0
    if kind == "llama4" and experts:
        expert_width, shared, intermediate = intermediate, intermediate, get.number("intermediate_size_mlp") or intermediate
    if kind == "gemma4" and experts:  # every layer has a dense part beside its experts
        shared = intermediate
    sliding = get.number("sliding_window") if text.get("use_sliding_window", kind not in ("qwen2", "qwen3")) else 0
    return ModelShape(
        name=name,
        family=top_type or kind,
        model_type=top_type or kind,
        architecture=next(iter(config.get("architectures") or text.get("architectures") or ()), ""),
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=get.number("num_key_value_heads", "num_kv_heads", "multi_query_group_num") or heads,
        head_dim=latent.qk_nope_dim + latent.qk_rope_dim if latent else get.number("head_dim", "kv_channels") or hidden // heads,
        intermediate=0 if experts and expert_layers == layers else intermediate,
        vocab=get.size("vocab_size", "padded_vocab_size"),
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", kind.startswith(_TIED_BY_DEFAULT)))),
        max_positions=get.number("max_position_embeddings", "n_positions", "seq_length"),
        gated_attention=bool(text.get("attn_output_gate", kind.startswith(_GATED))),
        qk_norm=_qk_norm(text, kind),
        layer_norms=4 if kind in ("glm4", "gemma2", "gemma3", "gemma4") else 2,
        qkv_bias=bool(
            text.get("attention_bias", False) or text.get("qkv_bias", False) or text.get("add_qkv_bias", False) or kind in _QKV_BIAS
        ),
        out_bias=bool(text.get("attention_bias", False)) and kind not in _QKV_BIAS and not kind.startswith("glm4"),
        mlp_matrices=2 if kind.startswith(("nemotron", "gpt2", "gpt_neox")) else 3,
        experts=experts,
        top_k=get.number("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", "moe_k") if experts else 0,
        expert_intermediate=expert_width if experts else 0,
        shared_intermediate=shared,
        shared_gate=bool(shared) and kind.startswith(("qwen2_moe", "qwen3_next", "qwen3_5")),
        expert_input=get.number("moe_latent_size", "routed_expert_hidden_size") if experts else 0,
        first_dense=first_dense,
        expert_layers=expert_layers,
        mtp_layers=get.number("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"),
        sliding_window=sliding,
        latent=latent,
        linear=linear,
        mamba=_mamba(text, pattern),
        vision=_vision(config, name),
        exact=kind in _EXACT or top_type in _EXACT,
        source=source,
    )


class _Reader:
    """Numbers of a configuration under any of their names."""

    def __init__(self, config: Mapping[str, Any], where: str) -> None:
        self.config, self.where = config, where

    def number(self, *names: str) -> int:
        """The first of the names that holds a positive whole number; 0 when none does."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, Sequence) and not isinstance(value, str) and value:
                value = value[0]
            if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
                return int(value)
        return 0

    def size(self, *names: str) -> int:
        value = self.number(*names)
        if not value:
            raise ReadError(f"no {names[0]} in the model configuration", self.where)
        return value


def _text(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part; nested twice in omni models."""
    for name in _TEXT:
        inner = config.get(name)
        if isinstance(inner, Mapping):
            text = _text(inner)
            if "hidden_size" in text:
                return text
    return config


def _pattern(text: Mapping[str, Any]) -> str:
    """A hybrid's layers as letters: M recurrent, * attention, - dense, E experts; empty for models of ordinary layers."""
    if isinstance(text.get("hybrid_override_pattern"), str):
        return str(text["hybrid_override_pattern"])
    letters = {"mamba": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
    blocks = text.get("layers_block_type")
    return "".join(letters.get(str(block), "?") for block in blocks) if isinstance(blocks, list) else ""


def _mamba(text: Mapping[str, Any], pattern: str) -> Mamba | None:
    if not pattern or not text.get("mamba_num_heads"):
        return None
    return Mamba(
        heads=int(text["mamba_num_heads"]),
        head_dim=int(text.get("mamba_head_dim") or 64),
        groups=int(text.get("n_groups") or 8),
        state=int(text.get("ssm_state_size") or 128),
        kernel=int(text.get("conv_kernel") or 4),
        layers=pattern.count("M"),
        attention_layers=pattern.count("*"),
        mlp_layers=pattern.count("-"),
    )


def _qk_norm(text: Mapping[str, Any], kind: str) -> Literal["", "head", "whole"]:
    if kind == "llama4":  # normalises without weights
        return ""
    if text.get("qk_norm_type") == "per_layer" or kind == "olmoe":
        return "whole"
    return "head" if text.get("use_qk_norm", kind.startswith(_QK_NORM)) else ""


def _latent(text: Mapping[str, Any], layers: int) -> LatentAttention | None:
    if not text.get("kv_lora_rank"):
        return None
    kinds = text.get("indexer_types")
    index_heads = int(text.get("index_n_heads") or 0)
    return LatentAttention(
        q_rank=int(text.get("q_lora_rank") or 0),
        kv_rank=int(text["kv_lora_rank"]),
        qk_nope_dim=int(text.get("qk_nope_head_dim") or 128),
        qk_rope_dim=int(text.get("qk_rope_head_dim") or 64),
        value_dim=int(text.get("v_head_dim") or 128),
        index_heads=index_heads,
        index_dim=int(text.get("index_head_dim") or 0),
        index_layers=(kinds.count("full") if isinstance(kinds, list) else layers) if index_heads else 0,
    )


def _linear(text: Mapping[str, Any], layers: int) -> LinearAttention | None:
    kda = text.get("linear_attn_config")
    if isinstance(kda, Mapping) and kda.get("num_heads") and isinstance(kda.get("full_attn_layers"), list):
        heads, dim = int(kda["num_heads"]), int(kda.get("head_dim") or 128)
        return LinearAttention(heads, heads, dim, dim, int(kda.get("short_conv_kernel_size") or 4), 0, len(kda["full_attn_layers"]))
    if not text.get("linear_num_value_heads"):
        return None
    interval = int(text.get("full_attention_interval") or 0)
    types = text.get("layer_types")
    full = sum(t == "full_attention" for t in types) if isinstance(types, list) else layers // (interval or 4)
    return LinearAttention(
        key_heads=int(text["linear_num_key_heads"]),
        value_heads=int(text["linear_num_value_heads"]),
        key_dim=int(text["linear_key_head_dim"]),
        value_dim=int(text["linear_value_head_dim"]),
        kernel=int(text.get("linear_conv_kernel_dim") or 4),
        interval=interval or (layers // full if full and layers % full == 0 else 0),
        full_layers=full,
    )


def _expert_layers(text: Mapping[str, Any], layers: int, first_dense: int) -> int:
    types = text.get("mlp_layer_types")
    if isinstance(types, list):
        return sum(t == "sparse" for t in types)
    frequency = text.get("moe_layer_freq")
    if isinstance(frequency, list):
        return sum(map(bool, frequency))
    chosen = text.get("moe_layers")
    if isinstance(chosen, list):
        return len(chosen)
    step = int(text.get("decoder_sparse_step") or text.get("interleave_moe_layer_step") or 1)
    dense = set(text.get("mlp_only_layers") or ())
    return sum(1 for i in range(first_dense, layers) if i not in dense and (i + 1) % step == 0)


def _shared(text: Mapping[str, Any], width: int) -> int:
    """Width of all shared experts together."""
    for name in ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"):
        if text.get(name):
            return int(text[name])
    return int(text.get("n_shared_experts") or text.get("num_shared_experts") or text.get("moe_num_shared_experts") or 0) * width


def _vision(config: Mapping[str, Any], name: str) -> Vision | None:
    holder = config.get("thinker_config") if isinstance(config.get("thinker_config"), Mapping) else config
    raw = next((holder[key] for key in _VISION if isinstance(holder.get(key), Mapping)), None) if holder else None
    if raw is None:
        return None
    get = _Reader(raw, name)
    # Qwen2-VL calls the tower's width `embed_dim`; its `hidden_size` is the language model's.
    return Vision(
        hidden_size=get.number("embed_dim", "hidden_size", "width"),
        layers=get.number("depth", "num_hidden_layers", "layers"),
        heads=get.number("num_heads", "num_attention_heads", "heads"),
        intermediate=get.number("intermediate_size"),
        patch=get.number("patch_size"),
        merge=get.number("spatial_merge_size") or 1,
    )
