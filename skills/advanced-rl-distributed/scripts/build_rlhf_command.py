#!/usr/bin/env python3
"""Write a safe ms-swift RLHF, rollout, sampling, Megatron or Ray run. Never executes training. All logic is in `alula build`.

    build_rlhf_command.py rlhf --rlhf-type grpo --model M --dataset D --gpus 8xH100 --placement server --to shell
"""

import sys


def main() -> int:
    try:
        from alula.cli.main import main as alula
    except ImportError:
        print("alula is not installed in this Python: run `pip install .` in alula's repository with it", file=sys.stderr)
        return 4
    words = sys.argv[1:]
    if words in ([], ["-h"]):
        words = ["--help"]
    if "--help" not in words and not any(word == "--format" or word.startswith("--format=") for word in words):
        words += ["--format", "json"]
    alula(["build", *words])
    return 0


if __name__ == "__main__":
    sys.exit(main())
