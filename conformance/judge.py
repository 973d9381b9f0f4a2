"""Judge one command: the real parser first, then the whole real `__post_init__`, in a machine that is pretended to fit.

Runs once in a process of its own (see `oracle`), so it may change whatever it wants: environment, modules, process groups.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import logging
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from conformance import pretend, ray_groups
from conformance.fixtures import Parallel
from conformance.stand_ins import StandIns

ROUTES: dict[str, str] = {
    "swift pt": "swift.arguments:PretrainArguments",
    "swift sft": "swift.arguments:SftArguments",
    "swift rlhf": "swift.arguments:RLHFArguments",
    "swift infer": "swift.arguments:InferArguments",
    "swift deploy": "swift.arguments:DeployArguments",
    "swift rollout": "swift.arguments:RolloutArguments",
    "swift sample": "swift.arguments:SamplingArguments",
    "swift export": "swift.arguments:ExportArguments",
    "swift merge-lora": "swift.arguments:ExportArguments",
    "swift eval": "swift.arguments:EvalArguments",
    "swift app": "swift.arguments:AppArguments",
    "swift web-ui": "swift.arguments:WebUIArguments",
    "megatron pt": "swift.megatron.arguments:MegatronPretrainArguments",
    "megatron sft": "swift.megatron.arguments:MegatronSftArguments",
    "megatron rlhf": "swift.megatron.arguments:MegatronRLHFArguments",
    "megatron export": "swift.megatron.arguments:MegatronExportArguments",
}
TORCHRUN_ROUTES = frozenset({"swift pt", "swift sft", "swift rlhf", "swift infer"})  # swift/cli/main.py; every megatron route besides
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES")
UNSAID_DEVICES = {"swift rollout": 8}  # a server takes what it needs of a whole node
OUTCOME: dict[str, Any] = {
    "argparse": "error",
    "remaining": [],
    "message": "",
    "post_init": "not-run",
    "exc": "",
    "where": "",
    "stage": "",
    "post_message": "",
    "derived": {},
    "replaced": [],
    "warnings": [],
    "limits": "",
}


def argument_class(route: str) -> Any:
    """The dataclass that ms-swift parses a route's arguments into. KeyError for an unknown route."""
    module, _, name = ROUTES[route].partition(":")
    return getattr(import_module(module), name)


def prepare(route: str) -> None:
    """Do once what every request of a route would do again: import its class and build its parser of some five hundred options."""
    from swift.utils import utils

    cls = argument_class("megatron rlhf" if route == "ray" else route)
    if cls in _PARSERS:
        return
    build = utils.HfArgumentParser
    if not _PARSERS:

        def ready(classes: list[Any]) -> Any:
            parser = _PARSERS.get(classes[0]) or build(classes)
            parser.prog = os.path.basename(sys.argv[0])
            return parser

        utils.HfArgumentParser = ready
    with utils._patch_get_type_hints():  # as in parse_args
        _PARSERS[cls] = build([cls])


_PARSERS: dict[Any, Any] = {}


def judge(request: dict[str, Any], home: Path) -> dict[str, Any]:
    """Answer one request (see README.md for the fields). `home` is an empty folder of its own; the command runs in `work` under it.

    Stand-ins lie beside `work`, or the relative name of a model would find the stand-in of another.
    """
    work = home / "work"
    work.mkdir()
    os.chdir(work)
    for name, text in (request.get("files") or {}).items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    if request["route"] != "ray" and request["route"] not in ROUTES:
        return {**OUTCOME, "message": f"KeyError: {request['route'].rpartition(' ')[2]!r}"}  # swift/cli/main.py looks it up in a mapping
    warnings = _collect_warnings()
    route, argv = request["route"], list(request.get("argv") or [])
    os.environ.update({str(k): str(v) for k, v in (request.get("env") or {}).items()})
    if route != "ray" and argv and argv[0].endswith((".json", ".yaml", ".yml")):
        unread = read_config(argv)
        if unread:
            return {**OUTCOME, "message": unread}
    sys.argv = [f"{route.rpartition(' ')[2].replace('-', '_')}.py", *argv]  # argparse names the program, and Ray set-up reads it
    machine(request)
    if route == "ray":
        from conformance.ray_driver import judge_ray

        answer = judge_ray(request, home)
    else:
        answer = judge_route(route, argv, request, home)
    return {**OUTCOME, **answer, "warnings": list(dict.fromkeys(warnings))}


def read_config(argv: list[str]) -> str:
    """Let ms-swift's launcher put the configuration file in the first place of `argv` in its flags' place. Returns why it could not."""
    from swift.cli.main import parse_yaml_args

    try:
        parse_yaml_args(argv)
    except Exception as error:  # no such file, not YAML, not a mapping: whatever ms-swift raises is its verdict
        return f"{type(error).__name__}: {error}"
    return ""


def machine(request: dict[str, Any]) -> None:
    """Set up environment, devices and process group as the launcher of this request would."""
    route = request["route"]
    megatron = route.startswith("megatron") or route == "ray"
    world = int(request.get("world_size") or 1)
    local = int(request.get("local_world_size") or world)
    torchrun = request.get("distributed")
    if torchrun is None:
        torchrun = world > 1 or "NPROC_PER_NODE" in os.environ or "NNODES" in os.environ
    ranked = route != "ray" and torchrun and (megatron or route in TORCHRUN_ROUTES)
    if ranked:
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(local))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ.setdefault("MASTER_PORT", "29500")
    devices = request.get("devices")
    if devices is None:
        visible = next((os.environ[name] for name in VISIBLE if name in os.environ), None)
        unsaid = local if ranked else UNSAID_DEVICES.get(route, 1)
        devices = len([d for d in visible.split(",") if d.strip()]) if visible is not None else unsaid
    pretend.accelerators(int(devices))
    pretend.no_network()
    pretend.rollout_servers()
    if ranked or (megatron and route != "ray"):  # the Ray driver has no process group
        pretend.process_group(world if ranked else 1)


