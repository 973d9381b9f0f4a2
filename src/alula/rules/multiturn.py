"""Multi-turn rollouts and gym environments, as far as one job shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.lazy import get_close_matches
from alula.swift.parse import UNKNOWN

from .beside import data_of, plugins_of
from .context import JobCheck, RunCheck, names
from .registry import RLHF, rule
from .rl import colocate, kind, server_mode, whole, words

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Plugin, PluginClass

_ALL = ("swift rlhf", "megatron rlhf", "swift rollout")
_GYM = ("gym_scheduler",)
# Columns that built-in schedulers and environments read from the row.
_NEEDS = {"math_tip_trick": ("solution",), "thinking_tips_scheduler": ("solution",)}
_ENV_NEEDS = {"math_env": ("problem", "solution")}


def _relevant(c: JobCheck) -> bool:
    """A job that can have turns at all: a rollout server, GRPO, or GKD."""
    return c.v.route == "swift rollout" or kind(c) in ("grpo", "gkd")


def _scheduler(c: JobCheck) -> str | None:
    value = c.v.get("multi_turn_scheduler")
    return value if isinstance(value, str) and value else None


def _class(c: JobCheck, name: str) -> tuple[Plugin, PluginClass] | None:
    return plugins_of(c.whole, c.v).target("multi_turns", name)


def _is_gym(c: JobCheck, name: str) -> bool:
    """The scheduler makes environments: `gym_scheduler`, or a plugin's own that descends from it."""
    if name in _GYM:
        return plugins_of(c.whole, c.v).find("multi_turns", name) is None
    found = _class(c, name)
    return found is not None and found[0].descends(found[1], "GYMScheduler")


@rule("MTS001", "unknown-scheduler", consequence="wrong", routes=_ALL)
def unknown_scheduler(c: JobCheck) -> Iterator[Finding]:
    """A multi-turn scheduler that neither ms-swift nor a plugin of this job registers.

    The plugin must be given to the job that names the scheduler: a rollout server reads its own `--external_plugins`, not the trainer's.

    In the log: `ValueError: Multi-turn scheduler 'tool_call' not found in multi_turns.`; on the trainer a bare `AssertionError`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tips --max_turns 3
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3
    ```

    Source: swift/pipelines/infer/rollout.py:get_rollout_engine_type, swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_scheduler
    Not shown on CPU: the name is looked up after the model is loaded
    """
    name, loaded = _scheduler(c), plugins_of(c.whole, c.v)
    if name is None or not _relevant(c) or not loaded.complete:
        return
    known = {*c.facts.registries["multi_turns"], *loaded.names("multi_turns")}
    if name in known:
        return
    close = get_close_matches(name, known, 1, 0.6)
    elsewhere = [view.route for view in c.whole.views if view is not c.v and name in plugins_of(c.whole, view).names("multi_turns")]
    if elsewhere:
        hint = f"; the plugin that registers it is given to `{elsewhere[0]}` only, and this job reads its own --external_plugins"
    elif loaded.plugins:
        hint = f"; {', '.join(plugin.file for plugin in loaded.plugins)} registers {names(sorted(loaded.names('multi_turns'))) or 'none'}"
    else:
        hint = f"; did you mean {close[0]}?" if close else "; no --external_plugins is given here"
    template = "multi-turn scheduler `{name}` does not exist: ms-swift {version} has {built_in}{hint}"
    fix = f"--multi_turn_scheduler {close[0]}" if close and not elsewhere else "--external_plugins <the file that registers it>"
    built_in = ", ".join(c.facts.registries["multi_turns"])
    flags = ["external_plugins"]
    yield c.finding(template, "multi_turn_scheduler", flags=flags, name=name, version=c.facts.version, built_in=built_in, hint=hint, fix=fix)


