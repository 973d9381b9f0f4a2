"""Every run that build must be able to write, for tests and for the real parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

from alula.run.job import Cluster

from .intent import RLHF_TYPES, Intent, Parallel, Reward, Sharding, Teacher
from .refused import MEGATRON_TYPES

MODEL, MOE = "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-30B-A3B-Instruct-2507"
_NODE = Cluster("H100", 8, 1)
_NODES = Cluster("H100", 8, 2)


def rows() -> Iterator[tuple[str, Intent]]:
    """(id, intent) of every cell; cells that ms-swift cannot run are among them (`refused.refusal` says so)."""
    yield from _sharding()
    yield from _sampled()
    yield from _teachers()
    yield from _servers_and_sampling()
    yield from _megatron()
    yield from _ray()


def _intent(route: str, kind: str | None = None, **given: Any) -> Intent:
    teacher = "Qwen/Qwen3-235B-A22B-Instruct-2507" if given.get("model") == MOE else "Qwen/Qwen2.5-14B-Instruct"
    base = Intent(route, kind, MODEL, ("data.jsonl",), _NODE, reward_model="models/reward", teacher_model=teacher)
    return replace(base, **given)


def _sharding() -> Iterator[tuple[str, Intent]]:
    for kind in RLHF_TYPES:
        for sharding in get_args(Sharding):
            for tuner in ("lora", "full"):
                yield f"rlhf-{kind}-{sharding}-{tuner}", _intent("rlhf", kind, sharding=sharding, tuner=tuner)
        yield f"rlhf-{kind}-two-nodes", _intent("rlhf", kind, sharding="zero3", cluster=_NODES)


def _sampled() -> Iterator[tuple[str, Intent]]:
    for kind in ("grpo", "gkd"):
        for placement in ("none", "colocate", "server", "async-server"):
            for reward in get_args(Reward):
                for cluster, where in ((_NODE, "node"), (_NODES, "nodes")):
                    given = {"placement": placement, "reward": reward, "sharding": "zero2", "cluster": cluster}
                    yield f"rlhf-{kind}-{placement}-{reward}-{where}", _intent("rlhf", kind, **given)
        yield f"rlhf-{kind}-server-full", _intent("rlhf", kind, placement="server", tuner="full", sharding="zero3")
        yield f"rlhf-{kind}-colocate-set", _intent("rlhf", kind, placement="colocate", settings={"num_generations": ("6",), "max_completion_length": ("4096",)})


def _teachers() -> Iterator[tuple[str, Intent]]:
    for teacher in get_args(Teacher):
        for placement in ("none", "colocate", "server"):
            yield f"rlhf-gkd-teacher-{teacher}-{placement}", _intent("rlhf", "gkd", teacher=teacher, placement=placement, sharding="zero2")


def _servers_and_sampling() -> Iterator[tuple[str, Intent]]:
    for reward in ("function", "multi-turn", "gym"):
        yield f"rollout-{reward}", _intent("rollout", reward=reward)
    for sampling in ("sample", "distill", "rft"):
        yield f"sample-{sampling}", _intent("sample", sampling=sampling)
    yield "sample-device-groups", _intent("sample", ray=True)
    yield "sft-device-groups", _intent("sft", ray=True)
    yield "sft-device-groups-two-nodes", _intent("sft", ray=True, cluster=_NODES)
    yield "sft", _intent("sft")


_SIZES = (
    ("dp", MODEL, Parallel()), ("tp2", MODEL, Parallel(tensor=2)), ("tp2-pp2", MODEL, Parallel(tensor=2, pipeline=2)), ("cp2", MODEL, Parallel(context=2)),
    ("pp2-vpp7", MODEL, Parallel(pipeline=2, virtual=7)), ("tp4-cp2", MODEL, Parallel(tensor=4, context=2)), ("ep8", MOE, Parallel(expert=8)),
    ("tp2-ep4", MOE, Parallel(tensor=2, expert=4)), ("pp2-ep4", MOE, Parallel(pipeline=2, expert=4)), ("tp4-ep2-etp2", MOE, Parallel(tensor=4, expert=2, expert_tensor=2)),
)  # fmt: skip


def _megatron() -> Iterator[tuple[str, Intent]]:
    for name, model, sizes in _SIZES:
        for route in ("megatron sft", "megatron pt"):
            yield f"{route.replace(' ', '-')}-{name}", _intent(route, model=model, parallel=sizes, tuner="full")
        for kind in MEGATRON_TYPES:
            for placement in ("colocate", "server") if kind in ("grpo", "gkd") else ("none",):
                whole = sizes.tensor * sizes.context >= 8 or sizes.expert * sizes.pipeline >= 8  # leaves no GPU of the node to a server
                cluster = _NODES if placement == "server" and whole else _NODE
                given = {"model": model, "parallel": sizes, "placement": placement, "tuner": "full", "cluster": cluster}
                yield f"megatron-{kind}-{placement}-{name}", _intent("megatron rlhf", kind, **given)
        for direction in ("to_hf", "to_mcore"):
            yield f"megatron-export-{direction}-{name}", _intent("megatron export", model=model, parallel=sizes, export=direction)
    yield "megatron-grpo-two-nodes", _intent("megatron rlhf", "grpo", placement="colocate", tuner="full", cluster=_NODES, parallel=Parallel(tensor=2))
    yield "megatron-grpo-async-reward", _intent("megatron rlhf", "grpo", placement="colocate", reward="async", tuner="full")
    yield "megatron-gkd-none", _intent("megatron rlhf", "gkd", tuner="full")
    yield "megatron-sft-lora", _intent("megatron sft")


def _ray() -> Iterator[tuple[str, Intent]]:
    for kind in ("grpo", "gkd"):
        for placement in ("colocate", "separate"):
            for teacher in ("colocate", "separate") if kind == "gkd" else ("colocate",):
                for cluster, where in ((_NODE, "node"), (_NODES, "nodes")):
                    for name, sizes in (("dp", Parallel()), ("tp2", Parallel(tensor=2))):
                        given = {"ray": True, "placement": placement, "teacher_placement": teacher, "cluster": cluster, "parallel": sizes, "tuner": "full"}
                        yield f"ray-{kind}-{placement}-{teacher}-{name}-{where}", _intent("megatron rlhf", kind, **given)
