"""Launch: processes and devices, as torchrun and ms-swift place them. Several nodes and several jobs are in `nodes.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.finding import Finding, Fix
from alula.swift.launch import VISIBLE_DEVICES, integer
from alula.swift.parse import UNKNOWN

from .registry import MEGATRON, TRAIN, rule
from .values import given

if TYPE_CHECKING:
    from .context import JobCheck


def visible_name(c: JobCheck) -> str:
    """The variable that says which devices the job sees; CUDA's where none is set."""
    return next((name for name in VISIBLE_DEVICES if name in c.job.env), VISIBLE_DEVICES[0])


def on_ascend(c: JobCheck) -> bool:
    """True when a variable of the job says that it runs on Ascend devices, which also come with 16 in a node."""
    return any(name.startswith(("ASCEND_", "HCCL_")) or "_NPU_" in name or name in ("TASK_QUEUE_ENABLE", "CPU_AFFINITY_CONF") for name in c.job.env)


def one_process_each(c: JobCheck) -> Fix | str:
    """How to give every visible device a process of its own, said for the job's launcher."""
    count = c.v.place.device_count
    if c.job.launch.launcher == "torchrun":
        return f"--nproc_per_node {count}"
    if c.job.launch.launcher in ("accelerate", "deepspeed"):
        return f"start {count} processes, one a device"
    if c.job.launch.launcher == "python":
        return f"NPROC_PER_NODE={count} {c.v.route} … instead of a plain python"
    return c.set_env("NPROC_PER_NODE", str(count), safety="safe")


def _cut_over_devices(c: JobCheck) -> bool:
    """`is_mp()`: one process owns several devices, so that device_map cuts the model over them."""
    return c.v.place.device_map is True and not c.v.place.uneven


def _against_device_map(c: JobCheck, what: str, at: str) -> Finding:
    place = c.v.place
    assert place.device_count is not None
    assert place.local_world_size is not None
    template = (
        "{what} refuses device_map: {devices} visible devices for {processes} process(es), so ms-swift cuts the model over {each} devices; "
        "start one process a device: {advice}"
    )
    fix = one_process_each(c)
    return c.finding(
        template, at, flags=["NPROC_PER_NODE", visible_name(c)], what=what, devices=place.device_count, processes=place.local_world_size,
        each=place.device_count // place.local_world_size, advice=fix.description if isinstance(fix, Fix) else fix, fix=fix,
        related=[(visible_name(c), f"{place.device_count} devices"), ("NPROC_PER_NODE", f"{place.local_world_size} process(es)")],
    )  # fmt: skip


@rule("LCH001", "deepspeed-with-device-map", routes=TRAIN)
def deepspeed_with_device_map(c: JobCheck) -> Iterator[Finding]:
    """DeepSpeed in a process that owns several devices.

    Without NPROC_PER_NODE ms-swift starts one process. If it sees several devices it spreads the layers over them (device_map), which DeepSpeed cannot
    work with. Each device needs its own process.

    In the log: `ValueError: DeepSpeed is not compatible with `device_map`. n_gpu: 4, local_world_size: 1.`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero2
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --deepspeed zero2
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_deepspeed; swift/utils/env.py:is_mp
    """
    value = given(c, "deepspeed")
    if _cut_over_devices(c) and isinstance(value, str) and value and c.v.get("use_ray", False) is False:
        yield _against_device_map(c, "DeepSpeed", "deepspeed")


@rule("LCH002", "fsdp-with-device-map", routes=TRAIN, since="3.12")
def fsdp_with_device_map(c: JobCheck) -> Iterator[Finding]:
    """FSDP2 in a process that owns several devices.

    FSDP shards the model over processes; a single process with several devices gets a model that device_map has already cut. Start one process a device.

    In the log: `ValueError: FSDP2 is not compatible with `device_map`. n_gpu: 4, local_world_size: 1.`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --fsdp fsdp2
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --fsdp fsdp2
    ```

    Source: swift/arguments/sft_args.py:SftArguments._init_fsdp
    """
    value = given(c, "fsdp")
    if _cut_over_devices(c) and isinstance(value, str) and value and c.v.get("use_ray", False) is False:
        yield _against_device_map(c, "FSDP2", "fsdp")


@rule("LCH003", "liger-with-device-map", routes=TRAIN)
def liger_with_device_map(c: JobCheck) -> Iterator[Finding]:
    """The Liger kernels in a process that owns several devices.

    Liger's fused loss reads tensors of one device; a model that device_map cut over several does not keep them there.

    In the log: `ValueError: liger_kernel does not support device_map. …`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --use_liger_kernel true
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --use_liger_kernel true
    ```

    Source: swift/trainers/arguments.py:TrainArgumentsMixin.__post_init__
    """
    if _cut_over_devices(c) and c.v.get("use_liger_kernel") is True:
        yield _against_device_map(c, "the Liger kernel", "use_liger_kernel")


