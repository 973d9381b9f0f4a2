"""The older Ray path: `swift sft` and `swift sample` with `device_groups`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN
from alula.swift.ray import WORKERS, device_groups

from .context import JobCheck, names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

ROUTES = ("swift sft", "swift sample")
_EXAMPLE = {
    "swift sft": '{"nproc_per_node": 4, "default": {"device": "GPU", "ranks": "list(range(0, 4))", "workers": ["default"]}}',
    "swift sample": '{"nproc_per_node": 4, "sampler": {"device": "GPU", "ranks": 2, "workers": ["sampler"]}, "scorer": {"device": "GPU", "ranks": 2, "workers": ["prm", "orm"]}}',
}


def _text(c: JobCheck) -> str | None:
    """The JSON as written, where it is known."""
    token = c.v.token("device_groups")
    return token.text if token is not None and token.known and c.v.written("device_groups") else None


@rule("RAY101", "device-groups-missing", routes=ROUTES, since="3.10")
def missing(c: JobCheck) -> Iterator[Finding]:
    """`--use_ray true` without `--device_groups`.

    Ray is set up before the arguments are parsed, from `--device_groups` alone.

    In the log: `TypeError: the JSON object must be str, bytes or bytearray, not NoneType`

    Wrong:
    ```sh
    swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups '{"nproc_per_node": 4, "default": {"device": "GPU", "ranks": "list(range(0, 4))", "workers": ["default"]}}'
    ```

    Source: swift/ray_utils/__init__.py:try_init_ray
    """
    if c.v.get("use_ray") is True and c.v.absent("device_groups"):
        example = _EXAMPLE[c.v.route]
        yield c.finding("--use_ray true needs --device_groups: JSON that says which ranks run which workers", "use_ray", flags=["device_groups"], fix=f"--device_groups '{example}'")


@rule("RAY102", "device-groups-refused", routes=ROUTES, since="3.10")
def refused(c: JobCheck) -> Iterator[Finding]:
    """`--device_groups` that ms-swift cannot make workers of.

    It is a JSON object with `nproc_per_node` and groups of device, ranks and workers. Ranks are a number (the next ones), a list, or a text like
    `list(range(0, 4))`; none may stand in two groups, and together they may leave no gap that reaches beyond the nodes they need. Every worker role of the
    pipeline must be listed: `default` for sft; `sampler`, `prm` and `orm` for sample. Groups on CPU do not work.

    In the log: a bare `AssertionError` or `KeyError` in resource_manager.py or base.py

    Wrong:
    ```sh
    swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups '{"nproc_per_node": 4, "trainer": {"device": "GPU", "ranks": 4, "workers": ["sft"]}}'
    ```

    Right:
    ```sh
    swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups '{"nproc_per_node": 4, "trainer": {"device": "GPU", "ranks": 4, "workers": ["default"]}}'
    ```

    Source: swift/ray_utils/resource_manager.py:ResourceManager.__init__; swift/ray_utils/base.py:RayHelper._create_workers
    """
    text = _text(c)
    if text is None or c.v.get("use_ray") is not True:
        return
    for fault in device_groups(text, WORKERS[c.v.route]).faults:
        yield c.finding("--device_groups: {fault}", "device_groups", flags=["use_ray"], fault=fault, fix=f"for example '{_EXAMPLE[c.v.route]}'")


@rule("RAY103", "device-groups-need-more-nodes", consequence="wrong", confidence="medium", routes=ROUTES, since="3.10")
def nodes(c: JobCheck) -> Iterator[Finding]:
    """More Ray nodes, or more devices on each, than there are.

    The ranks divided by `nproc_per_node` give the number of Ray nodes, each of which must have that many devices.

    In the log: `IndexError: list index out of range` in resource_manager.py

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups '{"nproc_per_node": 4, "g": {"device": "GPU", "ranks": 4, "workers": ["default"]}}'
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 swift sft --use_ray true --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups '{"nproc_per_node": 2, "g": {"device": "GPU", "ranks": 2, "workers": ["default"]}}'
    ```

    Source: swift/ray_utils/resource_manager.py:ResourceManager.__init__
    Not shown on CPU: it depends on the Ray cluster
    """
    text = _text(c)
    if text is None or c.v.get("use_ray") is not True:
        return
    plan = device_groups(text, WORKERS[c.v.route])
    if plan.faults or plan.nodes is None or plan.nproc is None:
        return
    each, most = c.v.cluster.gpus_per_node, c.v.cluster.nodes
    source = "--gpus"
    if each is None and c.v.place.devices is not None and plan.nodes == 1:
        each, source = len(c.v.place.devices), "the visible devices"
    if each is not None and plan.nproc > each:
        yield c.finding("nproc_per_node {nproc} of --device_groups: {source} give {each} on a node", "device_groups", flags=["use_ray"], nproc=plan.nproc, source=source, each=each, fix=f'"nproc_per_node": {each}')
    elif most is not None and plan.nodes > most:
        yield c.finding("--device_groups needs {nodes} Ray nodes; there are {most}", "device_groups", flags=["use_ray"], nodes=plan.nodes, most=most, fix="fewer ranks, or more nodes joined with `ray start --address`")


@rule("RAY104", "device-groups-unreadable", since="3.10", routes=("swift pt", "swift rlhf", "swift infer", "swift export", "swift deploy", "swift rollout", *ROUTES))
def unreadable(c: JobCheck) -> Iterator[Finding]:
    """`--device_groups` that is no JSON, also where Ray is not used.

    The text is parsed with all arguments, whether `--use_ray` is given or not.

    In the log: `json.decoder.JSONDecodeError`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --device_groups "{'nproc_per_node': 4}"
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl
    ```

    Source: swift/ray_utils/arguments.py:RayArguments.__post_init__
    """
    text = _text(c)
    if text is None or (c.v.get("use_ray") is not False and c.v.route in ROUTES):
        return
    fault = next((fault for fault in device_groups(text, ()).faults if fault.startswith("it is no JSON")), None)
    if fault is not None:
        yield c.finding("--device_groups: {fault}", "device_groups", fault=fault, fix="JSON has double quotes: '{\"nproc_per_node\": 4, …}'")


@rule("RAY105", "ray-not-started-by-route", severity="warning", consequence="wrong", routes=("swift pt", "swift infer", "swift export", "swift deploy", "swift rollout"), since="3.10")
def not_started(c: JobCheck) -> Iterator[Finding]:
    """`--use_ray` on a command that starts no Ray.

    Every command takes the flag; only `swift sft` and `swift sample` (and `megatron rlhf`) act on it.

    In the log: nothing

    Wrong:
    ```sh
    swift pt --use_ray true --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=4 swift pt --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/sft.py, swift/cli/sample.py (try_init_ray)
    """
    if c.v.get("use_ray") is True:
        yield c.finding("--use_ray on `{route}` starts no Ray: only {known} do", "use_ray", route=c.v.route, known=names(("swift sft", "swift sample", "megatron rlhf")), fix=c.drop_flag("use_ray"))


@rule("RAY106", "bare-use-ray", routes=ROUTES, since="3.10")
def bare(c: JobCheck) -> Iterator[Finding]:
    """`--use_ray` without its value.

    The launcher looks for the flag with a parser of its own, in which it needs a value.

    In the log: `error: argument --use_ray: expected one argument`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --use_ray --device_groups '{"nproc_per_node": 4, "g": {"device": "GPU", "ranks": 4, "workers": ["default"]}}'
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --tuner_type lora --dataset data.jsonl --use_ray true --device_groups '{"nproc_per_node": 4, "g": {"device": "GPU", "ranks": 4, "workers": ["default"]}}'
    ```

    Source: swift/ray_utils/__init__.py:try_init_ray
    """
    for use in c.v.parsed.by_name.get("use_ray", ()):
        if not use.values and not use.negated and not use.maybe and use.value is not UNKNOWN:
            yield c.finding("--use_ray needs its value here: --use_ray true", use.token, flags=["use_ray"], fix="--use_ray true")
            return
