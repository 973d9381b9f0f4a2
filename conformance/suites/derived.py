"""alula's verdict and values against the judge's, on the recorded commands.

A command that alula calls `refused` must be refused, one that ms-swift refuses should be called so, and every value that `alula show`
claims to know must be what the real objects hold.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from alula.swift.effective import UNKNOWN
from alula.swift.summary import summary

from conformance import alula_side
from conformance.client import Oracle
from conformance.report import Disagreement, Report
from conformance.suites import recorded

# Not a matter of flags: what stands for the caller's own files and folders here, what names this machine, what holds a file's contents
# where alula shows the file's name.
NOT_COMPARED = frozenset({
    "output_dir", "logging_dir", "run_name", "eval_output_dir", "tensorboard_dir", "result_path", "output_file", "swanlab_exp_name",
    "model_type", "ref_model_type", "teacher_model_type", "reward_model_type", "template", "model_suffix", "seq_length",
    "port", "server_port", "local_rank", "swift_version", "hub_token", "training_args",
    "deepspeed", "teacher_deepspeed", "fsdp", "fsdp_config", "device_groups",
})  # fmt: skip
FROM_CHECKPOINT = frozenset({"model", "task_type", "tuner_type"})  # read from the adapter's args.json, which only a run of its own has
# alula's arithmetic -> where the real objects hold it
ARITHMETIC = {
    "generation_batch_size": ("trainer.generation_batch_size", "generation_batch_size"),
    "steps_per_generation": ("trainer.steps_per_generation", "steps_per_generation"),
    "gradient_accumulation_steps": ("trainer.gradient_accumulation_steps",),
    "world_size": ("trainer.world_size",),
    "num_microbatches": ("num_microbatches",),
}


def run(oracle: Oracle) -> Report:
    """Compare every recorded command that alula can read whole."""
    report = Report("derived")
    values = wrong = 0
    names: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for file in ("scripts.jsonl", "ms_swift_examples.jsonl"):
            for case, command in recorded.commands(file):
                made = recorded.request(command)
                words = [f"{k}={v}" for k, v in made["env"].items()] + made["route"].split() + made["argv"]
                reading = alula_side.read_words(words, Path(folder))
                asked = alula_side.request(reading, 0)
                if isinstance(asked, str):
                    report.skip(asked)
                    continue
                answer = oracle.ask({**asked, "devices": made.get("devices", asked.get("devices"))})
                report.cases += 1
                if "crash" in answer:
                    report.disagreements.append(Disagreement(case, "crash", "an answer", answer["crash"][-300:]))
                    continue
                report.disagreements += list(verdicts(case, reading, answer))
                for difference in compare(case, reading, answer):
                    wrong += 1
                    names[difference.what] += 1
                    report.disagreements.append(difference)
                values += len(known(reading))
    report.notes.append(f"{values} values compared, {wrong} differ" + "".join(f", {n} {c}×" for n, c in names.most_common(12)))
    return report


def verdicts(case: str, reading: alula_side.Reading, answer: dict[str, Any]) -> Iterator[Disagreement]:
    """A refusal on one side only. What ms-swift refuses after its arguments, any error of alula's may say."""
    ours, theirs = reading.refusals(0), alula_side.refused(answer)
    if theirs and answer["stage"] not in alula_side.ARGUMENT_STAGES:
        ours = ours or [f for f in reading.findings if f.severity == "error"]
    if ours and not theirs:
        yield Disagreement(case, "false refusal", ", ".join(f"{f.code} {f.message[:120]}" for f in ours), "accepted")
    elif theirs and not ours:
        yield Disagreement(
            case,
            "missed refusal",
            f"errors: {[f.code for f in reading.findings if f.severity == 'error']}",
            alula_side.words_of(answer),
            answer["limits"],
        )


def known(reading: alula_side.Reading) -> dict[str, Any]:
    """What alula claims to know of the first job, by field."""
    return {n: e.value for n, e in reading.views[0].values.items() if e.value is not UNKNOWN and n not in NOT_COMPARED}


def compare(case: str, reading: alula_side.Reading, answer: dict[str, Any]) -> Iterator[Disagreement]:
    """Values that differ, only where the judge went all the way."""
    real = answer["derived"]
    if not real:
        return
    replaced = {name.removeprefix("--") for name in answer["replaced"]}
    for name, value in known(reading).items():
        if value is None and name in FROM_CHECKPOINT:
            continue
        if name in real and name not in replaced and not same(value, real[name]):
            yield Disagreement(case, name, value, real[name])
    for name, value in summary(reading.views[0]).items():
        for place in ARITHMETIC.get(name, ()):
            held = _at(real, place)
            if held is not None and held != value:
                yield Disagreement(case, f"arithmetic {name}", value, held)
                break


def _at(real: dict[str, Any], place: str) -> Any:
    first, _, rest = place.partition(".")
    value = real.get(first)
    return value.get(rest) if rest and isinstance(value, dict) else value


def same(ours: Any, real: Any) -> bool:
    """Equal, as far as text, JSON and lists can tell: `1` and `1.0`, a tuple and a list, None and an empty list are the same value."""
    if isinstance(ours, (list, tuple)) or isinstance(real, (list, tuple)):
        mine, theirs = ([] if v is None else list(v) if isinstance(v, (list, tuple)) else [v] for v in (ours, real))
        return len(mine) == len(theirs) and all(same(a, b) for a, b in zip(mine, theirs, strict=True))
    if isinstance(ours, bool) or isinstance(real, bool):
        return bool(ours) == real if ours is not None and real is not None else ours is real
    if isinstance(ours, (int, float)) and isinstance(real, (int, float)):
        return abs(ours - real) <= 1e-9 * max(abs(ours), abs(real))
    return bool(ours == real) or (ours is not None and real is not None and str(ours) == str(real))
