"""Servers that cannot give what a trainer asks for: teachers without log-probabilities, servers that take no weights, one server for two."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.pairs import Endpoint, listens_on, rollout_endpoints

from .nodes import at_the_same_time
from .pairs import teachers
from .pairs_match import once_a_trainer
from .registry import rule
from .rl import whole

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.swift.effective import View

    from .context import RunCheck


@rule("PRS110", "teacher-returns-too-few-logprobs", consequence="wrong", scope="run", since="4.0")
def teacher_returns_too_few_logprobs(run: RunCheck) -> Iterator[Finding]:
    """The teacher server permits fewer log-probabilities than GKD asks for.

    `gkd_logits_topk` of the trainer must not exceed the server's `--max_logprobs`, 20 by default.

    In the log: `Requested prompt logprobs of 64, which is greater than max allowed: 20`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --infer_backend vllm --port 8100 &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 64
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --infer_backend vllm --port 8100 --max_logprobs 64 &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 64
    ```

    Source: swift/pipelines/infer/deploy.py (engine_kwargs max_logprobs); vllm/sampling_params.py
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(teachers(run)):
        top, most = whole(pair.trainer.get("gkd_logits_topk")), whole(pair.server.get("max_logprobs"))
        if pair.trainer.rlhf_type != "gkd" or top is None or most is None or top <= most or most < 0:
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        default = "" if pair.server.use("max_logprobs") is not None else " (the default)"
        template = "the trainer asks for the top {top} tokens, but the teacher server permits {most}{default}; give it --max_logprobs {top}, or use --gkd_logits_topk {most}"
        yield trainer.finding(
            template, "gkd_logits_topk", flags=["max_logprobs"], related=[(server.span("max_logprobs"), f"permits {most}")], top=top, most=most, default=default,
            fix=server.set_flag("max_logprobs", str(top)),
        )  # fmt: skip


@rule("PRS111", "teacher-without-vllm", consequence="wrong", scope="run", since="4.0")
def teacher_without_vllm(run: RunCheck) -> Iterator[Finding]:
    """A teacher server on an engine that returns no prompt log-probabilities.

    Only vLLM gives the log-probabilities of a prompt. `swift deploy` runs transformers unless `--infer_backend vllm` is given; the teacher's answers then
    come back empty, and GKD's loss is 0.

    In the log: `loss: 0.0`, or `Teacher logp count …`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --port 8100 &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 20
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift deploy --model Qwen/Qwen3-32B --port 8100 --infer_backend vllm &
    CUDA_VISIBLE_DEVICES=1,2 NPROC_PER_NODE=2 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 20
    ```

    Source: swift/infer_engine/vllm_engine.py:VllmEngine (prompt_logprobs); swift/rlhf_trainers/utils.py:parse_prompt_logprobs
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(teachers(run)):
        backend = pair.server.get("infer_backend")
        if not isinstance(backend, str) or backend == "vllm" or not pair.agreed:
            continue
        server = run.job(pair.server)
        default = "" if pair.server.use("infer_backend") is not None else " (the default)"
        template = "the teacher server runs {backend}{default}, which returns no prompt log-probabilities; give it --infer_backend vllm"
        related = [(run.job(pair.trainer).span("teacher_model_server"), "the trainer")]
        yield server.finding(
            template, "infer_backend", flags=["teacher_model_server"], related=related, backend=backend, default=default, fix=server.set_flag("infer_backend", "vllm")
        )  # fmt: skip


@rule("PRS112", "rollout-from-a-deploy-server", consequence="wrong", scope="run", since="3.10")
def rollout_from_a_deploy_server(run: RunCheck) -> Iterator[Finding]:
    """A trainer in server mode whose server is `swift deploy`.

    Only `swift rollout` can receive weights. `swift deploy` answers the health check, and then has no `/get_world_size/`.

    In the log: `Exception: Server 0 failed: {"detail":"Not Found"}`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift deploy --model Qwen/Qwen3-8B --infer_backend vllm &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMClient.init_communicator; swift/pipelines/infer/deploy.py
    Not shown on CPU: no server is there
    """
    if run.servers:
        return
    deployed = run.of_route("swift deploy")
    teaching = {pair.server.index for pair in teachers(run)}
    for view in run.views:
        for endpoint in rollout_endpoints(view):
            server = next((s for s in deployed if s.index not in teaching and listens_on(s) == endpoint.port and endpoint.local), None)
            if server is not None:
                c = run.job(server)
                template = "the trainer takes this `swift deploy` for its rollout server ({host}:{port}), but only `swift rollout` can receive weights"
                related = [(run.job(view).span(endpoint.flag), "the trainer")]
                yield c.finding(template, None, flags=[endpoint.flag], related=related, host=endpoint.host, port=endpoint.port, fix="swift rollout in place of swift deploy")


@rule("PRS113", "two-trainers-on-one-server", consequence="wrong", scope="run", since="4.0")
def two_trainers_on_one_server(run: RunCheck) -> Iterator[Finding]:
    """Two trainers at the same time on one rollout server.

    A server has one weight group: the second trainer closes the first one's and puts its own weights in. The first then waits for ever, or trains on the
    other's completions.

    In the log: `Communicator not initialized`, or nothing

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 MASTER_PORT=29501 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset a.jsonl --reward_funcs accuracy --num_generations 2 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1 &
    CUDA_VISIBLE_DEVICES=2,3 NPROC_PER_NODE=2 MASTER_PORT=29502 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset b.jsonl --reward_funcs accuracy --num_generations 2 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1 NPROC_PER_NODE=2 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset a.jsonl --reward_funcs accuracy --num_generations 2 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMClient.init_communicator, close_communicator
    Not shown on CPU: no server is there
    """
    seen: list[tuple[View, Endpoint]] = []
    for view in run.views:
        for endpoint in rollout_endpoints(view):
            key = (endpoint.host, endpoint.port)
            other = next(
                (a for a, e in seen if a is not view and (e.host, e.port) == key and endpoint.port is not None and at_the_same_time(run.run, a.job, view.job)), None
            )
            seen.append((view, endpoint))
            if other is not None:
                c = run.job(view)
                template = "two trainers at the same time on the rollout server {host}:{port}: each needs a server of its own"
                related = [(run.job(other).span(endpoint.flag), "the other trainer")]
                flags = ["vllm_server_port"]
                yield c.finding(template, endpoint.flag, flags=flags, related=related, host=endpoint.host, port=endpoint.port, fix="another `swift rollout` on another port")
