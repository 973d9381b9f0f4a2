"""Models and data that are made up on the spot, small enough to need no download.

No weights: the arguments stage of ms-swift reads only `config.json`. A model's shape is either given with the request, or chosen such that
the parallel sizes of the command fit it, so that only the flags decide.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from pathlib import Path
from typing import Any

MAX_POSITIONS = 32768
FALLBACK_ARCHITECTURES = {  # (multimodal, mixture of experts) -> an architecture that transformers always knows
    (False, False): "Qwen2ForCausalLM",
    (False, True): "Qwen3MoeForCausalLM",
    (True, False): "Qwen2_5_VLForConditionalGeneration",
    (True, True): "Qwen3VLMoeForConditionalGeneration",
}


@dataclass(frozen=True)
class Parallel:
    """The parallel sizes that a made-up model must fit (Megatron only; all 1 elsewhere). `layers` counts decoder layers of a layout, 0 if none."""

    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    expert: int = 1
    first: int | None = None
    last: int | None = None
    layers: int = 0

    @classmethod
    def of(cls, args: Any) -> Parallel:
        """Read from parsed Megatron arguments; senseless sizes count as 1, since ms-swift has to refuse them itself."""

        def size(name: str) -> int:
            value = getattr(args, name, None)
            return value if isinstance(value, int) and value > 0 else 1

        layout = getattr(args, "pipeline_model_parallel_layout", None) or ""
        return cls(
            tensor=size("tensor_model_parallel_size"),
            pipeline=size("pipeline_model_parallel_size"),
            virtual=size("virtual_pipeline_model_parallel_size"),
            expert=size("expert_model_parallel_size"),
            first=getattr(args, "decoder_first_pipeline_num_layers", None),
            last=getattr(args, "decoder_last_pipeline_num_layers", None),
            layers=_layers_of_layout(layout),
        )

    def shape(self) -> dict[str, int]:
        """Layer, head and expert counts that these sizes divide."""
        ends = [n for n in (self.first, self.last) if n]
        stages = max(self.pipeline - len(ends), 0)
        layers = self.layers or sum(ends) + stages * self.virtual * 4
        heads = lcm(self.tensor, 16)
        return {
            "num_hidden_layers": max(layers, 1),
            "num_attention_heads": heads,
            "num_key_value_heads": lcm(self.tensor, 4),
            "hidden_size": heads * 128,
            "num_experts": lcm(self.expert, 16),
        }


def _layers_of_layout(layout: str) -> int:
    """Number of `t` in a Megatron pipeline layout such as `Et*3|(tt|)*29,m|L`."""
    if not layout:
        return 0
    try:
        from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

        return sum(str(layer).endswith("decoder") for stage in PipelineParallelLayerLayout.parse_str_to_list(layout) for layer in stage)
    except AssertionError:  # a letter that no layer has: ms-swift refuses it itself
        return layout.count("t")


@lru_cache(maxsize=1)
def _architectures() -> dict[str, str]:
    """Architecture name -> model type, as transformers registers them."""
    from transformers.models.auto import modeling_auto

    names: dict[str, str] = {}
    for attribute in sorted(vars(modeling_auto)):
        if attribute.startswith("MODEL_") and attribute.endswith("_MAPPING_NAMES"):
            for kind, architecture in getattr(modeling_auto, attribute).items():
                for one in [architecture] if isinstance(architecture, str) else architecture:
                    names.setdefault(one, kind)
    return names


@lru_cache(maxsize=64)
def base_config(architecture: str) -> str:
    """The default `config.json` of an architecture, as text."""
    return _dump(_config_class(architecture)(), architecture)


def _config_class(architecture: str) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING[_architectures()[architecture]]


def _dump(config: Any, architecture: str) -> str:
    return json.dumps({**config.to_dict(), "architectures": [architecture], "dtype": "bfloat16"}, default=str)


def architecture_of(meta: Any) -> str:
    """The architecture to make a model of this ms-swift `ModelMeta` up with; the nearest known one if transformers has none of its own."""
    known = _architectures()
    for architecture in meta.architectures or ():
        if architecture in known:
            return str(architecture)
    kind = f"{meta.model_type} {meta.mcore_model_type}"
    return FALLBACK_ARCHITECTURES[bool(meta.is_multimodal), "moe" in kind]


def model_config(meta: Any, shape: dict[str, Any] | None, parallel: Parallel) -> dict[str, Any]:
    """A `config.json` for `meta` (ms-swift `ModelMeta`, None for a plain Qwen2).

    `shape` overrides keys of the language model; its `arch` names another architecture. Without it the shape is `parallel.shape()`.
    """
    given = dict(shape or {})
    architecture = given.pop("arch", None) or (architecture_of(meta) if meta is not None else FALLBACK_ARCHITECTURES[False, False])
    default: dict[str, Any] = json.loads(base_config(architecture))
    path = _text_path(default)
    text = default
    for key in path:
        text = text[key]
    wanted = {"max_position_embeddings": MAX_POSITIONS, **(given if shape else parallel.shape())}
    experts = wanted.pop("num_experts", None)
    overrides = {key: value for key, value in wanted.items() if shape or key in text}
    overrides.update({key: experts for key in EXPERT_KEYS if experts is not None and text.get(key)})
    made: dict[str, Any] = overrides
    for key in reversed(path):
        made = {key: made}
    # Through the class, which derives what has one entry a layer; where it refuses the numbers, by hand, so that Megatron can refuse them.
    try:
        config: dict[str, Any] = json.loads(_dump(_config_class(architecture)(**made), architecture))
    except Exception:  # each model's class has its own checks and raises what it likes, a ZeroDivisionError too
        text.update(overrides)
        config = default
    return config


EXPERT_KEYS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


def _text_path(config: dict[str, Any]) -> list[str]:
    """Where the language model's part of a composite configuration stands."""
    for key in ("text_config", "thinker_config", "llm_config", "language_config"):
        if isinstance(config.get(key), dict):
            return [key, *_text_path(config[key])]
    return []


def dataset(folder: Path, rlhf_type: str, rows: int) -> Path:
    """A JSONL file of `rows` rows with the columns that `rlhf_type` needs (`sft` for none)."""

    def row(i: int) -> dict[str, Any]:
        question = {"role": "user", "content": f"What is {i} + 1?"}
        answer = {"role": "assistant", "content": str(i + 1)}
        if rlhf_type in ("grpo", "ppo"):
            return {"messages": [question], "solution": str(i + 1)}
        made: dict[str, Any] = {"messages": [question, answer]}
        if rlhf_type in ("dpo", "orpo", "cpo", "simpo", "rm"):
            made["rejected_response"] = str(i)
        if rlhf_type == "kto":
            made["label"] = i % 2 == 0
        return made

    path = folder / f"{rlhf_type}-{rows}.jsonl"
    path.write_text("".join(json.dumps(row(i)) + "\n" for i in range(rows)), encoding="utf-8")
    return path
