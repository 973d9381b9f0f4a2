"""Edits to shell text that leave everything else as it is: values in the quotes they stand in, flags with their continuation lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

from alula.run.finding import Edit
from alula.run.source import Source, Span


class NotEditable(Exception):
    """The change cannot be written safely at this place; the fix is the user's. `str()` says why, in one line."""


# Characters that mean themselves everywhere in shell text, quoted or not.
_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_BLANKS = b" \t"
_INDENT = re.compile(rb"[ \t]*(?:#+[ \t]*)?")  # a companion command may stand commented out
_CONTINUATION = re.compile(rb"\\\r?(?:\n|\Z)")
_CONTINUED_BEFORE = re.compile(rb"(?:(?<!\\)[ \t]*\\\r?\n[ \t]*(?:#+[ \t]*)?)+\Z")
_REST_IS_COMMENT = re.compile(rb"[ \t]*(?:[ \t]#[^\n]*?)?(?=\r?\n|\Z)")

Context = Literal["bare", "double", "default", "single", "ansi", "heredoc", "raw"]


def shell_word(text: str) -> str:
    """The text as one shell word, quoted only where it must be."""
    if _PLAIN.fullmatch(text):
        return text
    if "\0" in text:
        raise NotEditable("a word cannot hold a NUL")
    if "'" not in text:
        return f"'{text}'"
    if not re.search(r'["$`\\!]', text):
        return f'"{text}"'
    return "'" + text.replace("'", "'\\''") + "'"


def quote_for(data: bytes, span: Span, text: str) -> str:
    """The bytes to write over `span` so that the shell reads `text` there: in the quotes that stand around it or belong to it.

    Where the span is part of a quoted string, the string's value then holds `text` at that place; whether it is split or read as shell
    again later cannot be known here.

    Raises:
        NotEditable: the place cannot hold this text.
    """
    old = data[span.start : span.end]
    quotes = old[:1].decode() if len(old) > 1 and old[:1] in (b"'", b'"') and old[-1:] == old[:1] else ""
    if _PLAIN.fullmatch(text):
        # In all contexts the same. The quotes are kept where they are the word's own.
        return f"{quotes}{text}{quotes}"
    if "\0" in text:
        raise NotEditable("a word cannot hold a NUL")
    context = _context(data, span.start, span.end)
    if context == "bare":
        if quotes == '"':
            return f'"{_escape(text, _SPECIAL["double"])}"'
        return shell_word(text)
    if context == "raw":
        return text
    if context == "default" and re.search(r"'|[<>]\(", text):  # bash acts on them there, and takes no escape off again
        raise NotEditable("a quoted default value cannot hold a single quote or a process substitution")
    if context == "single":
        return text.replace("'", "'\\''")
    return _escape(text, _SPECIAL[context])


_SPECIAL = {"double": '\\"$`', "default": '\\"$`}', "ansi": "\\'", "heredoc": "\\$`"}


def _escape(text: str, special: str) -> str:
    return "".join("\\" + char if char in special else char for char in text)


def _context(data: bytes, start: int, end: int) -> Context:
    """In what kind of quotes a range of shell text stands. Quotes that belong to the range itself do not count."""
    node = _tree(data).root_node.descendant_for_byte_range(start, end)
    expansion = False
    while node is not None:
        inside = node.start_byte < start or end < node.end_byte
        if node.type in ("command_substitution", "process_substitution", "subshell"):
            return "bare"
        if inside and node.type == "expansion":
            expansion = True
        elif inside and node.type == "string":
            return "default" if expansion else "double"
        elif inside and node.type == "raw_string":
            return "single"
        elif inside and node.type == "ansi_c_string":
            return "ansi"
        elif node.type == "heredoc_body":
            return "raw" if _quoted_delimiter(node) else "heredoc"
        elif node.type == "ERROR":
            raise NotEditable("the shell text around it does not parse")
        node = node.parent
    return "bare"


def _quoted_delimiter(body: Any) -> bool:
    sibling = body.prev_sibling
    while sibling is not None and sibling.type != "heredoc_start":
        sibling = sibling.prev_sibling
    return sibling is not None and any(char in sibling.text for char in b"'\"\\")


