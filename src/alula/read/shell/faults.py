"""Faults of shell scripts that people really make, each with its place and, where it is safe, the edit that mends it.

Two sources: the syntax (a blank behind a backslash, a comment in a continued command) and what the interpreter saw (a variable that
never reached the command). Only what touches a command that starts ms-swift is reported, and what bash itself cannot read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alula.run.finding import Edit, Finding, Fix, Safety
from alula.run.source import Source, Span

from ..programs import is_launch
from .commands import Commands, LazyTokens
from .expand import Field, span_of
from .fault_table import FAULTS, Fault
from .parser import Parser
from .simple import DECLARATIONS
from .syntax import ArrayLit, Assign, Lit, Param, Simple, Word
from .text import decode

if TYPE_CHECKING:
    from alula.run.job import Command

__all__ = ["FAULTS", "Fault", "find_faults"]

ENVIRONMENT = re.compile(
    r"NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|(?:CUDA|ASCEND_RT|ASCEND|HIP|MUSA)_VISIBLE_DEVICES|CUDA_DEVICE_MAX_CONNECTIONS"
    r"|CUDA_LAUNCH_BLOCKING|(?:NCCL|HCCL|GLOO)_[A-Z_]+|PYTORCH_(?:CUDA_|NPU_)?ALLOC_CONF|TORCH_[A-Z_]+|TORCHDYNAMO_[A-Z_]+|VLLM_[A-Z_0-9]+|OMP_NUM_THREADS"
    r"|TOKENIZERS_PARALLELISM|USE_HF|HF_(?:ENDPOINT|HOME|HUB_[A-Z_]+|TOKEN|DATASETS_[A-Z_]+)|TRANSFORMERS_[A-Z_]+|MODELSCOPE_(?:CACHE|API_TOKEN|OFFLINE)"
    r"|MAX_PIXELS|MIN_PIXELS|VIDEO_(?:MAX|MIN|TOTAL)_PIXELS|FPS(?:_MAX_FRAMES|_MIN_FRAMES)?|NFRAMES|SIZE_FACTOR|IMAGE_(?:MAX|MIN)_TOKEN_NUM"
    r"|VIDEO_(?:MAX|MIN)_TOKEN_NUM|ENABLE_AUDIO_OUTPUT|USE_AUDIO_IN_VIDEO|QWENVL_BBOX_FORMAT|MEGATRON_LM_PATH|WANDB_(?:API_KEY|MODE|PROJECT|ENTITY)"
    r"|SWANLAB_API_KEY|RAY_[A-Z_]+|SWIFT_[A-Z_]+"
)  # fmt: skip
"""Variables that ms-swift, torch, CUDA, NCCL or vLLM read; as a word of a command they are assignments that came too late."""
_DISTRIBUTED = re.compile(r"NPROC_PER_NODE|NNODES|NODE_RANK|MASTER_ADDR|MASTER_PORT|\w+_VISIBLE_DEVICES")
_ASSIGNMENT = re.compile(r"([A-Z][A-Z0-9_]*)=")
_FLAG = re.compile(r"--[A-Za-z]")
_PROGRAM = re.compile(r"(?:^|/)(?:swift|megatron)$")
_FLAG_AND_VALUE = re.compile(r"--[A-Za-z][\w-]*[ \t]+\S")
_BLANK_AFTER = re.compile(r"\\[ \t]+\Z")
_ODD_BLANKS = {"\u00a0": "a non-breaking space", "\u3000": "an ideographic space", "\u200b": "a zero-width space", "\u202f": "a narrow non-breaking space", "\ufeff": "a zero-width no-break space", "\u2003": "an em space", "\u2002": "an en space", "\u2009": "a thin space"}  # fmt: skip
_ODD_BLANK = re.compile("|".join(_ODD_BLANKS))
_SMART_QUOTE = re.compile("[\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb]")
_DASH = re.compile("^[-\u2010-\u2015\u2212\uff0d]*[\u2010-\u2015\u2212\uff0d][-\u2010-\u2015\u2212\uff0d]*(?=[A-Za-z])")
_OPTIONAL_NAME = re.compile(r"ARG|OPT|FLAG|EXTRA|PARAM|CMD|@|\*", re.IGNORECASE)
_COMMAND_WORDS = frozenset("swift megatron echo export sleep wait cd python python3 torchrun mkdir nohup tee source exit kill if for while fi done then accelerate deepspeed".split())
MAX_EDITS = 2000


def find_faults(source: Source, parser: Parser, shell: Commands, exploring: bool) -> list[Finding]:
    """Every fault of one parsed script, in the order of the text."""
    finder = _Finder(source, parser, shell, exploring)
    found = [finding for finding in finder.all() if finding.span is not None]
    out: dict[tuple[str, int], Finding] = {}
    for finding in found:
        assert finding.span is not None
        out.setdefault((finding.code, finding.span.start), finding)
    return _grouped(sorted(out.values(), key=lambda finding: (finding.span.start if finding.span else 0, finding.code)))


_WHOLE_FILE = frozenset(("SHL001", "SHL002", "SHL003", "SHL004", "SHL005", "SHL015"))


def _grouped(findings: Sequence[Finding]) -> list[Finding]:
    """A slip that runs through a whole file (a blank after each backslash) is one finding with many places and one fix."""
    first: dict[str, int] = {}
    out: list[Finding] = []
    for finding in findings:
        at = first.setdefault(finding.code, len(out)) if finding.code in _WHOLE_FILE else len(out)
        if at == len(out):
            out.append(finding)
            continue
        known = out[at]
        assert finding.span is not None
        out[at] = replace(known, related=(*known.related, (finding.span, "here too")), fix=_joined(known.fix, finding.fix))
    return out


def _joined(a: Fix | None, b: Fix | None) -> Fix | None:
    """Both fixes as one; without edits where one of them has none, so that a fix never mends half."""
    if a is None or b is None:
        return a or b
    whole = bool(a.edits and b.edits)
    return Fix(a.description, a.safety if whole and a.safety == b.safety else "manual", (*a.edits, *b.edits) if whole else ())


class _Finder:
    def __init__(self, source: Source, parser: Parser, shell: Commands, exploring: bool) -> None:
        self.source = source
        self.parser = parser
        self.s = parser.text.s
        self.escaped_blanks = "\\ " in self.s or "\\\t" in self.s
        self.shell = shell
        self.exploring = exploring
        self.looks: dict[int, bool] = {}
        self.simples = sorted(parser.simples, key=lambda node: (node.start, -node.end))
        self.launches: list[tuple[Simple, list[Field], Command]] = [
            (node, fields, command) for node, fields, command in shell.launches if is_launch([word.text for word in command.words])
        ]
        self.started = {id(node) for node, _, _ in self.launches}

    def all(self) -> Iterator[Finding]:
        yield from self._crlf()
        yield from self._errors()
        yield from self._placeholders()
        yield from self._lost_lines()
        for node in self.simples:
            yield from self._declaration(node)
            if id(node) in self.started or self._looks_like_launch(node):
                yield from self._words(node)
            if self.escaped_blanks:
                for words in self._all_words(node):
                    yield from self._continuations(node, words)
            if not self.s.isascii():
                yield from self._characters(node)
        if not self.exploring:
            yield from self._vanished()
        for node, fields, command in self.launches:
            yield from self._late_assignments(node)
            yield from self._one_word(node, fields)
            yield from self._blank_words(node, fields)
            yield from self._not_exported(node, command)

    # --- making findings ---

    def span(self, start: int, end: int) -> Span:
        return span_of(self.parser.text.place(start, end))

    def finding(self, code: str, span: Span, fix: Fix | None = None, flags: Sequence[str] = (), related: Sequence[tuple[Span, str]] = (), **params: object) -> Finding:
        fault = FAULTS[code]
        return Finding(
            code, fault.slug, fault.severity, fault.confidence, fault.consequence, fault.template, params, None, tuple(flags), span, tuple(related), fix
        )  # fmt: skip

    def edit(self, start: int, end: int, text: str) -> Edit:
        return Edit(self.span(start, end), text)

    def program(self, node: Simple) -> str:
        """What the user would call the command: `swift rlhf`."""
        words = [word.src for word in node.words if isinstance(word, Word)]
        for at, word in enumerate(words):
            if _PROGRAM.search(word) and at + 1 < len(words):
                return decode(f"{word.rsplit('/', 1)[-1]} {words[at + 1]}")
        return decode(words[0]) if words else "the command"

    def _looks_like_launch(self, node: Simple) -> bool:
        known = self.looks.get(id(node))
        if known is None:
            words = [word.src for word in node.words[:60] if isinstance(word, Word)]
            known = self.looks[id(node)] = is_launch(words) or any(_PROGRAM.search(word) for word in words[:6])
        return known

    def line_start(self, at: int) -> int:
        return self.s.rfind("\n", 0, at) + 1

    # --- the text as a whole ---

    def _crlf(self) -> Iterator[Finding]:
        data = self.source.data
        first = data.find(b"\r\n")
        if first < 0:
            return
        places = [match.start() for match in re.finditer(rb"\r(?=\n)", data)]
        edits = tuple(Edit(Span(self.source.name, at, at + 1), "") for at in places[:MAX_EDITS])
        fix = Fix("write the lines with LF alone (`sed -i 's/\\r$//'` does the same)", "safe", edits) if len(places) <= MAX_EDITS else None
        yield self.finding("SHL006", Span(self.source.name, first, first + 1), fix, count=len(places))

    def _errors(self) -> Iterator[Finding]:
        for error in self.parser.errors:
            at = min(error.at, max(0, len(self.s) - 1))
            span = self.span(at, at + 1)
            if error.kind in ("quote", "expansion", "heredoc"):
                finding = self.finding("SHL013", span, reason=error.message)
                yield replace(finding, severity="warning", consequence="wrong") if error.kind == "heredoc" else finding
            else:
                yield self.finding("SHL014", span, reason=error.message)

    def _placeholders(self) -> Iterator[Finding]:
        for start, end in self.parser.holes:
            yield self.finding("SHL015", self.span(start, end), text=decode(self.s[start:end]))

    # --- lines that a command lost ---

    def _lost_lines(self) -> Iterator[Finding]:
        owner: Simple | None = None
        previous: Simple | None = None
        for node in self.simples:
            first = node.words[0] if node.words and not node.assigns else None
            lost = isinstance(first, Word) and bool(_FLAG.match(first.src))
            if not lost:
                owner = node if self._looks_like_launch(node) or id(node) in self.started else None
                previous = node
                continue
            if owner is None or previous is None or node.start < previous.end:
                continue
            assert isinstance(first, Word)
            yield from self._lost(owner, previous, node, decode(first.src))
            previous = node

    def _lost(self, owner: Simple, previous: Simple, node: Simple, flag: str) -> Iterator[Finding]:
        gap = self.s[previous.end : node.start]
        if any(isinstance(word, Word) and (_BLANK_AFTER.search(word.src) or word.src.startswith(("\\ ", "\\\t"))) for word in previous.words):
            return  # SHL001 says so, or SHL003 for a comment behind the blank
        indent = self.s[self.line_start(node.start) : node.start]
        indent = indent if not indent.strip() else "    "
        comments = [(start, end) for start, end in self.parser.comments if previous.end <= start and end <= node.start]
        program = self.program(owner)
        if comments:
            start = owner.start
            above = "".join(f"{self.s[self.line_start(start) : start] if not self.s[self.line_start(start) : start].strip() else ''}{decode(self.s[a:b].rstrip(chr(92) + ' '))}\n" for a, b in comments)
            edits = (
                self.edit(self.line_start(start), self.line_start(start), above), self.edit(previous.end, node.start, f" \\\n{indent}"),
            )  # fmt: skip
            plain = not gap.replace("\\", "").strip() or all(part.strip(" \t\\") == "" or part.lstrip().startswith("#") for part in gap.split("\n"))
            fix = Fix("move the comment above the command", "safe" if plain else "manual", edits if plain else ())
            yield self.finding("SHL003", self.span(*comments[0]), fix, program=program, flag=flag)
            return
        if gap.replace("\\", "").strip():
            return  # an operator stands between: the line never belonged to the command
        fix = Fix("end the line above with a backslash", "safe", (self.edit(previous.end, node.start, f" \\\n{indent}"),))
        yield self.finding("SHL002", self.span(node.start, node.start + len(node.words[0].src if isinstance(node.words[0], Word) else "")), fix, program=program, flag=flag)

    # --- words ---

    def _all_words(self, node: Simple) -> Iterator[list[Word]]:
        """The words of a command, and of every array that it assigns."""
        yield [word for word in node.words if isinstance(word, Word)]
        for assign in (*node.assigns, *(word for word in node.words if isinstance(word, Assign))):
            if isinstance(assign.value, ArrayLit):
                yield [word for _, word in assign.value.items]
            elif assign.value is not None:
                yield [assign.value]

    def _words(self, node: Simple) -> Iterator[Finding]:
        for at, word in enumerate(node.words[1:], 1):
            if not isinstance(word, Word) or word.lit not in _COMMAND_WORDS:
                continue
            before = node.words[at - 1]
            begins = not self.s[self.line_start(word.start) : word.start].strip(" \t")
            if begins and isinstance(before, Word) and not _FLAG.match(before.src) and self._is_command(word, node, at):
                backslash = self.s.find("\\", before.end, word.start)
                fix = Fix("take the backslash from the line above", "safe", (self.edit(before.end, backslash + 1, ""),)) if backslash > 0 else None
                yield self.finding("SHL012", self.span(word.start, word.end), fix, word=decode(word.src), program=self.program(node))
                return

    def _is_command(self, word: Word, node: Simple, at: int) -> bool:
        """A word that begins a line and names a command: `swift` and `megatron` only before a sub-command, and never as the program itself."""
        if word.lit in ("swift", "megatron", "python", "python3", "torchrun", "accelerate", "deepspeed", "nohup"):
            earlier = [item.src for item in node.words[:at] if isinstance(item, Word)]
            return is_launch(earlier) and any(_FLAG.match(item) for item in earlier)
        earlier = [item.src for item in node.words[:at] if isinstance(item, Word)]
        return any(_FLAG.match(item) for item in earlier)

    def _continuations(self, node: Simple, words: Sequence[Word]) -> Iterator[Finding]:
        for word in words:
            src = word.src
            rest_of_line = self.s[word.end : self.s.find("\n", word.end) if self.s.find("\n", word.end) >= 0 else len(self.s)]
            match = _BLANK_AFTER.search(src)
            last = word.parts[-1] if word.parts else None
            blank = match is not None and isinstance(last, Lit) and last.q and last.start == word.start + match.start()
            if blank and not rest_of_line.strip():
                at = word.start + (match.start() if match else 0)
                fix = Fix("delete the blank after the backslash", "safe", (self.edit(at + 1, word.end + len(rest_of_line), ""),))
                if word.end + len(rest_of_line) < len(self.s):
                    yield self.finding("SHL001", self.span(at, word.end), fix, program=self.program(node))
            elif (blank and rest_of_line.lstrip(" \t").startswith("#")) or re.match(r"\\[ \t]#", src):
                end = word.end + len(rest_of_line)
                following = self.s[end + 1 :].lstrip(" \t").split(" ", 1)[0].split("\n", 1)[0]
                hash_at = self.s.find("#", word.start)
                note = decode(self.s[hash_at:end].rstrip("\\ \t"))
                above = self.line_start(node.start)
                edits = (self.edit(above, above, note + "\n"), self.edit(word.start + 1, end, ""))
                if _FLAG.match(following):
                    fix = Fix("move the comment above the command", "safe", edits)
                    yield self.finding("SHL003", self.span(hash_at, end), fix, program=self.program(node), flag=decode(following))

    def _characters(self, node: Simple) -> Iterator[Finding]:
        """Blanks, quotes and dashes that are not what they look like, outside quotes."""
        for words in self._all_words(node):
            for word in words:
                if word.src.isascii():
                    continue
                yield from self._odd_characters(node, word)

    def _odd_characters(self, node: Simple, word: Word) -> Iterator[Finding]:
        edits: list[Edit] = []
        blank = ""
        quotes: list[str] = []
        for part in word.parts:
            if not isinstance(part, Lit) or part.q or part.value.isascii():
                continue
            text = decode(part.value)
            if "\ufffd" in text:
                continue
            at = part.start
            for char in text:
                size = len(char.encode())
                if _ODD_BLANK.match(char):
                    blank = blank or char
                    edits.append(self.edit(at, at + size, "" if char in "\u200b\ufeff" else " "))
                elif _SMART_QUOTE.match(char):
                    quotes.append(char)
                at += size
        shown = decode(word.src)
        span = self.span(word.start, word.end)
        if edits:
            yield self.finding("SHL004", span, Fix("put a plain blank there", "safe", tuple(edits)), what=_ODD_BLANKS[blank], word=shown)
            return
        dash = _DASH.match(shown)
        if dash and isinstance(word.parts[0], Lit) and not word.parts[0].q and len(shown) - dash.end() > 1:
            size = len(dash.group().encode())
            fix = Fix("write `--`", "safe", (self.edit(word.start, word.start + size, "--"),))
            yield self.finding("SHL005", span, fix, char=dash.group(), meant="`--`", word=shown)
        elif quotes and (id(node) in self.started or self._looks_like_launch(node) or node.assigns):
            straight = {"\u201c": '"', "\u201d": '"', "\u201e": '"', "\u00ab": '"', "\u00bb": '"'}
            whole = len(quotes) == 2 and shown[0] == quotes[0] and shown[-1] == quotes[1]
            first = len(quotes[0].encode())
            last = len(quotes[-1].encode())
            mark = straight.get(quotes[0], "'")
            fix = Fix(f"write {mark}", "safe", (self.edit(word.start, word.start + first, mark), self.edit(word.end - last, word.end, mark))) if whole else Fix(f"write {mark}")
            yield self.finding("SHL005", span, fix, char=quotes[0], meant="a quote", word=shown)

    def _declaration(self, node: Simple) -> Iterator[Finding]:
        first = node.words[0] if node.words else None
        if not isinstance(first, Word) or first.lit not in DECLARATIONS or len(node.words) < 3:
            return
        words = node.words[1:]
        at = next((n for n, word in enumerate(words) if isinstance(word, Word) and re.fullmatch(r"(?:\S*/)?(?:swift|megatron|torchrun|python3?|accelerate|deepspeed)", word.lit or "")), None)
        if at is None or not any(isinstance(word, Word) and _FLAG.match(word.src) for word in words[at:]):
            return
        word = words[at]
        assert isinstance(word, Word)
        following = words[at + 1]
        program = decode(f"{word.src} {following.src}" if isinstance(following, Word) else word.src)
        end = node.words[1].start
        fix = Fix(f"delete `{first.lit}`: the assignments then stand in front of the command", "safe", (self.edit(first.start, end, ""),))
        yield self.finding("SHL008", self.span(first.start, first.end), fix, builtin=first.lit, program=program)

    # --- what the interpreter saw ---

    def _vanished(self) -> Iterator[Finding]:
        file = self.parser.text.file
        for node in self.simples:
            if not any((file, word.start) in self.shell.vanished for words in self._all_words(node) for word in words):
                continue
            for words in self._all_words(node):
                for at, word in enumerate(words[1:], 1):
                    if (file, word.start) not in self.shell.vanished:
                        continue
                    finding = self._empty_value(words, at, word)
                    if finding is not None:
                        yield finding

    def _empty_value(self, words: Sequence[Word], at: int, word: Word) -> Finding | None:
        flag = words[at - 1].src
        part = word.parts[0] if len(word.parts) == 1 else None
        if not _FLAG.match(flag) or "=" in flag or not isinstance(part, Param) or part.op.endswith("+"):
            return None
        if _OPTIONAL_NAME.search(part.name) or part.name.isdigit() or not part.name.isidentifier() or isinstance(part.sub, str):
            return None
        if at + 1 < len(words) and not _FLAG.match(words[at + 1].src):
            return None
        assigned = re.search(rf"(?<![\w$]){re.escape(part.name)}\+?=", self.s) is not None
        where = "give it a value" if assigned else "set it where the script runs, or give it a default: ${" + part.name + ":-…}"
        finding = self.finding(
            "SHL009", self.span(word.start, word.end), Fix(where), [flag.lstrip("-")], variable="$" + part.name, flag=decode(flag)
        )  # fmt: skip
        return finding if assigned else replace(finding, severity="info", confidence="medium")

    def _is_here(self, node: Simple) -> bool:
        return node.text is self.parser.text

    def _late_assignments(self, node: Simple) -> Iterator[Finding]:
        if not self._is_here(node):
            return
        words = [word for word in node.words if isinstance(word, Word)]
        if not any(_ASSIGNMENT.match(word.src) for word in words[1:] if word.lit is None or "=" in word.lit):
            return
        program = next((n for n, word in enumerate(words) if is_launch([item.src for item in words[n:]])), None)
        if program is None:
            return
        for at, word in enumerate(words[program + 1 :], program + 1):
            match = _ASSIGNMENT.match(word.src) if word.lit is None or "=" in word.lit else None
            if not match or not ENVIRONMENT.fullmatch(match.group(1)) or _FLAG.match(words[at - 1].src):
                continue
            before = words[at - 1].end
            target = words[program].start
            fix = Fix(
                f"put {match.group(1)} in front of the command", "safe",
                (self.edit(target, target, decode(word.src) + " "), self.edit(before, word.end, "")),
            )  # fmt: skip
            yield self.finding("SHL007", self.span(word.start, word.end), fix, [match.group(1)], word=decode(word.src), program=self.program(node))

    def _one_word(self, node: Simple, fields: list[Field]) -> Iterator[Finding]:
        for field in fields:
            text = field.text
            if (" " not in text and "\t" not in text) or not _FLAG_AND_VALUE.match(text) or any(seg.unk for seg in field.segs):
                continue
            span = span_of(field.place)
            fix = Fix("take the quotes away")
            if span.file == self.parser.text.file and not field.place[3]:
                source = self.source.data[span.start : span.end].decode("utf-8", "replace")
                simple = re.fullmatch(r"\"(\$\{?\w+\}?)\"", source)
                quoted = re.fullmatch(r"\"(--[\w-]+ [\w./:,=+-]+)\"|'(--[\w-]+ [\w./:,=+-]+)'", source)
                if quoted:
                    fix = Fix("take the quotes away", "safe", (Edit(span, quoted.group(1) or quoted.group(2)),))
                elif simple and re.fullmatch(r"[\w ./:,=+-]+", text):
                    fix = Fix("take the quotes away, so that the variable is split into words", "safe", (Edit(span, simple.group(1)),))
            definition = next((Span(seg.file, seg.start, seg.end) for seg in field.segs if seg.start >= 0 and seg.hops), None)
            shown = decode(text) if len(text) < 80 else decode(text[:77]) + "…"
            flag = text.split()[0].lstrip("-")
            related = [(definition, "written here")] if definition else []
            yield self.finding("SHL011", span, fix, [flag], related, word=shown, program=self.program(node))

    def _blank_words(self, node: Simple, fields: list[Field]) -> Iterator[Finding]:
        """A blank word that came through a variable: the backslash stands where the text was defined."""
        for field in fields:
            if field.text not in (" ", "\t", "\\"):
                continue
            for seg in field.segs:
                if seg.hops and seg.start >= 0 and seg.file == self.parser.text.file:
                    at = Span(seg.file, seg.start, seg.end)
                    fix = Fix("join the lines inside the quotes without a backslash, or use double quotes" if field.text == "\\" else "delete the blank after the backslash")
                    yield self.finding("SHL001", at, fix, program=self.program(node))

    def _not_exported(self, node: Simple, command: Command) -> Iterator[Finding]:
        variables = command.shell_variables
        if not isinstance(variables, LazyTokens):
            return
        for name in variables:
            if not ENVIRONMENT.fullmatch(name) or name in command.env or self._used(name):
                continue
            token = variables[name]
            if not token.text:
                continue
            owner = next(
                (
                    simple for simple in reversed(self.simples)
                    if not simple.words and any(assign.name == name for assign in simple.assigns) and simple.start < node.start
                ),
                None,
            )  # fmt: skip
            if owner is None or not self._is_here(node):
                continue
            only = all(ENVIRONMENT.fullmatch(assign.name) for assign in owner.assigns)
            safety: Safety = "safe" if only else "unsafe"
            fix = Fix(f"export {name}", safety, (self.edit(owner.start, owner.start, "export "),))
            assign = next(assign for assign in owner.assigns if assign.name == name)
            finding = self.finding("SHL010", self.span(assign.start, assign.end), fix, [name], name=name, program=self.program(node))
            yield finding if _DISTRIBUTED.fullmatch(name) else replace(finding, severity="warning")

    def _used(self, name: str) -> bool:
        """The script hands the value on by itself."""
        return re.search(rf"\$\{{?[#!]?{name}\b|\bexport\s[^\n]*\b{name}\b", self.s) is not None
