"""What real bash makes of a script: the arguments that a stub program gets."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

_STUB = """#!/bin/bash
printf '%s\\0' "$@" END >> "$STUB_LOG"
"""


class Bash:
    """Runs scripts with a stub `swift` on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stub = folder / "swift"
        stub.write_text(_STUB)
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)

    def calls(self, script: bytes) -> list[list[str]]:
        """Script -> the argument list of every call of `swift`, in order. Fails the test when bash complains."""
        log = self.folder / "log"
        log.write_bytes(b"")
        (self.folder / "run.sh").write_bytes(script)
        env = {"PATH": f"{self.folder}:{os.environ['PATH']}", "STUB_LOG": str(log), "LC_ALL": "C.UTF-8"}
        done = subprocess.run(["bash", "run.sh"], cwd=self.folder, env=env, capture_output=True, check=False)
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
