"""Rows against what is trained on them: rejected answers, labels, something to learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .beside import RowsCheck, rows_checks
from .context import RunCheck, names
from .dataset import some
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_PAIRED = ("dpo", "orpo", "cpo", "simpo", "rm")
_SUPERVISED = ("sft", "kto", *_PAIRED)
_LABELS = ("true", "false", "yes", "no", "0", "1")


@rule("DAT020", "rejected-answer-missing", scope="run", consequence="wrong")
def rejected_missing(whole: RunCheck) -> Iterator[Finding]:
    """Preference training on rows without a rejected answer.

    DPO, ORPO, CPO, SimPO and reward models compare the answer in `messages` with `rejected_response` (or `rejected_messages`). Rows in which it is null or
    the same as the answer are dropped while loading; rows without the column fail when they are encoded.

    In the log: `ValueError: inputs.rejected is None`, then `TypeError: 'NoneType' object is not iterable`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "rejected": "3"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}], "rejected": "6"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "rejected_response": "3"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}], "rejected_response": "6"}
    ```

    Source: swift/template/base.py:Template._rlhf_encode, swift/dataset/preprocessor/core.py:RowPreprocessor._check_rejected_response
    Not shown on CPU: rows are encoded after the model is loaded
    """
    for r in rows_checks(whole):
        if r.kind not in _PAIRED or not r.converted:
            continue
        found = r.mapped
        columns = found.columns if found is not None else frozenset()
        if "rejected_messages" in columns or "rejected_response" in columns:
            yield from _rejected_values(r, "rejected_response" if "rejected_response" in columns else "rejected_messages")
            continue
        template = "{kind} needs the column `rejected_response` (or `rejected_messages`), and {file} has {columns}{hint}"
        yield r.finding(
            template, flags=["rlhf_type", "columns"], kind=r.kind, columns=names(r.sample.columns), hint=_rejected_hint(r), fix=_rejected_advice(r)
        )  # fmt: skip


def _rejected_values(r: RowsCheck, column: str) -> Iterator[Finding]:
    """Rows whose rejected answer is null or no answer at all."""
    assert r.mapped is not None
    source = r.mapped.source_of(column)
    absent = [row for row in r.sample.rows if row.values.get(source) in (None, [])]
    same = [row for row, made in r.converted if made.dropped is not None and "equals" in made.dropped]
    for rows, what in ((absent, "null or missing"), (same, "the same as the chosen answer")):
        if not rows:
            continue
        every = len(rows) == len(r.sample.rows)
        template = "`{column}` is {what} in {some} of {file}: ms-swift drops such rows{rest}"
        rest = ", and none is left" if every else ""
        finding = r.finding(template, rows[0], flags=["rlhf_type"], column=source, what=what, some=some(len(rows), len(r.sample.rows)), rest=rest, fix="a rejected answer in every row")
        yield finding if every else replace(finding, severity="warning", consequence="waste")


def _rejected_hint(r: RowsCheck) -> str:
    other = next((c for c in r.sample.columns if c.lower() in ("rejected", "reject", "rejected_answer", "rejected_output", "bad", "lose", "negative")), None)
    return f"; `{other}` is not looked at under this name" if other else ""


def _rejected_advice(r: RowsCheck) -> str:
    columns = set(r.sample.columns)
    if {"chosen", "rejected"} <= columns:
        return """--columns '{"chosen": "response", "rejected": "rejected_response"}' (for conversations: "messages" and "rejected_messages")"""
    other = next((c for c in r.sample.columns if "reject" in c.lower()), None)
    return f"""--columns '{{"{other}": "rejected_response"}}'""" if other else 'add "rejected_response": "…" to every row'


@rule("DAT021", "kto-label", scope="run", consequence="wrong")
def kto_label(whole: RunCheck) -> Iterator[Finding]:
    """KTO rows whose `label` is missing, or is no boolean.

    KTO sums the labels to count the desirable rows, which fails over text and null. The text "false" would besides count as true. Numbers pass, and
    everything but 0 is desirable, −1 included.

    In the log: `TypeError: unsupported operand type(s) for +: 'int' and 'str'`, or `Column 'label' doesn't exist`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --gradient_accumulation_steps 4
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "label": "true"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "6"}], "label": "false"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift rlhf --rlhf_type kto --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --gradient_accumulation_steps 4
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "label": true}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "6"}], "label": false}
    ```

    Source: swift/pipelines/train/kto.py:prepare_kto_dataset
    Not shown on CPU: data is loaded after the model
    """
    for r in rows_checks(whole):
        if r.kind == "kto" and r.mapped is not None:
            yield from _kto_values(r)
        elif r.c is None:
            row = next((row for row in r.sample.rows if str(row.values.get("label")).lower() in _LABELS and isinstance(row.values["label"], str)), None)
            if row is not None:
                template = '`label` is the text "{value}" in {at}: KTO needs a boolean, {lower} without quotes'
                finding = r.finding(template, row, flags=["label"], value=row.values["label"], lower=str(row.values["label"]).lower(), fix='"label": true or "label": false')
                yield replace(finding, severity="warning", confidence="medium")


def _kto_values(r: RowsCheck) -> Iterator[Finding]:
    assert r.mapped is not None
    if "label" not in r.mapped.columns:
        template = "KTO needs a boolean column `label` (true: a good answer, false: a bad one), and {file} has {columns}"
        yield r.finding(template, flags=["rlhf_type", "columns"], columns=names(r.sample.columns), fix='"label": true or false in every row, or --columns \'{"…": "label"}\'')
        return
    source = r.mapped.source_of("label")
    values = [(row, row.values.get(source)) for row in r.sample.rows]
    bad = next(((row, value) for row, value in values if value is None or isinstance(value, (str, list, dict))), None)
    if bad is not None:
        row, value = bad
        shown = "null or missing" if value is None else f'the text "{value}"' if isinstance(value, str) else "no boolean"
        template = "`{column}` is {shown} in {at}: KTO sums the labels and stops; write true or false without quotes"
        yield r.finding(template, row, flags=["rlhf_type"], column=source, shown=shown, fix='"label": true or "label": false')
        return
    odd = next(((row, value) for row, value in values if value not in (0, 1)), None)
    if odd is not None:
        template = "`{column}` is {value} in {at}: everything but 0 and false counts as a good answer; write true or false"
        yield r.finding(template, odd[0], flags=["rlhf_type"], column=source, value=odd[1], fix='"label": true or "label": false')
    elif r.sample.whole and len(values) > 1 and len({bool(value) for _, value in values}) == 1:
        template = "`{column}` is {value} in all {count} rows of {file}: KTO learns from the difference between good and bad answers"
        finding = r.finding(template, values[0][0], flags=["rlhf_type"], column=source, value=str(bool(values[0][1])).lower(), count=len(values), fix="rows of both kinds")
        yield replace(finding, severity="warning")


@rule("DAT022", "nothing-to-learn", scope="run", consequence="wrong")
def nothing_to_learn(whole: RunCheck) -> Iterator[Finding]:
    """Supervised or preference training on rows without an assistant's turn.

    The loss runs over the assistant's tokens. Rows without any are encoded, and train nothing. KTO stops at a row that does not end with the assistant.

    In the log: `loss: 0.0` or `nan`; with KTO a bare `AssertionError`

    Wrong:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}], "solution": "2"}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}], "solution": "5"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/template/base.py:Template._encode, swift/pipelines/train/kto.py:KTOPreprocessor.batched_preprocess
    Not shown on CPU: rows are encoded after the model is loaded
    """
    for r in rows_checks(whole):
        if r.kind not in _SUPERVISED or (r.c is not None and r.c.v.get("task_type") not in ("causal_lm", None) and r.kind == "sft"):
            continue
        kept = [(row, made) for row, made in r.converted if made.dropped is None and not made.unsure]
        if r.kind == "kto":
            if r.c is not None and r.c.v.get("loss_type") in ("apo_zero_unpaired", UNKNOWN):
                continue
            bad = [row for row, made in kept if made.last != "assistant"]
            template = "{at} does not end with an assistant message ({some}): KTO stops at it"
        else:
            bad = [row for row, made in kept if not made.answered]
            template = "{at} has no assistant turn ({some}): there is nothing to learn from it; put the answer into messages as the assistant's"
        if not bad:
            continue
        finding = r.finding(template, bad[0], some=some(len(bad), len(kept)), fix='{"role": "assistant", "content": "…"} at the end of messages')
        yield finding if len(bad) == len(kept) or r.kind == "kto" else replace(finding, severity="warning", consequence="waste")


@rule("DAT023", "sample-without-ground-truth", scope="run", consequence="wrong")
def sample_without_ground_truth(whole: RunCheck) -> Iterator[Finding]:
    """`swift sample` on rows that do not end with an assistant message.

    The last assistant message is the ground truth that candidates are scored against. Sampling asserts it after the row's batch was generated, and what
    was not yet written is lost.

    In the log: a bare `AssertionError` in `do_sample`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 4
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}]}
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 4
    ```
    ```jsonl data.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]}
    {"messages": [{"role": "user", "content": "2 + 3 = ?"}, {"role": "assistant", "content": "5"}]}
    ```

    Source: swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler.do_sample
    Not shown on CPU: the assertion comes after generation
    """
    for r in rows_checks(whole, "dataset"):
        if r.kind != "sample":
            continue
        kept = [(row, made) for row, made in r.converted if made.dropped is None and not made.unsure]
        bad = [row for row, made in kept if made.last != "assistant"]
        if bad:
            template = "{at} does not end with an assistant message ({some}): `swift sample` takes the last one as ground truth and stops without it"
            yield r.finding(template, bad[0], some=some(len(bad), len(kept)), fix='{"role": "assistant", "content": "<ground truth>"} at the end of messages')
