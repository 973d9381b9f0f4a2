"""Rows of training data, as far as they were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from alula.run.record import record

RowsForm = Literal["jsonl", "json", "csv", "txt", "parquet"]
ProblemKind = Literal["syntax", "not-object", "encoding", "empty", "unreadable", "comment"]


@record
class Row:
    """One row.

    Attributes:
        values: column to value.
        number: the line it stands on (JSON lines, text), else its ordinal from 1; None where it was taken from the middle of a large file.
        start, end: its bytes in the file; both 0 where the form has none.
    """

    values: Mapping[str, Any]
    number: int | None = None
    start: int = 0
    end: int = 0


@record
class Problem:
    """Something that keeps a file, or one line of it, from being read.

    Attributes:
        message: what is wrong there, without the file's name.
        number: the line, where it is known.
        column: the character in that line, from 1.
        start, end: the bytes it is about.
    """

    kind: ProblemKind
    message: str
    number: int | None = None
    column: int | None = None
    start: int = 0
    end: int = 0


@record
class DatasetSample:
    """What is known about one local file of rows.

    Attributes:
        path: as the user wrote it.
        rows: the first ones, and some from all over a larger file.
        columns: the columns of `rows`, in the order in which they appear.
        count: rows in the file; None where it cannot be told without reading it all.
        exact: `count` is exact, not an estimate from the mean length of the sampled rows.
        whole: `rows` are all rows.
    """

    path: str
    form: RowsForm
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()
    count: int | None = None
    exact: bool = True
    whole: bool = False
    problems: tuple[Problem, ...] = ()

    def having(self, column: str) -> list[Row]:
        """The rows in which the column is there and not null."""
        return [row for row in self.rows if row.values.get(column) is not None]
