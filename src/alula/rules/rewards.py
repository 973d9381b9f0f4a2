"""Rewards on the command line: names, weights, reward models and their plugins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches
from alula.swift.parse import UNKNOWN

from .beside import Loaded, plugins_of
from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import kind, number, server_mode, words

if TYPE_CHECKING:
    from alula.facts.swift import ModelEntry
    from alula.run.finding import Finding
    from alula.run.source import Token

_REWARD_NAME = re.compile(r"reward|(?:^|[-_.])(?:p|g|o)?rm(?:$|[-_.])", re.I)


def _chosen(c: JobCheck, flag: str) -> tuple[Token, ...]:
    """The words of a list flag, where they are surely given and known."""
    use = c.v.use(flag)
    return use.values if use is not None and not use.maybe and all(value.known for value in use.values) else ()


def _where(loaded: Loaded, registry: str) -> str:
    """What the plugins register, for a message."""
    if not loaded.plugins:
        return "no --external_plugins is given" if not loaded.named else "the plugins register none"
    known = sorted(loaded.names(registry))
    files = ", ".join(plugin.file for plugin in loaded.plugins)
    if known:
        return f"{files} registers {names(known)}"
    classes = [cls.name for plugin in loaded.plugins for cls in plugin.classes.values()]
    return f"{files} puts nothing into {registry}" + (f" (it defines {names(classes, 4)})" if classes else "")


@rule("RWD001", "unknown-reward-function", consequence="wrong", routes=RLHF)
def unknown_reward_function(c: JobCheck) -> Iterator[Finding]:
    """A reward function that neither ms-swift nor a plugin of the run registers.

    Hugging Face training stops after the model is loaded. Megatron and Ray let the name through and stop at the first scoring.

    In the log: `ValueError: reward_function acuracy is not implemented in swift.rewards`; on Megatron `TypeError: 'str' object is not callable`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs acuracy format
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards, swift/rlhf_trainers/utils.py:resolve_reward_funcs
    Not shown on CPU: the trainer resolves rewards after the model is loaded
    """
    loaded = plugins_of(c.whole, c.v)
    if kind(c) != "grpo" or not loaded.complete:
        return
    built_in = c.facts.registries["orms"]
    known = {*built_in, *loaded.names("orms")}
    unknown = [token for token in _chosen(c, "reward_funcs") if token.text not in known]
    if not unknown:
        return
    close = {token.text: match[0] for token in unknown if (match := get_close_matches(token.text, known, 1, 0.7))}
    joined = next((re.split(r"[,\s]+", token.text.strip()) for token in unknown if re.search(r"[,\s]", token.text.strip())), None)
    first = unknown[0].text
    hint = f"; did you mean {', '.join(close.values())}?" if close and joined is None else ""
    if joined is not None:
        advice = f"--reward_funcs {' '.join(joined)} (separate words)"
    elif close:
        advice = f"--reward_funcs {' '.join(close.get(token.text, token.text) for token in _chosen(c, 'reward_funcs'))}"
    else:
        advice = f"orms['{first}'] = … in a plugin, given with --external_plugins"
    template = "reward function{plural} {names} {verb} not exist: {where}; ms-swift {version} itself has {built_in}{hint}"
    shown = names(f"`{token.text}`" for token in unknown)
    several = len(unknown) > 1
    yield c.finding(
        template, unknown[0], flags=["reward_funcs", "external_plugins"], names=shown, plural="s" if several else "", verb="do" if several else "does",
        where=_where(loaded, "orms"), version=c.facts.version, built_in=", ".join(built_in), hint=hint, fix=advice,
    )  # fmt: skip


@rule("RWD002", "reward-for-sampling-only", consequence="wrong", routes=RLHF)
def reward_for_sampling_only(c: JobCheck) -> Iterator[Finding]:
    """The built-in reward `math` in GRPO.

    `math` is made for `swift sample`: it takes requests and ground truths, which GRPO does not give.

    In the log: `TypeError: MathORM.__call__() missing 1 required positional argument: 'ground_truths'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs math format
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format
    ```

    Source: swift/rewards/orm.py:MathORM.__call__
    Not shown on CPU: rewards are called after the first rollout
    """
    if kind(c) != "grpo":
        return
    loaded = plugins_of(c.whole, c.v)
    for token in _chosen(c, "reward_funcs"):
        if token.text == "math" and loaded.complete and "math" not in loaded.names("orms"):
            template = "the built-in reward `math` takes infer_requests and ground_truths, which only `swift sample` gives; for GRPO use `accuracy` (it reads the column solution)"
            yield c.finding(template, token, flags=["reward_funcs"], fix="--reward_funcs accuracy")


@rule("RWD003", "reward-weights-count", consequence="wrong", routes=RLHF)
def reward_weights_count(c: JobCheck) -> Iterator[Finding]:
    """Not one weight for each source of reward.

    Sources are the reward functions, then the reward models (not on Megatron), then the gym environment where one is used.

    In the log: `ValueError: Number of reward weights (1) must match number of reward functions (2)`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format --reward_weights 1.0
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format --reward_weights 1.0 0.5
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards, swift/rlhf_trainers/utils.py:make_reward_weights
    Not shown on CPU: the trainer counts rewards after the model is loaded
    """
    weights, functions, models = (c.v.get(flag) for flag in ("reward_weights", "reward_funcs", "reward_model"))
    if kind(c) != "grpo" or not isinstance(weights, tuple) or UNKNOWN in (functions, models):
        return
    count = len(words(functions)) + (0 if c.v.megatron else len(words(models)))
    gym = _gym(c)
    allowed = {count + 1} if gym is True else {count} if gym is False else {count, count + 1}
    if len(weights) in allowed:
        return
    parts = [f"{len(words(functions))} reward function(s)"]
    if words(models) and not c.v.megatron:
        parts.append(f"{len(words(models))} reward model(s)")
    if gym is True:
        parts.append("1 gym environment")
    wanted = count + (1 if gym is True else 0)
    template = "{given} reward weight(s) for {wanted} reward(s) ({parts}): there must be one for each, in this order{gym}"
    note = "; one more where the rollout server brings a gym" if gym is None else ""
    example = " ".join(["1.0"] * wanted)
    yield c.finding(
        template, "reward_weights", flags=["reward_funcs", "reward_model"], related=[("reward_funcs", f"{len(words(functions))} here")], given=len(weights),
        wanted=wanted, parts=" + ".join(parts), gym=note, fix=f"--reward_weights {example}" if wanted else c.drop_flag("reward_weights"),
    )  # fmt: skip


def _gym(c: JobCheck) -> bool | None:
    """Whether the gym's reward counts as a source; None where that is not known here."""
    given = c.v.get("use_gym_env")
    if given is UNKNOWN or c.v.get("use_vllm") is UNKNOWN:
        return None
    if c.v.megatron:
        return bool(given) if given is not None else (None if server_mode(c.v) else False)
    if c.v.get("use_vllm") is False:
        return False  # it is read only when vLLM is prepared
    if given is not None:
        return bool(given)
    if not server_mode(c.v):
        return False if c.v.get("vllm_mode") == "colocate" else None
    values = {view.get("use_gym_env") for view in c.whole.servers}
    return bool(values.pop()) if len(values) == 1 and UNKNOWN not in values else None


