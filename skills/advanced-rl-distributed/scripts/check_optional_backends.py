#!/usr/bin/env python3
"""See which optional backends (Ray, Megatron, Mcore-Bridge, vLLM, LMDeploy, SGLang, evalscope, CUDA …) are here, without a GPU and without importing
them. With a script, config or `--for ROUTE`, also which of them that run needs. All logic is in `alula doctor`.

    check_optional_backends.py [RUN …] [--for 'megatron rlhf'] [--python PATH]
"""

import sys


def main() -> int:
    try:
        from alula.cli.main import main as alula
    except ImportError:
        print("alula is not installed in this Python: run `pip install .` in alula's repository with it", file=sys.stderr)
        return 4
    words = ["--help" if word == "-h" else word for word in sys.argv[1:]]
    if "--help" not in words and not any(word == "--format" or word.startswith("--format=") for word in words):
        words += ["--format", "json"]
    alula(["doctor", *words])
    return 0


if __name__ == "__main__":
    sys.exit(main())
