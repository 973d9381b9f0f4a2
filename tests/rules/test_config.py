"""Config files: what YAML's words become on the command line that ms-swift makes of them."""

from __future__ import annotations

import pytest

from .conftest import Checker

BASE = "model: Qwen/Qwen3-8B\ndataset: data.jsonl\n"

HITS = [
    ("CFG002", "system: null\n", "--system None"),
    ("CFG002", "adapters: ~\n", "a null in the config"),
    ("CFG002", "val_dataset:\n", "--val_dataset None"),
    ("CFG003", "val_dataset: v.jsonl\neval_strategy: no\n", 'quote it: eval_strategy: "no"'),
    ("CFG003", "report_to: off\n", "arrives as False"),
    ("CFG004", "val_dataset:\n  - path: v.jsonl\n", "an item is a mapping"),
    ("CFG005", "ENV:\n  NPROC_PER_NODE: 4\n", "the environment already has 8"),
    ("CFG005", "ENV:\n  - NPROC_PER_NODE=4\n", "must be a mapping"),
]

SILENT = [
    ("CFG002", "max_steps: 10\n"),
    ("CFG002", "system: 'nothing'\n"),
    ("CFG002", "deepspeed: null\n"),  # refused, and said there
    ("CFG002", "torch_dtype: null\n"),  # None is one of its choices
    ("CFG003", 'val_dataset: v.jsonl\neval_strategy: "no"\n'),
    ("CFG003", "streaming: no\n"),  # a real boolean
    ("CFG004", "val_dataset: [a.jsonl, b.jsonl]\n"),
    ("CFG004", 'model_kwargs: {"max_pixels": 1}\n'),  # JSON is what it takes
    ("CFG005", "ENV:\n  NPROC_PER_NODE: 8\n"),
    ("CFG005", "ENV:\n  OMP_NUM_THREADS: 8\n"),
]


def findings(check: Checker, yaml: str) -> list[tuple[str, str]]:
    return [(f.code, f.message) for f in check("NPROC_PER_NODE=8 swift sft train.yaml\n", {"train.yaml": BASE + yaml})]


@pytest.mark.parametrize(("code", "yaml", "says"), HITS)
def test_said(check: Checker, code: str, yaml: str, says: str) -> None:
    found = [message for at, message in findings(check, yaml) if at == code]
    assert found, f"{code} is silent"
    assert any(says in message for message in found), found


@pytest.mark.parametrize(("code", "yaml"), SILENT)
def test_silent(check: Checker, code: str, yaml: str) -> None:
    assert [message for at, message in findings(check, yaml) if at == code] == []


def test_none_on_the_command_line(check: Checker) -> None:
    found = [f.message for f in check("swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --system None") if f.code == "CFG002"]
    assert found == ["--system None is not the same as leaving it out: it is text"]


def test_a_bare_config(check: Checker) -> None:
    found = {f.code for f in check(BASE + "system: null\nval_dataset: v.jsonl\neval_strategy: no\n", name="train.yaml", route="swift sft")}
    assert {"CFG002", "CFG003"} <= found


def test_fixes_edit_the_config(check: Checker) -> None:
    """The null goes, the word is quoted; the result has neither fault."""
    text = BASE + "system: null\nval_dataset: v.jsonl\neval_strategy: no\n"
    found = [f for f in check("swift sft train.yaml\n", {"train.yaml": text}) if f.code in ("CFG002", "CFG003")]
    edits = sorted((edit for f in found if f.fix for edit in f.fix.edits), key=lambda edit: -edit.span.start)
    assert len(found) == len(edits) == 2
    for edit in edits:
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert not {f.code for f in check("swift sft train.yaml\n", {"train.yaml": text})} & {"CFG002", "CFG003"}, text
