"""The dataclasses' `__post_init__`, followed value by value.

`derive` gives what the real argument object holds. What depends on the model's own config, on the machine or on the clock is UNKNOWN, unless
the registry of models knows it. Presets of DeepSpeed and FSDP keep their names.

Sources (ms-swift 4.6): `arguments/{rlhf_args,sft_args,deploy_args,infer_args,sampling_args}.py`, `arguments/base_args/*.py`,
`trainers/arguments.py`, `rlhf_trainers/args_mixin.py`, `megatron/arguments/*.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .arithmetic import generation
from .layout import LayoutError, parse_layout
from .parse import UNKNOWN, Parsed
from .values import Effective

if TYPE_CHECKING:
    from .effective import View

VLLM_TYPES = ("grpo", "gkd")


class Derivation:
    """The values while `__post_init__` is followed; keeps why each one changed."""

    def __init__(self, view: View, parsed: Parsed) -> None:
        self.view = view
        self.parsed = parsed
        self.values: dict[str, Effective] = {}
        for name, fact in view.flags.items():
            use = parsed.last(name)
            if use is not None:
                value = UNKNOWN if use.maybe or not use.valid else use.value
                self.values[name] = Effective(value, "written", use)
            elif view.open_ended:
                self.values[name] = Effective(UNKNOWN, "default")
            else:
                self.values[name] = Effective(fact.default, "default")

    def __getitem__(self, name: str) -> Any:
        effective = self.values.get(name)
        return None if effective is None else effective.value

    def put(self, name: str, value: Any, why: str) -> None:
        """Set a value that ms-swift derives. A flag that this version does not have is left out."""
        if name in self.values and self.values[name].value != value:
            self.values[name] = Effective(value, f"derived: {why}", self.values[name].use)

    def default(self, name: str, value: Any, why: str) -> None:
        """Set a value that ms-swift derives only where nothing was given."""
        if self[name] is None:
            self.put(name, value, why)

    def written(self, name: str) -> bool:
        use = self.parsed.last(name)
        return use is not None and not use.maybe

    def unknown(self, *names: str) -> bool:
        return any(self[name] is UNKNOWN for name in names)


def derive(view: View, parsed: Parsed) -> Mapping[str, Effective]:
    """The values that the argument object holds for `parsed`, one of the view's two readings of its words."""
    values = Derivation(view, parsed)
    steps: dict[str, Callable[[Derivation], None]] = {
        "swift rlhf": _rlhf,
        "swift sft": _train,
        "swift pt": _train,
        "swift rollout": _rollout,
        "swift sample": _sample,
        "megatron rlhf": _megatron_rlhf,
        "megatron sft": _megatron,
        "megatron pt": _megatron,
        "megatron export": _megatron_export,
    }
    if view.job.route in BASE_ROUTES:
        _base(values)
    step = steps.get(view.job.route)
    if step is not None:
        step(values)
    return values.values


# --- BaseArguments: model, template, data ---


BASE_ROUTES = (
    "swift rlhf", "swift sft", "swift pt", "swift rollout", "swift sample", "swift infer", "swift deploy", "swift export", "swift eval", "swift app",
    "megatron rlhf", "megatron sft", "megatron pt", "megatron export",
)  # fmt: skip
_JSON_FLAGS = ("columns", "max_memory", "model_kwargs")
_JSON_IF_GIVEN = ("vllm_limit_mm_per_prompt", "vllm_speculative_config", "device_groups")


def _base(v: Derivation) -> None:
    for name in _JSON_FLAGS:
        v.put(name, {} if v[name] is None else _json(v[name]), "JSON")
    for name in _JSON_IF_GIVEN:
        if v[name] is not None:
            v.put(name, _json(v[name]), "JSON")
    if not v.view.job.route.startswith("megatron ") or v["rlhf_type"] in VLLM_TYPES:
        v.put("vllm_engine_kwargs", {} if v["vllm_engine_kwargs"] is None else _json(v["vllm_engine_kwargs"]), "JSON")
    _model(v)
    v.default("stream", False, "default")
    v.default("use_chat_template", True, "default")
    if v["init_weights"] in ("true", "false"):
        v.put("init_weights", v["init_weights"] == "true", "a word for a boolean")
    if v["include_num_input_tokens_seen"] == "no":
        v.put("include_num_input_tokens_seen", False, "no")
    _precision(v)
    if not v.view.job.route.endswith(" rlhf"):  # there the algorithm decides first
        v.default("truncation_strategy", "delete", "default")
    _dataset_split(v)
    if v["max_length"] is None:
        v.put("max_length", UNKNOWN, "the model's own limit")


