"""Trainers and servers against each other."""

from __future__ import annotations

import pytest

from alula.run.finding import Finding

from .conftest import Checker

MODEL = "--model Qwen/Qwen3-8B"
ON = "--use_vllm true --vllm_mode server"


def trainer(extra: str = "", host: str = "127.0.0.1", devices: str = "0,1,2,3", count: int = 4, model: str = MODEL) -> str:
    where = f"--vllm_server_host {host}" if host else ""
    return (
        f"CUDA_VISIBLE_DEVICES={devices} NPROC_PER_NODE={count} swift rlhf --rlhf_type grpo {model} --dataset data.jsonl --reward_funcs accuracy "
        f"--num_generations {count} {ON} {where} {extra}"
    )


def server(extra: str = "", devices: str = "7", model: str = MODEL) -> str:
    return f"CUDA_VISIBLE_DEVICES={devices} swift rollout {model} {extra}"


def teacher(extra: str = "--infer_backend vllm --port 8100", devices: str = "6") -> str:
    return f"CUDA_VISIBLE_DEVICES={devices} swift deploy --model Qwen/Qwen3-32B {extra}"


def gkd(extra: str = "", url: str = "http://localhost:8100", top: int = 20) -> str:
    return (
        "CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl "
        f"--teacher_model_server {url} --gkd_logits_topk {top} {extra}"
    )


def both(a: str, b: str) -> str:
    return f"{a} &\n{b}\n"


HITS = [
    ("PRS001", both(server("--port 8001"), trainer())),
    ("PRS001", both(server("--port 8001"), trainer("--vllm_server_port 8002"))),
    ("PRS001", both(server("--port 8001"), trainer(host="10.0.0.5"))),
    ("PRS001", both(teacher("--infer_backend vllm --port 9000"), gkd())),
    ("PRS001", both(server("--port 8001"), trainer("--vllm_server_base_url http://127.0.0.1:8000", host=""))),
    ("PRS002", both(server(devices="3"), trainer())),
    ("PRS002", both(server(devices="2,3").replace(MODEL, f"{MODEL} --vllm_data_parallel_size 2"), trainer(host="0.0.0.0"))),
    ("PRS002", both(f"swift rollout {MODEL}", trainer())),  # no variable: it starts at device 0
    ("PRS002", both(server(devices="0,1"), trainer().replace("CUDA_VISIBLE_DEVICES=0,1,2,3 ", ""))),
    ("PRS002", both(server(devices="3"), trainer(host="10.0.0.5"))),  # one script runs on one machine
    ("PRS002", both(teacher(devices="3"), gkd())),
    ("PRS003", both(server("--host 127.0.0.1"), trainer(host="10.0.0.5"))),
    ("PRS004", both(server("--api_key k"), trainer())),
    ("PRS004", both(teacher("--infer_backend vllm --port 8100 --api_key k"), gkd())),
    ("PRS006", gkd(f"{ON} --vllm_server_host localhost", url="http://127.0.0.1:8000") + "\n"),
    ("PRS006", gkd(f"{ON} --vllm_server_host t1", url="http://t1:8000") + "\n"),
    ("PRS006", both(both(server(devices="6"), server(devices="7") + " ").rstrip() + " &\nsleep 60", trainer())),
    ("PRS007", f"{server()}\n{trainer()}\n"),
    ("PRS008", both(server(), trainer("--vllm_server_port 8000").replace(ON, "--use_vllm true --vllm_mode colocate").replace("--vllm_server_host 127.0.0.1", ""))),
    ("PRS008", both(server(), "swift sft --model Qwen/Qwen3-8B --dataset d") + trainer().replace(f"{ON} --vllm_server_host 127.0.0.1", "") + "\n"),
    ("PRS009", f"# node 1 (rollout)\n# {server(devices='0')}\n# node 2 (train)\n{trainer()}\n"),
    ("PRS009", f"# on machine gpu01\n{server(devices='0')} &\n# on machine gpu02\n{trainer()}\n"),
    ("PRS101", both(server(model="--model Qwen/Qwen3-4B"), trainer())),
    ("PRS102", both(server(), trainer("--vllm_enable_lora true"))),
    ("PRS102", both(server("--vllm_enable_lora true"), trainer("--tuner_type full"))),
    ("PRS103", both(server("--vllm_enable_lora true"), trainer("--lora_rank 32"))),
    ("PRS104", both(server("--vllm_max_model_len 4096"), trainer("--max_length 4096"))),
    ("PRS104", both(server("--vllm_max_model_len 512"), trainer())),
    ("PRS105", both(server(), trainer("--gym_env math_env"))),
    ("PRS105", both(server("--multi_turn_scheduler gym_scheduler --max_turns 3 --gym_env math_env"), trainer("--use_gym_env false"))),
    ("PRS106", both(server("--multi_turn_scheduler thinking_tips_scheduler --max_turns 3"), trainer())),
    ("PRS106", both(server("--multi_turn_scheduler gym_scheduler --max_turns 3 --gym_env math_env"), trainer())),
    ("PRS106", both(server("--multi_turn_scheduler gym_scheduler --max_turns 3 --use_gym_env true"), trainer())),  # which one, say the rows
    ("PRS107", both(server("--enable_thinking true"), trainer())),
    ("PRS107", both(server("--template qwen3_thinking"), trainer("--template qwen3_nothinking"))),
    ("PRS107", both("MAX_PIXELS=1003520 " + server(), trainer())),
    ("PRS108", both(server("--adapters out/sft"), trainer())),
    ("PRS110", both(teacher(), gkd(top=64))),
    ("PRS110", both(teacher("--infer_backend vllm --port 8100 --max_logprobs 32"), gkd(top=64))),
    ("PRS111", both(teacher("--port 8100"), gkd())),
    ("PRS112", both("CUDA_VISIBLE_DEVICES=7 swift deploy --model Qwen/Qwen3-8B --infer_backend vllm", trainer())),
]

