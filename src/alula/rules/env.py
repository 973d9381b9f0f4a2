"""Environment variables: misspelt, without effect, or harmful together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.facts.environment import aliases, readers
from alula.run.lazy import get_close_matches
from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import rule
from .values import given

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix
    from alula.run.source import Token

TRAINERS = ("swift rlhf", "megatron rlhf")


def environment(c: JobCheck, name: str) -> Token | None:
    """A variable of the command. A command that stands commented out is started elsewhere, with the variables set around it."""
    entry = c.env_entry(name)
    if entry is not None:
        return entry.token
    return c.job.shell_variables.get(name) if c.job.commented else None


def _text(c: JobCheck, name: str) -> str | None:
    token = environment(c, name)
    return token.text if token is not None and token.known else None


def _own_variable(c: JobCheck, name: str) -> bool:
    """True where the script itself uses the variable to make other words of the command."""
    launches = (getattr(launch, part) for launch in c.job.launches for part in ("nproc", "nnodes", "node_rank", "master_addr", "master_port"))
    tokens = [*c.job.argv, *(token for token in launches if token is not None), *(entry.token for other, entry in c.job.env.items() if other != name)]
    return any(origin.name == name for token in tokens for origin in token.chain)


@rule("ENV001", "misspelt-variable", severity="warning", consequence="wrong")
def misspelt_variable(c: JobCheck) -> Iterator[Finding]:
    """A variable that nobody reads and that is one letter away from one that is read.

    No program complains about a variable that it does not know. Names of your own are left alone: only close neighbours of names that ms-swift, torch, NCCL,
    vLLM, Ray or the hubs read are reported, and only where the right one is not set too.

    In the log: nothing

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICE=0,1 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/cli/main.py:get_torchrun_args; CUDA, NCCL and vLLM documentation
    """
    if c.v.route not in c.facts.routes:
        return
    known = readers()
    for name, entry in c.job.env.items():
        if entry.how == "inherited" or name in known or name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            continue
        meant = aliases().get(name) or _neighbour(name)
        if meant is None or meant in c.job.env or _own_variable(c, name):
            continue
        template = "{name} is read by nobody; did you mean {meant}{reader}?"
        yield c.finding(template, name, flags=[meant], name=name, meant=meant, reader=_reader(known[meant]), fix=f"{meant}={entry.token.text}")


def _reader(owner: str) -> str:
    return {"swift": " (read by ms-swift)", "torch": " (torch)", "nccl": " (the collective library)", "vllm": " (vLLM)", "ray": " (Ray)"}.get(owner, "")


def _neighbour(name: str) -> str | None:
    """The known variable within one typing error (two in a long name), or None."""
    if len(name) < 6 or not name.replace("_", "").isalnum():
        return None
    candidates = [other for other in readers() if abs(len(other) - len(name)) <= 2 and other[0] == name[0].upper()]
    upper = name.upper()
    if upper in candidates:
        return upper
    match = get_close_matches(upper, candidates, 1, 0.86)
    if not match or _distance(upper, match[0]) > (1 if len(name) < 10 else 2):
        return None
    # a number apart is another thing (GPU0, GPU1), and so is another last word (…_MIN, …_MAX)
    if [ch for ch in upper if ch.isdigit()] != [ch for ch in match[0] if ch.isdigit()] or {"MIN", "MAX"} & (set(upper.split("_")) ^ set(match[0].split("_"))):
        return None
    return match[0]


def _distance(a: str, b: str) -> int:
    """Edits (insert, delete, replace, swap of neighbours) from a to b."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        new = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]


_NO_EFFECT = {  # variable -> (why, what to write instead, routes it is said for; empty for all)
    "NCCL_TIMEOUT": ("neither torch nor NCCL reads it: collectives time out after --ddp_timeout seconds", "ddp_timeout"),
    "TORCH_NCCL_TIMEOUT": ("torch does not read it: collectives time out after --ddp_timeout seconds", "ddp_timeout"),
    "VLLM_SERVER_HOST": ("ms-swift reads the flag --vllm_server_host of the trainer, not a variable", "vllm_server_host"),
    "VLLM_SERVER_PORT": ("ms-swift reads the flag --vllm_server_port of the trainer, not a variable", "vllm_server_port"),
    "VLLM_SERVER_GROUP_HOST": ("ms-swift does not read it: the weight-sync group meets at the server's host", "vllm_server_group_port"),
    "VLLM_SERVER_GROUP_PORT": ("ms-swift reads the flag --vllm_server_group_port of the trainer, not a variable; that port must be reachable too", "vllm_server_group_port"),
    "USE_MODELSCOPE_HUB": ("ms-swift does not read it: ModelScope is its default hub, USE_HF=1 changes to Hugging Face", ""),
    "USE_MODELSCOPE": ("ms-swift does not read it: ModelScope is its default hub, USE_HF=1 changes to Hugging Face", ""),
}


