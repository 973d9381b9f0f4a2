"""Programs whose output scripts build commands from, emulated where it is certain: text tools, paths, counters.

A tool that is asked for more than is emulated answers "not known"; it never guesses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..builtins import BUILTINS
from ..state import LIKELY, OK, UNLIKELY, Status
from ..text import Seg
from .awk import awk
from .calc import bc, expr, getopt, seq
from .files import basename, copy, dirname, envsubst, find, ls, realpath, touch
from .jq import jq
from .kit import Tool, tool
from .lines import cat, cut_, grep, head, paste, rev, rev_lines, sort, tail, tee, tr, uniq, wc, xargs
from .sed import sed

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field


def nvidia_smi(shell: Commands, fields: list[Field]) -> Status:
    count = shell.gpus_per_node
    texts = [item.text for item in fields[1:]]
    if shell.state.out is None:
        return LIKELY
    if not count:
        return shell.unknown_output()
    if texts in (["-L"], ["--list-gpus"]):
        for n in range(count):
            shell.print_text(f"GPU {n}: accelerator (UUID: GPU-{n})\n")
        return OK
    query = next((text for text in texts if text.startswith("--query-gpu=")), "")
    if query and any("noheader" in text for text in texts):
        names = query.partition("=")[2].split(",")
        for n in range(count):
            for place, name in enumerate(names):
                if place:
                    shell.print_text(", ")
                if name in ("index", "count"):
                    shell.print_text(str(n if name == "index" else count))
                else:
                    shell.print((Seg("$(nvidia-smi)", unk="$(nvidia-smi)"),))
            shell.print_text("\n")
        return OK
    return shell.unknown_output()


def busy(shell: Commands, _: list[Field]) -> Status:
    """Asks what runs already or who holds a port: most likely nobody."""
    shell.unknown_output()
    return UNLIKELY


def sleep(shell: Commands, _: list[Field]) -> Status:
    shell.waits += 1
    return OK


def uname(shell: Commands, fields: list[Field]) -> Status:
    """ms-swift runs on Linux; nothing else is said about the machine."""
    if [item.text for item in fields[1:]] in ([], ["-s"]):
        shell.print_text("Linux\n")
        return OK
    return shell.unknown_output()


def machine(shell: Commands, _: list[Field]) -> Status:
    return shell.unknown_output()


INERT = frozenset(
    """mkdir rm rmdir chmod chown chgrp clear reset sync wall logger renice module ml deactivate activate tar unzip zip gzip gunzip ldconfig
    modprobe mount umount notify-send""".split()
)
"""Programs that print nothing a script reads and that are taken to succeed."""

_QUIET = """pip pip3 pip3.10 pip3.11 pip3.12 apt apt-get yum dnf brew wandb swanlab modelscope huggingface-cli hf pkill killall less more vim nano
    tput stty top htop free df du ps sysctl ntpdate""".split()


TOOLS: dict[str, Tool] = {
    name: tool(function)
    for name, function in {
        "cat": cat, "tee": tee, "head": head, "tail": tail, "wc": wc, "sort": sort, "uniq": uniq, "tac": rev_lines, "rev": rev, "paste": paste, "xargs": xargs,
        "tr": tr, "cut": cut_, "grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "awk": awk, "gawk": awk, "mawk": awk, "jq": jq,
        "basename": basename, "dirname": dirname, "realpath": realpath, "readlink": realpath, "seq": seq, "expr": expr, "bc": bc, "ls": ls,
        "find": find, "cp": copy, "mv": copy, "touch": touch, "envsubst": envsubst, "getopt": getopt, "nvidia-smi": nvidia_smi, "date": machine,
        "hostname": machine, "nproc": machine, "uname": uname, "sleep": sleep, "whoami": machine, "id": machine, "uuidgen": machine, "mktemp": machine,
        "stat": machine, "shuf": machine, "openssl": machine, "md5sum": machine, "sha256sum": machine, "od": machine, "xxd": machine,
        "getconf": machine, "lscpu": machine, "lspci": machine, "npu-smi": machine, "rocm-smi": machine, "ip": machine, "ifconfig": machine,
        "netstat": machine, "ss": machine, "pgrep": busy, "pidof": busy, "lsof": busy, "fuser": busy, "curl": machine, "wget": machine, "nc": machine, "git": machine, "scontrol": machine,
        "squeue": machine, "sinfo": machine, "ping": machine, "printenv": machine, "column": machine, "yq": machine, "diff": machine, "cmp": machine,
        **dict.fromkeys(_QUIET, machine),
    }.items()
}  # fmt: skip
TOOLS.update({name: BUILTINS[name] for name in ("echo", "printf", "test", "[", "true", "false", "pwd")})  # behind `env`, `nohup`, …
