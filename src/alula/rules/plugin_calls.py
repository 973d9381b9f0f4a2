"""What the code of plugins calls: services without a timeout, blocking calls in coroutines, models of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .beside import local_file
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Call, Function, PluginClass
    from alula.swift.effective import View

    from .plugincheck import PluginCheck

_VERBS = ("get", "post", "put", "patch", "delete", "head", "options", "request")
_UNBOUNDED = {
    **{f"requests.{verb}": "requests waits for ever" for verb in _VERBS},
    **{f"requests.Session.{verb}": "requests waits for ever" for verb in _VERBS},
    **{f"requests.session.{verb}": "requests waits for ever" for verb in _VERBS},
    "urllib.request.urlopen": "urllib waits for ever",
    **{f"subprocess.{name}": "a program that does not end is waited for" for name in ("run", "call", "check_call", "check_output")},
}
_BLOCKING = frozenset(_UNBOUNDED) | {
    "time.sleep", *(f"httpx.{verb}" for verb in _VERBS), *(f"httpx.Client.{verb}" for verb in _VERBS),
    "openai.OpenAI.chat.completions.create", "openai.OpenAI.completions.create", "openai.OpenAI.responses.create", "openai.ChatCompletion.create", "os.system",
}  # fmt: skip
_LOOPS = ("asyncio.run", "asyncio.get_event_loop.run_until_complete", "asyncio.new_event_loop.run_until_complete")
_NO_MODEL = ("Tokenizer", "Processor", "Config", "FeatureExtractor")
_SCHEDULER_METHODS = ("run", "step", "check_finished", "on_trajectory_start", "on_turn_end")
_ENV_METHODS = ("reset", "step", "close")


def _parts(p: PluginCheck) -> Iterator[tuple[str, PluginClass, tuple[str, ...]]]:
    """What is in use: its name, its class, and the methods that ms-swift calls."""
    for registration, cls in p.rewards:
        yield p.name_of(registration, cls), cls, ("__call__",)
    for registration, cls in p.schedulers:
        yield p.name_of(registration, cls), cls, _SCHEDULER_METHODS
    for cls in p.environments:
        yield cls.name, cls, _ENV_METHODS


@rule("PLG008", "call-without-timeout", scope="plugin", severity="warning", consequence="hangs")
def call_without_timeout(p: PluginCheck) -> Iterator[Finding]:
    """A request or a program that a reward, scheduler or environment waits for without limit.

    All ranks wait for the slowest reward. One request that is never answered stops the run until the process group gives up, which ms-swift puts at
    5000 hours.

    In the log: nothing; the ranks that are done wait in a collective call

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs judged --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    import requests
    from swift.rewards import ORM, orms

    class Judged(ORM):
        def __call__(self, completions, **kwargs):
            return [requests.post("http://judge:9000", json={"text": c}).json()["score"] for c in completions]

    orms["judged"] = Judged
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs judged --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    import requests
    from swift.rewards import ORM, orms

    class Judged(ORM):
        def __call__(self, completions, **kwargs):
            return [requests.post("http://judge:9000", json={"text": c}, timeout=30).json()["score"] for c in completions]

    orms["judged"] = Judged
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    """
    for name, cls, methods in _parts(p):
        for function in p.reached(cls, *methods):
            for call in function.calls:
                why = _UNBOUNDED.get(call.name)
                bounded = call.keywords & {"timeout", "**"} or (call.name == "urllib.request.urlopen" and call.arguments >= 3)
                if why is None or bounded:
                    continue
                template = "{name} calls {call} without a timeout: {why}, and every rank waits with it; add timeout=30{tip}"
                looped = call.looped and not function.is_async and not call.name.startswith("subprocess")
                tip = ", and score in parallel with an async reward (AsyncORM): these requests go out one after another" if looped else ""
                yield p.finding(template, call.span, flags=["reward_funcs"], name=name, call=call.name, why=why, tip=tip, fix=f"{call.name}(…, timeout=30)")


@rule("PLG009", "blocking-call-in-coroutine", scope="plugin", severity="warning", consequence="waste")
def blocking_in_coroutine(p: PluginCheck) -> Iterator[Finding]:
    """A call that blocks inside a coroutine.

    Async rewards run together in one event loop, and a rollout server drives all its trajectories in one. A blocking call stops every one of them: tools
    that take a second make a batch of 64 trajectories take a minute a turn, and the server looks hung.

    In the log: nothing; the GPUs idle

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler searcher --max_turns 4
    ```
    ```python plugin.py
    import requests
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Searcher(MultiTurnScheduler):
        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "go on"})
            return {"infer_request": infer_request}

        async def on_turn_end(self, infer_request, response_choice, current_turn):
            hits = requests.get("http://search:8080", params={"q": "x"}, timeout=10).json()
            return {"done": not hits}

    multi_turns["searcher"] = Searcher
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler searcher --max_turns 4
    ```
    ```python plugin.py
    import asyncio
    import requests
    from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

    class Searcher(MultiTurnScheduler):
        def step(self, infer_request, response_choice, current_turn):
            infer_request.messages.append({"role": "user", "content": "go on"})
            return {"infer_request": infer_request}

        async def on_turn_end(self, infer_request, response_choice, current_turn):
            answer = await asyncio.to_thread(requests.get, "http://search:8080", params={"q": "x"}, timeout=10)
            return {"done": not answer.json()}

    multi_turns["searcher"] = Searcher
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    """
    for name, cls, methods in _parts(p):
        seen: set[int] = set()
        for start in p.reached(cls, *methods):
            for function, call in _blocked(p, cls, start, seen) if start.is_async else ():
                within = f" (through {function.name})" if function is not start else ""
                template = "{name}: {method} is a coroutine and calls {call}{within}, which blocks the event loop and with it every other trajectory; use `await asyncio.to_thread(…)` or an async client"
                fix = "await asyncio.sleep(…)" if call.name == "time.sleep" else f"await asyncio.to_thread({call.name}, …)"
                yield p.finding(template, call.span, flags=["multi_turn_scheduler"], name=name, method=start.name, call=call.name, within=within, fix=fix)


def _blocked(p: PluginCheck, cls: PluginClass, start: Function, seen: set[int]) -> Iterator[tuple[Function, Call]]:
    """Blocking calls that a coroutine makes itself or through plain functions of the file."""
    todo = [start]
    while todo:
        function = todo.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        for call in function.calls:
            if call.name in _BLOCKING and not call.awaited:
                yield function, call
            head, _, tail = call.name.partition(".")
            known = p.plugin.method(cls, tail) if head == "self" else p.plugin.functions.get(call.name)
            if known is not None and not known.is_async and not call.awaited:
                todo.append(known)


@rule("PLG010", "model-in-reward-under-zero3", scope="plugin", consequence="wrong")
def model_under_zero3(p: PluginCheck) -> Iterator[Finding]:
    """A transformers model that a reward loads itself while DeepSpeed ZeRO-3 trains.

    While a ZeRO-3 configuration is alive, `from_pretrained` cuts every new model's parameters over the ranks. Nobody gathers those of a model that
    DeepSpeed does not manage, so that its weights have size 0.

    In the log: `RuntimeError: 'weight' must be 2-D`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs near --deepspeed zero3 --num_generations 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms
    from transformers import AutoModel

    class Near(ORM):
        def __init__(self, args=None, **kwargs):
            super().__init__(args, **kwargs)
            self.model = AutoModel.from_pretrained("models/embedding")

        def __call__(self, completions, **kwargs):
            return [float(self.model.dtype.itemsize) for c in completions]

    orms["near"] = Near
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs near --deepspeed zero2 --num_generations 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms
    from transformers import AutoModel

    class Near(ORM):
        def __init__(self, args=None, **kwargs):
            super().__init__(args, **kwargs)
            self.model = AutoModel.from_pretrained("models/embedding")

        def __call__(self, completions, **kwargs):
            return [float(self.model.dtype.itemsize) for c in completions]

    orms["near"] = Near
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer._prepare_rewards; transformers/integrations/deepspeed.py:is_deepspeed_zero3_enabled
    Not shown on CPU: DeepSpeed partitions models only on devices
    """
    views = [view for view in p.views if _zero3(p, view)]
    if not views:
        return
    for registration, cls in p.rewards:
        for function in p.reached(cls, "__init__", "__call__"):
            for call in function.calls:
                if not _loads_model(call):
                    continue
                template = "{name} loads a model ({call}) while --deepspeed {stage} trains: ZeRO-3 partitions it too and its weights are empty; use --reward_model with --reward_model_plugin, a server, or ZeRO-2"
                flags = ["reward_funcs", "deepspeed"]
                fix = "--reward_model … --reward_model_plugin …, or serve the model and ask it over HTTP"
                yield p.finding(template, call.span, flags=flags, name=p.name_of(registration, cls), call=call.name, stage=views[0].get("deepspeed"), fix=fix)


def _zero3(p: PluginCheck, view: View) -> bool:
    """`--deepspeed` surely means ZeRO-3: by its name, or by what the file says."""
    value = view.get("deepspeed")
    if value is UNKNOWN or not isinstance(value, str):
        return False
    path = local_file(p.whole, value, view.job.file)
    if path is None:
        return value in ("zero3", "zero3_offload")
    try:
        made = json.loads(path.read_bytes())
        return bool(made["zero_optimization"]["stage"] == 3)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _loads_model(call: Call) -> bool:
    head, _, last = call.name.rpartition(".")
    if last == "from_pretrained" and head:
        return not head.rsplit(".", 1)[-1].endswith(_NO_MODEL)
    return call.name in ("sentence_transformers.SentenceTransformer", "sentence_transformers.CrossEncoder", "transformers.pipeline")


@rule("PLG011", "reward-on-fixed-device", scope="plugin", severity="warning", consequence="waste")
def fixed_device(p: PluginCheck) -> Iterator[Finding]:
    """A reward that puts its model on one fixed GPU, with several processes on the node.

    Every rank makes its own reward. With a fixed device number all of them load their model onto the same GPU; without a number, the rank's own is taken.

    In the log: `torch.OutOfMemoryError` on GPU 0

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs near --num_generations 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms
    from transformers import AutoModel

    class Near(ORM):
        def __init__(self, args=None, **kwargs):
            super().__init__(args, **kwargs)
            self.model = AutoModel.from_pretrained("models/embedding").cuda(0)

        def __call__(self, completions, **kwargs):
            return [float(self.model.dtype.itemsize) for c in completions]

    orms["near"] = Near
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs near --num_generations 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms
    from transformers import AutoModel

    class Near(ORM):
        def __init__(self, args=None, **kwargs):
            super().__init__(args, **kwargs)
            self.model = AutoModel.from_pretrained("models/embedding").cuda()

        def __call__(self, completions, **kwargs):
            return [float(self.model.dtype.itemsize) for c in completions]

    orms["near"] = Near
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments._init_device
    """
    ranks = max((view.place.local_world_size or 1 for view in p.views), default=1)
    if ranks < 2:
        return
    for registration, cls in p.rewards:
        for function in p.reached(cls, "__init__", "__call__"):
            for call in function.calls:
                if call.device is not None and any(_loads_model(other) for other in function.calls):
                    template = "{name} puts its model on {device}: the {ranks} processes of this node all load it there; leave the number out (`.cuda()`, `device_map=None`)"
                    yield p.finding(template, call.span, flags=["reward_funcs"], name=p.name_of(registration, cls), device=call.device, ranks=ranks, fix=".cuda()")


@rule("PLG012", "event-loop-in-coroutine", scope="plugin", consequence="wrong")
def event_loop_in_coroutine(p: PluginCheck) -> Iterator[Finding]:
    """`asyncio.run` or `run_until_complete` inside a coroutine.

    Coroutines of rewards, schedulers and environments already run in an event loop, and a second one cannot be started in the same thread.

    In the log: `RuntimeError: asyncio.run() cannot be called from a running event loop`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs judged --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    import asyncio
    from swift.rewards import AsyncORM, orms

    class Judged(AsyncORM):
        async def score(self, text):
            await asyncio.sleep(0)
            return float(len(text) < 80)

        async def __call__(self, completions, **kwargs):
            return [asyncio.run(self.score(c)) for c in completions]

    orms["judged"] = Judged
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs judged --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    import asyncio
    from swift.rewards import AsyncORM, orms

    class Judged(AsyncORM):
        async def score(self, text):
            await asyncio.sleep(0)
            return float(len(text) < 80)

        async def __call__(self, completions, **kwargs):
            return await asyncio.gather(*(self.score(c) for c in completions))

    orms["judged"] = Judged
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func, swift/rollout/agent_loop.py
    Not shown on CPU: rewards are called after the first rollout
    """
    for name, cls, methods in _parts(p):
        for function in p.reached(cls, *methods):
            for call in function.calls if function.is_async else ():
                if call.name in _LOOPS or call.name.endswith(".run_until_complete"):
                    template = "{name}: {method} is a coroutine and calls {call}: an event loop is running already; await it instead"
                    yield p.finding(template, call.span, flags=["external_plugins"], name=name, method=function.name, call=call.name, fix="await …, or await asyncio.gather(…)")


@rule("PLG013", "loop-without-end", scope="plugin", consequence="hangs")
def loop_without_end(p: PluginCheck) -> Iterator[Finding]:
    """A `while True:` that nothing leaves, in code that ms-swift calls.

    All ranks wait for the slowest reward or trajectory in a collective call, so that one endless loop stops them all.

    In the log: nothing

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs retried --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Retried(ORM):
        def __call__(self, completions, **kwargs):
            scores = []
            while True:
                scores.append(1.0)
            return scores

    orms["retried"] = Retried
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --external_plugins plugin.py --reward_funcs retried --num_generations 2 --per_device_train_batch_size 2
    ```
    ```python plugin.py
    from swift.rewards import ORM, orms

    class Retried(ORM):
        def __call__(self, completions, **kwargs):
            scores = []
            while True:
                scores.append(1.0)
                if len(scores) == len(completions):
                    break
            return scores

    orms["retried"] = Retried
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: rewards are called after the first rollout
    """
    for name, cls, methods in _parts(p):
        for function in p.reached(cls, "__init__", *methods):
            for span in function.endless:
                template = "{name}: this loop in {method} has no way out: the rank never comes back, and all others wait for it; leave it after some tries"
                yield p.finding(template, span, flags=["external_plugins"], name=name, method=function.name, fix="for attempt in range(3): …")
