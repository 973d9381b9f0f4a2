"""What README shows is what alula prints."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


def _readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("readme", Path(__file__).with_name("readme.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_console_blocks_print_what_stands_there(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("```console\n$ alula") >= 6
    assert _readme().rerun(text, tmp_path) == text, "after a wanted change: python tests/docs/readme.py"


def test_a_drift_is_seen(tmp_path: Path) -> None:
    text = "```console\n$ alula --version\nalula 0.0.0-no\n$ echo one; echo two >&2\none\n```\n"
    again = _readme().rerun(text, tmp_path)
    assert "0.0.0-no" not in again
    assert re.search(r"\$ alula --version\n.*\d+\.\d+", again)
    assert again.endswith("one\ntwo\n```\n")


def test_make_targets_and_files_exist() -> None:
    text = (ROOT / "README.md").read_text()
    makefiles = (ROOT / "Makefile").read_text() + "".join(path.read_text() for path in sorted((ROOT / "mk").glob("*.mk")))
    for target in re.findall(r"(?:^|`)make (\w+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefiles, re.MULTILINE), target
    for name in re.findall(r"`((?:docs|examples|skills|conformance)/[\w./-]+|[\w]+\.(?:yml|md))`", text):
        assert (ROOT / name).exists(), name
