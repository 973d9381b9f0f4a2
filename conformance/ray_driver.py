"""The driver side of Megatron on Ray, and then one of its workers, without starting Ray.

The real `MegatronRayPipeline` reads the YAML and walks through its own stages; what is left out is what touches Ray: placement groups,
actors, vLLM servers. The worker's arguments are then built in a fake process group of the size that the `train` group asks for.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conformance import fixtures, judge, megatron, pretend
from conformance.stand_ins import StandIns

DEFAULT_ROWS = 10_000


def judge_ray(request: dict[str, Any], home: Path) -> dict[str, Any]:
    """Answer a request whose `yaml` is the text of the configuration file; `rows` is the length of its data set.

    `groups` in the answer says for each role what the parser makes of its keys; ms-swift itself only warns of leftovers and goes on.
    """
    from swift.megatron.arguments import MegatronRLHFArguments
    from swift.ray.megatron.driver_utils import _dict_to_argv
    from swift.ray.megatron.pipeline import MegatronRayPipeline

    path = home / "ray.yaml"
    path.write_text(request["yaml"], encoding="utf-8")
    holder: dict[str, Any] = {}
    result = judge.run(lambda _: holder.update(pipeline=MegatronRayPipeline(str(path))), None)
    if result["post_init"] == "error":
        return {"argparse": "ok", **result, "stage": "yaml"}
    pipeline: Any = holder["pipeline"]
    groups = {}
    for role, config in pipeline.group_cfgs.items():
        if role == "train" or pipeline.group_gpus.get(role):
            parsed = judge.parse(MegatronRLHFArguments, _dict_to_argv(config))
            groups[role] = {key: parsed.get(key, []) for key in ("argparse", "remaining", "message")}
    answer: dict[str, Any] = {"argparse": groups["train"]["argparse"], "remaining": groups["train"]["remaining"], "groups": groups}
    if answer["argparse"] == "error" and not answer["remaining"]:
        return {**answer, "message": groups["train"]["message"]}  # the driver itself ends here
    answer["argparse"] = "ok"  # the driver only warns of leftovers

    replaced = _stand_in(MegatronRLHFArguments, home, request.get("shape"))
    _leave_out_ray(int(request.get("rows") or DEFAULT_ROWS))
    for name, step in _stages(pipeline, holder):
        result = judge.run(lambda _, step=step: step(), None)
        if result["post_init"] == "error":
            return {**answer, **result, "stage": name, "replaced": sorted(set(replaced))}
    answer.update(result, replaced=sorted(set(replaced)))
    return {**answer, "derived": _derived(pipeline, holder)}


def _stages(pipeline: Any, holder: dict[str, Any]) -> list[tuple[str, Callable[[], None]]]:
    """What `MegatronRayPipeline.init` does, in its order."""

    def dataset() -> None:
        pipeline._data_info = pipeline._build_dataset()

    def worker() -> None:
        from swift.megatron.arguments import MegatronRLHFArguments
        from swift.ray.megatron.driver_utils import parse_args_from_dict

        world = pipeline.group_gpus["train"]
        nodes = max(pipeline.ray_config.nnodes, 1)
        os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world // nodes))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
        pretend.accelerators(world // nodes)
        pretend.process_group(world)
        megatron.without_cuda()
        config = {**pipeline.group_cfgs["train"]}
        config.setdefault("rlhf_type", pipeline.ray_config.rlhf_type)  # pipeline._spawn_train_group
        holder["worker"] = parse_args_from_dict(MegatronRLHFArguments, config)

    def trainer() -> None:
        pipeline.worker_groups = {"train": types.SimpleNamespace(workers=[])}
        made = pipeline._create_trainer()
        made.set_data_info(pipeline._data_info)
        made._prepare_state()
        holder["trainer"] = made

    return [
        ("dataset", dataset),
        ("iterations", pipeline._compute_train_iters),
        ("pools", pipeline._create_pools),
        ("batch", pipeline._validate_grpo_train_batch_params),
        ("worker", worker),
        *((name, lambda check=check: check(holder["worker"])) for name, check in megatron.STAGES),
        ("rollout", pipeline._init_rollout_replicas),
        ("teacher", pipeline._init_teacher_replicas),
        ("trainer", trainer),
    ]


def _stand_in(cls: Any, home: Path, shape: dict[str, Any] | None) -> list[str]:
    """Have every argument object of the driver stood in for before its checks. Returns the growing list of replaced fields."""
    original = cls.__post_init__
    replaced: list[str] = []

    def post_init(args: Any) -> None:
        stand_ins = StandIns(home, shape, fixtures.Parallel.of(args))
        stand_ins.apply(args)
        replaced.extend(stand_ins.replaced)
        original(args)

    cls.__post_init__ = post_init
    return replaced


def _leave_out_ray(rows: int) -> None:
    """Give the driver a data set of `rows` rows, and let pools and replicas be created without a cluster."""
    from swift.megatron.arguments import MegatronRLHFArguments
    from swift.ray.megatron import driver_utils, resource_pool
    from swift.ray.megatron.rollout.replica import RolloutReplica

    MegatronRLHFArguments.load_dataset = lambda self: (range(rows), None)
    MegatronRLHFArguments.get_model_processor = lambda self, **kwargs: (None, None)
    driver_utils._prepare_template = lambda args, processor: types.SimpleNamespace(tokenizer=None, data_collator=None)

    def create_all(self: Any, *args: Any, **kwargs: Any) -> None:
        for pool in self._pools.values():
            pool.bundle_infos = [(str(node), str(i)) for node, count in enumerate(pool.process_on_nodes) for i in range(count)]

    resource_pool.ResourcePoolManager.create_all = create_all
    RolloutReplica._spawn_actors = lambda self, *args, **kwargs: None
    RolloutReplica._parallel_launch_all = classmethod(lambda cls, replicas: None)


def _derived(pipeline: Any, holder: dict[str, Any]) -> dict[str, Any]:
    pools = pipeline.resource_pool_manager._pools
    return {
        **judge.derived(holder["worker"]),
        "train_iters": pipeline.group_cfgs["train"]["train_iters"],
        "pools": {role: list(pool.process_on_nodes) for role, pool in pools.items()},
        "rollout_replicas": len(pipeline.rollout_replicas),
        "teacher_replicas": len(pipeline.teacher_replicas),
        "weight_sync_mode": pipeline._get_weight_sync_mode(),
        "sleep_level": pipeline._resolve_sleep_level(),
        "steps_per_generation": holder["trainer"]._steps_per_generation,
    }