@rule("RWD004", "reward-model-plugin-count", consequence="wrong", routes=("swift rlhf",))
def reward_model_plugin_count(c: JobCheck) -> Iterator[Finding]:
    """Not one reward-model plugin for each reward model.

    Without any, `default` is used for all: it reads the first logit of a sequence-classification model. Plugins without a reward model are never used.

    In the log: `AssertionError: The number of 'reward_model_plugin' (1) does not match the number of 'reward_model' (2).`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-Math-RM-72B Qwen/Qwen3-4B --reward_model_plugin genrm
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-Math-RM-72B Qwen/Qwen3-4B --reward_model_plugin default genrm
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards
    Not shown on CPU: the trainer counts plugins after the models are loaded
    """
    models, plugins = c.v.get("reward_model"), c.v.get("reward_model_plugin")
    if kind(c) != "grpo" or models is UNKNOWN or not isinstance(plugins, tuple):
        return
    count = len(words(models))
    if not count:
        template = "--reward_model_plugin {plugins} without --reward_model: nothing calls it, and it gives no reward"
        yield c.finding(template, "reward_model_plugin", flags=["reward_model"], plugins=" ".join(plugins), fix="--reward_model <model>")
    elif len(plugins) != count:
        template = "{plugins} reward-model plugin(s) for {models} reward model(s): there must be one for each; `default` is the one for a model with a score head"
        example = " ".join([*plugins, *["default"] * count][:count])
        related = [("reward_model", f"{count} here")]
        fix = f"--reward_model_plugin {example}"
        yield c.finding(template, "reward_model_plugin", flags=["reward_model"], related=related, plugins=len(plugins), models=count, fix=fix)


