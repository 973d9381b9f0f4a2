"""Which backends a job needs, and by what.

Sources: the imports and `require_version` calls of ms-swift 4.6 on each way (`knowledge`: section H of the facts; `rlhf_trainers/*`, `rewards/orm.py`,
`megatron/init.py`, `ray/megatron/*`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from alula.swift.effective import VLLM_TYPES, View

CORE = ("ms-swift", "torch", "transformers", "datasets")
_FLASH = ("flash_attn", "flash_attention_2", "flash_attention_3", "flash_attention_4")
_MATH = ("accuracy", "cosine")
_MATH_SCHEDULERS = ("math_tip_trick", "thinking_tips_scheduler")
_QUANT = {"bnb": "bitsandbytes", "gptq": "gptqmodel", "gptq_v2": "gptqmodel", "awq": "autoawq"}
_ENGINES = {"vllm": "vllm", "lmdeploy": "lmdeploy", "sglang": "sglang"}


def needs(view: View) -> Mapping[str, str]:
    """View -> backend name -> what asks for it, as one would write it (`--deepspeed`, `megatron rlhf`)."""
    out: dict[str, str] = dict.fromkeys(CORE, view.route)
    if view.megatron:
        for name in ("megatron-core", "mcore-bridge", "transformer-engine"):
            out[name] = view.route
    if view.job.ray is not None:
        out["ray"] = out["pyzmq"] = "--use_ray"
        out["vllm"] = "the rollout group"
    elif view.get("use_ray") is True and view.route in ("swift sft", "swift sample"):
        out["ray"] = "--use_ray"
    if view.route == "swift rollout":
        out["vllm"] = view.route
    if view.route == "swift eval" or view.get("eval_use_evalscope") is True:
        out["evalscope"] = view.route if view.route == "swift eval" else "--eval_use_evalscope"
    _training(view, out)
    _rlhf(view, out)
    for flag in ("infer_backend", "sampler_engine"):
        engine = _ENGINES.get(_word(view, flag))
        if engine is not None:
            out[engine] = f"--{flag} {view.get(flag)}"
    return out


def _word(view: View, flag: str) -> str:
    value = view.get(flag)
    return value if isinstance(value, str) else ""


def _words(value: Any) -> Iterable[str]:
    return (item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()


def _training(view: View, out: dict[str, str]) -> None:
    if view.get("deepspeed") or view.get("teacher_deepspeed"):
        out["deepspeed"] = "--deepspeed"
    if _word(view, "attn_impl") in _FLASH:
        out["flash-attn"] = f"--attn_impl {view.get('attn_impl')}"
    elif view.get("padding_free") is True and not view.megatron:
        out["flash-attn"] = "--padding_free"
    if view.megatron and _word(view, "attention_backend").startswith("flash") and view.written("attention_backend"):
        out["flash-attn"] = "--attention_backend"
    if view.get("use_liger_kernel") is True:
        out["liger-kernel"] = "--use_liger_kernel"
    if view.get("tuner_type") not in ("full", None) and view.route.endswith((" sft", " pt", " rlhf")):
        out["peft"] = f"--tuner_type {view.get('tuner_type')}" if isinstance(view.get("tuner_type"), str) else "--tuner_type"
    if _word(view, "quant_method") in _QUANT:
        out[_QUANT[_word(view, "quant_method")]] = f"--quant_method {view.get('quant_method')}"
    if _word(view, "tuner_backend") == "unsloth":
        out["unsloth"] = "--tuner_backend unsloth"
    for report in _words(view.get("report_to")):
        if report in ("wandb", "swanlab", "tensorboard"):
            out[report] = f"--report_to {report}"


def _rlhf(view: View, out: dict[str, str]) -> None:
    kind = view.rlhf_type
    if kind is None:
        return
    if not view.megatron:
        out["trl"] = f"--rlhf_type {kind}" if isinstance(kind, str) else view.route
    if kind in VLLM_TYPES:
        out["msgspec"] = f"--rlhf_type {kind}"
        if view.get("use_vllm") is True:
            out["vllm"] = "--use_vllm"
    names = [*_words(view.get("reward_funcs")), *([_word(view, "multi_turn_scheduler")])]
    asked = next((name for name in names if name in _MATH or name in _MATH_SCHEDULERS), None)
    if asked is not None:
        out["math_verify"] = asked