@rule("MTS002", "turns-without-limit", severity="warning", consequence="hangs", routes=_ALL)
def turns_without_limit(c: JobCheck) -> Iterator[Finding]:
    """A scheduler that goes on for ever, and no `max_turns`.

    Without `--max_turns` only `check_finished`, or the environment, ends a trajectory. A scheduler of its own `check_finished` that looks neither at the
    turn nor at `finish_reason` goes on until the context is full.

    In the log: nothing; rollouts take longer and longer

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env math_env
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env math_env --max_turns 4
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rollout/agent_loop.py:run_multi_turn
    """
    name = _scheduler(c)
    if name is None or not _relevant(c) or not (c.v.absent("max_turns") or c.v.get("max_turns") == 0):
        return
    if server_mode(c.v) and any(view.get("multi_turn_scheduler") == name for view in c.whole.servers):
        return  # the server drives the turns
    zero = " (0 means no limit)" if c.v.get("max_turns") == 0 else ""
    if _is_gym(c, name):
        why = "only the environment's `done` ends a trajectory"
    else:
        found = _class(c, name)
        check = found[0].method(found[1], "check_finished") if found is not None else None
        if check is None or check.mentions & {"max_turns", "finish_reason", "current_turn", "super"}:
            return
        turn = check.positional[2].name if len(check.positional) > 2 else ""
        if turn in check.mentions:
            return
        why = f"check_finished of {found[1].name if found is not None else name} looks neither at the turn nor at finish_reason"
    template = "{name} has no turn limit{zero}: {why}, and one that never comes fills the whole context; set --max_turns"
    place = "max_turns" if zero else "multi_turn_scheduler"
    yield c.finding(template, place, flags=["max_turns"], name=name, zero=zero, why=why, fix=c.set_flag("max_turns", "8"))


@rule("MTS003", "unknown-environment", consequence="wrong", routes=_ALL)
def unknown_environment(c: JobCheck) -> Iterator[Finding]:
    """A gym environment that neither ms-swift nor a plugin of this job registers.

    The name comes from the row's `env_config`, else from `--gym_env`. It is looked up when a trajectory begins.

    In the log: `ValueError: Environment 'sokoban' not found. Available: ['math_env']`

    Wrong:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env sokoban --max_turns 8
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env math_env --max_turns 8
    ```

    Source: swift/rollout/multi_turn.py:GYMScheduler._create_env
    Not shown on CPU: environments are made during a rollout
    """
    name, env, loaded = _scheduler(c), c.v.get("gym_env"), plugins_of(c.whole, c.v)
    if name is None or not isinstance(env, str) or not _relevant(c) or not loaded.complete or not _is_gym(c, name):
        return
    known = {*c.facts.registries["envs"], *loaded.names("envs")}
    if env not in known:
        close = get_close_matches(env, known, 1, 0.6)
        template = "gym environment `{env}` does not exist: this job knows {known}; register it with envs['{env}'] = … in a plugin given to this job{hint}"
        hint = f", or did you mean {close[0]}?" if close else ""
        fix = f"--gym_env {close[0]}" if close else "--external_plugins <the file that registers it>"
        yield c.finding(template, "gym_env", flags=["multi_turn_scheduler", "external_plugins"], env=env, known=", ".join(sorted(known)), hint=hint, fix=fix)


@rule("MTS004", "gym-without-environment", consequence="wrong", routes=_ALL)
def gym_without_environment(c: JobCheck) -> Iterator[Finding]:
    """The gym scheduler, and nothing that names an environment.

    Each row may name its environment in `env_config`; rows that do not get `--gym_env`.

    In the log: `ValueError: Environment 'None' not found.`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --multi_turn_scheduler gym_scheduler --use_gym_env true --max_turns 4 --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --multi_turn_scheduler gym_scheduler --use_gym_env true --max_turns 4 --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "go"}], "env_config": {"name": "math_env"}, "problem": "1 + 1 = ?", "solution": "2"}
    {"messages": [{"role": "user", "content": "go"}], "env_config": {"name": "math_env"}, "problem": "2 + 3 = ?", "solution": "5"}
    ```

    Source: swift/rollout/multi_turn.py:GYMScheduler._create_env
    Not shown on CPU: environments are made during a rollout
    """
    name = _scheduler(c)
    if name is None or not _relevant(c) or not _is_gym(c, name) or not c.v.absent("gym_env") or name not in _GYM:
        return
    rows = _rows_seen(c)
    data = data_of(rows) if rows is not None else None
    if data is None or data.columns is None:
        return
    loaded = plugins_of(c.whole, c.v)
    known = {*c.facts.registries["envs"], *loaded.names("envs")}
    for entry in data.entries:
        for row in entry.sample.rows if entry.sample is not None else ():
            config = row.values.get("env_config")
            env = config.get("name") if isinstance(config, dict) else None
            where = f"line {row.number} of {entry.name}" if row.number else f"a row of {entry.name}"
            if env is None:
                template = '{name} needs an environment: --gym_env is not set, and {where} has no env_config with a name; set --gym_env, or "env_config": {{"name": "…"}} in every row'
                yield c.finding(template, "multi_turn_scheduler", flags=["gym_env", "dataset"], name=name, where=where, fix=f"--gym_env {min(known, default='math_env')}")
                return
            if loaded.complete and env not in known:
                template = "{where} names the environment `{env}`, which this job does not know: it has {known}"
                yield c.finding(template, "multi_turn_scheduler", flags=["gym_env", "dataset"], where=where, env=env, known=", ".join(sorted(known)), fix="--external_plugins …")
                return


