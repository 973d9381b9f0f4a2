"""Proxies between a trainer and its servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from alula.run.lazy import urlsplit

from .context import JobCheck, names
from .nodes import loopback
from .registry import rule
from .values import given

if TYPE_CHECKING:
    from alula.run.finding import Finding

TRAINERS = ("swift rlhf", "megatron rlhf")


def _proxy(c: JobCheck) -> tuple[str, str] | None:
    """The variable that sends http requests through a proxy, with its value."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        text = c.env(name)
        if text:
            return name, text
    return None


def _bypassed(c: JobCheck, host: str) -> bool:
    """True when no_proxy lists the host, as `requests` reads it; also where it cannot be known."""
    for name in ("no_proxy", "NO_PROXY"):
        entry = c.env_entry(name)
        if entry is None:
            continue
        if not entry.token.known:
            return True
        for item in entry.token.text.replace(" ", "").split(","):
            domain = item.lstrip(".")
            if item == "*" or (domain and (host == domain or host.endswith("." + domain))) or _in_network(host, item):
                return True
    return False


def _in_network(host: str, network: str) -> bool:
    try:
        return ip_address(host) in ip_network(network, strict=False)
    except ValueError:
        return False


def _private(host: str) -> bool:
    try:
        return ip_address(host).is_private
    except ValueError:
        return False


def _server_hosts(c: JobCheck) -> list[str]:
    """Hosts that the job itself calls over http: rollout and teacher servers."""
    hosts: list[str] = []
    for flag in ("vllm_server_host", "vllm_server_base_url", "teacher_model_server"):
        value = given(c, flag)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, str) and item and not item.startswith("["):
                try:
                    hosts.append((urlsplit(item).hostname or "") if "://" in item else item)
                except ValueError:
                    continue
    return [host for host in hosts if host]


@rule("ENV004", "proxy-before-local-server", consequence="hangs", routes=TRAINERS)
def proxy_before_local_server(c: JobCheck) -> Iterator[Finding]:
    """A proxy catches the trainer's requests to a server on its own machine.

    ms-swift calls the rollout server with `requests`, which obeys `http_proxy`, for 127.0.0.1 and localhost as well. The proxy cannot reach the trainer's own
    loopback address, and the trainer waits until `--vllm_server_timeout`.

    In the log: `Servers not reachable after 240.0 seconds`

    Wrong:
    ```sh
    http_proxy=http://10.0.0.1:3128 NPROC_PER_NODE=3 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy \\
        --num_generations 3 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000
    ```

    Right:
    ```sh
    http_proxy=http://10.0.0.1:3128 no_proxy=127.0.0.1,localhost NPROC_PER_NODE=3 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl \\
        --reward_funcs accuracy --num_generations 3 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 --vllm_server_port 8000
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient
    Not shown on CPU: the judge has no network
    """
    yield from _caught(c, loopback)


@rule("ENV005", "proxy-before-private-server", severity="warning", confidence="medium", consequence="hangs", routes=TRAINERS)
def proxy_before_private_server(c: JobCheck) -> Iterator[Finding]:
    """A proxy catches the trainer's requests to a server in the private network.

    Most proxies lead to the Internet and do not come back in.

    In the log: `Servers not reachable after 240.0 seconds`, or HTTP errors of the proxy

    Wrong:
    ```sh
    http_proxy=http://10.0.0.1:3128 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy \\
        --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.7 --vllm_server_port 8000
    ```

    Right:
    ```sh
    http_proxy=http://10.0.0.1:3128 no_proxy=10.0.0.0/8,127.0.0.1 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl \\
        --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 10.0.0.7 --vllm_server_port 8000
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient
    """
    yield from _caught(c, lambda host: _private(host) and not loopback(host))


def _caught(c: JobCheck, concerns: Callable[[str], bool]) -> Iterator[Finding]:
    proxy = _proxy(c)
    if proxy is None:
        return
    hosts = [host for host in dict.fromkeys(_server_hosts(c)) if concerns(host) and not _bypassed(c, host)]
    if hosts:
        name, value = proxy
        template = "{name}={value} catches the requests to {hosts}: add no_proxy={all}, or unset the proxy"
        at = next((flag for flag in ("vllm_server_host", "vllm_server_base_url", "teacher_model_server") if c.v.written(flag)), name)
        everyone = ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"]))
        yield c.finding(template, name, flags=["no_proxy", at], related=[(at, "the server")], name=name, value=value, hosts=names(hosts), all=everyone, fix=f"no_proxy={everyone}")
