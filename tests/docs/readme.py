"""The console blocks of README.md: find them, run them, and write them anew after a wanted change (`python tests/docs/readme.py`)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rerun(text: str, folder: Path) -> str:
    """The text with the output of every console block as it is now. All run in one folder, one after the other: a copy of the example."""
    work = folder / "work"
    shutil.copytree(ROOT / "examples" / "grpo_server", work)
    bin_ = folder / "bin"
    bin_.mkdir()
    alula = bin_ / "alula"
    alula.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m alula "$@"\n')
    alula.chmod(0o755)
    env = {
        "PATH": f"{bin_}:{os.environ['PATH']}", "HOME": str(folder), "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1",
    }  # fmt: skip

    def run(command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False
        )  # fmt: skip
        return done.stdout.decode()

    def block(match: re.Match[str]) -> str:
        commands = [line for line in match.group(1).splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"{line}\n{run(line[2:])}" for line in commands) + "```"

    return _BLOCK.sub(block, text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        README.write_text(rerun(README.read_text(), Path(folder)))


if __name__ == "__main__":
    main()
