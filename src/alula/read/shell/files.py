"""Where output goes and input comes from: substitutions, redirections, and the files that a script writes and reads.

Nothing is written to disk; what a script writes is kept and found again when the script reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from alula.run.source import Source

from .interp import MAX_CALLS, Exhausted, Interpreter
from .state import UNKNOWN_OUTPUT, State, Status, Stream
from .syntax import Assign, CmdSub, ProcSub, Redir, Simple
from .text import Seg, Text, Value, decode, strip_newlines, text_of, unknown, via

MAX_FILE = 1_000_000


class Files(Interpreter):
    """`files`: contents by absolute path, None where they are not known; `names`: the names that the script uses for them;
    `sources`: the files that were read from disk."""

    def __init__(self, state: State, exploring: bool) -> None:
        super().__init__(state, exploring)
        self.sources: dict[str, Source] = {}
        self.names: dict[str, str] = {}
        self.substitution: Status | None = None  # the status of the last command substitution

    def written_paths(self) -> Sequence[str]:
        return list(self.files)

    # --- substitutions ---

    def substitute(self, part: CmdSub, text: Text) -> Value:
        source = text.s[part.start : part.end]
        place = text.place(part.start, part.end)
        name, value = "", None
        first = part.body[0].node if part.body else None
        if isinstance(first, Simple):
            if not first.words and not first.assigns and len(first.redirs) == 1 and first.redirs[0].op == "<":
                name, value = "cat", self.read_word(first.redirs[0])
            elif first.words and not isinstance(first.words[0], Assign):
                name = first.words[0].lit or ""
        if value is None and not (name == "cat" and isinstance(first, Simple) and not first.words):
            self.calls += 1
            try:
                if self.calls > MAX_CALLS:
                    return (Seg(source, *place, unk=source),)
                value, status = self.capture(lambda: self.run_items(part.body))
            finally:
                self.calls -= 1
            self.substitution = status
        if value is None:
            return (Seg(source, *place, unk=source),)
        return via(strip_newlines(value), "command", name, place)

    def process(self, part: ProcSub, text: Text) -> Value:
        source = text.s[part.start : part.end]
        path = f"/dev/fd/{63 - len(self.names) % 50}"
        self.names[path] = source
        if part.out:
            def consume() -> Status:
                self.state.stdin = Stream(None)
                return self.run_items(part.body)

            self.isolated(consume)
        else:
            self.files[path] = self.capture(lambda: self.run_items(part.body))[0]
        return (Seg(path, *text.place(part.start, part.end), unk=source, soft=True),)

    # --- files and redirections ---

    def path(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.state.cwd, decode(name)))

    def read_file(self, path: str) -> Value | None:
        """The contents of a file: what the script wrote to it, or what is on disk. None when it is not known."""
        if path in self.files:
            return self.files[path]
        if self.state.external:
            return None
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > MAX_FILE:
                return None
            with open(path, "rb") as stream:
                data = stream.read(MAX_FILE)
        except (OSError, ValueError):
            return None
        self.sources.setdefault(path, Source(path, data, path))
        text = data.decode("latin-1")
        return (Seg(text, path, 0, len(text)),) if text else ()

    def read_word(self, redir: Redir) -> Value | None:
        value = self.value(redir.word)
        return None if unknown(value) else self.read_file(self.path(text_of(value)))

    def _exec_redirections(self, redirs: list[Redir]) -> None:
        """`exec > log`: for the rest of the script. What it prints is not looked at; process substitutions may start something."""
        for redir in redirs:
            value = self.value(redir.word)
            if redir.op == "<" and redir.fd in ("", "0"):
                self.state.stdin = Stream(None if unknown(value) else self.read_file(self.path(text_of(value))))

    def redirected(self, redirs: list[Redir], action: Callable[[], Status]) -> Status:
        state = self.state
        saved_in, saved_out = state.stdin, state.out
        target: tuple[str, bool, Value] | None = None
        for redir in redirs:
            op, fd = redir.op, redir.fd
            value = self.value(redir.word)
            text = text_of(value)
            if op in ("<", "<>"):
                if fd in ("", "0"):
                    state.stdin = Stream(None if unknown(value) else self.read_file(self.path(text)))
            elif op == "<<<":
                state.stdin = Stream((*value, Seg("\n")))
            elif op in ("<<", "<<-"):
                state.stdin = Stream(via(value, "heredoc", "", redir.word.text.place(redir.word.start, redir.word.end)))
            elif op in ("<&", ">&") and (text.rstrip("-").isdigit() or text == "-"):
                if op == ">&" and fd in ("", "1") and text == "2":
                    state.out = None
            elif op[0] == "&" or (op in (">", ">>", ">|", ">&") and fd in ("", "1")):
                if text in ("/dev/stdout", "/dev/fd/1"):
                    continue
                state.out, target = None, None
                if not text.startswith("/dev/") and not unknown(value):
                    state.out = []
                    target = (text, op.endswith(">>"), value)
        try:
            return action()
        finally:
            written = self.state.out
            self.state.stdin, self.state.out = saved_in, saved_out
            if target is not None and written is not None:
                self.write_file(target[0], None if any(seg is UNKNOWN_OUTPUT for seg in written) else tuple(written), target[1])

    def write_file(self, name: str, value: Value | None, append: bool = False) -> None:
        path = self.path(name)
        if append:
            before = self.read_file(path)
            if before is None and (path in self.files or os.path.exists(path)):
                value = None
            elif value is not None:
                value = (*(before or ()), *value)
        self.files[path] = value
        self.names.setdefault(path, name)

    # --- output ---

    def print(self, value: Value) -> None:
        out = self.state.out
        if out is not None:
            out.extend(value)
            if len(out) > 100_000:
                raise Exhausted

    def print_text(self, text: str) -> None:
        if self.state.out is not None and text:
            self.state.out.append(Seg(text))