@rule("RWD005", "unknown-reward-model-plugin", consequence="wrong", routes=("swift rlhf",))
def unknown_reward_model_plugin(c: JobCheck) -> Iterator[Finding]:
    """A reward-model plugin that neither ms-swift nor a plugin of the run registers.

    The name is looked up when the trainer is made, after all models are loaded.

    In the log: `ValueError: rm_plugin gen_rm is not implemented in swift.rewards`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen3-4B --reward_model_plugin gen_rm
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen3-4B --reward_model_plugin genrm
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards
    Not shown on CPU: the trainer resolves plugins after the models are loaded
    """
    loaded = plugins_of(c.whole, c.v)
    if kind(c) != "grpo" or not loaded.complete or not words(c.v.get("reward_model")):
        return
    known = {*c.facts.registries["rm_plugins"], *loaded.names("rm_plugins")}
    for token in _chosen(c, "reward_model_plugin"):
        if token.text not in known:
            close = get_close_matches(token.text, known, 1, 0.6)
            template = "reward-model plugin `{name}` does not exist: {where}; known: {known}"
            fix = f"--reward_model_plugin {close[0]}" if close else f"rm_plugins['{token.text}'] = … in a plugin"
            where = _where(loaded, "rm_plugins")
            yield c.finding(template, token, flags=["reward_model_plugin"], name=token.text, where=where, known=", ".join(sorted(known)), fix=fix)


@rule("RWD006", "reward-model-lists-differ", consequence="wrong", routes=("swift rlhf",))
def reward_model_lists(c: JobCheck) -> Iterator[Finding]:
    """`reward_model_type`, `reward_template` or `reward_model_revision` with another number of values than `reward_model`.

    Each of these lists, where it is given at all, has one value for each reward model.

    In the log: a bare `AssertionError` while the reward models are loaded

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-Math-RM-72B Qwen/Qwen2-Math-RM-72B --reward_model_type qwen2_reward
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-Math-RM-72B Qwen/Qwen2-Math-RM-72B --reward_model_type qwen2_reward qwen2_reward
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF._prepare_model_tokenizer
    Not shown on CPU: reward models are loaded before the assertion
    """
    models = c.v.get("reward_model")
    if not isinstance(models, tuple):
        return
    for flag in ("reward_model_type", "reward_template", "reward_model_revision"):
        values = c.v.get(flag)
        if isinstance(values, tuple) and values and len(values) != len(models):
            template = "--{flag} has {given} value(s) for {models} reward model(s); give one for each, or none"
            related = [("reward_model", f"{len(models)} here")]
            yield c.finding(template, flag, flags=["reward_model"], related=related, flag=flag, given=len(values), models=len(models), fix=f"{len(models)} values for --{flag}")


