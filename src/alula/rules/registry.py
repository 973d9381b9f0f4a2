"""What a rule is, and the list of all of them.

A rule is a generator function over a `JobCheck` (scope `job`), a `RunCheck` (scope `run`) or a `PluginCheck` (scope `plugin`), with metadata from
`@rule`. Its docstring is its page (see `page.py` for the sections). The families are listed here in full; there is no discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from alula.run.finding import Confidence, Consequence, Finding, Severity

Scope = Literal["job", "run", "plugin"]

FAMILIES = (
    "shell", "flags", "env", "launch", "launchers", "nodes", "training", "training_data", "training_schedule", "training_parallel", "training_tuner", "algorithms", "grpo", "opd", "ignored", "batch",
    "batch_megatron", "rollout", "rollout_flags", "rollout_server", "pairs", "rewards", "plugins", "rewardcode", "plugin_calls", "schedulers", "environments", "multiturn", "teacher", "teacher_fit", "dataset",
    "sample", "parallel", "pipeline", "megatron", "megatron_optimizer", "megatron_moe", "megatron_recompute", "megatron_rlhf",
    "ray", "export", "memory", "versions", "secrets",
)  # fmt: skip

TRAIN = ("swift rlhf", "swift sft", "swift pt")
MEGATRON = ("megatron rlhf", "megatron sft", "megatron pt")
RLHF = ("swift rlhf", "megatron rlhf")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        code: `BAT001`; never used again for another meaning.
        routes: routes it looks at; empty for all.
        since, until: first and last ms-swift version (inclusive, `major.minor`) that behaves so.
        check: the function; None for a finding that a reader makes (`SHL…`).
    """

    code: str
    slug: str
    severity: Severity
    confidence: Confidence
    consequence: Consequence
    scope: Scope
    routes: tuple[str, ...]
    since: str | None
    until: str | None
    doc: str
    check: Callable[[Any], Iterator[Finding]] | None

    @property
    def summary(self) -> str:
        return self.doc.strip().splitlines()[0].strip() if self.doc.strip() else self.slug

    def applies_to(self, version: str) -> bool:
        """True when this version of ms-swift behaves as the rule says."""
        here = _minor(version)
        return (self.since is None or _minor(self.since) <= here) and (self.until is None or here <= _minor(self.until))


def _minor(version: str) -> tuple[int, int]:
    major, _, rest = version.partition(".")
    return int(major), int(rest.split(".")[0] or 0)


_rules: dict[str, Rule] = {}


def rule(
    code: str,
    slug: str,
    *,
    severity: Severity = "error",
    confidence: Confidence = "high",
    consequence: Consequence = "refused",
    scope: Scope = "job",
    routes: tuple[str, ...] = (),
    since: str | None = None,
    until: str | None = None,
) -> Callable[[Callable[[Any], Iterator[Finding]]], Callable[[Any], Iterator[Finding]]]:
    """Register a rule.

    Consequence: `refused` means that ms-swift's argument checks (parser or `__post_init__`) raise; what starts and fails later, or trains
    something else, is `wrong`; what never ends is `hangs`; what costs time, memory or results is `waste`.
    """

    def register(check: Callable[[Any], Iterator[Finding]]) -> Callable[[Any], Iterator[Finding]]:
        add(Rule(code, slug, severity, confidence, consequence, scope, routes, since, until, check.__doc__ or "", check))
        return check

    return register


def add(new: Rule) -> None:
    """Register a rule; readers use this for the findings they make themselves."""
    if new.code in _rules and _rules[new.code].slug != new.slug:
        raise ValueError(f"{new.code} is taken by {_rules[new.code].slug}")
    _rules[new.code] = new


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    for family in FAMILIES:
        import_module(f"alula.rules.{family}")
    return tuple(_rules[code] for code in sorted(_rules))


def find(code: str) -> Rule | None:
    """By code or slug, any case."""
    wanted = code.lower()
    return next((known for known in all_rules() if wanted in (known.code.lower(), known.slug)), None)
