"""The View: what a version of ms-swift makes of one Job.

`view()` parses the job's words with that version's flags, places its processes, and follows the dataclasses' `__post_init__` to the values that the
real argument object holds. A value is UNKNOWN where it rests on text that cannot be known; rules stay silent about it.

Sources (ms-swift 4.6): `arguments/{rlhf_args,sft_args,deploy_args}.py`, `arguments/base_args/*.py`, `rlhf_trainers/args_mixin.py`,
`megatron/arguments/megatron_args.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from alula.facts.swift import Flag as FlagFact
from alula.facts.swift import SwiftFacts
from alula.run.job import Cluster, Job
from alula.run.source import Token

from .arithmetic import Generation, data_parallel, default_accumulation, generation
from .launch import Placement, place
from .layout import LayoutError, parse_layout
from .parse import UNKNOWN, Parsed, Use, Vocabulary, parse

VLLM_TYPES = ("grpo", "gkd")
_NO_FLAGS: Mapping[str, FlagFact] = {}


@dataclass(frozen=True, slots=True)
class Effective:
    """One value of the real argument object.

    Attributes:
        value: as ms-swift holds it after `__post_init__`, or UNKNOWN.
        origin: `written`, `default`, or `derived: <why>`.
        use: the occurrence that counts, where it is written.
    """

    value: Any
    origin: str
    use: Use | None = None


@dataclass(frozen=True)
class View:
    """A Job as one version of ms-swift reads it.

    Attributes:
        index: the job's index in its run.
        open_ended: a word that cannot be known may stand for further flags, so that no flag is surely absent.
        values: every flag of the route, by canonical name.
    """

    job: Job
    index: int
    facts: SwiftFacts
    cluster: Cluster
    flags: Mapping[str, FlagFact]
    parsed: Parsed
    place: Placement
    open_ended: bool
    values: Mapping[str, Effective] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The effective value; `default` where this route has no such flag."""
        effective = self.values.get(name)
        return default if effective is None else effective.value

    def use(self, name: str) -> Use | None:
        """The occurrence that counts (the last), or None."""
        return self.parsed.last(name)

    def written(self, name: str) -> bool:
        """True when the flag stands on the command line for sure."""
        use = self.parsed.last(name)
        return use is not None and not use.maybe

    def absent(self, name: str) -> bool:
        """True when the flag is surely not given."""
        return name in self.flags and name not in self.parsed.by_name and not self.open_ended

    def known(self, *names: str) -> bool:
        return all(self.get(name) is not UNKNOWN for name in names)

    def token(self, name: str) -> Token | None:
        """Where to point for this flag: its value, else the flag itself."""
        use = self.parsed.last(name)
        if use is None:
            return None
        return use.values[0] if use.values else use.token

    @property
    def route(self) -> str:
        return self.job.route

    @property
    def megatron(self) -> bool:
        return self.job.route.startswith("megatron ")

    @property
    def rlhf_type(self) -> Any:
        """The algorithm as written (simpo stays simpo), None off the rlhf routes."""
        if not self.job.route.endswith(" rlhf"):
            return None
        use = self.parsed.last("rlhf_type")
        if use is None:
            return self.values["rlhf_type"].value if "rlhf_type" in self.values else None
        return UNKNOWN if use.maybe else use.value

    @cached_property
    def generation(self) -> Generation | None:
        """Sizes of one rollout for GRPO and GKD, or None where they do not apply or cannot be known."""
        return _generation(self)

    @cached_property
    def accumulation(self) -> Any:
        """gradient_accumulation_steps as the trainer will use it (HF), or UNKNOWN."""
        given = self.get("gradient_accumulation_steps")
        if given is not None or self.megatron:
            return given
        per_device, world = self.get("per_device_train_batch_size"), self.place.world_size
        if not isinstance(per_device, int) or world is None or per_device <= 0 or world <= 0:
            return UNKNOWN
        return default_accumulation(per_device, world)

    @cached_property
    def data_parallel(self) -> int | None:
        """Replicas of the model, or None where they cannot be known. HF: every process; Megatron: world / (TP·PP·CP)."""
        if self.place.world_size is None:
            return None
        if not self.megatron:
            return self.place.world_size
        sizes = [self.get(f"{axis}_parallel_size") for axis in ("tensor_model", "pipeline_model", "context")]
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            return None
        return data_parallel(self.place.world_size, *sizes)


