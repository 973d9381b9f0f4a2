"""Reward classes in plugins: how ms-swift constructs and calls them, and what they must return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .context import names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Function

    from .plugincheck import PluginCheck

_REWARD_KEYWORDS = ("trainer_state", "messages", "prompt_id", "request_id", "finish_reason", "response_token_ids")


@rule("PLG003", "reward-is-no-class", scope="plugin", consequence="wrong")
def reward_is_no_class(p: PluginCheck) -> Iterator[Finding]:
    """A function, a lambda or an object where the registry of rewards needs a class.

    ms-swift calls what it finds in `orms` once, to construct the reward, and only then with completions. A plain function fails at the first call.

    In the log: `TypeError: length_reward() missing 1 required positional argument: 'completions'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import orms

    def brief(completions, **kwargs):
        return [1.0 if len(c) < 80 else 0.0 for c in completions]

    orms["brief"] = brief
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

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards
    Not shown on CPU: the trainer constructs rewards after the model is loaded
    """
    chosen = p.chosen("orms")
    for found in p.plugin.registrations:
        if found.registry != "orms" or found.kind in ("class", "unknown") or (chosen is not None and found.name not in chosen):
            continue
        if found.kind == "function":
            function = p.plugin.functions.get(found.target)
            if function is None or not any(parameter.required for parameter in function.positional):
                continue  # it may well be a factory
        what = {"function": f"the function {found.target}", "lambda": "a lambda", "instance": f"an object of {found.target}"}[found.kind]
        template = "`{name}` is {what}; ms-swift constructs a reward first (`orms[name](args=…)`), so the entry must be a class whose objects take completions"
        fix = f"orms['{found.name}'] = {found.target}" if found.kind == "instance" else "class …(ORM): def __call__(self, completions, **kwargs)"
        yield p.finding(template, found.span, flags=["reward_funcs"], name=found.name, what=what, fix=fix)


@rule("PLG004", "reward-constructor", scope="plugin", consequence="wrong", since="4.0")
def reward_constructor(p: PluginCheck) -> Iterator[Finding]:
    """A reward class whose constructor does not take `args`, or needs more.

    Since 4.0 every reward is constructed with the keyword argument `args` (the training arguments) and nothing else; 3.x looked at the signature.

    In the log: `TypeError: Brief.__init__() got an unexpected keyword argument 'args'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __init__(self):
            self.limit = 80

        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < self.limit else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __init__(self, args=None, **kwargs):
            super().__init__(args, **kwargs)
            self.limit = 80

        def __call__(self, completions, **kwargs):
            return [1.0 if len(c) < self.limit else 0.0 for c in completions]

    orms["brief"] = Brief
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards, swift/rlhf_trainers/utils.py:resolve_reward_funcs
    Not shown on CPU: the trainer constructs rewards after the model is loaded
    """
    refusing: list[tuple[str, Function]] = []
    for registration, cls in p.rewards:
        init = p.plugin.method(cls, "__init__")
        if init is None:
            continue
        needed = [parameter.name for parameter in init.parameters if parameter.required and parameter.name != "args"]
        if not init.accepts("args"):
            refusing.append((p.name_of(registration, cls), init))
        elif needed:
            template = "{name}: __init__ needs {needed}, but ms-swift {version} gives a reward only `args`; give them a default or read them from args"
            fix = "def __init__(self, args=None, **kwargs): super().__init__(args, **kwargs)"
            yield p.finding(template, init.span, flags=["reward_funcs"], name=p.name_of(registration, cls), version=p.version, needed=", ".join(needed), fix=fix)
    if refusing:
        name, init = refusing[0]
        others = f" (nor do {names(other for other, _ in refusing[1:])})" if len(refusing) > 1 else ""
        template = "{name}: __init__ does not accept `args`{others}, and ms-swift {version} constructs every reward with args=…; write `def __init__(self, args=None, **kwargs)`"
        fix = "def __init__(self, args=None, **kwargs): super().__init__(args, **kwargs)"
        yield p.finding(template, init.span, flags=["reward_funcs"], name=name, others=others, version=p.version, fix=fix)


@rule("PLG005", "reward-call-signature", scope="plugin", consequence="wrong")
def reward_call_signature(p: PluginCheck) -> Iterator[Finding]:
    """A reward that cannot be called the way ms-swift calls it.

    Rewards get the completions as the one positional argument and everything else by name: the trainer's state, ids, messages and all other columns
    of the data. A signature without `**kwargs` refuses what it does not name.

    In the log: `TypeError: Brief.__call__() got an unexpected keyword argument 'trainer_state'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions):
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

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: rewards are called after the first rollout
    """
    for registration, cls in p.rewards:
        name = p.name_of(registration, cls)
        call = p.plugin.method(cls, "__call__")
        if call is None:
            outside = p.plugin.lineage(cls)[1]
            if all(base.rsplit(".", 1)[-1] in ("ORM", "AsyncORM", "object", "ABC") for base in outside):
                template = "{name} has no __call__: ms-swift calls it with the completions; write `def __call__(self, completions, **kwargs)`"
                yield p.finding(template, cls.span, flags=["reward_funcs"], name=name, fix="def __call__(self, completions, **kwargs)")
            continue
        if not call.positional and not call.var_positional:
            template = "{name}: __call__ takes no positional argument, but ms-swift gives the completions as one; write `def __call__(self, completions, **kwargs)`"
            yield p.finding(template, call.span, flags=["reward_funcs"], name=name, fix="def __call__(self, completions, **kwargs)")
        elif not call.var_keyword:
            missing = [keyword for keyword in _REWARD_KEYWORDS if not call.accepts(keyword)]
            if missing:
                template = "{name}: __call__ has no **kwargs, but ms-swift also passes {missing} … and every other column by name; add **kwargs"
                yield p.finding(template, call.span, flags=["reward_funcs"], name=name, missing=", ".join(missing[:3]), fix=_with_kwargs(call))


def _with_kwargs(call: Function) -> str:
    return f"def __call__(self, {', '.join(parameter.name for parameter in call.parameters)}, **kwargs)"


@rule("PLG006", "reward-returns-no-list", scope="plugin", consequence="wrong")
def reward_returns_no_list(p: PluginCheck) -> Iterator[Finding]:
    """A reward that returns something else than a list of numbers.

    One number (or None) per completion is expected, in the order of the completions.

    In the log: `TypeError: 'float' object is not iterable`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs brief --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Brief(ORM):
        def __call__(self, completions, **kwargs):
            total = 0.0
            for completion in completions:
                total += 1.0 if len(completion) < 80 else 0.0
            return total

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
            return [1.0 if len(completion) < 80 else 0.0 for completion in completions]

    orms["brief"] = Brief
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: rewards are called after the first rollout
    """
    words = {"number": "one number", "none": "None", "text": "a text", "dict": "a dict"}
    for registration, cls in p.rewards:
        call = p.plugin.method(cls, "__call__")
        returns = call.returns if call is not None and not call.generator else ()
        for found in returns:
            if found.kind in words:
                what = "nothing" if found.kind == "none" and len(returns) == 1 else words[found.kind]
                template = "{name} returns {what}; it must return a list with one number (or None) for each completion"
                yield p.finding(template, found.span, flags=["reward_funcs"], name=p.name_of(registration, cls), what=what, fix="return [… for completion in completions]")


@rule("PLG007", "reward-list-too-short", scope="plugin", consequence="wrong")
def reward_list_too_short(p: PluginCheck) -> Iterator[Finding]:
    """A reward whose list can have fewer items than there are completions.

    Scores are matched by position. A list of another length stops the run, except one of length 1: that one score is silently given to every
    completion. A reward that does not apply to a row returns None for it, and ms-swift leaves it out of the sum.

    In the log: `RuntimeError: The expanded size of the tensor (8) must match the existing size (5)`; nothing for one item

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs exact --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Exact(ORM):
        def __call__(self, completions, kind, target, **kwargs):
            scores = []
            for completion, kind_, target_ in zip(completions, kind, target):
                if kind_ == "exact":
                    scores.append(float(completion.strip() == target_))
            return scores

    orms["exact"] = Exact
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs exact --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Exact(ORM):
        def __call__(self, completions, kind, target, **kwargs):
            scores = []
            for completion, kind_, target_ in zip(completions, kind, target):
                scores.append(float(completion.strip() == target_) if kind_ == "exact" else None)
            return scores

    orms["exact"] = Exact
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: rewards are called after the first rollout
    """
    for registration, cls in p.rewards:
        call = p.plugin.method(cls, "__call__")
        name = p.name_of(registration, cls)
        for found in call.returns if call is not None and not call.generator else ():
            if found.kind in ("list", "tuple") and found.size == 1 and not found.guarded:
                template = "{name} returns a list of 1 item: it is given to every completion of the batch, so that all get the same score; return one score for each completion"
                yield p.finding(template, found.span, flags=["reward_funcs"], name=name, fix="return [… for completion in completions]")
            elif found.kind in ("short", "filtered"):
                template = "{name} adds no score where {detail}: the list gets shorter than the completions, and the number of rewards must equal that of completions; append None there"
                detail = found.detail if found.kind == "short" else f"not ({found.detail})"
                yield p.finding(template, found.span, flags=["reward_funcs"], name=name, detail=detail, fix="append(None) for rows that the reward does not apply to")
