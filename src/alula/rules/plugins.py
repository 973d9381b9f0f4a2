"""Plugin files as a whole: their imports and what they register. They are read as syntax and never imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from alula.facts._data import numbers

from .plugincheck import PluginCheck, plugin_checks
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Import

__all__ = ["plugin_checks"]

# Module of 3.x -> where its things are since 4.0. The longest name that fits counts.
_MOVED = {
    "swift.plugin.orm": "swift.rewards",
    "swift.plugin.prm": "swift.rewards",
    "swift.plugin.rm_plugin": "swift.rewards",
    "swift.plugin.multi_turn": "swift.rollout.multi_turn",
    "swift.plugin.env": "swift.rollout.gym_env",
    "swift.plugin.loss": "swift.loss",
    "swift.plugin.loss_scale": "swift.loss_scale",
    "swift.plugin.metric": "swift.metrics",
    "swift.plugin.callback": "swift.callbacks",
    "swift.plugin.optimizer": "swift.optimizers",
    "swift.plugin.tuner": "swift.tuner_plugin",
    "swift.plugin.agent_template": "swift.agent_template",
    "swift.plugin": "swift.rewards (orms, ORM, rm_plugins) or swift.rollout (multi_turns, envs)",
    "swift.llm.infer.protocol": "swift.infer_engine",
    "swift.llm.infer": "swift.infer_engine",
    "swift.llm.template": "swift.template",
    "swift.llm.dataset": "swift.dataset",
    "swift.llm.model": "swift.model",
    "swift.llm": "swift.infer_engine (InferRequest, RequestConfig), swift.template, swift.dataset or swift.model",
    "swift.trainers.rlhf_trainer": "swift.rlhf_trainers",
}
_NAMES = {
    **dict.fromkeys(("ORM", "AsyncORM", "orms", "PRM", "prms", "rm_plugins", "DefaultRMPlugin"), "swift.rewards"),
    **dict.fromkeys(("multi_turns", "MultiTurnScheduler", "RolloutScheduler", "GYMScheduler"), "swift.rollout.multi_turn"),
    **dict.fromkeys(("envs", "Env"), "swift.rollout.gym_env"),
    **dict.fromkeys(
        ("InferRequest", "RequestConfig", "RolloutInferRequest", "PtEngine", "VllmEngine", "InferClient", "ChatCompletionResponse"), "swift.infer_engine"
    ),
    **dict.fromkeys(("Template", "to_device", "Messages", "register_template", "TemplateMeta"), "swift.template"),
    **dict.fromkeys(("register_dataset", "DatasetMeta", "RowPreprocessor", "ResponsePreprocessor", "MessagesPreprocessor", "load_dataset"), "swift.dataset"),
    **dict.fromkeys(("register_model", "ModelMeta", "get_model_tokenizer"), "swift.model"),
}
_NEW_IN_4 = ("swift.rewards", "swift.rollout", "swift.infer_engine", "swift.rlhf_trainers", "swift.template", "swift.dataset", "swift.model")


@rule("PLG001", "plugin-syntax-error", scope="plugin")
def plugin_syntax_error(p: PluginCheck) -> Iterator[Finding]:
    """A plugin that Python cannot read.

    Plugins are imported while the arguments are checked, by every process.

    In the log: `SyntaxError: invalid syntax`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM)
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments._import_external_plugins
    """
    if p.plugin.error is not None:
        message, span = p.plugin.error
        yield p.finding("{message}: ms-swift cannot import this plugin", span, flags=["external_plugins"], message=message, fix="correct the syntax")


@rule("PLG002", "plugin-imports-moved-module", scope="plugin")
def moved_module(p: PluginCheck) -> Iterator[Finding]:
    """A plugin that imports a module of ms-swift which this version does not have.

    4.0 took `swift.llm` and `swift.plugin` apart; 4.3 gave the name `swift.ray` to Megatron-Ray. The plugin is imported while the arguments are
    checked, so that nothing starts.

    In the log: `ModuleNotFoundError: No module named 'swift.plugin'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.plugin import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Source: swift/rewards/__init__.py, swift/rollout/__init__.py, swift/infer_engine/__init__.py
    """
    version = numbers(p.version)
    certain = [found for found in p.plugin.imports if not found.guarded]
    if version < (4,):
        early = [found for found in certain if any(_inside(found.module, new) for new in _NEW_IN_4)]
        if early:
            template = "`{module}` came with ms-swift 4.0{more}; in {version} these things are in swift.plugin and swift.llm"
            yield p.finding(
                template, early[0].span, flags=["external_plugins"], module=early[0].module, more=_more(early), version=p.version, fix="import from swift.plugin and swift.llm"
            )  # fmt: skip
        return
    gone = [found for found in certain if _inside(found.module, "swift.plugin") or _inside(found.module, "swift.llm")]
    if gone:
        template = "ms-swift {version} has no `{module}` (gone since 4.0){more}; {advice}"
        advice = "; ".join(dict.fromkeys(_advice(found) for found in gone))
        yield p.finding(template, gone[0].span, flags=["external_plugins"], version=p.version, module=gone[0].module, more=_more(gone), advice=advice, fix=advice)
    if version >= (4, 3):
        for found in certain:
            if found.module == "swift.ray" and set(found.names) & {"RayHelper", "RayArguments", "try_init_ray"}:
                template = "`swift.ray` is Megatron-Ray since ms-swift 4.3 and has no {names}; import from swift.ray_utils"
                yield p.finding(template, found.span, flags=["external_plugins"], names=", ".join(found.names), fix="from swift.ray_utils import …")


def _more(found: Sequence[Import]) -> str:
    others = list(dict.fromkeys(one.module for one in found[1:] if one.module != found[0].module))
    return f", nor {', '.join(f'`{module}`' for module in others)}" if others else ""


def _advice(found: Import) -> str:
    """Where the things of one import are now."""
    modules: dict[str, list[str]] = {}
    for name in found.names:
        if name in _NAMES:
            modules.setdefault(_NAMES[name], []).append(name)
    advice = [f"from {module} import {', '.join(names)}" for module, names in modules.items()]
    left = [name for name in found.names if name not in _NAMES]
    if left or not advice:
        place = _MOVED[max((module for module in _MOVED if _inside(found.module, module)), key=len)]
        advice.append(f"{', '.join(left) or found.module}: see {place}")
    return "; ".join(advice)


def _inside(module: str, parent: str) -> bool:
    return module == parent or module.startswith(parent + ".")


@rule("PLG014", "plugin-registers-nothing", scope="plugin", severity="warning", consequence="wrong")
def registers_nothing(p: PluginCheck) -> Iterator[Finding]:
    """A class for one of ms-swift's registries that the plugin never puts there.

    Deriving from `ORM`, `MultiTurnScheduler` or `Env` registers nothing: the name that the command line uses is a key of `orms`, `multi_turns` or `envs`.

    In the log: `ValueError: reward_function brief is not implemented in swift.rewards`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs accuracy --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Source: swift/rewards/orm.py:orms, swift/rollout/multi_turn.py:multi_turns
    """
    if p.plugin.open or p.plugin.registrations:
        return
    for bases, registry in ((("ORM", "AsyncORM"), "orms"), (("MultiTurnScheduler", "RolloutScheduler", "GYMScheduler"), "multi_turns"), (("Env",), "envs")):
        for cls in p.plugin.classes.values():
            if p.plugin.descends(cls, *bases):
                template = "{cls} is never registered, and the plugin registers nothing else: add `{registry}['a_name'] = {cls}`"
                yield p.finding(template, cls.span, flags=["external_plugins"], cls=cls.name, registry=registry, fix=f"{registry}['a_name'] = {cls.name}")


@rule("PLG015", "registered-twice", scope="plugin", severity="warning", consequence="wrong")
def registered_twice(p: PluginCheck) -> Iterator[Finding]:
    """The same name registered twice for different classes.

    The last one wins without a word.

    In the log: nothing

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    class Polite(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if "please" in c else 0.0 for c in completions]

    orms["brief"] = Brief
    orms["brief"] = Polite
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief polite --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < 80 else 0.0 for c in completions]

    class Polite(ORM):
        def __call__(self, completions, **kwargs):
            return [1.0 if "please" in c else 0.0 for c in completions]

    orms["brief"] = Brief
    orms["polite"] = Polite
    ```

    Source: swift/rewards/orm.py:orms
    """
    last: dict[tuple[str, str], str] = {}
    for found in p.plugin.registrations:
        before = last.get((found.registry, found.name))
        if before and found.target and before != found.target and found.span.file == p.plugin.file:
            template = "`{name}` was {before} above and is {target} from here on: the last one wins; give each its own name"
            yield p.finding(template, found.span, flags=["external_plugins"], name=found.name, before=before, target=found.target, fix=f"another name for {found.target}")
        last[found.registry, found.name] = found.target
