"""The first rows of a data file and a sample across it, cheaply: no file is read whole unless it is small.

What counts as readable follows the loaders that ms-swift uses (`datasets` 4: JSON lines, a JSON array or single object, csv, text, parquet).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from alula.run.dataset import DatasetSample, Problem, Row, RowsForm

FIRST = 200
SPREAD = 200
WHOLE_BYTES = 1_000_000  # up to here every row is looked at
COUNT_BYTES = 64_000_000  # up to here lines are counted exactly
PARSE_BYTES = 20_000_000  # up to here a JSON array is parsed
SAMPLE_BYTES = 64_000_000  # as much is read for the spread-out rows at most
LINE_BYTES = 4_000_000  # a longer line is not taken apart
_LONG_NUMBER = "a number of several thousand digits"  # Python's limit; no loader has a column for it
FORMS: dict[str, RowsForm] = {".jsonl": "jsonl", ".json": "json", ".csv": "csv", ".txt": "txt", ".parquet": "parquet"}


def form_of(path: str | Path) -> RowsForm | None:
    """The form that ms-swift's loader takes the file for, by its ending; None for endings that are not looked into here."""
    return FORMS.get(os.path.splitext(str(path))[1])


def read_dataset(path: Path, name: str | None = None) -> DatasetSample | None:
    """A file of rows -> what is known about it. `name` is how the user wrote the path.

    None where its form is not looked into, or it is no readable file.
    """
    form = form_of(path)
    shown = name or str(path)
    if form is None:
        return None
    try:
        if not path.is_file():
            return None
        size = path.stat().st_size
        if size == 0:
            return DatasetSample(shown, form, count=0, whole=True, problems=(Problem("empty", "the file is empty"),))
        if form == "parquet":
            return _parquet(path, shown)
        if form == "csv":
            return _csv(path, shown, size)
        if form == "txt":
            return _text(path, shown, size)
        return _json(path, shown, form, size)
    except OSError:
        return None


def row_count(path: Path) -> int | None:
    """Rows of a file, exactly or estimated; None where it cannot be told cheaply."""
    sample = read_dataset(path)
    return sample.count if sample is not None else None


def _columns(rows: list[Row]) -> tuple[str, ...]:
    seen: dict[str, None] = {}
    for row in rows:
        for name in row.values:
            seen.setdefault(str(name))
    return tuple(seen)


# --- JSON ---


def _json(path: Path, name: str, form: RowsForm, size: int) -> DatasetSample | None:
    with path.open("rb") as file:
        head = file.read(4096)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text:
        return DatasetSample(name, form, count=0, whole=size <= 4096, problems=(Problem("empty", "the file holds no rows"),))
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return DatasetSample(name, form, problems=(Problem("encoding", "the file is UTF-16; it must be UTF-8"),))
    if text.startswith(b"["):
        return _whole_json(path, name, form) if size <= PARSE_BYTES else DatasetSample(name, form, exact=False)
    lines = _json_lines(path, name, form, size)
    if lines.problems and lines.problems[0].number == 1 and size <= PARSE_BYTES:
        whole = _whole_json(path, name, form)  # objects that go over several lines are fine
        return lines if whole.problems else whole
    return lines


def _whole_json(path: Path, name: str, form: RowsForm) -> DatasetSample:
    """An array, or objects written over several lines."""
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return DatasetSample(name, form, problems=(_not_utf8(data, error),))
    decoder = json.JSONDecoder(strict=True)
    found: list[Any] = []
    at = 0
    try:
        while True:
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
            if at >= len(text):
                break
            value, at = decoder.raw_decode(text, at)
            if isinstance(value, str):
                return DatasetSample(name, form, problems=(Problem("not-object", "a row must be an object, this is a string", 1),))
            found.extend(value if isinstance(value, list) else [value])
    except (ValueError, RecursionError) as error:
        return DatasetSample(name, form, problems=(_syntax(text, error),))
    if not found:
        return DatasetSample(name, form, count=0, whole=True, problems=(Problem("empty", "the file holds no rows"),))
    picked = list(_picks(len(found)))
    rows = [Row(_object(found[index]), index + 1) for index in picked if isinstance(found[index], (dict, str))]
    problems = tuple(
        Problem("not-object", f"row {index + 1} is {_kind(found[index])}, not an object", index + 1)
        for index in picked
        if not isinstance(found[index], (dict, str))
    )[:3]
    return DatasetSample(name, form, tuple(rows), _columns(rows), len(found), True, len(picked) == len(found), problems)


