"""Rows of the run's own data: can they be read, and does ms-swift keep them?"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alula.swift.columns import STANDARD

from .beside import Entry, RowsCheck, at_row, columns_mapping, data_of, rows_checks
from .context import JobCheck, RunCheck, names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.dataset import Row
    from alula.run.finding import Finding
    from alula.run.source import Span

_ROUTES = ("swift rlhf", "swift sft", "swift pt", "swift sample", "megatron rlhf", "megatron sft", "megatron pt")
# Endings of files that people give as data and that ms-swift's loader takes for the name of a hub data set.
_NO_LOADER = {
    "": "no ending", ".tsv": "csv with --columns cannot be told the delimiter; convert to jsonl", ".xlsx": "convert to csv or jsonl", ".xls": "convert to csv or jsonl",
    ".gz": "unpack it", ".zst": "unpack it", ".bz2": "unpack it", ".zip": "unpack it", ".yaml": "convert to jsonl", ".yml": "convert to jsonl", ".ndjson": "call it .jsonl",
    ".jsonlines": "call it .jsonl", ".pkl": "convert to jsonl", ".pt": "convert to jsonl", ".npy": "convert to jsonl", ".md": "convert to jsonl",
}  # fmt: skip


def some(count: int, of: int) -> str:
    """`3 of the 200 rows looked at`, `all 12 rows looked at`."""
    return f"all {of} rows looked at" if count == of else f"{count} of the {of} rows looked at"


@rule("DAT001", "rows-unreadable", scope="run", consequence="wrong")
def rows_unreadable(whole: RunCheck) -> Iterator[Finding]:
    """A data file that cannot be read: broken JSON, another encoding, rows that are no objects.

    One bad line stops the whole file, after the model is loaded. JSON lines have one object a line, without comments, in UTF-8.

    In the log: `datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}],}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/dataset/loader.py:DatasetLoader._load_dataset_path
    Not shown on CPU: data is loaded after the model
    """
    for r in rows_checks(whole):
        problems = [problem for problem in r.sample.problems if problem.kind != "empty"]
        if not problems:
            continue
        first = problems[0]
        where = f"line {first.number} of {r.sample.path}" if first.number is not None else r.sample.path
        column = f", column {first.column}" if first.column is not None else ""
        more = f" ({len(problems)} such places)" if len(problems) > 1 else ""
        template = "{where}{column}: {message}{more}; the loader stops at it and no row is read"
        span: Span | None = r.where(None, first.start, first.end) if first.end else None
        yield r.finding(template, span=span, where=where, column=column, message=first.message, more=more, fix="one JSON object a line, UTF-8, no comments")


@rule("DAT002", "unknown-data-format", consequence="wrong", routes=_ROUTES)
def unknown_data_format(c: JobCheck) -> Iterator[Finding]:
    """A local data file whose ending ms-swift has no loader for.

    The ending names the loader: json, jsonl, csv, txt, parquet, arrow. Anything else is taken for the id of a data set on the hub.

    In the log: `ConnectionError: Couldn't reach 'tsv' on the Hub`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.tsv
    ```
    ```text data.tsv
    query	response
    1 + 1 = ?	2
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"query": "1 + 1 = ?", "response": "2"}
    ```

    Source: swift/dataset/loader.py:DatasetLoader._load_dataset_path
    Not shown on CPU: data is loaded after the model
    """
    for flag in ("dataset", "val_dataset"):
        data = data_of(c, flag)
        for entry in data.entries if data is not None else ():
            ending = os.path.splitext(entry.name)[1]
            if entry.path is not None and ending in _NO_LOADER:
                template = "{file} is here, and ms-swift has no loader for {ending}: it reads json, jsonl, csv, txt and parquet; {advice}"
                shown = f"`{ending}`" if ending else "a file without an ending"
                yield c.finding(template, entry.token, flags=[flag], file=entry.name, ending=shown, advice=_NO_LOADER[ending], fix="convert the rows to JSON lines (.jsonl)")


@rule("DAT003", "no-usable-row", scope="run", consequence="wrong")
def no_usable_row(whole: RunCheck) -> Iterator[Finding]:
    """A data file of which no row is left after loading.

    It is empty, or ms-swift drops every row: columns that it does not know, roles that it does not know, empty or null messages.

    In the log: `ZeroDivisionError: integer division or modulo by zero`, after `There are errors in the dataset, the data will be deleted`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"Messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"Messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/dataset/preprocessor/core.py:RowPreprocessor.batched_preprocess, swift/dataset/utils.py:sample_dataset
    Not shown on CPU: data is loaded after the model
    """
    for r in rows_checks(whole):
        if any(problem.kind == "empty" for problem in r.sample.problems):
            yield r.finding("{file}: {message}; there is nothing to train on", message=r.sample.problems[0].message, fix="rows of data")
            continue
        dropped = [(row, made.dropped) for row, made in r.converted if made.dropped is not None]
        if not dropped or len(dropped) < len(r.converted):
            continue
        (reason, _), *_ = Counter(reason for _, reason in dropped).most_common(1)
        row = next(row for row, why in dropped if why == reason)
        template = "ms-swift drops {some} of {file}: {reason}{hint}; the columns are {columns}"
        every = some(len(dropped), len(r.converted)) if not r.sample.whole else f"all {len(dropped)} rows"
        yield r.finding(template, row, flags=["columns"], some=every, reason=reason, hint=_hint(r), columns=names(r.sample.columns), fix=_advice(r, str(reason)))


def _hint(r: RowsCheck) -> str:
    for column in r.sample.columns:
        if column.lower() in ("messages", "conversations", "conversation") and column != column.lower():
            return f" (the column must be called `{column.lower()}` in lower case, not `{column}`)"
    if {"chosen", "rejected"} <= set(r.sample.columns):
        return " (chosen and rejected conversations go into `messages` and `rejected_messages`)"
    if r.sample.columns == ("data",) or r.sample.columns == ("rows",):
        return " (the file is one object; the rows must be its top level)"
    return ""


def _advice(r: RowsCheck, reason: str) -> str:
    if {"chosen", "rejected"} <= set(r.sample.columns):
        return """--columns '{"chosen": "messages", "rejected": "rejected_messages"}'"""
    if "no query" in reason:
        return """columns messages, or query and response; or name yours: --columns '{"my_question": "query", "my_answer": "response"}'"""
    return "messages as a list of {\"role\": …, \"content\": …} with the roles system, user, assistant"


@rule("DAT004", "rows-dropped", scope="run", severity="warning", consequence="waste")
def rows_dropped(whole: RunCheck) -> Iterator[Finding]:
    """Some rows are dropped while loading, with nothing but a traceback in the log.

    With `--strict true` the first of them stops the run.

    In the log: `There are errors in the dataset, the data will be deleted`, then `Dataset filtered, origin length: …`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/dataset/preprocessor/core.py:RowPreprocessor.batched_preprocess
    """
    for r in rows_checks(whole):
        dropped = [(row, made.dropped) for row, made in r.converted if made.dropped is not None]
        if not dropped or len(dropped) == len(r.converted):
            continue
        row, reason = dropped[0]
        strict = r.c is not None and r.c.v.get("strict") is True
        if strict:
            template = "{at}: {reason}; with --strict true the run stops at it"
            finding = replace(r.finding(template, row, flags=["strict"], reason=reason, fix="correct the row"), severity="error", consequence="wrong")
            yield finding
            continue
        template = "ms-swift drops {some} of {file}; first {at}: {reason}"
        yield r.finding(template, row, some=some(len(dropped), len(r.converted)), reason=reason, fix="correct these rows, or take them out")


@rule("DAT005", "conversation-cannot-be-encoded", scope="run", consequence="wrong")
def conversation_faults(whole: RunCheck) -> Iterator[Finding]:
    """Messages in an order, or with contents, that no template can encode.

    Loading keeps such rows; they fail when they are encoded. In training another row is taken in place of each (`--strict true` stops), and a run of
    GRPO stops at the first.

    In the log: `AssertionError: query_role: "system"`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "5"}]}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/template/base.py:Template._swift_encode
    Not shown on CPU: rows are encoded after the model is loaded
    """
    from alula.swift.rows import order_fault

    for r in rows_checks(whole):
        kept = [(row, made) for row, made in r.converted if made.dropped is None and not made.unsure]
        faults = [(row, fault) for row, made in kept if (fault := order_fault(made.messages)) is not None]
        if not faults:
            continue
        row, fault = faults[0]
        template = "{at}: {fault} ({some} have such a fault); no template can encode it"
        finding = r.finding(template, row, fault=fault, some=some(len(faults), len(kept)), fix="system first, then user and assistant in turn, every content a text")
        yield finding if len(faults) == len(kept) or r.kind == "grpo" else replace(finding, severity="warning", consequence="waste")


@rule("DAT006", "columns-map-nothing", severity="warning", consequence="wrong", routes=_ROUTES)
def columns_map_nothing(c: JobCheck) -> Iterator[Finding]:
    """`--columns` names a column that the data does not have, or gives two columns one name.

    Names that are not found are passed over. Two columns for one name cancel each other, so that neither is renamed; the automatic mapping does the same
    with `answer` and `output`, for example.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --columns '{"questoin": "query", "reply": "response"}'
    ```
    ```jsonl data.jsonl
    {"question": "1 + 1 = ?", "reply": "2"}
    {"question": "2 + 3 = ?", "reply": "5"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --columns '{"question": "query", "reply": "response"}'
    ```
    ```jsonl data.jsonl
    {"question": "1 + 1 = ?", "reply": "2"}
    {"question": "2 + 3 = ?", "reply": "5"}
    ```

    Source: swift/dataset/preprocessor/core.py:RowPreprocessor.safe_rename_columns
    """
    data = data_of(c)
    mapping = columns_mapping(c.v)
    if data is None or not data.complete or mapping is None:
        return
    here = {column.lower() for entry in data.entries if entry.sample is not None for column in entry.sample.columns}
    everything = names(sorted({column for entry in data.entries if entry.sample is not None for column in entry.sample.columns}))
    for old, new in mapping.items():
        if old.lower() not in here:
            template = "--columns names `{old}`, and the data has no such column: it has {columns}"
            yield c.finding(template, "columns", flags=["dataset"], old=old, columns=everything, fix="the column's own name in --columns")
        else:
            rivals = [other for other, target in mapping.items() if target == new and other != old and other.lower() in here]
            if rivals and old < min(rivals):
                template = "--columns gives `{old}` and `{rival}` the same name `{new}`: they cancel each other and neither is renamed"
                yield c.finding(template, "columns", flags=["dataset"], old=old, rival=rivals[0], new=new, fix=f"one column for {new}")


@rule("DAT007", "columns-of-different-type", consequence="wrong", routes=_ROUTES)
def columns_of_different_type(c: JobCheck) -> Iterator[Finding]:
    """Data files whose columns of one name have different types.

    Each file is read on its own, and then they are put together, which needs the same type in every column that is kept.

    In the log: `ValueError: The features can't be aligned because the key solution of features … has unexpected type`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset words.jsonl numbers.jsonl --reward_funcs format --num_generations 2
    ```
    ```jsonl words.jsonl
    {"messages": [{"role": "user", "content": "Capital of Italy?"}], "solution": "Rome"}
    {"messages": [{"role": "user", "content": "Capital of Spain?"}], "solution": "Madrid"}
    ```
    ```jsonl numbers.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": 2}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": 5}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset words.jsonl numbers.jsonl --reward_funcs format --num_generations 2
    ```
    ```jsonl words.jsonl
    {"messages": [{"role": "user", "content": "Capital of Italy?"}], "solution": "Rome"}
    {"messages": [{"role": "user", "content": "Capital of Spain?"}], "solution": "Madrid"}
    ```
    ```jsonl numbers.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Source: swift/dataset/dataset_meta.py:BaseDatasetLoader.concat_datasets
    Not shown on CPU: data is loaded after the model
    """
    data = data_of(c)
    if data is None or data.keeps_all is None or c.v.get("interleave_prob") is not None:
        return
    seen: dict[str, tuple[Entry, str]] = {}
    for entry in data.entries:
        if entry.mapped is None or entry.sample is None:
            continue
        for column in entry.mapped.columns - {"messages", "images", "tools", "objects", "chat_template_kwargs", "teacher_images", "dataset"}:
            if column not in STANDARD and not data.keeps_all:
                continue
            kind = _type_of([row.values.get(entry.mapped.source_of(column)) for row in entry.sample.rows])
            if kind is None or column.endswith("messages"):
                continue
            other, before = seen.setdefault(column, (entry, kind))
            if before != kind:
                template = "column `{column}` holds {kind} in {file} and {before} in {other}: the files cannot be put together; use one type in all of them"
                related = [(other.token, before)]
                yield c.finding(
                    template, entry.token, flags=["dataset"], related=related, column=column, kind=kind, file=entry.name, before=before, other=other.name,
                    fix=f"`{column}` as text in every file",
                )  # fmt: skip


def _type_of(values: list[Any]) -> str | None:
    """The type that the loader gives a column: mixed values become text. None where all are null, or the type is too rich to compare."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds or kinds & {list, dict, tuple}:
        return None if len(kinds) < 2 else "text"
    if kinds == {int, float}:
        return "decimal numbers"
    if len(kinds) > 1:
        return "text"
    return {str: "text", bool: "true or false", int: "whole numbers", float: "decimal numbers"}.get(kinds.pop())


