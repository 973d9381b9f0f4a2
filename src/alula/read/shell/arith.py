"""Shell arithmetic: 64-bit integers, C operators, variables by name."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(?:(\d+#[0-9A-Za-z@_]+|0[xX][0-9A-Fa-f]+|\d+)|([A-Za-z_]\w*)|(\*\*|<<=|>>=|[-+*/%&|^]=|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%<>=!~&|^?:(),\[\]]))", re.ASCII)
_BINARY = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10,
    "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGN = frozenset(("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="))


class ArithmeticFault(Exception):
    """bash would refuse the expression."""


class UnknownNumber(Exception):
    """The expression uses a value that cannot be known."""


def _wrap(value: int) -> int:
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def number(text: str) -> int | None:
    """A literal as bash reads it: decimal, 0x…, 0…, base#digits; None when it is none."""
    sign = -1 if text[:1] == "-" else 1
    body = text[1:] if text[:1] in ("-", "+") else text
    try:
        if "#" in body:
            base, digits = body.split("#", 1)
            value = 0
            for char in digits:
                digit = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ@_".index(char)
                if int(base) <= 36 and digit >= 36:
                    digit -= 26
                if digit >= int(base):
                    return None
                value = value * int(base) + digit
            return sign * value
        if body[:2] in ("0x", "0X"):
            return sign * int(body, 16)
        if not (body.isascii() and body.isdigit()) or len(body) > 40:
            return None
        return sign * int(body, 8 if len(body) > 1 and body[0] == "0" else 10)
    except ValueError:
        return None


class Arithmetic:
    """Evaluates one expression. `read(name, key)` gives a variable's text; `write(name, key, text)` sets it."""

    def __init__(self, read: Callable[[str, str | None], str], write: Callable[[str, str | None, str], None], depth: int = 0) -> None:
        self.read = read
        self.write = write
        self.depth = depth
        self.tokens: list[tuple[str, str]] = []
        self.at = 0
        self.text = ""
        self.quiet = 0

    def evaluate(self, text: str) -> int:
        """Raises ArithmeticFault or UnknownNumber."""
        stripped = text.strip()
        if not stripped:
            return 0
        plain = number(stripped)
        if plain is not None:
            return _wrap(plain)
        if self.depth > 20 or len(text) > 20_000:
            raise ArithmeticFault("the expression nests too deeply")
        self.tokens = []
        at = 0
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if not match:
                raise ArithmeticFault(f"cannot read `{stripped[at : at + 20]}`")
            digits, name, op = match.groups()
            if name and stripped.startswith("[", match.end()):
                end, level = match.end(), 0
                while end < len(stripped):
                    level += (stripped[end] == "[") - (stripped[end] == "]")
                    end += 1
                    if level == 0:
                        break
                self.tokens.append(("item", stripped[match.start(2) : end]))
                at = end
                continue
            self.tokens.append(("number", digits) if digits else ("name", name) if name else ("op", op))
            at = match.end()
        self.at = 0
        value = self._comma()
        if self.at < len(self.tokens):
            raise ArithmeticFault(f"unexpected `{self.tokens[self.at][1]}`")
        return value

    def _next(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def _take(self, op: str) -> bool:
        if self._next() == ("op", op):
            self.at += 1
            return True
        return False

    def _comma(self) -> int:
        value = self._assign()
        while self._take(","):
            value = self._assign()
        return value

    def _assign(self) -> int:
        kind, text = self._next()
        if kind in ("name", "item") and self.at + 1 < len(self.tokens):
            following = self.tokens[self.at + 1]
            if following[0] == "op" and following[1] in _ASSIGN:
                self.at += 2
                value = self._assign()
                if following[1] != "=":
                    value = self._apply(following[1][:-1], self._get(text), value)
                return self._set(text, value)
        return self._ternary()

    def _ternary(self) -> int:
        value = self._binary(1)
        if not self._take("?"):
            return value
        self.quiet += not value
        yes = self._assign()
        self.quiet -= not value
        if not self._take(":"):
            raise ArithmeticFault("`?` without `:`")
        self.quiet += bool(value)
        no = self._ternary()
        self.quiet -= bool(value)
        return yes if value else no

    def _binary(self, floor: int) -> int:
        left = self._unary()
        while True:
            kind, op = self._next()
            rank = _BINARY.get(op, 0) if kind == "op" else 0
            if rank < floor or not rank:
                return left
            self.at += 1
            skip = (op == "&&" and not left) or (op == "||" and bool(left))
            self.quiet += skip
            right = self._binary(rank if op == "**" else rank + 1)
            self.quiet -= skip
            left = self._apply(op, left, right)

    def _unary(self) -> int:
        kind, text = self._next()
        self.at += 1
        if kind == "op":
            if text == "-":
                return _wrap(-self._unary())
            if text == "+":
                return self._unary()
            if text == "!":
                return int(not self._unary())
            if text == "~":
                return ~self._unary()
            if text in ("++", "--"):
                kind, name = self._next()
                if kind not in ("name", "item"):
                    value = self._unary()
                    return value
                self.at += 1
                return self._set(name, self._get(name) + (1 if text == "++" else -1))
            if text == "(":
                value = self._comma()
                if not self._take(")"):
                    raise ArithmeticFault("`(` without `)`")
                return value
            raise ArithmeticFault(f"unexpected `{text}`")
        if kind == "number":
            literal = number(text)
            if literal is None:
                raise ArithmeticFault(f"`{text}` is no number")
            return _wrap(literal)
        if kind in ("name", "item"):
            value = self._get(text)
            if self._take("++"):
                self._set(text, value + 1)
            elif self._take("--"):
                self._set(text, value - 1)
            return value
        raise ArithmeticFault("a number is missing")

    def _split(self, text: str) -> tuple[str, str | None]:
        name, bracket, key = text.partition("[")
        return name, key[:-1] if bracket else None

    def _get(self, text: str) -> int:
        if self.quiet:
            return 0
        name, key = self._split(text)
        return Arithmetic(self.read, self.write, self.depth + 1).evaluate(self.read(name, key))

    def _set(self, text: str, value: int) -> int:
        value = _wrap(value)
        if not self.quiet:
            name, key = self._split(text)
            self.write(name, key, str(value))
        return value

    def _apply(self, op: str, a: int, b: int) -> int:
        if self.quiet:
            return 0
        if op in ("/", "%"):
            if b == 0:
                raise ArithmeticFault("division by 0")
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return _wrap(quotient if op == "/" else a - quotient * b)
        if op == "**":
            if b < 0:
                raise ArithmeticFault("exponent less than 0")
            return _wrap(pow(a, b, 1 << 64))
        if op in ("<<", ">>"):
            return _wrap(a << (b & 63) if op == "<<" else a >> (b & 63))
        if op == "&&":
            return int(bool(a) and bool(b))
        if op == "||":
            return int(bool(a) or bool(b))
        table: dict[str, Callable[[int, int], int]] = {
            "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y, "&": lambda x, y: x & y, "|": lambda x, y: x | y,
            "^": lambda x, y: x ^ y, "==": lambda x, y: int(x == y), "!=": lambda x, y: int(x != y), "<": lambda x, y: int(x < y),
            "<=": lambda x, y: int(x <= y), ">": lambda x, y: int(x > y), ">=": lambda x, y: int(x >= y),
        }  # fmt: skip
        return _wrap(table[op](a, b))