def _object(value: Any) -> dict[str, Any]:
    """The loader reads an array of strings as rows of one column `text`."""
    return value if isinstance(value, dict) else {"text": value}


def _picks(count: int) -> Iterator[int]:
    """Indices to look at: the first ones, then some spread evenly over the rest."""
    yield from range(min(count, FIRST))
    rest = count - FIRST
    if rest > 0:
        step = max(rest / SPREAD, 1)
        at = float(FIRST)
        while at < count:
            yield int(at)
            at += step


def _json_lines(path: Path, name: str, form: RowsForm, size: int) -> DatasetSample:
    rows: list[Row] = []
    problems: list[Problem] = []
    with path.open("rb") as file:
        read = 0
        whole = True
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), 1):
            start, read = read, read + len(line)
            if len(line) >= LINE_BYTES and not line.endswith(b"\n"):
                whole = False
                break
            _line(line, start, number, rows, problems)
            if (len(rows) + len(problems) >= FIRST and size > WHOLE_BYTES) or len(problems) >= 20:
                whole = file.read(1) == b""
                break
        if whole:
            count: int | None = len(rows) + len(problems)
            exact = True
        else:
            _sample_lines(path, read, size, rows, problems)
            count, exact = _count_lines(path, size, rows)
    return DatasetSample(name, form, tuple(rows), _columns(rows), count, exact, whole, tuple(problems))


def _line(line: bytes, start: int, number: int | None, rows: list[Row], problems: list[Problem]) -> None:
    """Put one line of a JSON-lines file into `rows` or `problems`; blank lines count for nothing."""
    data = line.rstrip(b"\r\n")
    if number == 1:
        data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        return
    end = start + len(line.rstrip(b"\r\n"))
    if data.lstrip().startswith((b"#", b"//")):
        problems.append(Problem("comment", "a comment is no JSON", number, 1, start, end))
        return
    try:
        text = data.decode("utf-8")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        problems.append(Problem("encoding", f"not UTF-8 (byte {error.object[error.start]:#04x})", number, None, start, end))
        return
    except json.JSONDecodeError as error:
        problems.append(Problem("syntax", _words(error), number, error.colno, start, end))
        return
    except RecursionError:
        problems.append(Problem("syntax", "nested too deeply", number, None, start, end))
        return
    except ValueError:
        problems.append(Problem("syntax", _LONG_NUMBER, number, None, start, end))
        return
    if not isinstance(value, dict):
        problems.append(Problem("not-object", f"a row must be an object, this is {_kind(value)}", number, None, start, end))
        return
    rows.append(Row(value, number, start, end))


def _sample_lines(path: Path, after: int, size: int, rows: list[Row], problems: list[Problem]) -> None:
    """Whole lines at even distances behind the first ones; their numbers are not known."""
    step = (size - after) / SPREAD
    last = after
    read = 0
    with path.open("rb") as file:
        for pick in range(SPREAD):
            where = max(int(after + pick * step), last)
            if where >= size:
                break
            file.seek(where)
            rest = file.readline(LINE_BYTES) if where > after else b"\n"  # of the line that `where` is in
            read += len(rest)
            if read > SAMPLE_BYTES:
                return
            if not rest.endswith(b"\n"):
                continue
            start = file.tell()
            line = file.readline(LINE_BYTES)
            read += len(line)
            if not line or (len(line) >= LINE_BYTES and not line.endswith(b"\n")):
                continue
            last = start + len(line)
            _line(line, start, None, rows, problems)
            if len(problems) >= 20:
                return


def _count_lines(path: Path, size: int, rows: list[Row]) -> tuple[int | None, bool]:
    if size <= COUNT_BYTES:
        count = 0
        last = b"\n"
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                count += chunk.count(b"\n")
                last = chunk[-1:]
        return count + (last != b"\n"), True
    lengths = [row.end - row.start + 1 for row in rows if row.end]
    return (round(size / (sum(lengths) / len(lengths))), False) if lengths else (None, False)


