"""`alula show` and `alula diff`: a run in numbers, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from alula.run.redact import redact, redact_words
from alula.swift.parse import UNKNOWN
from alula.swift.summary import device_ids, gpu_map, summary

if TYPE_CHECKING:
    from alula.run.job import Job, Launch, Run
    from alula.run.source import Token
    from alula.swift.effective import View
    from alula.swift.values import Effective

_LAUNCH = (("nproc", "NPROC_PER_NODE"), ("nnodes", "NNODES"), ("node_rank", "NODE_RANK"), ("master_addr", "MASTER_ADDR"), ("master_port", "MASTER_PORT"))


def show_data(runs: Sequence[tuple[Run, Sequence[View], Sequence[int | None]]]) -> dict[str, Any]:
    """Runs with their views and row counts -> the contract's JSON object."""
    jobs: list[dict[str, Any]] = []
    devices: list[Mapping[str, Any]] = []
    unresolved: list[dict[str, Any]] = []
    for run, views, rows in runs:
        shift = len(jobs)
        for view, count in zip(views, rows, strict=True):
            jobs.append(_job(view, count))
        devices.extend({**place, "jobs": [shift + job for job in place["jobs"]]} for place in gpu_map(views))
        for token in run.unresolved:
            unresolved.append(_unresolved(run, token))
    return {"version": 1, "jobs": jobs, "gpu_map": devices, "unresolved": unresolved}


def show_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, indent=1)


def _job(view: View, rows: int | None) -> dict[str, Any]:
    job = view.job
    out: dict[str, Any] = {
        "file": job.file,
        "route": job.route,
        "launcher": job.launch.launcher,
        "argv": redact_words(token.text for token in job.words),
        "env": _env(job),
        "launches": [_launch(launch) for launch in job.launches],
        "devices": [{"host": job.host, "ids": list(ids)}] if (ids := device_ids(view)) is not None else [],
        "effective": {name: _effective(name, e) for name, e in view.values.items()},
        "arithmetic": summary(view, rows),
        "presence": "maybe" if job.maybe else "always",
        "commented": job.commented,
        "background": job.background,
    }
    if job.ray is not None:
        out["groups"] = {role: {key: redact(token.text, key) for key, token in group.keys.items()} for role, group in job.ray.groups.items()}
    return out


def _effective(name: str, value: Effective) -> dict[str, Any]:
    """`known` is there, and false, only where the value rests on what is not here; its null is no null of ms-swift's."""
    known: dict[str, Any] = {"known": False} if value.value is UNKNOWN else {}
    return {"value": _plain(value.value, name), "origin": value.origin, **known}


def _env(job: Job) -> dict[str, str]:
    """What the processes get. What torchrun, accelerate or deepspeed were told stands under the names ms-swift reads."""
    env = {name: redact(entry.token.text, name) for name, entry in job.env.items()}
    if job.launch.launcher in ("torchrun", "accelerate", "deepspeed"):
        for attribute, name in _LAUNCH[:2]:
            token: Token | None = getattr(job.launch, attribute)
            if token is not None and not token.unresolved:
                env[name] = token.text
    return env


def _launch(launch: Launch) -> dict[str, Any]:
    out: dict[str, Any] = {"launcher": launch.launcher}
    for attribute, _ in _LAUNCH:
        token: Token | None = getattr(launch, attribute)
        out[attribute] = None if token is None else token.text
    return out


def _plain(value: Any, name: str) -> Any:
    """A value as JSON has it and as it may be shown; `name` is the flag or key that it belongs to."""
    if value is UNKNOWN:
        return None
    if isinstance(value, (tuple, list)):
        return [_plain(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, str(key)) for key, item in value.items()}
    return value if isinstance(value, (int, float, bool, type(None))) else redact(str(value), name)