@rule("LCH004", "vllm-with-device-map", routes=("swift rlhf",))
def vllm_with_device_map(c: JobCheck) -> Iterator[Finding]:
    """GRPO or GKD with vLLM in a process that owns several devices.

    In colocate mode each trainer process runs an engine on its device, in server mode each sends weights; both need one process a device.

    In the log: `ValueError: GRPO with vLLM is not compatible with `device_map`. …`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 \\
        --per_device_train_batch_size 4 --use_vllm true --vllm_mode colocate
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy \\
        --num_generations 4 --per_device_train_batch_size 4 --use_vllm true --vllm_mode colocate
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_grpo, _check_gkd
    """
    kind = c.v.rlhf_type
    early_gkd = kind == "gkd" and c.facts.version.startswith(("3.8.", "3.9."))  # that check came with 3.10
    if kind in ("grpo", "gkd") and not early_gkd and c.v.get("use_vllm") is True and _cut_over_devices(c):
        yield _against_device_map(c, f"{kind.upper()} with vLLM", "use_vllm")


@rule("LCH005", "devices-not-multiple-of-processes", routes=TRAIN)
def devices_not_multiple(c: JobCheck) -> Iterator[Finding]:
    """The visible devices are no multiple of the processes on the node.

    Every sft, pt and rlhf run divides the devices it sees by its processes and stops where a rest is left, whatever else it does.

    In the log: `AssertionError: n_gpu: 8, local_world_size: 7`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=7 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6 NPROC_PER_NODE=7 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/utils/env.py:is_mp
    """
    place = c.v.place
    if not place.uneven or place.device_count is None or place.local_world_size is None or place.device_count < place.local_world_size:
        return
    name = visible_name(c)
    shown = ",".join(place.devices[: place.local_world_size]) if place.devices else ""
    template = "{devices} visible devices are no multiple of {processes} processes: ms-swift stops at `n_gpu % local_world_size == 0`; make both {processes}{how}, or NPROC_PER_NODE={devices}"
    yield c.finding(
        template, name if name in c.job.env else "NPROC_PER_NODE", flags=["NPROC_PER_NODE", name], devices=place.device_count, processes=place.local_world_size,
        how=f" ({name}={shown})" if shown else "", related=[("NPROC_PER_NODE", f"{place.local_world_size} processes")],
        fix=c.set_env(name, shown) if shown else f"NPROC_PER_NODE={place.device_count}",
    )  # fmt: skip


@rule("LCH006", "more-processes-than-devices", routes=TRAIN)
def more_processes_than_devices(c: JobCheck) -> Iterator[Finding]:
    """More processes on a node than it has visible devices.

    NPROC_PER_NODE counts processes on each node; every one needs a device of its own.

    In the log: `AssertionError: n_gpu: 4, local_world_size: 8`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/utils/env.py:is_mp
    """
    if c.v.place.uneven:
        yield from _too_many_processes(c)


@rule("LCH007", "more-ranks-than-devices", consequence="wrong", routes=(*MEGATRON, "megatron export", "swift infer"))
def more_ranks_than_devices(c: JobCheck) -> Iterator[Finding]:
    """More processes on a node than visible devices, on a route that does not count them first.

    Megatron and `swift infer` bind rank n to device n and fail there.

    In the log: `CUDA error: invalid device ordinal`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --output_dir out
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --output_dir out
    ```

    Source: swift/utils/torch_utils.py:set_device
    Not shown on CPU: binding a rank to its device needs the devices
    """
    if c.v.place.torchrun and c.job.ray is None:
        yield from _too_many_processes(c)


def _too_many_processes(c: JobCheck) -> Iterator[Finding]:
    count, local = c.v.place.device_count, c.v.place.local_world_size
    if count is None or local is None or not 0 < count < local:
        return
    template = "{processes} processes for {devices} visible device(s): each process needs its own; NPROC_PER_NODE={devices}"
    fix: Fix | str = c.set_env("NPROC_PER_NODE", str(count)) if c.job.launch.launcher == "cli" else f"{count} processes"
    name = visible_name(c)
    yield c.finding(template, "NPROC_PER_NODE", flags=[name], processes=local, devices=count, related=[(name, f"{count} device(s)")], fix=fix)


