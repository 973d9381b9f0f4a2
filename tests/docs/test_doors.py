"""The pre-commit hooks, the GitHub Action and the changelog, as far as they can be run without their hosts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import alula

ROOT = Path(__file__).resolve().parents[2]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())


@pytest.fixture
def shell(tmp_path: Path) -> Any:
    """`shell(command, **environment)` in a copy of the example, with `alula` on the path."""
    work, bin_ = tmp_path / "work", tmp_path / "bin"
    shutil.copytree(ROOT / "examples" / "grpo_server", work)
    bin_.mkdir()
    (bin_ / "alula").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m alula "$@"\n')
    (bin_ / "alula").chmod(0o755)

    def run(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8", **environment}
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]  # as GitHub starts `shell: bash`
        return subprocess.run(words, cwd=work, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_hooks_name_what_pre_commit_wants() -> None:
    assert [hook["id"] for hook in HOOKS] == ["alula-check", "alula-check-config"]
    for hook in HOOKS:
        assert hook["language"] == "python"
        assert {"id", "name", "entry", "language", "types"} <= set(hook)
    assert [hook["types"] for hook in HOOKS] == [["shell"], ["yaml"]]


def test_hook_entries_judge_files(shell: Any) -> None:
    scripts, configs = (hook["entry"] for hook in HOOKS)
    bad = shell(f"{scripts} rollout.sh train.sh")
    assert bad.returncode == 1
    assert "train.sh:19:23 error[BAT001" in bad.stdout
    assert shell(f"{scripts} rollout.sh").returncode == 0
    assert shell(f"printf 'echo hello\\n' > other.sh; {scripts} other.sh").returncode == 0
    config = shell(f"printf 'model: Qwen/Qwen3-8B\\ndataset: d.jsonl\\nrlhf_type: dpoo\\n' > run.yaml; {configs} run.yaml")
    assert config.returncode == 1
    assert "run.yaml:3" in config.stdout


def _step(shell: Any, *, before: str = "", **inputs: str) -> subprocess.CompletedProcess[str]:
    """The action's last step, with its inputs put in as GitHub does."""
    step = ACTION["runs"]["steps"][-1]
    values = {name: str(spec.get("default", "")) for name, spec in ACTION["inputs"].items()} | inputs
    env = {name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m.group(1)], text) for name, text in step["env"].items()}
    assert "${{" not in step["run"]  # an input pasted into a script is a way in
    done: subprocess.CompletedProcess[str] = shell(before + step["run"], **env)
    return done


def test_action_annotates_and_fails(shell: Any) -> None:
    done = _step(shell, files="*.sh")
    assert done.returncode == 1, done.stderr
    assert "::error file=train.sh,line=19," in done.stdout


def test_action_writes_a_file(shell: Any) -> None:
    done = _step(shell, files="train.sh", format="sarif", output="out.sarif")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    log = json.loads(shell("cat out.sarif").stdout)
    assert log["version"] == "2.1.0"
    assert {"BAT001", "FLG002"} <= {result["ruleId"] for result in log["runs"][0]["results"]}
    assert _step(shell, files="nothing/**/*.sh").returncode == 2  # a glob without files must not pass


def test_action_inputs_reach_alula(shell: Any) -> None:
    echo = 'alula() { echo "$@"; }\n'
    assert _step(shell, before=echo, files="*.sh").stdout == "check --fail-on warning --format github rollout.sh train.sh\n"
    given = {"fail-on": "error", "files": "train.sh  rollout.sh", "together": "true", "swift": "3.12", "format": "sarif", "output": "a b"}
    words = "check --fail-on error --format sarif --together --swift 3.12 --output a b train.sh rollout.sh\n"
    assert _step(shell, before=echo, **given).stdout == words


def test_action_installs_its_own_checkout() -> None:
    setup, install, _ = ACTION["runs"]["steps"]
    assert ACTION["runs"]["using"] == "composite"
    assert setup["uses"].startswith("actions/setup-python@")
    assert install["env"] == {"ALULA_PATH": "${{ github.action_path }}"}
    assert '"$ALULA_PATH"' in install["run"]


def test_changelog_has_this_version() -> None:
    assert re.search(rf"^## \[{re.escape(alula.__version__)}\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
