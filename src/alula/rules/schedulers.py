"""Multi-turn schedulers, environments and reward-model plugins: how ms-swift constructs and calls them, and what they must give back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.facts._data import numbers
from alula.swift.parse import UNKNOWN

from .plugincheck import SCHEDULER_BASES, PluginCheck
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Function, PluginClass
    from alula.swift.effective import View

_HOOKS = {"step": 3, "check_finished": 3}
_COROUTINES = ("on_trajectory_start", "on_turn_end", "run")
_TRAIN = ("swift rlhf", "megatron rlhf")


def _own(p: PluginCheck, cls: PluginClass, name: str) -> Function | None:
    return p.plugin.method(cls, name)


def _plain_base(p: PluginCheck, cls: PluginClass) -> bool:
    """All bases outside the file are ms-swift's abstract ones, so that what the class itself lacks is lacking."""
    outside = {base.rsplit(".", 1)[-1] for base in p.plugin.lineage(cls)[1]}
    return bool(outside) and outside <= {"MultiTurnScheduler", "RolloutScheduler", "ABC", "object"} and "MultiTurnScheduler" in outside


def _takes(function: Function, count: int) -> bool:
    """It can be called with so many positional arguments."""
    if function.var_positional:
        return sum(parameter.required for parameter in function.positional) <= count
    needed = sum(parameter.required for parameter in function.positional)
    return needed <= count <= len(function.positional) and not any(p.required for p in function.parameters if p.keyword_only)


@rule("PLG020", "scheduler-hook-contract", scope="plugin", consequence="wrong")
def scheduler_hook_contract(p: PluginCheck) -> Iterator[Finding]:
    """A scheduler's `step` or hook that ms-swift cannot use as it is.

    `step` and `check_finished` are plain functions, called with the request, the choice and the turn; `step` returns a dict with `infer_request`.
    `on_trajectory_start`, `on_turn_end` and `run` are coroutines. A coroutine `check_finished` is always true, so that every trajectory ends at its
    first turn without a word.

    In the log: `AttributeError: 'coroutine' object has no attribute 'setdefault'`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler retry --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Retry(MultiTurnScheduler):
        async def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Try again."})
            return {"infer_request": infer_request}

    multi_turns["retry"] = Retry
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler retry --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Retry(MultiTurnScheduler):
        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Try again."})
            return {"infer_request": infer_request}

    multi_turns["retry"] = Retry
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rollout/agent_loop.py:run_multi_turn
    Not shown on CPU: the hooks are called during a rollout
    """
    for registration, cls in p.schedulers:
        name = p.name_of(registration, cls)
        overrides_run = _own(p, cls, "run") is not None
        for hook, count in _HOOKS.items():
            function = _own(p, cls, hook)
            if function is None or (overrides_run and hook != "step"):
                continue
            if function.is_async and not overrides_run:
                what = "its result is used without await" if hook == "step" else "a coroutine counts as true, and every trajectory ends at its first turn"
                template = "{name}: {hook} must be a plain function, not `async def`: {what}"
                yield p.finding(template, function.span, flags=["multi_turn_scheduler"], name=name, hook=hook, what=what, fix=f"def {hook}(self, …)")
            elif not _takes(function, count) and not overrides_run:
                template = "{name}: {hook} is called with (infer_request, response_choice, current_turn); it takes ({takes})"
                takes = ", ".join(parameter.name for parameter in function.parameters)
                fix = f"def {hook}(self, infer_request, response_choice, current_turn)"
                yield p.finding(template, function.span, flags=["multi_turn_scheduler"], name=name, hook=hook, takes=takes, fix=fix)
            elif hook == "step" and not overrides_run:
                yield from _step_returns(p, name, function)
        for hook in _COROUTINES:
            function = _own(p, cls, hook)
            if function is not None and not function.is_async and not any(call.name.startswith("asyncio.") for call in function.calls):
                if any(ret.kind in ("dict", "none", "number", "list") for ret in function.returns):
                    template = "{name}: {hook} is awaited; write `async def {hook}`"
                    yield p.finding(template, function.span, flags=["multi_turn_scheduler"], name=name, hook=hook, fix=f"async def {hook}(self, …)")


def _step_returns(p: PluginCheck, name: str, step: Function) -> Iterator[Finding]:
    request = step.positional[0].name if step.positional else ""
    for found in step.returns:
        problem = ""
        if found.kind == "dict" and "infer_request" not in found.keys and not (found.name and "infer_request" in step.assigns):
            problem = "a dict without `infer_request`"
        elif found.kind == "none" and "infer_request" not in step.assigns:
            problem = "nothing"
        elif found.kind == "name" and found.name == request:
            problem = f"`{request}` itself"
        elif found.kind in ("tuple", "list", "number", "text"):
            problem = f"a {found.kind}"
        if problem:
            template = "{name}: step returns {problem}; it must return a dict: `return {{'infer_request': {request}}}`"
            fix = f"return {{'infer_request': {request}}}"
            yield p.finding(template, found.span, flags=["multi_turn_scheduler"], name=name, problem=problem, request=request, fix=fix)


