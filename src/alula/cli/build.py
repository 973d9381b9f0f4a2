"""`alula build`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from alula.build.compose import Built, build
from alula.build.intent import RLHF_TYPES, ROUTES, BuildError, Intent, Parallel, Placement, Reward, Sampling, Sharding, Target, Teacher
from alula.facts import swift as facts
from alula.run.lazy import get_close_matches

from .options import emit, format_options, parse_cluster, resolve_version

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.run.source import Source


@click.command("build")
@click.argument("route", nargs=-1, required=True, metavar="ROUTE")
@click.option("--rlhf-type", type=click.Choice(RLHF_TYPES), help="The algorithm.")
@click.option("--model", metavar="ID|DIR", help="Left out: a variable the script asks for.")
@click.option("--dataset", multiple=True, metavar="ID|FILE", help="May be repeated.")
@click.option("--gpus", metavar="8xH100", help="Accelerators on each node (default 1).")
@click.option("--nodes", type=click.IntRange(1), help="Number of nodes (default 1).")
@click.option("--placement", type=click.Choice(get_args(Placement)), help="Where completions are sampled.")
@click.option("--tuner", type=click.Choice(("lora", "full")), default="lora", show_default=True)
@click.option("--sharding", type=click.Choice(get_args(Sharding)), help="HF engine (default: ddp for LoRA, zero3 for full).")
@click.option("--tp", type=click.IntRange(1), default=1, help="Megatron tensor parallel; also --pp --cp --ep --etp --vpp.")
@click.option("--pp", type=click.IntRange(1), default=1, hidden=True)
@click.option("--cp", type=click.IntRange(1), default=1, hidden=True)
@click.option("--ep", type=click.IntRange(1), default=1, hidden=True)
@click.option("--etp", type=click.IntRange(1), default=1, hidden=True)
@click.option("--vpp", type=click.IntRange(1), default=1, hidden=True)
@click.option("--ray", is_flag=True, help="Megatron on Ray, or device_groups of sft and sample.")
@click.option("--reward", type=click.Choice(get_args(Reward)), default="function", show_default=True)
@click.option("--reward-model", metavar="ID|DIR")
@click.option("--teacher", type=click.Choice(get_args(Teacher)), default="model", show_default=True)
@click.option("--teacher-model", metavar="ID|DIR")
@click.option("--teacher-placement", type=click.Choice(("colocate", "separate")), default="colocate", help="On Ray.")
@click.option("--sampling", type=click.Choice(get_args(Sampling)), default="sample", show_default=True)
@click.option("--export", "direction", type=click.Choice(("to_hf", "to_mcore")), default="to_hf", show_default=True)
@click.option("--set", "settings", multiple=True, metavar="FLAG=VALUE", help="Any flag of the route; wins over the recipe.")
@click.option("--to", "target", type=click.Choice(get_args(Target)), help="Default: shell, or ray with --ray.")
@click.option("--image", help="Container image of a RayJob.")
@click.option("--out", metavar="DIR", help="Write the files here; nothing is overwritten.")
@click.option("--swift", "version", metavar="VERSION", help="ms-swift version.")
@format_options("text", "json", colored=True)
def command(
    route: tuple[str, ...], settings: tuple[str, ...], target: Target | None, out: str | None, version: str | None, image: str | None, form: str,
    output: str | None, no_color: bool, **given: Any,
) -> int:  # fmt: skip
    """Write a run that ms-swift accepts. Nothing is executed.

    \b
    ROUTE: rlhf, sft, rollout, sample, megatron sft|pt|rlhf|export
      alula build rlhf --rlhf-type grpo --model Qwen/Qwen3-8B --dataset d.jsonl --gpus 8xH100 --placement server --out run/
    """
    known = facts.load(resolve_version(version))
    intent = _intent(" ".join(route), given, settings, known)
    if target is None:
        target = "ray" if intent.ray and intent.route == "megatron rlhf" else "shell"
    try:
        built = build(intent, target, known, image=image)
    except BuildError as error:
        raise click.UsageError(str(error)) from None
    findings, sources = _checked(built, target, known)
    if out is not None:
        _write(built, Path(out))
    if form == "json":
        from alula.output.json_v1 import finding_data
        from alula.output.report import Report

        report = Report(findings=tuple(findings), sources=sources)
        data = {"version": 1, "files": built.files, "findings": [finding_data(report, f) for f in findings], "assumptions": list(built.assumptions)}
        emit(json.dumps(data, ensure_ascii=False, indent=1), output)
    else:
        emit(_text(built, findings, sources, out, no_color, output), output)
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _intent(route: str, given: Mapping[str, Any], settings: Sequence[str], known: facts.SwiftFacts) -> Intent:
    if route not in ROUTES:
        close = get_close_matches(route, ROUTES, 1)
        raise click.UsageError(f"no recipe for {route!r}; " + (f"did you mean {close[0]!r}?" if close else f"there are {', '.join(ROUTES)}"))
    kind = given["rlhf_type"]
    if route.endswith("rlhf") and kind is None:
        raise click.UsageError(f"{route} needs --rlhf-type: {', '.join(RLHF_TYPES)}")
    if not route.endswith("rlhf") and kind is not None:
        raise click.UsageError(f"--rlhf-type belongs to rlhf, not to {route}")
    placement = given["placement"]
    if placement is None:
        colocated = kind == "grpo" or (kind == "gkd" and given["ray"])
        placement = "colocate" if colocated else "none"
    sharding: Sharding = given["sharding"] or ("zero3" if given["tuner"] == "full" else "ddp")
    parallel = Parallel(given["tp"], given["pp"], given["cp"], given["ep"], given["etp"], given["vpp"])
    full = route if route.startswith("megatron") else f"swift {route}"
    return Intent(
        route, kind, given["model"], tuple(given["dataset"]), parse_cluster(given["gpus"], given["nodes"]), placement, given["tuner"], sharding, parallel,
        given["ray"], given["reward"], given["reward_model"], given["teacher"], given["teacher_model"], given["teacher_placement"], given["sampling"],
        given["direction"], settings=_settings(settings, full, known),
    )  # fmt: skip


def _settings(settings: Sequence[str], route: str, known: facts.SwiftFacts) -> dict[str, tuple[str, ...]]:
    """`name=value` pairs against the route's flags."""
    import shlex

    flags = known.flags(route)
    out: dict[str, tuple[str, ...]] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        name = name.lstrip("-").replace("-", "_")
        if not equals:
            raise click.UsageError(f"--set {setting}: write FLAG=VALUE")
        if name not in flags:
            close = get_close_matches(name, list(flags), 1, 0.7)
            raise click.UsageError(f"--set {name}: no flag of `{route}`" + (f"; did you mean {close[0]}?" if close else ""))
        choices = flags[name].choices
        values = tuple(shlex.split(value)) if flags[name].nargs == "+" else (value,)
        bad = next((v for v in values if choices is not None and v not in map(str, choices)), None)
        if bad is not None:
            raise click.UsageError(f"--set {name}={bad}: must be one of {', '.join(map(str, choices or ()))}")
        out[name] = values
    return out


