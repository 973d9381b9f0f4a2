"""Runs as YAML: the config of one job, and mappings for Ray and Kubernetes files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .yaml_edits import yaml_scalar

if TYPE_CHECKING:
    from alula.run.job import Job
    from alula.run.source import Token


def grouped(argv: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """Words -> (flag, its values) in order. Raises ValueError for a word before the first flag."""
    out: list[tuple[str, list[Token]]] = []
    for token in argv:
        if token.text.startswith("--") and len(token.text) > 2:
            out.append((token.text[2:], []))
        elif not out:
            raise ValueError(f"`{token.text}` belongs to no flag")
        else:
            out[-1][1].append(token)
    return out


def config(job: Job, comments: Sequence[str] = ()) -> str:
    """A job -> the config file that ms-swift (≥ 4.1) takes as first word: an ENV block and its flags.

    Raises:
        ValueError: a value is not known, which a config cannot say.
    """
    unknown = next((token for token in job.argv if token.unresolved), None)
    if unknown is not None:
        raise ValueError(f"{unknown.text} is not known: a config needs the value itself")
    lines = [f"# {comment}" for comment in comments]
    env = {name: entry.token.text for name, entry in job.env.items() if not entry.token.unresolved}
    if env:
        lines.append("ENV:")
        lines += [f"  {name}: {_text(value)}" for name, value in env.items()]
    for name, values in grouped(job.argv):
        lines += _flag(name, values)
    return "\n".join(lines) + "\n"


def _flag(name: str, values: Sequence[Token]) -> list[str]:
    if not values:
        return [f"{name}: true"]
    if len(values) == 1:
        return [f"{name}: {yaml_scalar(values[0].text)}"]
    return [f"{name}:", *(f"  - {yaml_scalar(value.text)}" for value in values)]


def _text(value: str) -> str:
    """An environment value; always text, since YAML would turn 08 into a number and yes into a truth."""
    return (
        json.dumps(value, ensure_ascii=False) if not value or value.isdigit() or value.lower() in ("true", "false") else yaml_scalar(value)
    )


def mapping_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """A flat mapping of flags -> YAML lines; lists become block lists, booleans and numbers stay plain."""
    pad = " " * indent
    lines: list[str] = []
    for name, value in values.items():
        if isinstance(value, (list, tuple)):
            lines.append(f"{pad}{name}:")
            lines += [f"{pad}  - {_scalar(item)}" for item in value]
        else:
            lines.append(f"{pad}{name}: {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"'{json.dumps(value)}'"
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa}e{int(power)}" if exponent else repr(value)
    return yaml_scalar(str(value))
