"""Run, Job and what they are made of: one experiment as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from alula.run.record import record

if TYPE_CHECKING:
    from .finding import Finding
    from .source import Source, Span, Token

EnvHow = Literal["prefix", "export", "inherited", "block", "wrapper"]
LauncherName = Literal["cli", "torchrun", "python", "accelerate", "deepspeed", "ray"]


@record
class EnvEntry:
    """One environment variable that a command really gets.

    Attributes:
        how: `prefix` (`X=1 swift …`), `export`, `inherited` from alula's own environment, `block` (a YAML `ENV:` block),
            `wrapper` (`docker -e`, `env X=1`, Ray runtime env).
    """

    name: str
    token: Token
    how: EnvHow


@record
class Command:
    """One program that the script would start, before anyone asked what program it is.

    Attributes:
        words: the program and its arguments.
        env: what the script exported or prefixed, and the inherited variables that launchers read.
        shell_variables: variables set but not exported: the command does not get them.
        span: the whole command in the source.
        background: started with `&` or inside a background group.
        maybe: reached only when a condition holds that cannot be known here.
        commented: it stands commented out (a companion that the user starts elsewhere).
        loop: it stands in a loop body or a function called several times; this is one of the starts.
    """

    words: tuple[Token, ...]
    env: Mapping[str, EnvEntry]
    span: Span
    shell_variables: Mapping[str, Token] = field(default_factory=dict)
    background: bool = False
    maybe: bool = False
    commented: bool = False
    loop: bool = False


@record
class Launch:
    """How one node starts the job. Each token is None where nothing was written.

    `nproc` counts processes on this node. For the `cli` launcher the values come from NPROC_PER_NODE and its companions,
    for torchrun, accelerate and deepspeed from their own options.
    """

    launcher: LauncherName
    nproc: Token | None = None
    nnodes: Token | None = None
    node_rank: Token | None = None
    master_addr: Token | None = None
    master_port: Token | None = None


@record
class RayGroup:
    """One role group of a Ray YAML.

    Attributes:
        role: `train`, `rollout`, `teacher` (Megatron-Ray), or the group's own name (`device_groups`).
        argv: the shared keys and the group's overrides, flattened to tokens as ms-swift merges them.
        keys: the spans of the group's own keys.
    """

    role: str
    argv: tuple[Token, ...]
    keys: Mapping[str, Token] = field(default_factory=dict)
    span: Span | None = None


@record
class RaySpec:
    """What a Megatron-Ray YAML says beside the training arguments."""

    groups: Mapping[str, RayGroup]
    top: Mapping[str, Token]
    colocate_groups: tuple[tuple[str, ...], ...] = ()
    file: str = ""


@record
class Job:
    """One ms-swift command of a run.

    Attributes:
        route: `swift rlhf`, `megatron rlhf`, `swift rollout`, … as ms-swift's own routing names it; an unknown sub-command stays as
            written (`swift grpo`).
        argv: the arguments after the route, YAML files already flattened in place as ms-swift does.
        env: what the processes get.
        launches: one per node. Two per-node scripts of one job are one Job with two launches.
        config: the YAML or JSON file that was flattened into `argv`, if any.
        ray: set when the route is Megatron-Ray.
        host: a label; two jobs with the same label share GPUs. None where it is not known.
    """

    file: str
    route: str
    argv: tuple[Token, ...]
    env: Mapping[str, EnvEntry]
    launches: tuple[Launch, ...]
    span: Span
    words: tuple[Token, ...] = ()
    shell_variables: Mapping[str, Token] = field(default_factory=dict)
    config: str | None = None
    ray: RaySpec | None = None
    host: str | None = None
    background: bool = False
    maybe: bool = False
    commented: bool = False
    loop: bool = False

    @property
    def launch(self) -> Launch:
        return self.launches[0]


@record
class Cluster:
    """The machines a run is meant for. None means not said.

    Attributes:
        accelerator: a name of `facts/accelerators.toml`.
        gpus_per_node: accelerators on each node.
        nodes: number of nodes.
    """

    accelerator: str | None = None
    gpus_per_node: int | None = None
    nodes: int | None = None


@record
class Run:
    """What one experiment launches.

    Attributes:
        jobs: in the order the script starts them.
        sources: every text that was read, by name.
        findings: what the readers themselves found (shell faults, YAML errors).
        unresolved: expressions whose value is not known, with their place.
    """

    jobs: tuple[Job, ...]
    sources: Mapping[str, Source]
    cluster: Cluster = Cluster()
    findings: tuple[Finding, ...] = ()
    unresolved: tuple[Token, ...] = ()
