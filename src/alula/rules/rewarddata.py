"""Rewards against the rows: the columns that they need, columns that get in their way, values that they cannot read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from alula.run.lazy import get_close_matches
from alula.swift.columns import REWARD_ALWAYS, REWARD_MEDIA, reward_columns

from .beside import Data, Entry, RowsCheck, at_row, data_of, plugins_of
from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import kind, words

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.plugin import Parameter, Plugin, PluginClass
    from alula.run.source import Token

    from .beside import Loaded

_BUILT_IN_NEEDS = {"accuracy": ("solution",), "cosine": ("solution",), "toolbench": ("solution",)}
_READS_TEXT = ("accuracy", "cosine", "toolbench")
_ALWAYS = REWARD_ALWAYS | REWARD_MEDIA | {"dataset", "trajectory_inputs"}


def _only_reward(loaded: Loaded) -> tuple[Plugin, PluginClass] | None:
    """The one reward class of plugins that register none (RWD001 says so): surely the one that was meant."""
    if any(entry.registry == "orms" for plugin in loaded.plugins for entry in plugin.registrations):
        return None
    classes = [(plugin, cls) for plugin in loaded.plugins for cls in plugin.classes.values() if plugin.descends(cls, "ORM", "AsyncORM")]
    return classes[0] if len(classes) == 1 else None


def _functions(c: JobCheck) -> Iterator[tuple[Token, str | None, tuple[Parameter, ...]]]:
    """The reward functions of a GRPO job whose signature is known: (word, first positional parameter, parameters given by name)."""
    use = c.v.use("reward_funcs")
    if kind(c) != "grpo" or use is None or use.maybe:
        return
    loaded = plugins_of(c.whole, c.v)
    for token in use.values:
        if not token.known:
            continue
        found = loaded.target("orms", token.text) or _only_reward(loaded)
        if found is not None:
            call = found[0].method(found[1], "__call__")
            if call is not None and call.positional:
                yield token, call.positional[0].name, call.parameters[1:]
        elif loaded.complete and loaded.find("orms", token.text) is None and token.text in c.facts.registries["orms"]:
            from alula.run.plugin import Parameter

            yield token, "completions", tuple(Parameter(name, True) for name in _BUILT_IN_NEEDS.get(token.text, ()))


def _plain_data(c: JobCheck) -> Data | None:
    """The job's data, where all of it is here and mapped the usual way."""
    data = data_of(c)
    if data is None or not data.complete or not data.keeps_all:
        return None
    return None if any(plugin.registers_data for plugin in plugins_of(c.whole, c.v).plugins) else data


def _available(data: Data) -> frozenset[str]:
    return frozenset().union(*(reward_columns(entry.mapped) for entry in data.entries if entry.mapped is not None))


@rule("RWD020", "reward-column-missing", consequence="wrong", routes=RLHF)
def reward_column_missing(c: JobCheck) -> Iterator[Finding]:
    """A reward needs a column that the rows do not have.

    A reward gets the columns of the data by name, exactly as they are called after `--columns` and the automatic mapping. `accuracy`, `cosine` and
    `toolbench` need `solution`. The assistant's turn in `messages` is taken out before the rollout and given to no reward; a column that ms-swift reads as
    the response (`answer`, `output`, `target` …, in rows without `messages`) goes the same way, except `solution`.

    In the log: `TypeError: MathAccuracy.__call__() missing 1 required positional argument: 'solution'`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func, swift/rl_core/data.py:OnPolicySample.to_reward_row
    Not shown on CPU: rewards are called after the first rollout
    """
    data = _plain_data(c)
    if data is None:
        return
    available = _available(data)
    here = sorted({column for entry in data.entries if entry.sample is not None for column in entry.sample.columns})
    for token, _, given in _functions(c):
        missing = [p.name for p in given if p.required and p.name not in available and p.name not in _ALWAYS]
        if not missing:
            continue
        template = "reward `{name}` needs {missing}, and no row has it{many}: the columns are {columns}{hint}"
        yield c.finding(
            template, token, flags=["reward_funcs", "dataset", "columns"], related=[("dataset", f"columns {names(here, 8)}")], name=token.text,
            missing=_listed(missing), many=" and others" if len(missing) > 2 else "", columns=names(here), hint=_hint(missing, data, here), fix=_advice(missing, data, here),
        )  # fmt: skip


def _listed(columns: list[str]) -> str:
    return ("the column " if len(columns) == 1 else "the columns ") + " and ".join(f"`{column}`" for column in columns[:3])


def _hint(missing: list[str], data: Data, here: list[str]) -> str:
    folded = [name for entry in data.entries if entry.mapped is not None for name in entry.mapped.folded]
    for name in missing:
        if name in folded:
            return f" (ms-swift reads `{name}` as the model's answer and drops it before the rollout)"
        close = get_close_matches(name, here, 1, 0.7)
        if close:
            return f"; the name must be the same, and `{close[0]}` is not `{name}`"
    if "solution" in missing and _ends_with_assistant(data):
        return "; the assistant's turn in messages is not given to rewards"
    return ""


