"""One row of data -> the messages that ms-swift makes of it, or why it drops the row.

Sources (ms-swift 4.6; the same since 3.8 where not said otherwise): `dataset/preprocessor/core.py` (`RowPreprocessor.batched_preprocess`,
`_check_messages`, `_check_rejected_response`, `_check_objects`, `ResponsePreprocessor`, `AlpacaPreprocessor`, `MessagesPreprocessor`),
`template/utils.py:history_to_messages`, `template/base.py:Template._swift_encode`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alula.run.record import record

if TYPE_CHECKING:
    from .columns import Mapped

ROLES = frozenset(("system", "user", "tool_call", "tool_response", "tool", "assistant"))
_STANDARD_ROLE = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "gpt", "bot"), "assistant"),
    "function_call": "tool_call",
    **dict.fromkeys(("function_response", "observation", "observations"), "tool_response"),
}
_PROVIDER_BLOCKS = ("tool_use", "tool_result", "image")


@record
class Converted:
    """A row after loading.

    Attributes:
        messages: role and content of each message.
        dropped: why ms-swift leaves the row out (or, with `--strict true`, stops); None where it keeps it.
        unsure: the row is in a provider's own form, which is not followed here.
    """

    messages: tuple[tuple[str, Any], ...] = ()
    dropped: str | None = None
    unsure: bool = False

    @property
    def answered(self) -> bool:
        """Some assistant message (or tool call) holds something to learn."""
        return any(role in ("assistant", "tool_call") for role, _ in self.messages)

    @property
    def last(self) -> str:
        return self.messages[-1][0] if self.messages else ""


class _Dropped(Exception):
    """The row is left out; the reason is the argument."""


def convert(values: Mapping[str, Any], mapped: Mapped, all_columns: Sequence[str] = ()) -> Converted:
    """Follow one row through loading. `all_columns`: of the whole file; a column that this row lacks is there as null."""
    row = {mapped.renamed.get(name, name): value for name, value in values.items()}
    rejected = "rejected_response" in row or any(mapped.renamed.get(name, name) == "rejected_response" for name in all_columns)
    try:
        if mapped.kind == "messages":
            if row.get("rejected_messages"):
                _from_messages({"messages": row["rejected_messages"]}, "rejected_messages")
            messages = _from_messages(row)
        else:
            messages = _from_response(row, mapped.kind == "alpaca")
        if messages is None:
            return Converted(unsure=True)
        _check(row, messages, rejected)
    except _Dropped as reason:
        return Converted(dropped=str(reason))
    return Converted(tuple(messages))


def _from_messages(row: Mapping[str, Any], column: str = "messages") -> list[tuple[str, Any]] | None:
    given = row.get("messages")
    if isinstance(given, str):
        given = _parsed(given)
    if not given:
        raise _Dropped(f"`{column}` is empty or null")
    if not isinstance(given, list) or not all(isinstance(message, dict) for message in given):
        raise _Dropped(f"`{column}` is no list of objects with role and content")
    if any(isinstance(message.get("content"), list) and not all(isinstance(part, dict) for part in message["content"]) for message in given):
        raise _Dropped(f"a content in `{column}` is a list of something else than objects with a type")
    if any(message.get("tool_calls") for message in given):
        given = _openai(given)
    elif any(isinstance(m.get("content"), list) and any(isinstance(b, dict) and b.get("type") in _PROVIDER_BLOCKS for b in m["content"]) for m in given):
        return None
    named = [{_key(key): value for key, value in message.items()} for message in given]
    system = row.get("system")
    if "role" not in named[0] and "content" not in named[0]:
        return _pairs(given, system)
    found: list[tuple[str, Any]] = []
    if system is not None and named[0].get("role") != "system":
        found.append(("system", system))
    for message in named:
        role = message.get("role")
        if role is None:
            raise _Dropped(f"a message in `{column}` has no role")
        if not isinstance(role, str):
            raise _Dropped(f"the role {role!r} is no text")
        if "content" not in message and column == "messages":
            raise _Dropped(f"the {role} message has no content")
        found.append((_STANDARD_ROLE.get(role.replace("-", "_"), role), message.get("content")))
    return found


def _key(key: str) -> str:
    return {"from": "role", "value": "content"}.get(key, key)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise _Dropped("`messages` is a text that is no JSON list") from None


def _openai(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for message in messages:
        calls = message.get("tool_calls") if message.get("role") == "assistant" else None
        if not calls:
            found.append(message)
            continue
        if message.get("content"):
            found.append({"role": "assistant", "content": message["content"]})
        found.extend({"role": "tool_call", "content": "{}"} for _ in calls)
    return found


def _pairs(messages: list[dict[str, Any]], system: Any) -> list[tuple[str, Any]]:
    """`[{"human": …, "assistant": …}]`."""
    found: list[tuple[str, Any]] = [] if system is None else [("system", system)]
    for message in messages:
        query = next((message[key] for key in ("human", "user") if key in message), None)
        answer = next((message[key] for key in ("bot", "gpt", "assistant") if key in message), None)
        if query is None or answer is None:
            raise _Dropped("a message has neither role and content nor a user and an assistant")
        found += [("user", query), ("assistant", answer)]
    return found


def _from_response(row: Mapping[str, Any], alpaca: bool) -> list[tuple[str, Any]]:
    response, query, system = row.get("response"), row.get("query"), row.get("system")
    if alpaca:
        instruction, given = row.get("instruction"), row.get("input")
        response = row.get("output", response) if row.get("output") is not None else response
        query = f"{instruction}\n{given}" if instruction and given else instruction or given
        if not isinstance(query, str):
            raise _Dropped("instruction and input are empty")
    if isinstance(response, (list, tuple)):
        if not response:
            raise _Dropped("the response is an empty list")
        response = response[0]
    history = row.get("history") or []
    if isinstance(history, str):
        history = _parsed(history)
    found: list[tuple[str, Any]] = [] if system is None else [("system", system)]
    if not isinstance(history, list):
        raise _Dropped("`history` is no list")
    for turn in [*history, [query, response]]:
        if not isinstance(turn, (list, tuple)) or len(turn) < 2:
            raise _Dropped("a turn of `history` is no pair of query and response")
        found += [(role, text) for role, text in (("user", turn[0]), ("assistant", turn[1])) if text is not None]
    return found


def _check(row: Mapping[str, Any], messages: Sequence[tuple[str, Any]], has_rejected: bool) -> None:
    objects = row.get("objects")
    if isinstance(objects, dict) and objects.get("bbox") is None:
        raise _Dropped("`objects` has no bbox")
    if has_rejected:
        rejected = row.get("rejected_response")
        if rejected is None:
            raise _Dropped("`rejected_response` is missing or null")
        if messages and isinstance(rejected, str) and rejected == messages[-1][1]:
            raise _Dropped("`rejected_response` equals the chosen answer")
    if not messages:
        raise _Dropped("there is no query and no response")
    for role, content in messages:
        if role not in ROLES:
            raise _Dropped(f"`{role}` is no role (user, assistant, system, tool_call, tool_response)")
        if content is None:
            raise _Dropped(f"the content of a {role} message is null")


def order_fault(messages: Sequence[tuple[str, Any]]) -> str | None:
    """Why the template cannot encode a conversation; None where it can, or that is not sure."""
    turns = list(messages)
    if turns and turns[0][0] == "system":
        turns.pop(0)
    if not turns:
        return "there is nothing but a system message"
    if any(role == "system" for role, _ in turns):
        return "a system message stands in the middle; it can only be the first"
    for role, content in turns:
        if isinstance(content, (bool, int, float)):
            return f"the content of a {role} message is a number; it must be text"
        if isinstance(content, list) and content and isinstance(content[0], dict) and "type" not in content[0]:
            return f"the content of a {role} message is a list whose parts have no type"
    return None