def _json(value: Any) -> Any:
    """A flag that holds JSON or the path of a JSON file -> its value; UNKNOWN for a path and for what is no JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return UNKNOWN


def _model(v: Derivation) -> None:
    """Model type, template and task as the registry of models gives them for a known name."""
    model = v["model"]
    entry = v.view.facts.registries.model_of(model) if isinstance(model, str) and v["model_type"] is None else None
    if entry is None and isinstance(v["model_type"], str):
        entry = v.view.facts.registries.models.get(v["model_type"])
    if v["model_type"] is None and "model_type" in v.values and model is not None:
        v.put("model_type", UNKNOWN if entry is None else entry.model_type, "the model's name")
    if v["template"] is None and model is not None:
        sole = entry.templates[0] if entry is not None and len(entry.templates) == 1 else UNKNOWN
        v.put("template", sole, "the model type")
    if v["task_type"] is None and model is not None:
        if v["num_labels"] is UNKNOWN:
            task: Any = UNKNOWN
        elif entry is None:
            task = "seq_cls" if v["num_labels"] is not None else UNKNOWN
        else:
            task = "seq_cls" if v["num_labels"] is not None or entry.reward else "causal_lm"
        v.put("task_type", task, "the model type")
    if v["lazy_tokenize"] is None and "lazy_tokenize" in v.values:
        _lazy_tokenize(v, None if entry is None else entry.multimodal)


def _lazy_tokenize(v: Derivation, multimodal: bool | None) -> None:
    if v["cached_dataset"] or v["cached_val_dataset"] or v["streaming"] is True or v["packing"] is True or v["group_by_length"] is True:
        v.put("lazy_tokenize", False, "streaming, packing, cached data or grouping by length")
    else:
        v.put("lazy_tokenize", UNKNOWN if multimodal is None else multimodal, "multimodal models tokenize lazily")


_HALF = {"bfloat16": (False, True), "float16": (True, False), "float32": (True, False)}


def _precision(v: Derivation) -> None:
    """torch_dtype gives fp16 and bf16 where they are not given; without it the model's config decides."""
    dtype = v["torch_dtype"]
    if v.view.job.route == "swift export" and v["quant_method"] in ("gptq", "awq") and dtype is None:
        v.put("torch_dtype", "float16", "GPTQ and AWQ quantize in float16")
        dtype = "float16"
    if dtype is None:
        v.put("torch_dtype", UNKNOWN, "the model's config")
    compute = {"bfloat16": "bfloat16", "float16": "float32", "float32": "float32"}.get(dtype, UNKNOWN)
    v.default("bnb_4bit_compute_dtype", compute, "torch_dtype")
    if v.view.job.route in ("swift rlhf", "swift sft", "swift pt", *MEGATRON_TRAIN):
        half = _HALF.get(dtype, (UNKNOWN, UNKNOWN))
        v.default("fp16", half[0], "torch_dtype")
        v.default("bf16", half[1], "torch_dtype")


MEGATRON_TRAIN = ("megatron rlhf", "megatron sft", "megatron pt", "megatron export")


# --- swift rlhf, sft, pt ---


