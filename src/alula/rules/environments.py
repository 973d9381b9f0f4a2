"""Gym environments and reward-model plugins in plugin files: how ms-swift constructs and calls them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .plugincheck import PluginCheck

_RETURNS = {"reset": (3, "(observation, info, system_message)"), "step": (4, "(observation, reward, done, info)")}


@rule("PLG030", "environment-contract", scope="plugin", consequence="wrong")
def environment_contract(p: PluginCheck) -> Iterator[Finding]:
    """A gym environment that the scheduler cannot use as it is.

    `reset(request)`, `step(messages)` and `close()` are coroutines and all three must be there. `reset` returns three values, `step` four. The constructor
    gets the row's `env_config`.

    In the log: `TypeError: object tuple can't be used in 'await' expression`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env echo --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.gym_env import Env, envs

    class Echo(Env):
        def reset(self, config):
            return "Say hello.", {}, "You are polite."

        def step(self, action):
            return "", 1.0, True, {}

        def close(self):
            pass

    envs["echo"] = Echo
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env echo --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.gym_env import Env, envs

    class Echo(Env):
        async def reset(self, config):
            return "Say hello.", {}, "You are polite."

        async def step(self, action):
            return "", 1.0, True, {}

        async def close(self):
            pass

    envs["echo"] = Echo
    ```

    Source: swift/rollout/multi_turn.py:GYMScheduler, swift/rollout/gym_env.py:Env
    Not shown on CPU: environments are made during a rollout
    """
    for cls in p.environments:
        outside = {base.rsplit(".", 1)[-1] for base in p.plugin.lineage(cls)[1]}
        missing = [name for name in ("reset", "step", "close") if p.plugin.method(cls, name) is None]
        if missing and outside <= {"Env", "ABC", "object"} and (len(missing) < 3 or p.is_chosen_environment(cls)):  # else a stub that nobody uses
            template = "{cls} has no {missing}: ms-swift cannot make the environment; write them as coroutines"
            shown = " and no ".join(missing)
            yield p.finding(template, cls.span, flags=["gym_env"], cls=cls.name, missing=shown, fix=f"async def {missing[0]}(self, …)")
        for name in ("reset", "step", "close"):
            method = p.plugin.method(cls, name)
            if method is None:
                continue
            if not method.is_async:
                if name != "close":  # an error while closing is swallowed
                    template = "{cls}.{name} is awaited; write `async def {name}`"
                    yield p.finding(template, method.span, flags=["gym_env"], cls=cls.name, name=name, fix=f"async def {name}(self, …)")
                continue
            size, values = _RETURNS.get(name, (0, ""))
            for found in method.returns if size else ():
                if (found.kind == "tuple" and found.size != size) or found.kind in ("none", "number", "text", "dict"):
                    got = f"{found.size} values" if found.kind == "tuple" else found.kind
                    template = "{cls}.{name} returns {got}; it must return {size} values: {values}"
                    yield p.finding(template, found.span, flags=["gym_env"], cls=cls.name, name=name, got=got, size=size, values=values, fix=f"return {values}")
        init = p.plugin.method(cls, "__init__")
        needed = [parameter for parameter in init.parameters if parameter.required] if init is not None else []
        if init is not None and (len(needed) > 1 or not (init.positional or init.var_positional)):
            template = "{cls}.__init__ gets the row's env_config as its only argument; write `def __init__(self, env_config)`"
            yield p.finding(template, init.span, flags=["gym_env"], cls=cls.name, fix="def __init__(self, env_config): super().__init__(env_config)")


@rule("PLG040", "reward-model-plugin-contract", scope="plugin", consequence="wrong")
def reward_model_plugin_contract(p: PluginCheck) -> Iterator[Finding]:
    """A reward-model plugin that cannot be constructed or called the way ms-swift does.

    It is constructed with `model` and `template`, and called with `inputs` (the rows) and everything else by name.

    In the log: `TypeError: Judge.__init__() got an unexpected keyword argument 'template'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_model Qwen/Qwen3-4B --reward_model_plugin judge --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import rm_plugins

    class Judge:
        def __init__(self, model):
            self.model = model

        def __call__(self, inputs):
            return [0.5 for row in inputs]

    rm_plugins["judge"] = Judge
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_model Qwen/Qwen3-4B --reward_model_plugin judge --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import rm_plugins

    class Judge:
        def __init__(self, model, template):
            self.model = model
            self.template = template

        def __call__(self, inputs, **kwargs):
            return [0.5 for row in inputs]

    rm_plugins["judge"] = Judge
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards, swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: the trainer constructs reward plugins after the models are loaded
    """
    for registration, cls in p.registered("rm_plugins", "DefaultRMPlugin", "GenRMPlugin"):
        name = p.name_of(registration, cls)
        init, call = p.plugin.method(cls, "__init__"), p.plugin.method(cls, "__call__")
        if init is not None:
            needed = [parameter.name for parameter in init.parameters if parameter.required and parameter.name not in ("model", "template")]
            if needed or not (init.accepts("model") and init.accepts("template")):
                template = "{name}: it is constructed with model=… and template=…; write `def __init__(self, model, template)`"
                yield p.finding(template, init.span, flags=["reward_model_plugin"], name=name, fix="def __init__(self, model, template)")
        if call is not None and not (call.accepts("inputs") and call.var_keyword):
            template = "{name}: it is called with inputs=… and every other column by name; write `def __call__(self, inputs, **kwargs)`"
            yield p.finding(template, call.span, flags=["reward_model_plugin"], name=name, fix="def __call__(self, inputs, **kwargs)")
