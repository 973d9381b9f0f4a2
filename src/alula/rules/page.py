"""A rule's page: its docstring, taken apart.

Form of the docstring:

    One line that says what it finds.

    What it checks and why, in a few sentences.

    In the log: what you would see without alula (one line, may be empty for silent faults).

    Wrong:
    ```sh
    NPROC_PER_NODE=…
    ```

    Right:
    ```sh
    …
    ```

    Source: file.py:symbol (ms-swift)
    Not shown on CPU: why the real ms-swift cannot refuse the wrong example on a CPU (errors only; leave out where it can)

A fence's info string may name a file after the language (```python plugin.py); several fences make one run.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING

from alula.run.record import record

if TYPE_CHECKING:
    from .registry import Rule

_FENCE = re.compile(r"```(\w+)[ \t]*([^\n`]*)\n(.*?)```", re.S)
_DEFAULT_NAME = {"sh": "run.sh", "yaml": "run.yaml", "python": "plugin.py", "jsonl": "data.jsonl", "json": "config.json"}


@record
class Page:
    """A rule's page in parts. `wrong` and `right` map file names to text, in the order written; the first is the entry."""

    summary: str
    body: str
    log: str
    wrong: dict[str, str]
    right: dict[str, str]
    source: str
    unshown: str | None
    text: str


def page(rule: Rule) -> Page:
    """Rule -> Page. Missing parts are empty; the completeness test names them."""
    text = cleandoc(rule.doc)
    summary, _, rest = text.partition("\n")
    head, _, examples = rest.partition("\nWrong:")
    wrong, _, tail = examples.partition("\nRight:")
    body, _, log = head.partition("\nIn the log:")
    return Page(
        summary.strip(), body.strip(), log.strip(), _files(wrong), _files(tail), _line(text, "Source:"), _line(text, "Not shown on CPU:") or None, text
    )  # fmt: skip


def _files(part: str) -> dict[str, str]:
    return {(name.strip() or _DEFAULT_NAME.get(language, f"file.{language}")): text for language, name, text in _FENCE.findall(part)}


def _line(text: str, head: str) -> str:
    lines = [line[len(head) :].strip() for line in text.splitlines() if line.startswith(head)]
    return " ".join(lines)
