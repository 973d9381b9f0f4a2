"""What real bash makes of a script: the arguments that a stub program gets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


class Bash:
    """Runs scripts with a stub for `swift`, a function rather than a program to spare a start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "stub").write_text("""swift() { printf '%s\\0' "$@" END >> "$STUB_LOG"; }\n""")
        self.env = {"PATH": os.environ["PATH"], "BASH_ENV": str(folder / "stub"), "STUB_LOG": str(folder / "log"), "LC_ALL": "C.UTF-8"}

    def calls(self, script: bytes) -> list[list[str]]:
        """Script -> the argument list of every call of `swift`, in order. Fails the test when bash complains."""
        log = self.folder / "log"
        log.write_bytes(b"")
        (self.folder / "run.sh").write_bytes(script)
        done = subprocess.run(["bash", "run.sh"], cwd=self.folder, env=self.env, capture_output=True, check=False)
        assert done.stderr == b"", (script, done.stderr)
        calls: list[list[str]] = [[]]
        for word in log.read_bytes().split(b"\0")[:-1]:
            if word == b"END":
                calls.append([])
            else:
                calls[-1].append(word.decode("utf-8", "surrogateescape"))
        return calls[:-1]


@pytest.fixture(scope="session")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Bash:
    if not Path("/bin/bash").exists():
        pytest.skip("needs bash")
    return Bash(tmp_path_factory.mktemp("bash"))
