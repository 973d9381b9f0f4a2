"""`[ ]`, `test` and `[[ ]]` with three outcomes: true, false, and one of them likely.

A file that is there is there; one that is absent may be on the machine that runs the script, so its absence is never certain.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import patterns
from .arith import ArithmeticFault, UnknownNumber, number
from .expand import Break, Expander, Field
from .state import FAIL, LIKELY, OK, UNLIKELY, Element, Status, Var
from .text import QUOTED, Seg, Value, decode, likely, soft, text_of, unknown

if TYPE_CHECKING:
    from .syntax import Test, Word

_FILE_TESTS = frozenset("-a -e -f -d -s -r -w -x -L -h -b -c -p -S -g -k -u -O -G -N".split())
_UNARY = _FILE_TESTS | frozenset("-z -n -t -v -o -R".split())
_NUMERIC = frozenset("-eq -ne -lt -le -gt -ge".split())
_BINARY = _NUMERIC | frozenset("= == != < > -nt -ot -ef =~".split())
_POSIX = re.compile(r"\[:(\w+):\]")
_POSIX_CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "space": r"\s", "upper": "A-Z", "lower": "a-z", "xdigit": "0-9a-fA-F", "punct": "!-/:-@[-`{-~", "blank": " \t"}


def both(a: Status, b: Status) -> Status:
    if (not a.ok and a.sure) or (not b.ok and b.sure):
        return FAIL
    return Status(0 if a.ok and b.ok else 1, a.sure and b.sure)


def either(a: Status, b: Status) -> Status:
    if (a.ok and a.sure) or (b.ok and b.sure):
        return OK
    return Status(0 if a.ok or b.ok else 1, a.sure and b.sure)


def inverse(status: Status) -> Status:
    return Status(0 if not status.ok else 1, status.sure)


class Conditions(Expander):
    """Adds tests to the expander."""

    def test(self, fields: Sequence[Field]) -> Status:
        """`test` with these arguments."""
        args = list(fields)
        count = len(args)
        if count == 0:
            return FAIL
        if count == 1:
            return self._nonempty(args[0].segs)
        if count == 2:
            if args[0].text == "!":
                return inverse(self._nonempty(args[1].segs))
            return self._unary(args[0].text, args[1].segs)
        if count == 3 and args[1].text in _BINARY:
            return self._binary(args[1].text, args[0].segs, args[2].segs)
        if count in (3, 4) and args[0].text == "!":
            return inverse(self.test(args[1:]))
        status, at = self._or(args, 0, 0)
        return status if at >= count else Status(2)

    def _or(self, args: list[Field], at: int, depth: int) -> tuple[Status, int]:
        status, at = self._and(args, at, depth)
        while at < len(args) and args[at].text == "-o":
            other, at = self._and(args, at + 1, depth)
            status = either(status, other)
        return status, at

    def _and(self, args: list[Field], at: int, depth: int) -> tuple[Status, int]:
        status, at = self._primary(args, at, depth)
        while at < len(args) and args[at].text == "-a":
            other, at = self._primary(args, at + 1, depth)
            status = both(status, other)
        return status, at

    def _primary(self, args: list[Field], at: int, depth: int) -> tuple[Status, int]:
        if at >= len(args) or depth > 50:
            return Status(2), len(args) + 1
        text = args[at].text
        if text == "!":
            status, end = self._primary(args, at + 1, depth + 1)
            return inverse(status), end
        if text == "(":
            status, end = self._or(args, at + 1, depth + 1)
            return (status, end + 1) if end < len(args) and args[end].text == ")" else (Status(2), len(args) + 1)
        if at + 2 < len(args) and args[at + 1].text in _BINARY:
            return self._binary(args[at + 1].text, args[at].segs, args[at + 2].segs), at + 3
        if text in _UNARY and at + 1 < len(args):
            return self._unary(text, args[at + 1].segs), at + 2
        return self._nonempty(args[at].segs), at + 1

    # --- [[ ]] ---

    def cond(self, test: Test) -> Status:
        if test.op == "!":
            return inverse(self.cond(test.kids[0]))
        if test.op in ("&&", "||"):
            left = self.cond(test.kids[0])
            if left.sure and left.ok == (test.op == "||"):
                return left
            right = self.cond(test.kids[1])
            return both(left, right) if test.op == "&&" else either(left, right)
        left_value = self.value(test.args[0], compared=True)
        if len(test.args) == 1:
            return self._unary(test.op, left_value) if test.op else self._nonempty(left_value)
        if test.op in ("==", "=", "!="):
            return self._match(left_value, test.args[1], test.op == "!=")
        if test.op == "=~":
            return self._regex(left_value, test.args[1])
        right_value = self.value(test.args[1])
        if test.op in _NUMERIC:
            return self._arithmetic(test.op, left_value, right_value)
        return self._binary(test.op, left_value, right_value)

    def _match(self, value: Value, word: Word, negate: bool) -> Status:
        pattern, sure = self.pattern(word)
        if unknown(value):
            return Status(0 if negate else 1, False)
        found = patterns.matches(pattern, text_of(likely(value)))
        return Status(0 if found != negate else 1, sure and not soft(value))

    def _regex(self, value: Value, word: Word) -> Status:
        out: list[str] = []
        sure = not soft(value)
        for piece in self.pieces(word.parts, word.text):
            if isinstance(piece, Break):
                out.append(" ")
                continue
            sure = sure and not (piece.unk or piece.soft or piece.alts)
            out.append(re.escape(piece.text) if piece.q == QUOTED else piece.text)
        if unknown(value):
            return UNLIKELY
        source = _POSIX.sub(lambda m: _POSIX_CLASSES.get(m.group(1), ""), "".join(out))
        text = text_of(likely(value))
        if len(text) > 2000 or not patterns.harmless(source):
            return UNLIKELY
        try:
            found = re.compile(source).search(text)
        except (re.error, RecursionError, OverflowError):
            return Status(2, False)
        groups = [found.group(0), *(group or "" for group in found.groups())] if found else []
        self.set_var("BASH_REMATCH", Var(None, {n: Element((Seg(group),)) for n, group in enumerate(groups)}))
        return Status(0 if found else 1, sure)

    def _arithmetic(self, op: str, a: Value, b: Value) -> Status:
        if unknown(a) or unknown(b):
            return self._guess(op)
        try:
            left, doubt_a = self.calculate(text_of(likely(a)))
            right, doubt_b = self.calculate(text_of(likely(b)))
        except UnknownNumber:
            return self._guess(op)
        except ArithmeticFault:
            return Status(1, not (soft(a) or soft(b)))
        return Status(self._compare(op, left, right), not (doubt_a or doubt_b or soft(a) or soft(b)))

    # --- the tests themselves ---

    @staticmethod
    def _nonempty(value: Value) -> Status:
        if any(seg.unk and not seg.soft for seg in value):
            return LIKELY
        return Status(0 if text_of(value) else 1, not soft(value))

    @staticmethod
    def _guess(op: str) -> Status:
        """A number that cannot be known: scripts test for plenty (`-gt 1`) and for failure (`-ne 0`)."""
        return LIKELY if op in ("-gt", "-ge") else UNLIKELY

    @staticmethod
    def _compare(op: str, a: int, b: int) -> int:
        result = {"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b}[op]
        return 0 if result else 1

    def _unary(self, op: str, value: Value) -> Status:
        if op == "-z":
            return inverse(self._nonempty(value))
        if op == "-n":
            return self._nonempty(value)
        if op == "-v":
            name, _, rest = text_of(value).partition("[")
            if rest:
                return Status(0 if self.element_value(name, rest[:-1]) is not None else 1)
            found = self.variable(name).set or (name.isdigit() and self.lookup_value(name) is not None)
            return Status(0 if found else 1, not self.exploring)
        if op not in _FILE_TESTS:
            return UNLIKELY if op in _UNARY else Status(2)
        if soft(value) and not unknown(value) and text_of(value) and "/" not in text_of(value):
            return LIKELY  # what `command -v` found
        if unknown(value) or soft(value) or self.state.external:
            return UNLIKELY
        return self._file(op, text_of(value))

    def _file(self, op: str, name: str) -> Status:
        if not name:
            return FAIL
        path = os.path.normpath(os.path.join(self.state.cwd, decode(name)))
        if path in self.written_paths():
            return FAIL if op in ("-d", "-L", "-h", "-b", "-c", "-p", "-S") else OK
        try:
            info = os.lstat(path) if op in ("-L", "-h") else os.stat(path)
        except (OSError, ValueError):
            inside = any(item.startswith(path + "/") for item in self.written_paths())
            return OK if inside and op in ("-d", "-e", "-a") else UNLIKELY
        mode = info.st_mode
        kinds = {"-f": stat.S_ISREG, "-d": stat.S_ISDIR, "-b": stat.S_ISBLK, "-c": stat.S_ISCHR, "-p": stat.S_ISFIFO, "-S": stat.S_ISSOCK}
        if op in kinds:
            return Status(0 if kinds[op](mode) else 1)
        if op in ("-L", "-h"):
            return Status(0 if stat.S_ISLNK(mode) else 1)
        if op == "-s":
            return Status(0 if info.st_size else 1)
        access = {"-r": os.R_OK, "-w": os.W_OK, "-x": os.X_OK}.get(op)
        if access is not None:
            return Status(0 if os.access(path, access) else 1)
        return OK

    def _binary(self, op: str, a: Value, b: Value) -> Status:
        if op in _NUMERIC:
            if unknown(a) or unknown(b):
                return self._guess(op)
            left, right = number(text_of(likely(a)).strip()), number(text_of(likely(b)).strip())
            doubtful = soft(a) or soft(b)
            if left is None or right is None:
                return Status(2, not doubtful)
            return Status(self._compare(op, left, right), not doubtful)
        if op in ("-nt", "-ot", "-ef"):
            return UNLIKELY
        if unknown(a) or unknown(b):
            same = text_of(a) == text_of(b) and unknown(a) and unknown(b)
            return Status(0 if same == (op != "!=") else 1, False)
        x, y = text_of(likely(a)), text_of(likely(b))
        result = {"=": x == y, "==": x == y, "!=": x != y, "<": x < y, ">": x > y, "=~": False}[op]
        return Status(0 if result else 1, not (soft(a) or soft(b)))
