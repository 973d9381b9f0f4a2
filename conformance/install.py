"""Make the environment in which the real ms-swift runs, once: `python -m conformance.install`.

The folder is `ALULA_CONFORMANCE_HOME`, else `.cache/swift460` in the repository. It is left alone when it already holds exactly the pins of
`requirements.lock`; anything else in it is replaced. About two minutes and 3.5 GB. Python 3.10 to 3.12 (the pins are those of 3.11).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from conformance.client import environment_dir

HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.lock"
MARK = ".alula-lock"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
CHECK = """
import re, sys
from importlib import metadata
for line in open(sys.argv[1], encoding="utf-8"):
    name, found, version = line.split("#")[0].strip().partition("==")
    if found and metadata.version(name).split("+")[0] != version:
        sys.exit(f"{name} is {metadata.version(name)}, not {version}")
"""


def main() -> int:
    """Install what is missing. Exit code 0, or 1 with the failing command's own output above."""
    home = environment_dir()
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    mark = home / MARK
    if mark.exists() and mark.read_text(encoding="utf-8") == digest:
        print(f"{home}: up to date")
        return 0
    if not _holds_lock(home):
        if home.exists():
            shutil.rmtree(home)
        if not _install(home):
            return 1
    mark.write_text(digest, encoding="utf-8")
    print(f"{home}: ready")
    return 0


def _holds_lock(home: Path) -> bool:
    python = home / "bin" / "python"
    return python.exists() and subprocess.run([str(python), "-c", CHECK, str(LOCK)], capture_output=True).returncode == 0


def _install(home: Path) -> bool:
    subprocess.run([_interpreter(), "-m", "venv", str(home)], check=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    torch = next(line for line in LOCK.read_text(encoding="utf-8").splitlines() if line.startswith("torch=="))
    # The CPU build: from the configured index if it has one, else from PyTorch's own; other platforms have one build only.
    ways = [[f"{torch}+cpu"], [f"{torch}+cpu", "--extra-index-url", CPU_INDEX], [torch]]
    if not any(subprocess.run(pip + way).returncode == 0 for way in ways):
        return False
    return subprocess.run([*pip, "-r", str(LOCK)]).returncode == 0 and _holds_lock(home)


def _interpreter() -> str:
    """The Python that the pins were resolved for, else the running one."""
    return os.environ.get("ALULA_CONFORMANCE_PYTHON") or shutil.which("python3.11") or sys.executable


if __name__ == "__main__":
    sys.exit(main())
