"""`swift sample`: arguments, engine, shards, files and scoring."""

from __future__ import annotations

import json

import pytest

from .conftest import Checker

BASE = "swift sample --model Qwen/Qwen3-8B --dataset d/rows"
VLLM = f"{BASE} --sampler_engine vllm"

HITS = [
    ("SMP001", f"{VLLM} --output_file out/a.jsonl"),
    ("SMP001", f"{VLLM} --output_file 'out\\a.jsonl'"),
    ("SMP002", f"{VLLM} --engine_kwargs \"{{'max_model_len': 10}}\""),
    ("SMP002", f"{VLLM} --engine_kwargs ''"),
    ("SMP003", f"{VLLM} --vllm_tensor_parallel_size 4"),
    ("SMP003", f"{BASE} --sampler_engine lmdeploy --lmdeploy_tp 2"),
    ("SMP004", f"{VLLM} --engine_kwargs '{{\"vllm_max_model_len\": 10}}'"),
    ("SMP004", f"{VLLM} --engine_kwargs '{{\"template\": \"qwen3\"}}'"),
    ("SMP004", f"{VLLM} --engine_kwargs '[1]'"),
    ("SMP005", f"{VLLM} --sampler_type distill"),
    ("SMP005", f"{BASE} --sampler_engine client"),
    ("SMP005", f"{BASE} --sampler_engine no"),
    ("SMP006", f"{VLLM} --data_range 4 4"),
    ("SMP006", f"{VLLM} --data_range 1"),
    ("SMP006", f"{VLLM} --data_range 0 0"),
    ("SMP007", f"{VLLM.replace('d/rows', 'd/rows#10')} --data_range 0 4 --num_sampling_batch_size 3"),
    ("SMP007", f"{VLLM} --num_sampling_batch_size 0"),
    ("SMP009", f"{VLLM} --n_best_to_keep 2"),
    ("SMP009", f"{VLLM} --orm_model math --num_return_sequences 4 --n_best_to_keep 4"),
    ("SMP009", f"{VLLM} --orm_model math --prm_threshold 0.5"),
    ("SMP010", f"{VLLM} --prm_model qwen_max --easy_query_threshold 0.5"),
    ("SMP011", f"{VLLM} --temperature 0"),
    ("SMP011", f"{VLLM} --num_return_sequences 4 --top_k 1"),
    ("SMP012", "swift sample --model Qwen/Qwen3-8B --sampler_engine vllm"),
    ("SMP012", f"{VLLM} --streaming true"),
    ("SMP014", f"CUDA_VISIBLE_DEVICES=0,1 {VLLM}"),
    ("SMP014", f"CUDA_VISIBLE_DEVICES=0,1,2,3 {VLLM} --engine_kwargs '{{\"tensor_parallel_size\": 2}}'"),
    ("SMP015", f"{VLLM} --orm_model accuracy"),
    ("SMP015", f"{VLLM} --prm_model client"),
    ("SMP015", f"{VLLM} --orm_model maths"),
    ("SMP016", f"{VLLM} --prm_model Qwen/Qwen2.5-Math-PRM-7B"),
]