def view(job: Job, index: int, facts: SwiftFacts, cluster: Cluster | None = None) -> View:
    """Job -> View under `facts`. `cluster` is what the user said about the machines."""
    cluster = cluster or Cluster()
    route = facts.routes.get(job.route)
    flags = facts.flags(job.route) if route is not None else _NO_FLAGS
    parsed = parse(job.argv, flags, vocabulary(facts, job.route, flags))
    placement = place(job, cluster, route is not None and route.torchrun)
    open_ended = any(_may_hold_flags(token) for token in job.argv)
    bare = View(job, index, facts, cluster, flags, parsed, placement, open_ended)
    return View(job, index, facts, cluster, flags, parsed, placement, open_ended, _derive(bare))


_vocabularies: dict[tuple[str, str], Vocabulary] = {}


def vocabulary(facts: SwiftFacts, route: str, flags: Mapping[str, FlagFact]) -> Vocabulary:
    """The option strings of a route; built once a process, since a route has about 500."""
    key = (facts.version, route)
    if key not in _vocabularies:
        _vocabularies[key] = Vocabulary.of(flags)
    return _vocabularies[key]


def _may_hold_flags(token: Token) -> bool:
    """A word that is nothing but an unknown expression, such as `$EXTRA` or `$(make_args)`, may stand for any flags."""
    if not token.unresolved:
        return False
    return token.text in token.unresolved and not token.text.startswith("--")


