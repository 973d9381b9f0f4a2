"""Builtins that set variables: `declare` and its kin, `unset`, `set`, `shift`, `getopts`, `let`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..arith import ArithmeticFault, UnknownNumber
from ..expand import Field
from ..state import FAIL, LIKELY, OK, UNSET, Element, Key, Status, Var
from ..syntax import ArrayLit, Assign
from ..text import Seg, Value, cut, text_of

if TYPE_CHECKING:
    from ..commands import Commands

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def declare(shell: Commands, builtin: str, items: Sequence[Field | Assign]) -> Status:
    """`declare`, `typeset`, `local`, `export`, `readonly`."""
    flags = ""
    removed = ""
    rest: list[Field | Assign] = []
    for item in items:
        if isinstance(item, Field) and not rest and re.fullmatch(r"[-+][A-Za-z]+", item.text):
            if item.text[0] == "-":
                flags += item.text[1:]
            else:
                removed += item.text[1:]
        elif isinstance(item, Field) and item.text == "--" and not rest:
            continue
        else:
            rest.append(item)
    if builtin == "export":
        flags = flags.replace("n", "N") + "x"
    if "f" in flags or "F" in flags:
        shell.exports_functions = shell.exports_functions or "x" in flags
        return OK
    if not rest:
        return OK
    local = (builtin == "local" or builtin in ("declare", "typeset")) and "g" not in flags and bool(shell.locals)
    for item in rest:
        if isinstance(item, Assign):
            _declare_one(shell, item.name, item, flags, removed, local)
        else:
            match = _ASSIGNMENT.match(item.text)
            if match:
                value = item.cut(match.end())
                _declare_one(shell, match.group(1), value, flags, removed, local, bool(match.group(2)))
            elif _NAME.fullmatch(item.text):
                _declare_one(shell, item.text, None, flags, removed, local)
    return OK


def _declare_one(shell: Commands, name: str, given: Assign | Field | None, flags: str, removed: str, local: bool, append: bool = False) -> None:
    state = shell.state
    if local:
        frame = shell.locals[-1]
        if name not in frame:
            frame[name] = state.vars.get(name)
            if given is None or not (isinstance(given, Assign) and given.append):
                outer = state.lookup(name)
                state.vars[name] = Var(exported=outer.exported, how=outer.how) if given is None or outer.exported else UNSET
    old = state.lookup(name)
    if "n" in flags:
        value = text_of(shell.value(given.value)) if isinstance(given, Assign) and not isinstance(given.value, ArrayLit) else given.text if isinstance(given, Field) else ""
        if _NAME.match(value) and value != name:
            state.vars[name] = Var(ref=value)
        return
    if "A" in flags and not old.assoc:
        state.vars[name] = old = Var(None, {}, old.exported, assoc=True)
    elif "a" in flags and old.items is None:
        state.vars[name] = old = Var(None, {} if old.value is None else {0: Element(old.value)}, old.exported)
    if "i" in flags:
        state.vars[name] = old = replace(old, integer=True)
    if isinstance(given, Assign):
        shell.assign_node(given)
    elif given is not None:
        value_segs = shell.from_field(given)
        if append:
            value_segs = (*(shell.lookup_value(name) or ()), *value_segs)
        shell.set_scalar(name, value_segs, place=given.place)
    found = state.lookup(name)
    if "x" in flags and "N" not in flags:
        state.vars[name] = replace(found, exported=True, how="export")
    elif "N" in flags or "x" in removed:
        state.vars[name] = replace(found, exported=False)
    elif name not in state.vars:
        state.vars[name] = found if found is not UNSET else Var()


def unset(shell: Commands, fields: list[Field]) -> Status:
    functions = False
    for item in fields[1:]:
        text = item.text
        if text.startswith("-"):
            functions = "f" in text
            continue
        match = re.fullmatch(r"([A-Za-z_]\w*)\[(.*)\]", text)
        if match:
            name = match.group(1)
            var = shell.variable(name)
            key: Key | None = match.group(2) if var.assoc else shell.index(match.group(2))
            if var.items is not None and key in var.items:
                shell.set_var(name, replace(var, items={k: v for k, v in var.items.items() if k != key}))
        elif functions or (text in shell.state.functions and not shell.state.lookup(text).set):
            shell.state.functions.pop(text, None)
        elif _NAME.fullmatch(text):
            shell.set_var(shell.target(text), UNSET)
    return OK


def set_(shell: Commands, fields: list[Field]) -> Status:
    at = 1
    while at < len(fields):
        text = fields[at].text
        if text == "--":
            shell.state.args = tuple(shell.from_field(item) for item in fields[at + 1 :])
            return OK
        if text[:1] not in ("-", "+") or len(text) < 2:
            shell.state.args = tuple(shell.from_field(item) for item in fields[at:])
            return OK
        if "a" in text[1:] and "o" not in text:
            shell.state.allexport = text[0] == "-"
        if "f" in text[1:] and "o" not in text:
            shell.state.noglob = text[0] == "-"
        if text[-1] == "o":
            at += 1
            if at < len(fields) and fields[at].text == "allexport":
                shell.state.allexport = text[0] == "-"
            elif at < len(fields) and fields[at].text == "noglob":
                shell.state.noglob = text[0] == "-"
        at += 1
    return OK


def shift(shell: Commands, fields: list[Field]) -> Status:
    count = int(fields[1].text) if len(fields) > 1 and fields[1].text.isdigit() else 1
    if count > len(shell.state.args):
        return Status(1, not shell.exploring)
    shell.state.args = shell.state.args[count:]
    return OK


def getopts(shell: Commands, fields: list[Field]) -> Status:
    if len(fields) < 3:
        return Status(2)
    spec, name = fields[1].text, fields[2].text
    args = [shell.from_field(item) for item in fields[3:]] or list(shell.state.args)
    index = int(text_of(shell.lookup_value("OPTIND") or (Seg("1"),)) or 1)
    if index == 1 and shell.state.getopts_at and "OPTIND" not in shell.state.vars:
        shell.state.getopts_at = 0
    at = shell.state.getopts_at
    current = text_of(args[index - 1]) if index <= len(args) else ""
    if not at:
        if current == "--":
            index += 1
            current = ""
        if len(current) < 2 or current[0] != "-":
            shell.set_scalar("OPTIND", (Seg(str(index)),))
            shell.set_scalar(name, (Seg("?", soft=shell.exploring),))
            return Status(1, not (shell.exploring and index > len(args)))
        at = 1
    letter = current[at]
    takes = letter != ":" and (place := spec.find(letter)) >= 0 and spec[place + 1 : place + 2] == ":"
    value: Value = ()
    if takes:
        if at + 1 < len(current):
            value = cut(args[index - 1], at + 1, len(current))
        elif index < len(args):
            index += 1
            value = args[index - 1]
        else:
            letter = "?" if not spec.startswith(":") else ":"
        index += 1
        at = 0
    else:
        at += 1
        if at >= len(current):
            index, at = index + 1, 0
        if letter not in spec:
            value, letter = (Seg(letter),), "?"
    shell.state.getopts_at = at
    shell.set_scalar("OPTIND", (Seg(str(index)),))
    shell.set_scalar("OPTARG", value)
    shell.set_scalar(name, (Seg(letter),))
    return OK


def let(shell: Commands, fields: list[Field]) -> Status:
    status = FAIL
    for item in fields[1:]:
        try:
            number, doubtful = shell.calculate(item.text)
            status = Status(0 if number else 1, not doubtful)
        except UnknownNumber:
            status = LIKELY
        except ArithmeticFault:
            return FAIL
    return status
