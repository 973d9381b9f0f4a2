"""Fixes: edits to the place where a value is defined.

A fix is manual (advice without edits) where the text came from outside the file, or where the same definition serves another use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from alula.run.finding import Edit, Fix, Safety
from alula.run.source import Source, Span, Token
from alula.write import edits

if TYPE_CHECKING:
    from .context import JobCheck


def _source(c: JobCheck, span: Span) -> Source | None:
    source = c.whole.run.sources.get(span.file)
    return source if source is not None and source.path is not None else None


def _uses_of(c: JobCheck, place: Span) -> int:
    """How many different words and variables of the run take their text from this place."""
    users: set[Span] = set()
    for job in c.whole.run.jobs:
        for token in (*job.argv, *(entry.token for entry in job.env.values())):
            if token.definition == place or any(origin.span == place for origin in token.chain):
                users.add(token.span)
    return len(users)


def _is_yaml(token: Token) -> bool:
    return bool(token.chain) and token.chain[0].kind == "yaml"


def _edited(description: str, safety: Safety, make: Callable[[], Sequence[Edit]]) -> Fix:
    """The fix, manual where its edits cannot be written safely at their place."""
    try:
        return Fix(description, safety, tuple(make()))
    except edits.NotEditable:
        return Fix(description)


def _replace(c: JobCheck, token: Token, text: str, description: str, safety: Safety) -> Fix:
    """Write `text` where the token's text is defined."""
    place = token.definition
    source = _source(c, place)
    if source is None or not token.known or _uses_of(c, place) > 1:
        return Fix(description)
    written = source.text(place)
    if written.strip("'\"") != token.text:  # the definition holds more than this word (a concatenation, a split list)
        return Fix(description)
    if _is_yaml(token):
        return _edited(description, safety, lambda: [Edit(place, edits.yaml_value(source, place, text))])
    return _edited(description, safety, lambda: [Edit(place, edits.quote_for(source.data, place, text))])


def set_flag(c: JobCheck, name: str, value: str, description: str, safety: Safety) -> Fix:
    """See `JobCheck.set_flag`."""
    use = c.v.use(name)
    if use is not None:
        if len(use.values) != 1 or use.maybe:
            return Fix(description)
        return _replace(c, use.values[0], value, description, safety)
    if not c.job.argv:
        return Fix(description)
    last = c.job.argv[-1]
    source = _source(c, last.span)
    if source is None or c.job.loop:
        return Fix(description)
    if _is_yaml(last):
        return _edited(description, safety, lambda: [edits.insert_yaml_key(source, last.span, name, value)])
    if last.chain or last.split > 1:  # the words end inside an array or a variable
        return Fix(description)
    return _edited(description, safety, lambda: [edits.insert_flag(source, last.span, f"--{name} {edits.shell_word(value)}")])


def drop_flag(c: JobCheck, name: str, description: str, safety: Safety) -> Fix:
    """See `JobCheck.drop_flag`."""
    uses = c.v.intended.by_name.get(name, ())
    if len(uses) != 1:
        return Fix(description)
    return drop_words(c, uses[0].token, uses[0].values, description, safety)


def drop_words(c: JobCheck, flag: Token, values: Sequence[Token], description: str, safety: Safety) -> Fix:
    """See `JobCheck.drop_words`."""
    source = _source(c, flag.span)
    if source is None or not flag.known or flag.split > 1:
        return Fix(description)
    if _is_yaml(flag):
        return _edited(description, safety, lambda: [edits.delete_yaml_key(source, flag.span)])
    if flag.chain or any(value.split > 1 for value in values):
        return Fix(description)
    return _edited(description, safety, lambda: edits.delete_flag(source, flag.span, [value.span for value in values]))


def rename_flag(c: JobCheck, token: Token, new: str, safety: Safety) -> Fix:
    """See `JobCheck.rename_flag`."""
    description = f"--{new}"
    if _is_yaml(token):
        source = _source(c, token.span)
        if source is None:
            return Fix(description)
        return _edited(description, safety, lambda: [Edit(token.span, edits.yaml_key(source, token.span, new))])
    head, equals, tail = token.text.partition("=")
    del head
    return _replace(c, token, f"--{new}{equals}{tail}", description, safety)


def set_env(c: JobCheck, name: str, value: str, description: str, safety: Safety) -> Fix:
    """See `JobCheck.set_env`."""
    entry = c.job.env.get(name)
    if entry is not None:
        return _replace(c, entry.token, value, description, safety)
    source = _source(c, c.job.span)
    if source is None or (c.job.config is not None and not c.job.words):
        return Fix(description)
    if c.job.words and c.job.words[0].span.file != c.job.span.file:
        return Fix(description)
    start = Span(c.job.span.file, c.job.span.start, c.job.span.start)
    return _edited(description, safety, lambda: [Edit(start, f"{name}={edits.shell_word(value)} ")])
