"""Rows of the run's own data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
SFT = f"NPROC_PER_NODE=2 swift sft {MODEL}"
DPO = f"NPROC_PER_NODE=2 swift rlhf --rlhf_type dpo {MODEL} --tuner_type lora"
KTO = f"NPROC_PER_NODE=2 swift rlhf --rlhf_type kto {MODEL} --tuner_type lora --gradient_accumulation_steps 4"
GRPO = f"NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo {MODEL} --reward_funcs format --num_generations 2"
SAMPLE = f"swift sample {MODEL} --sampler_engine vllm --num_return_sequences 4"


def user(text: str = "1 + 1 = ?") -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: Any = "2") -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


GOOD = {"messages": [user(), assistant()]}
PAIR = {**GOOD, "rejected_response": "3"}

HITS: list[tuple[str, str, str, str]] = [
    ("DAT001", SFT, lines(GOOD, '{"messages": [}'), "line 2 of data.jsonl, column 15"),
    ("DAT001", SFT, lines("# rows", GOOD), "a comment is no JSON"),
    ("DAT001", SFT, lines(GOOD, "[1, 2]"), "a list"),
    ("DAT001", SFT, lines(GOOD, '{"messages": [{"role": "us'), "line 2"),
    ("DAT003", SFT, "", "empty"),
    ("DAT003", SFT, lines({"Messages": GOOD["messages"]}), "lower case"),
    ("DAT003", SFT, lines({"foo": "bar"}), "no query and no response"),
    ("DAT003", SFT, lines({"chosen": [user(), assistant()], "rejected": [user(), assistant("3")]}), "rejected_messages"),
    ("DAT003", SFT, json.dumps({"data": [GOOD]}), "top level"),
    ("DAT004", SFT, lines(GOOD, {"messages": [{"role": "developer", "content": "x"}, user(), assistant()]}), "`developer` is no role"),
    ("DAT004", SFT, lines(GOOD, {"messages": [user(), assistant(None)]}), "null"),
    ("DAT004", SFT, lines(GOOD, {"messages": []}), "empty or null"),
    ("DAT004", f"{SFT} --strict true", lines(GOOD, {"messages": []}), "--strict true"),
    ("DAT005", SFT, lines({"messages": [user(), {"role": "system", "content": "x"}, assistant()]}), "in the middle"),
    ("DAT005", SFT, lines({"messages": [user(), assistant(5)]}), "is a number"),
    ("DAT005", GRPO, lines({"messages": [{"role": "system", "content": "x"}]}), "nothing but a system message"),
    ("DAT006", f"{SFT} --columns '{{\"questoin\": \"query\"}}'", lines({"question": "q", "response": "a"}), "questoin"),
    ("DAT006", f"{SFT} --columns '{{\"a\": \"query\", \"b\": \"query\"}}'", lines({"a": "q", "b": "r", "response": "x"}), "cancel each other"),
    ("DAT008", GRPO, lines({"messages": [user()], "n": "1"}, {"messages": [user("b")], "n": 2}), "text and numbers"),
    ("DAT020", DPO, lines({**GOOD, "rejected": "3"}), "`rejected` is not looked at"),
    ("DAT020", DPO, lines(GOOD), "rejected_response"),
    ("DAT020", DPO, lines({**GOOD, "rejected_response": None}), "null or missing"),
    ("DAT020", DPO, lines(PAIR, {**GOOD, "rejected_response": "2"}), "the same as the chosen answer"),
    ("DAT021", KTO, lines({**GOOD, "label": "true"}), 'the text "true"'),
    ("DAT021", KTO, lines(GOOD), "boolean column `label`"),
    ("DAT021", KTO, lines({**GOOD, "label": True}, GOOD), "null or missing"),
    ("DAT021", KTO, lines({**GOOD, "label": 1}, {**GOOD, "label": -1}), "-1"),
    ("DAT021", KTO, lines({**GOOD, "label": True}, {**GOOD, "label": True}), "all 2 rows"),
    ("DAT022", SFT, lines({"messages": [user()]}), "no assistant turn"),
    ("DAT022", DPO, lines({"messages": [user()], "rejected_response": "3"}), "no assistant turn"),
    ("DAT022", KTO, lines({"messages": [user()], "label": True}, {**GOOD, "label": False}), "KTO stops"),
    ("DAT023", SAMPLE, lines({"messages": [user()]}), "ground truth"),
    ("DAT024", SFT, lines({"messages": [user("<image><image>?"), assistant()], "images": ["a.png"]}), "2 <image> tags and 1 image"),
    ("DAT025", SFT, lines({"messages": [user("<image>?"), assistant()], "images": ["a.png"]}), "reads text only"),
    ("DAT028", SFT.replace("data.jsonl", "data.jsonl#10"), lines(GOOD, PAIR), "10 rows of 2"),
    ("DAT029", SFT, lines(GOOD, GOOD), "copy"),
]


@pytest.mark.parametrize(("code", "script", "text", "words"), HITS)
def test_found(check: Checker, code: str, script: str, text: str, words: str) -> None:
    found = [f for f in check(script, {"data.jsonl": text}) if f.code == code]
    assert found, "not found"
    assert words in found[0].message


MISSES: list[tuple[str, str, str]] = [
    ("DAT001", SFT, lines(GOOD, "", GOOD)),
    ("DAT001", SFT, "\ufeff" + lines(GOOD)),
    ("DAT001", SFT, json.dumps([GOOD, GOOD], indent=2)),
    ("DAT001", SFT, json.dumps(GOOD, indent=2)),
    ("DAT003", SFT, lines({"instruction": "i", "input": "q", "output": "a"})),
    ("DAT003", SFT, lines({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})),
    ("DAT003", SFT, lines({"conversation": [{"human": "q", "assistant": "a"}]})),
    ("DAT003", SFT, lines({"messages": json.dumps(GOOD["messages"])})),
    ("DAT003", f"{SFT} --columns '{{\"a\": \"query\", \"b\": \"response\"}}'", lines({"a": "q", "b": "r"})),
    ("DAT004", SFT, lines(GOOD, {"messages": [user(), {"role": "tool_call", "content": "{}"}, {"role": "tool", "content": "x"}, assistant()]})),
    ("DAT004", SFT, lines(GOOD, {"messages": [user(), {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}, assistant()]})),
    ("DAT005", SFT, lines({"messages": [{"role": "system", "content": "x"}, user(), user(), assistant(), assistant()]})),
    ("DAT006", f"{SFT} --columns '{{\"Question\": \"query\"}}'", lines({"question": "q", "response": "a"})),
    ("DAT008", GRPO, lines({"messages": [user()], "n": 1}, {"messages": [user("b")], "n": 2.5})),
    ("DAT008", SFT, lines({**GOOD, "n": "1"}, {**GOOD, "n": 2})),
    ("DAT020", DPO, lines(PAIR)),
    ("DAT020", f"{DPO} --columns '{{\"rejected\": \"rejected_response\"}}'", lines({**GOOD, "rejected": "3"})),
    ("DAT020", DPO, lines({**GOOD, "rejected_messages": [user(), assistant("3")]})),
    ("DAT020", SFT, lines(GOOD)),
    ("DAT020", DPO.replace("dpo", "$TYPE"), lines(GOOD)),
    ("DAT021", KTO, lines({**GOOD, "label": True}, {**GOOD, "label": False})),
    ("DAT021", KTO, lines({**GOOD, "label": 1}, {**GOOD, "label": 0})),
    ("DAT021", DPO, lines({**PAIR, "label": "true"})),
    ("DAT022", SFT, lines(GOOD)),
    ("DAT022", GRPO, lines({"messages": [user()]})),
    ("DAT022", SFT, lines({"text": "pre-training"})),
    ("DAT023", SAMPLE, lines(GOOD)),
    ("DAT023", SFT, lines({"messages": [user()]})),
    ("DAT024", SFT, lines({"messages": [user("?"), assistant()], "images": ["a.png"]})),
    ("DAT025", SFT.replace("Qwen3-8B", "Qwen2.5-VL-7B-Instruct"), lines({"messages": [user("<image>?"), assistant()], "images": ["a.png"]})),
    ("DAT025", SFT.replace("Qwen/Qwen3-8B", "my/model"), lines({"messages": [user("<image>?"), assistant()], "images": ["a.png"]})),
    ("DAT026", GRPO, lines({"messages": [user()], "task": "sum"})),
    ("DAT028", SFT.replace("data.jsonl", "data.jsonl#2"), lines(GOOD, PAIR)),
    ("DAT029", SFT, lines(GOOD, PAIR)),
]


@pytest.mark.parametrize(("code", "script", "text"), MISSES)
def test_silent(check: Checker, code: str, script: str, text: str) -> None:
    assert code not in {f.code for f in check(script, {"data.jsonl": text})}


def test_extra_columns_fail_up_to_4_0(check: Checker) -> None:
    rows = lines({"messages": [user()], "task": "sum"})
    assert "DAT026" in {f.code for f in check(GRPO, {"data.jsonl": rows}, version="4.0.4")}
    assert "DAT026" not in {f.code for f in check(GRPO, {"data.jsonl": rows}, version="4.1.3")}


def test_files_of_different_type(check: Checker) -> None:
    script = GRPO.replace("data.jsonl", "a.jsonl b.jsonl")
    words, numbers = lines({"messages": [user()], "solution": "2"}), lines({"messages": [user()], "solution": 2})
    assert "DAT007" in {f.code for f in check(script, {"a.jsonl": words, "b.jsonl": numbers})}
    assert "DAT007" not in {f.code for f in check(script, {"a.jsonl": words, "b.jsonl": words})}


def test_unknown_formats(check: Checker) -> None:
    for name in ("data.tsv", "data", "data.jsonl.gz"):
        found = [f for f in check(SFT.replace("data.jsonl", name), {name: "x\n"}) if f.code == "DAT002"]
        assert found, name
    assert "DAT002" not in {f.code for f in check(SFT.replace("data.jsonl", "not-here.tsv"))}


def test_rows_beside_a_run_stand_for_its_data(check: Checker) -> None:
    script = "NPROC_PER_NODE=2 swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset someone/pairs --tuner_type lora\n"
    found = check(script, {"rows.jsonl": lines(GOOD)}, dataset="rows.jsonl")
    assert "DAT020" not in {f.code for f in found}, "the path is relative to the caller, where there is no such file"


def test_rows_alone(check: Checker) -> None:
    assert "DAT021" in {f.code for f in check(lines({**GOOD, "label": "false"}), name="rows.jsonl")}
    assert not check(lines({**GOOD, "label": False}), name="rows.jsonl")
    found = check("# swift rlhf --rlhf_type kto --dataset rows.jsonl\n" + lines({**GOOD, "label": "false"}), name="rows.jsonl")
    assert {"DAT001", "DAT021"} <= {f.code for f in found}


def test_place_is_the_row_when_its_file_was_given(check: Checker) -> None:
    (found,) = [f for f in check(lines(GOOD, "{"), name="rows.jsonl") if f.code == "DAT001"]
    assert found.span is not None
    assert found.span.file.endswith("rows.jsonl")
    assert found.span.start == len(lines(GOOD))


def test_length_guess_is_for_pedants(check: Checker) -> None:
    script, rows = f"{SFT} --max_length 16", lines({"messages": [user("long " * 100), assistant()]})
    assert "DAT030" not in {f.code for f in check(script, {"data.jsonl": rows})}
    assert "DAT030" in {f.code for f in check(script, {"data.jsonl": rows}, pedantic=True)}
