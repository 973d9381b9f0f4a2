"""A plugin file as a rule sees it, with the jobs that load it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from alula.run.finding import Finding, Fix
from alula.swift.parse import UNKNOWN

from .beside import loose_plugins, plugins_of

if TYPE_CHECKING:
    from alula.run.plugin import Function, Plugin, PluginClass, Registration
    from alula.run.source import Span, Token
    from alula.swift.effective import View

    from .context import RunCheck
    from .registry import Rule

REWARD_BASES = ("ORM", "AsyncORM")
SCHEDULER_BASES = ("MultiTurnScheduler", "RolloutScheduler", "GYMScheduler", "OpenEnvScheduler", "MathTipsScheduler", "ThinkingModelTipsScheduler")
ENV_BASES = ("Env",)
# The flag that chooses from a registry, and the routes on which it is read.
_CHOSEN_BY = {
    "orms": ("reward_funcs", "swift rlhf", "megatron rlhf"),
    "rm_plugins": ("reward_model_plugin", "swift rlhf"),
    "multi_turns": ("multi_turn_scheduler", "swift rlhf", "megatron rlhf", "swift rollout"),
}


@dataclass
class PluginCheck:
    """One plugin of a run.

    Attributes:
        views: the jobs that load it; none when it was given to `check` alone.
    """

    whole: RunCheck
    rule: Rule
    plugin: Plugin
    views: tuple[View, ...]

    @property
    def version(self) -> str:
        return self.whole.facts.version

    def finding(self, template: str, at: Span, *, flags: Sequence[str] = (), fix: Fix | str | None = None, **params: Any) -> Finding:
        meta = self.rule
        advice = Fix(fix) if isinstance(fix, str) else fix
        job = self.views[0].index if len(self.views) == 1 else None
        return Finding(meta.code, meta.slug, meta.severity, meta.confidence, meta.consequence, template, params, job, tuple(flags), at, (), advice)

    def chosen(self, registry: str) -> frozenset[str] | None:
        """The names of a registry that the jobs use; None where any may be: no job is known, or a name is not."""
        flag, *routes = _CHOSEN_BY[registry]
        names: set[str] = set()
        relevant = [view for view in self.views if view.route in routes]
        for view in relevant:
            value = view.get(flag)
            if value is UNKNOWN:
                return None
            names.update(value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ())
        return frozenset(names) if self.views else None

    def registered(self, registry: str, *bases: str) -> Iterator[tuple[Registration | None, PluginClass]]:
        """Classes of a registry that are in use; in a file that registers nothing there, those that descend from `bases`."""
        chosen = self.chosen(registry)
        own = [r for r in self.plugin.registrations if r.registry == registry]
        for name in dict.fromkeys(r.name for r in own):
            found = self.plugin.find(registry, name)
            if found is not None and found.kind == "class" and (chosen is None or name in chosen):
                cls = self.plugin.classes.get(found.target)
                if cls is not None:
                    yield found, cls
        if not own and not self.plugin.open and chosen is None:
            parents = {base for cls in self.plugin.classes.values() for base in cls.bases}
            for cls in self.plugin.classes.values():
                if cls.name not in parents and self.plugin.descends(cls, *bases):
                    yield None, cls

    @cached_property
    def rewards(self) -> tuple[tuple[Registration | None, PluginClass], ...]:
        """Reward classes that GRPO jobs use."""
        return tuple(self.registered("orms", *REWARD_BASES))

    @cached_property
    def schedulers(self) -> tuple[tuple[Registration | None, PluginClass], ...]:
        return tuple(self.registered("multi_turns", *SCHEDULER_BASES))

    @cached_property
    def environments(self) -> tuple[PluginClass, ...]:
        """Environments, which rows of data may name too: all that are registered, where a job has a gym at all."""
        if self.views and not any(self._may_have_gym(view) for view in self.views):
            return ()
        own = [r for r in self.plugin.registrations if r.registry == "envs" and r.kind == "class"]
        found = [self.plugin.classes[r.target] for r in own if r.target in self.plugin.classes]
        if not own and not self.plugin.open:
            found = [cls for cls in self.plugin.classes.values() if self.plugin.descends(cls, *ENV_BASES)]
        return tuple({cls.name: cls for cls in found}.values())

    def is_chosen_environment(self, cls: PluginClass) -> bool:
        """A job names it with `--gym_env`."""
        names = {r.name for r in self.plugin.registrations if r.registry == "envs" and r.target == cls.name}
        return any(view.get("gym_env") in names for view in self.views)

    def _may_have_gym(self, view: View) -> bool:
        scheduler = view.get("multi_turn_scheduler")
        return any(view.get(flag) for flag in ("gym_env", "use_gym_env")) or (scheduler is UNKNOWN) or isinstance(scheduler, str)

    def name_of(self, registration: Registration | None, cls: PluginClass) -> str:
        """How a message calls a class: `best_of` (BestOf)."""
        return f"`{registration.name}` ({cls.name})" if registration is not None else cls.name

    def reached(self, cls: PluginClass, *methods: str) -> Iterator[Function]:
        """What runs when these methods are called, as far as it is in the file; each function once."""
        seen: set[int] = set()
        for name in methods:
            method = self.plugin.method(cls, name)
            for function in self.plugin.reached(cls, method) if method is not None else ():
                if id(function) not in seen:
                    seen.add(id(function))
                    yield function

    def token(self, flag: str) -> Token | None:
        return next((token for view in self.views if (token := view.token(flag)) is not None), None)


def plugin_checks(whole: RunCheck) -> Iterator[PluginCheck]:
    """Every plugin that was found, with the jobs that load it."""
    assert whole.rule is not None
    users: dict[str, tuple[Plugin, list[View]]] = {}
    for view in whole.views:
        for plugin in plugins_of(whole, view).plugins:
            users.setdefault(plugin.file, (plugin, []))[1].append(view)
    for name, plugin in loose_plugins(whole).items():
        users.setdefault(name, (plugin, list(whole.views)))
    for plugin, views in users.values():
        yield PluginCheck(whole, whole.rule, plugin, tuple(views))
