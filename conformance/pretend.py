"""Pretend the machine that a command was written for: its packages, its accelerators and its process group.

The judge runs on a bare CPU. What a check would find on a GPU machine with every optional package installed is shown to it here,
so that only the command decides the verdict. Nothing in this module changes a check of ms-swift itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import socket
import sys
import types
from pathlib import Path
from typing import Any

PACKAGES: dict[str, tuple[str, str]] = {
    # distribution: (top-level module, version shown to version checks); the versions that ms-swift 4.6 recommends
    "vllm": ("vllm", "0.23.0"),
    "deepspeed": ("deepspeed", "0.18.9"),
    "flash-attn": ("flash_attn", "2.8.3"),
    "liger-kernel": ("liger_kernel", "0.7.0"),
    "math-verify": ("math_verify", "0.8.0"),
    "lmdeploy": ("lmdeploy", "0.10.0"),
    "sglang": ("sglang", "0.5.5"),
    "evalscope": ("evalscope", "1.4.0"),
    "apex": ("apex", "0.1"),
    "qwen-vl-utils": ("qwen_vl_utils", "0.0.14"),
    "decord": ("decord", "0.6.0"),
    "jieba": ("jieba", "0.42.1"),
    "swanlab": ("swanlab", "0.7.0"),
    "wandb": ("wandb", "0.23.0"),
    "bitsandbytes": ("bitsandbytes", "0.49.0"),
    "hqq": ("hqq", "0.2.8"),
    "optimum-quanto": ("optimum.quanto", "0.2.7"),
    "eetq": ("eetq", "1.0.0"),
    "autoawq": ("awq", "0.2.9"),
    "auto-gptq": ("auto_gptq", "0.7.1"),
    "gptqmodel": ("gptqmodel", "5.0.0"),
    "transformer-engine": ("transformer_engine", "2.16.0"),
    "transformer-engine-torch": ("transformer_engine_torch", "2.16.0"),
}


class _StubType(type):
    """A class whose every attribute is another such class, so that any `from package import Name` and any base class works."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stub(name)


def _stub(name: str) -> type:
    def swallow(self: Any, *args: Any, **kwargs: Any) -> None:
        return None

    return _StubType(name, (), {"__init__": swallow, "__call__": swallow})


class _StubModule(types.ModuleType):
    __version__ = "0"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _stub(name)
        setattr(self, name, value)
        return value


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, modules: dict[str, str]) -> None:
        self._modules = modules

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = next((m for m in self._modules if fullname == m or fullname.startswith(m + ".") or m.startswith(fullname + ".")), None)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if root else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _StubModule(spec.name)
        module.__version__ = self._modules.get(spec.name, "0")
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def packages(metadata_dir: Path) -> None:
    """Make `PACKAGES` importable and visible to `importlib.metadata`, unless the real one is installed. Call before importing ms-swift.

    Their distribution records are written under `metadata_dir`, because that is where every version check looks.
    """
    from importlib import metadata
    from importlib.util import find_spec

    stubs: dict[str, str] = {}
    for name, (module, version) in PACKAGES.items():
        try:
            metadata.version(name)
            continue
        except metadata.PackageNotFoundError:
            pass
        if "." not in module and find_spec(module) is not None:
            continue
        stubs[module] = version
        record = metadata_dir / f"{name.replace('-', '_')}-{version}.dist-info"
        record.mkdir(parents=True, exist_ok=True)
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
        (record / "top_level.txt").write_text(module.split(".")[0] + "\n", encoding="utf-8")
    sys.path.append(str(metadata_dir))
    sys.meta_path.append(_StubFinder(stubs))


