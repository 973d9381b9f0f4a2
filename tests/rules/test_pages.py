"""Every rule is whole: a page, a wrong and a right example that behave as the page says, and a place in ms-swift's source."""

from __future__ import annotations

from pathlib import Path

import pytest

from alula.facts.swift import newest
from alula.rules.page import page
from alula.rules.registry import Rule, all_rules

from .conftest import check_files

RULES = all_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_page_is_whole(rule: Rule) -> None:
    parts = page(rule)
    missing = [name for name in ("summary", "body", "wrong", "right", "source") if not getattr(parts, name)]
    assert not missing, f"{rule.code}: its docstring lacks {', '.join(missing)}"
    assert "In the log:" in parts.text, f"{rule.code}: say what the log shows, or that it shows nothing"
    assert len(parts.summary) <= 140


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.code)
def test_examples_behave(rule: Rule, tmp_path: Path) -> None:
    parts = page(rule)
    version = rule.until or newest()
    wrong = check_files(tmp_path / "wrong", parts.wrong, version=version, pedantic=True)
    assert rule.code in {f.code for f in wrong}, f"{rule.code} does not fire on its own wrong example; found {[f.message for f in wrong]}"
    right = check_files(tmp_path / "right", parts.right, version=version, pedantic=True)
    assert rule.code not in {f.code for f in right}
    errors = [f"{f.code}: {f.message}" for f in right if f.severity == "error"]
    assert not errors, f"{rule.code}: its right example is wrong: {errors}"


def test_codes_and_slugs_are_unique() -> None:
    assert len({rule.slug for rule in RULES}) == len(RULES)