@rule("PLG021", "scheduler-constructor", scope="plugin", consequence="wrong")
def scheduler_constructor(p: PluginCheck) -> Iterator[Finding]:
    """A scheduler whose constructor does not take what ms-swift gives it.

    A rollout server gives `infer_engine` and `max_turns`, with a gym also `use_gym_env` and `gym_env`; a trainer gives `max_turns`, since 3.12 `tokenizer`,
    since 4.5 `template`, and `gym_env` where it is set. `**kwargs` takes them all.

    In the log: `TypeError: Retry.__init__() got an unexpected keyword argument 'tokenizer'`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler retry --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Retry(MultiTurnScheduler):
        def __init__(self, prompt="Try again."):
            super().__init__()
            self.prompt = prompt

        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": self.prompt})
            return {"infer_request": infer_request}

    multi_turns["retry"] = Retry
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler retry --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Retry(MultiTurnScheduler):
        def __init__(self, infer_engine=None, max_turns=None, **kwargs):
            super().__init__(infer_engine, max_turns, **kwargs)
            self.prompt = "Try again."

        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": self.prompt})
            return {"infer_request": infer_request}

    multi_turns["retry"] = Retry
    ```

    Source: swift/pipelines/infer/rollout.py:get_rollout_engine_type, swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_scheduler
    Not shown on CPU: schedulers are constructed after the model is loaded
    """
    for registration, cls in p.schedulers:
        init = _own(p, cls, "__init__")
        if init is None or not p.plugin.descends(cls, *SCHEDULER_BASES):
            continue
        for where, given in _constructions(p, registration.name if registration is not None else None):
            refused = [name for name in given if not init.accepts(name) and not (init.var_positional and name in ("infer_engine", "max_turns") and init.var_keyword)]
            needed = [parameter.name for parameter in init.parameters if parameter.required and parameter.name not in given]
            if refused or needed:
                template = "{name}: {where} constructs it with ({given}); its __init__ {problem}; write `def __init__(self, infer_engine=None, max_turns=None, **kwargs)`"
                problem = f"does not accept {', '.join(refused)}" if refused else f"also needs {', '.join(needed)}"
                yield p.finding(
                    template, init.span, flags=["multi_turn_scheduler"], name=p.name_of(registration, cls), where=where, given=", ".join(given), problem=problem,
                    fix="def __init__(self, infer_engine=None, max_turns=None, **kwargs): super().__init__(infer_engine, max_turns, **kwargs)",
                )  # fmt: skip
                break


