"""The suites' own logic, without ms-swift."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from conformance import alula_side
from conformance.report import Disagreement, Report
from conformance.suites import derived, recorded


@pytest.mark.parametrize(
    ("ours", "real", "equal"),
    [
        ((), None, True),
        (("a",), ["a"], True),
        ("a", ["a"], True),
        (1, 1.0, True),
        (1e-5, 1e-4, False),
        (True, 1, True),
        (None, False, False),
        (None, "x", False),
        (("1", "2"), [1, 2], True),
        (("1",), [1, 2], False),
    ],
)
def test_same(ours: Any, real: Any, equal: bool) -> None:
    assert derived.same(ours, real) is equal


def test_report_counts_a_case_once() -> None:
    report = Report("x", cases=3)
    report.disagreements = [Disagreement("a", "u", 1, 2), Disagreement("a", "v", 1, 2), Disagreement("b", "u", 1, 2, "known")]
    assert report.agreements == 1
    assert len(report.unexplained) == 2
    assert "1 of 3 agree (33.3 %), 2 unexplained" in report.text()


def test_recorded_differences() -> None:
    command = {"argv": ["--model", "m"], "argparse": "ok", "remaining": [], "post_init": "ok", "exc": "", "derived": {"beta": 0.1}}
    answer = {
        "argparse": "ok", "remaining": [], "post_init": "ok", "exc": "", "where": "", "post_message": "", "derived": {"beta": 0.2},
    }  # fmt: skip
    found = list(recorded.compare("c", command, answer, recorded.COMPARED))
    assert [(d.what, d.expected, d.judged) for d in found] == [("derived beta", 0.1, 0.2)]
    assert [d.what for d in recorded.compare("c", command, {**answer, "remaining": ["--x"]}, ("argparse", "remaining"))] == ["remaining"]


def test_a_job_becomes_a_request(tmp_path: Path) -> None:
    words = "CUDA_VISIBLE_DEVICES=4,5 NPROC_PER_NODE=2 NNODES=3 swift rlhf --rlhf_type dpo --model m --dataset d".split()
    request = alula_side.request(alula_side.read_words(words, tmp_path), 0)
    assert isinstance(request, dict)
    assert request["argv"] == ["--rlhf_type", "dpo", "--model", "m", "--dataset", "d"]
    assert (request["world_size"], request["local_world_size"], request["devices"], request["distributed"]) == (6, 2, 2, True)


def test_what_is_not_known_is_not_asked(tmp_path: Path) -> None:
    reading = alula_side.read_files(tmp_path, {"run.sh": 'swift sft --model m --dataset "$(curl x)"\n'})
    assert alula_side.request(reading, 0) == "a word of it is not known before it runs"