SILENT = [
    ("PRS001", both(server(), trainer())),
    ("PRS001", both(server("--port $(pick)"), trainer())),
    ("PRS001", both(server("--port 8001"), trainer("--vllm_server_port $(pick)"))),
    ("PRS001", both(server("--port 8001"), trainer(host="$(pick)"))),
    ("PRS001", both(both(server("--port 8001"), server("--port 8002", devices="6")).replace("\n", " &\n", 2).replace("& &", "&"), trainer("--vllm_server_port 8002"))),
    ("PRS002", both(server(), trainer())),
    ("PRS002", f"# node 1\n{server(devices='0')}\n# node 2\n{trainer(host='10.0.0.5')}\n"),
    ("PRS002", both(server(devices="$(pick)"), trainer())),
    ("PRS002", both(server(devices="4,5,6,3"), trainer())),  # it uses the first one only
    ("PRS003", both(server("--host 0.0.0.0"), trainer(host="10.0.0.5"))),
    ("PRS003", both(server("--host 127.0.0.1"), trainer())),
    ("PRS004", both(server(), trainer())),
    ("PRS006", gkd(f"{ON} --vllm_server_host localhost") + "\n"),
    ("PRS006", gkd(f"{ON} --vllm_server_host h1", url="http://h2:8000") + "\n"),
    ("PRS007", both(server(), trainer())),
    ("PRS007", f"# terminal 1\n{server()}\n# terminal 2\n{trainer()}\n"),
    ("PRS007", f"tmux new -d '{server()}'\n{trainer()}\n"),
    ("PRS007", f"{trainer()}\n{server()}\n"),
    ("PRS007", f"# {server()}\n{trainer()}\n"),
    ("PRS008", both(server(), trainer())),
    ("PRS008", f"# {server()}\n" + trainer().replace(f"{ON} --vllm_server_host 127.0.0.1", "--use_vllm true --vllm_mode colocate") + "\n"),
    ("PRS008", both(server(), trainer("$(pick)").replace(ON, ""))),
    ("PRS002", f"# node 1\n# {server(devices='0')}\n# node 2\n{trainer()}\n"),  # the address is the fault there
    ("PRS009", f"# node 1\n# {server(devices='0')}\n# node 1\n{trainer()}\n"),
    ("PRS009", f"# node 1\n# {server(devices='0')}\n# node 2\n{trainer(host='10.0.0.5')}\n"),
    ("PRS009", f"# server\n# {server()}\n# trainer\n{trainer()}\n"),
    ("PRS101", both(server(model="--model ./merged"), trainer())),
    ("PRS101", both(server(model="--model models/Qwen3-8B"), trainer())),
    ("PRS102", both(server("--vllm_enable_lora true"), trainer("--vllm_enable_lora true"))),
    ("PRS103", both(server("--vllm_enable_lora true --vllm_max_lora_rank 32"), trainer("--lora_rank 32"))),
    ("PRS103", both(server(), trainer("--lora_rank 32"))),
    ("PRS104", both(server("--vllm_max_model_len 4608"), trainer("--max_length 4096"))),
    ("PRS104", both(server(), trainer("--max_length 4096 --max_completion_length 4096"))),
    ("PRS105", both(server("--multi_turn_scheduler gym_scheduler --max_turns 3 --gym_env math_env"), trainer())),
    ("PRS105", both(server(), trainer("--gym_env math_env --multi_turn_scheduler gym_scheduler --max_turns 3"))),
    ("PRS106", both(server("--multi_turn_scheduler math_tip_trick --max_turns 3"), trainer("--vllm_server_pass_dataset true"))),
    ("PRS106", both(server("--multi_turn_scheduler mine --max_turns 3"), trainer())),
    ("PRS106", both(server("--multi_turn_scheduler gym_scheduler --max_turns 3 --gym_env frozen_lake --external_plugins p.py"), trainer())),
    ("PRS107", both(server("--enable_thinking false"), trainer("--enable_thinking false"))),
    ("PRS107", "export MAX_PIXELS=1003520\n" + both(server(), trainer())),
    ("PRS107", both(server(), trainer("--template qwen3_thinking"))),  # the server's default may be the same
    ("PRS108", both(server("--adapters out/sft"), trainer("--adapters out/sft --ref_adapters out/sft"))),
    ("PRS110", both(teacher("--infer_backend vllm --port 8100 --max_logprobs 64"), gkd(top=64))),
    ("PRS111", both(teacher(), gkd())),
    ("PRS112", both(server(), trainer())),
]