def _words(error: json.JSONDecodeError) -> str:
    return error.msg[:1].lower() + error.msg[1:]


def _syntax(text: str, error: ValueError | RecursionError) -> Problem:
    if isinstance(error, RecursionError):
        return Problem("syntax", "nested too deeply")
    if not isinstance(error, json.JSONDecodeError):
        return Problem("syntax", _LONG_NUMBER)
    start = len(text[: error.pos].encode("utf-8", "surrogatepass"))
    return Problem("syntax", _words(error), error.lineno, error.colno, start, start)


def _not_utf8(data: bytes, error: UnicodeDecodeError) -> Problem:
    line = data.count(b"\n", 0, error.start) + 1
    return Problem("encoding", f"not UTF-8 (byte {data[error.start]:#04x})", line, None, error.start, error.start + 1)


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)


# --- csv, text, parquet ---


def _csv(path: Path, name: str, size: int) -> DatasetSample:
    """ms-swift reads csv with pandas and `na_filter=False`: a column of numbers is numbers, everything else text."""
    import csv

    rows: list[dict[str, Any]] = []
    problems: list[Problem] = []
    count = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, None)
            if header is None:
                return DatasetSample(name, "csv", count=0, whole=True, problems=(Problem("empty", "the file holds no rows"),))
            for record in reader:
                if not record:
                    continue
                count += 1
                if len(record) > len(header):
                    message = f"{len(record)} fields, the header has {len(header)}"
                    problems.append(Problem("syntax", message, reader.line_num))
                    break
                if len(rows) < FIRST + SPREAD:
                    rows.append(dict(zip(header, record, strict=False)))
                elif size > PARSE_BYTES:
                    break
    except UnicodeDecodeError as error:
        return DatasetSample(name, "csv", problems=(Problem("encoding", f"not UTF-8 (byte {error.object[error.start]:#04x})"),))
    except csv.Error as error:
        return DatasetSample(name, "csv", problems=(Problem("syntax", str(error)),))
    whole = len(rows) == count and not problems
    known = whole or (size <= PARSE_BYTES and not problems)
    typed = _typed(header, rows)
    if count == 0:
        problems.append(Problem("empty", "the file holds a header and no rows"))
    made = [Row(values, number) for number, values in enumerate(typed, 1)]
    return DatasetSample(name, "csv", tuple(made), tuple(header), count if known else None, known, whole, tuple(problems))


def _typed(header: list[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for column in header:
        values = [row.get(column, "") for row in rows]
        for convert in (int, float):
            try:
                numbers = [convert(value) for value in values]
            except ValueError:
                continue
            if any("_" in value for value in values):  # Python's own spelling, which pandas leaves text
                break
            for row, number in zip(rows, numbers, strict=True):
                row[column] = number
            break
    return rows


def _text(path: Path, name: str, size: int) -> DatasetSample:
    """Every line is a row of one column `text`."""
    rows: list[Row] = []
    with path.open("rb") as file:
        at = 0
        for number, line in enumerate(iter(lambda: file.readline(LINE_BYTES), b""), 1):
            rows.append(Row({"text": line.decode("utf-8", "replace").rstrip("\r\n")}, number, at, at + len(line)))
            at += len(line)
            if number >= FIRST:
                break
    whole = at >= size
    count, exact = (len(rows), True) if whole else _count_lines(path, size, rows)
    return DatasetSample(name, "txt", tuple(rows), ("text",), count, exact, whole)


def _parquet(path: Path, name: str) -> DatasetSample | None:
    """Only where pyarrow is installed."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        return None
    try:
        file = parquet.ParquetFile(path)
        batch = next(file.iter_batches(batch_size=FIRST), None)
        rows = [Row(values, number) for number, values in enumerate(batch.to_pylist() if batch is not None else [], 1)]
        count = file.metadata.num_rows
        return DatasetSample(name, "parquet", tuple(rows), tuple(file.schema_arrow.names), count, True, len(rows) == count)
    except (OSError, ValueError) as error:
        return DatasetSample(name, "parquet", problems=(Problem("unreadable", str(error).splitlines()[0][:200]),))
