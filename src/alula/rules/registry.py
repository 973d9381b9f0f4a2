"""What a rule is, and the list of all of them.

A rule is a generator function over a `JobCheck` (scope `job`), a `RunCheck` (scope `run`) or a `PluginCheck` (scope `plugin`), with metadata from
`@rule`. Its docstring is its page (see `page.py` for the sections). The families are listed here in full; there is no discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from alula.run.record import record

if TYPE_CHECKING:
    from alula.run.finding import Confidence, Consequence, Finding, Severity

Scope = Literal["job", "run", "plugin"]


@record
class Family:
    """One module of rules.

    Attributes:
        codes: the letters its codes begin with.
        routes: beginnings of the routes it has rules for; `plugin` for plugin files; empty for all. Only what a run needs is imported.
    """

    module: str
    codes: str
    routes: tuple[str, ...] = ()


_RL = ("swift rlhf", "megatron rlhf")
_BASE = ("swift rlhf", "swift sft", "swift pt", "megatron")

FAMILIES = (
    Family("shell", "SHL", ("(pages of the reader's own findings)",)),
    Family("config", "CFG"),
    Family("flags", "FLG"),
    Family("env", "ENV"),
    Family("proxy", "ENV", _RL),
    Family("launch", "LCH"),
    Family("launchers", "LCH"),
    Family("nodes", "LCH"),
    Family("training", "TRN"),
    Family("training_names", "TRN"),
    Family("training_numbers", "TRN", _BASE),
    Family("training_data", "TRN", (*_BASE, "swift sample")),
    Family("training_schedule", "TRN", _BASE),
    Family("training_parallel", "TRN", _BASE),
    Family("training_tuner", "TRN"),
    Family("algorithms", "ALG", _RL),
    Family("grpo", "ALG", _RL),
    Family("opd", "ALG", _RL),
    Family("ignored", "ALG", _RL),
    Family("batch", "BAT", _RL),
    Family("batch_megatron", "BAT", ("megatron",)),
    Family("rollout", "ROL", (*_RL, "swift rollout")),
    Family("rollout_flags", "ROL", (*_RL, "swift rollout")),
    Family("rollout_server", "ROL", (*_RL, "swift rollout", "swift infer", "swift deploy")),
    Family("pairs", "PRS", (*_RL, "swift rollout", "swift deploy")),
    Family("pairs_match", "PRS", (*_RL, "swift rollout", "swift deploy")),
    Family("pairs_servers", "PRS", (*_RL, "swift rollout", "swift deploy")),
    Family("rewards", "RWD", (*_RL, "swift sample", "swift rollout")),
    Family("rewarddata", "RWD", _RL),
    Family("plugins", "PLG", ("plugin",)),
    Family("rewardcode", "PLG", ("plugin",)),
    Family("plugin_calls", "PLG", ("plugin",)),
    Family("schedulers", "PLG", ("plugin",)),
    Family("environments", "PLG", ("plugin",)),
    Family("multiturn", "MTS", (*_RL, "swift rollout")),
    Family("teacher", "TEA", _RL),
    Family("teacher_fit", "TEA", _RL),
    Family("dataset", "DAT"),
    Family("rowsfit", "DAT"),
    Family("rowsmedia", "DAT"),
    Family("sample", "SMP", ("swift sample",)),
    Family("samplescore", "SMP", ("swift sample",)),
    Family("parallel", "PAR", ("megatron",)),
    Family("pipeline", "PAR", ("megatron",)),
    Family("megatron", "MEG", ("megatron",)),
    Family("megatron_training", "MEG", ("megatron",)),
    Family("megatron_optimizer", "MEG", ("megatron",)),
    Family("megatron_moe", "MEG", ("megatron",)),
    Family("megatron_recompute", "MEG", ("megatron",)),
    Family("megatron_rlhf", "MEG", ("megatron",)),
    Family("ray", "RAY", ("megatron rlhf", "swift sft")),
    Family("ray_layout", "RAY", ("megatron rlhf",)),
    Family("ray_keys", "RAY", ("megatron rlhf",)),
    Family("ray_groups", "RAY", ("swift",)),
    Family("export", "EXP", ("swift export", "swift merge-lora", "swift infer", "swift deploy", "swift eval", "swift app", "swift rollout")),
    Family("conversion", "EXP", ("megatron", "swift export")),
    Family("memory", "MEM", ("swift rlhf", "swift sft", "swift pt", "swift rollout", "megatron rlhf")),
    Family("versions", "VER"),
    Family("secrets", "SEC"),
    Family("suppress", "ALU", ("(comments are weighed when all rules have spoken)",)),
)

TRAIN = ("swift rlhf", "swift sft", "swift pt")
MEGATRON = ("megatron rlhf", "megatron sft", "megatron pt")
RLHF = ("swift rlhf", "megatron rlhf")


@record
class Rule:
    """One rule.

    Attributes:
        code: `BAT001`; never used again for another meaning.
        routes: routes it looks at; empty for all.
        since, until: first and last ms-swift version (inclusive, `major.minor`) that behaves so.
        check: the function; None for a finding that a reader makes (`SHL…`).
        module: where it is registered.
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
    module: str = ""

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
        add(Rule(code, slug, severity, confidence, consequence, scope, routes, since, until, check.__doc__ or "", check, check.__module__))
        return check

    return register


def add(new: Rule) -> None:
    """Register a rule; readers use this for the findings they make themselves."""
    if new.code in _rules and _rules[new.code].slug != new.slug:
        raise ValueError(f"{new.code} is taken by {_rules[new.code].slug}")
    _rules[new.code] = new


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code."""
    return _load(FAMILIES)


def rules_for(routes: Iterable[str]) -> tuple[Rule, ...]:
    """The rules that can have something to say about runs of these routes (`plugin` for plugin files), by code."""
    wanted = tuple(routes)
    return _load(family for family in FAMILIES if not family.routes or any(route.startswith(family.routes) for route in wanted))


def find(code: str) -> Rule | None:
    """By code or slug, any case."""
    letters = code[:3].upper()
    near = [family for family in FAMILIES if family.codes == letters] or FAMILIES
    wanted = code.lower()
    return next((known for known in _load(near) if wanted in (known.code.lower(), known.slug)), None)


def _load(families: Iterable[Family]) -> tuple[Rule, ...]:
    modules = {f"{__package__}.{family.module}" for family in families}
    for name in sorted(modules):
        import_module(name)
    return tuple(_rules[code] for code in sorted(_rules) if _rules[code].module in modules)
