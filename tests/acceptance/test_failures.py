"""Public failures that a check can see: the recorded cause, with its relation and remedy, among at most five errors and warnings.

Each line names the rule that must speak and words that must stand in its message or advice: numbers of the relation, or the remedy. Cases without a line
are those that do not apply to ms-swift 4.6 or that no input shows; they count as missed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from alula.facts import swift as facts
from alula.read.run import ReadOptions, load_source, read_source, together
from alula.rules.engine import check_run
from alula.run.finding import Finding

from .conftest import cases, needs_cases

pytestmark = needs_cases
CASES = {case["id"]: case for case in cases("failures.jsonl") if case["catchable_by"] == "check"}
FACTS = facts.load("4.6.0")

EXPECTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "openr1-249": ("BAT001", ("7 process", "= 7", "num_generations 8", "--gradient_accumulation_steps 8")),
    "swift-4589-cmd": ("BAT001", ("= 4", "num_generations 8", "--gradient_accumulation_steps 4")),
    "swift-4275": ("ROL007", ("colocate", "10.0.0.5", "--vllm_mode server")),
    "swift-5160-cmd": ("FLG000", ("swift rlhf --rlhf_type grpo",)),
    "swift-4783": ("RWD020", ("solutions", "ans_fim")),
    "swift-5079-cmd": ("ALG107", ("gym", "--reward_funcs")),
    "swift-9928": ("FLG001", ("colon", "--teacher_kl_coef")),
    "trl-2215": ("TEA011", ("151936", "152064")),
    "swift-1513": ("DAT021", ("label", '"true"')),
    "swift-5545": ("ENV004", ("no_proxy", "127.0.0.1")),
    "swift-8053": ("ENV002", ("--vllm_server_group_port",)),
    "trl-3654": ("ROL024", ("bnb", "drop --quant_method")),
    "swift-2949": ("EXP005", ("--merge_lora", "gptq")),
    "swift-4821": ("PRS108", ("--adapters", "fresh")),
    "swift-6636-env": ("ENV003", ("expandable_segments", "--sleep_level 1")),
    "swift-3695": ("LCH005", ("8", "7")),
    "swift-6850": ("ROL104", ("asynchronous", "--vllm_use_async_engine")),
    "swift-6539": ("PLG022", ("step", "messages")),
    "swift-4800": ("TRN040", ("1e-05", "1e-6")),
    "swift-6644": ("EXP104", ("--mtp_num_layers 1",)),
    "swift-5119-cmd": ("ROL011", ("131072", "2048", "133120")),
    "swift-3561": ("BAT010", ("4", "8")),
    "swift-6639": ("PRS002", ("6", "disjoint")),
    "swift-6575": ("PRS104", ("24000", "8192", "32192")),
    "swift-5737": ("PAR102", ("46", "4")),
    "mlm-468": ("PAR103", ("80", "16", "5")),
    "swift-9823": ("PAR108", ("MTP", "t")),
    "swift-6342": ("MEG208", ("capacity", "drops")),
    "swift-5010": ("ROL105", ("= 2", "1 visible")),
    "swift-6866": ("PRS005", ("51216", "--vllm_server_group_port")),
    "swift-7229": ("FLG002", ("--vllm_tensor_parallel_size",)),
    "swift-4328": ("ROL011", ("6000", "3096", "9096")),
    "swift-3956": ("ROL011", ("4096", "8192")),
    "swift-3181-cmd": ("SMP016", ("--prm_model", "registered")),
    "swift-3771": ("SHL001", ("blank", "backslash")),
    "swift-6889": ("ALG011", ("--reward_model", "GRPO")),
    "swift-5949": ("TRN060", ("ZeRO-3", "expert")),
    "swift-5890": ("LCH027", ("127.0.0.1", "8")),
    "orlhf-728": ("RAY009", ("= 8", "4 GPUs")),
    "orlhf-760": ("RAY009", ("3 GPUs", "2")),
    "swift-9381": ("RAY013", ("colocate", "colocate_groups")),
    "swift-3681": ("SHL007", ("NPROC_PER_NODE=4", "swift sft")),
    "swift-3991": ("LCH001", ("DeepSpeed", "NPROC_PER_NODE=3")),
    "swift-4567": ("LCH013", ("--device_map", "zero3")),
    "swift-7990-mbs": ("BAT103", ("12 prompts", "micro_batch_size")),
    "swift-8219-cmd": ("PAR005", ("2 key/value heads", "8")),
    "swift-5773": ("PRS102", ("--vllm_enable_lora true",)),
    "swift-4656-plugin": ("PLG010", ("from_pretrained",)),
    "swift-6862": ("EXP103", ("adapter",)),
    "swift-9030": ("MEG018", ("merge",)),
    "swift-5742": ("ROL011", ("11000", "4096", "15096")),
    "swift-8468": ("TRN054", ("--use_logits_to_keep", "--sequence_parallel_size 4")),
    "swift-5255": ("TRN021", ("--lazy_tokenize", "--packing")),
    "swift-9646": ("PRS006", ("8000",)),
    "swift-4525": ("ROL007", ("colocate", "10.0.0.22", "--vllm_mode server")),
    "swift-6019": ("ROL002", ("--vllm_mode", "colocate")),
    "swift-4797": ("ENV002", ("NCCL_TIMEOUT", "--ddp_timeout")),
    "swift-8025": ("TRN060", ("ZeRO-3",)),
    "swift-4488": ("PLG007", ("completions",)),
    "swift-3177": ("RWD020", ("solution",)),
    "swift-5539": ("RWD010", ("Qwen/Qwen2.5-3B-Instruct",)),
    "trl-6533": ("PLG007", ("1 item",)),
    "swift-6827-cmd": ("TRN020", ("--streaming", "--max_steps")),
    "swift-3863-cmd": ("TRN042", ("2000", "800")),
    "swift-7253": ("SMP003", ("engine_kwargs",)),
    "swift-9383": ("RAY101", ("--device_groups",)),
    "verl-1191-yaml": ("RAY009", ("2 GPUs",)),
    "verl-1004-yaml": ("BAT103", ("4 prompts", "8")),
    "swift-6106": ("ENV009", ("MAX_NUM",)),
    "swift-5227": ("EXP006", ("awq", "glm4_moe")),
}
APPLIES = ("yes", "partly", "analogous", "renamed")


def findings_of(case: dict[str, Any], folder: Path) -> list[Finding]:
    """The case as a person would have it: a script, a Ray config, a plugin, or rows beside a script."""
    kind, text = case["input"]["kind"], case["input"]["text"]
    if kind == "ray_yaml":
        entry, files = "run.yaml", {"run.yaml": text}
    elif kind == "plugin":
        entry, files = "plugin.py", {"plugin.py": text}
    elif kind == "dataset_row":
        entry, files = "run.sh", _rows(text)
    else:
        entry, files = "run.sh", {"run.sh": text}
    for name, content in files.items():
        (folder / name).write_text(content)
    run = together([read_source(load_source(str(folder / entry)), ReadOptions(environ={}, cwd=folder))])
    return [finding for finding in check_run(run, FACTS, cwd=str(folder)) if finding.severity != "info"]


def _rows(text: str) -> dict[str, str]:
    """A restated row with code or flags around it, as the files it came from."""
    rows = [line for line in text.splitlines() if line.startswith("{")]
    rest = "\n".join(line for line in text.splitlines() if not line.startswith("{"))
    flags = [flag for flag in re.findall(r"--\w+(?: [\w.]+)+", rest) if not flag.startswith("--dataset")]
    if not any(flag.startswith("--rlhf_type") for flag in flags):
        flags.insert(0, "--rlhf_type grpo")
    plugin = {"plugin.py": rest} if "class " in rest else {}
    script = f"NPROC_PER_NODE=8 swift rlhf --model Qwen/Qwen2.5-7B-Instruct --dataset data.jsonl --gradient_accumulation_steps 1 {' '.join(flags)}"
    return {"run.sh": script + (" --external_plugins plugin.py\n" if plugin else "\n"), "data.jsonl": "\n".join(rows) + "\n", **plugin}


def said(finding: Finding) -> str:
    return f"{finding.message} {finding.fix.description if finding.fix else ''}"


@pytest.mark.parametrize("name", [name for name in EXPECTED if name in CASES])
def test_the_cause_is_found(name: str, tmp_path: Path) -> None:
    code, words = EXPECTED[name]
    found = findings_of(CASES[name], tmp_path)
    assert len(found) <= 5, [f"{f.code} {f.message}" for f in found]
    spoken = [said(finding) for finding in found if finding.code == code]
    assert spoken, [f"{f.code} {f.message}" for f in found]
    assert any(all(word in text for word in words) for text in spoken), spoken


def test_at_least_95_percent_of_those_that_still_apply() -> None:
    applying = [name for name, case in CASES.items() if case["still_applies_4_6"] in APPLIES]
    missed = [name for name in applying if name not in EXPECTED]
    assert len(missed) <= 0.05 * len(applying), missed
