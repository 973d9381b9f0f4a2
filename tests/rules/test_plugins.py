"""Plugin files: imports, rewards, schedulers, environments, and what their code calls."""

from __future__ import annotations

import pytest

from .conftest import Checker

GRPO = (
    "NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_generations 2 --external_plugins plugin.py --reward_funcs {name}"
)
ROLLOUT = "swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler {name} --max_turns 3"
GYM = "swift rollout --model Qwen/Qwen3-8B --external_plugins plugin.py --multi_turn_scheduler gym_scheduler --gym_env {name} --max_turns 3"
HEAD = "import asyncio, requests, subprocess, time\nfrom swift.rewards import ORM, AsyncORM, orms, rm_plugins\n"
TURNS = "import asyncio, requests\nfrom swift.rollout.multi_turn import MultiTurnScheduler, GYMScheduler, multi_turns\nfrom swift.infer_engine import RolloutInferRequest\n"
ENVS = "from swift.rollout.gym_env import Env, envs\n"


def reward(body: str, base: str = "ORM", init: str = "", signature: str = "completions, **kwargs", prefix: str = "") -> str:
    lines = "\n".join(f"        {line}" for line in body.strip("\n").splitlines())
    return f"{HEAD}class R({base}):\n{init}    {prefix}def __call__(self, {signature}):\n{lines}\n\norms['r'] = R\n"


def scheduler(*methods: str, base: str = "MultiTurnScheduler") -> str:
    body = "\n".join("    " + line for method in methods for line in method.strip("\n").splitlines())
    return f"{TURNS}class S({base}):\n{body}\n\nmulti_turns['s'] = S\n"


STEP = """
def step(self, infer_request, response_choice, current_turn):
    infer_request.messages.append({'role': 'user', 'content': 'go on'})
    return {'infer_request': infer_request}
"""
GOOD_ENV = """class E(Env):
    async def reset(self, config):
        return 'hello', {}, ''
    async def step(self, action):
        return '', 1.0, True, {}
    async def close(self):
        pass

envs['e'] = E
"""