def _rlhf(v: Derivation) -> None:
    kind = v["rlhf_type"]
    if isinstance(v["loss_type"], tuple) and len(v["loss_type"]) == 1:
        v.put("loss_type", v["loss_type"][0], "one loss type")
    if kind is UNKNOWN:
        for name in ("beta", "loss_type", "gradient_accumulation_steps", "sleep_level", "truncation_strategy"):
            if v[name] is None:
                v.put(name, UNKNOWN, "rlhf_type is not known")
    if kind == "grpo":
        _grpo_defaults(v)
    elif kind == "rm":
        v.put("task_type", "seq_cls", "rlhf_type rm")
        v.put("num_labels", 1, "rlhf_type rm")
    elif kind == "simpo":
        v.put("rlhf_type", "cpo", "SimPO is CPO with loss_type simpo")
        v.default("loss_type", "simpo", "rlhf_type simpo")
        v.default("beta", 2.0, "rlhf_type simpo")
    _completion_length(v)
    if kind in ("ppo", "gkd"):
        v.put("padding_side", "left", f"rlhf_type {kind}")
    v.default("beta", 0.5 if kind == "gkd" else 0.1, f"default of rlhf_type {kind}")
    losses = {"dpo": "sigmoid", "cpo": "sigmoid", "kto": "kto", "grpo": "grpo"}
    if kind in losses:
        v.default("loss_type", losses[kind], f"default of rlhf_type {kind}")
    if kind == "grpo":
        v.default("gradient_accumulation_steps", 1, "default of rlhf_type grpo")
    if kind in VLLM_TYPES and v["use_vllm"] is False:
        v.put("vllm_tensor_parallel_size", 1, "use_vllm is false")
    if v["use_gym_env"] is None and v["gym_env"] is not None:
        v.put("use_gym_env", UNKNOWN if v["gym_env"] is UNKNOWN else True, "gym_env is set")
    _train(v)
    if kind == "grpo":
        if v["metric_for_best_model"] == "loss" and not v.written("metric_for_best_model"):
            v.put("metric_for_best_model", "reward", "rlhf_type grpo")
            v.put("greater_is_better", True, "a reward is better when it is greater")
        if v["beta"] == 0.0:
            v.put("ref_model", None, "beta is 0")
    if kind == "ppo":
        v.put("metric_for_best_model", None, "rlhf_type ppo")
        v.put("greater_is_better", None, "rlhf_type ppo")
    if kind in ("dpo", "kto", "ppo", "grpo") and v["tuner_type"] == "full" and not (kind == "grpo" and v["beta"] == 0.0):
        v.default("ref_model", v["model"], "the reference model is the start of the policy")
    same_teacher = v["teacher_model"] is not None and v["teacher_model"] is not UNKNOWN and v["teacher_model"] == v["model"]
    if kind in VLLM_TYPES and same_teacher and v["tuner_type"] == "lora" and not v["teacher_adapters"]:
        v.put("teacher_model", None, "LoRA with the same model: the base without its adapter is the teacher")


def _grpo_defaults(v: Derivation) -> None:
    served = v["vllm_mode"] == "server" or v["async_generate"] is True
    if v["use_vllm"] is False or served:
        v.put("sleep_level", 0, "only a colocated engine sleeps")
    elif not (v["use_vllm"] is True and v["vllm_mode"] == "colocate") and v.unknown("async_generate", "use_vllm", "vllm_mode"):
        v.put("sleep_level", UNKNOWN, "the rollout mode is not known")
    v.put("remove_unused_columns", False, "rlhf_type grpo")
    v.default("truncation_strategy", "left", "default of rlhf_type grpo")
    v.default("beta", 0.04, "default of rlhf_type grpo")
    rewards = v["reward_funcs"]
    if isinstance(rewards, tuple) and "soft_overlong" in rewards:
        v.default("soft_max_length", v["max_completion_length"], "max_completion_length")
    _advantage_defaults(v)


def _advantage_defaults(v: Derivation) -> None:
    estimator = v["advantage_estimator"]
    in_reward = {"grpo": False, "rloo": True, "reinforce_plus_plus": True}
    scale = {"grpo": "group", "rloo": "none", "reinforce_plus_plus": "batch"}
    if estimator in in_reward:
        v.default("kl_in_reward", in_reward[estimator], f"advantage_estimator {estimator}")
    if v["loss_type"] == "real":
        v.put("scale_rewards", "none", "loss_type real")
    if estimator in scale:
        v.default("scale_rewards", scale[estimator], f"advantage_estimator {estimator}")


def _completion_length(v: Derivation) -> None:
    """`response_length` and `max_new_tokens` are older names that win over `max_completion_length`."""
    if v.unknown("response_length", "max_new_tokens", "max_completion_length"):
        length: Any = UNKNOWN
    else:
        length = v["response_length"] or v["max_new_tokens"] or v["max_completion_length"]
    for name in ("max_completion_length", "max_new_tokens", "response_length"):
        v.put(name, length, "one completion length for response_length, max_new_tokens and max_completion_length")