def judge_route(route: str, argv: list[str], request: dict[str, Any], home: Path) -> dict[str, Any]:
    """Parse `argv` with the real class of `route`, then run its `__post_init__`."""
    cls = argument_class(route)
    parsed = parse(cls, argv)
    if parsed["argparse"] == "error" and "args" not in parsed:
        return parsed
    args = parsed.pop("args")
    if request.get("stage") == "argparse":
        return parsed
    if route in ray_groups.ROLES:
        before = run(lambda _: ray_groups.launch(route, request.get("cluster") or {}), None)
        if before["post_init"] == "error":
            return {**parsed, **before, "stage": "ray"}
    megatron = route.startswith("megatron")
    if route == "swift eval":
        pretend.benchmarks(cls, args)
    stand_ins = StandIns(home, request.get("shape"), Parallel.of(args) if megatron else Parallel())
    stand_ins.apply(args)
    if megatron:
        from conformance import megatron as mcore

        mcore.without_cuda()
    result = run(cls.__post_init__, args) if hasattr(cls, "__post_init__") else {"post_init": "ok"}
    result["stage"] = "post_init"
    for name, step in mcore.STAGES if megatron else ():
        if result["post_init"] == "error":
            break
        result = {**run(step, args), "stage": name}
    if result["post_init"] == "ok":
        result["stage"] = ""
    else:
        result["post_message"] = stand_ins.as_written(result["post_message"])
        result["limits"] = mcore.limits(args, result["exc"], result["post_message"]) if megatron else ""
    return {**parsed, **result, "derived": derived(args, stand_ins) if result["post_init"] == "ok" else {}, "replaced": stand_ins.replaced}


def parse(cls: Any, argv: list[str]) -> dict[str, Any]:
    """What the real parser says, before any check of values. Holds the parsed object as `args` unless argparse itself gave up.

    `__post_init__` is switched off for the moment of parsing, so leftovers and value errors can be told apart; ms-swift itself runs it
    within the parser and looks at the leftovers afterwards.
    """
    from swift.utils import parse_args

    original = getattr(cls, "__post_init__", None)
    errors = io.StringIO()
    if original is not None:
        cls.__post_init__ = lambda self: None
    try:
        with contextlib.redirect_stderr(errors):
            args, remaining = parse_args(cls, argv)
    except SystemExit:
        return {"argparse": "error", "message": errors.getvalue().strip().rsplit("\n", 1)[-1]}
    except Exception as error:  # a type function chokes on the value: whatever ms-swift raises is its verdict
        return {"argparse": "error", "message": f"{type(error).__name__}: {error}"}
    finally:
        if original is not None:
            cls.__post_init__ = original
    if remaining and not getattr(args, "ignore_args_error", False):  # swift/pipelines/base.py:SwiftPipeline._parse_args
        return {"argparse": "error", "remaining": remaining, "message": f"ValueError: remaining_argv: {remaining}", "args": args}
    return {"argparse": "ok", "remaining": remaining, "args": args}


def run(function: Any, args: Any) -> dict[str, Any]:
    """Call a stage of ms-swift and say how it ended; `where` is the innermost frame within ms-swift (or its Megatron libraries)."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            function(args)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames if any(part in f.filename for part in ("/swift/", "/megatron/", "/mcore_bridge/"))] or frames
        return {
            "post_init": "error",
            "exc": type(error).__name__,
            "where": f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}",
            "raised": f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}",
            "post_message": str(error),
        }
    return {"post_init": "ok"}


def derived(args: Any, stand_ins: StandIns | None = None) -> dict[str, Any]:
    """Every field that can be written as JSON, names as the command has them, and under `trainer` what the trainer's own configuration holds."""
    values = {f.name: getattr(args, f.name, None) for f in dataclasses.fields(args)}
    for name in (
        "global_world_size",
        "local_world_size",
        "data_parallel_size",
        "num_microbatches",
        "per_device_generation_batch_size",
        "eval_human",
    ):
        if hasattr(args, name):
            values[name] = getattr(args, name)
    result = {name: plain(value) for name, value in values.items() if _is_plain(value)}
    if stand_ins is not None:
        result = {name: stand_ins.as_written(value) if isinstance(value, str) else value for name, value in result.items()}
    trainer = getattr(args, "training_args", None)
    if trainer is not None:
        names = {f.name for f in dataclasses.fields(trainer)}
        result["trainer"] = {n: plain(getattr(trainer, n, None)) for n in sorted(names) if _is_plain(getattr(trainer, n, None))}
        result["trainer"]["world_size"] = trainer.world_size
        result["trainer"]["train_batch_size"] = trainer.train_batch_size
    return result


def _is_plain(value: Any) -> bool:
    try:
        json.dumps(plain(value))
    except (TypeError, ValueError):
        return False
    return True


def plain(value: Any) -> Any:
    """`value` as JSON shows it: enumerations and dtypes by name, the rest unchanged."""
    if hasattr(value, "name") and hasattr(value, "value"):
        return value.value if isinstance(value.value, str) else value.name
    if type(value).__name__ == "dtype":
        return str(value).removeprefix("torch.")
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value


def _collect_warnings() -> list[str]:
    """Keep what ms-swift warns about: some of its refusals are no more than that."""
    kept: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.levelno >= logging.WARNING and "trust_remote_code" not in text:
                kept.append(text)

    from swift.utils import get_logger

    logger = get_logger()
    logger.handlers = [Keep()]
    logger.propagate = False
    return kept
