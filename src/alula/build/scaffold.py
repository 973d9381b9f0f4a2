"""Small working plugins that a built run needs: rewards, a scheduler, an environment. They are written beside the script for the person to change.

They follow the contracts of ms-swift 4.x (`rewards/orm.py`, `rollout/multi_turn.py`, `rollout/gym_env.py`).
"""

from __future__ import annotations

ASYNC_REWARD = '''"""An asynchronous reward: asks a judge over HTTP, with a time limit and a fallback, so that one slow answer never stops the ranks."""

import asyncio
import json
import os
import urllib.request

from swift.rewards import AsyncORM, orms

URL = os.environ.get("JUDGE_URL", "http://127.0.0.1:9000/score")
TIMEOUT = 20  # seconds for one completion


def ask(completion):
    body = json.dumps({"completion": completion}).encode()
    request = urllib.request.Request(URL, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return float(json.load(answer)["score"])


class JudgeReward(AsyncORM):
    async def __call__(self, completions, **kwargs):
        async def score(completion):
            try:
                return await asyncio.wait_for(asyncio.to_thread(ask, completion), TIMEOUT + 5)
            except Exception:  # whatever the judge does: one completion without a score must not stop the ranks
                return None

        return list(await asyncio.gather(*[score(completion) for completion in completions]))


orms["judge_reward"] = JudgeReward
'''

SCHEDULER = '''"""A multi-turn scheduler: asks once more when the answer has no box, for at most max_turns turns."""

from swift.rollout import MultiTurnScheduler, multi_turns


class AskAgain(MultiTurnScheduler):
    def check_finished(self, infer_request, response_choice, current_turn):
        if "\\\\boxed" in (response_choice.message.content or ""):
            return True
        return super().check_finished(infer_request, response_choice, current_turn)

    def step(self, infer_request, response_choice, current_turn):
        infer_request.messages.append({"role": "user", "content": "Give the final answer in \\\\boxed{}."})
        return {"infer_request": infer_request}


multi_turns["ask_again"] = AskAgain
'''

ENVIRONMENT = '''"""A gym environment: the model guesses a number. Rows need `env_config`, such as {"name": "guess_number", "target": 7}."""

import re

from swift.rollout.gym_env import Env, envs


class GuessNumber(Env):
    async def reset(self, config):
        self.target = int((self.env_config or {}).get("target", 7))
        return "Guess a whole number between 1 and 10.", {}, "Answer with one number."

    async def step(self, messages):
        numbers = re.findall(r"\\d+", messages[-1]["content"])
        guess = int(numbers[-1]) if numbers else 0
        done = guess == self.target
        observation = "Right." if done else "Higher." if guess < self.target else "Lower."
        return observation, 1.0 if done else 0.0, done, {}

    async def close(self):
        pass


envs["guess_number"] = GuessNumber
'''

FILES = {"reward_plugin.py": ASYNC_REWARD, "scheduler_plugin.py": SCHEDULER, "env_plugin.py": ENVIRONMENT}