def _train(v: Derivation) -> None:
    if v["packing"] is True:
        v.default("packing_length", v["max_length"], "max_length")
        v.put("padding_free", True, "packing")
    v.put("accelerator_config", {"dispatch_batches": False}, "default")
    _loss_scale(v)
    v.default("tuner_type", "lora", "default")
    if v["learning_rate"] is None:
        full = v["tuner_type"]
        v.put("learning_rate", UNKNOWN if full is UNKNOWN else 1e-5 if full == "full" else 1e-4, f"default of tuner_type {full}")
    v.default("truncation_strategy", "delete", "default")
    _evaluation(v)
    v.default("vit_gradient_checkpointing", v["gradient_checkpointing"], "gradient_checkpointing")
    _fsdp(v)
    if v["metric_for_best_model"] is None and "metric_for_best_model" in v.values:
        v.put("metric_for_best_model", "rouge-l" if v["predict_with_generate"] is True else "loss", "default")
    if v["greater_is_better"] is None and isinstance(v["metric_for_best_model"], str):
        v.put("greater_is_better", "loss" not in v["metric_for_best_model"], "metric_for_best_model")


def _loss_scale(v: Derivation) -> None:
    """Hybrid thinking templates add `+ignore_empty_think` to it."""
    if v["loss_scale"] is not None or not v.view.job.route.endswith(" rlhf"):
        return
    kind, scheduler = v["rlhf_type"], v["multi_turn_scheduler"]
    if kind is UNKNOWN or (kind in VLLM_TYPES and scheduler is UNKNOWN):
        v.put("loss_scale", UNKNOWN, "rlhf_type")
    elif kind == "orpo":
        v.put("loss_scale", UNKNOWN if v["lazy_tokenize"] is UNKNOWN else "last_round" if v["lazy_tokenize"] else "default", "rlhf_type orpo")
    else:
        v.put("loss_scale", "default" if kind in VLLM_TYPES and scheduler else "last_round", "only the last round is trained without a scheduler")


def _fsdp(v: Derivation) -> None:
    if "fsdp" not in v.values:
        return
    if not v["fsdp"] and v["fsdp"] is not UNKNOWN:
        v.put("fsdp", (), "none")
    elif v["fsdp"] == "fsdp2":
        v.put("gradient_checkpointing", False, "the fsdp2 preset checkpoints activations itself")
    else:
        v.put("gradient_checkpointing", UNKNOWN, "the FSDP config decides")


def _dataset_split(v: Derivation) -> None:
    if v.unknown("val_dataset", "streaming", "split_dataset_ratio"):
        v.put("split_dataset_ratio", UNKNOWN, "the validation data is not known")
    elif v["val_dataset"]:
        v.put("split_dataset_ratio", 0.0, "val_dataset is given")
    elif v["streaming"] and v["split_dataset_ratio"]:
        v.put("split_dataset_ratio", 0.0, "streaming")


def _evaluation(v: Derivation) -> None:
    """`eval_strategy` follows `save_strategy`; without validation data it is `no`."""
    v.default("eval_strategy", v["save_strategy"] if v["save_strategy"] is UNKNOWN else _plain(v["save_strategy"]), "save_strategy")
    if v.unknown("eval_strategy", "split_dataset_ratio", "eval_dataset", "cached_val_dataset", "val_dataset"):
        v.put("eval_strategy", UNKNOWN, "the validation data is not known")
        return
    if v["eval_strategy"] == "no":
        v.put("split_dataset_ratio", 0.0, "eval_strategy no")
        v.put("eval_steps", None, "eval_strategy no")
    elif v["eval_strategy"] == "steps":
        v.default("eval_steps", v["save_steps"], "save_steps")
    has_data = v["eval_dataset"] or (v["dataset"] and (v["split_dataset_ratio"] or 0) > 0) or v["val_dataset"] or v["cached_val_dataset"]
    if not has_data:
        v.put("eval_strategy", "no", "there is no validation data")


def _plain(value: Any) -> Any:
    """An enum's member as the word people write."""
    return getattr(value, "value", value)


# --- the other routes ---


def _rollout(v: Derivation) -> None:
    if v["vllm_use_async_engine"] is None:
        scheduler = v["multi_turn_scheduler"]
        value = UNKNOWN if scheduler is UNKNOWN else bool(scheduler)
        v.put("vllm_use_async_engine", value, "async exactly with a multi-turn scheduler")
    if v["use_gym_env"] is None:
        v.put("use_gym_env", UNKNOWN if v["gym_env"] is UNKNOWN else v["gym_env"] is not None, "gym_env")
    if v["vllm_enable_expert_parallel"] is True:
        v.put("vllm_use_async_engine", True, "expert parallelism needs the async engine")


def _sample(v: Derivation) -> None:
    v.put("padding_side", "left", "swift sample")
    v.put("engine_kwargs", {} if v["engine_kwargs"] is None else _json(v["engine_kwargs"]), "JSON")
    if v["sampler_engine"] == "client":
        v.put("task_type", "causal_lm", "a remote engine")