def _ends_with_assistant(data: Data) -> bool:
    rows = [row for entry in data.entries if entry.sample is not None for row in entry.sample.rows[:5]]
    return any(isinstance(row.values.get("messages"), list) and row.values["messages"] and _role(row.values["messages"][-1]) == "assistant" for row in rows)


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _advice(missing: list[str], data: Data, here: list[str]) -> str:
    folded = {name for entry in data.entries if entry.mapped is not None for name in entry.mapped.folded}
    name = missing[0]
    if name in folded:
        return f"call the column otherwise (such as `gold_{name}`) in the rows and in the reward, or use `solution`, which is kept"
    close = get_close_matches(name, here, 1, 0.7) or [column for column in ("answer", "gold", "label", "ground_truth", "target") if column in here][:1]
    if close:
        return f"""--columns '{{"{close[0]}": "{name}"}}', or rename one of the two"""
    return f'add "{name}": … to every row, beside messages'


@rule("RWD021", "reward-column-clash", consequence="wrong", routes=RLHF)
def reward_column_clash(c: JobCheck) -> Iterator[Finding]:
    """A column with the name of an argument that the reward gets anyway.

    The completions are the first positional argument, and every column is a keyword argument: a column of the same name is a second value for it. A reward
    model's plugin gets its rows as `inputs`. A column `trainer_state` silently takes the place of the trainer's state.

    In the log: `TypeError: MathAccuracy.__call__() got multiple values for argument 'completions'`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "completions": ["3", "2"]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "completions": ["5", "6"]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "old_answers": ["3", "2"]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "old_answers": ["5", "6"]}
    ```

    Source: swift/rl_core/grpo_algorithm.py:compute_rewards_per_func
    Not shown on CPU: rewards are called after the first rollout
    """
    data = _plain_data(c)
    if data is None:
        return
    available = _available(data)
    for token, first, _ in _functions(c):
        if first is not None and first in available:
            template = "the rows have a column `{column}`, which is also the argument in which reward `{name}` gets the completions: the call gets two values for it; rename the column"
            fix = f"""--columns '{{"{first}": "data_{first}"}}', or rename the column"""
            yield c.finding(template, "dataset", flags=["reward_funcs", "columns"], related=[(token, "called here")], column=first, name=token.text, fix=fix)
    if kind(c) == "grpo" and not c.v.megatron and words(c.v.get("reward_model")) and "inputs" in available:
        template = "the rows have a column `inputs`, which is also the argument in which a reward model's plugin gets the rows: the call gets two values for it; rename the column"
        yield c.finding(template, "dataset", flags=["reward_model", "columns"], fix="""--columns '{"inputs": "data_inputs"}', or rename the column""")
    if kind(c) == "grpo" and "trainer_state" in available:
        template = "the rows have a column `trainer_state`: rewards get it in place of the trainer's state; rename the column"
        yield c.finding(template, "dataset", flags=["reward_funcs"], fix="rename the column")


@rule("RWD022", "solution-is-no-text", consequence="wrong", routes=RLHF)
def solution_is_no_text(c: JobCheck) -> Iterator[Finding]:
    """`solution` holds numbers, lists or nothing, and a built-in reward reads text.

    `accuracy`, `cosine` and `toolbench` search `solution` with patterns. A csv column of numbers is read as numbers, too. A row of another task, without
    a solution, stops the batch it is in.

    In the log: `TypeError: expected string or bytes-like object, got 'int'`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": 2}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": 5}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Source: swift/rewards/orm.py:MathAccuracy.__call__
    Not shown on CPU: rewards are called after the first rollout
    """
    data = _plain_data(c)
    used = [token.text for token, first, _ in _functions(c) if token.text in _READS_TEXT and first == "completions"]
    if data is None or not used or "solution" not in _available(data):
        return
    for entry in data.entries:
        yield from _unreadable_solution(c, entry, used)


def _unreadable_solution(c: JobCheck, entry: Entry, used: list[str]) -> Iterator[Finding]:
    if entry.sample is None or entry.mapped is None:
        return
    column = "solution" if "solution" in entry.sample.columns else entry.mapped.source_of("solution")
    if column not in entry.sample.columns:
        template = "{file} has no column `solution`, while other data of this run has: its rows have None there, and reward {used} cannot read that"
        yield c.finding(template, entry.token, flags=["dataset", "reward_funcs"], file=entry.name, used=names(used), fix='add "solution": "…" to every row')
        return
    values = [(row, row.values.get(column)) for row in entry.sample.rows]
    texts = any(isinstance(value, str) for _, value in values)
    check = RowsCheck(c.whole, c.rule, entry.sample, c, "dataset", entry) if c.rule is not None else None
    for row, value in values:
        if value is None:
            problem = "null" if column in row.values else "missing"
        elif isinstance(value, str) or texts:  # mixed values are all made text while loading
            continue
        else:
            problem = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}.get(type(value), type(value).__name__)
        template = "`{column}` is {problem} in {at}, and reward {used} reads text; write it in quotes{null}"
        null = ", in every row" if value is None else ""
        at = at_row(entry.sample, row)
        if check is not None:
            yield check.finding(template, row, flags=["reward_funcs"], column=column, problem=problem, at=at, used=names(used), null=null, fix=f'"{column}": "…"')
        return
