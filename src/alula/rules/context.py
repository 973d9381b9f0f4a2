"""What a rule sees, and how it makes a Finding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from alula.run.finding import Edit, Finding, Fix, Safety
from alula.run.source import Span, Token
from alula.swift.launch import env_text
from alula.swift.parse import UNKNOWN

if TYPE_CHECKING:
    from alula.facts.swift import SwiftFacts
    from alula.run.job import EnvEntry, Job, Run
    from alula.run.model import ModelShape
    from alula.swift.effective import View

    from .registry import Rule

Place = Token | Span | str | None


@dataclass
class RunCheck:
    """A whole run under one version of ms-swift.

    Attributes:
        views: one per job, in order.
        dataset: `--dataset FILE` rows given beside the run, or None.
    """

    run: Run
    facts: SwiftFacts
    views: tuple[View, ...]
    rule: Rule | None = None
    dataset_file: str | None = None
    model: ModelShape | None = None
    cwd: str = "."
    _cache: dict[str, Any] = field(default_factory=dict)

    def job(self, view: View) -> JobCheck:
        return JobCheck(view, self, self.rule)

    def of_route(self, *routes: str) -> list[View]:
        return [view for view in self.views if view.route in routes]

    @cached_property
    def servers(self) -> list[View]:
        return self.of_route("swift rollout")

    def once(self, key: str, make: Any) -> Any:
        """A value that several rules share (dataset sample, plugin syntax), made once a run."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]


@dataclass
class JobCheck:
    """One job of a run, as a rule of scope `job` sees it. `v` is the View."""

    v: View
    whole: RunCheck
    rule: Rule | None = None

    @property
    def job(self) -> Job:
        return self.v.job

    @property
    def facts(self) -> SwiftFacts:
        return self.v.facts

    def env(self, name: str) -> str | None:
        """The exact text of an environment variable, None where it is absent or not known."""
        return env_text(self.job.env, name)

    def env_entry(self, name: str) -> EnvEntry | None:
        return self.job.env.get(name)

    @cached_property
    def shape(self) -> ModelShape | None:
        """The model's architecture, when `--model` names a known or local one; None otherwise."""
        return self.model_shape(self.v.get("model"))

    def model_shape(self, model: Any) -> ModelShape | None:
        if not isinstance(model, str) or model is UNKNOWN:
            return self.whole.model
        from alula.read.model import shape_of

        shape: ModelShape | None = self.whole.once(f"shape:{model}", lambda: shape_of(model, self.whole.cwd))
        return shape or self.whole.model

    def span(self, at: Place) -> Span:
        """A flag's or variable's place, else the command's."""
        if isinstance(at, Token):
            return at.span
        if isinstance(at, Span):
            return at
        if at is not None:
            token = self.v.token(at)
            if token is not None:
                return token.span
            entry = self.job.env.get(at)
            if entry is not None:
                return entry.token.span
        return self.job.words[0].span if self.job.words and self.job.span is None else self._head()

    def _head(self) -> Span:
        """The command's first bytes: a finding about something absent points here, not at forty lines."""
        span = self.job.span
        source = self.whole.run.sources.get(span.file)
        if source is None:
            return span
        end = source.data.find(b"\n", span.start, span.end)
        return Span(span.file, span.start, span.end if end == -1 else end)

    def finding(
        self,
        template: str,
        at: Place = None,
        *,
        flags: Sequence[str] = (),
        related: Iterable[tuple[Place, str]] = (),
        fix: Fix | str | None = None,
        **params: Any,
    ) -> Finding:
        """A finding of the running rule.

        Args:
            template: the message with `{name}` fields: what was found, what must hold with the numbers in it, what to write instead.
            at: where: a flag's or variable's name, a token or a span; the command's head when None or not written.
            flags: canonical names it is about; `at` is put in front when it is a name.
            related: further places with a label.
            fix: a Fix, or one line of advice.
        """
        assert self.rule is not None
        names = tuple(dict.fromkeys([*([at] if isinstance(at, str) else []), *flags]))
        advice = Fix(fix) if isinstance(fix, str) else fix
        places = tuple((self.span(place), label) for place, label in related if not isinstance(place, str) or self._placed(place))
        meta = self.rule
        return Finding(
            meta.code, meta.slug, meta.severity, meta.confidence, meta.consequence, template, params, self.v.index, names, self.span(at), places, advice
        )  # fmt: skip

    def _placed(self, name: str) -> bool:
        return self.v.token(name) is not None or name in self.job.env

    # --- fixes ---

    def set_flag(self, name: str, value: str, description: str | None = None, safety: Safety = "unsafe") -> Fix:
        """Change a flag's value where it is defined, or add the flag. Manual where another use shares the definition."""
        from .fixes import set_flag

        return set_flag(self, name, value, description or f"--{name} {value}", safety)

    def drop_flag(self, name: str, description: str | None = None, safety: Safety = "unsafe") -> Fix:
        """Take a flag and its values out of the command."""
        from .fixes import drop_flag

        return drop_flag(self, name, description or f"remove --{name}", safety)

    def drop_words(self, flag: Token, values: Sequence[Token], description: str | None = None, safety: Safety = "unsafe") -> Fix:
        """Take an unknown flag and the words after it out of the command."""
        from .fixes import drop_words

        return drop_words(self, flag, values, description or f"remove {flag.text}", safety)

    def rename_flag(self, token: Token, new: str, safety: Safety = "safe") -> Fix:
        """Write another flag name at this `--flag` word."""
        from .fixes import rename_flag

        return rename_flag(self, token, new, safety)

    def set_env(self, name: str, value: str, description: str | None = None, safety: Safety = "unsafe") -> Fix:
        """Change a variable where it is defined, or put it in front of the command."""
        from .fixes import set_env

        return set_env(self, name, value, description or f"{name}={value}", safety)

    def edit(self, description: str, edits: Sequence[tuple[Span, str]], safety: Safety = "unsafe") -> Fix:
        return Fix(description, safety, tuple(Edit(span, text) for span, text in edits))


def names(values: Iterable[Any], most: int = 12) -> str:
    """A list for a message: at most `most` items, then how many more."""
    items = [str(value) for value in values]
    return ", ".join(items) if len(items) <= most else f"{', '.join(items[:most])} and {len(items) - most} more"


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(values)