@rule("ENV002", "variable-without-effect", severity="warning", consequence="wrong")
def variable_without_effect(c: JobCheck) -> Iterator[Finding]:
    """A variable that looks as if it did something here, and does not.

    `NCCL_TIMEOUT` is the most frequent: the timeout of collectives is `--ddp_timeout`, in seconds. Addresses and ports of the rollout server are flags of
    the trainer.

    In the log: nothing

    Wrong:
    ```sh
    NCCL_TIMEOUT=7200 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --ddp_timeout 7200
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments (ddp_timeout); swift/rlhf_trainers/vllm_client.py:VLLMClient
    """
    if c.v.route not in c.facts.routes:
        return
    for name, (why, flag) in _NO_EFFECT.items():
        entry = c.env_entry(name)
        if entry is None or entry.how == "inherited" or _own_variable(c, name):
            continue
        value = entry.token.text if entry.token.known else "…"
        advice = f"--{flag} {value}" if flag and value.isdigit() else f"--{flag}" if flag else "remove it"
        yield c.finding("{name} has no effect: {why}", name, flags=[flag] if flag else [], name=name, why=why, fix=advice)
    if c.facts.version.startswith("4."):
        entry = c.env_entry("MEGATRON_LM_PATH")
        if entry is not None and entry.how != "inherited":
            template = "MEGATRON_LM_PATH is not read since ms-swift 4.0: megatron-core comes from pip (`pip install megatron-core mcore-bridge`)"
            yield c.finding(template, "MEGATRON_LM_PATH", fix="remove it")


