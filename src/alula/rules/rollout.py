"""The trainer's side of generation: vLLM beside it (colocate) or on a server, and the flags of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.swift.arithmetic import divisors
from alula.swift.parse import UNKNOWN

from .batch import ranks
from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import ROLLOUT_TYPES, colocate, empty, given, kind, server_mode, whole, words

if TYPE_CHECKING:
    from alula.run.finding import Finding

DAY = 86400.0


@rule("ROL001", "vllm-mode-without-vllm", routes=("swift rlhf",), since="3.11")
def vllm_mode_without_vllm(c: JobCheck) -> Iterator[Finding]:
    """`vllm_mode` without `use_vllm true`.

    The two flags belong together: one says whether vLLM generates, the other where it runs.

    In the log: `ValueError: vllm_mode is not supported when use_vllm is false`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --vllm_mode colocate
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_rollout
    """
    mode = c.v.get("vllm_mode")
    if kind(c) in ROLLOUT_TYPES and isinstance(mode, str) and c.v.get("use_vllm") is False:
        template = "--vllm_mode {mode} without --use_vllm true is refused; give both or neither"
        yield c.finding(template, "vllm_mode", flags=["use_vllm"], mode=mode, fix=c.set_flag("use_vllm", "true"))


@rule("ROL002", "vllm-without-mode", routes=("swift rlhf",), since="3.11")
def vllm_without_mode(c: JobCheck) -> Iterator[Finding]:
    """`use_vllm true` without `vllm_mode`.

    There is no default any more: `colocate` starts an engine inside every training rank, `server` talks to `swift rollout`.

    In the log: `ValueError: vllm_mode is required when use_vllm is true`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_rollout
    """
    if kind(c) not in ROLLOUT_TYPES or c.v.get("use_vllm") is not True or c.v.get("vllm_mode") is not None:
        return
    address = not empty(c.v.get("vllm_server_host")) or not empty(c.v.get("vllm_server_base_url"))
    mode = "server" if address else "colocate"
    template = "--use_vllm true needs --vllm_mode: colocate (an engine in every rank) or server (`swift rollout`); this command looks like {mode}"
    yield c.finding(template, "use_vllm", flags=["vllm_mode"], mode=mode, fix=c.set_flag("vllm_mode", mode))


@rule("ROL003", "server-mode-without-address", routes=RLHF)
def server_mode_without_address(c: JobCheck) -> Iterator[Finding]:
    """Server mode without the server's address.

    The trainer does not look for a server; it is told one or several by host and port, or by URL.

    In the log: a bare `AssertionError` in `_init_rollout`; on Megatron `TypeError: object of type 'NoneType' has no len()`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_rollout; swift/megatron/pipelines/train/rlhf.py:MegatronRLHF._prepare_vllm_client
    """
    if kind(c) not in ROLLOUT_TYPES or not server_mode(c.v) or c.job.ray is not None:
        return
    if c.v.get("vllm_server_host") is None and c.v.get("vllm_server_base_url") is None:
        template = "--vllm_mode server needs the address of `swift rollout`: --vllm_server_host HOST --vllm_server_port 8000 (or --vllm_server_base_url)"
        finding = c.finding(template, "vllm_mode", flags=["vllm_server_host", "vllm_server_base_url"], fix=c.set_flag("vllm_server_host", "127.0.0.1"))
        yield finding if not c.v.megatron else replace(finding, consequence="wrong")


@rule("ROL004", "async-without-server", routes=("swift rlhf",))
def async_without_server(c: JobCheck) -> Iterator[Finding]:
    """`async_generate` needs a rollout server.

    It samples the next batch while the present one trains, which an engine on the training GPUs cannot do.

    In the log: `AssertionError: async generate require vllm_mode == server, `

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --async_generate true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --async_generate true
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_rollout
    """
    if kind(c) in ROLLOUT_TYPES and c.v.get("async_generate") is True and c.v.get("vllm_mode") not in ("server", UNKNOWN):
        template = "--async_generate true works with --vllm_mode server only (here {mode})"
        mode = c.v.get("vllm_mode") or "no vLLM"
        yield c.finding(template, "async_generate", flags=["vllm_mode"], mode=mode, fix=c.set_flag("async_generate", "false"))


@rule("ROL005", "server-lists-differ", routes=RLHF, since="3.10")
def server_lists_differ(c: JobCheck) -> Iterator[Finding]:
    """Hosts and ports of rollout servers are not of the same number.

    Each host needs its port, and each server its weight-sync port when `vllm_server_group_port` is given. Hosts and ports are not read at all beside
    `vllm_server_base_url`.

    In the log: `ValueError: host and server_port must have same length when lists are provided`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.1 10.0.0.2 --vllm_server_port 8000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.1 10.0.0.2 --vllm_server_port 8000 8000
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.__init__, VLLMClient.__init__
    """
    if kind(c) not in ROLLOUT_TYPES or c.job.ray is not None or (c.v.megatron and not server_mode(c.v)):
        return
    hosts, urls, ports = c.v.get("vllm_server_host"), c.v.get("vllm_server_base_url"), c.v.get("vllm_server_port")
    if urls is UNKNOWN or (hosts is None and urls is None):
        return
    found: list[Finding] = []
    servers = len(words(urls)) if urls is not None else len(words(hosts))
    if urls is None and isinstance(hosts, tuple) and isinstance(ports, tuple) and len(hosts) != len(ports):
        template = "--vllm_server_host has {hosts} host(s) and --vllm_server_port {ports} port(s): give one port for each host"
        port = ports[0] if ports else 8000
        advice = f"--vllm_server_port {' '.join([str(port)] * len(hosts))}"
        at = "vllm_server_port" if c.v.use("vllm_server_port") is not None else "vllm_server_host"
        found.append(c.finding(template, at, flags=["vllm_server_host", "vllm_server_port"], hosts=len(hosts), ports=len(ports), fix=advice))
    groups = c.v.get("vllm_server_group_port")
    if isinstance(groups, tuple) and servers and len(groups) != servers:
        template = "--vllm_server_group_port has {groups} port(s) for {servers} server(s): give one for each"
        advice = f"--vllm_server_group_port {' '.join(str(groups[0] + n) for n in range(servers))}"
        found.append(c.finding(template, "vllm_server_group_port", flags=["vllm_server_host"], groups=len(groups), servers=servers, fix=advice))
    for finding in found:
        yield finding if not c.v.megatron else replace(finding, consequence="wrong")


@rule("ROL006", "server-url-without-scheme", consequence="hangs", routes=RLHF, since="3.10")
def server_url_without_scheme(c: JobCheck) -> Iterator[Finding]:
    """`vllm_server_base_url` that is no URL.

    Without `http://` the host is not recognised, and the trainer knocks at an address that cannot exist until the timeout.

    In the log: `ConnectionError: Servers not reachable after 240.0s`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_base_url 10.0.0.1:8000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_base_url http://10.0.0.1:8000
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.__init__
    Not shown on CPU: no server is there to be reached
    """
    if kind(c) not in ROLLOUT_TYPES:
        return
    for url in words(c.v.get("vllm_server_base_url")):
        if isinstance(url, str) and "://" not in url:
            template = "--vllm_server_base_url {url} lacks its scheme; write http://{url}"
            yield c.finding(template, "vllm_server_base_url", url=url, fix=f"--vllm_server_base_url http://{url}")


@rule("ROL007", "server-address-unused", consequence="wrong", routes=RLHF, since="3.11")
def server_address_unused(c: JobCheck) -> Iterator[Finding]:
    """The address of a rollout server in a command that does not use one.

    With `vllm_mode colocate` every rank starts its own engine, and without vLLM the model generates itself. `swift rlhf` nevertheless connects to the
    server first and stops when it does not answer; where it answers, it stays idle. On Megatron the address is not read.

    In the log: `Start connecting to vLLM server`, then engines that load on the training GPUs

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_server_host 10.0.0.5 --vllm_server_port 8000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.5 --vllm_server_port 8000
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_external_vllm
    Not shown on CPU: the arguments are accepted where the server answers
    """
    if kind(c) not in ROLLOUT_TYPES or c.job.ray is not None:
        return
    flag = next((name for name in ("vllm_server_host", "vllm_server_base_url") if words(given(c.v, name))), None)
    use, mode = c.v.get("use_vllm"), c.v.get("vllm_mode")
    if flag is None or use is UNKNOWN or mode is UNKNOWN or (use is True and mode != "colocate"):
        return
    how = "--vllm_mode colocate starts an engine in every training rank" if use is True else "--use_vllm is false, so the model generates without vLLM"
    idle = " the rollout server of this run stays idle;" if c.whole.servers else ""
    template = "{how}, yet --{flag} {address} names a server:{idle} use --vllm_mode server, or drop the address (and the server)"
    yield c.finding(
        template, flag, flags=["vllm_mode", "use_vllm", "vllm_server_port"], related=[("vllm_mode", "contradicts the server's address")], how=how, flag=flag,
        address=names(words(given(c.v, flag)), 3), idle=idle, fix=c.set_flag("vllm_mode", "server") if use is True else f"--use_vllm true --vllm_mode server, or remove --{flag}",
    )  # fmt: skip


@rule("ROL008", "vllm-tensor-parallel-does-not-divide", consequence="wrong", routes=RLHF)
def vllm_tensor_parallel_does_not_divide(c: JobCheck) -> Iterator[Finding]:
    """Colocated engines of several ranks must fill all ranks.

    `vllm_tensor_parallel_size` ranks form one engine; the number of processes must be a multiple of it. The check comes after the model is loaded.

    In the log: `ValueError: vllm_tensor_parallel_size (4) must divide world size (6) evenly.`

    Wrong:
    ```sh
    NPROC_PER_NODE=6 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 4 --num_generations 6
    ```

    Right:
    ```sh
    NPROC_PER_NODE=6 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 2 --num_generations 6
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm; swift/megatron/trainers/rollout_mixin.py
    Not shown on CPU: the arguments are accepted; building the trainer raises
    """
    size, world = whole(c.v.get("vllm_tensor_parallel_size")), c.v.place.world_size
    if kind(c) not in ROLLOUT_TYPES or not colocate(c.v) or c.job.ray is not None or size is None or world is None or size < 1 or world % size == 0:
        return
    valid = divisors(world)
    template = "--vllm_tensor_parallel_size {size} does not divide the {world} training processes; valid: {valid}"
    best = max((d for d in valid if d <= size), default=1)
    yield c.finding(
        template, "vllm_tensor_parallel_size", related=ranks(c), size=size, world=world, valid=names(valid), fix=c.set_flag("vllm_tensor_parallel_size", str(best))
    )  # fmt: skip


@rule("ROL009", "reasoning-parser-in-training", routes=("swift rlhf",), since="4.0")
def reasoning_parser_in_training(c: JobCheck) -> Iterator[Finding]:
    """`vllm_reasoning_parser` in GRPO: rewards need the whole completion, thoughts included.

    A reasoning parser splits the thoughts off. Training needs every token that was sampled, in order.

    In the log: `ValueError: vllm_reasoning_parser is not supported for GRPO Training, please unset it.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_reasoning_parser qwen3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate
    ```

    Source: swift/rlhf_trainers/arguments.py:GRPOConfig.__post_init__
    """
    if kind(c) == "grpo" and isinstance(c.v.get("vllm_reasoning_parser"), str):
        template = "--vllm_reasoning_parser is refused by GRPO: rewards need the whole completion; remove it"
        yield c.finding(template, "vllm_reasoning_parser", fix=c.drop_flag("vllm_reasoning_parser"))


@rule("ROL010", "server-timeout-of-days", severity="warning", consequence="hangs", routes=RLHF)
def server_timeout_of_days(c: JobCheck) -> Iterator[Finding]:
    """`vllm_server_timeout` longer than a day: it counts seconds.

    It is how long the trainer waits for the server to answer at the start. Too long a wait hides a server that is down, has moved to another port, or
    is behind a proxy.

    In the log: `Start connecting to vLLM server`, and nothing more

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_timeout 240000
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_timeout 600
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.check_server
    """
    timeout = c.v.get("vllm_server_timeout")
    if kind(c) not in ROLLOUT_TYPES or not isinstance(timeout, (int, float)) or isinstance(timeout, bool) or timeout <= DAY:
        return
    template = (
        "--vllm_server_timeout {timeout} is in seconds: {days} days of waiting hide a server that cannot be reached (port, proxy variables, firewall); "
        "240 is the default, 600 to 1800 is enough for a large model to load"
    )
    yield c.finding(template, "vllm_server_timeout", timeout=f"{timeout:g}", days=f"{timeout / DAY:.1f}", fix=c.set_flag("vllm_server_timeout", "600"))


@rule("ROL011", "vllm-length-too-short", severity="warning", consequence="wrong", routes=RLHF)
def vllm_length_too_short(c: JobCheck) -> Iterator[Finding]:
    """The engine's context does not hold a full prompt and a full completion.

    `max_length` limits the prompt, `max_completion_length` the completion, and `vllm_max_model_len` both together, all in tokens. Where the sum is
    larger, long prompts get shorter completions, and a prompt as long as the context stops the run.

    In the log: `max_model_len(4096) - num_tokens(…) < max_tokens(…). Setting max_tokens: …`; `Input length (…) leaves no room for generation`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --max_length 4096 --max_completion_length 4096 --vllm_max_model_len 4096
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --max_length 4096 --max_completion_length 4096 --vllm_max_model_len 8192
    ```

    Source: swift/infer_engine/infer_engine.py:InferEngine.set_default_max_tokens
    """
    if kind(c) not in ROLLOUT_TYPES or c.v.get("use_vllm") is not True or c.v.get("vllm_mode") in ("server", UNKNOWN):
        return
    length, prompt, completion = (whole(c.v.get(name)) for name in ("vllm_max_model_len", "max_length", "max_completion_length"))
    if length is None or completion is None or length >= (prompt or 0) + completion + (0 if prompt else 1):
        return
    if prompt is None:
        template = "--vllm_max_model_len {length} holds prompt and completion together, but --max_completion_length alone is {completion}; raise it"
        wanted = completion * 2
    else:
        wanted = prompt + completion
        template = (
            "--vllm_max_model_len {length} holds prompt and completion together, but max_length {prompt} + max_completion_length {completion} = {wanted} tokens; "
            "use --vllm_max_model_len {wanted}, or shorter limits"
        )
    yield c.finding(
        template, "vllm_max_model_len", flags=["max_length", "max_completion_length"], related=[("max_length", "the prompt"), ("max_completion_length", "the completion")],
        length=length, prompt=prompt, completion=completion, wanted=wanted, fix=c.set_flag("vllm_max_model_len", str(wanted)),
    )  # fmt: skip


@rule("ROL012", "memory-share-out-of-range", consequence="wrong", routes=(*RLHF, "swift rollout"))
def memory_share_out_of_range(c: JobCheck) -> Iterator[Finding]:
    """`vllm_gpu_memory_utilization` is a share of the card's memory: above 0, at most 1.

    It is a share, not a percentage or a number of gigabytes. In colocate the trainer needs the rest of the card.

    In the log: `ValueError: GPU memory utilization must be less than 1.0`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 40
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.4
    ```

    Source: vllm/config/cache.py:CacheConfig
    Not shown on CPU: the arguments are accepted; vLLM's engine raises
    """
    share = c.v.get("vllm_gpu_memory_utilization")
    if not isinstance(share, (int, float)) or isinstance(share, bool) or 0 < share <= 1:
        return
    if c.v.route != "swift rollout" and not (kind(c) in ROLLOUT_TYPES and colocate(c.v)):
        return
    better = share / 100 if 1 < share <= 100 else 0.4
    template = "--vllm_gpu_memory_utilization {share} is a share of the card's memory and must lie above 0 and at most at 1, such as {better}"
    yield c.finding(template, "vllm_gpu_memory_utilization", share=f"{share:g}", better=f"{better:g}", fix=c.set_flag("vllm_gpu_memory_utilization", f"{better:g}"))
