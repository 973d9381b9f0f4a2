"""The main job on a real case: a GRPO run with a rollout server and two planted faults is shown, checked, explained, fixed, and a run is built.

The faults: a flag that ms-swift 4 renamed, and seven GPUs whose batch does not divide by eight completions a prompt.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "grpo_server"


def alula(*words: str, cwd: Path, expect: int) -> None:
    """Run one command as a person would, and stop when it does not end as expected."""
    print(f"\n\033[1m$ alula {' '.join(words)}\033[0m" if sys.stdout.isatty() else f"\n$ alula {' '.join(words)}", flush=True)
    status = subprocess.run([sys.executable, "-m", "alula", *words], cwd=cwd, check=False).returncode
    print(f"(exit code {status})", flush=True)
    if status != expect:
        sys.exit(f"demo: expected exit code {expect}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        cwd = Path(folder)
        for script in ("rollout.sh", "train.sh"):
            shutil.copy(HERE / script, cwd)
        pair = ("--together", "rollout.sh", "train.sh")
        alula("show", *pair, cwd=cwd, expect=0)
        alula("check", *pair, cwd=cwd, expect=1)
        alula("explain", "BAT001", cwd=cwd, expect=0)
        alula("check", *pair, "--diff", cwd=cwd, expect=1)
        alula("check", *pair, "--fix", cwd=cwd, expect=1)
        text = (cwd / "train.sh").read_text()
        (cwd / "train.sh").write_text(text.replace("--num_generations 8", "--num_generations 7"))
        print("\n(the batch is the user's decision: --num_generations 7, one of the values the message lists)")
        alula("check", *pair, cwd=cwd, expect=0)
        built = ("build", "rlhf", "--rlhf-type", "grpo", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", "AI-MO/NuminaMath-TIR#5000")
        alula(*built, "--gpus", "8xH100", "--placement", "server", "--to", "shell", "--out", "built", cwd=cwd, expect=0)
        for path in sorted((cwd / "built").iterdir()):
            print(f"\n--- built/{path.name}\n{path.read_text()}", end="")


if __name__ == "__main__":
    main()
