"""Ray runs as KubeRay manifests: a ConfigMap with the run's files and a `ray.io/v1` RayJob sized to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .yaml_edits import yaml_scalar

if TYPE_CHECKING:
    from alula.run.job import Cluster

IMAGE = "IMAGE"  # the person's image with ms-swift, Ray and Megatron; Kubernetes refuses an empty one


def manifest(
    entrypoint: str, files: Mapping[str, str], cluster: Cluster, name: str, image: str | None = None, comments: Sequence[str] = ()
) -> str:
    """An entry command and its files -> the YAML of both objects.

    Args:
        entrypoint: run on the head, in the folder `/run-files` that holds `files`.
        image: None leaves the placeholder IMAGE to be replaced.
    """
    gpus, nodes = cluster.gpus_per_node or 1, cluster.nodes or 1
    lines = [f"# {comment}" for comment in comments]
    lines += ["apiVersion: v1", "kind: ConfigMap", "metadata:", f"  name: {name}-files", "data:"]
    for file, text in files.items():
        lines += [f"  {yaml_scalar(file)}: |", *(f"    {line}" if line else "" for line in text.rstrip("\n").split("\n"))]
    lines += [
        "---", "apiVersion: ray.io/v1", "kind: RayJob", "metadata:", f"  name: {name}", "spec:",
        f"  entrypoint: bash -c {_double(f'cd /run-files && {entrypoint}')}", "  shutdownAfterJobFinishes: true", "  ttlSecondsAfterFinished: 3600",
        "  rayClusterSpec:", "    headGroupSpec:", "      rayStartParams: {}", "      template:", *_pod(gpus, image, 8),
    ]  # fmt: skip
    if nodes > 1:
        lines += [
            "    workerGroupSpecs:", "      - groupName: workers", f"        replicas: {nodes - 1}", f"        minReplicas: {nodes - 1}",
            f"        maxReplicas: {nodes - 1}", "        rayStartParams: {}", "        template:", *_pod(gpus, image, 10),
        ]  # fmt: skip
    return "\n".join(line.replace("@NAME@", name) for line in lines) + "\n"


def _pod(gpus: int, image: str | None, indent: int) -> list[str]:
    pod = [
        "spec:", "  containers:", "    - name: ray", f"      image: {yaml_scalar(image) if image else IMAGE}", "      resources:", "        limits:",
        f'          nvidia.com/gpu: "{gpus}"', "        requests:", f'          nvidia.com/gpu: "{gpus}"', "      volumeMounts:",
        "        - {name: files, mountPath: /run-files}", "        - {name: shm, mountPath: /dev/shm}", "  volumes:", "    - name: files",
        "      configMap: {name: @NAME@-files}", "    - name: shm", "      emptyDir: {medium: Memory}",
    ]  # fmt: skip
    return [" " * indent + line for line in pod]


def _double(text: str) -> str:
    return "\"'" + text.replace("\\", "\\\\").replace('"', '\\"') + "'\""