@rule("RWD007", "soft-overlong-without-effect", consequence="wrong", routes=RLHF)
def soft_overlong_window(c: JobCheck) -> Iterator[Finding]:
    """The window of `soft_overlong` is empty, or lies behind the longest completion.

    The penalty grows from 0 at `soft_max_length − soft_cache_length` tokens to −1 at `soft_max_length`. The cache must be shorter than the maximum.
    A window that begins at or behind `max_completion_length` never penalises anything.

    In the log: a bare `AssertionError` in `SoftOverlong.__init__`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy soft_overlong --max_completion_length 2048 --soft_cache_length 2048
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy soft_overlong --max_completion_length 2048 --soft_cache_length 512
    ```

    Source: swift/rewards/orm.py:SoftOverlong
    Not shown on CPU: the trainer constructs rewards after the model is loaded
    """
    if kind(c) != "grpo" or "soft_overlong" not in words(c.v.get("reward_funcs")):
        return
    longest, cache, limit = (number(c.v.get(flag)) for flag in ("soft_max_length", "soft_cache_length", "max_completion_length"))
    if longest is None or cache is None:
        return
    related = [("soft_max_length", f"{longest:g} here"), ("max_completion_length", f"{limit:g} here")]
    flags = ["soft_max_length", "max_completion_length"]
    good = max(int(min(longest, limit or longest)) // 4, 1)
    if cache >= longest:
        template = "--soft_cache_length {cache:g} must be below soft_max_length {longest:g}; the penalty runs over the last soft_cache_length tokens"
        yield c.finding(template, "soft_cache_length", flags=flags, related=related, cache=cache, longest=longest, fix=c.set_flag("soft_cache_length", str(good)))
    elif limit is not None and longest - cache >= limit:
        template = "soft_overlong begins at {longest:g} − {cache:g} = {start:g} tokens, and completions end at {limit:g}: it is always 0; lower --soft_max_length to {limit:g}"
        fix = c.set_flag("soft_max_length", f"{limit:g}")
        yield c.finding(template, "soft_max_length", flags=["soft_cache_length", *flags], related=related, cache=cache, longest=longest, start=longest - cache, limit=limit, fix=fix)


@rule("RWD008", "cosine-length-too-short", severity="warning", consequence="wrong", routes=RLHF)
def cosine_length(c: JobCheck) -> Iterator[Finding]:
    """`cosine_max_len` below the longest completion.

    The reward follows half a period of a cosine up to `cosine_max_len` tokens, by default `max_completion_length`. Beyond it the cosine turns back, so that
    long answers are scored as if they were short.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs cosine --max_completion_length 4096 --cosine_max_len 1024
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs cosine --max_completion_length 4096 --cosine_max_len 4096
    ```

    Source: swift/rewards/orm.py:CosineReward.cosfn
    """
    if kind(c) != "grpo" or "cosine" not in words(c.v.get("reward_funcs")) or not c.v.written("cosine_max_len"):
        return
    length, limit = number(c.v.get("cosine_max_len")), number(c.v.get("max_completion_length"))
    if length is None or limit is None or length >= limit:
        return
    template = "--cosine_max_len {length:g} is below max_completion_length {limit:g}: past {length:g} tokens the cosine turns back and long answers score like short ones; use {limit:g}, the default"
    related = [("max_completion_length", f"{limit:g} here")]
    fix = c.set_flag("cosine_max_len", f"{limit:g}")
    yield c.finding(template, "cosine_max_len", flags=["max_completion_length"], related=related, length=length, limit=limit, fix=fix)


@rule("RWD009", "reward-function-repeated", severity="warning", consequence="wrong", routes=RLHF)
def reward_repeated(c: JobCheck) -> Iterator[Finding]:
    """The same reward function twice.

    Each occurrence is a reward of its own with its own weight, so that it counts twice.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format accuracy
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy format --reward_weights 2.0 1.0
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards
    """
    if kind(c) != "grpo":
        return
    seen: set[str] = set()
    for token in _chosen(c, "reward_funcs"):
        if token.text in seen:
            template = "reward function `{name}` is given twice and counts twice; remove one, or say so with --reward_weights"
            yield c.finding(template, token, flags=["reward_funcs"], name=token.text, fix=f"one {token.text} in --reward_funcs")
        seen.add(token.text)


@rule("RWD010", "misspelt-model-id", severity="warning", confidence="medium", consequence="wrong", routes=("swift rlhf", "megatron rlhf", "swift sample", "swift rollout"))
def misspelt_model_id(c: JobCheck) -> Iterator[Finding]:
    """A model id that differs from a known one by its punctuation only.

    Hub ids are compared exactly. `Qwen/Qwen2_5-3B-Instruct` does not exist, `Qwen/Qwen2.5-3B-Instruct` does. A reward or teacher model is loaded late, after
    the policy.

    In the log: `Repo Qwen/Qwen2_5-3B-Instruct not exists on https://www.modelscope.cn`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2_5-3B-Instruct --reward_model_plugin genrm
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-3B-Instruct --reward_model_plugin genrm
    ```

    Source: swift/pipelines/train/rlhf.py:SwiftRLHF._prepare_single_model, swift/model/model_arch (ids)
    """
    for flag in ("model", "reward_model", "ref_model", "teacher_model"):
        for token in _chosen(c, flag):
            known = _nearest_id(c, token.text)
            if known is not None:
                template = "no known model is called {name}; did you mean {known}?"
                fix = c.set_flag(flag, known) if len(_chosen(c, flag)) == 1 else f"{known} in place of {token.text}"
                yield c.finding(template, token, flags=[flag], name=token.text, known=known, fix=fix)


def _nearest_id(c: JobCheck, name: str) -> str | None:
    """The known id of the same letters and digits under the same owner, where the name itself is not known."""
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or Path(c.whole.cwd, name).exists():
        return None
    registries = c.facts.registries
    if registries.model_of(name) is not None:
        return None
    wanted = _letters(name)
    found = {known for entry in registries.models.values() for known in entry.ids if _letters(known) == wanted and known.lower() != name.lower()}
    return sorted(found)[0] if found else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9/]", "", name.lower())


