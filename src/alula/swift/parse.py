"""ms-swift's command-line parser, mirrored over tokens that know their place.

ms-swift parses with transformers' `HfArgumentParser`, an `argparse.ArgumentParser` without positionals, through `parse_known_args`.
This module follows CPython 3.11's `argparse` (the interpreter ms-swift is judged with) and `HfArgumentParser._parse_dataclass_field`.
It goes on after an error, so that all errors can be shown; `Parsed.errors[0]` is the one that ms-swift would print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from alula.run.record import record

if TYPE_CHECKING:
    from alula.facts.swift import Flag as FlagFact
    from alula.run.source import Token

ErrorKind = Literal["ambiguous", "expected-one", "expected-some", "bad-value", "bad-choice", "takes-no-value", "required"]

_NEGATIVE_NUMBER = re.compile(r"^-\d+$|^-\d*\.\d+$")
_TRUE = {"yes", "true", "t", "y", "1"}
_FALSE = {"no", "false", "f", "n", "0"}


class Unknown:
    """The value of something whose text is not known. There is one instance, `UNKNOWN`; it is false."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@record
class Use:
    """One occurrence of a flag.

    Attributes:
        name: the canonical name (underscores, not abbreviated, without `no_`).
        token: the `--flag` word.
        values: the words it takes.
        value: the converted value, or UNKNOWN; meaningless when `valid` is False.
        abbreviated: written shorter than its name.
        negated: written as `--no_<name>`.
    """

    name: str
    token: Token
    values: tuple[Token, ...]
    value: Any
    abbreviated: bool = False
    negated: bool = False
    valid: bool = True

    @property
    def maybe(self) -> bool:
        return self.token.maybe


@record
class ParseError:
    """One error of the parser.

    Attributes:
        message: argparse's own sentence.
        options: the flags that an ambiguous word could mean, or the valid choices.
        certain: False where the words involved are not exactly known.
    """

    kind: ErrorKind
    flag: str
    message: str
    token: Token | None = None
    value: Token | None = None
    options: tuple[str, ...] = ()
    certain: bool = True


@record
class Parsed:
    """What the parser makes of an argv.

    Attributes:
        uses: every occurrence in order.
        extras: the words that no flag took (`remaining_argv`).
        errors: in the order in which argparse would meet them.
        help: `-h` or `--help` was given: argparse prints the help and exits.
    """

    uses: tuple[Use, ...] = ()
    extras: tuple[Token, ...] = ()
    errors: tuple[ParseError, ...] = ()
    help: bool = False
    by_name: Mapping[str, tuple[Use, ...]] = field(default_factory=dict)

    def last(self, name: str) -> Use | None:
        uses = self.by_name.get(name)
        return uses[-1] if uses else None


@record
class _Option:
    string: str
    fact: FlagFact | None  # None: help
    negated: bool = False
    ambiguous: bool = False


@record
class Vocabulary:
    """The option strings of one route, in registration order."""

    options: Mapping[str, _Option]

    @classmethod
    def of(cls, flags: Mapping[str, FlagFact]) -> Vocabulary:
        options: dict[str, _Option] = {"-h": _Option("-h", None), "--help": _Option("--help", None)}
        for fact in flags.values():
            for spelling in _spellings(fact.name):
                options[spelling] = _Option(spelling, fact)
            if fact.negatable:
                for spelling in (f"--no_{fact.name}", f"--no-{fact.name.replace('_', '-')}"):
                    options[spelling] = _Option(spelling, fact, negated=True)
        return cls(options)

    def starting_with(self, prefix: str) -> list[_Option]:
        return [option for string, option in self.options.items() if string.startswith(prefix)]


def _spellings(name: str) -> tuple[str, ...]:
    return (f"--{name}", f"--{name.replace('_', '-')}") if "_" in name else (f"--{name}",)


class _Conversion(Exception):
    def __init__(self, kind: ErrorKind, sentence: str) -> None:
        self.kind: ErrorKind = kind
        self.sentence = sentence


def _convert(text: str, fact: FlagFact) -> Any:
    """One word -> the value the dataclass gets. Raises `_Conversion` with argparse's sentence."""
    if fact.choices is not None:
        for choice in fact.choices:
            if str(choice) == text:
                return choice
        listed = ", ".join(repr(choice) for choice in fact.choices)
        raise _Conversion("bad-choice", f"invalid choice: {text!r} (choose from {listed})")
    if fact.type == "bool":
        lowered = text.lower()
        if lowered in _TRUE:
            return True
        if lowered in _FALSE:
            return False
        sentence = f"Truthy value expected: got {text} but expected one of yes/no, true/false, t/f, y/n, 1/0 (case insensitive)."
        raise _Conversion("bad-value", sentence)
    if fact.type in ("int", "float"):
        try:
            return int(text) if fact.type == "int" else float(text)
        except ValueError:
            raise _Conversion("bad-value", f"invalid {fact.type} value: {text!r}") from None
    if fact.type in ("dict", "object") and text:  # argparse calls dict("…"), which fails on any word
        raise _Conversion("bad-value", f"invalid {fact.type} value: {text!r}")
    return text


def parse(argv: Sequence[Token], flags: Mapping[str, FlagFact], vocabulary: Vocabulary | None = None) -> Parsed:
    """Words -> flags, as ms-swift's parser reads them.

    Args:
        argv: the words after the route.
        flags: the route's flags in registration order.
        vocabulary: `Vocabulary.of(flags)`, when the caller keeps one.
    """
    return _Parser(argv, flags, vocabulary or Vocabulary.of(flags)).run()


