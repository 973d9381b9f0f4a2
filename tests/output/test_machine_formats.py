"""The reports for programs: JSON to its contract, SARIF to its schema, GitHub annotations as the runner reads them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from cases import CONFIG, SCRIPT, SECRET, report
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from alula.output.github import render as github
from alula.output.json_v1 import render_check
from alula.output.report import Report
from alula.output.sarif import render as sarif
from alula.rules.registry import Rule, all_rules
from alula.run.finding import Edit, Finding, Fix
from alula.run.source import Source, Span

TEXT = st.text(max_size=20)
RULE = Rule("BAT001", "generation-batch-not-divisible", "error", "high", "refused", "job", (), "3.8", None, "One line.\n\nMore.", None)


def loaded(full: Report) -> dict[str, Any]:
    return json.loads(render_check(full))


# --- JSON ---


def test_json_contract() -> None:
    data = loaded(report())
    assert list(data) == ["version", "findings", "unresolved", "jobs", "summary"]
    assert data["version"] == 1
    assert data["summary"] == {"error": 1, "warning": 3, "info": 1, "suppressed": 1}
    assert data["jobs"] == [{"file": "run.sh", "route": "swift rlhf", "launcher": "torchrun"}]
    batch = next(f for f in data["findings"] if f["code"] == "BAT001")
    assert {k: v for k, v in batch.items() if k not in ("related", "fix")} == {
        "code": "BAT001", "slug": "generation-batch-not-divisible", "severity": "error", "confidence": "high", "consequence": "refused",
        "message": "generation_batch_size 3 must be a multiple of num_generations 8", "job": 0, "jobs": [0], "flags": ["num_generations"],
        "location": {"file": "run.sh", "line": 5, "column": 12, "end_line": 5, "end_column": 31},
    }  # fmt: skip
    assert batch["related"][0] == {
        "label": "3 devices",
        "location": {"file": "run.sh", "line": 4, "column": 22, "end_line": 4, "end_column": 27},
    }
    assert batch["fix"]["safety"] == "safe"
    for edit, old in zip(batch["fix"]["edits"], ("8 --model", "1\n"), strict=True):
        assert SCRIPT[edit["start"] : edit["end"]].decode() == old
    assert data["unresolved"] == [
        {
            "text": "$(date)",
            "expressions": ["$(date)"],
            "location": {"file": "conf/a b.yaml", "line": 2, "column": 5, "end_line": 2, "end_column": 12},
        }
    ]


def test_columns_count_characters_without_a_byte_order_mark() -> None:
    beta = next(f for f in loaded(report())["findings"] if f["code"] == "ZZZ009")
    assert beta["location"] == {"file": "conf/a b.yaml", "line": 1, "column": 1, "end_line": 1, "end_column": 5}
    assert CONFIG.startswith(b"\xef\xbb\xbf")


def test_a_finding_without_a_place_has_its_commands() -> None:
    places = {f["code"]: f["location"] for f in loaded(report())["findings"]}
    assert places["ENV001"] == {"file": "run.sh", "line": 5, "column": 1, "end_line": 5, "end_column": 11}
    assert places["ENV002"] is None


def test_a_fix_that_would_write_a_secret_is_left_to_the_user() -> None:
    fix = next(f for f in loaded(report())["findings"] if f["code"] == "SEC001")["fix"]
    assert fix == {"safety": "manual", "description": "export it", "edits": []}


def test_empty_report() -> None:
    assert loaded(Report((), {})) == {
        "version": 1, "findings": [], "unresolved": [], "jobs": [], "summary": {"error": 0, "warning": 0, "info": 0, "suppressed": 0},
    }  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(message=TEXT, name=TEXT, data=st.binary(max_size=30), places=st.tuples(st.integers(0, 30), st.integers(0, 30)))
def test_every_format_takes_every_text(message: str, name: str, data: bytes, places: tuple[int, int]) -> None:
    start, end = sorted(min(p, len(data)) for p in places)
    span = Span(name, start, end)
    finding = Finding(
        "BAT001", "x", "error", "high", "wrong", "{m}", {"m": message}, span=span, fix=Fix(message, "safe", (Edit(span, message),))
    )
    full = Report((finding,), {name: Source(name, data, name)})
    render_check(full).encode("ascii")
    json.loads(render_check(full))
    assert github(full).count("\n") == 1
    github(full).encode()
    errors = list(validator().iter_errors(json.loads(sarif(full, (RULE,), root="/src"))))
    assert not errors


# --- SARIF ---


@cache
def validator() -> Draft4Validator:
    return Draft4Validator(json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text()))


def run_of(full: Report, **options: Any) -> dict[str, Any]:
    log = json.loads(sarif(full, **options))
    errors = [f"{list(e.absolute_path)}: {e.message}" for e in validator().iter_errors(log)]
    assert not errors
    run: dict[str, Any] = log["runs"][0]
    return run


def test_the_schema_can_fail() -> None:
    assert list(validator().iter_errors({"version": "2.1.0", "runs": [{"results": []}]}))


def test_sarif_lists_every_rule() -> None:
    run = run_of(report())
    rules = run["tool"]["driver"]["rules"]
    known = [rule.code for rule in all_rules()]
    assert len(known) > 20
    assert [rule["id"] for rule in rules][: len(known)] == known
    for rule, described in zip(all_rules(), rules, strict=False):
        assert described["shortDescription"]["text"] == rule.summary
        assert rule.summary in described["help"]["markdown"]
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", described["name"])
        assert described["defaultConfiguration"]["level"] == {"error": "error", "warning": "warning", "info": "note"}[rule.severity]
    for result in run["results"]:  # also of codes that the registry does not know
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert len({rule["id"] for rule in rules}) == len(rules)


def result(code: str, full: Report | None = None, **options: Any) -> dict[str, Any]:
    return next(r for r in run_of(full or report(), rules=(RULE,), **options)["results"] if r["ruleId"] == code)


def test_sarif_result() -> None:
    found = result("BAT001", root="/src")
    assert found["level"] == "error"
    assert found["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "run.sh", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 5, "startColumn": 12, "endLine": 5, "endColumn": 31},
            }
        }
    ]
    assert [(r["id"], r["message"]["text"]) for r in found["relatedLocations"]] == [(1, "3 devices"), (2, "and here"), (3, "no text")]
    assert found["relatedLocations"][1]["physicalLocation"]["artifactLocation"]["uri"] == "conf/a%20b.yaml"
    assert result("ZZZ009")["level"] == "note"
    assert "locations" not in result("ENV002")


def test_sarif_messages_are_no_templates_and_no_links() -> None:
    assert result("ZZZ009")["message"]["text"] == "beta 0.1 [x] (y) {{}}"


def test_sarif_fix_can_be_applied() -> None:
    """Apply the replacements as a viewer does, by lines and UTF-16 columns."""
    fix = result("BAT001")["fixes"][0]
    assert len(fix["artifactChanges"]) == 1
    lines = SCRIPT.decode().split("\n")
    starts = [sum(len((line + "\n").encode("utf-16-le")) for line in lines[:n]) for n in range(len(lines) + 1)]
    data = SCRIPT.decode().encode("utf-16-le")
    for change in reversed(fix["artifactChanges"][0]["replacements"]):
        region = change["deletedRegion"]
        start = starts[region["startLine"] - 1] + 2 * (region["startColumn"] - 1)
        end = starts[region["endLine"] - 1] + 2 * (region["endColumn"] - 1)
        data = data[:start] + change["insertedContent"]["text"].encode("utf-16-le") + data[end:]
    expected = SCRIPT.decode().replace("8 --model", "3 --model").replace("1\n", "1 --new 😀\n")
    assert data.decode("utf-16-le") == expected


def test_sarif_suppressions() -> None:
    assert result("LNC001")["suppressions"] == [{"kind": "inSource", "justification": "known, see #12"}]
    assert result("BAT001")["suppressions"] == []


def test_sarif_secrets() -> None:
    run = run_of(report(), rules=(RULE,))
    assert run["redactionTokens"] == ["…(redacted)"]
    assert "fixes" not in result("SEC001")


@pytest.mark.parametrize(
    ("name", "path", "uri"),
    [
        ("./a/run.sh", "x", "a/run.sh"),
        ("a:b#c?.sh", "x", "a%3Ab%23c%3F.sh"),
        ("训.sh", "x", "%E8%AE%AD.sh"),
        ("/src/a/b.sh", "x", "a/b.sh"),
        ("../other/b.sh", "x", "file:///other/b.sh"),
        ("/else/b c.sh", "x", "file:///else/b%20c.sh"),
        ("-", None, "stdin"),
        ("<args>", None, "%3Cargs%3E"),
        ("\udcff.sh", "x", "%3F.sh"),
    ],
)
def test_sarif_uris(name: str, path: str | None, uri: str) -> None:
    finding = Finding("BAT001", "x", "error", "high", "wrong", "m", span=Span(name, 0, 1))
    found = result("BAT001", Report((finding,), {name: Source(name, b"x", path)}), root="/src")
    location = found["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == uri
    assert ("uriBaseId" in location) == (path is not None and not uri.startswith("file:"))
    assert unquote(uri).isprintable()


def test_fingerprints_stay_while_lines_move() -> None:
    def prints(full: Report) -> list[str]:
        return [r["partialFingerprints"]["alulaFinding/v1"] for r in run_of(full, rules=(RULE,))["results"]]

    first = Finding("BAT001", "x", "error", "high", "wrong", "m", span=Span("a", 0, 4))
    again = replace(first, span=Span("a", 5, 9))
    full = Report((first, again), {"a": Source("a", b"--xx --xx\n")})
    moved = Report(
        (replace(first, span=Span("a", 9, 13)), replace(first, span=Span("a", 14, 18))), {"a": Source("a", b"# moved\n --xx --xx\n")}
    )
    other = Report((first, again), {"a": Source("a", b"--yy --xx\n")})
    assert prints(full) == prints(moved)
    assert len(set(prints(full))) == 2
    assert prints(full)[0] != prints(other)[0]


# --- GitHub ---


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as the runner parses it."""
    m = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert m is not None
    properties = {}
    for pair in m[2].split(","):
        key, _, value = pair.partition("=")
        for escaped, char in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
            value = value.replace(escaped, char)
        properties[key] = value
    message = m[3]
    for escaped, char in (("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        message = message.replace(escaped, char)
    return m[1], properties, message


def test_github_annotations() -> None:
    lines = [parsed(line) for line in github(report()).splitlines()]
    level, properties, message = next(entry for entry in lines if "BAT001" in entry[1]["title"])
    assert level == "error"
    assert properties == {
        "file": "run.sh", "line": "5", "endLine": "5", "col": "12", "endColumn": "31", "title": "BAT001 generation-batch-not-divisible",
    }  # fmt: skip
    assert message == "generation_batch_size 3 must be a multiple of num_generations 8\nfix (safe): write --num_generations 3"
    assert {level for level, _, _ in lines} == {"error", "warning", "notice"}
    assert [p for _, p, _ in lines if "ENV002" in p["title"]] == [{"title": "ENV002 no-place"}]
    assert SECRET not in github(report())


def test_github_escapes_what_the_runner_would_act_on() -> None:
    finding = Finding("A1", "a", "error", "high", "wrong", "100% {v}", {"v": "\n::set-output name=x::1\r"}, span=Span("a,b:c%.sh", 0, 3))
    line = github(Report((finding,), {"a,b:c%.sh": Source("a,b:c%.sh", b"a\nb", "x")}))
    assert line.count("\n") == 1
    level, properties, message = parsed(line.removesuffix("\n"))
    assert properties["file"] == "a,b:c%.sh"
    assert (properties["line"], properties["endLine"]) == ("1", "2")
    assert "col" not in properties
    assert message.startswith("100% ")
    assert level == "error"


def test_github_says_nothing_when_there_is_nothing() -> None:
    assert github(Report((), {})) == ""
