"""From the words of one command to an ms-swift route: what `swift`, `python -m`, torchrun, accelerate and deepspeed lines start."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from alula.run.job import EnvEntry, Launch, LauncherName
from alula.run.record import record
from alula.run.source import Token

_MODULE = re.compile(r"(?:^|\.)swift\.cli\.(_megatron\.)?(\w+)$")
_SCRIPT = re.compile(r"(?:^|/)swift/cli/(_megatron/)?(\w+)\.py$")
_PYTHON = re.compile(r"^(?:python|pypy)[\d.]*$")
_TORCHRUN_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PYTHON_FLAGS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_TORCHRUN_SWITCHES = ("standalone", "no-python", "run-path", "use-env", "start-method-fork", "virtual-local-rank")
_ACCELERATE_SWITCHES = (
    "multi_gpu", "cpu", "tpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_xpu", "quiet", "debug", "no_python", "same_network",
    "enable_cpu_affinity", "ipex", "use_parallelism_config", "no_tpu_cluster",
)  # fmt: skip
_DEEPSPEED_SWITCHES = ("no_python", "no_local_rank", "no_ssh", "no_ssh_check", "enable_each_rank_log", "save_pid", "force_multi", "elastic_training", "bind_cores_to_rank")


@record
class Start:
    """An ms-swift command found behind its launcher. `route` may be one that ms-swift does not have (`swift grpo`)."""

    route: str
    launch: Launch
    argv: tuple[Token, ...]


def find_start(words: Sequence[Token], env: Mapping[str, EnvEntry]) -> Start | None:
    """The words of a command -> the ms-swift command in it, or None when it starts something else."""
    if not words:
        return None
    program = posixpath.basename(words[0].text)
    if program in ("swift", "megatron"):
        return _cli(program, words[1:], env)
    if program in ("torchrun", "torch.distributed.run"):
        return _torchrun(words[1:])
    if program == "accelerate" and len(words) > 1 and words[1].text == "launch":
        return _accelerate(words[2:])
    if program == "deepspeed":
        return _deepspeed(words[1:])
    if _PYTHON.match(program):
        return _python(words[1:], env)
    if _SCRIPT.search(words[0].text):
        return _target(words, Launch("python"))
    return None


def _cli(program: str, rest: Sequence[Token], env: Mapping[str, EnvEntry]) -> Start | None:
    """`swift ROUTE …`: processes come from the environment (`cli/main.py:get_torchrun_args`)."""
    if not rest:
        return None

    def token(name: str) -> Token | None:
        entry = env.get(name)
        return entry.token if entry is not None else None

    launch = Launch("cli", token("NPROC_PER_NODE"), token("NNODES"), token("NODE_RANK"), token("MASTER_ADDR"), token("MASTER_PORT"))
    return Start(f"{program} {rest[0].text.replace('_', '-')}", launch, tuple(rest[1:]))


def _python(rest: Sequence[Token], env: Mapping[str, EnvEntry]) -> Start | None:
    at = 0
    while at < len(rest):
        text = rest[at].text
        if text == "-m" and at + 1 < len(rest):
            module = rest[at + 1].text
            if module in _TORCHRUN_MODULES:
                return _torchrun(rest[at + 2 :])
            if module == "accelerate.commands.launch":
                return _accelerate(rest[at + 2 :])
            if module in ("swift.cli.main", "swift.cli._megatron.main"):
                return _cli("megatron" if "_megatron" in module else "swift", rest[at + 2 :], env)
            return _target(rest[at + 1 :], Launch("python"), module=True)
        if text == "-c":
            return None
        if text in _PYTHON_FLAGS_WITH_VALUE:
            at += 2
            continue
        if text.startswith("-"):
            at += 1
            continue
        return _target(rest[at:], Launch("python"))
    return None


def _target(rest: Sequence[Token], launch: Launch, module: bool = False) -> Start | None:
    """`SCRIPT args` or, for a module, `MODULE args`."""
    if not rest:
        return None
    text = rest[0].text
    match = (_MODULE if module else _SCRIPT).search(text)
    if match:
        name = match[2]
        if name == "main":
            return Start(f"{'megatron' if match[1] else 'swift'} {rest[1].text.replace('_', '-')}", launch, tuple(rest[2:])) if len(rest) > 1 else None
        return Start(f"{'megatron' if match[1] else 'swift'} {name.replace('_', '-')}", launch, tuple(rest[1:]))
    if posixpath.basename(text) in ("swift", "megatron") and len(rest) > 1:
        return Start(f"{posixpath.basename(text)} {rest[1].text.replace('_', '-')}", launch, tuple(rest[2:]))
    if any(token.text == "--rlhf_type" for token in rest):  # the user's own script around `rlhf_main`
        megatron = any(token.text == "--micro_batch_size" for token in rest)
        return Start("megatron rlhf" if megatron else "swift rlhf", launch, tuple(rest[1:]))
    return None


def _options(rest: Sequence[Token], switches: Sequence[str]) -> tuple[dict[str, Token], int, bool]:
    """Launcher options up to the script: (name -> value token, index of the script, `-m` given). Names have underscores."""
    found: dict[str, Token] = {}
    module = False
    at = 0
    while at < len(rest) and rest[at].text.startswith("-"):
        text = rest[at].text
        if text in ("-m", "--module"):
            module = True
            at += 1
            continue
        name, equals, value = text.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if equals:
            found[name] = rest[at].with_text(value)
            at += 1
        elif name in (switch.replace("-", "_") for switch in switches):
            found[name] = rest[at]
            at += 1
        elif at + 1 < len(rest):
            found[name] = rest[at + 1]
            at += 2
        else:
            at += 1
    return found, at, module


def _torchrun(rest: Sequence[Token]) -> Start | None:
    found, at, module = _options(rest, _TORCHRUN_SWITCHES)

    def value(*names: str) -> Token | None:
        return next((found[name] for name in names if name in found), None)

    launch = Launch("torchrun", value("nproc_per_node"), value("nnodes"), value("node_rank"), value("master_addr"), value("master_port"))
    return _target(rest[at:], launch, module)


def _accelerate(rest: Sequence[Token]) -> Start | None:
    found, at, module = _options(rest, _ACCELERATE_SWITCHES)
    machines = found.get("num_machines")
    processes = found.get("num_processes")
    if processes is not None and machines is not None and machines.text.isdigit() and processes.text.isdigit() and int(machines.text) > 1:
        processes = processes.with_text(str(int(processes.text) // int(machines.text)))  # accelerate counts over all machines
    return _started("accelerate", rest[at:], module, processes, machines, found, ("machine_rank", "main_process_ip", "main_process_port"))


def _deepspeed(rest: Sequence[Token]) -> Start | None:
    found, at, module = _options(rest, _DEEPSPEED_SWITCHES)
    processes = found.get("num_gpus")
    include = found.get("include")
    if processes is None and include is not None and ":" in include.text and "@" not in include.text:
        processes = include.with_text(str(len(include.text.split(":")[1].split(","))))
    return _started("deepspeed", rest[at:], module, processes, found.get("num_nodes"), found, ("node_rank", "master_addr", "master_port"))


def _started(
    launcher: LauncherName, rest: Sequence[Token], module: bool, nproc: Token | None, nnodes: Token | None, found: Mapping[str, Token], names: tuple[str, str, str]
) -> Start | None:
    rank, address, port = (found.get(name) for name in names)
    if nproc is None and rest:  # the launcher's config file or all visible devices decide
        nproc = Token("$(launcher's own default)", rest[0].span, unresolved=("$(launcher's own default)",))
    return _target(rest, Launch(launcher, nproc, nnodes, rank, address, port), module)
