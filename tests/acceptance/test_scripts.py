"""Launch scripts of users: the jobs, words and environment that bash really launched, and the verdict of the real ms-swift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alula.facts import swift as facts
from alula.output.show import show_data
from alula.read.run import ReadOptions, load_source, read_command, read_source
from alula.rules.engine import check_run, views_of
from alula.run.job import Cluster, Job, Run
from alula.swift.effective import View
from alula.swift.parse import UNKNOWN

from .conftest import SHARED, cases, needs_cases

pytestmark = needs_cases
SCRIPTS = cases("scripts.jsonl")
EXAMPLES = cases("ms_swift_examples.jsonl")
FACTS = facts.load("4.6.0")
BY_ID = {case["id"]: case for case in SCRIPTS}


def prepare(case: dict[str, Any], folder: Path) -> None:
    """The files and folders that the recording had."""
    setup = case["setup"]
    if "same" in setup:
        prepare(BY_ID[setup["same"]], folder)
    for name in setup.get("dirs", []):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for entry in setup.get("files", []):
        name, text = (entry, "") if isinstance(entry, str) else entry
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in setup.get("stubs", []):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)


def read(case: dict[str, Any], folder: Path) -> Run:
    prepare(case, folder)
    name = case["setup"].get("name") or "run.sh"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((SHARED / "scripts" / f"{case['id']}.sh").read_bytes())
    environ = {"HOME": "/root", "PATH": "/usr/bin", **case["setup"].get("env", {})}
    cluster = Cluster(gpus_per_node=8) if "nvidia-smi" in case["verdict"]["other_progs"] else Cluster()
    return read_source(load_source(str(path)), ReadOptions(tuple(case["setup"].get("args", ())), environ, folder, cluster))


def launched(run: Run) -> list[tuple[int, Job]]:
    return [(at, job) for at, job in enumerate(run.jobs) if not job.commented and not job.maybe]


def words_differ(job: Job, real: dict[str, Any], folder: Path) -> str:
    """What differs from the recording; words that alula says it cannot know may be anything."""
    expected = [word.replace("$CWD", str(folder)) for word in real["argv"]]
    mine = job.words
    if job.route != real["route"]:
        return f"route {job.route}, not {real['route']}"
    if len(mine) != len(expected):
        return f"{len(mine)} words, not {len(expected)}"
    return next((f"{token.text!r}, not {word!r}" for token, word in zip(mine, expected, strict=True) if token.text != word and not token.unresolved), "")


def env_differs(shown: dict[str, str], job: Job, real: dict[str, Any]) -> str:
    for name, value in real["env"].items():
        known = name not in job.env or not job.env[name].token.unresolved
        if not name.startswith("script_") and shown.get(name) != value and known:
            return f"{name}={shown.get(name)}, not {value}"
    return ""


def differs(case: dict[str, Any], folder: Path) -> str:
    run = read(case, folder)
    mine, reals = launched(run), list(case["verdict"]["cmds"])
    if len(mine) != len(reals):
        return f"{len(mine)} jobs, not {len(reals)}"
    shown = show_data([(run, views_of(run, FACTS), [None] * len(run.jobs))])["jobs"]
    for at, job in mine:  # jobs in the background may be recorded in another order
        problems = [words_differ(job, real, folder) or env_differs(shown[at]["env"], job, real) for real in reals]
        if all(problems):
            return problems[0]
        reals.pop(problems.index(""))
    return ""


def test_what_bash_launches(tmp_path: Path) -> None:
    wrong = {}
    for case in SCRIPTS:
        folder = tmp_path / case["id"]
        folder.mkdir()
        problem = differs(case, folder)
        if problem:
            wrong[case["id"]] = problem
    assert len(wrong) <= 0.03 * len(SCRIPTS), wrong


def accepted(real: dict[str, Any]) -> bool:
    return bool(real["argparse"] == "ok" and real["post_init"] in ("ok", "not-run"))


def test_same_verdict_as_the_real_parser(tmp_path: Path) -> None:
    """At most 1 % of the commands differ, and none that is accepted is called refused."""
    false_alarms, missed, count = {}, {}, 0
    for case in SCRIPTS:
        folder = tmp_path / case["id"]
        folder.mkdir()
        run = read(case, folder)
        mine = launched(run)
        reals = case["verdict"]["cmds"]
        if len(mine) != len(reals):
            continue
        findings = [f for f in check_run(run, FACTS, cwd=str(folder)) if f.severity == "error" and f.consequence == "refused"]
        for at, job in mine:
            real = next((r for r in reals if not words_differ(job, r, folder)), None)
            if real is None:
                continue
            count += 1
            refusals = [f"{f.code} {f.message}" for f in findings if at in (f.job, *f.also)]
            if accepted(real) and refusals:
                false_alarms[case["id"]] = refusals
            if not accepted(real) and not refusals:
                missed[case["id"]] = real["message"] or real.get("post_message")
    assert count > 80
    assert not false_alarms
    assert len(missed) <= 0.01 * count, missed


def as_command(real: dict[str, Any]) -> tuple[Run, View]:
    env = [f"{name}={value}" for name, value in (real.get("env") or {}).items() if not name.startswith("script_")]
    options = ReadOptions(environ={}, cluster=Cluster(gpus_per_node=real.get("devices_assumed") or None))
    run = read_command([*env, *real["route"].split(), *real["argv"]], options)
    return run, views_of(run, FACTS)[0]


def test_derived_values_are_the_real_ones() -> None:
    wrong = []
    for case in SCRIPTS:
        for real in case["verdict"]["cmds"]:
            if not real.get("derived") or real.get("yaml"):
                continue
            _, view = as_command(real)
            for name, value in real["derived"].items():
                mine = view.values[name].value if name in view.values else None
                if mine is not UNKNOWN and mine != value:
                    wrong.append((case["id"], name, mine, value))
    assert not wrong


@pytest.mark.parametrize("case", EXAMPLES, ids=lambda case: case["file"])
def test_ms_swifts_own_examples_are_not_refused(case: dict[str, Any]) -> None:
    for real in case.get("cmds", []):
        partial = case["file"].endswith((".yaml", ".json")) and "--model" not in real.get("argv", [])  # the command line gives the rest
        if partial or real.get("route") not in FACTS.routes or real["argparse"] != "ok" or any(word.endswith((".yaml", ".yml", ".json")) for word in real["argv"][:1]):
            continue
        run, _ = as_command(real)
        refusals = [f"{f.code} {f.message}" for f in check_run(run, FACTS) if f.consequence == "refused" and f.severity == "error"]
        assert not refusals, real["argv"]