@pytest.mark.parametrize(("code", "script"), HITS)
def test_hit(check: Checker, code: str, script: str) -> None:
    found = check(script)
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "script"), SILENT)
def test_silent(check: Checker, code: str, script: str) -> None:
    assert [f.message for f in check(script) if f.code == code] == []


def only(found: list[Finding], code: str) -> Finding:
    (finding,) = [f for f in found if f.code == code]
    return finding


def two_pairs(second: str) -> str:
    """Two complete runs beside each other on one machine."""
    return "".join(
        f"{line} &\n"
        for line in (
            server("--port 8000", devices="0"),
            "MASTER_PORT=29501 " + trainer("--vllm_server_port 8000", devices="1,2", count=2),
            server("--port 8001", devices="3"),
            "MASTER_PORT=29502 " + trainer(f"--vllm_server_port 8001 {second}", devices="4,5", count=2),
        )
    )


def test_two_runs_share_the_weight_port(check: Checker) -> None:
    finding = only(check(two_pairs("")), "PRS005")
    assert "51216" in finding.message
    assert "--vllm_server_group_port 51217" in finding.message
    assert "PRS005" not in {f.code for f in check(two_pairs("--vllm_server_group_port 51217"))}


def test_one_after_the_other_may_share_it(check: Checker) -> None:
    script = two_pairs("").replace("count=2", "").splitlines()
    script[1] = script[1].removesuffix(" &")
    assert "PRS005" not in {f.code for f in check("\n".join(script) + "\n")}


def test_two_trainers_want_one_server(check: Checker) -> None:
    script = both(server(), "MASTER_PORT=29501 " + trainer(devices="0,1", count=2) + " &\nMASTER_PORT=29502 " + trainer(devices="2,3", count=2))
    assert only(check(script), "PRS113").severity == "error"


def test_a_server_that_makes_way_is_found(check: Checker) -> None:
    """`swift deploy` holds 8000, so the rollout server beside it ends up on 8001."""
    script = both(f"{teacher('')} &\n{server()}", trainer("--vllm_server_port 8001"))
    assert "PRS001" not in {f.code for f in check(script)}


@pytest.mark.parametrize(("port", "wanted", "severity"), [("", 8001, "warning"), ("--port 8000", 8001, "error"), ("", 9000, "error"), ("--port 8001", 8000, "error")])
def test_counting_on_a_moved_port_is_a_trap(check: Checker, port: str, wanted: int, severity: str) -> None:
    assert only(check(both(server(port), trainer(f"--vllm_server_port {wanted}"))), "PRS001").severity == severity


def test_commented_companion_counts(check: Checker) -> None:
    script = f"# {server('--vllm_max_model_len 4096')}\n\n{trainer('--max_length 4096 --max_completion_length 2048')}\n"
    finding = only(check(script), "PRS104")
    assert "4096 + max_completion_length 2048 = 6144" in finding.message


def test_files_given_together(check: Checker) -> None:
    found = check(server("--port 8123") + "\n", {"train.sh": trainer() + "\n"}, name="serve.sh")
    finding = only(found, "PRS001")
    assert finding.span is not None
    assert finding.span.file.endswith("train.sh")
    assert finding.fix is not None
    assert finding.fix.description == "--vllm_server_port 8123"


@pytest.mark.parametrize(("version", "found"), [("4.3.2", True), ("4.4.2", True), ("4.5.3", False), ("4.6.0", False)])
def test_async_adapter_by_version(check: Checker, version: str, found: bool) -> None:
    script = both(server("--vllm_use_async_engine true --vllm_enable_lora true"), trainer("--lora_rank 16"))
    assert ("PRS109" in {f.code for f in check(script, version=version)}) is found


def test_shared_teacher_devices_are_no_error(check: Checker) -> None:
    """No weights travel to a teacher; two programs on one card may just fit."""
    assert only(check(both(teacher(devices="3"), gkd())), "PRS002").severity == "warning"


def test_several_hosts_with_one_port(check: Checker) -> None:
    """One command started on two nodes serves both endpoints."""
    script = f"# on both nodes\n{server('--port 8002 --vllm_max_model_len 8192')}\n# trainer\n" + trainer("--vllm_server_port 8002 8002 --max_length 8192", host="10.0.0.1 10.0.0.2") + "\n"
    codes = [f.code for f in check(script)]
    assert codes.count("PRS104") == 1
    assert not {"PRS001", "PRS002", "PRS007", "PRS008"} & set(codes)