REWARD_HITS = [
    ("PLG001", reward("return [1.0 for c in completions") ),
    ("PLG002", reward("return [1.0 for c in completions]").replace("swift.rewards", "swift.plugin")),
    ("PLG002", "from swift.llm import InferRequest\n" + reward("return [1.0 for c in completions]")),
    ("PLG003", f"{HEAD}def r(completions, **kwargs):\n    return [1.0 for c in completions]\norms['r'] = r\n"),
    ("PLG003", f"{HEAD}orms['r'] = lambda completions, **kwargs: [1.0 for c in completions]\n"),
    ("PLG003", reward("return [1.0 for c in completions]").replace("orms['r'] = R", "orms['r'] = R()")),
    ("PLG004", reward("return [1.0 for c in completions]", init="    def __init__(self):\n        self.n = 1\n")),
    ("PLG004", reward("return [1.0 for c in completions]", init="    def __init__(self, args, tokenizer):\n        self.n = 1\n")),
    ("PLG005", reward("return [1.0 for c in completions]", signature="completions")),
    ("PLG005", reward("return []", signature="**kwargs")),
    ("PLG005", f"{HEAD}class R(ORM):\n    pass\norms['r'] = R\n"),
    ("PLG006", reward("return 1.0")),
    ("PLG006", reward("total = 0\nfor c in completions:\n    total += len(c)\nreturn total / len(completions)")),
    ("PLG006", reward("return {'score': 1.0}")),
    ("PLG006", reward("print(completions)")),
    ("PLG006", reward("try:\n    return [1.0 for c in completions]\nexcept ValueError:\n    return 0.0")),
    ("PLG007", reward("return [max(len(c) for c in completions)]")),
    ("PLG007", reward("return [1.0 for c in completions if c]")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if c:\n        out.append(1.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if not c:\n        continue\n    out.append(1.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    try:\n        out.append(float(c))\n    except ValueError:\n        pass\nreturn out")),
    ("PLG008", reward("return [requests.post('http://j', json={'t': c}).json()['s'] for c in completions]")),
    ("PLG008", reward("return [self.one(c) for c in completions]", init="    def one(self, c):\n        return subprocess.run(['judge', c]).returncode\n")),
    ("PLG008", reward("return [self.s.get('http://j').json() for c in completions]",
                      init="    def __init__(self, args=None, **kwargs):\n        self.s = requests.Session()\n")),
    ("PLG009", reward("time.sleep(1)\nreturn [1.0 for c in completions]", base="AsyncORM", prefix="async ")),
    ("PLG009", reward("return [self.one(c) for c in completions]", base="AsyncORM", prefix="async ",
                      init="    def one(self, c):\n        return requests.get('http://j', timeout=3).json()\n")),
    ("PLG012", reward("return [asyncio.run(self.one(c)) for c in completions]", base="AsyncORM", prefix="async ")),
    ("PLG013", reward("while True:\n    pass\nreturn [1.0 for c in completions]")),
    ("PLG015", reward("return [1.0 for c in completions]") + "class Q(ORM):\n    def __call__(self, completions, **kwargs):\n        return [0.0 for c in completions]\norms['r'] = Q\n"),
]  # fmt: skip

REWARD_MISSES = [
    ("PLG001", reward("return [1.0 for c in completions]")),
    ("PLG002", "try:\n    from swift.rewards import ORM, orms\nexcept ImportError:\n    from swift.plugin import ORM, orms\n"
               + reward("return [1.0 for c in completions]")),
    ("PLG002", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from swift.llm import InferRequest\n" + reward("return [1.0 for c in completions]")),
    ("PLG003", f"{HEAD}def make(args=None):\n    return lambda completions, **kwargs: [1.0 for c in completions]\norms['r'] = make\n"),
    ("PLG004", reward("return [1.0 for c in completions]", init="    def __init__(self, args=None, **kwargs):\n        self.n = 1\n")),
    ("PLG004", reward("return [1.0 for c in completions]", init="    def __init__(self, **kwargs):\n        self.n = 1\n")),
    ("PLG005", reward("return [1.0 for c in completions]", signature="answers, target=None, *rest, **kw")),
    ("PLG006", reward("return self.score(completions)")),
    ("PLG006", reward("return sum(self.parts(completions)) / 2")),
    ("PLG006", reward("scores = self.model(completions)\nreturn scores")),
    ("PLG006", reward("for c in completions:\n    yield 1.0")),
    ("PLG006", reward("return sum(self.tensors)")),
    ("PLG007", reward("return [1.0] * len(completions)")),
    ("PLG007", reward("if not completions:\n    return [0.0]\nreturn [1.0 for c in completions]")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if c:\n        out.append(1.0)\n    else:\n        out.append(None)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if not c:\n        out.append(None)\n        continue\n    out.append(1.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    try:\n        out.append(float(c))\n    except ValueError:\n        out.append(0.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if c == 'a':\n        out.append(1.0)\n    elif c != 'a':\n        out.append(0.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor c in completions:\n    if c:\n        out.append(1.0)\nwhile len(out) < len(completions):\n    out.append(0.0)\nreturn out")),
    ("PLG007", reward("out = []\nfor x in self.items:\n    if x:\n        out.append(1.0)\nreturn out")),
    ("PLG008", reward("return [requests.post('http://j', timeout=5).json()['s'] for c in completions]")),
    ("PLG008", reward("return [requests.post('http://j', **self.options).json()['s'] for c in completions]")),
    ("PLG009", reward("await asyncio.sleep(1)\nreturn [1.0 for c in completions]", base="AsyncORM", prefix="async ")),
    ("PLG009", reward("await asyncio.to_thread(requests.get, 'http://j', timeout=3)\nreturn [1.0 for c in completions]", base="AsyncORM", prefix="async ")),
    ("PLG009", reward("time.sleep(1)\nreturn [1.0 for c in completions]")),
    ("PLG012", reward("return asyncio.run(self.all(completions))")),
    ("PLG013", reward("while True:\n    if self.ready():\n        break\nreturn [1.0 for c in completions]")),
    ("PLG013", reward("while True:\n    for c in completions:\n        break\n    return [1.0 for c in completions]")),
    ("PLG014", reward("return [1.0 for c in completions]")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), REWARD_HITS)
def test_reward_found(check: Checker, code: str, text: str) -> None:
    found = check(GRPO.format(name="r"), {"plugin.py": text})
    assert code in {f.code for f in found}, [f.message for f in found]
    place = next(f.span for f in found if f.code == code)
    assert place is not None
    assert place.file == "plugin.py"


@pytest.mark.parametrize(("code", "text"), REWARD_MISSES)
def test_reward_silent(check: Checker, code: str, text: str) -> None:
    found = check(GRPO.format(name="r"), {"plugin.py": text})
    assert code not in {f.code for f in found}, [f.message for f in found if f.code == code]


TURN_HITS = [
    ("PLG020", scheduler("async def step(self, infer_request, response_choice, current_turn):\n    return {'infer_request': infer_request}")),
    ("PLG020", scheduler("def step(self, infer_request, response_choice):\n    return {'infer_request': infer_request}")),
    ("PLG020", scheduler("def step(self, infer_request, response_choice, current_turn):\n    return infer_request")),
    ("PLG020", scheduler("def step(self, infer_request, response_choice, current_turn):\n    return infer_request, {}")),
    ("PLG020", scheduler("def step(self, infer_request, response_choice, current_turn):\n    return {'request': infer_request}")),
    ("PLG020", scheduler("async def check_finished(self, infer_request, response_choice, current_turn):\n    return False", STEP)),
    ("PLG020", scheduler("def on_turn_end(self, infer_request, response_choice, current_turn):\n    return {'done': True}", STEP)),
    ("PLG021", scheduler("def __init__(self):\n    super().__init__()", STEP)),
    ("PLG021", scheduler("def __init__(self, infer_engine, max_turns, tools):\n    self.tools = tools", STEP)),
    ("PLG022", scheduler("def step(self, infer_request, response_choice, current_turn):\n    infer_request.messages = [{'role': 'user', 'content': 'x'}]\n"
                         "    return {'infer_request': infer_request}")),
    ("PLG022", scheduler("def step(self, infer_request, response_choice, current_turn):\n"
                         "    return {'infer_request': RolloutInferRequest(messages=[{'role': 'user', 'content': 'x'}], uuid='1')}")),
    ("PLG023", scheduler("def check_finished(self, infer_request, response_choice, current_turn):\n    return True")),
    ("PLG009", scheduler("async def on_turn_end(self, infer_request, response_choice, current_turn):\n    requests.get('http://t', timeout=3)\n    return {}", STEP)),
]  # fmt: skip

TURN_MISSES = [
    ("PLG020", scheduler(STEP)),
    ("PLG020", scheduler("async def run(self, infer_request, request_config, **kwargs):\n    return await self.loop()", "async def step(self, x):\n    return x")),
    ("PLG020", scheduler("def step(self, infer_request, response_choice, current_turn, **kwargs):\n    out = self.next(infer_request)\n    return out")),
    ("PLG021", scheduler("def __init__(self, *args, **kwargs):\n    super().__init__(*args, **kwargs)", STEP)),
    ("PLG021", scheduler("def __init__(self, infer_engine=None, max_turns=None):\n    super().__init__(infer_engine, max_turns)", STEP)),
    ("PLG022", scheduler("def step(self, infer_request, response_choice, current_turn):\n    infer_request.messages = [*infer_request.messages, {'role': 'user', 'content': 'x'}]\n"
                         "    return {'infer_request': infer_request}")),
    ("PLG022", scheduler("def step(self, infer_request, response_choice, current_turn):\n    infer_request.messages = [{'role': 'user', 'content': 'x'}]\n"
                         "    return {'infer_request': infer_request, 'response_token_ids': [1], 'response_loss_mask': [0]}")),
    ("PLG023", scheduler(STEP)),
    ("PLG023", scheduler("def check_finished(self, infer_request, response_choice, current_turn):\n    return True", base="GYMScheduler")),
    ("PLG023", scheduler("async def run(self, infer_request, request_config, **kwargs):\n    return await self.loop()")),
    ("PLG024", scheduler("async def run(self, infer_request, request_config, **kwargs):\n    return await self.loop()")),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), TURN_HITS)
def test_scheduler_found(check: Checker, code: str, text: str) -> None:
    found = check(ROLLOUT.format(name="s"), {"plugin.py": text})
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "text"), TURN_MISSES)
def test_scheduler_silent(check: Checker, code: str, text: str) -> None:
    found = check(ROLLOUT.format(name="s"), {"plugin.py": text})
    assert code not in {f.code for f in found}, [f.message for f in found if f.code == code]


RUN = scheduler("async def run(self, infer_request, request_config, **kwargs):\n    return await self.loop()")


@pytest.mark.parametrize(
    ("script", "fires"),
    [
        (f"{ROLLOUT.format(name='s')} --vllm_use_async_engine false", True),
        (ROLLOUT.format(name="s"), False),
        (f"{GRPO.format(name='accuracy')} --multi_turn_scheduler s --max_turns 2 --use_vllm true --vllm_mode colocate", True),
        (f"{GRPO.format(name='accuracy')} --multi_turn_scheduler s --max_turns 2 --use_vllm false", True),
        (f"{GRPO.format(name='accuracy')} --multi_turn_scheduler s --max_turns 2 --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.1", False),
        (f"{GRPO.format(name='accuracy')} --multi_turn_scheduler s --max_turns 2 --use_vllm true --vllm_mode $(get_mode)", False),
    ],
)
def test_run_is_for_the_async_server(check: Checker, script: str, fires: bool) -> None:
    assert ("PLG024" in {f.code for f in check(script, {"plugin.py": RUN})}) is fires


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        (ENVS + GOOD_ENV, False),
        (ENVS + GOOD_ENV.replace("async def reset", "def reset"), True),
        (ENVS + GOOD_ENV.replace("'hello', {}, ''", "'hello', {}"), True),
        (ENVS + GOOD_ENV.replace("'', 1.0, True, {}", "'', 1.0, True"), True),
        (ENVS + GOOD_ENV.replace("    async def close(self):\n        pass\n", ""), True),
        (ENVS + GOOD_ENV.replace("async def reset", "def __init__(self, a, b):\n        pass\n    async def reset"), True),
        (ENVS + GOOD_ENV.replace("return 'hello', {}, ''", "return self.first()"), False),
        (ENVS + "class E(Env):\n    pass\n\nenvs['e'] = E\n", True),
    ],
)
def test_environments(check: Checker, text: str, fires: bool) -> None:
    assert ("PLG030" in {f.code for f in check(GYM.format(name="e"), {"plugin.py": text})}) is fires


def test_a_stub_environment_alone_is_nobodys_fault(check: Checker) -> None:
    assert not check(ENVS + "class E(Env):\n    pass\n\nenvs['e'] = E\n", name="plugin.py")


@pytest.mark.parametrize(
    ("text", "fires"),
    [
        ("class J:\n    def __init__(self, model, template):\n        pass\n    def __call__(self, inputs, **kwargs):\n        return []\n", False),
        ("class J:\n    def __init__(self, model):\n        pass\n    def __call__(self, inputs, **kwargs):\n        return []\n", True),
        ("class J:\n    def __init__(self, model, template, key):\n        pass\n    def __call__(self, inputs, **kwargs):\n        return []\n", True),
        ("class J:\n    def __init__(self, model, template):\n        pass\n    def __call__(self, rows, **kwargs):\n        return []\n", False),
        ("class J:\n    def __init__(self, model, template):\n        pass\n    def __call__(self, inputs):\n        return []\n", True),
    ],
)
def test_reward_model_plugins(check: Checker, text: str, fires: bool) -> None:
    script = GRPO.format(name="accuracy") + " --reward_model Qwen/Qwen3-4B --reward_model_plugin j"
    assert ("PLG040" in {f.code for f in check(script, {"plugin.py": f"{HEAD}{text}\nrm_plugins['j'] = J\n"})}) is fires


def test_only_what_a_run_uses_is_judged(check: Checker) -> None:
    text = reward("return 1.0") + "class Q(ORM):\n    def __call__(self, completions, **kwargs):\n        return [0.0 for c in completions]\norms['q'] = Q\n"
    assert "PLG006" not in {f.code for f in check(GRPO.format(name="q"), {"plugin.py": text})}
    assert "PLG006" in {f.code for f in check(GRPO.format(name="r"), {"plugin.py": text})}
    assert "PLG006" in {f.code for f in check(text, name="plugin.py")}


@pytest.mark.parametrize(("stage", "fires"), [("zero3", True), ("zero3_offload", True), ("zero2", False), ("ds.json", True), ("$(stage)", False)])
def test_models_under_zero3(check: Checker, stage: str, fires: bool) -> None:
    init = "    def __init__(self, args=None, **kwargs):\n        from transformers import AutoModel\n        self.m = AutoModel.from_pretrained('e')\n"
    files = {"plugin.py": reward("return [1.0 for c in completions]", init=init), "ds.json": '{"zero_optimization": {"stage": 3}}'}
    assert ("PLG010" in {f.code for f in check(f"{GRPO.format(name='r')} --deepspeed {stage}", files)}) is fires


def test_a_tokenizer_under_zero3_is_fine(check: Checker) -> None:
    init = "    def __init__(self, args=None, **kwargs):\n        from transformers import AutoTokenizer\n        self.t = AutoTokenizer.from_pretrained('e')\n"
    files = {"plugin.py": reward("return [1.0 for c in completions]", init=init)}
    assert "PLG010" not in {f.code for f in check(f"{GRPO.format(name='r')} --deepspeed zero3", files)}


@pytest.mark.parametrize(("device", "ranks", "fires"), [(".cuda(0)", 2, True), (".to('cuda:0')", 2, True), (".cuda()", 2, False), (".cuda(0)", 1, False)])
def test_fixed_devices(check: Checker, device: str, ranks: int, fires: bool) -> None:
    init = f"    def __init__(self, args=None, **kwargs):\n        from transformers import AutoModel\n        self.m = AutoModel.from_pretrained('e'){device}\n"
    script = GRPO.format(name="r").replace("NPROC_PER_NODE=2", f"NPROC_PER_NODE={ranks}")
    assert ("PLG011" in {f.code for f in check(script, {"plugin.py": reward('return [1.0 for c in completions]', init=init)})}) is fires


def test_comments_say_how_a_plugin_is_used(check: Checker) -> None:
    init = "    def __init__(self, args=None, **kwargs):\n        from transformers import AutoModel\n        self.m = AutoModel.from_pretrained('e')\n"
    text = reward("return [1.0 for c in completions]", init=init)
    assert "PLG010" not in {f.code for f in check(text, name="plugin.py")}
    assert "PLG010" in {f.code for f in check(text + "# launched with: --reward_funcs r --deepspeed zero3\n", name="plugin.py")}
    command = "# swift rollout --model M --external_plugins plugin.py --multi_turn_scheduler s --vllm_use_async_engine false\n"
    assert {"PLG024", "ROL104"} <= {f.code for f in check(command + RUN, name="plugin.py")}


def test_versions(check: Checker) -> None:
    old = reward("return [1.0 for c in completions]", init="    def __init__(self):\n        pass\n").replace("swift.rewards", "swift.plugin")
    assert not {"PLG002", "PLG004"} & {f.code for f in check(GRPO.format(name="r"), {"plugin.py": old}, version="3.12.6")}
    assert {"PLG002", "PLG004"} <= {f.code for f in check(GRPO.format(name="r"), {"plugin.py": old}, version="4.0.4")}
    new = reward("return [1.0 for c in completions]")
    assert "PLG002" in {f.code for f in check(GRPO.format(name="r"), {"plugin.py": new}, version="3.12.6")}
    ray = "from swift.ray import RayHelper\n" + new
    assert "PLG002" in {f.code for f in check(GRPO.format(name="r"), {"plugin.py": ray}, version="4.3.2")}
    assert "PLG002" not in {f.code for f in check(GRPO.format(name="r"), {"plugin.py": ray}, version="4.2.3")}


def test_never_registered(check: Checker) -> None:
    text = f"{HEAD}class R(ORM):\n    def __call__(self, completions, **kwargs):\n        return [1.0 for c in completions]\n"
    assert "PLG014" in {f.code for f in check(text, name="plugin.py")}
    assert "PLG014" not in {f.code for f in check(text + "register_all(orms)\n", name="plugin.py")}
