"""Data files: the rows that are looked at, counts, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.read import dataset
from alula.read.dataset import read_dataset, row_count
from alula.run.dataset import DatasetSample


def sample(path: Path, data: bytes | str) -> DatasetSample:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    found = read_dataset(path, "rows")
    assert found is not None
    return found


def lines(count: int) -> str:
    return "".join(json.dumps({"n": at, "text": "x" * 50}) + "\n" for at in range(count))


def test_lines_and_places(tmp_path: Path) -> None:
    found = sample(tmp_path / "a.jsonl", '{"a": 1}\n\n{"b": "é"}\r\n{"a": 3}')
    assert found.columns == ("a", "b")
    assert (found.count, found.exact, found.whole) == (3, True, True)
    assert [(row.number, row.start, row.end) for row in found.rows] == [(1, 0, 8), (3, 10, 21), (4, 23, 31)]


@pytest.mark.parametrize(
    ("data", "kind", "number"),
    [
        ('{"a": 1}\n{"a": }\n', "syntax", 2),
        ('{"a": 1}\n// no\n', "comment", 2),
        ('{"a": 1}\n3\n', "not-object", 2),
        (b'{"a": 1}\n{"a": "\xff"}\n', "encoding", 2),
        ("", "empty", None),
        ("\n\n", "empty", None),
        ("[]", "empty", None),
        ('[{"a": 1},]', "syntax", 1),
        ("[1, 2]", "not-object", 1),
        (b"\xff\xfe[\x00", "encoding", None),
        ("{'a': 1}\n", "syntax", 1),
        ('{"a": "x\ty"}\n', "syntax", 1),
        ("{" * 3000, "syntax", 1),
        ('"a"\n"b"\n', "not-object", 1),
    ],
)
def test_problems(tmp_path: Path, data: bytes | str, kind: str, number: int | None) -> None:
    found = sample(tmp_path / "a.jsonl", data)
    assert found.problems
    assert (found.problems[0].kind, found.problems[0].number) == (kind, number)


@pytest.mark.parametrize("data", ['[{"a": 1}, {"a": 2}]', '{\n "a": 1\n}\n{\n "a": 2\n}', '\ufeff{"a": 1}\n{"a": 2}\n', '  \n{"a": 1}\n{"a": 2}\n', '{"a": 1}\r\n{"a": 2}\r\n'])
def test_forms_of_json_that_the_loader_takes(tmp_path: Path, data: str) -> None:
    for name in ("a.json", "a.jsonl"):
        found = sample(tmp_path / name, data)
        assert not found.problems
        assert [row.values for row in found.rows] == [{"a": 1}, {"a": 2}]
        assert found.count == 2


def test_an_array_of_texts_is_one_column(tmp_path: Path) -> None:
    assert sample(tmp_path / "a.json", '["x", "y"]').columns == ("text",)


def test_large_files_are_sampled_all_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset, "WHOLE_BYTES", 10_000)
    found = sample(tmp_path / "a.jsonl", lines(5000))
    assert not found.whole
    assert (found.count, found.exact) == (5000, True)
    assert len(found.rows) <= dataset.FIRST + dataset.SPREAD
    later = [row.values["n"] for row in found.rows if row.number is None]
    assert later == sorted(set(later))
    assert max(later) > 4800
    monkeypatch.setattr(dataset, "COUNT_BYTES", 10_000)
    found = sample(tmp_path / "a.jsonl", lines(5000))
    assert not found.exact
    assert found.count is not None
    assert abs(found.count - 5000) < 150


def test_a_broken_line_in_the_middle_is_met_when_all_is_read(tmp_path: Path) -> None:
    found = sample(tmp_path / "a.jsonl", lines(300) + "{\n" + lines(10))
    assert [problem.number for problem in found.problems] == [301]


def test_csv(tmp_path: Path) -> None:
    found = sample(tmp_path / "a.csv", "query,n,m,t\nq,1,1.5,1_0\nr,2,,3\n")
    assert found.columns == ("query", "n", "m", "t")
    assert [row.values for row in found.rows] == [{"query": "q", "n": 1, "m": "1.5", "t": "1_0"}, {"query": "r", "n": 2, "m": "", "t": "3"}]
    assert sample(tmp_path / "a.csv", "a,b\n1,2,3\n").problems[0].kind == "syntax"
    assert sample(tmp_path / "a.csv", "a,b\n").problems[0].kind == "empty"


def test_text(tmp_path: Path) -> None:
    found = sample(tmp_path / "a.txt", "one\ntwo\n")
    assert [row.values for row in found.rows] == [{"text": "one"}, {"text": "two"}]


def test_what_is_not_looked_into(tmp_path: Path) -> None:
    assert read_dataset(tmp_path / "missing.jsonl") is None
    assert read_dataset(tmp_path) is None
    (tmp_path / "a.tsv").write_text("a\tb\n")
    assert read_dataset(tmp_path / "a.tsv") is None
    assert row_count(tmp_path / "a.tsv") is None


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["jsonl", "json", "csv", "txt"]))
def test_no_bytes_end_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str) -> None:
    path = tmp_path_factory.getbasetemp() / f"random.{ending}"
    path.write_bytes(data)
    found = read_dataset(path)
    assert found is not None
    assert all(0 <= row.start <= row.end <= len(data) for row in found.rows)
