"""Teachers."""

from __future__ import annotations

import json

import pytest

from alula.rules.teacher import parse_servers

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B --dataset data.jsonl"
GKD = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd {MODEL}"
LOCAL = f"{GKD} --teacher_model Qwen/Qwen3-32B"
SERVED = f"{GKD} --teacher_model_server http://t:8000"
GRPO = f"NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo {MODEL} --reward_funcs accuracy"
MEGATRON = f"NPROC_PER_NODE=8 megatron rlhf --rlhf_type gkd {MODEL} --num_train_epochs 1 --global_batch_size 64"
TWO = '[{"url": "http://a:1", "tags": ["x"]}, {"url": "http://b:1", "tags": ["y"]}]'

HITS = [
    ("TEA001", f"{GRPO} --teacher_model Qwen/Qwen3-32B --teacher_model_server http://t:8000"),
    ("TEA001", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --teacher_model_server http://t:8000 --gkd_logits_topk 20"),
    ("TEA002", f"{GRPO} --teacher_model_server '[]'"),
    ("TEA002", f"{GRPO} --teacher_model_server '[{{\"tags\": [\"x\"]}}]'"),
    ("TEA003", f"{GKD} --gkd_logits_topk 20 --teacher_model_server t:8000"),
    ("TEA004", SERVED),
    ("TEA004", f"{LOCAL} --gkd_logits_topk -1"),
    ("TEA004", f"{MEGATRON} --teacher_model_server http://t:8000"),
    ("TEA005", f"{GKD} --use_liger_kernel true"),
    ("TEA005", f"{LOCAL} --use_liger_kernel true --gkd_logits_topk 8"),
    ("TEA006", f"{LOCAL} --use_liger_kernel true --sft_alpha 0.1"),
    ("TEA007", f"{LOCAL} --use_vllm true --vllm_mode server --vllm_server_host h --async_generate true"),
    ("TEA007", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --seq_kd true"),
    ("TEA008", f"{LOCAL} --beta 1.2"),
    ("TEA008", f"{LOCAL} --lmbda -0.1"),
    ("TEA009", f"swift rlhf --rlhf_type kto {MODEL} --gradient_accumulation_steps 4 --teacher_model_server http://t:8000"),
    ("TEA009", f"{SERVED} --gkd_logits_topk 20 --offload_teacher_model true"),
    ("TEA010", f"{LOCAL} --teacher_deepspeed zero3"),
    ("TEA011", f"{GKD} --teacher_model Qwen/Qwen2.5-72B-Instruct"),
    ("TEA011", f"{GRPO} --teacher_model meta-llama/Llama-3.1-70B-Instruct"),
    ("TEA012", f"{LOCAL} --lmbda 1"),
    ("TEA013", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --use_vllm false"),
    ("TEA014", GKD),
    ("TEA015", f"{SERVED} --gkd_logits_topk 20 --teacher_tag_key source"),
    ("TEA017", f"swift rlhf --rlhf_type dpo {MODEL} --teacher_deepspeed zero_3"),  # read whatever the type
]

SILENT = [
    ("TEA001", LOCAL),
    ("TEA001", f"swift rlhf --rlhf_type dpo {MODEL} --teacher_model a --teacher_model_server http://t:8000"),
    ("TEA002", f"{GKD} --gkd_logits_topk 20 --teacher_model_server '{TWO}'"),
    ("TEA002", f"{GKD} --gkd_logits_topk 20 --teacher_model_server '[{{url: broken'"),  # ms-swift repairs it in its own way
    ("TEA002", f"{GKD} --gkd_logits_topk 20 --teacher_model_server '[{{\"url\": \"http://a:1\"}}]'"),  # one needs no tags
    ("TEA004", f"{SERVED} --gkd_logits_topk 20"),
    ("TEA004", f"{GRPO} --teacher_model_server http://t:8000"),
    ("TEA005", f"{LOCAL} --use_liger_kernel true"),
    ("TEA005", f"{GKD} --use_liger_kernel true --teacher_model $(pick)"),
    ("TEA006", f"{LOCAL} --sft_alpha 0.1"),
    ("TEA007", f"{LOCAL} --seq_kd false"),
    ("TEA008", f"{LOCAL} --beta 1 --lmbda 0"),
    ("TEA008", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --lmbda 2"),  # not checked there
    ("TEA009", LOCAL),
    ("TEA009", f"{GRPO} --teacher_model Qwen/Qwen3-32B --offload_teacher_model true"),
    ("TEA010", f"{LOCAL} --deepspeed zero2 --teacher_deepspeed zero3"),
    ("TEA011", LOCAL),
    ("TEA011", f"{GKD} --teacher_model Qwen/Qwen2.5-72B-Instruct --gkd_logits_topk 32"),
    ("TEA011", f"{GKD} --teacher_model ./somewhere"),
    ("TEA012", f"{LOCAL} --lmbda 0"),
    ("TEA012", f"{LOCAL} --use_vllm true --vllm_mode colocate"),
    ("TEA013", f"{MEGATRON} --teacher_model Qwen/Qwen3-32B --use_vllm false --lmbda 0"),
    ("TEA014", LOCAL),
    ("TEA014", f"{GKD} --external_plugins opsd.py"),
    ("TEA014", f"{GKD} $(pick)"),
    ("TEA015", f"{GKD} --gkd_logits_topk 20 --teacher_tag_key source --teacher_model_server '{TWO}'"),
    ("TEA017", f"{LOCAL} --deepspeed zero2 --teacher_deepspeed conf/ds3.json"),
]


@pytest.mark.parametrize(("code", "command"), HITS)
def test_hit(check: Checker, code: str, command: str) -> None:
    found = check(command + "\n")
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "command"), SILENT)
def test_silent(check: Checker, code: str, command: str) -> None:
    assert [f.message for f in check(command + "\n") if f.code == code] == []


def rows(**extra: str) -> str:
    row = {"messages": [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}], **extra}
    return (json.dumps(row) + "\n") * 20


@pytest.mark.parametrize(
    ("extra", "severity"), [({}, ["error"]), ({"teacher_prompt": "1 + 1? The answer is 2."}, []), ({"teacher_images": "a.png"}, [])]
)  # fmt: skip
def test_self_distillation_looks_at_the_rows(check: Checker, extra: dict[str, str], severity: list[str]) -> None:
    found = check(GKD + "\n", {"data.jsonl": rows(**extra)})
    assert [f.severity for f in found if f.code == "TEA014"] == severity


@pytest.mark.parametrize(("tag", "found"), [("x", False), ("z", True)])
def test_tags_of_the_rows(check: Checker, tag: str, found: bool) -> None:
    command = f"{GKD} --gkd_logits_topk 20 --teacher_tag_key source --teacher_model_server '{TWO}'\n"
    assert ("TEA016" in {f.code for f in check(command, {"data.jsonl": rows(source=tag)})}) is found


@pytest.mark.parametrize(("teacher", "severity"), [("Qwen/Qwen2.5-72B-Instruct", "warning"), ("meta-llama/Llama-3.1-70B-Instruct", "error")])
def test_padding_is_told_from_another_tokenizer(check: Checker, teacher: str, severity: str) -> None:
    (finding,) = [f for f in check(f"{GKD} --teacher_model {teacher}\n") if f.code == "TEA011"]
    assert finding.severity == severity
    assert "151936" in finding.message


@pytest.mark.parametrize(
    ("text", "servers", "refused"),
    [
        (" http://a:1 ", 1, False),
        (TWO, 2, False),
        ("[]", 0, True),
        ("[1]", 0, True),
        ('[{"url": ""}]', 0, True),
        ('[{"url": "u", "tags": "x"}]', 0, True),
        ('[{"url": "u"}, {"url": "v"}]', 2, True),
        ('[{"url": "u", "tags": ["1"]}, {"url": "v", "tags": [1]}]', 2, True),  # numbers become text
        ("[{url: u}]", 0, False),
    ],
)
def test_parse_servers(text: str, servers: int, refused: bool) -> None:
    found, reason = parse_servers(text)
    assert len(found) == servers
    assert (reason is not None) is refused
