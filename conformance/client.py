"""Ask the judge from any Python: starts the worker, keeps it alive, ends it with everything that it started.

    with Oracle() as oracle:
        answer = oracle.ask({"route": "swift rlhf", "argv": ["--rlhf_type", "dpo", "--model", "Qwen/Qwen3-8B", "--dataset", "d"]})

Standard library only. `Oracle.installed()` says whether the environment of `install.py` is there, which a test asks before it is skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Answer = dict[str, Any]
Request = dict[str, Any]

REPOSITORY = Path(__file__).resolve().parent.parent
START_TIMEOUT = 180.0  # seconds; a cold import of ms-swift reads about 2 GB
MARGIN = 30.0  # seconds beyond a request's own limit before the worker itself counts as hung


def environment_dir() -> Path:
    """Where the pinned ms-swift lives: `ALULA_CONFORMANCE_HOME`, else `.cache/swift460` in the repository."""
    return Path(os.environ.get("ALULA_CONFORMANCE_HOME") or REPOSITORY / ".cache" / "swift460")


class OracleError(RuntimeError):
    """The worker cannot be started."""


class Oracle:
    """A context manager around one worker. A worker that crashes or hangs is replaced; the request it had is answered `{"crash": …}`."""

    def __init__(self, *, log: Path | None = None) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._next = 0

    @staticmethod
    def installed() -> bool:
        """True if the environment has an interpreter and ms-swift."""
        home = environment_dir()
        return (home / "bin" / "python").exists() and any(home.glob("lib/python3*/site-packages/swift/version.py"))

    def __enter__(self) -> Oracle:
        self._start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def ask(self, request: Request) -> Answer:
        """Send one request and wait for its answer. Never raises for what the request does to the worker."""
        self._next += 1
        own_id = request.get("id", self._next)
        line = json.dumps({**request, "id": own_id})
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = self._read(float(request.get("timeout") or 60.0) + MARGIN)
        except (OSError, OracleError) as error:
            self.close()
            return {"id": own_id, "crash": str(error)}
        return answer

    def ask_many(self, requests: Iterable[Request]) -> list[Answer]:
        """Answers in the order of the requests."""
        return [self.ask(request) for request in requests]

    def close(self) -> None:
        """End the worker and its process group, whatever state they are in."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                process.stdin.close()  # the worker ends by itself and removes its files
                process.wait(timeout=5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _start(self) -> None:
        self.close()
        python = environment_dir() / "bin" / "python"
        if not self.installed():
            raise OracleError(f"no ms-swift in {environment_dir()}: run `make conformance-install`")
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        log = self._log.open("a") if self._log else None
        try:
            self._process = subprocess.Popen(
                [str(python), "-m", "conformance.oracle"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log or subprocess.DEVNULL,
                text=True,
                env=env,
                start_new_session=True,
            )
        finally:
            if log:
                log.close()
        self._lines = queue.Queue()
        threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True).start()
        if not self._read(START_TIMEOUT).get("ready"):
            raise OracleError("the worker did not report ready")

    def _read(self, timeout: float) -> Answer:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise OracleError(f"the worker hung for {timeout:.0f} s") from None
        if line is None:
            raise OracleError("the worker ended")
        answer: Answer = json.loads(line)
        return answer


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:  # closed from the other side
        pass
    lines.put(None)
