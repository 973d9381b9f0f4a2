"""The builtins of bash that change what a script launches. Those that only report or manage jobs do nothing here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .arith import ArithmeticFault, UnknownNumber
from .expand import Field
from .interp import Leave
from .lexer import unescape_ansi, unescape_value
from .state import FAIL, LIKELY, OK, UNSET, Element, Key, Status, Var
from .syntax import ArrayLit, Assign, Simple
from .text import Seg, Text, Value, cut, decode, likely, text_of, unknown

if TYPE_CHECKING:
    from .commands import Commands

Builtin = Callable[["Commands", Simple, list[Field]], Status]
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_DIRECTIVE = re.compile(r"%(?:%|([-+ 0#]*)(\d+|\*)?(?:\.(\d+|\*))?([diouxXeEfFgGcsbqa]|\([^)]*\)T))")


# --- output ---


def echo(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    if shell.state.out is None:
        return OK
    at, newline, escapes = 1, True, False
    while at < len(fields) and re.fullmatch(r"-[neE]+", fields[at].text):
        newline = newline and "n" not in fields[at].text
        escapes = "e" in fields[at].text
        at += 1
    out: list[Seg] = []
    for n, found in enumerate(fields[at:]):
        if n:
            out.append(Seg(" "))
        out.extend(shell.from_field(found))
    if escapes:
        value = tuple(out)
        stop = text_of(value).find("\\c")
        newline = newline and stop < 0
        out = list(unescape_value(cut(value, 0, stop) if stop >= 0 else value))
    if newline:
        out.append(Seg("\n"))
    shell.print(tuple(out))
    return OK


def format_text(form: Value, args: Sequence[Value]) -> Value:
    """`printf`: the format is used again until the arguments are used up."""
    source = text_of(form)
    rest = list(args)
    out: list[Seg] = []
    for _ in range(1000):
        count = len(rest)
        at = 0
        for match in _DIRECTIVE.finditer(source):
            if match.start() > at:
                out.extend(_literal(form, at, match.start()))
            at = match.end()
            if match.group() == "%%":
                out.append(Seg("%"))
                continue
            out.extend(_directive(match, rest))
        if at < len(source):
            out.extend(_literal(form, at, len(source)))
        if not rest or len(rest) == count:
            break
    return tuple(out)


def _literal(form: Value, start: int, end: int) -> Value:
    return unescape_value(cut(form, start, end))


def _directive(match: re.Match[str], rest: list[Value]) -> Value:
    flags, width, precision, kind = match.groups()
    flags = flags or ""
    if width == "*":
        width = text_of(rest.pop(0)) if rest else ""
    if precision == "*":
        precision = text_of(rest.pop(0)) if rest else ""
    value = rest.pop(0) if rest else ()
    if any(seg.unk for seg in value):
        return value
    text = text_of(likely(value))
    size = min(int(width), 10_000) if width and width.isdigit() else 0
    if kind in "sb" and not size and not precision:
        return value if kind == "s" or "\\" not in text else (Seg(unescape_ansi(text)),)
    if kind == "q":
        return (Seg(quote(text)),)
    if kind in "sb":
        result = text[: int(precision)] if precision and precision.isdigit() else text
    elif kind == "c":
        result = text[:1]
    elif kind in "diouxX":
        try:
            number = int(text, 0) if text.strip() else 0
        except ValueError:
            number = 0
        number = int(text) if re.fullmatch(r"0\d*[1-9]\d*", text) and not number else number
        result = f"{number:{'d' if kind in 'iu' else kind}}"
        if precision and precision.isdigit():
            result = result.zfill(min(int(precision), 1000))
    elif kind in "eEfFgG":
        try:
            result = f"{float(text or 0):.{precision or 6}{kind}}"
        except (ValueError, OverflowError):
            result = text
    else:
        return (Seg(match.group(), unk=match.group()),)
    if "-" in flags:
        result = result.ljust(size)
    else:
        result = result.zfill(size) if "0" in flags and kind not in "sbc" else result.rjust(size)
    return (Seg(result),)


def quote(text: str) -> str:
    """As `printf %q` does."""
    if not text:
        return "''"
    return text if re.fullmatch(r"[A-Za-z0-9_@%+=:./,-]+", text) else re.sub(r"([^A-Za-z0-9_@%+=:./,-])", r"\\\1", text)


def printf(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    args = fields[1:]
    if args and args[0].text == "--":
        args = args[1:]
    name = None
    if len(args) > 1 and args[0].text == "-v":
        name, args = args[1].text, args[2:]
    if not args:
        return Status(2)
    if name is None and shell.state.out is None:
        return OK
    value = format_text(likely(args[0].segs), [shell.from_field(item) for item in args[1:]])
    if name is None:
        shell.print(value)
    elif match := re.fullmatch(r"([A-Za-z_]\w*)(?:\[(.*)\])?", name):
        shell.assign(match.group(1), match.group(2), value)
    return OK


# --- input ---


def read(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    at, array, delimiter, names = 1, None, "\n", []
    while at < len(fields):
        text = fields[at].text
        if not text.startswith("-") or len(text) < 2:
            break
        letter = next((c for c in text[1:] if c in "adnNptui"), "")
        if letter:
            given = text[text.index(letter) + 1 :]
            if not given:
                at += 1
                given = fields[at].text if at < len(fields) else ""
            if letter == "a":
                array = given
            elif letter == "d":
                delimiter = given[:1]
        at += 1
    names = [item.text for item in fields[at:] if _NAME.fullmatch(item.text)]
    stream = shell.state.stdin
    if array is None and not names:
        names = ["REPLY"]
    if stream.value is None:
        for name in [array] if array else names:
            hole: Value = (Seg("$" + name, unk="$" + name),)
            if array:
                shell.set_var(name, Var(None, {0: Element(hole)}))
            else:
                shell.set_scalar(name, hole)
        return LIKELY
    if delimiter == "\n":
        found = stream.line()
    else:
        rest = stream.rest() or ()
        found = (rest, False) if rest else None
    value, ended = found if found is not None else ((), False)
    text = text_of(value)
    words = shell._words(text)
    if array:
        items: dict[Key, Element] = {n: Element(cut(value, a, b)) for n, (a, b, _) in enumerate(words)}
        shell.set_var(array, Var(None, items))
    elif names == ["REPLY"] and array is None:
        shell.set_scalar("REPLY", value)
    else:
        for n, name in enumerate(names):
            if n >= len(words):
                part: Value = (Seg(""),)
            elif n == len(names) - 1:
                start, end = words[n][0], words[-1][1]
                part = cut(value, start, end)
            else:
                part = cut(value, words[n][0], words[n][1])
            shell.set_scalar(name, part or (Seg(""),))
    return OK if ended else FAIL


def mapfile(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    at, strip, delimiter, skip, origin = 1, False, "\n", 0, 0
    while at < len(fields) and fields[at].text.startswith("-") and len(fields[at].text) > 1:
        text = fields[at].text
        strip = strip or "t" in text[1:]
        last = text[-1]
        if last in "dnOsuCc":
            at += 1
            given = fields[at].text if at < len(fields) else ""
            if last == "d":
                delimiter = given[:1] or "\0"
            elif last == "s" and given.isdigit():
                skip = int(given)
            elif last == "O" and given.isdigit():
                origin = int(given)
        at += 1
    name = fields[at].text if at < len(fields) else "MAPFILE"
    value = shell.state.stdin.rest()
    if value is None:
        source = "${" + name + "[@]}"
        shell.set_var(name, Var(None, {0: Element((Seg(source, unk=source),))}))
        return LIKELY
    text = text_of(likely(value))
    items: dict[Key, Element] = {}
    start = 0
    while start < len(text):
        end = text.find(delimiter, start)
        stop = len(text) if end < 0 else end
        if skip:
            skip -= 1
        else:
            items[origin + len(items)] = Element(cut(value, start, stop if strip or end < 0 else stop + 1) or (Seg(""),))
        start = stop + 1
    shell.set_var(name, Var(None, items))
    return OK


# --- variables ---


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


def unset(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def set_(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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
        if text[-1] == "o":
            at += 1
            if at < len(fields) and fields[at].text == "allexport":
                shell.state.allexport = text[0] == "-"
        at += 1
    return OK


def shift(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    count = int(fields[1].text) if len(fields) > 1 and fields[1].text.isdigit() else 1
    if count > len(shell.state.args):
        return Status(1, not shell.exploring)
    shell.state.args = shell.state.args[count:]
    return OK


def getopts(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def let(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


# --- control ---


def eval_(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def source(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def exec_(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    at = 1
    while at < len(fields) and fields[at].text.startswith("-"):
        at += 2 if fields[at].text == "-a" else 1
    if at >= len(fields):
        return OK
    status = shell.external(node, fields[at:], shell.environment())
    raise Leave("exit", status)


def command(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    at = 1
    look = False
    while at < len(fields) and fields[at].text.startswith("-"):
        look = look or "v" in fields[at].text or "V" in fields[at].text
        at += 1
    if at >= len(fields):
        return OK
    if look:
        return which(shell, node, fields[at - 1 :])
    name = fields[at].text
    builtin = BUILTINS.get(name)
    if builtin is not None:
        return builtin(shell, node, fields[at:])
    return shell.external(node, fields[at:], shell.environment())


def which(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    """A program is taken to be there; its name runs it as well as its path would."""
    names = [item for item in fields[1:] if not item.text.startswith("-")]
    for item in names:
        shell.print((*item.segs, Seg("\n")))
    if names and all(item.text in shell.state.functions or item.text in BUILTINS for item in names):
        return OK
    return LIKELY


def _leaves(kind: str) -> Builtin:
    def leave(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def test(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    args = fields[1:]
    if fields[0].text == "[":
        if not args or args[-1].text != "]":
            return Status(2)
        args = args[:-1]
    return shell.test(args)


def cd(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def pushd(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    stack = shell.variable("DIRSTACK")
    items = list((stack.items or {}).values())
    if fields[0].text == "pushd":
        shell.set_var("DIRSTACK", Var(None, dict(enumerate([Element((Seg(shell.state.cwd),)), *items]))))
        return cd(shell, node, fields)
    if not items:
        return FAIL
    shell.state.cwd = text_of(items[0].value)
    shell.set_var("DIRSTACK", Var(None, dict(enumerate(items[1:]))))
    return OK


def pwd(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    from .text import encode

    shell.print_text(encode(shell.state.cwd) + "\n")
    return OK


def trap(shell: Commands, node: Simple, fields: list[Field]) -> Status:
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


def nothing(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    return OK


def false(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    return FAIL


def open_question(shell: Commands, node: Simple, fields: list[Field]) -> Status:
    return LIKELY


BUILTINS: dict[str, Builtin] = {
    "echo": echo, "printf": printf, "read": read, "mapfile": mapfile, "readarray": mapfile, "unset": unset, "set": set_, "shift": shift,
    "getopts": getopts, "let": let, "eval": eval_, "source": source, ".": source, "exec": exec_, "command": command, "builtin": command,
    "type": which, "which": which, "hash": which, "exit": _leaves("exit"), "logout": _leaves("exit"), "return": _leaves("return"),
    "break": _leaves("break"), "continue": _leaves("continue"), "test": test, "[": test, "cd": cd, "pushd": pushd, "popd": pushd, "pwd": pwd,
    "trap": trap, ":": nothing, "true": nothing, "false": false, "shopt": nothing, "ulimit": nothing, "umask": nothing, "disown": nothing,
    "jobs": nothing, "bg": nothing, "fg": nothing, "times": nothing, "enable": nothing, "bind": nothing, "complete": nothing, "dirs": nothing,
    "history": nothing, "alias": nothing, "unalias": nothing, "wait": open_question, "kill": open_question, "suspend": nothing, "help": nothing,
    "caller": nothing, "compgen": nothing,
    **{name: (lambda shell, node, fields: declare(shell, fields[0].text, fields[1:])) for name in ("export", "declare", "typeset", "local", "readonly")},
}  # fmt: skip
