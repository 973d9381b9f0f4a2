"""Columns and rows as ms-swift's loader makes them. The expectations were recorded from the real loader (ms-swift 4.6.0, datasets 4.8)."""

from __future__ import annotations

from typing import Any

import pytest

from alula.swift.columns import STANDARD, mapped, reward_columns
from alula.swift.rows import convert, order_fault


@pytest.mark.parametrize(
    ("columns", "user", "after"),
    [
        (["messages", "solution"], {}, {"messages", "solution"}),
        (["question", "answer"], {}, {"messages"}),
        (["problem", "solution"], {}, {"messages", "solution"}),
        (["problem", "solution", "answer"], {}, {"messages", "solution", "answer"}),
        (["query", "prompt", "response"], {}, {"messages", "prompt"}),
        (["prompt", "chosen", "rejected"], {}, {"messages", "chosen", "rejected"}),
        (["prompt", "chosen", "rejected"], {"chosen": "response", "rejected": "rejected_response"}, {"messages", "rejected_response"}),
        (["question", "answer"], {"answer": "solution"}, {"messages", "solution"}),
        (["messages", "gold"], {"gold": "solution"}, {"messages", "solution"}),
        (["instruction", "input", "output"], {}, {"messages"}),
        (["instruction", "output"], {}, {"messages"}),
        (["conversations", "system"], {}, {"messages"}),
        (["messages", "image"], {}, {"messages", "images"}),
        (["messages", "image", "images"], {}, {"messages", "image", "images"}),
        (["Query", "Response"], {}, {"messages"}),
        (["query", "completions"], {}, {"messages", "completions"}),
        (["a", "b"], {"a": "query", "b": "query"}, {"a", "b", "messages"}),
    ],
)
def test_columns(columns: list[str], user: dict[str, str], after: set[str]) -> None:
    assert mapped(columns, user).columns == after


def test_without_the_automatic_mapping() -> None:
    assert mapped(["question", "answer"], {"question": "query"}, automatic=False).columns == {"messages", "answer"}


def test_folded_columns_are_named() -> None:
    found = mapped(["question", "answer", "level"])
    assert found.folded == {"question", "answer"}
    assert found.source_of("level") == "level"
    assert reward_columns(found) == {"level"}
    assert mapped(["gold", "messages"], {"gold": "solution"}).source_of("solution") == "gold"
    assert "solution" not in STANDARD


USER, ANSWER = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ({"messages": [USER, ANSWER]}, [("user", "q"), ("assistant", "a")]),
        ({"messages": [{"role": "human", "content": "q"}, {"role": "gpt", "content": "a"}]}, [("user", "q"), ("assistant", "a")]),
        ({"conversations": [{"from": "human", "value": "q"}, {"from": "bot", "value": "a"}]}, [("user", "q"), ("assistant", "a")]),
        ({"conversation": [{"human": "q", "assistant": "a"}]}, [("user", "q"), ("assistant", "a")]),
        ({"messages": '[{"role": "user", "content": "q"}]'}, [("user", "q")]),
        ({"messages": "[{'role': 'user', 'content': 'q'}]"}, [("user", "q")]),
        ({"messages": [USER, ANSWER], "system": "s"}, [("system", "s"), ("user", "q"), ("assistant", "a")]),
        ({"messages": [USER, {"role": "function-call", "content": "{}"}]}, [("user", "q"), ("tool_call", "{}")]),
        ({"query": "q2", "response": "a2", "history": [["q", "a"]]}, [("user", "q"), ("assistant", "a"), ("user", "q2"), ("assistant", "a2")]),
        ({"instruction": "i", "input": "q", "output": "a"}, [("user", "i\nq"), ("assistant", "a")]),
        ({"text": "x"}, [("assistant", "x")]),
        ({"query": "q", "response": ["a", "b"]}, [("user", "q"), ("assistant", "a")]),
    ],
)
def test_messages(row: dict[str, Any], messages: list[tuple[str, Any]]) -> None:
    made = convert(row, mapped(list(row)))
    assert made.dropped is None
    assert list(made.messages) == messages


@pytest.mark.parametrize(
    "row",
    [
        {"messages": []},
        {"messages": None},
        {"messages": "hello"},
        {"messages": [{"role": "model", "content": "x"}]},
        {"messages": [{"role": "User", "content": "x"}]},
        {"messages": [{"content": "x"}, ANSWER]},
        {"messages": [USER, {"role": "assistant"}]},
        {"messages": [USER, {"role": "assistant", "content": None}]},
        {"messages": [{"role": "user", "content": ["x"]}]},
        {"messages": [USER, ANSWER], "rejected_response": None},
        {"messages": [USER, ANSWER], "rejected_response": "a"},
        {"messages": [USER, ANSWER], "rejected_messages": [{"content": "x"}, USER]},
        {"messages": [USER, ANSWER], "objects": {"ref": ["x"]}},
        {"foo": "x"},
        {"instruction": None, "input": None, "output": "a"},
    ],
)
def test_dropped(row: dict[str, Any]) -> None:
    assert convert(row, mapped(list(row))).dropped


def test_a_column_that_only_other_rows_have_counts_as_null() -> None:
    columns = ["messages", "rejected_response"]
    assert convert({"messages": [USER, ANSWER]}, mapped(columns), columns).dropped == "`rejected_response` is missing or null"


def test_a_provider_s_own_form_is_left_alone() -> None:
    blocks = [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]
    assert convert({"messages": blocks}, mapped(["messages"])).unsure


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([("user", "q"), ("assistant", "a")], False),
        ([("system", "s"), ("user", "q")], False),
        ([("user", "q"), ("user", "r"), ("assistant", "a"), ("assistant", "b")], False),
        ([("assistant", "a")], False),
        ([("user", [{"type": "text", "text": "q"}])], False),
        ([("system", "s")], True),
        ([("user", "q"), ("system", "s"), ("assistant", "a")], True),
        ([("system", "s"), ("system", "t"), ("user", "q")], True),
        ([("user", "q"), ("assistant", 5)], True),
        ([("user", [{"role": "user", "content": "q"}])], True),
    ],
)
def test_order(messages: list[tuple[str, Any]], fault: bool) -> None:
    assert (order_fault(messages) is not None) is fault