def _constructions(p: PluginCheck, name: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Who constructs the scheduler, with which keyword arguments."""
    users = [view for view in p.views if view.get("multi_turn_scheduler") == name or name is None]
    if not p.views or any(view.route == "swift rollout" for view in users):
        gym = any(view.route == "swift rollout" and view.get("use_gym_env") is True for view in users)
        yield "the rollout server", ("infer_engine", "max_turns", *(("use_gym_env", "gym_env") if gym else ()))
    version = numbers(p.version)
    if any(view.route in _TRAIN for view in users):
        more = (*(("tokenizer",) if version >= (3, 12) else ()), *(("template",) if version >= (4, 5) else ()))
        gym = version >= (4, 3) and any(view.route in _TRAIN and isinstance(view.get("gym_env"), str) for view in users)
        yield "the trainer", ("max_turns", *more, *(("gym_env",) if gym else ()))


@rule("PLG022", "scheduler-rebuilds-history", scope="plugin", severity="warning", consequence="wrong")
def rebuilds_history(p: PluginCheck) -> Iterator[Finding]:
    """A `step` that starts the next turn from new messages instead of adding to the old ones.

    ms-swift keeps the tokens of every turn and lays them over the assistant messages of the final conversation. When `step` throws the first turn away,
    its tokens have no message to stand in: they are trained on nowhere, or masks and log-probabilities no longer fit.

    In the log: nothing, or a mismatch of lengths at the first loss

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler verify --max_turns 2
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Verify(MultiTurnScheduler):
        def step(self, infer_request, response_choice, current_turn):
            draft = response_choice.message.content
            infer_request.messages = [{"role": "user", "content": f"Is this right? {draft}"}]
            return {"infer_request": infer_request}

    multi_turns["verify"] = Verify
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler verify --max_turns 2
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Verify(MultiTurnScheduler):
        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Is this right? Check it."})
            return {"infer_request": infer_request}

    multi_turns["verify"] = Verify
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rlhf_trainers/utils.py:replace_assistant_response_with_ids
    """
    for registration, cls in p.schedulers:
        step = _own(p, cls, "step")
        if step is None or not step.rebuilds or _own(p, cls, "run") is not None:
            continue
        tracked = "response_token_ids" in step.assigns or any("response_token_ids" in found.keys for found in step.returns)
        if not tracked:
            template = "{name}: step replaces the messages by a new list, so that the prompt of the next turn no longer holds this one and its tokens and loss mask fit no message; append to infer_request.messages, or return response_token_ids and response_loss_mask for what is kept"
            fix = "infer_request.messages.append({…})"
            yield p.finding(template, step.rebuilds[0], flags=["multi_turn_scheduler"], name=p.name_of(registration, cls), fix=fix)


@rule("PLG023", "scheduler-without-step", scope="plugin", consequence="wrong")
def scheduler_without_step(p: PluginCheck) -> Iterator[Finding]:
    """A scheduler without `step`, where nothing else replaces it.

    `MultiTurnScheduler.step` only raises. A scheduler needs `step`, or its own `run`, which the asynchronous engine of a rollout server alone calls.

    In the log: `NotImplementedError: Please implement the step method in your MultiTurnScheduler subclass`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler until_done --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class UntilDone(MultiTurnScheduler):
        def check_finished(self, infer_request, response_choice, current_turn):
            return "done" in response_choice.message.content

    multi_turns["until_done"] = UntilDone
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler until_done --max_turns 4
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class UntilDone(MultiTurnScheduler):
        def check_finished(self, infer_request, response_choice, current_turn):
            return "done" in response_choice.message.content

        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Go on."})
            return {"infer_request": infer_request}

    multi_turns["until_done"] = UntilDone
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.step
    Not shown on CPU: step is called after the first turn of a rollout
    """
    for registration, cls in p.schedulers:
        if _plain_base(p, cls) and _own(p, cls, "step") is None and _own(p, cls, "run") is None:
            template = "{name} has neither `step` nor `run`: the second turn raises NotImplementedError; write `def step(self, infer_request, response_choice, current_turn)`"
            fix = "def step(self, infer_request, response_choice, current_turn)"
            yield p.finding(template, cls.span, flags=["multi_turn_scheduler"], name=p.name_of(registration, cls), fix=fix)


@rule("PLG024", "scheduler-run-is-not-called", scope="plugin", consequence="wrong")
def run_is_not_called(p: PluginCheck) -> Iterator[Finding]:
    """A scheduler with its own `run`, in a job that never calls it.

    Only the asynchronous engine of a rollout server calls `run`. A trainer (colocated vLLM or transformers, and Megatron-Ray) and a synchronous server drive
    the turns themselves with `step` and `check_finished`.

    In the log: nothing; `NotImplementedError` at the second turn where there is no `step`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs accuracy --multi_turn_scheduler own_loop --max_turns 3 --use_vllm true --vllm_mode colocate --num_generations 2
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class OwnLoop(MultiTurnScheduler):
        async def run(self, infer_request, request_config, **kwargs):
            return await super().run(infer_request, request_config, **kwargs)

        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Go on."})
            return {"infer_request": infer_request}

    multi_turns["own_loop"] = OwnLoop
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler own_loop --max_turns 3
    ```
    ```python plugin.py
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class OwnLoop(MultiTurnScheduler):
        async def run(self, infer_request, request_config, **kwargs):
            return await super().run(infer_request, request_config, **kwargs)

        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "Go on."})
            return {"infer_request": infer_request}

    multi_turns["own_loop"] = OwnLoop
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._infer_single_or_multi_turn
    Not shown on CPU: rollouts begin after the model is loaded
    """
    for registration, cls in p.schedulers:
        run = _own(p, cls, "run")
        if run is None:
            continue
        name = registration.name if registration is not None else None
        for view in p.views:
            if view.get("multi_turn_scheduler") != name or name is None:
                continue
            why = _never_runs(view)
            if why:
                has_step = _own(p, cls, "step") is not None
                template = "{name} overrides run(), but {why}: only the asynchronous engine of `swift rollout` calls run(){missing}; use server mode (vllm_use_async_engine true, the default with a scheduler), or put the logic into step and check_finished"
                missing = "" if has_step else ", and without step() the second turn raises NotImplementedError"
                fix = "swift rollout … --multi_turn_scheduler, trainer with --vllm_mode server"
                flags = ["multi_turn_scheduler", "vllm_mode", "vllm_use_async_engine"]
                yield p.finding(template, run.span, flags=flags, name=p.name_of(registration, cls), why=why, missing=missing, fix=fix)
                break


def _never_runs(view: View) -> str:
    """Why this job surely never calls `run`; empty where it may."""
    if view.route == "swift rollout":
        return "--vllm_use_async_engine false makes the engine synchronous" if view.get("vllm_use_async_engine") is False else ""
    if view.route not in _TRAIN:
        return ""
    if view.job.ray is not None:
        return "Megatron-Ray drives the turns itself"
    mode, used = view.get("vllm_mode"), view.get("use_vllm")
    if mode is UNKNOWN or used is UNKNOWN:
        return ""
    if used is False:
        return "the trainer generates with transformers and drives the turns itself"
    return "with --vllm_mode colocate the trainer drives the turns itself" if mode == "colocate" else ""
