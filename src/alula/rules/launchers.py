"""Launchers: variables that torchrun or CUDA cannot use, and those that another launcher does not read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.launch import VISIBLE_DEVICES, integer, visible_devices

from .launch import visible_name
from .registry import TRAIN, rule
from .training_numbers import weights_dtype
from .values import given

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import JobCheck


@rule("LCH012", "processes-of-another-launcher", consequence="wrong")
def processes_of_another_launcher(c: JobCheck) -> Iterator[Finding]:
    """NPROC_PER_NODE beside a launcher that does not read it.

    The variable belongs to the `swift` and `megatron` commands. `python swift/cli/sft.py` stays one process, and torchrun starts as many as its own
    `--nproc_per_node` says, one by default.

    In the log: `world_size: 1`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 python swift/cli/sft.py --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:use_torchrun
    Not shown on CPU: one process trains, only with another world size than asked for
    """
    entry = c.env_entry("NPROC_PER_NODE")
    launch = c.job.launch
    if entry is None or entry.how == "inherited" or launch.launcher not in ("python", "torchrun"):
        return
    asked, started = integer(entry.token), c.v.place.local_world_size
    if asked is None or started is None or asked == started or asked < 2:
        return
    route = c.facts.routes.get(c.v.route)
    if route is None or not route.torchrun:
        return
    how = "a plain python" if launch.launcher == "python" else "torchrun"
    advice = f"NPROC_PER_NODE={asked} {c.v.route} …" if launch.launcher == "python" else f"torchrun --nproc_per_node {asked}"
    template = "NPROC_PER_NODE={asked} is not read by {how}: {started} process(es) start; write {advice}"
    yield c.finding(template, "NPROC_PER_NODE", asked=asked, started=started, how=how, advice=advice, fix=advice)


@rule("LCH013", "device-map-in-every-rank", consequence="wrong", routes=TRAIN)
def device_map_in_every_rank(c: JobCheck) -> Iterator[Finding]:
    """`--device_map auto` in several processes that own one device each.

    Every rank would spread the model over all devices that the others use too. Accelerate refuses to train such a model with more than one process.
    device_map is for one process with several devices; with one device a process the model must fit, or be sharded by ZeRO-3 or FSDP2.

    In the log: `You can't train a model that has been loaded with `device_map='auto'` in any distributed mode.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 swift sft --model Qwen/Qwen2.5-72B-Instruct --dataset data.jsonl --device_map auto
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 swift sft --model Qwen/Qwen2.5-72B-Instruct --dataset data.jsonl --deepspeed zero3
    ```

    Source: swift/model/register.py:ModelLoader; accelerate/accelerator.py:Accelerator.prepare_model
    Not shown on CPU: it is refused when the trainer prepares the model
    """
    place = c.v.place
    value = c.v.get("device_map")
    if value not in ("auto", "balanced", "balanced_low_0", "sequential") or not place.torchrun:
        return
    if place.local_world_size is None or place.local_world_size < 2 or place.device_map is True:
        return
    template = "--device_map {value} in each of {processes} processes: all would spread the model over the same devices, and accelerate refuses that; drop it and use --deepspeed zero3, or one process"
    yield c.finding(
        template, "device_map", flags=["NPROC_PER_NODE"], value=value, processes=place.local_world_size, related=[("NPROC_PER_NODE", f"{place.local_world_size} processes")],
        fix=c.drop_flag("device_map", "remove --device_map; --deepspeed zero3 shards a model that does not fit one device"),
    )  # fmt: skip


_CLI = re.compile(r"\bswift\.cli(?:\._megatron)?\.main\b|swift/cli/(?:_megatron/)?main\.py|\bwhich\s+(?:swift|megatron)\b|/bin/(?:swift|megatron)\b")


@rule("LCH028", "launched-twice", consequence="wrong")
def launched_twice(c: JobCheck) -> Iterator[Finding]:
    """torchrun around the `swift` command, which starts torchrun itself.

    With NPROC_PER_NODE or NNODES in the environment every one of torchrun's processes starts a torchrun of its own, all on the same port. Use the `swift` command
    alone, or torchrun with the script of the route (`swift/cli/sft.py`).

    In the log: `run sh: … torch.distributed.run …` once a process, then `EADDRINUSE`

    Wrong:
    ```sh
    export NPROC_PER_NODE=4
    torchrun --nproc_per_node 4 -m swift.cli.main sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    export NPROC_PER_NODE=4
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:cli_main
    Not shown on CPU: the launchers meet before the arguments are read
    """
    source = c.whole.run.sources.get(c.job.span.file)
    if c.job.launch.launcher != "torchrun" or source is None or not _CLI.search(source.text(c.job.span)):
        return
    name = next((name for name in ("NPROC_PER_NODE", "NNODES") if name in c.job.env), None)
    if name is not None:
        template = "torchrun starts the `{program}` command, and {name} makes each of its processes start torchrun again: `{route} …` alone is enough"
        yield c.finding(template, name, program=c.v.route.split()[0], name=name, route=c.v.route, fix=f"{c.v.route} … without torchrun, or torchrun without {name}")


@rule("LCH014", "process-count-unusable", consequence="wrong")
def process_count_unusable(c: JobCheck) -> Iterator[Finding]:
    """NPROC_PER_NODE or NNODES that torchrun cannot read.

    They reach torchrun as `--nproc_per_node` and `--nnodes` exactly as they are set.

    In the log: `ValueError: Unsupported nproc_per_node value: 0,1,2,3`

    Wrong:
    ```sh
    NPROC_PER_NODE=0,1,2,3 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args; torch/distributed/run.py:determine_local_world_size
    Not shown on CPU: torchrun stops before ms-swift starts
    """
    route = c.facts.routes.get(c.v.route)
    if route is None or not route.torchrun or c.job.launch.launcher != "cli":
        return
    for name, words in (("NPROC_PER_NODE", ("gpu", "auto", "cpu", "xpu")), ("NNODES", ())):
        text = c.env(name)
        if text is None or text in words or (not text and _unset(c, name)):
            continue
        parts = text.split(":") if name == "NNODES" else [text]  # NNODES may be min:max
        if len(parts) <= 2 and all(part.strip().isdigit() and int(part) > 0 for part in parts):
            continue
        template = "{name}={text} is no positive number: torchrun gets it as it stands and stops"
        yield c.finding(template, name, name=name, text=text or "''", fix=f"{name} with a number of {'processes' if name == 'NPROC_PER_NODE' else 'nodes'}")


def _unset(c: JobCheck, name: str) -> str:
    """What an empty launch variable is made of, where that is another variable which nobody sets here: `$WORLD_SIZE`."""
    entry = c.env_entry(name)
    source = c.whole.run.sources.get(entry.token.span.file) if entry is not None else None
    if entry is None or source is None or entry.token.text:
        return ""
    written = source.text(entry.token.span).removeprefix(f"{name}=").strip("\"'")
    return written if "$" in written else ""


@rule("LCH019", "launch-variable-unset", severity="info", consequence="wrong")
def launch_variable_unset(c: JobCheck) -> Iterator[Finding]:
    """A launch variable is taken from another one that is not set here.

    Cluster platforms set `WORLD_SIZE`, `RANK` and their like where the script runs. Without them NNODES and its companions are empty, and ms-swift passes
    empty values on to torchrun as well.

    In the log: `ValueError: invalid literal for int() with base 10: ''`

    Wrong:
    ```sh
    NNODES=$WORLD_SIZE NODE_RANK=$RANK NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=${WORLD_SIZE:-1} NODE_RANK=${RANK:-0} NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    """
    route = c.facts.routes.get(c.v.route)
    if route is None or not route.torchrun or c.job.launch.launcher != "cli":
        return
    for name in ("NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"):
        written = _unset(c, name)
        if written:
            template = "{name}={written} is empty here: what it is made of must be set where the script runs; torchrun cannot use an empty value"
            yield c.finding(template, name, name=name, written=written, fix=f"a default: {name}=${{…:-1}}")


@rule("LCH015", "device-list-broken", consequence="wrong")
def device_list_broken(c: JobCheck) -> Iterator[Finding]:
    """A device listed twice, or one that the node does not have.

    CUDA shows no device at all when an id stands twice, and ends the list at the first id that the node does not have (known with `--gpus 4xA100`; ids
    count from 0).

    In the log: `No CUDA GPUs are available`, or `n_gpu: 3, local_world_size: 4`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,2 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: CUDA C++ Programming Guide, environment variables
    Not shown on CPU: the driver hides the devices
    """
    name = visible_name(c)
    ids = visible_devices(c.job.env)
    if not ids:
        return
    twice = sorted({i for i in ids if ids.count(i) > 1})
    if twice and name == "CUDA_VISIBLE_DEVICES":
        template = "{name}={text} lists {twice} more than once: CUDA then shows no device; every id once"
        yield c.finding(template, name, name=name, text=",".join(ids), twice=", ".join(twice), fix="each device id once")
    node = c.whole.run.cluster.gpus_per_node
    beyond = [i for i in ids if node is not None and i.isdigit() and int(i) >= node]
    if node is not None and beyond:
        template = "{name} names device {beyond}, and a node has {node} (0 to {last}): the list ends there"
        yield c.finding(template, name, name=name, beyond=", ".join(beyond), node=node, last=node - 1, fix=f"{name} with ids below {node}")


@rule("LCH016", "no-visible-device", consequence="wrong")
def no_visible_device(c: JobCheck) -> Iterator[Finding]:
    """CUDA_VISIBLE_DEVICES is set and empty: no device is visible.

    An unset shell variable (`CUDA_VISIBLE_DEVICES=$GPUS`) is the usual reason. The job runs on the CPU then, or its engine finds no device.

    In the log: `No CUDA GPUs are available`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES= swift infer --model Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift infer --model Qwen/Qwen3-8B
    ```

    Source: swift/utils/torch_utils.py:get_device_count
    Not shown on CPU: a job without a device starts there as well
    """
    hidden = next((name for name in VISIBLE_DEVICES if name in c.job.env), None)
    if hidden is None or c.env(hidden) is None or c.v.get("use_cpu", False) is not False:
        return
    route = c.facts.routes.get(c.v.route)
    if c.v.route in TRAIN and _bf16(c):
        return  # LCH018
    if visible_devices(c.job.env) == () and route is not None and c.v.route not in ("swift sample", "swift web-ui", "swift export", "swift merge-lora", "megatron export"):
        yield c.finding("{name}={text} hides every device: the job runs on the CPU or stops", hidden, name=hidden, text=c.env(hidden) or "''", fix=f"{hidden} with device ids, or unset it")


@rule("LCH017", "single-device-mode-short", consequence="wrong", routes=TRAIN, since="3.10")
def single_device_mode_short(c: JobCheck) -> Iterator[Finding]:
    """SWIFT_SINGLE_DEVICE_MODE=1 with fewer visible devices than processes, or with no list of devices.

    Each rank takes the device at its own place in CUDA_VISIBLE_DEVICES before ms-swift starts. Without the list the mode does nothing but switch the
    device_map check off.

    In the log: `IndexError: list index out of range`

    Wrong:
    ```sh
    SWIFT_SINGLE_DEVICE_MODE=1 CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    SWIFT_SINGLE_DEVICE_MODE=1 CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/utils.py:try_use_single_device_mode
    Not shown on CPU: it fails in the start script, before the arguments are read
    """
    if c.env("SWIFT_SINGLE_DEVICE_MODE") != "1":
        return
    ids, local = c.v.place.devices, c.v.place.local_world_size
    if ids is not None and local is not None and len(ids) < local:
        template = "SWIFT_SINGLE_DEVICE_MODE=1 gives rank n the n-th of {devices} visible devices, and there are {processes} ranks"
        yield c.finding(
            template, "SWIFT_SINGLE_DEVICE_MODE", flags=[visible_name(c), "NPROC_PER_NODE"], devices=len(ids), processes=local, fix=f"NPROC_PER_NODE={len(ids)}",
        )  # fmt: skip


def _bf16(c: JobCheck) -> bool:
    return given(c, "bf16") is True or (given(c, "bf16") is None and weights_dtype(c) == "bfloat16")


@rule("LCH018", "bf16-without-device", routes=TRAIN)
def bf16_without_device(c: JobCheck) -> Iterator[Finding]:
    """Training in bfloat16 with no visible device.

    transformers accepts bf16 only where a GPU can do it, or with `--use_cpu true`. An unset shell variable (`CUDA_VISIBLE_DEVICES=$GPUS`) is the usual
    reason.

    In the log: `ValueError: Your setup doesn't support bf16/gpu. …`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES= swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --torch_dtype bfloat16
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --torch_dtype bfloat16
    ```

    Source: transformers/training_args.py:TrainingArguments._validate_args
    """
    hidden = next((name for name in VISIBLE_DEVICES if name in c.job.env), None)
    if hidden is None or c.env(hidden) is None or visible_devices(c.job.env) != () or c.v.get("use_cpu", False) is not False:
        return
    if _bf16(c):
        template = "{name}={text} hides every device, and bf16 training needs one"
        yield c.finding(template, hidden, flags=["bf16", "torch_dtype"], name=hidden, text=c.env(hidden) or "''", fix=f"{hidden} with device ids, or unset it")
