"""The agent skill: its commands pass `check`, it is short, and its scripts are thin, safe doors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from alula.facts import swift as facts

ROOT = Path(__file__).resolve().parents[2]
SKILL = ROOT / "skills" / "advanced-rl-distributed"
PAGES = sorted(SKILL.rglob("*.md"))
SCRIPTS = ("build_rlhf_command.py", "check_optional_backends.py")
LAUNCHERS = ("swift", "megatron", "torchrun", "deepspeed", "accelerate", "ray", "srun", "sbatch", "kubectl", "docker", "vllm")
BUILD = ("rlhf", "--rlhf-type", "grpo", "--model", "Qwen/Qwen3-8B", "--dataset", "d.jsonl", "--gpus", "8xH100", "--placement", "server", "--to", "shell")


def _sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """(page and heading, its blocks of shell and YAML)."""
    found = []
    for path in PAGES:
        for section in re.split(r"^## ", path.read_text(), flags=re.MULTILINE):
            blocks = re.findall(r"^```(sh|yaml)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
            if blocks:
                found.append((f"{path.stem}: {section.splitlines()[0]}", blocks))
    return found


def _environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which whatever would start training, a cluster job or a server leaves a mark instead."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in LAUNCHERS:
        stub = bin_ / name
        stub.write_text(f'#!/bin/sh\necho "{name} $*" >> "{tmp_path}/started"\n')
        stub.chmod(0o755)
    return {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8", "HOME": str(tmp_path)}


def _script(name: str, *words: str, tmp_path: Path, python: tuple[str, ...] = (sys.executable,), **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*python, str(SKILL / "scripts" / name), *words], cwd=tmp_path, env=_environment(tmp_path) | env, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


def test_every_block_is_in_a_section() -> None:
    fences = sum(len(re.findall(r"^```\w", path.read_text(), re.MULTILINE)) for path in PAGES)
    assert fences == sum(len(blocks) for _, blocks in _sections()) > 5


@pytest.mark.parametrize(("heading", "blocks"), _sections(), ids=lambda value: value if isinstance(value, str) else "")
def test_blocks_pass_check(heading: str, blocks: list[tuple[str, str]], tmp_path: Path) -> None:
    names = []
    for number, (kind, text) in enumerate(blocks):
        (tmp_path / f"{number}.{kind}").write_text(text)
        names.append(f"{number}.{kind}")
    words = [sys.executable, "-m", "alula", "check", "--together", "--swift", "4.6", "--format", "json", *names]
    done = subprocess.run(words, cwd=tmp_path, env=_environment(tmp_path), capture_output=True, text=True, timeout=60, check=False)
    report = json.loads(done.stdout)
    assert len(report["jobs"]) == len(blocks), heading
    bad = [f"{one['code']} {one['message']}" for one in report["findings"] if one["severity"] != "info"]
    assert (done.returncode, bad) == (0, []), heading


def test_flags_in_prose_exist() -> None:
    known = facts.load(facts.resolve("4.6"))
    names = {name for route in known.routes for name in known.flags(route)} | {"config"}  # --config: Megatron on Ray
    help_ = "".join(
        subprocess.run([sys.executable, "-m", "alula", verb, "--help"], capture_output=True, text=True, check=True).stdout for verb in ("check", "build", "doctor")
    )  # fmt: skip
    for path in PAGES:
        for name in re.findall(r"(?<![\w-])--([a-z][\w-]+)", path.read_text()):
            assert name in names or f"--{name}" in help_ or (name == "no_x" and "after `--no_x`" in path.read_text()), f"{path.name}: --{name}"


def test_files_in_prose_exist() -> None:
    for path in PAGES:
        for name in re.findall(r"`((?:references|scripts)/[\w.-]+)", path.read_text()):
            assert (SKILL / name).is_file(), name


def test_front_matter_and_length() -> None:
    text = (SKILL / "SKILL.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front) == {
        "name": "advanced-rl-distributed",
        "description": "Plan and debug advanced ms-swift RLHF, GRPO/GKD, rollout, Ray, and Megatron distributed workflows.",
        "disable-model-invocation": True,
        "license": "Apache 2.0",
        "metadata": {"disco-role": "operating"},
    }
    assert len(text.splitlines()) < 500
    assert len(text.split()) * 1.4 < 5000
    for wanted in ("When to use", "When to hand over", "gap only for the workflow that needs it"):
        assert wanted in body


def test_stubs_leave_a_mark(tmp_path: Path) -> None:
    subprocess.run(["sh", "-c", "swift rlhf --model x"], env=_environment(tmp_path), check=True)
    assert (tmp_path / "started").read_text() == "swift rlhf --model x\n"


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_is_short(name: str, tmp_path: Path) -> None:
    done = _script(name, "--help", tmp_path=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 10 < len(done.stdout.splitlines()) < 80
    assert len(done.stdout.split()) * 1.4 < 1000


def test_build_prints_json_and_starts_nothing(tmp_path: Path) -> None:
    done = _script(SCRIPTS[0], *BUILD, tmp_path=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    text = "".join(report["files"].values())
    assert "swift rollout" in text
    assert "swift rlhf" in text
    assert report["assumptions"]
    assert not [one for one in report["findings"] if one["severity"] == "error"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin"]  # no mark, and no file without --out


def test_build_does_not_overwrite(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in json.loads(_script(SCRIPTS[0], *BUILD, tmp_path=tmp_path).stdout)["files"]:
        (tmp_path / "out" / name).write_text("mine")
    (tmp_path / "bin").rename(tmp_path / "bin0")
    done = _script(SCRIPTS[0], *BUILD, "--out", "out", tmp_path=tmp_path)
    assert done.returncode == 2
    assert {path.read_text() for path in (tmp_path / "out").iterdir()} == {"mine"}


def test_build_says_wrong_usage(tmp_path: Path) -> None:
    done = _script(SCRIPTS[0], "rlhf", "--rlhf-type", "grpoo", tmp_path=tmp_path)
    assert done.returncode == 2
    assert "grpo" in done.stderr
    assert "Traceback" not in done.stderr


def test_backends_needed_and_not(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset d.jsonl\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "fresh")], check=True)
    done = _script(SCRIPTS[1], "run.sh", "--python", str(tmp_path / "fresh" / "bin" / "python"), tmp_path=tmp_path)
    assert done.returncode == 1
    status = {probe["name"]: probe["status"] for probe in json.loads(done.stdout)["probes"]}
    assert status["ms-swift"] == status["trl"] == "missing"
    assert status["ray"] == status["megatron-core"] == status["vllm"] == "not-needed"  # a gap only for the workflow that needs it
    assert not (tmp_path / "started").exists()


def test_backends_of_a_route(tmp_path: Path) -> None:
    done = _script(SCRIPTS[1], "--for", "megatron rlhf", tmp_path=tmp_path)
    assert done.returncode in (0, 1)  # this machine may have them
    needed = {probe["name"] for probe in json.loads(done.stdout)["probes"] if probe["needed_by"]}
    assert {"megatron-core", "mcore-bridge"} <= needed


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_alula(name: str, tmp_path: Path) -> None:
    done = _script(name, "--help", tmp_path=tmp_path, python=(sys.executable, "-S"), PYTHONPATH="")
    assert done.returncode == 4
    assert "alula is not installed" in done.stderr
