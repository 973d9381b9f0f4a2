"""Every row of the build matrix, to every target that can say it: read back, and found clean by check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from alula.build.compose import build, fitting
from alula.build.intent import BuildError, Intent
from alula.build.matrix import rows
from alula.build.refused import refusal
from alula.build.reread import reread
from alula.facts import swift as facts
from alula.rules.engine import check_run

FACTS = facts.load("4.6.0")
ROWS = list(rows())
POSSIBLE = [(name, intent) for name, intent in ROWS if refusal(intent) is None]
DATA = "".join(
    json.dumps(
        {
            "messages": [{"role": "user", "content": f"{n} + 1 = ?"}, {"role": "assistant", "content": str(n + 1)}], "rejected_response": str(n),
            "label": n % 2 == 0, "solution": str(n + 1), "teacher_prompt": f"{n} + 1 = ? It is {n + 1}.", "env_config": {"name": "guess_number", "target": 7},
        }
    )
    + "\n"
    for n in range(600)
)  # fmt: skip


def test_the_matrix_is_as_large_as_the_ways_to_run() -> None:
    names = [name for name, _ in ROWS]
    assert len(set(names)) == len(names)
    assert len(POSSIBLE) >= 290
    assert len(ROWS) - len(POSSIBLE) < len(POSSIBLE) / 4


# Every fourth row in the fast suite, spread over the matrix; `make slow` takes them all.
BY_SPEED = [pytest.param(name, intent, id=name, marks=[pytest.mark.slow] if n % 4 else []) for n, (name, intent) in enumerate(POSSIBLE)]


@pytest.mark.parametrize(("name", "intent"), BY_SPEED)
def test_row(name: str, intent: Intent, tmp_path: Path) -> None:
    for target in fitting(intent):
        folder = tmp_path / target
        folder.mkdir()
        (folder / "data.jsonl").write_text(DATA)
        built = build(intent, target, FACTS)
        run = reread(built, target, folder, FACTS.version)
        assert run.jobs, f"{name} to {target}: no job was read back"
        assert not [job for job in run.jobs if job.maybe], f"{name} to {target}: a command is not sure to be reached"
        findings = [f"{f.code} {f.message}" for f in check_run(run, FACTS, cwd=str(folder)) if f.severity != "info"]
        assert not findings, f"{name} to {target}: {findings}"


@pytest.mark.parametrize(("name", "intent"), [(n, i) for n, i in ROWS if refusal(i) is not None][::7])
def test_what_ms_swift_cannot_do_is_refused_in_a_line(name: str, intent: Intent) -> None:
    with pytest.raises(BuildError) as caught:
        build(intent, fitting(intent)[0], FACTS)
    assert "\n" not in str(caught.value), name


def test_a_rayjob_is_two_valid_kubernetes_objects() -> None:
    intent = next(intent for name, intent in ROWS if name == "ray-grpo-separate-colocate-tp2-nodes")
    config, job = yaml.safe_load_all(build(intent, "rayjob", FACTS, image="registry.example/swift:1").files["rayjob.yaml"])
    assert config["kind"] == "ConfigMap"
    assert job["kind"] == "RayJob"
    cluster = job["spec"]["rayClusterSpec"]
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    gpus = [int(pod["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) for pod in pods]
    assert gpus == [8, 8]
    assert cluster["workerGroupSpecs"][0]["replicas"] == 1
    assert "ray.yaml" in config["data"]
    assert "--config ray.yaml" in job["spec"]["entrypoint"]