@rule("ENV003", "expandable-segments-with-sleep", consequence="wrong", routes=TRAINERS)
def expandable_segments(c: JobCheck) -> Iterator[Finding]:
    """`expandable_segments:True` with a colocated vLLM engine that sleeps.

    Sleep mode keeps weights and KV cache in a memory pool, which expandable segments do not support: on Ascend sleep frees nothing, on CUDA the engine refuses
    to start. Since 3.9 ms-swift switches the setting off around vLLM where it finds it in `PYTORCH_CUDA_ALLOC_CONF`; it does not look at
    `PYTORCH_NPU_ALLOC_CONF` nor at torch's new `PYTORCH_ALLOC_CONF`.

    In the log: `Expandable segments are not compatible with memory pool`, or out of memory after the first rollout

    Wrong:
    ```sh
    PYTORCH_NPU_ALLOC_CONF=expandable_segments:True ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B \\
        --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --sleep_level 1
    ```

    Right:
    ```sh
    PYTORCH_NPU_ALLOC_CONF=expandable_segments:False ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B \\
        --dataset data.jsonl --reward_funcs accuracy --use_vllm true --vllm_mode colocate --sleep_level 1
    ```

    Source: swift/rlhf_trainers/utils.py:set_expandable_segments; vllm/device_allocator/cumem.py:CuMemAllocator
    Not shown on CPU: the engine needs a device
    """
    level = c.v.get("sleep_level")
    if c.v.get("use_vllm") is not True or c.v.get("vllm_mode") != "colocate" or not isinstance(level, int) or level < 1:
        return
    variables = ["PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]
    if c.facts.version.startswith("3.8."):
        variables.append("PYTORCH_CUDA_ALLOC_CONF")
    for name in variables:
        text = _text(c, name)
        if text is None or "expandable_segments:true" not in text.lower().replace(" ", ""):
            continue
        template = "{name}={text} with --sleep_level {level}: vLLM's sleep needs a memory pool, which expandable segments do not support{npu}; expandable_segments:False"
        npu = " (on Ascend sleep then frees nothing)" if "NPU" in name else ""
        fix: Fix | str = c.set_env(name, text.replace("True", "False").replace("true", "False")) if c.env_entry(name) is not None else f"{name}=expandable_segments:False"
        yield c.finding(template, environment(c, name), flags=[name, "sleep_level"], related=[("sleep_level", f"sleep level {level}")], name=name, text=text, level=level, npu=npu, fix=fix)


@rule("ENV006", "vllm-v0-engine", severity="warning", consequence="wrong", since="3.9")
def vllm_v0_engine(c: JobCheck) -> Iterator[Finding]:
    """`VLLM_USE_V1=0` asks for an engine that vLLM no longer has.

    vLLM removed its V0 engine in 0.11, the version that ms-swift recommends since 3.9; it ignores the variable or refuses it.

    In the log: `VLLM_USE_V1=0` warnings or errors of vLLM at start

    Wrong:
    ```sh
    VLLM_USE_V1=0 swift rollout --model Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    swift rollout --model Qwen/Qwen3-8B
    ```

    Source: vllm/envs.py
    """
    uses = c.v.get("use_vllm") is True or c.v.route == "swift rollout" or c.v.get("infer_backend") == "vllm"
    if uses and c.env("VLLM_USE_V1") == "0":
        yield c.finding("VLLM_USE_V1=0: vLLM 0.11 and newer have no V0 engine; leave the variable out", "VLLM_USE_V1", fix="remove VLLM_USE_V1=0")


@rule("ENV007", "launch-blocking", severity="warning", consequence="waste")
def launch_blocking(c: JobCheck) -> Iterator[Finding]:
    """`CUDA_LAUNCH_BLOCKING=1` is left on.

    Every kernel waits for the one before: right while an error is hunted, and much slower than a run should be. `ASCEND_LAUNCH_BLOCKING=1` does the same.

    In the log: nothing; steps are slow

    Wrong:
    ```sh
    CUDA_LAUNCH_BLOCKING=1 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: PyTorch documentation, CUDA environment variables
    """
    for name in ("CUDA_LAUNCH_BLOCKING", "ASCEND_LAUNCH_BLOCKING"):
        if c.env(name) == "1":
            yield c.finding("{name}=1 makes every kernel wait for the one before: for debugging only", name, name=name, fix=f"remove {name}")


@rule("ENV008", "debug-logging", severity="info", consequence="waste")
def debug_logging(c: JobCheck) -> Iterator[Finding]:
    """Debug logs of the collectives are left on.

    `NCCL_DEBUG=INFO` writes pages at start, `TRACE` at every call; `TORCH_DISTRIBUTED_DEBUG=DETAIL` checks every collective among all ranks first, which slows
    training.

    In the log: thousands of `NCCL INFO` lines

    Wrong:
    ```sh
    TORCH_DISTRIBUTED_DEBUG=DETAIL NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NCCL_DEBUG=WARN NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: NCCL and PyTorch documentation
    """
    for name, loud, cost in (("NCCL_DEBUG", ("INFO", "TRACE"), "fills the log"), ("TORCH_DISTRIBUTED_DEBUG", ("DETAIL",), "checks every collective first and slows training")):
        text = c.env(name)
        if text is not None and text.upper() in loud:
            yield c.finding("{name}={text} {cost}: for debugging only", name, name=name, text=text, cost=cost, fix=f"remove {name}")


@rule("ENV009", "pixels-of-another-model", severity="warning", consequence="wrong")
def pixels_of_another_model(c: JobCheck) -> Iterator[Finding]:
    """An image size limit that this model does not follow.

    InternVL cuts an image into up to `MAX_NUM` tiles (12 by default) of 256 tokens each, chosen by its proportions. `MAX_PIXELS` belongs to Qwen-VL and its
    kin; `--max_pixels` only shrinks the picture before it is cut, so that the number of tokens stays. A text model follows neither.

    In the log: `MaxLengthError`, or rows that are dropped for their length

    Wrong:
    ```sh
    swift sft --model OpenGVLab/InternVL3-8B --dataset data.jsonl --max_length 8192 --max_pixels 1003520
    ```

    Right:
    ```sh
    MAX_NUM=4 swift sft --model OpenGVLab/InternVL3-8B --dataset data.jsonl --max_length 8192
    ```

    Source: swift/template/templates/internvl.py:InternvlTemplate; swift/template/base.py:Template._preprocess_inputs
    """
    model = given(c, "model")
    kind = given(c, "model_type")
    entry = c.facts.registries.models.get(kind) if isinstance(kind, str) else c.facts.registries.model_of(model) if isinstance(model, str) else None
    if entry is None:
        return
    said = [name for name in ("MAX_PIXELS", "IMAGE_MAX_TOKEN_NUM") if (variable := c.env_entry(name)) is not None and variable.how != "inherited"]
    if given(c, "max_pixels") not in (None, UNKNOWN):
        said.insert(0, "max_pixels")
    if not said:
        return
    shown = names(f"--{name}" if name.islower() else name for name in said)
    if entry.model_type.startswith("internvl"):
        template = "{shown} does not bound the tokens of {kind}: it cuts an image into up to MAX_NUM tiles (12) of 256 tokens; set MAX_NUM=4, or raise --max_length"
        yield c.finding(template, said[0], flags=[*said, "MAX_NUM"], shown=shown, kind=entry.model_type, fix="MAX_NUM=4")
    elif not entry.multimodal and "max_pixels" in said and c.v.written("max_pixels"):
        yield c.finding("{shown} does nothing: {kind} is a text model", said[0], flags=said, shown=shown, kind=entry.model_type, fix=f"remove {shown}")


_WORDS = {"y", "yes", "t", "true", "on", "1", "n", "no", "f", "false", "off", "0"}


@rule("ENV010", "use-hf-unreadable")
def use_hf_unreadable(c: JobCheck) -> Iterator[Finding]:
    """`USE_HF` is neither true nor false.

    It chooses the hub: 1 for Hugging Face, 0 for ModelScope. An empty value counts as set, too.

    In the log: `ValueError: invalid truth value 'hf'`

    Wrong:
    ```sh
    USE_HF=hf swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    USE_HF=1 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/utils/env.py:use_hf_hub
    """
    text = c.env("USE_HF")
    if text is not None and "use_hf" in c.v.flags and c.v.get("use_hf") is False and text.lower() not in _WORDS:
        yield c.finding("USE_HF={text} is neither true nor false: 1 for Hugging Face, 0 for ModelScope", "USE_HF", text=text or "''", fix=c.set_env("USE_HF", "1" if text else "0"))


@rule("ENV011", "use-hf-overridden", severity="warning", consequence="wrong")
def use_hf_overridden(c: JobCheck) -> Iterator[Finding]:
    """`--use_hf false` with `USE_HF=1`: the variable wins.

    Either of the two turns Hugging Face on.

    In the log: downloads from huggingface.co

    Wrong:
    ```sh
    USE_HF=1 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --use_hf false
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --use_hf false
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments.__post_init__
    """
    text = c.env("USE_HF")
    if text is not None and text.lower() in ("y", "yes", "t", "true", "on", "1") and given(c, "use_hf") is False:
        yield c.finding("--use_hf false has no effect: USE_HF={text} turns Hugging Face on", "use_hf", flags=["USE_HF"], text=text, related=[("USE_HF", "turns it on")], fix="USE_HF=0")


@rule("ENV012", "model-kwargs-over-variable", severity="warning", consequence="wrong")
def model_kwargs_over_variable(c: JobCheck) -> Iterator[Finding]:
    """`--model_kwargs` and the environment disagree about the same variable.

    Every key of `--model_kwargs` is written into the environment in capital letters, over what stands there.

    In the log: nothing

    Wrong:
    ```sh
    MAX_PIXELS=1003520 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl --model_kwargs '{"max_pixels": 602112}'
    ```

    Right:
    ```sh
    MAX_PIXELS=602112 swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset data.jsonl
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments._init_model_kwargs
    """
    value = c.v.get("model_kwargs")
    if not isinstance(value, dict):
        return
    for key, wanted in value.items():
        name = str(key).upper()
        text = c.env(name)
        if text is not None and text != str(wanted):
            template = "--model_kwargs sets {name}={wanted} over the {text} of the environment"
            yield c.finding(template, "model_kwargs", flags=[name], related=[(name, "overwritten")], name=name, wanted=wanted, text=text, fix=f"one of them: {name}={wanted}")


@rule("ENV013", "variables-of-another-accelerator", severity="info", consequence="wrong")
def variables_of_another_accelerator(c: JobCheck) -> Iterator[Finding]:
    """NCCL variables in a job on Ascend devices, or HCCL variables in one on CUDA.

    Ascend talks through HCCL (`HCCL_*`), CUDA through NCCL (`NCCL_*`); the other's variables are not read.

    In the log: nothing

    Wrong:
    ```sh
    ASCEND_RT_VISIBLE_DEVICES=0,1 NCCL_SOCKET_IFNAME=eth0 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    ASCEND_RT_VISIBLE_DEVICES=0,1 HCCL_SOCKET_IFNAME=eth0 NPROC_PER_NODE=2 swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: CANN and NCCL documentation
    """
    ascend, cuda = "ASCEND_RT_VISIBLE_DEVICES" in c.job.env, "CUDA_VISIBLE_DEVICES" in c.job.env
    if ascend == cuda:
        return
    prefix, right = ("NCCL_", "HCCL_") if ascend else ("HCCL_", "NCCL_")
    other = [name for name, entry in c.job.env.items() if name.startswith(prefix) and entry.how != "inherited"]
    if other:
        template = "{other} is for {wrong} devices; this job runs on {here}" + (", which reads {right}…" if ascend else "")
        yield c.finding(template, other[0], flags=other, other=names(other), wrong="CUDA" if ascend else "Ascend", here="Ascend" if ascend else "CUDA", right=right, fix=f"{right}… variables, where there is one")