@rule("LCH008", "idle-devices", severity="warning", consequence="waste", routes=MEGATRON)
def idle_devices(c: JobCheck) -> Iterator[Finding]:
    """A Megatron job with fewer processes than visible devices.

    Megatron has no device_map: the other devices stay idle. A `megatron` command without NPROC_PER_NODE and NNODES is one plain process.

    In the log: nothing; `nvidia-smi` shows the idle devices

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --output_dir out
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 megatron sft --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --output_dir out
    ```

    Source: swift/cli/main.py:get_torchrun_args
    """
    count, local = c.v.place.device_count, c.v.place.local_world_size
    if c.job.ray is not None or count is None or local is None or local >= count:
        return
    template = "{processes} process(es) for {devices} visible devices: {idle} stay idle, since Megatron uses one device a process; {advice}"
    fix = one_process_each(c)
    yield c.finding(
        template, "NPROC_PER_NODE", flags=[visible_name(c)], processes=local, devices=count, idle=count - local,
        advice=fix.description if isinstance(fix, Fix) else fix, related=[(visible_name(c), f"{count} devices")], fix=fix,
    )  # fmt: skip


@rule("LCH009", "model-cut-over-devices", severity="info", consequence="waste", routes=TRAIN)
def model_cut_over_devices(c: JobCheck) -> Iterator[Finding]:
    """One process with several devices: layers are spread over them and work one after the other.

    That is right for a model too large for one device and slow for any other: at any time one device computes. One process a device (DDP, DeepSpeed,
    FSDP2) trains on all of them at once.

    In the log: `model.hf_device_map: {…}` with several devices

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/model/utils.py:get_default_device_map
    """
    place = c.v.place
    if not _cut_over_devices(c) or place.device_count is None or place.local_world_size is None or c.v.open_ended:
        return
    others = [given(c, flag) for flag in ("deepspeed", "fsdp", "use_liger_kernel", "use_vllm", "use_ray")]
    if any(other or other is UNKNOWN for other in others):
        return
    each = place.device_count // place.local_world_size
    template = "{processes} process(es) for {devices} visible devices: the layers are spread over {each} devices that work one after the other; to train on all at once: {advice}"
    fix = one_process_each(c)
    advice = fix.description if isinstance(fix, Fix) else fix
    yield c.finding(
        template, visible_name(c), flags=["NPROC_PER_NODE"], processes=place.local_world_size, devices=place.device_count, each=each, advice=advice, fix=Fix(advice),
    )  # fmt: skip


@rule("LCH010", "many-processes-on-one-node", severity="warning", confidence="medium", consequence="wrong")
def many_processes(c: JobCheck) -> Iterator[Finding]:
    """More processes on one node than machines usually have accelerators.

    NPROC_PER_NODE counts the processes of each node, not of the whole job. Sixteen GPUs on two machines are NNODES=2 and NPROC_PER_NODE=8.

    In the log: `CUDA error: invalid device ordinal`, or `n_gpu: 8, local_world_size: 16`

    Wrong:
    ```sh
    NPROC_PER_NODE=16 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args
    """
    place = c.v.place
    local = place.local_world_size
    if not place.torchrun or local is None or local <= 8 or place.device_count is not None or on_ascend(c) or c.job.ray is not None:
        return
    template = "{processes} processes on each node: machines have 8 accelerators as a rule, and NPROC_PER_NODE counts those of one node; for {processes} on {nodes} machines: NNODES={nodes} NPROC_PER_NODE=8"
    nodes = -(-local // 8)
    yield c.finding(template, "NPROC_PER_NODE", processes=local, nodes=nodes, fix=f"NNODES={nodes} NPROC_PER_NODE=8, with NODE_RANK and MASTER_ADDR")


@rule("LCH011", "processes-ignored", severity="warning", consequence="waste")
def processes_ignored(c: JobCheck) -> Iterator[Finding]:
    """NPROC_PER_NODE in front of a command that ms-swift never starts under torchrun.

    Only pt, sft, rlhf, infer and the megatron commands look at it. `swift rollout` and `swift deploy` start their own workers, counted by
    `--vllm_tensor_parallel_size` and `--vllm_data_parallel_size`.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=4 swift rollout --model Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B --vllm_data_parallel_size 4
    ```

    Source: swift/cli/main.py:cli_main
    """
    route = c.facts.routes.get(c.v.route)
    entry = c.env_entry("NPROC_PER_NODE")
    if route is None or route.torchrun or c.job.launch.launcher != "cli" or entry is None or entry.how not in ("prefix", "block"):
        return
    count = integer(entry.token)
    if count is None or count < 2:
        return
    parallel = "vllm_data_parallel_size" in c.v.flags
    template = "`{route}` never runs under torchrun: NPROC_PER_NODE={count} does nothing" + ("; engines are counted by --vllm_tensor_parallel_size × --vllm_data_parallel_size" if parallel else "")
    yield c.finding(template, "NPROC_PER_NODE", route=c.v.route, count=count, fix="remove NPROC_PER_NODE from this command")
