"""Rows against the model and the engine: media, columns of their own, copies, lengths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .beside import data_of, rows_checks
from .context import JobCheck, RunCheck, names
from .dataset import some
from .registry import RLHF, rule
from .rl import kind, number

if TYPE_CHECKING:
    from alula.run.dataset import Row
    from alula.run.finding import Finding

_MEDIA = {"image": "images", "audio": "audios", "video": "videos"}
CHARACTERS_A_TOKEN = 4  # a rough mean over English text; Chinese has about 1.5


@rule("DAT024", "more-tags-than-media", scope="run", severity="warning", consequence="wrong")
def more_tags_than_media(whole: RunCheck) -> Iterator[Finding]:
    """More `<image>`, `<audio>` or `<video>` tags in the messages than files beside them.

    Tags are replaced from the front. What is left over goes to the model as text. Missing tags are no fault: they are put in front of the first message.

    In the log: `num_media: 1, num_media_tags: 2 … We will only replace the frontmost media_tags`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image><image>Which is larger?"}, {"role": "assistant", "content": "The left one."}], "images": ["a.png"]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image><image>Which is larger?"}, {"role": "assistant", "content": "The left one."}], "images": ["a.png", "b.png"]}
    ```

    Source: swift/template/base.py:Template._add_default_tags
    """
    for r in rows_checks(whole):
        for row, made in r.converted:
            if made.dropped is not None or made.unsure:
                continue
            text = "\n".join(content for _, content in made.messages if isinstance(content, str))
            fault = next(((tag, text.count(f"<{tag}>"), count) for tag, column in _MEDIA.items() if text.count(f"<{tag}>") > (count := _media(row, column)) > 0), None)
            if fault is not None:
                tag, tags, count = fault
                template = "{at} has {tags} <{tag}> tags and {count} {tag} file(s): the tags left over reach the model as text; give one file for each tag"
                yield r.finding(template, row, tag=tag, tags=tags, count=count, fix=f"as many entries in `{_MEDIA[tag]}` as <{tag}> tags")
                break


def _media(row: Row, column: str) -> int:
    value = row.values.get(column, row.values.get(column[:-1]))
    return len(value) if isinstance(value, list) else 0 if value is None else 1


@rule("DAT025", "media-for-text-model", scope="run", severity="warning", consequence="wrong")
def media_for_text_model(whole: RunCheck) -> Iterator[Finding]:
    """Rows with images, audios or videos, and a model that reads text only.

    The files are not used. The model sees the word `<image>` where they were meant to stand.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image>What is it?"}, {"role": "assistant", "content": "A wing."}], "images": ["a.png"]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "<image>What is it?"}, {"role": "assistant", "content": "A wing."}], "images": ["a.png"]}
    ```

    Source: swift/template/base.py:Template._pre_tokenize
    """
    for r in rows_checks(whole, "dataset"):
        model = r.c.v.get("model") if r.c is not None else None
        entry = r.c.facts.registries.model_of(model) if r.c is not None and isinstance(model, str) else None
        if r.c is None or entry is None or entry.multimodal or r.c.v.use("model_type") is not None:
            continue
        row = next((row for row in r.sample.rows if any(_media(row, column) for column in _MEDIA.values())), None)
        if row is not None:
            column = next(column for column in _MEDIA.values() if _media(row, column))
            template = "{at} has {column}, and {model} reads text only: the files are not used; train a multimodal model, or take the column out"
            yield r.finding(template, row, flags=["model"], column=column, model=model, fix="--model <a multimodal model>")


@rule("DAT026", "extra-columns-reach-generate", consequence="wrong", routes=RLHF, until="4.0")
def extra_columns_reach_generate(c: JobCheck) -> Iterator[Finding]:
    """GRPO without vLLM on rows with columns of their own (ms-swift up to 4.0).

    The transformers engine handed all columns on to `generate()`, which refuses what it does not know. 4.1.3 leaves them out.

    In the log: `ValueError: The following model_kwargs are not used by the model: ['solution', 'task']`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "task": "sum"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "task": "sum"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2 --use_vllm true --vllm_mode colocate
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "task": "sum"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "task": "sum"}
    ```

    Source: swift/rlhf_trainers/grpo_trainer.py:GRPOTrainer.__init__ (infer_template), swift/template/base.py:Template.data_collator
    Not shown on CPU: generation begins after the model is loaded
    """
    data = data_of(c)
    if c.v.megatron or kind(c) != "grpo" or c.v.get("use_vllm") is not False or data is None or data.columns is None:
        return
    extra = sorted(data.columns - {"messages", "images", "videos", "audios", "tools", "objects", "label", "channel", "margin", "rejected_response"})
    if extra:
        template = "--use_vllm false hands the columns {extra} on to generate() in ms-swift {version}, which refuses them; use vLLM, ms-swift 4.1.3 or newer, or leave these columns out"
        yield c.finding(template, "dataset", flags=["use_vllm"], extra=names(extra, 6), version=c.facts.version, fix="--use_vllm true --vllm_mode colocate")


@rule("DAT027", "data-dict-is-no-object", scope="run", consequence="wrong", since="4.0")
def data_dict_is_no_object(whole: RunCheck) -> Iterator[Finding]:
    """A column `data_dict` that is no object, where rows are handed to a scheduler.

    With a multi-turn scheduler or `--vllm_server_pass_dataset true` the extra columns go into the request's `data_dict`, over which a column of that name
    is laid.

    In the log: `ValueError: data_dict exists but is not a dictionary`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --multi_turn_scheduler math_tip_trick --max_turns 2 --use_vllm true --vllm_mode colocate --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "data_dict": "easy"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "data_dict": "easy"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs format --multi_turn_scheduler math_tip_trick --max_turns 2 --use_vllm true --vllm_mode colocate --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2", "data_dict": {"level": "easy"}}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5", "data_dict": {"level": "easy"}}
    ```

    Source: swift/rl_core/data.py:OnPolicySample.to_infer_request
    Not shown on CPU: requests are made after the model is loaded
    """
    for r in rows_checks(whole):
        if r.c is None or r.kind != "grpo":
            continue
        if not (isinstance(r.c.v.get("multi_turn_scheduler"), str) or r.c.v.get("vllm_server_pass_dataset") is True):
            continue
        row = next((row for row in r.sample.rows if not isinstance(row.values.get("data_dict"), (dict, type(None)))), None)
        if row is not None:
            template = "`data_dict` is no object in {at}: it is laid over the request's data; make it an object, or call the column otherwise"
            yield r.finding(template, row, flags=["multi_turn_scheduler", "vllm_server_pass_dataset"], fix='"data_dict": {…}')


@rule("DAT028", "rows-repeated", severity="info", consequence="waste", routes=("swift rlhf", "swift sft", "swift pt", "swift sample", "megatron rlhf", "megatron sft", "megatron pt"))
def rows_repeated(c: JobCheck) -> Iterator[Finding]:
    """`data#N` asks for more rows than the file has.

    ms-swift repeats the rows until there are N. One epoch then shows each row several times.

    In the log: `dataset_sample:1000 is greater than len(dataset):2, repeated sampling will be performed.`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl#1000
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/dataset/utils.py:sample_dataset
    """
    for flag in ("dataset", "val_dataset"):
        data = data_of(c, flag)
        for entry in data.entries if data is not None else ():
            rows = entry.sample.count if entry.sample is not None and entry.sample.exact else None
            if rows and entry.take is not None and entry.take > rows:
                template = "{file}#{take} asks for {take} rows of {rows}: each is taken {times:.1f} times on average; raise --num_train_epochs instead if that is meant"
                yield c.finding(template, entry.token, flags=[flag], file=entry.name, take=entry.take, rows=rows, times=entry.take / rows, fix=f"--{flag} {entry.name}")


@rule("DAT029", "duplicate-rows", scope="run", severity="info", consequence="waste")
def duplicate_rows(whole: RunCheck) -> Iterator[Finding]:
    """The same row several times in a file.

    In GRPO the copies of a prompt are groups of their own, scored apart; in supervised training they count more. Small files are looked at whole.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/dataset/loader.py:load_dataset
    """
    for r in rows_checks(whole, "dataset"):
        if r.c is not None and r.c.v.get("multi_turn_scheduler") is not None:
            continue  # an environment sets the task; its rows are often all the same
        seen: set[str] = set()
        copies: list[Row] = []
        for row in r.sample.rows:
            key = json.dumps(row.values, sort_keys=True, default=str)
            if key in seen:
                copies.append(row)
            seen.add(key)
        if copies:
            template = "{at} is a copy of an earlier row ({count} of the {looked} rows looked at are copies)"
            yield r.finding(template, copies[0], count=len(copies), looked=len(r.sample.rows), fix="take the copies out, unless they are meant to count more")


@rule("DAT030", "rows-longer-than-limit", scope="run", severity="warning", confidence="low", consequence="waste")
def rows_longer_than_limit(whole: RunCheck) -> Iterator[Finding]:
    """Rows that are probably longer than `max_length`.

    Without a tokenizer length is guessed at 4 characters a token. Longer rows are cut (`left`, `right`), left out (`delete`) or stop (`raise`). In GRPO
    `max_length` counts the prompt alone.

    In the log: nothing, or `MaxLengthError`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --max_length 8
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "What is one and one, in words and in numbers, please?"}, {"role": "assistant", "content": "Two, which is written 2."}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --max_length 512
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "What is one and one, in words and in numbers, please?"}, {"role": "assistant", "content": "Two, which is written 2."}]}
    ```

    Source: swift/template/base.py:Template._encode_truncated
    """
    for r in rows_checks(whole):
        limit = number(r.c.v.get("max_length")) if r.c is not None and r.c.v.written("max_length") else None
        if limit is None:
            continue
        lengths = [(row, _characters(made.messages, r.kind)) for row, made in r.converted if made.dropped is None]
        longer = [(row, length) for row, length in lengths if length / CHARACTERS_A_TOKEN > limit]
        if longer:
            row, length = max(longer, key=lambda item: item[1])
            template = "{some} of {file} look longer than --max_length {limit:g}; {at} has {length} characters, about {tokens} tokens"
            yield r.finding(
                template, row, flags=["max_length", "truncation_strategy"], some=some(len(longer), len(lengths)), limit=limit, length=length,
                tokens=length // CHARACTERS_A_TOKEN, fix=f"--max_length {length // CHARACTERS_A_TOKEN + 64}, or shorter rows",
            )  # fmt: skip


def _characters(messages: tuple[tuple[str, Any], ...], algorithm: Any) -> int:
    turns = messages[:-1] if algorithm == "grpo" and messages and messages[-1][0] == "assistant" else messages
    return sum(len(content) for _, content in turns if isinstance(content, str))