def _megatron_rlhf(v: Derivation) -> None:
    kind = v["rlhf_type"]
    if kind == "rm":
        v.put("task_type", "seq_cls", "rlhf_type rm")
        v.put("num_labels", 1, "rlhf_type rm")
    v.default("truncation_strategy", UNKNOWN if kind is UNKNOWN else "left" if kind == "grpo" else "delete", f"default of rlhf_type {kind}")
    if kind is UNKNOWN:
        v.default("beta", UNKNOWN, "rlhf_type is not known")
        v.default("loss_type", UNKNOWN, "rlhf_type is not known")
    v.default("beta", {"gkd": 0.5, "grpo": 0.04}.get(kind, 0.1), f"default of rlhf_type {kind}")
    losses = {"kto": "kto", "dpo": "sigmoid", "grpo": "grpo"}
    if kind in losses:
        v.default("loss_type", losses[kind], f"default of rlhf_type {kind}")
    if kind == "gkd":
        v.put("num_generations", 1, "GKD samples one completion a prompt")
    if kind == "grpo":
        v.put("remove_unused_columns", False, "rlhf_type grpo")
        rewards = v["reward_funcs"]
        if isinstance(rewards, tuple) and "soft_overlong" in rewards:
            v.default("soft_max_length", v["max_completion_length"], "max_completion_length")
        _advantage_defaults(v)
        v.default("cosine_max_len", v["max_completion_length"], "max_completion_length")
        if v["use_gym_env"] is None and v["gym_env"] is not None:
            v.put("use_gym_env", UNKNOWN if v["gym_env"] is UNKNOWN else True, "gym_env is set")
    if kind in VLLM_TYPES:
        sizes = ("global_batch_size", "generation_batch_size", "steps_per_generation")
        if v.unknown(*sizes):
            v.put("generation_batch_size", UNKNOWN, "the batch is not known")
            v.put("steps_per_generation", UNKNOWN, "the batch is not known")
        elif isinstance(v["global_batch_size"], int):
            made = generation(v["global_batch_size"], 1, v["generation_batch_size"], v["steps_per_generation"])
            v.put("generation_batch_size", made.generation_batch_size, "global_batch_size × steps_per_generation")
            v.put("steps_per_generation", made.steps_per_generation, "generation_batch_size / global_batch_size")
    _megatron(v)


def _megatron(v: Derivation) -> None:
    if v["packing"] is True:
        v.put("padding_free", True, "packing")
        v.default("packing_length", v["max_length"], "max_length")
    v.default("truncation_strategy", "delete", "default")
    _megatron_rates(v)
    _megatron_optimizer(v)
    if v["streaming"] is True and isinstance(v["dataloader_num_workers"], int) and v["dataloader_num_workers"] > 1:
        v.put("dataloader_num_workers", 1, "streaming")
    if v["recompute_granularity"] == "none":
        v.put("recompute_granularity", None, "none")
    _virtual_stages(v)
    if isinstance(v["freeze_vit"], bool):
        v.default("vit_gradient_checkpointing", not v["freeze_vit"], "freeze_vit")
    v.default("eval_steps", v["save_steps"], "save_steps")
    v.default("merge_lora", v["save_safetensors"], "save_safetensors")
    adapters = v["adapters"] or v["ref_adapters"] or v["mcore_adapter"] or v["mcore_ref_adapter"]
    if v["tuner_type"] == "full" and adapters:
        v.put("tuner_type", "lora", "adapters are given")
    if v["sequence_parallel"] is True and v["tensor_model_parallel_size"] == 1:
        v.put("sequence_parallel", False, "tensor_model_parallel_size is 1")
    v.put("sequence_parallel_size", v["context_parallel_size"], "context_parallel_size")
    for name in ("moe_aux_loss_coeff", "moe_router_load_balancing_type"):
        if isinstance(v[name], tuple) and len(v[name]) == 1:
            v.put(name, v[name][0], "one value")