def accelerators(count: int) -> None:
    """Show `count` CUDA devices with bf16 (compute capability 9.0, 80 GiB); 0 leaves the bare CPU."""
    import torch

    if count <= 0:
        return
    cuda: Any = torch.cuda
    properties = types.SimpleNamespace(name="pretended", major=9, minor=0, total_memory=80 << 30, multi_processor_count=132)
    index = int(os.environ.get("LOCAL_RANK", "0"))
    for name, value in {
        "is_available": True,
        "device_count": count,
        "current_device": index,
        "set_device": None,
        "is_bf16_supported": True,
        "get_device_capability": (9, 0),
        "get_device_name": "pretended",
        "get_device_properties": properties,
        "mem_get_info": (80 << 30, 80 << 30),
        "synchronize": None,
        "empty_cache": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "init": None,
    }.items():
        setattr(cuda, name, lambda *args, _value=value, **kwargs: _value)
    _forget_probes()
    _fake_backends()


def _forget_probes() -> None:
    """Drop what was remembered about the bare machine: transformers and accelerate keep the answers of their hardware probes."""
    from accelerate.utils import imports as accelerate_probes
    from transformers.utils import import_utils as transformers_probes

    for module in (transformers_probes, accelerate_probes):
        for probe in list(vars(module).values()):
            if hasattr(probe, "cache_clear"):
                probe.cache_clear()


def _fake_backends() -> None:
    """Let a process group that ms-swift starts by itself (GRPO in a plain process) come up: this torch has no nccl."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    original = dist.init_process_group

    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        if backend == "fake":
            original(backend, *args, **kwargs)
            return
        original("fake", store=FakeStore(), rank=int(os.environ.get("RANK", "0")), world_size=int(os.environ.get("WORLD_SIZE", "1")))

    setattr(dist, "init_process_group", init_process_group)


def process_group(world_size: int, rank: int = 0) -> None:
    """Make this process rank `rank` of a fake `torch.distributed` group of `world_size`, in which every collective is a no-op."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    original = dist.new_group

    def new_group(ranks: Any = None, *args: Any, **kwargs: Any) -> Any:
        # Megatron asks for nccl and gloo groups and sets their timeouts; the fake backend knows neither.
        return original(ranks=ranks, backend="fake")

    setattr(dist, "new_group", new_group)
    setattr(distributed_c10d, "_set_pg_timeout", lambda *args, **kwargs: None)


class NetworkBlocked(OSError):
    """Something tried to reach another machine."""


def no_network() -> None:
    """Refuse every outgoing connection; listening sockets (a search for a free port) still work."""

    def refuse(self: socket.socket, address: Any) -> Any:
        if self.family == getattr(socket, "AF_UNIX", None):
            return connect(self, address)
        raise NetworkBlocked(f"no network in the judge: {address}")

    def unresolved(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host in (None, "", "localhost", "127.0.0.1", "0.0.0.0", "::1"):
            return lookup(host, *args, **kwargs)
        raise NetworkBlocked(f"no network in the judge: {host}")

    connect = socket.socket.connect
    lookup = socket.getaddrinfo
    setattr(socket.socket, "connect", refuse)
    setattr(socket.socket, "connect_ex", lambda self, address: 111)
    setattr(socket, "getaddrinfo", unresolved)


def rollout_servers() -> None:
    """Let a trainer in server mode find its rollout servers: the real client object, with the calls over the network left out."""
    import swift.rlhf_trainers.vllm_client as module

    module.resolve_hostname = lambda hostname: hostname
    for cls, name in (
        (module.VLLMInferClient, "check_server"),
        (module.VLLMClient, "init_communicator"),
        (module.VLLMClient, "close_communicator"),
    ):
        setattr(cls, name, lambda self, *args, **kwargs: None)


def benchmarks(cls: Any, args: Any) -> None:
    """Let evalscope know every benchmark that the command names: their list is in the package, which is not here."""
    named = [args.eval_dataset] if isinstance(args.eval_dataset, str) else list(args.eval_dataset)
    cls.list_eval_dataset = staticmethod(lambda eval_backend=None: dict.fromkeys(("Native", "OpenCompass", "VLMEvalKit"), named))
