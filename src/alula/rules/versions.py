"""Versions: pins in the script that do not fit, and what a 3.x script silently means under 4.x."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.facts import swift as facts
from alula.facts._data import satisfies
from alula.run.source import Span

from .context import JobCheck, RunCheck, names
from .flags import flag_name, is_flag, leftovers, rename_of
from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

_INSTALL = re.compile(rb"(?m)^[^#\n]*\b(?:pip3?|uv)\b[^#\n]*\b(?:install|add)\b(?:[^\n\\]|\\\r?\n|\\.)*")
_PIN = re.compile(rb"(?<![\w.-])(ms[-_]swift|transformers|trl|peft|datasets)(?:\[[^\]\s]*\])?\s*==\s*([0-9][0-9.]*[0-9])")


def _pins(run: RunCheck) -> Iterator[tuple[str, str, Span]]:
    """Packages that the scripts install in an exact version: name, version, place."""
    for name, source in run.run.sources.items():
        if name.endswith((".py", ".jsonl", ".yaml", ".yml", ".json")):
            continue
        for command in _INSTALL.finditer(source.data):
            for pin in _PIN.finditer(command[0]):
                start = command.start() + pin.start()
                yield pin[1].decode().replace("_", "-"), pin[2].decode(), Span(name, start, start + len(pin[0]))


@rule("VER001", "checked-as-another-version", severity="warning", consequence="wrong", scope="run")
def checked_as_another_version(run: RunCheck) -> Iterator[Finding]:
    """The script installs another minor version of ms-swift than it was checked for.

    Flags and defaults differ between minor versions: check it with `--swift` and the version that it installs.

    In the log: `remaining_argv`, or nothing

    Wrong:
    ```sh
    pip install ms-swift==3.8.3
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    pip install ms-swift==4.6.0
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/version.py
    """
    if not run.views:
        return
    for package, version, span in _pins(run):
        if package == "ms-swift" and version.split(".")[:2] != run.facts.version.split(".")[:2]:
            template = "the script installs ms-swift {version} and was checked as {checked}: check it with --swift {version}"
            yield run.job(run.views[0]).finding(template, span, flags=["ms-swift"], version=version, checked=run.facts.version, fix=f"alula check --swift {version}")


@rule("VER002", "pin-outside-requirements", severity="warning", consequence="wrong", scope="run")
def pin_outside_requirements(run: RunCheck) -> Iterator[Finding]:
    """A package is pinned to a version that this ms-swift does not accept.

    pip then replaces one of the two, or ms-swift fails at its imports. GRPO asks for a newer TRL than ms-swift as a whole.

    In the log: `ImportError: trl>=0.26 is required …`, or pip's report of conflicting requirements

    Wrong:
    ```sh
    pip install ms-swift==4.6.0 trl==0.14.0
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    pip install ms-swift==4.6.0 trl==0.29.1
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: ms-swift's package metadata; swift/rlhf_trainers/arguments.py:GRPOConfig
    """
    if not run.views:
        return
    grpo = any(view.route == "swift rlhf" and view.rlhf_type == "grpo" for view in run.views)
    for package, version, span in _pins(run):
        wanted = run.facts.requires.get(package, "")
        if package == "trl" and grpo and run.facts.version.startswith(_GRPO_TRL):
            wanted = ",".join(part for part in (wanted, ">=0.26") if part)
        if wanted and not satisfies(version, wanted):
            template = "{package} {version} does not fit ms-swift {swift}, which wants {wanted}"
            yield run.job(run.views[0]).finding(template, span, flags=[package], package=package, version=version, swift=run.facts.version, wanted=wanted, fix=f"'{package}{wanted}'")


_GRPO_TRL = ("4.2.", "4.3.", "4.4.", "4.5.", "4.6.")
_TELLING = {  # flag -> what another default means
    "top_k": "rollouts are sampled from the whole vocabulary", "top_p": "rollouts are sampled from the whole distribution", "load_from_cache_file": "data is processed anew in every run",
    "finetune": "iteration and optimizer state of the checkpoint are not taken over", "cross_entropy_loss_fusion": "the loss is computed by the fused kernel",
    "moe_grouped_gemm": "experts run in one grouped product",
}  # fmt: skip
_SAMPLING = ("top_k", "top_p")


@rule("VER003", "defaults-since-3", severity="info", consequence="wrong", since="4.0")
def defaults_since_3(c: JobCheck) -> Iterator[Finding]:
    """A command in the words of ms-swift 3.x, and defaults that have changed since without a word.

    Renamed flags are reported one by one (FLG002). Once they are mended, what the command leaves out may still mean something else than it did.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --train_type lora
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --tuner_type lora --top_k 50 --top_p 0.9
    ```

    Source: swift/rlhf_trainers/args_mixin.py, swift/arguments/base_args/data_args.py (defaults of 3.12 and 4.x)
    """
    if c.v.route not in c.facts.routes:
        return
    old_words = [token for token, _ in leftovers(c) if is_flag(token) and _of_3(c, flag_name(token))]
    if not old_words:
        return
    before = facts.load([version for version in facts.versions() if version.startswith("3.")][-1])
    if c.v.route not in before.routes:
        return
    then, now = before.flags(c.v.route), c.v.flags
    changed = []
    for flag, meaning in _TELLING.items():
        if flag not in then or flag not in now or not c.v.absent(flag) or then[flag].default == now[flag].default:
            continue
        if flag in _SAMPLING and c.v.rlhf_type not in ("grpo", "gkd", "ppo"):
            continue
        changed.append((flag, f"--{flag} {then[flag].default} → {now[flag].default}: {meaning}"))
    if changed:
        template = "the command is written for ms-swift 3.x; since then defaults have changed: {changes}"
        yield c.finding(
            template, old_words[0], flags=[flag for flag, _ in changed], changes="; ".join(text for _, text in changed),
            fix="to keep what 3.x did: " + names(f"--{flag} {then[flag].default}" for flag, _ in changed),
        )  # fmt: skip


def _of_3(c: JobCheck, name: str) -> bool:
    rename = rename_of(c, name)
    return rename is not None and rename.since >= "3"
