"""The long-lived worker: one JSON request a line on stdin, one JSON answer a line on stdout.

ms-swift is imported once (about six seconds). Every request is then answered by a forked child, which starts from that warm state and takes
every change it made (environment, process groups, registries, patched devices) with it when it ends. A child that dies or overruns its time
is answered as `{"crash": …}`; the worker itself is never touched by a request.

Run inside the environment that `install.py` made: `python -m conformance.oracle`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

DEFAULT_TIMEOUT = 60.0  # seconds for one request, the first one of a Megatron route imports Megatron
KEEP_ENV = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH")
QUIET_ENV = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",  # threads do not survive a fork
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "LOG_LEVEL": "WARNING",
}


def warm_up(home: Path) -> None:
    """Import what every request needs, with the optional packages pretended. No thread may be started here."""
    from conformance import pretend

    pretend.packages(home / "site")
    for module in (
        "arguments",
        "rlhf_trainers.arguments",
        "rlhf_trainers.vllm_client",
        "trainers.arguments",
    ):  # the trainers' hold the batch checks
        import_module(f"swift.{module}")

    from conformance.fixtures import FALLBACK_ARCHITECTURES, base_config

    for architecture in (*FALLBACK_ARCHITECTURES.values(), "Qwen3ForCausalLM", "LlamaForCausalLM"):
        base_config(architecture)


def warm_up_route(route: str) -> None:
    """Import what one route needs before the fork, the first time it is asked for: Megatron and the Ray driver take seconds."""
    from conformance.judge import ROUTES, prepare

    if route.startswith("megatron") or route == "ray":
        for module in ("megatron.arguments", "megatron.model.utils", "ray.megatron.pipeline"):
            import_module(f"swift.{module}")
    if route in ROUTES or route == "ray":
        prepare(route)


def answer(request: dict[str, Any], home: Path) -> dict[str, Any]:
    """Fork, let the child judge, and read its answer; kill it when the time is up."""
    timeout = float(request.get("timeout") or DEFAULT_TIMEOUT)
    folder = Path(tempfile.mkdtemp(dir=home))
    source, sink = os.pipe()
    started = time.monotonic()
    gc.freeze()  # the child need not walk, and so copy, what it never changes
    child = os.fork()
    if child == 0:
        os.close(source)
        _child(request, folder, sink)
    os.close(sink)
    text, crash = b"", ""
    while True:
        left = started + timeout - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            crash = f"no answer within {timeout:.0f} s"
            os.kill(child, signal.SIGKILL)
            break
        block = os.read(source, 1 << 16)
        if not block:
            break
        text += block
    os.close(source)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    if not crash and not text:
        crash = f"the child ended with status {status}"
    result: dict[str, Any] = {"crash": crash} if crash else json.loads(text)
    return {"id": request.get("id"), **result, "seconds": round(time.monotonic() - started, 3)}


def _child(request: dict[str, Any], folder: Path, sink: int) -> None:
    gc.disable()  # a collection would touch, and so copy, every page of the warm state
    os.setsid()  # so that Ctrl-C reaches only the client, which then ends everything
    result: dict[str, Any]
    try:
        from conformance.judge import judge

        result = judge(request, folder)
    except BaseException:
        result = {"crash": traceback.format_exc()}
    data = json.dumps(result, default=str).encode()
    while data:
        data = data[os.write(sink, data) :]
    os._exit(0)


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever ms-swift prints must not mix with the answers
    for name in list(os.environ):
        if name not in KEEP_ENV and not name.startswith("LC_"):
            del os.environ[name]
    os.environ.update(QUIET_ENV)
    with tempfile.TemporaryDirectory(prefix="alula-oracle-") as folder:
        home = Path(folder)
        os.environ.update(HF_HOME=str(home / "hf"), MODELSCOPE_CACHE=str(home / "modelscope"))
        warm_up(home)
        print(json.dumps({"ready": True, "pid": os.getpid()}), file=answers, flush=True)
        for line in sys.stdin:
            try:
                request = json.loads(line)
            except ValueError as error:
                print(json.dumps({"crash": f"not JSON: {error}"}), file=answers, flush=True)
                continue
            warm_up_route(str(request.get("route")))
            print(json.dumps(answer(request, home)), file=answers, flush=True)


if __name__ == "__main__":
    main()