def diff_data(changed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`compare`'s changes -> the contract's JSON object, without secrets."""
    sides = ("a", "b")
    return {"version": 1, "changed": [{k: _plain(v, each["name"]) if k in sides else v for k, v in each.items()} for each in changed]}


def _unresolved(run: Run, token: Token) -> dict[str, Any]:
    source = run.sources.get(token.span.file)
    line, column = source.position(token.span.start) if source is not None else (None, None)
    return {"file": token.span.file, "line": line, "column": column, "text": redact(token.text), "expressions": [redact(each) for each in token.unresolved]}


# --- text ---

_ORDER = (
    "world_size", "nproc_per_node", "nnodes", "data_parallel", "sequence_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel",
    "expert_parallel", "gpus", "group_gpus", "cluster_gpus", "per_device_train_batch_size", "micro_batch_size", "gradient_accumulation_steps",
    "num_microbatches", "samples_per_step", "completions_per_step", "generation_batch_size", "steps_per_generation", "num_generations",
    "prompts_per_rollout", "steps_per_rollout", "on_policy", "rows", "steps_per_epoch",
)  # fmt: skip
_WORDS = {
    "world_size": "processes", "nproc_per_node": "  on each node", "nnodes": "  nodes", "data_parallel": "data parallel",
    "sequence_parallel": "sequence parallel", "tensor_parallel": "tensor parallel", "pipeline_parallel": "pipeline parallel",
    "context_parallel": "context parallel", "expert_parallel": "expert parallel", "gpus": "GPUs used (TP × DP)", "group_gpus": "GPUs of each group",
    "cluster_gpus": "GPUs in all", "per_device_train_batch_size": "batch on each device", "micro_batch_size": "micro batch",
    "gradient_accumulation_steps": "accumulation", "num_microbatches": "micro batches a step", "samples_per_step": "samples an optimizer step",
    "completions_per_step": "completions an optimizer step", "generation_batch_size": "completions a rollout",
    "steps_per_generation": "steps that one rollout feeds", "num_generations": "completions a prompt", "prompts_per_rollout": "prompts a rollout",
    "steps_per_rollout": "optimizer steps a rollout", "on_policy": "on-policy", "rows": "training rows", "steps_per_epoch": "optimizer steps an epoch",
}  # fmt: skip


def show_text(data: Mapping[str, Any], *, everything: bool = False) -> str:
    """The same for people. `everything` lists every effective value, not only what was written or derived."""
    lines: list[str] = []
    for index, job in enumerate(data["jobs"]):
        lines += _job_text(index, job, everything)
    if len(data["gpu_map"]) > 0:
        lines += ["GPUs", *_map_text(data)]
    if data["unresolved"]:
        lines += ["", "Not known here (alula never guesses):"]
        lines += [f"  {item['file']}:{item['line']}:{item['column']}  {_clean(item['text'])}" for item in data["unresolved"]]
    if not data["jobs"]:
        lines.append("No ms-swift command was found.")
    return "\n".join(lines)


def _job_text(index: int, job: Mapping[str, Any], everything: bool) -> list[str]:
    notes = [note for note, holds in (("only in some branches", job["presence"] == "maybe"), ("commented out", job["commented"]), ("in the background", job["background"])) if holds]
    launcher = "" if job["launcher"] == "cli" else f" by {job['launcher']}"
    head = f"job {index + 1}: {job['route']}{launcher}  ({job['file']})" + (f"  [{', '.join(notes)}]" if notes else "")
    lines = [_clean(head)]
    numbers = job["arithmetic"]
    for name in _ORDER:
        if name in numbers:
            lines.append(f"  {_WORDS[name]:<32} {_value(numbers[name])}")
    values = [(name, e) for name, e in job["effective"].items() if everything or _tells(name, e)]
    if values:
        width = max(len(name) for name, _ in values)
        lines.append("  values" + ("" if everything else "  (written, and what ms-swift makes of them; --all lists every one)"))
        for name, effective in sorted(values, key=lambda item: item[1]["origin"] != "written"):
            origin = "" if effective["origin"] == "written" else f"   ← {effective['origin'].removeprefix('derived: ')}"
            value = "?" if effective.get("known") is False else _value(effective["value"])
            lines.append(_clean(f"    {name:<{width}}  {value}{origin}"))
    lines.append("")
    return lines


# Derived on every run, and no news to anybody.
_PLUMBING = frozenset(
    "accelerator_config bnb_4bit_compute_dtype callbacks columns fsdp greater_is_better include_num_input_tokens_seen init_weights lazy_tokenize "
    "max_memory max_new_tokens metric_for_best_model model_kwargs remove_unused_columns response_length stream task_type use_chat_template "
    "vit_gradient_checkpointing vllm_engine_kwargs".split()
)


def _tells(name: str, effective: Mapping[str, Any]) -> bool:
    """Worth a line: written, or derived to a value that is known and more than the usual plumbing."""
    if effective["origin"] == "written":
        return True
    return effective["origin"] != "default" and name not in _PLUMBING and effective.get("known") is not False


def _map_text(data: Mapping[str, Any]) -> list[str]:
    rows: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for place in data["gpu_map"]:
        rows.setdefault((place["host"], tuple(place["jobs"])), []).append(place["device"])
    out = []
    for (host, jobs), devices in rows.items():
        names = " + ".join(f"job {job + 1} ({data['jobs'][job]['route']})" for job in jobs)
        out.append(_clean(f"  {host}  {','.join(devices)}  {names}"))
    return out


def _value(value: Any) -> str:
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return str(value)


def _clean(text: str) -> str:
    """No control characters of a script's reach the terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "�" for char in text)


# --- diff ---


def diff_text(data: Mapping[str, Any]) -> str:
    if not data["changed"]:
        return "No difference in what ms-swift would do."
    lines: list[str] = []
    job = None
    for change in data["changed"]:
        if change["job"] != job:
            job = change["job"]
            lines.append(f"job {job + 1}" if isinstance(job, int) else str(job))
        lines.append(_clean(f"  {change['name']}: {_value(change['a'])} → {_value(change['b'])}"))
        if change["effect"]:
            lines.append(_clean(f"    {change['effect']}"))
    return "\n".join(lines)
