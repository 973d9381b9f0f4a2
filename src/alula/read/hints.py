"""How a plugin or a file of rows is used, from its comments: `# launched with: --reward_funcs x --deepspeed zero3`, or a whole command.

A comment is no complete command, so that the Job made of it never counts a flag as absent.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from alula.run.job import EnvEntry, Job, Launch
from alula.run.source import Source, Span, Token

from .launcher import find_start

MAX_LINES = 2000
_COMMAND = re.compile(r"(?:^|[\s;:,`(])((?:[A-Z][A-Z0-9_]*=\S*\s+)*(?:swift|megatron)\s+(?:rlhf|sft|pt|rollout|sample)\s+[^\s-]*\s*--?.*)")
_FLAGS = re.compile(r"(?:^|\s)(--[a-z][a-z0-9_-]+(?:\s.*)?)$")
_TELLING = frozenset(
    ("reward_funcs", "reward_model", "reward_model_plugin", "multi_turn_scheduler", "gym_env", "use_gym_env", "rlhf_type", "orm_model", "prm_model", "external_plugins")
)
_REST = "$(the rest of the command)"


def context_job(source: Source) -> Job | None:
    """The first command, or flags of ms-swift, that a file's comments name; None where there are none."""
    flags: Job | None = None
    for text, span in _comments(source):
        whole = _COMMAND.search(text)
        if whole is not None:
            job = _job(source, whole[1], span)
            if job is not None:
                return job
        rest = _FLAGS.search(text)
        if rest is not None and flags is None:
            flags = _from_flags(source, rest[1], span)
    return flags


def _comments(source: Source) -> Iterator[tuple[str, Span]]:
    """Each comment with the place of its first line; lines that end with a backslash go on in the next comment line."""
    held, place = "", None
    at = 0
    for line in source.data.split(b"\n")[:MAX_LINES]:
        text = line.decode("utf-8", "replace").strip()
        span = Span(source.name, at, at + len(line.rstrip()))
        at += len(line) + 1
        mark = next((mark for mark in ("#", "//") if text.startswith(mark)), None)
        if mark is None:
            if held and place is not None:
                yield held, place
            held, place = "", None
            continue
        part = text[len(mark) :].strip()
        held, place = f"{held} {part}" if held else part, place or span
        if held.endswith("\\"):
            held = held[:-1].rstrip()
            continue
        yield held, place
        held, place = "", None
    if held and place is not None:
        yield held, place


def _words(text: str, span: Span) -> list[Token]:
    try:
        words = shlex.split(text.strip("`"))
    except ValueError:
        words = text.split()
    return [Token(word, span) for word in words if word not in ("...", "…", "[...]")]


def _job(source: Source, text: str, span: Span) -> Job | None:
    words = _words(text, span)
    env: dict[str, EnvEntry] = {}
    while words and "=" in words[0].text and words[0].text.partition("=")[0].isidentifier():
        name, _, value = words.pop(0).text.partition("=")
        env[name] = EnvEntry(name, Token(value, span), "prefix")
    start = find_start(words, env)
    if start is None:
        return None
    return _made(source, start.route, list(start.argv), span, env, start.launch)


def _from_flags(source: Source, text: str, span: Span) -> Job | None:
    words = _words(text, span)
    named = {word.text.lstrip("-").partition("=")[0] for word in words if word.text.startswith("--")}
    if not named & _TELLING:
        return None
    if named & {"orm_model", "prm_model"}:
        route = "swift sample"
    elif "multi_turn_scheduler" in named and not named & {"rlhf_type", "reward_funcs", "use_vllm", "vllm_mode", "deepspeed"}:
        route = "swift rollout"
    else:
        route = "swift rlhf"
    if "reward_funcs" in named and "rlhf_type" not in named:
        words += [Token("--rlhf_type", span), Token("grpo", span)]
    return _made(source, route, words, span, {}, Launch("cli"))


def _made(source: Source, route: str, words: list[Token], span: Span, env: dict[str, EnvEntry], launch: Launch) -> Job:
    argv = (Token(_REST, span, unresolved=(_REST,)), *words)
    return Job(source.name, route, argv, env, (launch,), span, argv, commented=True)