@rule("RWD011", "reward-model-without-score", consequence="wrong", routes=("swift rlhf",))
def reward_model_without_score(c: JobCheck) -> Iterator[Finding]:
    """A chat model as reward model, read as if it had a score head.

    PPO and the plugin `default` of GRPO take the first logit of a sequence-classification model. A causal language model has one row of logits a token
    instead. The plugin `genrm` lets such a model write its judgement; it in turn needs one that can write.

    In the log: `ValueError: only one element tensors can be converted to Python scalars`, with PPO `AttributeError: … has no attribute 'score'`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-7B-Instruct
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_model Qwen/Qwen2.5-7B-Instruct --reward_model_plugin genrm
    ```

    Source: swift/rewards/rm_plugin.py:DefaultRMPlugin.__call__, swift/pipelines/train/rlhf.py:SwiftRLHF._get_model_task_type
    Not shown on CPU: rewards are called after the first rollout
    """
    algorithm = kind(c)
    models, plugins = _chosen(c, "reward_model"), c.v.get("reward_model_plugin")
    if algorithm not in ("grpo", "ppo") or plugins is UNKNOWN or c.v.get("reward_adapters") not in (None, ()):
        return
    for at, token in enumerate(models):
        entry = _hub_entry(c, token.text)
        if entry is None or not all(architecture.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")) for architecture in entry.architectures):
            continue
        plugin = words(plugins)[at] if at < len(words(plugins)) else "default"
        if algorithm == "ppo" or plugin == "default":
            use = "PPO" if algorithm == "ppo" else "the plugin `default`"
            template = "{name} is a chat model without a score head, and {use} reads its first logit as the reward; give a reward model{other}"
            other = " (such as one trained with --rlhf_type rm)" if algorithm == "ppo" else ", or --reward_model_plugin genrm to let it write a score"
            fix = "--reward_model <sequence classification model>" if algorithm == "ppo" else "--reward_model_plugin genrm"
            yield c.finding(template, token, flags=["reward_model", "reward_model_plugin"], name=token.text, use=use, other=other, fix=fix)


def _hub_entry(c: JobCheck, name: str) -> ModelEntry | None:
    """The registry's entry of a hub id that is surely no reward model; None for paths, unknown ids and reward models."""
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or _REWARD_NAME.search(name) or Path(c.whole.cwd, name).exists():
        return None
    entry = c.facts.registries.model_of(name)
    if entry is None or entry.reward or name.lower() not in {known.lower() for known in entry.ids} or not entry.architectures:
        return None
    return entry