def _rows_seen(c: JobCheck) -> JobCheck | None:
    """The job whose rows this one's scheduler gets: itself, or the only trainer of a rollout server."""
    if c.v.route != "swift rollout":
        return c if not server_mode(c.v) else None
    trainers = [view for view in c.whole.of_route(*RLHF) if server_mode(view)]
    return c.whole.job(trainers[0]) if len(trainers) == 1 else None


@rule("MTS005", "gym-without-scheduler", consequence="wrong", routes=_ALL)
def gym_without_scheduler(c: JobCheck) -> Iterator[Finding]:
    """A gym environment without a scheduler that steps it.

    `use_gym_env` and `gym_env` only name the environment; `--multi_turn_scheduler gym_scheduler` runs it. Without a scheduler no trajectory has a
    `total_reward`. A rollout server without one reports no gym at all.

    In the log: `KeyError: 'total_reward'`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --gym_env math_env --num_generations 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 4 --num_generations 2
    ```

    Source: swift/rl_core/grpo_algorithm.py:score_completions, swift/pipelines/infer/rollout.py (get_engine_type)
    Not shown on CPU: rewards are counted after the first rollout
    """
    if not _relevant(c) or not c.v.absent("multi_turn_scheduler"):
        return
    env = c.v.get("gym_env")
    if c.v.get("use_gym_env") is not True and not isinstance(env, str):
        return
    if c.v.route != "swift rollout" and (server_mode(c.v) or c.v.get("use_vllm") is not True or kind(c) != "grpo"):
        return  # a server's scheduler may step it; without vLLM the gym is not read at all
    what = f"--gym_env {env}" if isinstance(env, str) else "--use_gym_env true"
    effect = "the server reports no gym, and the trainer gets no gym reward" if c.v.route == "swift rollout" else "no trajectory gets the total_reward that is read as its reward"
    template = "{what} without --multi_turn_scheduler: nothing steps the environment, and {effect}; add --multi_turn_scheduler gym_scheduler --max_turns N"
    place = "gym_env" if isinstance(env, str) else "use_gym_env"
    yield c.finding(template, place, flags=["multi_turn_scheduler", "max_turns"], what=what, effect=effect, fix=c.set_flag("multi_turn_scheduler", "gym_scheduler"))


@rule("MTS006", "gym-reward-needs-vllm", consequence="wrong", routes=("swift rlhf",), since="4.3")
def gym_reward_needs_vllm(c: JobCheck) -> Iterator[Finding]:
    """A gym's reward, and generation with transformers.

    The trainer reads `use_gym_env` only when it prepares vLLM. With the transformers engine the environment is stepped, and its reward is left out without
    a word.

    In the log: `reward: 0.0`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 4 --num_generations 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 4 --num_generations 2 --use_vllm true --vllm_mode colocate
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm
    Not shown on CPU: the arguments are accepted; the reward is 0
    """
    if kind(c) != "grpo" or c.v.get("use_vllm") is not False or c.v.get("use_gym_env") is not True:
        return
    others = words(c.v.get("reward_funcs")) or words(c.v.get("reward_model"))
    effect = "the other rewards count alone" if others else "every reward is 0"
    template = "the gym's reward is read with vLLM only, and --use_vllm is false: {effect}; use --use_vllm true --vllm_mode colocate (or server)"
    place = "use_gym_env" if c.v.use("use_gym_env") is not None else "gym_env"
    yield c.finding(template, place, flags=["use_vllm", "gym_env", "use_gym_env"], effect=effect, fix="--use_vllm true --vllm_mode colocate")


