"""What rule tests share: check a script's text, with files beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from alula.facts import swift as facts
from alula.read.run import ReadOptions, load_source, read_source, together
from alula.rules.engine import Selection, check_run
from alula.rules.suppress import apply_suppressions
from alula.run.finding import Finding
from alula.run.job import Cluster

Checker = Callable[..., list[Finding]]


def check_files(
    folder: Path, files: dict[str, str], *, version: str = "4.6.0", cluster: Cluster | None = None, pedantic: bool = False, route: str | None = None,
    dataset: str | None = None,
) -> list[Finding]:  # fmt: skip
    """Write the files and check the first one, all scripts among them together."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    options = ReadOptions(environ={}, cwd=folder, cluster=cluster or Cluster(), route=route, version=version)
    entries = [name for at, name in enumerate(files) if at == 0 or name.endswith(".sh")]
    run = together([read_source(load_source(str(folder / name)), options) for name in entries])
    found = check_run(run, facts.load(facts.resolve(version)), Selection(pedantic=pedantic), dataset_file=dataset, cwd=str(folder))
    return apply_suppressions(found, run)[0]


@pytest.fixture
def check(tmp_path: Path) -> Checker:
    """check("swift rlhf …", **{"plugin.py": "…"}, …) -> findings. A text without a file name is `run.sh`."""

    def run(script: str, files: dict[str, str] | None = None, *, name: str = "run.sh", **options: object) -> list[Finding]:
        return check_files(tmp_path, {name: script, **(files or {})}, **options)  # type: ignore[arg-type]

    return run
