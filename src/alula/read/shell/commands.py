"""Simple commands: assignments, redirections, what a program gets, and the shells inside shells."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from alula.run.job import Command, EnvEntry
from alula.run.source import Origin, Token

from .. import programs
from .expand import Field, span_of, token_of
from .files import MAX_FILE, Files
from .interp import MAX_CALLS, Exhausted
from .parser import Parser
from .simple import DECLARATIONS
from .state import LIKELY, OK, UNKNOWN_OUTPUT, Element, Key, State, Status, Var
from .syntax import ArrayLit, Assign, Item, Simple
from .text import NOWHERE, Place, Seg, Text, Value, decode, encode, place_of, text_of, unknown, variants

MAX_COMMANDS = 5000
ENVIRONMENT = "<environment>"
_TRAINING = frozenset(("swift", "megatron", "torchrun"))  # no wrapper, builtin or tool: what the reader is looking for
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh", "ash"))
_INHERITED = re.compile(
    r"(NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|LOCAL_WORLD_SIZE|RANK|LOCAL_RANK|GROUP_RANK|USE_HF|OMP_NUM_THREADS"
    r"|(CUDA|NVIDIA|ASCEND|ASCEND_RT|HIP|ROCR|MUSA)_VISIBLE_DEVICES|(NCCL|HCCL|GLOO|PYTORCH|TORCH|TORCHELASTIC|VLLM|RAY|MAX|MIN|VIDEO|FPS|IMAGE)_\w+"
    r"|CUDA_\w+|MODELSCOPE_\w+|HF_\w+|TRANSFORMERS_\w+|TOKENIZERS_PARALLELISM|SWIFT_\w+|QWENVL_\w+|PYTHONPATH)",
    re.ASCII,
)


class LazyTokens(Mapping[str, Token]):
    """Variables as tokens, made when someone asks: a script may have many and few are looked at."""

    def __init__(self, found: dict[str, Var]) -> None:
        self._vars = found

    def __getitem__(self, name: str) -> Token:
        return variable_token(name, self._vars[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._vars)

    def __len__(self) -> int:
        return len(self._vars)


def variable_token(name: str, var: Var) -> Token:
    """The value that a variable has, at the word that was assigned."""
    found = variants(var.scalar() or ())
    if var.maybe and not text_of(found[0]) and len(found) > 1:
        found = found[1:]
    place = var.place
    if place[1] < 0 and not place[3]:
        place = (ENVIRONMENT, 0, 0, ())
    token = token_of(Field(found[0], place, int(var.maybe), [text_of(other) for other in found[1:]]))
    if var.how == "inherited":
        return replace(token, chain=(Origin("environment", name),))
    return token


def items_of(var: Var) -> dict[Key, Element]:
    """A copy of the elements of a variable that may not be an array yet."""
    if var.items is not None:
        return dict(var.items)
    return {} if var.value is None else {0: Element(var.value)}


def _programs(found: list[Field]) -> tuple[list[Field], list[Field]]:
    """The first words of a command that depend on the path: (those of another path, those of the likely one)."""
    other = [Field(item.segs if not item.alts else (Seg(item.alts[0], *place_of(item.segs)),), item.place) for item in found if item.maybe != 1]
    return other, [Field(item.segs, item.place, split=item.split) for item in found if item.maybe < 2]


class Commands(Files):
    """Runs simple commands. Reads no file but those that the script reads, and writes none: what it writes is kept in `files`."""

    def __init__(self, state: State, exploring: bool, script: str, gpus_per_node: int | None) -> None:
        super().__init__(state, exploring)
        self.script = script
        self.gpus_per_node = gpus_per_node
        self.launches: list[tuple[Simple, list[Field], Command]] = []
        self.node = Simple(Text(""), 0, 0, [], [], [])  # what is being run
        self.traps: dict[str, Value] = {}
        self.exports_functions = False
        self.program = self.printer = ""  # the program that runs, and the last one whose output is not known

    def script_name(self) -> str:
        return self.script

    def fields_of_args(self) -> list[Field]:
        return [Field(value or (Seg(""),), NOWHERE) for value in self.state.args]

    # --- variables ---

    def target(self, name: str) -> str:
        """The variable that a name reference stands for."""
        for _ in range(8):
            ref = self.state.lookup(name).ref
            if not ref:
                break
            name = ref
        return name

    def set_scalar(self, name: str, value: Value, kind: str = "variable", place: Place = NOWHERE) -> None:
        name = self.target(name)
        old = self.state.lookup(name)
        if old.items is not None:
            self.assign(name, "0", value)
            return
        exported = old.exported or self.state.allexport
        self.state.vars[name] = Var(value, None, exported, integer=old.integer, kind=kind, place=place)

    def assign(self, name: str, key: str | None, value: Value) -> None:
        if key is None:
            self.set_scalar(name, value)
            return
        name = self.target(name)
        old = self.state.lookup(name)
        items = items_of(old)
        at: int | str | None = key
        if not old.assoc:
            at = self.index(key)
            if at is None:
                return
            if at < 0:
                at += max((int(k) for k in items), default=-1) + 1
        assert at is not None
        items[at] = Element(value)
        self.state.vars[name] = Var(None, items, old.exported, old.assoc, place=old.place)

    def assign_node(self, node: Assign) -> None:
        name = self.target(node.name)
        old = self.state.lookup(name)
        if isinstance(node.value, ArrayLit):
            place = node.text.place(node.value.start, node.value.end)
            new = self.elements(node.value, old.assoc)
            if node.append:
                items = items_of(old)
                if old.assoc:
                    items.update(new)
                else:
                    shift = max((int(k) for k in items), default=-1) + 1
                    explicit = any(key is not None for key, _ in node.value.items)
                    items.update(new if explicit else {int(k) + shift: item for k, item in new.items()})
                new = items
            self.state.vars[name] = Var(None, new, old.exported, old.assoc, place=place)
            return
        value = self.value(node.value, assignment=True)
        at = node.value.start if node.value is not None else node.end
        place = node.text.place(at, node.value.end if node.value is not None else node.end)
        if not value:
            value = (Seg("", *place),)
        key = text_of(self.value(node.sub)) if node.sub is not None else None
        if node.append:
            before = self.element_value(name, key) if key is not None else self.lookup_value(name)
            if old.integer and before is not None:
                value = (Seg(f"{text_of(before)}+{text_of(value)}"),)
            else:
                value = (*(seg for seg in before or () if seg.text or seg.alts), *value)
        if old.integer and not unknown(value):
            number = self.index(text_of(value))
            value = (Seg(str(number or 0), *place),)
        self.bounded(value)
        if key is not None:
            self.assign(name, key, value)
        elif old.items is not None:
            self.assign(name, "0", value)
        else:
            exported = old.exported or self.state.allexport
            self.state.vars[name] = Var(value, None, exported, integer=old.integer, place=place)

    @staticmethod
    def bounded(value: Sequence[Seg]) -> None:
        """A value that doubles with every turn of a loop would take all memory."""
        if len(value) > 5000 or sum(len(seg.text) for seg in value) > MAX_FILE:
            raise Exhausted

    # --- simple commands ---

    def simple(self, node: Simple) -> Status:
        self.spend(1)
        if not node.words:
            return self.redirected(node.redirs, lambda: self._assignments(node)) if node.redirs else self._assignments(node)
        self.substitution = None
        first = node.words[0]
        if not isinstance(first, Assign) and first.lit in DECLARATIONS:
            return self._declaration(node)
        fields: list[Field] = []
        other: list[Field] = []
        for word in node.words:
            if isinstance(word, Assign):
                continue
            found = self.fields(word)
            if not fields and any(item.maybe or item.alts for item in found):
                other, found = _programs(found)
            fields.extend(found)
        if not fields:
            return self._assignments(node)
        if other:
            rest = [item for word in node.words[1:] if not isinstance(word, Assign) for item in self.fields(word)]
            return self.branch(lambda: self._run(node, fields), lambda: self._run(node, [*other, *rest]))
        return self._run(node, fields)

    def _run(self, node: Simple, fields: list[Field]) -> Status:
        if node.redirs and not (len(fields) == 1 and fields[0].text == "exec"):
            return self.redirected(node.redirs, lambda: self._with_prefix(node, fields))
        if node.redirs:
            self._exec_redirections(node.redirs)
            return OK
        return self._with_prefix(node, fields)

    def _assignments(self, node: Simple) -> Status:
        self.substitution = None
        for assign in node.assigns:
            self.assign_node(assign)
        return self.substitution or OK

    def _declaration(self, node: Simple) -> Status:
        from .builtins.variables import declare

        items: list[Field | Assign] = []
        for word in node.words[1:]:
            if isinstance(word, Assign):
                items.append(word)
            else:
                items.extend(self.fields(word))
        first = node.words[0]
        assert not isinstance(first, Assign)
        return declare(self, first.lit or "", items)

    def _with_prefix(self, node: Simple, fields: list[Field]) -> Status:
        if not node.assigns:
            return self.invoke(node, fields)
        saved: dict[str, Var | None] = {}
        for assign in node.assigns:
            if assign.sub is not None or isinstance(assign.value, ArrayLit):
                continue
            name = self.target(assign.name)
            before = self.state.vars.get(name)
            saved.setdefault(name, before)
            self.assign_node(assign)
            made = self.state.vars[name]
            self.state.vars[name] = replace(made, exported=True, how="prefix")
        try:
            return self.invoke(node, fields)
        finally:
            for name, var in saved.items():
                if var is None:
                    self.state.vars.pop(name, None)
                else:
                    self.state.vars[name] = var

    def invoke(self, node: Simple, fields: list[Field]) -> Status:
        """Functions, builtins, programs."""
        self.node = node
        name = fields[0].text
        if not any(seg.unk for seg in fields[0].segs):
            function = self.state.functions.get(name)
            if function is not None:
                return self.call(function, tuple(self.from_field(found) for found in fields[1:]))
            if name in _TRAINING:
                return self.external(fields, self.environment())
            from .builtins import BUILTINS

            builtin = BUILTINS.get(name)
            if builtin is not None:
                return builtin(self, fields)
        return self.external(fields, self.environment())

    # --- programs ---

    def environment(self) -> dict[str, Var]:
        """What a program gets."""
        env = {name: var for name, var in self.state.environ.items() if var.exported}
        for name, var in self.state.vars.items():
            if var.exported and var.set and var.items is None:
                env[name] = var
            elif name in env:
                del env[name]
        return env

    def external(self, fields: list[Field], env: dict[str, Var]) -> Status:
        for _ in range(12):
            name = fields[0].text
            program = self.program = posixpath.basename(name)
            if any(seg.unk for seg in fields[0].segs) or program in _TRAINING:
                break
            from .tools import INERT, TOOLS  # most launch scripts start nothing that these emulate

            if program in INERT:
                return OK
            tool = TOOLS.get(program)
            if tool is not None:
                return tool(self, fields)
            if program in _SHELLS:
                return self._shell(fields, env)
            found = programs.peel([item.text for item in fields])
            if found is None:
                if (status := self._script(fields, env)) is not None:
                    return status
                break
            env = self._wrapped(fields, found, env)
            if found.script:
                return self._text_of_words([fields[at] for at in found.script], found, env)
            if found.file is not None:
                rest = fields[found.file :]
                if (status := self._run_file(rest[0], rest[1:], env)) is not None:
                    return status
                break
            if found.reads:
                text = self.state.stdin.rest()
                if text is None:
                    break
                return self.child(Text.of(text), env, (), remote=found.remote)
            if found.remote:
                return self._remote([fields[at] for at in found.program], env)
            fields = [fields[at] for at in found.program]
        self.emit(fields, env)
        if self.gpus_per_node and any("cuda.device_count()" in item.text for item in fields[1:4]):
            self.print_text(f"{self.gpus_per_node}\n")  # python -c 'import torch; print(torch.cuda.device_count())'
            return LIKELY
        return self.unknown_output()

    def unknown_output(self) -> Status:
        """A program ran of which nothing is known."""
        self.printer = self.program
        if self.state.out is not None:
            self.state.out.append(UNKNOWN_OUTPUT)
        return LIKELY

    def _remote(self, fields: list[Field], env: dict[str, Var]) -> Status:
        before, self.state.external = self.state.external, True
        try:
            return self.external(fields, env)
        finally:
            self.state.external = before

    @staticmethod
    def _wrapped(fields: list[Field], found: programs.Peel, env: dict[str, Var]) -> dict[str, Var]:
        """The environment behind a wrapper."""
        out = dict(env) if found.keeps else {name: env[name] for name in found.passes if name in env}
        for name in found.unset:
            out.pop(name, None)
        for setting in found.settings:
            source = fields[setting.word]
            if setting.text is not None:
                value: Value = (Seg(encode(setting.text), *source.place),)
                place = source.place
            else:
                part = source.cut(setting.offset)
                if setting.end is not None:
                    from .text import cut

                    part = Field(cut(part.segs, 0, setting.end - setting.offset), part.place)
                value, place = part.segs or (Seg(""),), part.place
            out[setting.name] = Var(value, exported=True, how="wrapper", place=place)
        return out

    def emit(self, fields: list[Field], env: Mapping[str, Var]) -> None:
        """Note a command that the script starts."""
        if len(self.commands) >= MAX_COMMANDS:
            raise Exhausted
        node = self.node
        entries: dict[str, EnvEntry] = {}
        for name, var in env.items():
            if var.how == "inherited" and not _INHERITED.fullmatch(name):
                continue
            entries[decode(name)] = EnvEntry(decode(name), variable_token(name, var), var.how)
        shell = {name: var for name, var in self.state.vars.items() if not var.exported and var.set and var.items is None and name not in entries}
        command = Command(
            tuple(token_of(item) for item in fields), entries, span_of(node.text.place(node.start, node.end)), LazyTokens(shell),
            self.background > 0, self.uncertain or self.exploring, False, self.loops > 0,
        )  # fmt: skip
        self.commands.append(command)
        self.launches.append((node, fields, command))

    # --- shells inside ---

    def _shell(self, fields: list[Field], env: dict[str, Var]) -> Status:
        """`bash -c TEXT`, `bash FILE`, `bash` that reads its input."""
        at = 1
        while at < len(fields):
            text = fields[at].text
            if text in ("-o", "+o", "--rcfile", "--init-file", "-O"):
                at += 2
            elif text == "--":
                at += 1
                break
            elif text.startswith("--") or (text[:1] in "-+" and len(text) > 1):
                if text[0] == "-" and not text.startswith("--") and "c" in text[1:]:
                    rest = fields[at + 1 :]
                    if not rest:
                        return OK
                    zero = rest[1].text if len(rest) > 1 else ""
                    return self.child(Text.of(rest[0].segs), env, tuple(self.from_field(item) for item in rest[2:]), script=zero)
                if text == "-s":
                    at += 1
                    break
                at += 1
            else:
                status = self._run_file(fields[at], fields[at + 1 :], env)
                if status is None:
                    self.emit(fields, env)
                    return self.unknown_output()
                return status
        read = self.state.stdin.rest()
        if read is None:
            self.emit(fields, env)
            return self.unknown_output()
        return self.child(Text.of(read), env, tuple(self.from_field(item) for item in fields[at:]))

    def _text_of_words(self, words: list[Field], found: programs.Peel, env: dict[str, Var]) -> Status:
        segs: list[Seg] = []
        for n, word in enumerate(words):
            if n:
                segs.append(Seg(" "))
            segs.extend((word.cut(found.offset) if n == 0 and found.offset else word).segs)
        return self.child(Text.of(tuple(segs)), env, (), remote=found.remote)

    def _script(self, fields: list[Field], env: dict[str, Var]) -> Status | None:
        """`./run.sh`: a script of its own, when it is there to read."""
        name = fields[0].text
        if "/" in name and name.endswith((".sh", ".bash", ".sbatch", ".slurm")):
            return self._run_file(fields[0], fields[1:], env)
        return None

    def _run_file(self, name: Field, args: list[Field], env: dict[str, Var]) -> Status | None:
        if any(seg.unk and not seg.soft for seg in name.segs) or self.state.external:
            return None
        text = self.script_text(name.text)
        if text is None:
            return None
        return self.child(text, env, tuple(self.from_field(item) for item in args), script=name.text)

    def script_text(self, name: str) -> Text | None:
        """A script file as text to run; None when it is not here."""
        path = self.path(name)
        value = self.read_file(path)
        if value is None:
            return None
        if len(value) == 1 and value[0].start == 0 and value[0].file:
            return Text(value[0].text, value[0].file)
        return Text.of(value)

    def child(self, text: Text, env: dict[str, Var], args: tuple[Value, ...], script: str = "", remote: bool = False) -> Status:
        """Another shell runs `text` with an environment of its own."""
        if self.calls >= MAX_CALLS:
            return LIKELY
        base = self.state
        functions = dict(base.functions) if self.exports_functions else {}
        self.state = State(env, {}, functions, args, base.cwd, base.out, base.stdin, external=base.external or remote)
        self.calls += 1
        name, self.script = self.script, script or self.script
        try:
            return self.scoped("shell", lambda: self.run_items(self.parse(text)))
        finally:
            self.script = name
            self.calls -= 1
            base.out = self.state.out
            self.state = base

    def parse(self, text: Text) -> list[Item]:
        return Parser(text).program()

    # --- the end ---

    def finish(self) -> None:
        """What happens when the script ends: its EXIT trap."""
        handler = self.traps.pop("EXIT", None)
        if handler:
            self.scoped("shell", lambda: self.run_items(self.parse(Text.of(handler))))
