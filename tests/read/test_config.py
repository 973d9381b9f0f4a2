"""Configs given by themselves: which are ms-swift's."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from alula.cli.main import group
from alula.read.errors import ReadError
from alula.read.run import ReadOptions, read_source
from alula.run.source import Source

FOREIGN = {
    "mkdocs": "site_name: Docs\nnav:\n  - Home: index.md\n",
    "compose": "services:\n  web:\n    image: nginx\n",
    "kubernetes": "apiVersion: v1\nkind: Pod\nspec: {}\n",
    "accelerate": "compute_environment: LOCAL_MACHINE\nnum_processes: 4\n",
}
OURS = {
    "one flag": "model: Qwen/Qwen3-8B\n",
    "a slip beside a flag": "modle: Qwen/Qwen3-8B\nlora_rank: 8\n",
    "only a flag of old": "train_type: lora\n",
    "a flag of megatron": "micro_batch_size: 1\n",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_config_of_another_tool_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ReadError):
        read_source(Source("x.yaml", text.encode()), ReadOptions())


@pytest.mark.parametrize("text", OURS.values(), ids=OURS)
def test_a_config_with_a_flag_is_read(text: str) -> None:
    assert len(read_source(Source("x.yaml", text.encode()), ReadOptions()).jobs) == 1


def test_a_named_route_reads_any_config() -> None:
    assert read_source(Source("x.yaml", FOREIGN["mkdocs"].encode()), ReadOptions(route="swift rlhf")).jobs[0].route == "swift rlhf"


def test_diff_shows_what_is_written_where_nothing_follows_from_it(tmp_path: Path) -> None:
    sides = []
    for number in (8, 7):
        sides.append(tmp_path / f"{number}.sh")
        sides[-1].write_text(
            f"NPROC_PER_NODE=1 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset d.jsonl --num_generations {number} --per_device_train_batch_size 7\n"
        )
    result = CliRunner().invoke(group, ["diff", "--format", "json", *map(str, sides)])
    changed = {change["name"]: (change["a"], change["b"]) for change in json.loads(result.stdout)["changed"]}
    assert changed["num_generations"] == (8, 7)
