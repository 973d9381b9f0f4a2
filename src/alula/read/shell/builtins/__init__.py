"""The builtins of bash that change what a script launches. Those that only report or manage jobs do nothing here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..interp import Leave
from ..state import FAIL, LIKELY, OK, Element, Status, Var
from ..text import Seg, Text, decode, encode, text_of, unknown
from .output import echo, mapfile, printf, read
from .variables import declare, getopts, let, set_, shift, unset

if TYPE_CHECKING:
    from ..commands import Commands
    from ..expand import Field

Builtin = Callable[["Commands", "list[Field]"], Status]


def eval_(shell: Commands, fields: list[Field]) -> Status:
    segs: list[Seg] = []
    for item in fields[1:]:
        if segs:
            segs.append(Seg(" "))
        segs.extend(shell.from_field(item))
    if shell.calls >= 15:
        return LIKELY
    shell.calls += 1
    try:
        return shell.run_items(shell.parse(Text.of(tuple(segs))))
    finally:
        shell.calls -= 1


def source(shell: Commands, fields: list[Field]) -> Status:
    if len(fields) < 2 or unknown(fields[1].segs) or shell.calls >= 15:
        return LIKELY
    name = fields[1].text
    text = shell.script_text(name)
    if text is None:
        return LIKELY
    state = shell.state
    saved_args, saved_source = state.args, state.source
    if len(fields) > 2:
        state.args = tuple(shell.from_field(item) for item in fields[2:])
    state.source = (*saved_source, decode(name))
    shell.calls += 1
    try:
        return shell.scoped("function", lambda: shell.run_items(shell.parse(text)))
    finally:
        shell.calls -= 1
        if len(fields) > 2:
            shell.state.args = saved_args
        shell.state.source = saved_source


def exec_(shell: Commands, fields: list[Field]) -> Status:
    at = 1
    while at < len(fields) and fields[at].text.startswith("-"):
        at += 2 if fields[at].text == "-a" else 1
    if at >= len(fields):
        return OK
    status = shell.external(fields[at:], shell.environment())
    raise Leave("exit", status)


def command(shell: Commands, fields: list[Field]) -> Status:
    at = 1
    look = False
    while at < len(fields) and fields[at].text.startswith("-"):
        look = look or "v" in fields[at].text or "V" in fields[at].text
        at += 1
    if at >= len(fields):
        return OK
    if look:
        return which(shell, fields[at - 1 :])
    name = fields[at].text
    builtin = BUILTINS.get(name)
    if builtin is not None:
        return builtin(shell, fields[at:])
    return shell.external(fields[at:], shell.environment())


def which(shell: Commands, fields: list[Field]) -> Status:
    """A program is taken to be there; its name runs it as well as its path would."""
    names = [item for item in fields[1:] if not item.text.startswith("-")]
    known = bool(names) and all(item.text in shell.state.functions or item.text in BUILTINS for item in names)
    for item in names:
        shell.print(tuple(Seg(seg.text, seg.file, seg.start, seg.end, seg.hops, seg.unk, not known) for seg in item.segs))
        shell.print_text("\n")
    return OK if known else LIKELY


def _leaves(kind: str) -> Builtin:
    def leave(shell: Commands, fields: list[Field]) -> Status:
        status = shell.state.status
        count = 1
        if len(fields) > 1:
            text = fields[1].text
            known = re.fullmatch(r"-?\d+", text) and not unknown(fields[1].segs)
            if kind in ("break", "continue"):
                count = max(1, int(text)) if known else 1
            else:
                status = Status(int(text) & 255) if known else Status(status.code, False)
        if kind in ("break", "continue"):
            if not shell.loops:
                return OK
            raise Leave(kind, OK, count)
        raise Leave(kind, status)

    return leave


def test(shell: Commands, fields: list[Field]) -> Status:
    args = fields[1:]
    if fields[0].text == "[":
        if not args or args[-1].text != "]":
            return Status(2)
        args = args[:-1]
    return shell.test(args)


def cd(shell: Commands, fields: list[Field]) -> Status:
    args = [item for item in fields[1:] if item.text not in ("--", "-P", "-L", "-e")]
    state = shell.state
    if args and unknown(args[0].segs):
        return LIKELY
    if not args:
        home = shell.lookup_value("HOME")
        if home is None or unknown(home):
            return LIKELY
        name = text_of(home)
    elif args[0].text == "-":
        name = text_of(shell.lookup_value("OLDPWD") or ())
    else:
        name = args[0].text
    before = state.cwd
    state.cwd = shell.path(name)
    shell.set_var("OLDPWD", Var((Seg(before),)))
    return OK  # a directory that is not here is taken to be where the script runs


def pushd(shell: Commands, fields: list[Field]) -> Status:
    stack = shell.variable("DIRSTACK")
    items = list((stack.items or {}).values())
    if fields[0].text == "pushd":
        shell.set_var("DIRSTACK", Var(None, dict(enumerate([Element((Seg(shell.state.cwd),)), *items]))))
        return cd(shell, fields)
    if not items:
        return FAIL
    shell.state.cwd = text_of(items[0].value)
    shell.set_var("DIRSTACK", Var(None, dict(enumerate(items[1:]))))
    return OK


def pwd(shell: Commands, _: list[Field]) -> Status:
    shell.print_text(encode(shell.state.cwd) + "\n")
    return OK


def trap(shell: Commands, fields: list[Field]) -> Status:
    args = [item for item in fields[1:] if item.text != "--"]
    if len(args) < 2 or args[0].text in ("-l", "-p"):
        return OK
    for item in args[1:]:
        if item.text in ("EXIT", "0"):
            if args[0].text == "-":
                shell.traps.pop("EXIT", None)
            else:
                shell.traps["EXIT"] = args[0].segs
    return OK


def shopt(shell: Commands, fields: list[Field]) -> Status:
    words = [item.text for item in fields[1:]]
    if "nullglob" in words and words[0] in ("-s", "-u"):
        shell.state.nullglob = words[0] == "-s"
    return OK


def nothing(*_: object) -> Status:
    return OK


def false(*_: object) -> Status:
    return FAIL


def open_question(*_: object) -> Status:
    return LIKELY


def _declared(shell: Commands, fields: list[Field]) -> Status:
    return declare(shell, fields[0].text, fields[1:])


BUILTINS: dict[str, Builtin] = {
    "echo": echo, "printf": printf, "read": read, "mapfile": mapfile, "readarray": mapfile, "unset": unset, "set": set_, "shift": shift,
    "getopts": getopts, "let": let, "eval": eval_, "source": source, ".": source, "exec": exec_, "command": command, "builtin": command,
    "type": which, "which": which, "hash": which, "exit": _leaves("exit"), "logout": _leaves("exit"), "return": _leaves("return"),
    "break": _leaves("break"), "continue": _leaves("continue"), "test": test, "[": test, "cd": cd, "pushd": pushd, "popd": pushd, "pwd": pwd,
    "trap": trap, ":": nothing, "true": nothing, "false": false, "shopt": shopt, "ulimit": nothing, "umask": nothing, "disown": nothing,
    "jobs": nothing, "bg": nothing, "fg": nothing, "times": nothing, "enable": nothing, "bind": nothing, "complete": nothing, "dirs": nothing,
    "history": nothing, "alias": nothing, "unalias": nothing, "wait": open_question, "kill": open_question, "suspend": nothing, "help": nothing,
    "caller": nothing, "compgen": nothing,
    **dict.fromkeys(("export", "declare", "typeset", "local", "readonly"), _declared),
}  # fmt: skip
