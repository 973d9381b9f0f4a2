"""The View: what a version of ms-swift makes of one Job.

`view()` parses the job's words with that version's flags, places its processes, and follows the dataclasses' `__post_init__` to the values that the
real argument object holds. A value is UNKNOWN where it rests on text that cannot be known; rules stay silent about it.

Sources (ms-swift 4.6): `arguments/{rlhf_args,sft_args,deploy_args}.py`, `arguments/base_args/*.py`, `rlhf_trainers/args_mixin.py`,
`megatron/arguments/megatron_args.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from alula.facts.swift import Flag as FlagFact
from alula.facts.swift import SwiftFacts, rename
from alula.run.job import Cluster, Job

from .arithmetic import Generation, data_parallel, default_accumulation, generation
from .derive import VLLM_TYPES, derive
from .launch import Placement, place
from .parse import UNKNOWN, Parsed, Use, Vocabulary, parse
from .values import Effective

if TYPE_CHECKING:
    from alula.run.source import Token

__all__ = ["UNKNOWN", "VLLM_TYPES", "Effective", "View", "view", "vocabulary"]

_NO_FLAGS: Mapping[str, FlagFact] = {}


@dataclass(frozen=True)
class View:
    """A Job as one version of ms-swift reads it.

    Attributes:
        index: the job's index in its run.
        parsed: what the parser makes of the words as they stand.
        intended: the same with renamed flags read under their new names, so that one old name does not hide, or cause, other findings.
            `use`, `get`, `written` and `absent` go by this; where nothing is renamed it is `parsed`.
        open_ended: a word that cannot be known may stand for further flags, so that no flag is surely absent.
        values: every flag of the route, by canonical name, as ms-swift holds it for `parsed`.
        meant: the same for `intended`.
    """

    job: Job
    index: int
    facts: SwiftFacts
    cluster: Cluster
    flags: Mapping[str, FlagFact]
    parsed: Parsed
    intended: Parsed
    place: Placement
    open_ended: bool
    values: Mapping[str, Effective] = field(default_factory=dict)
    meant: Mapping[str, Effective] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """The effective value; `default` where this route has no such flag."""
        effective = self.meant.get(name)
        return default if effective is None else effective.value

    def use(self, name: str) -> Use | None:
        """The occurrence that counts (the last), or None."""
        return self.intended.last(name)

    def written(self, name: str) -> bool:
        """True when the flag stands on the command line for sure."""
        use = self.intended.last(name)
        return use is not None and not use.maybe

    def absent(self, name: str) -> bool:
        """True when the flag is surely not given."""
        return name in self.flags and name not in self.intended.by_name and not self.open_ended

    def known(self, *names: str) -> bool:
        return all(self.get(name) is not UNKNOWN for name in names)

    def token(self, name: str) -> Token | None:
        """Where to point for this flag: its value, else the flag itself."""
        use = self.intended.last(name)
        if use is None:
            return None
        return use.values[0] if use.values else use.token

    @property
    def route(self) -> str:
        return self.job.route

    @property
    def megatron(self) -> bool:
        return self.job.route.startswith("megatron ")

    @property
    def rlhf_type(self) -> Any:
        """The algorithm as written (simpo stays simpo), None off the rlhf routes."""
        if not self.job.route.endswith(" rlhf"):
            return None
        use = self.intended.last("rlhf_type")
        if use is None:
            return self.meant["rlhf_type"].value if "rlhf_type" in self.meant else None
        return UNKNOWN if use.maybe else use.value

    @cached_property
    def generation(self) -> Generation | None:
        """Sizes of one rollout for GRPO and GKD, or None where they do not apply or cannot be known."""
        return _generation(self)

    @cached_property
    def accumulation(self) -> Any:
        """gradient_accumulation_steps as the trainer will use it (HF), or UNKNOWN."""
        given = self.get("gradient_accumulation_steps")
        if given is not None or self.megatron:
            return given
        per_device, world = self.get("per_device_train_batch_size"), self.place.world_size
        if not isinstance(per_device, int) or world is None or per_device <= 0 or world <= 0:
            return UNKNOWN
        return default_accumulation(per_device, world)

    @cached_property
    def data_parallel(self) -> int | None:
        """Replicas of the model, or None where they cannot be known. HF: every process; Megatron: world / (TP·PP·CP)."""
        if self.place.world_size is None:
            return None
        if not self.megatron:
            return self.place.world_size
        sizes = [self.get(f"{axis}_parallel_size") for axis in ("tensor_model", "pipeline_model", "context")]
        if not all(isinstance(size, int) and size > 0 for size in sizes):
            return None
        return data_parallel(self.place.world_size, *sizes)


def view(job: Job, index: int, facts: SwiftFacts, cluster: Cluster | None = None) -> View:
    """Job -> View under `facts`. `cluster` is what the user said about the machines."""
    cluster = cluster or Cluster()
    route = facts.routes.get(job.route)
    flags = facts.flags(job.route) if route is not None else _NO_FLAGS
    known = vocabulary(facts, job.route, flags)
    parsed = parse(job.argv, flags, known)
    mended = _mended(job, parsed, facts, flags)
    intended = parsed if mended is None else parse(mended, flags, known)
    placement = place(job, cluster, route is not None and route.torchrun)
    open_ended = any(_may_hold_flags(token) for token in job.argv)
    bare = View(job, index, facts, cluster, flags, parsed, intended, placement, open_ended)
    values = derive(bare, parsed)
    meant = values if intended is parsed else derive(bare, intended)
    return View(job, index, facts, cluster, flags, parsed, intended, placement, open_ended, values, meant)


def _mended(job: Job, parsed: Parsed, facts: SwiftFacts, flags: Mapping[str, FlagFact]) -> list[Token] | None:
    """The words with renamed flags under their new names, or None when there are none."""
    suspects = {id(token) for token in parsed.extras} | {id(error.token) for error in parsed.errors if error.kind == "ambiguous"}
    if not suspects:
        return None
    out: list[Token] = []
    changed = False
    for token in job.argv:
        head, equals, tail = token.text.partition("=")
        new = rename(head[2:], job.route, facts.version) if id(token) in suspects and head.startswith("--") else None
        if new is not None and new.new in flags and new.same_value:
            out.append(token.with_text(f"--{new.new}{equals}{tail}"))
            changed = True
        else:
            out.append(token)
    return out if changed else None


_vocabularies: dict[tuple[str, str], Vocabulary] = {}


def vocabulary(facts: SwiftFacts, route: str, flags: Mapping[str, FlagFact]) -> Vocabulary:
    """The option strings of a route; built once a process, since a route has about 500."""
    key = (facts.version, route)
    if key not in _vocabularies:
        _vocabularies[key] = Vocabulary.of(flags)
    return _vocabularies[key]


def _may_hold_flags(token: Token) -> bool:
    """A word that is nothing but an unknown expression, such as `$EXTRA` or `$(make_args)`, may stand for any flags."""
    if not token.unresolved:
        return False
    return token.text in token.unresolved and not token.text.startswith("--")


# --- arithmetic over a finished view ---


def _generation(view: View) -> Generation | None:
    kind = view.rlhf_type
    if kind not in VLLM_TYPES:
        return None
    given, steps = view.get("generation_batch_size"), view.get("steps_per_generation")
    if given is UNKNOWN or steps is UNKNOWN:
        return None
    if view.megatron:
        size = view.get("global_batch_size")
        use_given, use_steps = view.use("generation_batch_size"), view.use("steps_per_generation")
        written = (use_given.value if use_given else None, use_steps.value if use_steps else None)
        return generation(size, 1, *written) if isinstance(size, int) and size > 0 else None
    per_device, world = view.get("per_device_train_batch_size"), view.place.world_size
    if not isinstance(per_device, int) or world is None:
        return None
    needs_accumulation = given is None and steps is None
    accumulation = view.accumulation if needs_accumulation else 1
    if accumulation is UNKNOWN or not isinstance(accumulation, int):
        return None
    return generation(per_device * world, accumulation, given, steps)
