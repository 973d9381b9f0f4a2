"""`swift sample`, the rejection-sampling loop, and plain `swift sft` where Ray places it."""

from __future__ import annotations

from typing import Any

from ..sizes import engine_tensor_parallel
from ..words import Required, job, override
from . import Kitchen, Made

ROUNDS = 2


def sample(k: Kitchen) -> Made:
    """sample: best of n by a scorer; distill: answers of a served model; rft: sample and train in turns."""
    made = Made()
    if k.intent.sampling == "rft":
        return _rft(k, made)
    if k.intent.sampling == "distill":
        flags: dict[str, Any] = {
            "sampler_type": "distill", "sampler_engine": "client", "model": k.intent.model or Required("MODEL"),
            "dataset": list(k.intent.dataset) or Required("DATASET"), "num_return_sequences": 1,
            "engine_kwargs": {"base_url": "http://127.0.0.1:8000/v1", "api_key": "EMPTY"}, "output_dir": f"{k.intent.output}/distill",
            "output_file": "distilled.jsonl",
        }  # fmt: skip
        made.assumptions.append("an OpenAI-compatible server answers at http://127.0.0.1:8000/v1 under the model's name")
    else:
        flags = _sample_flags(k, k.intent.model or Required("MODEL"), f"{k.intent.output}/sample")
        made.assumptions.append("every row ends with an assistant message, the ground truth that `math` compares with")
    env = {}
    if k.intent.sampling == "sample" and not k.intent.ray:
        env = _engine(k, made, flags)
    if k.intent.ray:
        flags |= _sample_groups(k)
        made.assumptions.append("Ray runs already; half of the GPUs sample, half score")
    flags = override(flags, k.intent.settings, k.facts.flags("swift sample"))
    made.jobs.append(job("swift sample", flags, env))
    return made


def _sample_flags(k: Kitchen, model: str, output: str) -> dict[str, Any]:
    return {
        "model": model, "sampler_engine": "transformers" if k.intent.ray else "vllm", "dataset": list(k.intent.dataset) or Required("DATASET"),
        "orm_model": "math", "num_return_sequences": 8, "n_best_to_keep": 2, "output_dir": output, "output_file": "samples.jsonl",
    }  # fmt: skip


def _engine(k: Kitchen, made: Made, flags: dict[str, Any]) -> dict[str, str]:
    """One vLLM engine over as few devices as hold the model; `swift sample` starts no more."""
    size, said = engine_tensor_parallel(k.shape, k.card_gib, k.intent.gpus, share=0.8)
    made.assumptions.append(said)
    if size > 1:
        flags["engine_kwargs"] = {"tensor_parallel_size": size}
    if size < k.intent.gpus:
        made.assumptions.append(f"{k.intent.gpus - size} GPUs stay idle: start more of these, each with its own devices, --data_range i n and --output_file")
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(size)))}


def _sample_groups(k: Kitchen) -> dict[str, Any]:
    half = max(1, k.intent.gpus // 2)
    groups: dict[str, Any] = {"nproc_per_node": k.intent.gpus, "samplers": {"device": "GPU", "ranks": half, "workers": ["sampler"]}}
    if k.intent.gpus > half:
        groups["scorers"] = {"device": "GPU", "ranks": f"list(range({half}, {k.intent.gpus}))", "workers": ["prm", "orm"]}
    else:
        groups["samplers"]["workers"] = ["sampler", "prm", "orm"]
    return {"use_ray": True, "device_groups": groups}


def _rft(k: Kitchen, made: Made) -> Made:
    """Rounds of: sample from the model, train on the best answers, go on from there."""
    model: str = k.intent.model or Required("MODEL")
    for number in range(1, ROUNDS + 1):
        folder = f"{k.intent.output}/round{number}"
        flags = _sample_flags(k, model, folder)
        env = _engine(k, made if number == 1 else Made(), flags)
        made.jobs.append(job("swift sample", override(flags, k.intent.settings, k.facts.flags("swift sample")), env))
        train: dict[str, Any] = {
            "model": model, "dataset": f"{folder}/samples.jsonl", "tuner_type": "full", "learning_rate": 1e-6, "deepspeed": "zero3" if k.intent.gpus > 1 else None,
            "num_train_epochs": 1, "output_dir": f"{folder}/model", "add_version": False, "create_checkpoint_symlink": True,
        }  # fmt: skip
        launch = {"nproc": k.intent.gpus} if k.intent.gpus > 1 else {}
        made.jobs.append(job("swift sft", train, {} if k.intent.gpus > 1 else {"CUDA_VISIBLE_DEVICES": "0"}, launch))
        model = f"{folder}/model/last"
    made.sequence = True
    made.assumptions += [
        f"{ROUNDS} rounds; each trains the whole model, so that the next round can sample from it",
        "every row ends with an assistant message, the ground truth that `math` compares with",
    ]
    return made


def sft(k: Kitchen) -> Made:
    """`swift sft`, alone or placed by Ray's device_groups."""
    made = Made()
    intent = k.intent
    flags: dict[str, Any] = {
        "model": intent.model or Required("MODEL"), "dataset": list(intent.dataset) or Required("DATASET"), "tuner_type": intent.tuner,
        "deepspeed": intent.sharding if intent.sharding in ("zero2", "zero3") else None, "output_dir": f"{intent.output}/sft",
    }  # fmt: skip
    launch: dict[str, Any] = {}
    env: dict[str, str] = {}
    if intent.ray:
        ranks = intent.gpus * intent.nodes
        groups = {"nproc_per_node": intent.gpus, "default": {"device": "GPU", "ranks": ranks, "workers": ["default"]}}
        flags |= {"use_ray": True, "device_groups": groups}
        made.assumptions.append("Ray runs already on all nodes")
    elif intent.sharding == "single":
        env = {"CUDA_VISIBLE_DEVICES": "0"}
    else:
        launch = {"nproc": intent.gpus}
        if intent.nodes > 1:
            launch |= {"nnodes": intent.nodes, "node_rank": Required("NODE_RANK"), "master_addr": Required("MASTER_ADDR"), "master_port": 29500}
    flags = override(flags, intent.settings, k.facts.flags("swift sft"))
    made.jobs.append(job("swift sft", flags, env, launch))
    return made