MISSES = [
    ("SMP001", f"{VLLM} --output_dir out --output_file a.jsonl"),
    ("SMP001", f"{VLLM} --output_file $(name)"),
    ("SMP002", f"{VLLM} --engine_kwargs '{{\"max_model_len\": 10}}'"),
    ("SMP003", f"{VLLM} --engine_kwargs '{{\"tensor_parallel_size\": 4}}'"),
    ("SMP003", f"{VLLM} --vllm_tensor_parallel_size 4 --ignore_args_error true"),
    ("SMP003", f"{VLLM} --nonsense 4"),
    ("SMP004", f"{VLLM} --engine_kwargs '{{\"max_model_len\": 10, \"torch_dtype\": \"float16\"}}'"),
    ("SMP005", "swift sample --model qwen-max --dataset d/rows --sampler_type distill --sampler_engine client"),
    ("SMP005", f"{BASE} --sampler_engine no --cache_files a.jsonl"),
    ("SMP005", f"{BASE} --sampler_engine no --cache_files $(ls)"),
    ("SMP006", f"{VLLM} --data_range 3 4"),
    ("SMP006", f"{VLLM} --data_range $(rank) 4"),
    ("SMP007", f"{VLLM.replace('d/rows', 'd/rows#12')} --data_range 0 4 --num_sampling_batch_size 3"),
    ("SMP007", f"{VLLM} --num_sampling_batch_size 300"),
    ("SMP009", f"{VLLM} --orm_model math --num_return_sequences 4 --n_best_to_keep 2"),
    ("SMP009", f"{VLLM} --n_best_to_keep 2 $(get_args)"),
    ("SMP009", f"{VLLM}"),
    ("SMP010", f"{VLLM} --prm_model qwen_max --orm_model math --easy_query_threshold 0.5"),
    ("SMP011", f"{VLLM} --temperature 0 --num_return_sequences 1"),
    ("SMP011", f"{VLLM} --temperature 0.5"),
    ("SMP012", VLLM),
    ("SMP014", f"CUDA_VISIBLE_DEVICES=0 {VLLM}"),
    ("SMP014", f"CUDA_VISIBLE_DEVICES=0,1 {BASE}"),
    ("SMP014", f"CUDA_VISIBLE_DEVICES=0,1 {VLLM} --engine_kwargs '{{\"tensor_parallel_size\": 2}}'"),
    ("SMP015", f"{VLLM} --orm_model math --prm_model qwen_max"),
    ("SMP015", f"{VLLM} --orm_model mine --external_plugins elsewhere.py"),
    ("SMP015", f"{VLLM} --orm_model someone/reward-model"),
    ("SMP016", f"{VLLM} --prm_model qwen_max"),
    ("SMP016", f"{BASE} --prm_model Qwen/Qwen2.5-Math-PRM-7B"),
    ("SMP016", f"{VLLM} --prm_model Qwen/Qwen2.5-Math-PRM-7B --engine_kwargs '{{\"gpu_memory_utilization\": 0.5}}'"),
]


@pytest.mark.parametrize(("code", "script"), HITS)
def test_found(check: Checker, code: str, script: str) -> None:
    found = check(script)
    assert code in {f.code for f in found}, [f.message for f in found]


@pytest.mark.parametrize(("code", "script"), MISSES)
def test_silent(check: Checker, code: str, script: str) -> None:
    found = check(script)
    assert code not in {f.code for f in found}, [f.message for f in found if f.code == code]


def test_engine_flags_become_json(check: Checker) -> None:
    script = f"{VLLM} --vllm_tensor_parallel_size 4 --vllm_max_model_len 16384 --engine_kwargs '{{\"seed\": 1}}'"
    (found,) = [f for f in check(script) if f.code == "SMP003"]
    assert found.fix is not None
    text = found.fix.description.partition("'")[2].rstrip("'")
    assert json.loads(text) == {"seed": 1, "tensor_parallel_size": 4, "max_model_len": 16384}


def test_an_output_that_is_there_ends_the_run(check: Checker) -> None:
    script = f"{VLLM} --output_dir out --output_file a.jsonl"
    assert "SMP008" in {f.code for f in check(script, {"out/a.jsonl": "{}\n"})}
    assert "SMP008" not in {f.code for f in check(f"{script} --override_exist_file true", {"out/a.jsonl": "{}\n"})}
    assert "SMP008" not in {f.code for f in check(script.replace("a.jsonl", "b.jsonl"), {"out/a.jsonl": "{}\n"})}


JOBS = f"{VLLM} --output_dir {{first}} --output_file a.jsonl {{more}}\n{VLLM} --output_dir {{second}} --output_file {{file}} {{more}}\n"


@pytest.mark.parametrize(
    ("first", "second", "file", "more", "fires"),
    [
        ("out", "out", "b.jsonl", "--resume true", True),
        ("out", "out", "b.jsonl", "", False),
        ("out", "out2", "b.jsonl", "--resume true", False),
        ("out", "out", "a.jsonl", "", True),
        ("out", "out", "a.jsonl", "--override_exist_file true", False),
        ("out", "out", "$(name)", "--resume true", False),
    ],
)
def test_jobs_that_share_files(check: Checker, first: str, second: str, file: str, more: str, fires: bool) -> None:
    assert ("SMP013" in {f.code for f in check(JOBS.format(first=first, second=second, file=file, more=more))}) is fires


def test_shards_in_a_loop_share_a_checkpoint(check: Checker) -> None:
    loop = f"for i in 0 1; do\n  {VLLM} --output_dir out --output_file part_$i.jsonl --data_range $i 2 --resume true\ndone\n"
    assert "SMP013" in {f.code for f in check(loop)}
    own = loop.replace("--output_dir out", "--output_dir out/$i")
    assert "SMP013" not in {f.code for f in check(own)}
