"""The numbers that recipes choose, for any size; and the verb itself."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from alula.build.compose import build
from alula.build.intent import BuildError, Intent, Parallel
from alula.build.recipes import make
from alula.cli.build import command
from alula.facts import swift as facts
from alula.rules.engine import views_of
from alula.run.job import Cluster

FACTS = facts.load("4.6.0")


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 16), st.integers(1, 4), st.integers(2, 24), st.integers(1, 9), st.sampled_from(["none", "colocate", "server"]))
def test_grpo_batches_come_out_even(gpus: int, nodes: int, generations: int, per_device: int, placement: str) -> None:
    chosen = {"num_generations": (str(generations),), "per_device_train_batch_size": (str(per_device),)}
    intent = Intent("rlhf", "grpo", "M", ("d.jsonl",), Cluster("H100", gpus, nodes), placement, settings=chosen)  # type: ignore[arg-type]
    try:
        made = make(intent, FACTS)
    except BuildError:
        assert placement == "server"
        assert gpus * nodes < 2 or (nodes == 1 and gpus < 2)
        return
    trainer = views_of(made.run(intent), FACTS)[-1]
    sizes = trainer.generation
    assert sizes is not None or nodes > 1
    if sizes is not None:
        assert sizes.conflict is None
        assert sizes.generation_batch_size % generations == 0


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2]), st.integers(2, 16), st.integers(1, 4))
def test_megatron_grpo_batches_come_out_even(gpus: int, nodes: int, tensor: int, pipeline: int, generations: int, micro: int) -> None:
    assume(gpus * nodes % (tensor * pipeline) == 0)
    chosen = {"num_generations": (str(generations),), "micro_batch_size": (str(micro),)}
    intent = Intent("megatron rlhf", "grpo", "M", ("d",), Cluster("H100", gpus, nodes), "colocate", "full", parallel=Parallel(tensor, pipeline), settings=chosen)
    flags = {token.text: made.argv[at + 1].text for made in make(intent, FACTS).jobs for at, token in enumerate(made.argv[:-1]) if token.text.startswith("--")}
    size, replicas = int(flags["--global_batch_size"]), gpus * nodes // (tensor * pipeline)
    assert size % (micro * replicas) == 0
    assert size % generations == 0
    prompts = size // generations
    assert prompts % replicas == 0
    assert prompts // replicas % micro == 0


def test_server_and_trainer_share_no_gpu() -> None:
    for gpus in range(2, 17):
        made = make(Intent("rlhf", "grpo", "M", ("d",), Cluster("H100", gpus, 1), "server"), FACTS)
        server, trainer = made.jobs
        mine = set(trainer.env["CUDA_VISIBLE_DEVICES"].token.text.split(","))
        theirs = set(server.env["CUDA_VISIBLE_DEVICES"].token.text.split(","))
        assert not mine & theirs
        assert len(mine) + len(theirs) == gpus
        assert trainer.env["NPROC_PER_NODE"].token.text == str(len(mine))


def test_the_script_is_valid_bash(tmp_path: Path) -> None:
    for placement in ("colocate", "server"):
        for nodes in (1, 2):
            for target in ("shell", "sbatch"):
                intent = Intent("rlhf", "grpo", None, (), Cluster("H100", 8, nodes), placement)  # type: ignore[arg-type]
                for name, text in build(intent, target, FACTS).files.items():  # type: ignore[arg-type]
                    path = tmp_path / name
                    path.write_text(text)
                    if name.endswith((".sh", ".sbatch")):
                        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
                        assert done.returncode == 0, done.stderr


def alula_build(*words: str) -> Result:
    return CliRunner().invoke(command, list(words), standalone_mode=False)


BASE = ("rlhf", "--rlhf-type", "grpo", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "d.jsonl", "--gpus", "8xH100")


def test_json_has_the_contracts_fields() -> None:
    result = alula_build(*BASE, "--placement", "server", "--format", "json")
    data = json.loads(result.output)
    assert data["version"] == 1
    assert set(data) == {"version", "files", "findings", "assumptions"}
    assert "swift rollout" in data["files"]["run.sh"]
    assert result.return_value == 0


def test_settings_win_and_the_arithmetic_follows() -> None:
    data = json.loads(alula_build(*BASE, "--set", "num_generations=6", "--format", "json").output)
    text = data["files"]["run.sh"]
    assert "--num_generations 6" in text
    assert not [f for f in data["findings"] if f["severity"] == "error"]


def test_a_bad_setting_of_the_persons_is_built_and_reported() -> None:
    result = alula_build(*BASE, "--set", "generation_batch_size=13", "--format", "json")
    assert result.return_value == 1
    assert any(f["code"].startswith("BAT") for f in json.loads(result.output)["findings"])


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert alula_build(*BASE, "--out", str(out)).return_value == 0
    before = (out / "run.sh").read_bytes()
    again = CliRunner().invoke(command, [*BASE, "--out", str(out)])
    assert again.exit_code == 2
    assert "overwrites nothing" in again.output
    assert (out / "run.sh").read_bytes() == before


USAGE = [
    (("rlfh",), "did you mean 'rlhf'"),
    (("rlhf",), "needs --rlhf-type"),
    (("sft", "--rlhf-type", "dpo"), "belongs to rlhf"),
    ((*BASE, "--set", "num_generation=6"), "did you mean num_generations"),
    ((*BASE, "--set", "vllm_mode=colocated"), "must be one of"),
    ((*BASE, "--set", "beta"), "write FLAG=VALUE"),
    ((*BASE, "--gpus", "8xFOO"), "FOO"),
    ((*BASE, "--reward", "gym", "--placement", "none"), "silently 0"),
    ((*BASE, "--to", "rayjob"), "does not fit"),
]


@pytest.mark.parametrize(("words", "part"), USAGE)
def test_bad_usage_is_one_clear_line(words: tuple[str, ...], part: str) -> None:
    result = CliRunner().invoke(command, list(words))
    assert result.exit_code == 2
    assert part in result.output


def test_unknown_model_becomes_a_required_variable() -> None:
    data = json.loads(alula_build("rlhf", "--rlhf-type", "dpo", "--gpus", "8", "--format", "json").output)
    assert '"${MODEL:?' in data["files"]["run.sh"]
    assert '--model "$MODEL"' in data["files"]["run.sh"]
