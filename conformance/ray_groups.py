"""`device_groups` of `swift sft` and `swift sample`: the real resource manager and worker creation over a pretended Ray cluster."""

from __future__ import annotations

import sys
import types
from typing import Any

ROLES = {
    "swift sft": ["default"],
    "swift sample": ["sampler", "prm", "orm"],
}  # the decorators in pipelines/train/sft.py, pipelines/sampling
MANY_NODES = 64


def launch(route: str, cluster: dict[str, Any]) -> None:
    """Do what the route does before it parses its arguments (`sys.argv`): nothing without `--use_ray true`.

    `cluster` may say `nodes` and `gpus_per_node`; without it there are always enough.
    """
    if not any(word.startswith("--u") for word in sys.argv):
        return  # no abbreviation of --use_ray: the launcher's own parser finds nothing either, and importing Ray takes half a second
    import ray
    from swift.ray_utils import RayHelper, base, try_init_ray

    nodes = [
        {"Resources": {"GPU": cluster.get("gpus_per_node", 1 << 10), "NPU": cluster.get("gpus_per_node", 1 << 10), "CPU": 128}}
        for _ in range(cluster.get("nodes", MANY_NODES))
    ]
    context = types.SimpleNamespace(gcs_address="127.0.0.1:6379")
    pretended: dict[str, Any] = {
        "init": lambda *args, **kwargs: None,
        "nodes": lambda: nodes,
        "get": lambda value, **kwargs: value,
        "remote": lambda target: _Remote(target),
        "get_runtime_context": lambda: context,
    }
    for name, value in pretended.items():
        setattr(ray, name, value)
    setattr(ray.util, "placement_group", lambda bundles, **kwargs: types.SimpleNamespace(ready=lambda: None))
    base.find_node_ip = lambda: "127.0.0.1"
    try_init_ray()
    if RayHelper.resource_manager is not None:
        RayHelper.worker_cls = {role: _Remote(lambda *args: None) for role in ROLES[route]}
        RayHelper._create_workers(ROLES[route])


class _Remote:
    """A remote function or class that runs on the spot."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def options(self, **kwargs: Any) -> _Remote:
        return self

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        return self._target(*args, **kwargs)