@rule("MTS007", "async-generation-with-turns", routes=("swift rlhf",))
def async_with_turns(c: JobCheck) -> Iterator[Finding]:
    """`async_generate` with a multi-turn scheduler on the trainer.

    Asynchronous generation hands over the results of the step before; several turns are not implemented for it.

    In the log: `NotImplementedError: Currently, async_generate is not supported with multi-turn functionality.`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.2 --vllm_server_port 8000 --async_generate true --multi_turn_scheduler math_tip_trick --max_turns 2 --num_generations 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.2 --vllm_server_port 8000 --multi_turn_scheduler math_tip_trick --max_turns 2 --num_generations 2
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_grpo
    """
    value = c.v.get("multi_turn_scheduler")
    if kind(c) == "grpo" and c.v.get("async_generate") is True and value is not UNKNOWN and value is not None:
        template = "--async_generate true is not supported with --multi_turn_scheduler {name}: set it to false, or leave the scheduler out"
        yield c.finding(template, "async_generate", flags=["multi_turn_scheduler"], name=value, fix=c.set_flag("async_generate", "false"))


@rule("MTS008", "turns-without-scheduler", severity="warning", consequence="wrong", routes=_ALL)
def turns_without_scheduler(c: JobCheck) -> Iterator[Finding]:
    """`max_turns` without a scheduler, or a limit that allows no second turn.

    `max_turns` limits a scheduler. Without one every rollout has a single turn. A limit of 1 ends each trajectory before the scheduler adds anything, and
    0 is no limit at all.

    In the log: `num_turns: 1.0`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --max_turns 4 --num_generations 2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --max_turns 4 --multi_turn_scheduler math_tip_trick --num_generations 2
    ```

    Source: swift/rollout/multi_turn.py:MultiTurnScheduler.run, swift/rollout/agent_loop.py:run_multi_turn
    """
    turns = whole(c.v.get("max_turns"))
    if turns is None or not _relevant(c):
        return
    name = _scheduler(c)
    if name is not None:
        if turns < 0 or (turns == 1 and _needs_second_turn(c, name)):
            template = "--max_turns {turns} ends every trajectory at its first turn, before {name} adds anything; set it to 2 or more"
            yield c.finding(template, "max_turns", flags=["multi_turn_scheduler"], turns=turns, name=name, fix=c.set_flag("max_turns", "4"))
    elif c.v.absent("multi_turn_scheduler") and not server_mode(c.v) and (c.v.route == "swift rollout" or colocate(c.v) or c.v.get("use_vllm") is False):
        template = "--max_turns {turns} has no effect: without --multi_turn_scheduler every rollout has one turn"
        known = "|".join(c.facts.registries["multi_turns"])
        yield c.finding(template, "max_turns", flags=["multi_turn_scheduler"], turns=turns, fix=f"--multi_turn_scheduler {known}, or remove --max_turns")


def _needs_second_turn(c: JobCheck, name: str) -> bool:
    """The scheduler surely does nothing at the first turn: it acts in `step` alone. One with its own hooks, as a gym's, scores even a single turn."""
    loaded = plugins_of(c.whole, c.v)
    if loaded.complete and loaded.find("multi_turns", name) is None:
        return name in _NEEDS
    found = loaded.target("multi_turns", name)
    if found is None or not found[0].descends(found[1], "MultiTurnScheduler"):
        return False
    return not any(found[0].method(found[1], hook) is not None for hook in ("run", "on_turn_end", "check_finished"))