class _Derivation:
    """The values while `__post_init__` is followed; keeps why each one changed."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.values: dict[str, Effective] = {}
        for name, fact in view.flags.items():
            use = view.parsed.last(name)
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

    def unknown(self, *names: str) -> bool:
        return any(self[name] is UNKNOWN for name in names)


def _derive(view: View) -> Mapping[str, Effective]:
    values = _Derivation(view)
    steps: dict[str, Callable[[_Derivation], None]] = {
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
    step = steps.get(view.job.route)
    if step is not None:
        step(values)
    return values.values


# --- swift rlhf, sft, pt ---


def _rlhf(v: _Derivation) -> None:
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
        if v["metric_for_best_model"] == "loss" and not v.view.written("metric_for_best_model"):
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


def _grpo_defaults(v: _Derivation) -> None:
    if v.unknown("async_generate", "use_vllm", "vllm_mode"):
        v.put("sleep_level", UNKNOWN, "the rollout mode is not known")
    elif v["async_generate"] or not v["use_vllm"] or v["vllm_mode"] == "server":
        v.put("sleep_level", 0, "only a colocated engine sleeps")
    v.put("remove_unused_columns", False, "rlhf_type grpo")
    v.default("truncation_strategy", "left", "default of rlhf_type grpo")
    v.default("beta", 0.04, "default of rlhf_type grpo")
    rewards = v["reward_funcs"]
    if isinstance(rewards, tuple) and "soft_overlong" in rewards:
        v.default("soft_max_length", v["max_completion_length"], "max_completion_length")
    _advantage_defaults(v)


def _advantage_defaults(v: _Derivation) -> None:
    estimator = v["advantage_estimator"]
    in_reward = {"grpo": False, "rloo": True, "reinforce_plus_plus": True}
    scale = {"grpo": "group", "rloo": "none", "reinforce_plus_plus": "batch"}
    if estimator in in_reward:
        v.default("kl_in_reward", in_reward[estimator], f"advantage_estimator {estimator}")
    if v["loss_type"] == "real":
        v.put("scale_rewards", "none", "loss_type real")
    if estimator in scale:
        v.default("scale_rewards", scale[estimator], f"advantage_estimator {estimator}")


def _completion_length(v: _Derivation) -> None:
    """`response_length` and `max_new_tokens` are older names that win over `max_completion_length`."""
    if v.unknown("response_length", "max_new_tokens", "max_completion_length"):
        length: Any = UNKNOWN
    else:
        length = v["response_length"] or v["max_new_tokens"] or v["max_completion_length"]
    for name in ("max_completion_length", "max_new_tokens", "response_length"):
        v.put(name, length, "one completion length for response_length, max_new_tokens and max_completion_length")


def _train(v: _Derivation) -> None:
    _dataset_split(v)
    if v["packing"] is True:
        v.default("packing_length", v["max_length"], "max_length")
    v.default("tuner_type", "lora", "default")
    if v["learning_rate"] is None:
        full = v["tuner_type"]
        v.put("learning_rate", UNKNOWN if full is UNKNOWN else 1e-5 if full == "full" else 1e-4, f"default of tuner_type {full}")
    v.default("truncation_strategy", "delete", "default")
    _evaluation(v)
    v.default("vit_gradient_checkpointing", v["gradient_checkpointing"], "gradient_checkpointing")
    if v["metric_for_best_model"] is None and "metric_for_best_model" in v.values:
        v.put("metric_for_best_model", "rouge-l" if v["predict_with_generate"] is True else "loss", "default")
    if v["greater_is_better"] is None and isinstance(v["metric_for_best_model"], str):
        v.put("greater_is_better", "loss" not in v["metric_for_best_model"], "metric_for_best_model")


def _dataset_split(v: _Derivation) -> None:
    if v.unknown("val_dataset", "streaming", "split_dataset_ratio"):
        v.put("split_dataset_ratio", UNKNOWN, "the validation data is not known")
    elif v["val_dataset"]:
        v.put("split_dataset_ratio", 0.0, "val_dataset is given")
    elif v["streaming"] and v["split_dataset_ratio"]:
        v.put("split_dataset_ratio", 0.0, "streaming")


def _evaluation(v: _Derivation) -> None:
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


def _rollout(v: _Derivation) -> None:
    if v["vllm_use_async_engine"] is None:
        scheduler = v["multi_turn_scheduler"]
        value = UNKNOWN if scheduler is UNKNOWN else bool(scheduler)
        v.put("vllm_use_async_engine", value, "async exactly with a multi-turn scheduler")
    if v["use_gym_env"] is None:
        v.put("use_gym_env", UNKNOWN if v["gym_env"] is UNKNOWN else v["gym_env"] is not None, "gym_env")
    if v["vllm_enable_expert_parallel"] is True:
        v.put("vllm_use_async_engine", True, "expert parallelism needs the async engine")


def _sample(v: _Derivation) -> None:
    v.put("padding_side", "left", "swift sample")


def _megatron_rlhf(v: _Derivation) -> None:
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


def _megatron(v: _Derivation) -> None:
    if v["packing"] is True:
        v.put("padding_free", True, "packing")
        v.default("packing_length", v["max_length"], "max_length")
    _dataset_split(v)
    v.default("truncation_strategy", "delete", "default")
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


def _virtual_stages(v: _Derivation) -> None:
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


def _megatron_export(v: _Derivation) -> None:
    if v.unknown("to_hf", "to_mcore"):
        v.default("merge_lora", UNKNOWN, "the direction is not known")
        v.put("sequence_parallel", UNKNOWN, "the direction is not known")
    elif v["to_hf"] or v["to_mcore"]:
        v.default("merge_lora", v["to_hf"], "to_hf")
        tensor = v["tensor_model_parallel_size"]
        if tensor is UNKNOWN or isinstance(tensor, int) and tensor > 1:
            v.put("sequence_parallel", UNKNOWN if tensor is UNKNOWN else True, "an export with tensor parallelism")
    _megatron(v)


# --- arithmetic over a finished view ---


def _generation(view: View) -> Generation | None:
    kind = view.rlhf_type
    if kind not in VLLM_TYPES:
        return None
    given, steps = view.get("generation_batch_size"), view.get("steps_per_generation")
    if given is UNKNOWN or steps is UNKNOWN:
        return None
    if view.megatron:
        size = view.get("global_batch_size")
        use_given, use_steps = view.use("generation_batch_size"), view.use("steps_per_generation")
        written = (use_given.value if use_given else None, use_steps.value if use_steps else None)
        return generation(size, 1, *written) if isinstance(size, int) and size > 0 else None
    per_device, world = view.get("per_device_train_batch_size"), view.place.world_size
    if not isinstance(per_device, int) or world is None:
        return None
    needs_accumulation = given is None and steps is None
    accumulation = view.accumulation if needs_accumulation else 1
    if accumulation is UNKNOWN or not isinstance(accumulation, int):
        return None
    return generation(per_device * world, accumulation, given, steps)
