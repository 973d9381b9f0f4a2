"""`swift sample`: its arguments, engine, shards and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alula.swift.parse import UNKNOWN

from .beside import data_of
from .flags import flag_name, is_flag, leftovers
from .registry import rule
from .rl import given, set_to, whole, words

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.source import Token
    from alula.swift.effective import View

    from .context import JobCheck, RunCheck

_ROUTE = ("swift sample",)
# vllm_ and lmdeploy flags of other routes -> the engine's own argument, where it is not the rest of the name.
_ENGINE_NAMES = {"vllm_data_parallel_size": None, "vllm_use_async_engine": None, "vllm_mode": None, "lmdeploy_tp": "tp", "gpu_memory_utilization": "gpu_memory_utilization"}
_GIVEN = ("template", "model_type")


@rule("SMP001", "output-file-with-folder", routes=_ROUTE)
def output_file_with_folder(c: JobCheck) -> Iterator[Finding]:
    """`output_file` with a folder in it.

    It is a bare file name within `--output_dir`.

    In the log: `ValueError: Please use a string prefix without directory to --output_file`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_file out/round1.jsonl
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out --output_file round1.jsonl
    ```

    Source: swift/arguments/sampling_args.py:SamplingArguments.__post_init__
    """
    name = c.v.get("output_file")
    if isinstance(name, str) and ("/" in name or "\\" in name):
        folder, _, file = name.replace("\\", "/").rpartition("/")
        template = "--output_file {name} must be a bare file name; the folder goes into --output_dir: --output_dir {folder} --output_file {file}"
        yield c.finding(template, "output_file", flags=["output_dir"], name=name, folder=folder or ".", file=file, fix=f"--output_dir {folder or '.'} --output_file {file}")


@rule("SMP002", "engine-kwargs-not-json", routes=_ROUTE)
def engine_kwargs_not_json(c: JobCheck) -> Iterator[Finding]:
    """`engine_kwargs` that is no JSON object.

    JSON needs double quotes, so the whole goes into single quotes in a shell.

    In the log: `json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --engine_kwargs "{'max_model_len': 8192}"
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --engine_kwargs '{"max_model_len": 8192}'
    ```

    Source: swift/arguments/sampling_args.py:SamplingArguments.__post_init__
    """
    text = given(c.v, "engine_kwargs")
    if not isinstance(text, str):
        return
    try:
        json.loads(text)
    except ValueError as error:
        reason = str(error).split(":")[0].lower()
        template = "--engine_kwargs {text} is no JSON ({reason}); write it in single quotes with double quotes inside: '{{\"max_model_len\": 8192}}'"
        repaired = text.replace("'", '"')
        fix = f"--engine_kwargs '{repaired}'" if _is_object(repaired) else "--engine_kwargs '{\"max_model_len\": 8192}'"
        yield c.finding(template, "engine_kwargs", text=text[:60], reason=reason, fix=fix)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _engine_kwargs(c: JobCheck) -> dict[str, Any] | None:
    """`engine_kwargs` as an object; None where it is not known or no object."""
    text = given(c.v, "engine_kwargs")
    if text is None:
        return {}
    try:
        made = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return made if isinstance(made, dict) else None


@rule("SMP003", "engine-flag-on-sample", routes=_ROUTE)
def engine_flag_on_sample(c: JobCheck) -> Iterator[Finding]:
    """An engine's flag of another command on `swift sample`.

    `swift sample` has no `vllm_…` or `lmdeploy_…` flags. What the engine should get goes, without the prefix, as JSON into `--engine_kwargs`.

    In the log: `ValueError: remaining_argv: ['--vllm_tensor_parallel_size', '4']`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sample --model Qwen/Qwen3-32B --dataset data.jsonl --sampler_engine vllm --vllm_tensor_parallel_size 4
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sample --model Qwen/Qwen3-32B --dataset data.jsonl --sampler_engine vllm --engine_kwargs '{"tensor_parallel_size": 4}'
    ```

    Source: swift/arguments/sampling_args.py:SamplingArguments, swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler._prepare_sampler
    """
    if c.v.get("ignore_args_error") is True:
        return
    made = dict(_engine_kwargs(c) or {})
    found: list[Token] = []
    for token, values in leftovers(c):
        name = flag_name(token)
        if not is_flag(token) or token.unresolved or not (name.startswith(("vllm_", "lmdeploy_")) or name in _ENGINE_NAMES):
            continue
        found.append(token)
        key = _ENGINE_NAMES.get(name, name.partition("_")[2])
        if key is not None and len(values) == 1 and values[0].known:
            made[key] = _value(values[0].text)
    if not found:
        return
    text = json.dumps(made)
    template = "`swift sample` has no {shown}: what the engine should get goes into --engine_kwargs '{text}'"
    shown = ", ".join(f"--{flag_name(token)}" for token in found)
    flags = ["engine_kwargs", *(flag_name(token) for token in found)]
    yield c.finding(template, found[0], flags=flags, text=text, shown=shown, fix=f"--engine_kwargs '{text}'")


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


@rule("SMP004", "engine-kwargs-refused", consequence="wrong", routes=_ROUTE)
def engine_kwargs_refused(c: JobCheck) -> Iterator[Finding]:
    """`engine_kwargs` with keys that the engine does not take.

    Keys are the engine's own argument names, without `vllm_`. `template` and `model_type` are given by ms-swift already.

    In the log: `TypeError: VllmEngine.__init__() got an unexpected keyword argument 'vllm_max_model_len'`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --engine_kwargs '{"vllm_max_model_len": 8192}'
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --engine_kwargs '{"max_model_len": 8192}'
    ```

    Source: swift/infer_engine/vllm_engine.py:VllmEngine.__init__
    Not shown on CPU: the engine is made after the arguments are checked
    """
    text = given(c.v, "engine_kwargs")
    made = _engine_kwargs(c)
    if made is None:
        if isinstance(text, str) and _is_json(text):
            yield c.finding("--engine_kwargs {text} must be a JSON object of argument names to values", "engine_kwargs", text=text[:60], fix="--engine_kwargs '{\"max_model_len\": 8192}'")
        return
    if c.v.get("sampler_engine") not in ("vllm", "lmdeploy"):
        return
    for key in made:
        if key.startswith(("vllm_", "lmdeploy_")):
            short = key.partition("_")[2]
            template = "--engine_kwargs names `{key}`; the engine's own argument is `{short}`, without the prefix"
            renamed = json.dumps({k.partition("_")[2] if k.startswith(("vllm_", "lmdeploy_")) else k: v for k, v in made.items()})
            yield c.finding(template, "engine_kwargs", key=key, short=short, fix=c.set_flag("engine_kwargs", renamed))
            return
        if key in _GIVEN:
            template = "--engine_kwargs names `{key}`, which ms-swift gives to the engine already: two values for one argument; use --{key}"
            yield c.finding(template, "engine_kwargs", flags=[key], key=key, fix=f"--{key} …")
            return


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@rule("SMP005", "sampler-engine-mismatch", consequence="wrong", routes=_ROUTE)
def sampler_engine_mismatch(c: JobCheck) -> Iterator[Finding]:
    """A sampler type and an engine that do not go together.

    `distill` asks an OpenAI-compatible service and needs the engine `client`; `sample` loads the model itself and does not know `client`. The engine `no`
    generates nothing and needs `--cache_files`.

    In the log: a bare `AssertionError`, or `ValueError: Cannot find engine name: client`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_type distill --sampler_engine vllm
    ```

    Right:
    ```sh
    swift sample --model qwen-max --dataset data.jsonl --sampler_type distill --sampler_engine client --engine_kwargs '{"base_url": "http://10.0.0.2:8000/v1"}'
    ```

    Source: swift/pipelines/sampling/distill_sampler.py:DistillSampler.__init__, swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler._prepare_sampler
    Not shown on CPU: samplers are made after the arguments are checked
    """
    kind, engine = c.v.get("sampler_type"), c.v.get("sampler_engine")
    if kind == "distill" and isinstance(engine, str) and engine != "client":
        template = "--sampler_type distill asks a service and needs --sampler_engine client, not {engine}; its address goes into --engine_kwargs '{{\"base_url\": \"…\"}}'"
        yield c.finding(template, "sampler_type", flags=["sampler_engine"], engine=engine, fix=c.set_flag("sampler_engine", "client"))
    elif kind == "sample" and engine == "client":
        template = "--sampler_engine client works with --sampler_type distill only; for --sampler_type sample use transformers, vllm or lmdeploy"
        yield c.finding(template, "sampler_engine", flags=["sampler_type"], fix=c.set_flag("sampler_type", "distill"))
    elif engine == "no" and c.v.get("cache_files") in ((), None) and c.v.absent("cache_files"):
        template = "--sampler_engine no generates nothing and needs --cache_files with what an earlier run generated"
        yield c.finding(template, "sampler_engine", flags=["cache_files"], fix="--cache_files <output of the first pass>")


@rule("SMP006", "data-range-unusable", consequence="wrong", routes=_ROUTE)
def data_range_unusable(c: JobCheck) -> Iterator[Finding]:
    """`data_range` that names no shard.

    `--data_range i k` cuts the data into k shards and takes the one with number i, from 0 to k − 1.

    In the log: `IndexError: Index … out of range for dataset of size …`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --data_range 4 4
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --data_range 3 4
    ```

    Source: swift/pipelines/sampling/sampling.py:SwiftSampling._get_dataset
    Not shown on CPU: the data is loaded after the arguments are checked
    """
    values = words(c.v.get("data_range"))
    if not values or any(whole(value) is None for value in values):
        return
    shown = " ".join(str(value) for value in values)
    if len(values) != 2:
        template = "--data_range {shown} must be two numbers: the shard's number from 0, and how many shards there are"
        yield c.finding(template, "data_range", shown=shown, fix="--data_range 0 4")
    elif values[1] < 1 or not 0 <= values[0] < values[1]:
        template = "--data_range {shown}: shards of {count} are numbered 0 to {last}; shard {index} does not exist"
        fix = f"--data_range {max(min(values[0], values[1] - 1), 0)} {max(values[1], 1)}"
        yield c.finding(template, "data_range", shown=shown, count=values[1], last=values[1] - 1, index=values[0], fix=fix)


@rule("SMP007", "shard-smaller-than-batch", consequence="wrong", routes=_ROUTE)
def shard_smaller_than_batch(c: JobCheck) -> Iterator[Finding]:
    """Fewer rows than one sampling batch.

    What does not fill a shard, and then a batch, is left out. With no batch at all nothing is written, and the final move of the result fails.

    In the log: `FileNotFoundError: … .jsonl.resume`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset AI-ModelScope/alpaca-gpt4-data-en#100 --sampler_engine vllm --data_range 0 8 --num_sampling_batch_size 16
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset AI-ModelScope/alpaca-gpt4-data-en#128 --sampler_engine vllm --data_range 0 8 --num_sampling_batch_size 16
    ```

    Source: swift/pipelines/sampling/sampling.py:SwiftSampling.run
    Not shown on CPU: the data is loaded after the arguments are checked
    """
    batch = whole(c.v.get("num_sampling_batch_size"))
    shards = c.v.get("data_range")
    if batch is None:
        return
    if batch < 1:
        template = "--num_sampling_batch_size {batch} must be 1 or more"
        yield c.finding(template, "num_sampling_batch_size", batch=batch, fix=c.set_flag("num_sampling_batch_size", "1"))
        return
    data = data_of(c)
    if data is None or data.count is None or shards is UNKNOWN:
        return
    count = words(shards)[1] if len(words(shards)) == 2 and whole(words(shards)[1]) else 1
    exact = all(entry.take is not None or (entry.sample is not None and entry.sample.exact) for entry in data.entries)
    size = data.count // count if count > 0 else data.count
    if size < batch and exact:
        template = "{rows} rows in {count} shard(s) are {size} rows a shard, fewer than --num_sampling_batch_size {batch}: nothing is sampled and the run stops at its end"
        related = [("dataset", f"{data.count} rows"), ("data_range", f"{count} shards")]
        fix = c.set_flag("num_sampling_batch_size", str(max(size, 1)))
        yield c.finding(template, "num_sampling_batch_size", flags=["data_range", "dataset"], related=related, rows=data.count, count=count, size=size, batch=batch, fix=fix)


@rule("SMP008", "output-exists", severity="warning", consequence="wrong", routes=_ROUTE)
def output_exists(c: JobCheck) -> Iterator[Finding]:
    """The output file is there already.

    `swift sample` then returns at once, with exit code 0 and without a word, unless `--override_exist_file true`.

    In the log: nothing

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out --output_file round1.jsonl
    ```
    ```jsonl out/round1.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "id": "0"}
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out --output_file round1.jsonl --override_exist_file true
    ```
    ```jsonl out/round1.jsonl
    {"messages": [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}], "id": "0"}
    ```

    Source: swift/pipelines/sampling/sampling.py:SwiftSampling.run
    """
    folder, name = c.v.get("output_dir"), c.v.get("output_file")
    if not isinstance(folder, str) or not isinstance(name, str) or not name or c.v.get("override_exist_file") is not False:
        return
    try:
        there = Path(c.whole.cwd, folder, name).is_file()
    except (OSError, ValueError):
        return
    if there:
        template = "{path} exists: the run ends at once and writes nothing; add --override_exist_file true, or name another --output_file"
        yield c.finding(template, "output_file", flags=["override_exist_file"], path=f"{folder}/{name}", fix=c.set_flag("override_exist_file", "true"))


@rule("SMP012", "sample-without-data", consequence="wrong", routes=_ROUTE)
def sample_without_data(c: JobCheck) -> Iterator[Finding]:
    """`swift sample` without data, or with a stream of it.

    The arguments are accepted. The data's length is asked for later, which neither nothing nor a stream has.

    In the log: `TypeError: object of type 'NoneType' has no len()`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --sampler_engine vllm --num_return_sequences 4
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 4
    ```

    Source: swift/pipelines/sampling/sampling.py:SwiftSampling._get_dataset
    Not shown on CPU: the data is loaded after the arguments are checked
    """
    if c.v.absent("dataset"):
        yield c.finding("`swift sample` needs --dataset: rows that end with the ground truth", None, flags=["dataset"], fix="--dataset <rows>")
    elif c.v.get("streaming") is True:
        yield c.finding("--streaming true has no length, which `swift sample` needs to cut the data", "streaming", flags=["dataset"], fix=c.drop_flag("streaming"))


@rule("SMP013", "sample-jobs-share-files", consequence="wrong", scope="run")
def sample_jobs_share_files(whole_run: RunCheck) -> Iterator[Finding]:
    """Several sampling jobs that write to the same place.

    `ckpt_state.json` lies in `--output_dir` and is shared by all outputs there: with `--resume true` a second job believes to have done the batches of the
    first. Jobs of the same output file overwrite each other, or end at once; without `--output_file` its name is the time in seconds.

    In the log: `Loaded index_resume: 199`, and nothing after it

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out --output_file a.jsonl --data_range 0 2 --resume true
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out --output_file b.jsonl --data_range 1 2 --resume true
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out/a --output_file a.jsonl --data_range 0 2 --resume true
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --output_dir out/b --output_file b.jsonl --data_range 1 2 --resume true
    ```

    Source: swift/pipelines/sampling/sampling.py:SwiftSampling.run
    Not shown on CPU: files are written while sampling
    """
    jobs = [view for view in whole_run.of_route("swift sample") if not view.job.maybe]
    for at, view in enumerate(jobs):
        for other in jobs[:at]:
            problem = _clash(other, view)
            if problem:
                c = whole_run.job(view)
                template = "two sampling jobs write to {folder}: {problem}; give each its own --output_dir"
                place = "output_file" if "output file" in problem and view.use("output_file") is not None else "output_dir"
                related = [(other.token("output_dir") or other.job.span, "the other one")]
                flags = ["output_dir", "output_file", "resume"]
                yield c.finding(template, place, flags=flags, related=related, folder=view.get("output_dir"), problem=problem, fix="an --output_dir of its own")
                break


def _clash(first: View, second: View) -> str:
    """How two jobs get into each other's way; empty where they do not, or it is not known."""
    folders = (first.get("output_dir"), second.get("output_dir"))
    if not all(isinstance(folder, str) for folder in folders) or folders[0] != folders[1]:
        return ""
    files = (first.get("output_file"), second.get("output_file"))
    if UNKNOWN in files or first.open_ended or second.open_ended:
        return ""
    if files[0] == files[1] and isinstance(files[0], str):
        if second.get("override_exist_file") is True and not first.job.background:
            return ""  # the second one replaces the first on purpose
        return f"both have the output file {files[0]}, and the later one ends at once or overwrites it"
    if second.get("resume") is True:
        return "ckpt_state.json there belongs to all of them, and with --resume true the later one skips the batches of the earlier"
    if files[0] is None and files[1] is None and first.job.background:
        return "without --output_file both are named after the second they start in"
    return ""


@rule("SMP014", "sample-devices-idle", severity="warning", consequence="waste", routes=_ROUTE)
def sample_devices_idle(c: JobCheck) -> Iterator[Finding]:
    """Several visible devices, and an engine that takes one.

    `swift sample` runs in one process. vLLM and LMDeploy use one device unless `tensor_parallel_size` (LMDeploy: `tp`) in `--engine_kwargs` says otherwise.
    Several shards (`--data_range`), one process and device each, use a machine better for small models.

    In the log: nothing

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sample --model Qwen/Qwen3-32B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 8
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0,1,2,3 swift sample --model Qwen/Qwen3-32B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 8 --engine_kwargs '{"tensor_parallel_size": 4}'
    ```

    Source: swift/infer_engine/vllm_engine.py:VllmEngine.__init__
    """
    engine, made, devices = c.v.get("sampler_engine"), _engine_kwargs(c), c.v.place.devices
    key = {"vllm": "tensor_parallel_size", "lmdeploy": "tp"}.get(engine if isinstance(engine, str) else "")
    if key is None or made is None or devices is None or set_to(c.v, "use_ray") or c.v.get("use_ray") is UNKNOWN:
        return
    used = (whole(made.get(key, 1)) or 1) * (whole(made.get("pipeline_parallel_size", 1)) or 1)
    if len(devices) > used:
        text = json.dumps({**made, key: len(devices)})
        template = "{count} devices are visible and the engine uses {used}: set --engine_kwargs '{text}', or start one process a device with --data_range i {count}"
        yield c.finding(template, "CUDA_VISIBLE_DEVICES", flags=["engine_kwargs", "data_range"], count=len(devices), used=used, text=text, fix=f"--engine_kwargs '{text}'")
