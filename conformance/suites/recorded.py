"""The judge against verdicts that were recorded earlier for real scripts: it must not have learned to say something else.

`scripts.jsonl` has whole verdicts, `ms_swift_examples.jsonl` only the parser's. Their folder is `ALULA_CASES`, else `../shared/cases` beside
the repository; without it the suite has nothing to compare.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conformance.client import REPOSITORY, Oracle
from conformance.report import Disagreement, Report

COMPARED = ("argparse", "remaining", "post_init", "exc", "where")
DERIVED_FROM_TRAINER = ("generation_batch_size", "steps_per_generation")


def cases_dir() -> Path:
    """Where the recorded cases lie."""
    return Path(os.environ.get("ALULA_CASES") or REPOSITORY.parent / "shared" / "cases")


def commands(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(case, recorded command) for every command of one file; several commands of a script are numbered."""
    path = cases_dir() / name
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        case = record.get("id") or record["file"]
        found = record.get("verdict", record)["cmds"]
        for number, command in enumerate(found):
            yield (case if len(found) == 1 else f"{case}#{number + 1}"), command


def request(command: dict[str, Any]) -> dict[str, Any]:
    """The request that repeats a recorded command."""
    env = dict(command.get("env") or {})
    env.update({k: str(v) for k, v in (command.get("yaml_env") or {}).items() if k not in env})
    local = _number(env.get("NPROC_PER_NODE"))
    nodes = _number(env.get("NNODES"))
    made = {
        "route": command["route"].partition(" (")[0],
        "argv": command["argv"],
        "env": env,
        "world_size": local * nodes,
        "local_world_size": local,
    }
    if command.get("devices_assumed") is not None:
        made["devices"] = command["devices_assumed"]
    return made


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 1


def run(oracle: Oracle) -> Report:
    """Compare both files."""
    report = Report("recorded")
    for file in ("scripts.jsonl", "ms_swift_examples.jsonl"):
        for case, command in commands(file):
            if "--use_ray" in command["argv"] and "--config" in command["argv"]:
                report.skip("the Ray driver reads a YAML that is not with the case")
                continue
            if command["argv"] and command["argv"][0].endswith((".yaml", ".yml", ".json")):
                report.skip("a configuration file that is not with the case")
                continue
            whole = command.get("post_init") not in (None, "not-run")
            answer = oracle.ask({**request(command), **({} if whole else {"stage": "argparse"})})
            report.cases += 1
            report.disagreements += list(compare(case, command, answer, COMPARED if whole else COMPARED[:2]))
    return report


def compare(case: str, recorded: dict[str, Any], answer: dict[str, Any], keys: tuple[str, ...]) -> Iterator[Disagreement]:
    """Every difference between a recorded verdict and an answer."""
    if "crash" in answer:
        yield Disagreement(case, "crash", recorded["argparse"], answer["crash"])
        return
    known = reason(recorded, answer)
    for key in keys:
        if key == "where" and recorded.get("post_init") != "error":
            continue
        if (recorded.get(key) or "") != (answer.get(key) or ""):
            said = "" if key == "remaining" else f" ({answer['where']} {answer['post_message'][:90]})"
            yield Disagreement(case, key, recorded.get(key), f"{answer.get(key)}{said}", known)
    if answer["post_init"] == "ok" and len(keys) == len(COMPARED):
        for name, value in (recorded.get("derived") or {}).items():
            judged = answer["derived"].get(name)
            if judged != value:
                yield Disagreement(case, f"derived {name}", value, judged)


def reason(recorded: dict[str, Any], answer: dict[str, Any]) -> str:
    """Why a difference is right: the recording stood in for flags that ms-swift itself refuses; empty if it did not."""
    message = answer["post_message"]
    if "Please set --model" in message and "--model" not in recorded["argv"]:
        return "the command names no model, the recording supplied one"
    if message.startswith("model_type: ") and "--model_type" in recorded.get("replaced", ()):
        return "the recording replaced a model type that 4.6.0 does not have"
    return ""
