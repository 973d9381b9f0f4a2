"""Speed against the bars: one script from process start (≤ 150 ms), 400 scripts in one process (≤ 2 s), beside the real parser's time.

    python benchmarks/speed.py [--swift-python PATH]

The 400 scripts are written here, from templates of the shapes that people use; the real parser is timed where an interpreter with ms-swift is given
or the conformance environment is installed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "examples" / "grpo_server" / "train.sh"
_REAL = """
import time, sys
start = time.perf_counter()
from swift.arguments import RLHFArguments
from transformers import HfArgumentParser
parser = HfArgumentParser([RLHFArguments])
space, rest = parser.parse_known_args(sys.argv[1:])
print(time.perf_counter() - start)
"""


def scripts(count: int) -> list[str]:
    """Launch scripts of several shapes, each a little different."""
    shapes = (
        "export NPROC_PER_NODE={n}\nMODEL=Qwen/Qwen3-8B\nswift rlhf --rlhf_type grpo --model $MODEL --dataset d{i}.jsonl --reward_funcs accuracy --num_generations {n} \\\n"
        "  --per_device_train_batch_size {n} --use_vllm true --vllm_mode colocate --sleep_level 1 --max_completion_length {i}\n",
        "ARGS=(--model Qwen/Qwen2.5-7B-Instruct --dataset d{i}.jsonl --tuner_type lora --lora_rank {n})\nif [ \"${{STAGE:-dpo}}\" = dpo ]; then\n"
        "  NPROC_PER_NODE={n} swift rlhf --rlhf_type dpo \"${{ARGS[@]}}\" --beta 0.1\nelse\n  swift sft \"${{ARGS[@]}}\"\nfi\n",
        "set -euo pipefail\nOUT=${{OUT:-out/{i}}}\nfor lr in 1e-6 5e-7; do\n  NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-30B-A3B --dataset d.jsonl \\\n"
        "    --tensor_model_parallel_size 2 --expert_model_parallel_size {n} --sequence_parallel true --global_batch_size 64 --lr $lr --output_dir $OUT-$lr \\\n"
        "    --use_vllm true --vllm_mode colocate --reward_funcs accuracy --num_train_epochs 1\ndone\n",
        "CUDA_VISIBLE_DEVICES=0,1 swift rollout --model Qwen/Qwen3-8B --vllm_tensor_parallel_size 2 --port 80{n:02d} &\nsleep 60\n"
        "CUDA_VISIBLE_DEVICES=2,3,4,5 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset d{i}.jsonl --use_vllm true --vllm_mode server \\\n"
        "  --vllm_server_host 127.0.0.1 --vllm_server_port 80{n:02d} --reward_funcs accuracy --num_generations 4\n",
    )
    return [shapes[i % len(shapes)].format(i=i + 100, n=(2, 4, 8)[i % 3]) for i in range(count)]


def one(runs: int, *words: str) -> list[float]:
    """Wall seconds of `alula …` from process start, warm file cache."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "alula", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        taken.append(time.perf_counter() - start)
    return taken


def many(folder: Path, count: int) -> float:
    names = []
    for at, text in enumerate(scripts(count)):
        path = folder / f"s{at}.sh"
        path.write_text(text)
        names.append(str(path))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "alula", "check", *names, "--format", "json"], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - start


def real(python: Path) -> float | None:
    """Seconds that the real parser takes for one command, import included (argument parsing only)."""
    words = "--rlhf_type grpo --model Qwen/Qwen3-8B --dataset d.jsonl --reward_funcs accuracy --num_generations 8".split()
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "USE_HF": "1"}
    done = subprocess.run([str(python), "-c", _REAL, *words], capture_output=True, text=True, env=env, check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout.split() else None


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--swift-python", type=Path, default=ROOT / ".cache" / "swift460" / "bin" / "python")
    options.add_argument("--runs", type=int, default=15)
    given = options.parse_args()
    missed = 0
    for verb in ("check", "show", "explain"):
        words = (verb, "BAT001") if verb == "explain" else (verb, str(SCRIPT))
        one(2, *words)
        taken = one(given.runs, *words)
        middle = statistics.median(taken)
        missed += middle > 0.150
        print(f"alula {verb:<8} one script, from process start: median {middle * 1000:4.0f} ms, worst {max(taken) * 1000:4.0f} ms   (bar: 150 ms)")
    with tempfile.TemporaryDirectory() as folder:
        seconds = min(many(Path(folder), 400) for _ in range(3))
    missed += seconds > 2
    print(f"alula check    400 scripts, from process start: {seconds:.2f} s   (bar: 2 s)")
    if given.swift_python.exists():
        first = real(given.swift_python)
        print("real parser    one command, import and parse: " + (f"{first:.1f} s" if first is not None else "did not run"))
    else:
        print("real parser    not installed here (make conformance-install)")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
