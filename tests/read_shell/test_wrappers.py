"""Programs that start programs: what is behind them, and the environment that it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from alula.read.programs import is_launch, peel
from alula.read.shell import ShellContext, read_shell
from alula.run.source import Source

# (script, the words that really start, environment set by the wrapper or handed on)
WRAPPED = [
    ("env A=1 swift sft --x 1", "swift sft --x 1", {"A": "1"}),
    ("env -u B -i A=1 C='2 3' swift sft", "swift sft", {"A": "1", "C": "2 3"}),
    ("export E=1; env -u E swift sft", "swift sft", {}),
    ("export E=1; env -i swift sft", "swift sft", {}),
    ("env -S 'A=1 swift sft'", "swift sft", {"A": "1"}),
    ("nohup swift sft > log 2>&1 &", "swift sft", {}),
    ("time -p swift sft", "swift sft", {}),
    ("/usr/bin/time -v -o t.txt swift sft", "swift sft", {}),
    ("nice -n 10 ionice -c 2 -n 7 swift sft", "swift sft", {}),
    ("timeout -s KILL 24h swift sft", "swift sft", {}),
    ("timeout --signal=KILL --kill-after 5 10 swift sft", "swift sft", {}),
    ("stdbuf -oL -eL swift sft", "swift sft", {}),
    ("setsid -w swift sft", "swift sft", {}),
    ("numactl --cpunodebind=0 --membind=0 swift sft", "swift sft", {}),
    ("numactl -N 0 -m 0 swift sft", "swift sft", {}),
    ("taskset -c 0-15 swift sft", "swift sft", {}),
    ("sudo -u me A=1 swift sft", "swift sft", {"A": "1"}),
    ("export E=1; sudo swift sft", "swift sft", {}),
    ("export E=1; sudo -E swift sft", "swift sft", {"E": "1"}),
    ("exec -a name swift sft", "swift sft", {}),
    ("command swift sft", "swift sft", {}),
    ("flock /tmp/lock swift sft", "swift sft", {}),
    ("flock -n /tmp/lock -c 'swift sft'", "swift sft", {}),
    ("uv run --with 'ms-swift' --no-sync swift sft --x", "swift sft --x", {}),
    ("uv run -p 3.11 python -m swift.cli.sft", "python -m swift.cli.sft", {}),
    ("poetry run swift sft", "swift sft", {}),
    ("conda run -n env --no-capture-output swift sft", "swift sft", {}),
    ("conda run --live-stream -p ./env swift sft", "swift sft", {}),
    ("micromamba run -n env swift sft", "swift sft", {}),
    ("srun -N 2 --ntasks-per-node=1 --gres gpu:8 --exclusive swift sft", "swift sft", {}),
    ("export E=1; srun -n1 -c 8 --export=ALL,A=1,B=2 --container-image img --pty swift sft", "swift sft", {"E": "1", "A": "1", "B": "2"}),
    ("export E=1; srun --export=NONE swift sft", "swift sft", {}),
    ("srun bash -c 'NODE_RANK=$SLURM_PROCID swift sft'", "swift sft", {"NODE_RANK": ""}),
    ("mpirun -np 8 -H h1,h2 -x A=1 -x E --allow-run-as-root -mca btl ^openib swift sft", "swift sft", {"A": "1"}),
    ("sbatch --wrap='swift sft --x'", "swift sft --x", {}),
    ("sbatch -N1 --wrap \"swift sft\"", "swift sft", {}),
    ("sbatch <<'EOF'\n#!/bin/bash\nswift sft --x\nEOF", "swift sft --x", {}),
    ("docker run --rm -it --gpus all --shm-size 16g -v /a:/b -e A=1 -e E --env B=2 img:1 swift sft", "swift sft", {"A": "1", "B": "2"}),
    ("export E=1; docker run -e E --ipc=host img swift sft", "swift sft", {"E": "1"}),
    ("export E=1; docker run --gpus '\"device=0,1\"' img bash -c 'cd /w && swift sft'", "swift sft", {}),
    ("docker run --entrypoint swift img sft --x", "swift sft --x", {}),
    ("docker exec -it -e A=1 box swift sft", "swift sft", {"A": "1"}),
    ("docker compose run --rm -e A=1 svc swift sft", "swift sft", {"A": "1"}),
    ("podman run -d --name n img swift sft", "swift sft", {}),
    ("export E=1; singularity exec --nv --bind /a:/b --env A=1,B=2 img.sif swift sft", "swift sft", {"E": "1", "A": "1", "B": "2"}),
    ("export E=1; apptainer exec --cleanenv img.sif swift sft", "swift sft", {}),
    ("kubectl -n ns exec pod -c box -- swift sft", "swift sft", {}),
    ("kubectl exec -it pod -- bash -c 'A=1 swift sft'", "swift sft", {"A": "1"}),
    ("ray job submit --address http://h:1 --working-dir . -- swift sft", "swift sft", {}),
    ("ray job submit --runtime-env-json='{\"env_vars\": {\"A\": \"1\"}}' -- python -m swift.cli.sft", "python -m swift.cli.sft", {"A": "1"}),
    ("ssh -p 22 -o A=no me@h 'cd x && A=1 swift sft --x'", "swift sft --x", {"A": "1"}),
    ("ssh h swift sft --x", "swift sft --x", {}),
    ("export E=1; ssh h \"B=$E swift sft\"", "swift sft", {"B": "1"}),
    ("ssh h bash -s <<'EOF'\nswift sft\nEOF", "swift sft", {}),
    ("ssh h <<EOF\nswift sft\nEOF", "swift sft", {}),
    ("pdsh -w h[1-4] 'swift sft'", "swift sft", {}),
    ("tmux new-session -d -s name 'A=1 swift sft'", "swift sft", {"A": "1"}),
    ("tmux new -d -s name swift sft", "swift sft", {}),
    ("tmux send-keys -t name 'A=1 swift sft' C-m", "swift sft", {"A": "1"}),
    ("screen -dmS name bash -c 'swift sft; exec bash'", "swift sft", {}),
    ("su - me -c 'swift sft'", "swift sft", {}),
    ("nsys profile -o out --trace=cuda,nvtx swift sft", "swift sft", {}),
    ("bash -lc 'swift sft'", "swift sft", {}),
    ("bash -x -e -c 'swift $1' _ sft", "swift sft", {}),
    ("sh -c \"swift sft --a 'b c'\"", "swift sft --a b c", {}),
    ("eval 'A=1 swift sft'", "swift sft", {"A": "1"}),
    ("A=1 eval swift sft", "swift sft", {"A": "1"}),
    ("A=1 nohup env B=2 timeout 5 srun -n 1 swift sft", "swift sft", {"A": "1", "B": "2"}),
    ("mytool run --fast -- swift sft --x", "swift sft --x", {}),
    ("echo 'swift sft' | bash", "swift sft", {}),
    ("bash <(echo swift sft)", "swift sft", {}),
    ("source <(echo 'A=1; swift sft')", "swift sft", {}),
    ("torchrun --nproc_per_node 2 -m swift.cli.sft", "torchrun --nproc_per_node 2 -m swift.cli.sft", {}),
    ("accelerate launch swift/cli/sft.py", "accelerate launch swift/cli/sft.py", {}),
]  # fmt: skip


@pytest.mark.parametrize(("script", "words", "env"), WRAPPED, ids=[case[0][:60] for case in WRAPPED])
def test_what_is_behind(script: str, words: str, env: dict[str, str], tmp_path: Path) -> None:
    result = read_shell(Source("run.sh", script.encode()), ShellContext((), {}, tmp_path, "run.sh"))
    [command] = [command for command in result.commands if is_launch([word.text for word in command.words])]
    assert " ".join(word.text for word in command.words) == words
    assert {name: entry.token.text for name, entry in command.env.items()} == env
    assert not command.maybe


def test_the_bytes_of_a_wrappers_setting(tmp_path: Path) -> None:
    script = "docker run -e A=12 --env=B='3 4' img swift sft"
    [command] = read_shell(Source("run.sh", script.encode()), ShellContext((), {}, tmp_path, "run.sh")).commands
    entry = command.env["A"]
    assert (entry.how, script[entry.token.span.start : entry.token.span.end]) == ("wrapper", "12")
    assert command.env["B"].token.text == "3 4"


@pytest.mark.parametrize("words", ["swift sft", "python train.py", "pip install swift -- x", "", "env", "nohup", "docker ps", "docker run img", "srun", "ssh h -p 3", "uv pip install x", "tmux ls"])
def test_no_wrapper(words: str) -> None:
    found = peel(words.split())
    assert found is None or (not found.program and not found.script and found.file is None)


@pytest.mark.parametrize(
    ("words", "launches"),
    [
        ("swift sft", True), ("./env/bin/swift rlhf", True), ("megatron rlhf", True), ("python -m swift.cli.rlhf", True), ("python swift/cli/sft.py", True),
        ("python3.10 -m torch.distributed.run x swift/cli/_megatron/rlhf.py", True), ("torchrun --x /opt/ms-swift/swift/cli/rlhf.py", True),
        ("python train.py --model swift-7b", False), ("echo swift sft", False), ("pkill -f swift", False), ("deepspeed train.py", False), ("", False),
    ],
)  # fmt: skip
def test_is_launch(words: str, launches: bool) -> None:
    assert is_launch(words.split()) is launches