class _Parser:
    def __init__(self, argv: Sequence[Token], flags: Mapping[str, FlagFact], vocabulary: Vocabulary) -> None:
        self.argv = argv
        self.flags = flags
        self.vocabulary = vocabulary
        self.uses: list[Use] = []
        self.extras: list[Token] = []
        self.errors: list[ParseError] = []
        self.help = False

    def run(self) -> Parsed:
        kinds = [self._classify(token) for token in self._until_separator()]
        kinds += [None] * (len(self.argv) - len(kinds))
        at = 0
        while at < len(self.argv):
            option = kinds[at]
            if option is None:
                self.extras.append(self.argv[at])
                at += 1
            else:
                at = self._consume(at, option, kinds)
        seen = {use.name for use in self.uses}
        for fact in self.flags.values():
            if fact.required and fact.name not in seen:
                names = "/".join(_spellings(fact.name))
                self.errors.append(ParseError("required", fact.name, f"the following arguments are required: {names}"))
        by_name: dict[str, tuple[Use, ...]] = {}
        for use in self.uses:
            by_name[use.name] = (*by_name.get(use.name, ()), use)
        return Parsed(tuple(self.uses), tuple(self.extras), tuple(self.errors), self.help, by_name)

    def _until_separator(self) -> list[Token]:
        """argparse takes every word from `--` on as a plain argument."""
        words: list[Token] = []
        for token in self.argv:
            if token.text == "--":
                break
            words.append(token)
        return words

    def _classify(self, token: Token) -> tuple[_Option | None, str | None] | None:
        """None for a plain argument, else (option or None when unknown, explicit value). Follows `ArgumentParser._parse_optional`."""
        text = token.text
        if not text.startswith("-") or len(text) == 1:
            return None
        options = self.vocabulary.options
        if text in options:
            return options[text], None
        if text.startswith("-h"):  # `-h8`: argparse complains about the 8 or prints the help; both end the program
            return options["-h"], None
        head, equals, tail = text.partition("=")
        if equals and head in options:
            return options[head], tail
        matches = self.vocabulary.starting_with(head) if text.startswith("--") else []
        if len(matches) > 1:
            names = ", ".join(match.string for match in matches)
            message = f"ambiguous option: {text} could match {names}"
            canonical = tuple(dict.fromkeys(m.fact.name for m in matches if m.fact is not None))
            self.errors.append(ParseError("ambiguous", head.lstrip("-"), message, token, options=canonical, certain=token.known))
            return _Option(text, None, ambiguous=True), None
        if matches:
            return matches[0], tail if equals else None
        if _NEGATIVE_NUMBER.match(text) or " " in text:
            return None
        return None, None

    def _consume(self, at: int, option: tuple[_Option | None, str | None], kinds: Sequence[tuple[_Option | None, str | None] | None]) -> int:
        token = self.argv[at]
        found, explicit = option
        if found is None:
            self.extras.append(token)
            return at + 1
        if found.ambiguous:  # argparse stopped there; its values are nobody's, so they are no news
            at += 1
            while at < len(kinds) and kinds[at] is None:
                at += 1
            return at
        if found.fact is None:
            self.help = True
            return at + 1
        fact = found.fact
        head = token.text.partition("=")[0] if explicit is not None else token.text
        abbreviated = head != found.string
        if found.negated:
            if explicit is not None:
                message = f"argument {'/'.join(self._names(fact, True))}: ignored explicit argument {explicit!r}"
                self.errors.append(ParseError("takes-no-value", fact.name, message, token, certain=token.known))
            self.uses.append(Use(fact.name, token, (), False, abbreviated, negated=True))
            return at + 1
        if explicit is not None:
            self._use(fact, token, (token.with_text(explicit),), abbreviated)
            return at + 1
        end = at + 1
        limit = len(self.argv) if fact.nargs == "+" else at + 2
        while end < min(limit, len(self.argv)) and kinds[end] is None and self.argv[end].text != "--":
            end += 1
        self._use(fact, token, tuple(self.argv[at + 1 : end]), abbreviated)
        return end

    def _names(self, fact: FlagFact, negated: bool = False) -> tuple[str, ...]:
        return _spellings(f"no_{fact.name}" if negated else fact.name)

    def _use(self, fact: FlagFact, token: Token, values: tuple[Token, ...], abbreviated: bool) -> None:
        prefix = f"argument {'/'.join(self._names(fact))}: "
        if not values and fact.nargs != "?":
            kind: ErrorKind = "expected-some" if fact.nargs == "+" else "expected-one"
            sentence = "expected at least one argument" if fact.nargs == "+" else "expected one argument"
            self.errors.append(ParseError(kind, fact.name, prefix + sentence, token, certain=token.known))
            self.uses.append(Use(fact.name, token, (), UNKNOWN, abbreviated, valid=False))
            return
        if not values:
            self.uses.append(Use(fact.name, token, (), True, abbreviated))
            return
        converted: list[Any] = []
        valid = True
        for value in values:
            if not value.known:
                converted.append(UNKNOWN)
                continue
            try:
                converted.append(_convert(value.text, fact))
            except _Conversion as failure:
                valid = False
                options = tuple(str(choice) for choice in fact.choices or ())
                self.errors.append(
                    ParseError(failure.kind, fact.name, prefix + failure.sentence, token, value, options, certain=token.known)
                )
        whole: Any
        if not valid or any(item is UNKNOWN for item in converted):
            whole = UNKNOWN
        else:
            whole = tuple(converted) if fact.nargs == "+" else converted[0]
        self.uses.append(Use(fact.name, token, values, whole, abbreviated, valid=valid))