def _checked(built: Built, target: Target, known: facts.SwiftFacts) -> tuple[list[Finding], dict[str, Source]]:
    """What `check` says about the written text; the files are read from a temporary folder, as a person would have them."""
    import tempfile

    from alula.build.reread import reread
    from alula.rules.engine import check_run

    with tempfile.TemporaryDirectory() as folder:
        run = reread(built, target, Path(folder), known.version)
        findings = check_run(run, known, cwd=folder)
    short = {name: Path(name).name if name.startswith(folder) else name for name in run.sources}
    renamed = {short[name]: replace(source, name=short[name], path=None) for name, source in run.sources.items()}
    return [_renamed(finding, short) for finding in findings], renamed


def _renamed(finding: Finding, names: Mapping[str, str]) -> Finding:
    """The finding with the written files' own names in place of the temporary ones."""
    if finding.span is None or finding.span.file not in names:
        return replace(finding, fix=replace(finding.fix, edits=()) if finding.fix else None, related=())
    span = replace(finding.span, file=names[finding.span.file])
    return replace(finding, span=span, fix=replace(finding.fix, edits=()) if finding.fix else None, related=())


def _write(built: Built, folder: Path) -> None:
    """All files or none; nothing is overwritten."""
    taken = [str(folder / name) for name in built.files if (folder / name).exists()]
    if taken:
        raise click.UsageError(f"{', '.join(taken)} exists; alula overwrites nothing: another --out, or move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in built.files.items():
            with open(folder / name, "x", encoding="utf-8") as file:
                file.write(text)
            if name.endswith(".sh"):
                os.chmod(folder / name, 0o755)
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror or error}") from None


def _text(built: Built, findings: Sequence[Finding], sources: dict[str, Source], out: str | None, no_color: bool, output: str | None) -> str:
    lines: list[str] = []
    if out is None:
        for name, text in built.files.items():
            if len(built.files) > 1:
                lines.append(f"# ----- {name}")
            lines.append(text.rstrip("\n"))
    else:
        lines += [f"wrote {Path(out) / name}" for name in built.files]
        lines += [f"  {assumption}" for assumption in built.assumptions]
    if findings:
        from alula.output.report import Report
        from alula.output.text import render

        from .options import wants_color

        lines += ["", render(Report(findings=tuple(findings), sources=sources), color=wants_color(no_color, output))]
    return "\n".join(lines)