def _virtual_stages(v: Derivation) -> None:
    """A layout gives the virtual pipeline size, whatever the flag says (`megatron_args.py:_init_vpp_size`)."""
    name = "virtual_pipeline_model_parallel_size"
    layout, pipeline = v["pipeline_model_parallel_layout"], v["pipeline_model_parallel_size"]
    if layout is UNKNOWN or (layout is not None and not isinstance(pipeline, int)):
        v.put(name, UNKNOWN, "the layout is not known")
    elif isinstance(layout, str):
        try:
            stages = len(parse_layout(layout).stages)
        except LayoutError:
            stages = 0
        v.put(name, stages // pipeline if stages and pipeline > 0 and stages % pipeline == 0 else UNKNOWN, "stages of the layout / pipeline_model_parallel_size")
    if v[name] == 1:
        v.put(name, None, "1 counts as unset")


def _megatron_rates(v: Derivation) -> None:
    tuner = v["tuner_type"]  # as given: adapters change it only later
    if v["lr"] is None:
        v.put("lr", UNKNOWN if tuner is UNKNOWN else 1e-5 if tuner == "full" else 1e-4, f"default of tuner_type {tuner}")
    v.default("task_type", "causal_lm", "default")
    if v["rlhf_type"] == "gkd":
        v.put("calculate_per_token_loss", True, "rlhf_type gkd")
    elif v["calculate_per_token_loss"] is None:
        task = v["task_type"]
        v.put("calculate_per_token_loss", UNKNOWN if task is UNKNOWN else task == "causal_lm" and v["rlhf_type"] is None, "plain language modelling")
    v.default("metric_for_best_model", "reward" if v["rlhf_type"] == "grpo" else "loss", "rlhf_type")
    if v["greater_is_better"] is None and isinstance(v["metric_for_best_model"], str):
        v.put("greater_is_better", "loss" not in v["metric_for_best_model"], "metric_for_best_model")
    v.default("eval_steps", v["save_steps"], "save_steps")


_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "uint8"}


def _megatron_optimizer(v: Derivation) -> None:
    if v["weight_decay_incr_style"] == "constant":
        v.default("start_weight_decay", v["weight_decay"], "weight_decay")
        v.default("end_weight_decay", v["weight_decay"], "weight_decay")
    v.default("apply_query_key_layer_scaling", v["fp16"], "fp16")
    if v["bf16"] is True and v["fp16"] is False and v["main_grads_dtype"] == "fp32":
        v.put("accumulate_allreduce_grads_in_fp32", True, "bf16 with fp32 gradients")
    elif v.unknown("bf16", "fp16"):
        v.put("accumulate_allreduce_grads_in_fp32", UNKNOWN, "the precision is not known")
    for name in ("main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"):
        if v[name] in _DTYPES:
            v.put(name, _DTYPES[v[name]], "torch's name")
    reports = v["report_to"]
    if isinstance(v["callbacks"], tuple) and reports is not UNKNOWN:
        listed = (reports,) if isinstance(reports, str) else tuple(reports or ())
        v.put("callbacks", (*v["callbacks"], "print", "default_flow", *listed), "ms-swift's own and report_to")
    if v["virtual_pipeline_model_parallel_size"] in (None, 1) and v["pipeline_model_parallel_layout"] is None:
        v.put("overlap_p2p_comm", False, "no virtual pipeline")
        v.put("align_param_gather", False, "no virtual pipeline")
    if isinstance(v["overlap_p2p_comm"], bool):
        v.default("batch_p2p_comm", not v["overlap_p2p_comm"], "overlap_p2p_comm")


def _megatron_export(v: Derivation) -> None:
    convert = v["to_hf"] is True or v["to_mcore"] is True
    if convert:
        for name in ("no_save_optim", "no_save_rng", "no_load_optim", "no_load_rng", "finetune"):
            v.put(name, True, "a conversion keeps no optimizer")
        # ms-swift asks `is_moe_model is not None`, which every model answers
        if isinstance(v["tensor_model_parallel_size"], int) and v["tensor_model_parallel_size"] > 1:
            v.put("sequence_parallel", True, "a conversion with tensor parallelism")
    if v.unknown("to_hf", "to_mcore"):
        v.default("merge_lora", UNKNOWN, "the direction is not known")
        v.put("sequence_parallel", UNKNOWN, "the direction is not known")
    elif v["to_hf"] or v["to_mcore"]:
        v.default("merge_lora", v["to_hf"], "to_hf")
        tensor = v["tensor_model_parallel_size"]
        if tensor is UNKNOWN or (isinstance(tensor, int) and tensor > 1):
            v.put("sequence_parallel", UNKNOWN if tensor is UNKNOWN else True, "an export with tensor parallelism")
    _megatron(v)