@rule("DAT008", "mixed-types-in-column", scope="run", severity="warning", consequence="wrong")
def mixed_types(whole: RunCheck) -> Iterator[Finding]:
    """A column that holds text in some rows and something else in others.

    Recent versions of `datasets` turn every value of such a column into text, lists and objects into JSON; older ones stop. A reward that compares
    numbers then gets text.

    In the log: nothing, or `Column(/solution) changed from string to number`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 2
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
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

    Source: swift/dataset/loader.py:DatasetLoader._load_dataset_path
    """
    for r in rows_checks(whole):
        keeps = r.data.keeps_all if r.data is not None else True
        if r.sample.form not in ("json", "jsonl") or r.mapped is None:
            continue
        for column in r.sample.columns:
            name = r.mapped.renamed.get(column, column)
            if name in ("messages", "tools", "objects", "chat_template_kwargs") or name.endswith("messages") or (not keeps and name not in STANDARD):
                continue
            found = _mixed(r.sample.rows, column)
            if found is not None:
                first, other, kinds = found
                template = "column `{column}` of {file} holds {kinds}: {first} and {other} differ; the loader makes all of them text, or stops"
                at, also = at_row(r.sample, first), at_row(r.sample, other)
                yield r.finding(template, other, column=column, kinds=kinds, first=at, other=also, fix=f"one type for `{column}` in every row")


def _mixed(rows: tuple[Row, ...], column: str) -> tuple[Row, Row, str] | None:
    """Two rows whose values have types that do not go together."""
    words = {str: "text", bool: "booleans", int: "numbers", float: "numbers", list: "lists", dict: "objects"}
    first: dict[str, Row] = {}
    for row in rows:
        value = row.values.get(column)
        if value is not None and type(value) in words:
            first.setdefault(words[type(value)], row)
    if len(first) < 2:
        return None
    kinds = list(first)
    return first[kinds[0]], first[kinds[1]], " and ".join(kinds)
