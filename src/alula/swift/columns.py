"""Columns of a data file -> the columns that a trainer and its reward functions see.

Sources (ms-swift 4.6; the same since 3.8): `dataset/loader.py:DatasetLoader._load_dataset_path`, `dataset/preprocessor/core.py` (`AutoPreprocessor`,
`RowPreprocessor.safe_rename_columns`, `ResponsePreprocessor`, `AlpacaPreprocessor`, `MessagesPreprocessor`), `rl_core/data.py:OnPolicySample`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from alula.run.record import record

_MEDIA = {"images": "images", "image": "images", "audios": "audios", "audio": "audios", "videos": "videos", "video": "videos"}
_SYSTEM = {"system": "system", "system_prompt": "system"}
_QUERY = dict.fromkeys(("query", "prompt", "input", "instruction", "question", "problem"), "query")
_RESPONSE = dict.fromkeys(
    ("response", "answer", "output", "targets", "target", "answer_key", "answers", "solution", "text", "completion", "content"), "response"
)
_MESSAGES = dict.fromkeys(("messages", "conversation", "conversations"), "messages")

_PAIRED = ("messages", "images", "videos", "audios", "tools", "objects")
STANDARD = frozenset(
    (*_PAIRED, *(f"{prefix}_{name}" for prefix in ("rejected", "positive", "negative") for name in _PAIRED), "rejected_response", "label", "channel",
     "margin", "teacher_prompt", "teacher_images", "chat_template_kwargs", "ref_audios", "audio_codes", "questions", "kinds", "options", "target_probs",
     "state", "question_ids", "criteria", "omnijev_column_keys", "omnijev_video")
)  # fmt: skip
"""What is kept where `remove_unused_columns` is true."""

REWARD_ALWAYS = frozenset(
    ("trainer_state", "messages", "prompt_id", "request_id", "finish_reason", "is_truncated", "rollout_infos", "response_token_ids")
)
"""Keyword arguments that every reward call gets."""

REWARD_MEDIA = frozenset(("images", "videos", "audios", "tools", "objects"))
"""Given to rewards where a row has them."""

NOT_FOR_REWARDS = frozenset(
    ("response_loss_mask", "rollout_logprobs", "add_eos", "routed_experts", "teacher_prompt", "teacher_images", "teacher_messages", "rewards", "advantages")
)
"""Columns that become fields of the sample and never reach a reward (4.4 and newer)."""

Kind = Literal["messages", "alpaca", "response"]


@record
class Mapped:
    """What ms-swift makes of a file's columns.

    Attributes:
        kind: how rows become messages: from a column of messages, from instruction/input/output, or from a query and a response.
        columns: after the mapping, `messages` included, before unused ones are removed.
        renamed: column of the file -> its new name, by `--columns` or automatically.
        folded: columns that went into the messages and are gone.
    """

    kind: Kind
    columns: frozenset[str]
    renamed: Mapping[str, str]
    folded: frozenset[str]

    def source_of(self, name: str) -> str:
        """The file's own name of a mapped column."""
        return next((old for old, new in self.renamed.items() if new == name), name)


def _rename(columns: Sequence[str], wanted: Mapping[str, str]) -> dict[str, str]:
    """`safe_rename_columns`: regardless of case; two columns for one name cancel each other."""
    actual = {column.lower(): column for column in columns}
    safe = {actual[old.lower()]: new for old, new in wanted.items() if old.lower() in actual}
    several = Counter(safe.values())
    return {old: new for old, new in safe.items() if several[new] == 1 and old != new}


def _renamed(columns: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return [names.get(column, column) for column in columns]


def kind_of(columns: Iterable[str]) -> Kind:
    """Which preprocessor `AutoPreprocessor` takes. It compares these names exactly."""
    here = set(columns)
    if here & set(_MESSAGES):
        return "messages"
    return "alpaca" if {"instruction", "input"} <= here else "response"


def mapped(columns: Sequence[str], user: Mapping[str, str] | None = None, automatic: bool = True) -> Mapped:
    """Follow the columns of a file through `--columns` (`user`) and the automatic mapping (off with `--disable_auto_column_mapping`)."""
    first = _rename(columns, user or {})
    names = _renamed(columns, first)
    kind = kind_of(names)
    wanted = {**_MEDIA, **_SYSTEM, **(_MESSAGES if kind == "messages" else {**_QUERY, **_RESPONSE})}
    second = _rename(names, wanted) if automatic else {}
    after = _renamed(names, second)
    gone = {"system"} if kind == "messages" else {"system", "query", "response", "history"}
    if kind == "alpaca":
        gone |= {"instruction", "input", "output"}
    keeps_solution = "solution" in names  # ms-swift sets a copy of it aside for rewards
    renamed = {old: second.get(first.get(old, old), first.get(old, old)) for old in columns}
    folded = {old for old, new in renamed.items() if new in gone and not (keeps_solution and first.get(old, old) == "solution")}
    left = {name for name in after if name not in gone} | {"messages"} | ({"solution"} if keeps_solution else set())
    return Mapped(kind, frozenset(left), {old: new for old, new in renamed.items() if old != new}, frozenset(folded))


def reward_columns(found: Mapped) -> frozenset[str]:
    """Dataset columns that a reward function gets as keyword arguments, besides those it always gets."""
    return found.columns - NOT_FOR_REWARDS - {"messages", "is_truncated"}