@lru_cache(maxsize=4)
def _tree(data: bytes) -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language())).parse(data)


def delete_flag(source: Source, flag: Span, values: Sequence[Span] = ()) -> tuple[Edit, ...]:
    """Take a flag and its values out, with their continuation line: no empty one stays, and no backslash at the end of the command.

    Works in a command, in an array, in a string that is split later, and in a command that stands commented out.
    """
    groups: list[Span] = []
    for span in sorted({flag, *values}, key=lambda s: s.start):
        if groups and _only_separators(source.data[groups[-1].end : span.start]):
            groups[-1] = Span(span.file, groups[-1].start, max(groups[-1].end, span.end))
        else:
            groups.append(span)
    return tuple(Edit(Span(group.file, *_removal(source.data, group.start, group.end)), "") for group in groups)


def _only_separators(between: bytes) -> bool:
    return re.fullmatch(rb"(?:[ \t]|\\?\r?\n[ \t]*(?:#+[ \t]+)?)*", between) is not None


def _removal(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The range to delete so that the words from start to end are gone and the rest still stands as it should."""
    line = data.rfind(b"\n", 0, start) + 1
    first_on_line = _INDENT.fullmatch(data, line, start) is not None
    before = _CONTINUED_BEFORE.search(data, max(0, line - 4000), start) if first_on_line else None
    after = end
    while data[after : after + 1] in (b" ", b"\t"):
        after += 1
    continuation = _CONTINUATION.match(data, after)
    if first_on_line and continuation is not None:
        next_line, _, _ = data[continuation.end() :].partition(b"\n")
        if before is not None and not next_line.strip():  # it was the command's last line and its backslash joined nothing
            return before.start(), continuation.end() - len(continuation[0]) + 1
        return line, continuation.end()
    ends_line = _REST_IS_COMMENT.match(data, end)
    if first_on_line:
        if before is not None and (ends_line is not None or after == end):
            return before.start(), end
        if before is None and ends_line is not None:  # a line of an array or of a string
            newline = data.find(b"\n", end)
            return (line, newline + 1) if newline != -1 else (max(0, line - 1), len(data))
        return start, after
    if data[start - 1 : start] in (b" ", b"\t"):
        begin = start
        while data[begin - 1 : begin] in (b" ", b"\t"):
            begin -= 1
        # `--n 2 --x>log`: without a blank the 2 would become a file descriptor.
        return (begin + 1 if data[end : end + 1] in (b"<", b">") else begin), end
    if continuation is not None:  # first word in a quote or parenthesis: the next line moves up
        indent = _INDENT.match(data, continuation.end())
        return start, indent.end() if indent is not None else continuation.end()
    return (start, end) if ends_line is not None else (start, after)


def insert_flag(source: Source, last: Span, text: str) -> Edit:
    """Add words behind the last word of a command, in its style: on the same line, or on a continuation line with the same indent.

    Args:
        last: the command's last argument, before any redirection or operator.
        text: the words as shell text, such as `--flag value`.
    """
    data, end = source.data, last.end
    line = data.rfind(b"\n", 0, last.start) + 1
    indent_match = _INDENT.match(data, line)
    indent = indent_match[0] if indent_match is not None else b""
    newline = "\r\n" if data[line - 2 : line] == b"\r\n" else "\n"
    # `--x>log` with a number in front of the `>` would redirect another file descriptor.
    guard = " " if data[end : end + 1] in (b"<", b">") else ""
    if _CONTINUED_BEFORE.search(data, max(0, line - 4000), line + len(indent)):
        return Edit(Span(last.file, end, end), f" \\{newline}{indent.decode()}{text}{guard}")
    if line and data[line + len(indent) : line + len(indent) + 3].lstrip(b"'\"").startswith(b"-"):  # a line of an array or of a string
        rest = _REST_IS_COMMENT.match(data, end)
        at = rest.end() if rest is not None else end
        return Edit(Span(last.file, at, at), f"{newline}{indent.decode()}{text}")
    return Edit(Span(last.file, end, end), f" {text}{guard}")