@rule("MTS009", "scheduler-column-missing", consequence="wrong", routes=_ALL)
def scheduler_column_missing(c: JobCheck) -> Iterator[Finding]:
    """A built-in scheduler or environment that reads a column which the rows do not have.

    `math_tip_trick` and `thinking_tips_scheduler` read `solution`, the environment `math_env` reads `problem` and `solution`. A column `problem` in rows
    without `messages` is taken for the query and is gone.

    In the log: `KeyError: 'solution'`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --use_vllm true --vllm_mode colocate --multi_turn_scheduler math_tip_trick --max_turns 2 --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "gold": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "gold": "5"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --use_vllm true --vllm_mode colocate --multi_turn_scheduler math_tip_trick --max_turns 2 --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Source: swift/rollout/multi_turn.py:MathTipsScheduler.check_finished, swift/rollout/gym_env.py:SimpleMathEnv.reset
    Not shown on CPU: schedulers are called during a rollout
    """
    name = _scheduler(c)
    rows = _rows_seen(c) if name is not None and _relevant(c) else None
    data = data_of(rows) if rows is not None else None
    if name is None or rows is None or data is None or data.columns is None:
        return
    loaded = plugins_of(c.whole, c.v)
    needs: tuple[str, ...] = ()
    who = name
    if loaded.complete and loaded.find("multi_turns", name) is None:
        needs = _NEEDS.get(name, ())
    env = c.v.get("gym_env")
    if _is_gym(c, name) and isinstance(env, str) and "env_config" not in data.columns and loaded.find("envs", env) is None:
        needs, who = _ENV_NEEDS.get(env, ()), env
    missing = [column for column in needs if column not in data.columns]
    if not missing:
        return
    folded = [column for column in missing if any(column in entry.mapped.folded for entry in data.entries if entry.mapped is not None)]
    hint = f" (`{folded[0]}` is taken for the query; put the question into messages and keep `{folded[0]}` beside it)" if folded else ""
    everything = sorted({column for entry in data.entries if entry.sample is not None for column in entry.sample.columns})
    template = "{who} reads {missing} from the row, and the rows have {columns}{hint}"
    shown = " and ".join(f"`{column}`" for column in missing)
    fix = f"a column {missing[0]} in every row, or --columns '{{\"…\": \"{missing[0]}\"}}'"
    yield c.finding(template, "multi_turn_scheduler", flags=["dataset", "gym_env"], who=who, missing=shown, columns=names(everything), hint=hint, fix=fix)


@rule("MTS010", "split-trajectories-unsupported", consequence="wrong", scope="run", since="4.0")
def split_trajectories(whole_run: RunCheck) -> Iterator[Finding]:
    """A scheduler that makes several samples of one trajectory, with a trainer that cannot take them.

    `thinking_tips_scheduler` on a rollout server returns one sample for each turn. Megatron, and `padding_free`, expect one for each request.

    In the log: `NotImplementedError: Padding free mode is not supported for dynamic sample`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler thinking_tips_scheduler --max_turns 2 &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000 --vllm_server_pass_dataset true --padding_free true --attn_impl flash_attn --num_generations 2
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler thinking_tips_scheduler --max_turns 2 &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000 --vllm_server_pass_dataset true --num_generations 2
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._server_rollout, swift/megatron/trainers/rollout_mixin.py
    Not shown on CPU: the mismatch shows after the first rollout
    """
    servers = [view for view in whole_run.servers if view.get("multi_turn_scheduler") == "thinking_tips_scheduler"]
    if not servers:
        return
    for view in whole_run.of_route(*RLHF):
        c = whole_run.job(view)
        if not server_mode(view) or kind(c) != "grpo":
            continue
        if view.megatron or view.get("padding_free") is True:
            what = "Megatron" if view.megatron else "--padding_free true"
            template = "thinking_tips_scheduler on the server returns one sample for each turn, which {what} does not support; use another scheduler{other}"
            other = "" if view.megatron else ", or --padding_free false"
            place = None if view.megatron else "padding_free"
            token = servers[0].token("multi_turn_scheduler")
            yield c.finding(template, place, flags=["multi_turn_scheduler"], related=[(token, "on the server")], what=what, other=other, fix="a scheduler that returns one sample for each request")
