"""A trainer and its server: the same model and template, LoRA, lengths, schedulers and environments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alula.swift.launch import env_text
from alula.swift.parse import UNKNOWN

from .beside import data_of
from .pairs import rollouts
from .registry import rule
from .rl import empty, given, whole

if TYPE_CHECKING:
    from alula.run.finding import Finding
    from alula.swift.effective import View
    from alula.swift.pairs import Pair

    from .context import JobCheck, RunCheck

IMAGE_VARIABLES = (
    "MAX_PIXELS", "MIN_PIXELS", "VIDEO_MAX_PIXELS", "VIDEO_MIN_PIXELS", "VIDEO_TOTAL_PIXELS", "FPS", "FPS_MAX_FRAMES", "NFRAMES", "MAX_NUM",
    "IMAGE_MAX_TOKEN_NUM", "VIDEO_MAX_TOKEN_NUM", "MAX_SLICE_NUMS", "INPUT_SIZE",
)  # fmt: skip
"""They decide into how many tokens an image goes, on either side."""

NEEDS_ROWS = {"math_tip_trick": "solution", "thinking_tips_scheduler": "solution", "math_env": "problem"}
"""Built-in schedulers and environments that read a column of the row, and the column."""

GYM_SCHEDULERS = ("gym_scheduler", "openenv_scheduler")


def once_a_trainer(pairs: list[Pair]) -> Iterator[Pair]:
    """Each trainer with each of its servers once, however many endpoints lead there."""
    seen: set[tuple[int, int]] = set()
    for pair in pairs:
        key = (pair.trainer.index, pair.server.index)
        if key not in seen:
            seen.add(key)
            yield pair


@rule("PRS101", "different-models", consequence="wrong", scope="run", since="4.0")
def different_models(run: RunCheck) -> Iterator[Finding]:
    """The server holds another model than the trainer trains.

    The trainer sends its weights by name and shape: with another architecture or size the first synchronisation fails. A variant of the same size is
    overwritten by the trainer's weights, but keeps its own tokenizer and chat template.

    In the log: a shape or name error in the server's log (`Method execution failed`), while the trainer waits

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-4B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/pipelines/infer/rollout.py:WeightSyncWorkerExtension.update_flattened_params
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(rollouts(run)):
        mine, theirs = pair.trainer.get("model"), pair.server.get("model")
        if not isinstance(mine, str) or not isinstance(theirs, str) or _base(mine) == _base(theirs):
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        a, b = trainer.model_shape(mine), server.model_shape(theirs)
        related = [(trainer.span("model"), "the trainer's model")]
        if a is None or b is None or a is run.model or b is run.model:
            continue
        same = (a.hidden_size, a.layers, a.heads, a.kv_heads, a.vocab, a.experts) == (b.hidden_size, b.layers, b.heads, b.kv_heads, b.vocab, b.experts)
        if same:
            template = "the server starts from {theirs}, the trainer from {mine}: same shape, so its weights are replaced, but it keeps its own chat template"
        else:
            template = "the server holds {theirs}, but the trainer trains {mine}: their weights have different shapes and cannot be synchronised"
        finding = server.finding(template, "model", related=related, theirs=theirs, mine=mine, fix=server.set_flag("model", mine))
        yield replace(finding, severity="warning", confidence="medium") if same else finding


def _base(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1].lower()


@rule("PRS102", "lora-sync-on-one-side", severity="warning", consequence="waste", scope="run", since="4.0")
def lora_sync_on_one_side(run: RunCheck) -> Iterator[Finding]:
    """Adapter-only synchronisation asked for on the trainer but not on the server.

    In server mode the server decides: without `--vllm_enable_lora true` on `swift rollout` the trainer merges its adapter and sends the whole model
    before every rollout.

    In the log: long weight synchronisation

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_max_lora_rank 16 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 16 --vllm_enable_lora true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_enable_lora true --vllm_max_lora_rank 16 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 16 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm
    """
    for pair in once_a_trainer(rollouts(run)):
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        mine, theirs, tuner = given(pair.trainer, "vllm_enable_lora"), pair.server.get("vllm_enable_lora"), pair.trainer.get("tuner_type")
        rank = whole(pair.trainer.get("lora_rank")) or 8
        if mine is True and theirs is False and tuner == "lora":
            template = (
                "--vllm_enable_lora true on the trainer does nothing in server mode: the server decides. Give `swift rollout` --vllm_enable_lora true "
                "--vllm_max_lora_rank {rank} (at least lora_rank {lora})"
            )
            fix = server.set_flag("vllm_enable_lora", "true")
            related = [(server.span(None), "the server runs without LoRA")]
            yield trainer.finding(template, "vllm_enable_lora", flags=["vllm_max_lora_rank", "lora_rank"], related=related, rank=max(rank, 16), lora=rank, fix=fix)
        elif theirs is True and tuner == "full":
            template = "--vllm_enable_lora true on the server does nothing: the trainer trains all weights (--tuner_type full)"
            related = [(trainer.span("tuner_type"), "full training")]
            yield server.finding(template, "vllm_enable_lora", flags=["tuner_type"], related=related, fix=server.drop_flag("vllm_enable_lora"))


@rule("PRS103", "lora-rank-too-large", consequence="wrong", scope="run", since="4.0")
def lora_rank_too_large(run: RunCheck) -> Iterator[Finding]:
    """The trainer's adapter has a higher rank than the server's engine was built for.

    The engine reserves room for adapters up to `vllm_max_lora_rank`, 16 by default, and refuses larger ones.

    In the log: `ValueError: LoRA rank 64 is greater than max_lora_rank 16` in the server's log, while the trainer waits

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_enable_lora true &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 64 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_enable_lora true --vllm_max_lora_rank 64 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 64 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: vllm/lora/worker_manager.py; swift/arguments/deploy_args.py:RolloutArguments
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(rollouts(run)):
        rank, most = whole(pair.trainer.get("lora_rank")), whole(pair.server.get("vllm_max_lora_rank"))
        if pair.server.get("vllm_enable_lora") is not True or pair.trainer.get("tuner_type") != "lora" or rank is None or most is None or rank <= most:
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        default = "" if pair.server.use("vllm_max_lora_rank") is not None else " (the default)"
        fits = next((size for size in (8, 16, 32, 64, 128, 256, 320, 512) if size >= rank), rank)
        template = "the trainer's lora_rank {rank} is above the server's vllm_max_lora_rank {most}{default}; give `swift rollout` --vllm_max_lora_rank {fits}"
        yield server.finding(
            template, "vllm_max_lora_rank" if not default else "vllm_enable_lora", flags=["vllm_max_lora_rank", "lora_rank"],
            related=[(trainer.span("lora_rank"), f"rank {rank}")], rank=rank, most=most, default=default, fits=fits, fix=server.set_flag("vllm_max_lora_rank", str(fits)),
        )  # fmt: skip


@rule("PRS104", "server-context-too-short", severity="warning", consequence="wrong", scope="run", since="3.10")
def server_context_too_short(run: RunCheck) -> Iterator[Finding]:
    """The server's context does not hold the trainer's longest prompt and completion.

    The server's `vllm_max_model_len` must be at least the trainer's `max_length` (the prompt) plus `max_completion_length`, in tokens. Multi-turn
    conversations need room for all their turns.

    In the log: `max_model_len(24000) - num_tokens(…) < max_tokens(8192). Setting max_tokens: …` on the server; HTTP 500 for longer prompts

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_max_model_len 8192 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --max_length 8192 --max_completion_length 4096 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --vllm_max_model_len 12288 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --max_length 8192 --max_completion_length 4096 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/infer_engine/infer_engine.py:InferEngine.set_default_max_tokens
    """
    for pair in once_a_trainer(rollouts(run)):
        length = whole(pair.server.get("vllm_max_model_len"))
        prompt, completion = whole(pair.trainer.get("max_length")), whole(pair.trainer.get("max_completion_length"))
        if length is None or completion is None or length >= (prompt or 0) + completion + (0 if prompt else 1):
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        wanted = prompt + completion if prompt is not None else completion * 2
        if prompt is not None:
            template = (
                "the server's vllm_max_model_len {length} is below the trainer's max_length {prompt} + max_completion_length {completion} = {wanted} tokens; "
                "give `swift rollout` --vllm_max_model_len {wanted}, or shorter limits"
            )
        else:
            template = "the server's vllm_max_model_len {length} leaves no room for a prompt beside the trainer's max_completion_length {completion}; raise it"
        yield server.finding(
            template, "vllm_max_model_len", flags=["max_length", "max_completion_length"], related=[(trainer.span("max_completion_length"), "the trainer's limits")],
            length=length, prompt=prompt, completion=completion, wanted=wanted, fix=server.set_flag("vllm_max_model_len", str(wanted)),
        )  # fmt: skip


@rule("PRS105", "gym-on-one-side", consequence="wrong", scope="run", since="4.3")
def gym_on_one_side(run: RunCheck) -> Iterator[Finding]:
    """A gym environment that only one side knows.

    The trainer reads the environment's reward from what the server returns. Asked for on the trainer only, that value is missing; switched off on the
    trainer, the server's reward is dropped. Left out on the trainer, it follows the server.

    In the log: `KeyError: 'total_reward'`

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_generations 4 --use_gym_env true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler gym_scheduler --max_turns 4 --use_gym_env true --gym_env math_env &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --num_generations 4 --use_gym_env true --vllm_server_pass_dataset true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._prepare_vllm; swift/rl_core/grpo_algorithm.py
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(rollouts(run)):
        if pair.trainer.rlhf_type != "grpo" or pair.trainer.get("multi_turn_scheduler") is not None:
            continue  # a scheduler on the trainer brings its own environment
        mine, theirs = pair.trainer.get("use_gym_env"), pair.server.get("use_gym_env")
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        at = "use_gym_env" if pair.trainer.use("use_gym_env") is not None else "gym_env"
        if mine is True and theirs is False:
            template = "the trainer expects a gym reward, but its server has no environment; start it with --multi_turn_scheduler gym_scheduler --use_gym_env true --gym_env …"
            related = [(server.span(None), "no environment")]
            yield trainer.finding(template, at, flags=["use_gym_env", "gym_env"], related=related, fix="--use_gym_env true --gym_env … on `swift rollout`")
        elif mine is False and theirs is True:
            template = "--use_gym_env false on the trainer drops the reward that the server's environment gives; leave it out, and it follows the server"
            related = [(server.span("gym_env"), "the environment")]
            finding = trainer.finding(template, at, flags=["gym_env"], related=related, fix=trainer.drop_flag("use_gym_env"))
            yield replace(finding, severity="warning")


@rule("PRS106", "rows-not-passed-to-server", consequence="wrong", scope="run", since="4.0")
def rows_not_passed_to_server(run: RunCheck) -> Iterator[Finding]:
    """A scheduler on the server that needs the row, and a trainer that does not send it.

    Only messages and media travel to the server, unless `--vllm_server_pass_dataset true` sends the other columns too, as `data_dict`. The built-in tip
    schedulers read the column `solution`, gym environments `env_config`.

    In the log: `KeyError: 'solution'` in the server's log, HTTP 500 on the trainer

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --vllm_server_pass_dataset true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin.samples2requests; swift/rollout/multi_turn.py
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(rollouts(run)):
        scheduler = pair.server.get("multi_turn_scheduler")
        if pair.trainer.get("vllm_server_pass_dataset") is not False or not isinstance(scheduler, str) or pair.trainer.get("multi_turn_scheduler") is not None:
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        related = [(server.span("multi_turn_scheduler"), scheduler)]
        fix = trainer.set_flag("vllm_server_pass_dataset", "true")
        gym = pair.server.get("gym_env") if scheduler in GYM_SCHEDULERS or pair.server.get("use_gym_env") is True else scheduler
        reader = gym if gym is not None else scheduler
        if reader in NEEDS_ROWS:
            template = "the server's {reader} reads the column {column}, which the trainer does not send: add --vllm_server_pass_dataset true here"
            yield trainer.finding(template, None, flags=["vllm_server_pass_dataset"], related=related, reader=reader, column=NEEDS_ROWS[reader], fix=fix)
        elif gym is None or (gym is not UNKNOWN and gym != scheduler and _has_column(trainer, "env_config")):
            template = "the server's environment gets no columns of the row (its name and settings in env_config): add --vllm_server_pass_dataset true here"
            yield replace(trainer.finding(template, None, flags=["vllm_server_pass_dataset"], related=related, fix=fix), severity="warning", confidence="medium")


def _has_column(c: JobCheck, name: str) -> bool:
    data = data_of(c)
    return data is not None and data.columns is not None and name in data.columns


@rule("PRS107", "sides-encode-differently", severity="warning", consequence="wrong", confidence="medium", scope="run", since="4.0")
def sides_encode_differently(run: RunCheck) -> Iterator[Finding]:
    """Server and trainer turn the same conversation into different tokens.

    The server encodes the prompt and samples, the trainer encodes prompt and completion again and computes probabilities. Template, thinking mode and
    image size must therefore be given alike on both sides; a difference shows as a gap between the log-probabilities of the two.

    In the log: large `rollout_correction/kl`, or shape mismatches with images

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --enable_thinking false --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --enable_thinking false &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --enable_thinking false --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/pipelines/infer/rollout.py:llm_worker (its own template)
    """
    for pair in once_a_trainer(rollouts(run)):
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        for name in ("template", "enable_thinking", "max_pixels"):
            mine, theirs = given(pair.trainer, name), given(pair.server, name)
            if UNKNOWN in (mine, theirs) or mine == theirs or (name == "template" and None in (mine, theirs)):
                continue
            template = "--{name} is {mine} on the trainer and {theirs} on the server: both encode the prompt and must agree"
            c, at = (trainer, server) if mine is not None else (server, trainer)
            value = mine if mine is not None else theirs
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield c.finding(
                template, name, related=[(at.span(name), "the other side")], name=name, mine=_shown(mine), theirs=_shown(theirs), fix=at.set_flag(name, text)
            )  # fmt: skip
        for name in IMAGE_VARIABLES:
            mine, theirs = _variable(pair.trainer, name), _variable(pair.server, name)
            if UNKNOWN in (mine, theirs) or mine == theirs or (pair.server.job.commented and theirs is None):
                continue
            c, at = (trainer, server) if mine is not None else (server, trainer)
            template = "{name} is {mine} for the trainer and {theirs} for the server: images become different numbers of tokens; set it on both sides"
            fix = at.set_env(name, str(mine if mine is not None else theirs))
            yield c.finding(template, name, related=[(at.span(None), "the other side")], name=name, mine=_shown(mine), theirs=_shown(theirs), fix=fix)


def _variable(view: View, name: str) -> Any:
    if name not in view.job.env:
        return None
    text = env_text(view.job.env, name)
    return UNKNOWN if text is None else text


def _shown(value: Any) -> str:
    return "not given" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@rule("PRS108", "adapter-only-on-server", severity="warning", consequence="wrong", scope="run", since="4.0")
def adapter_only_on_server(run: RunCheck) -> Iterator[Finding]:
    """Adapters given to the rollout server but not to the trainer.

    The server does not load them; it generates with what the trainer sends. Without `--adapters` the trainer begins a fresh adapter on the base model, so
    the SFT stage is lost. To continue from it give the trainer `--adapters` (and `--ref_adapters` for the KL reference), or merge it first.

    In the log: nothing; the first rewards are those of the base model

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --adapters output/sft/checkpoint-900 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --adapters output/sft/checkpoint-900 --ref_adapters output/sft/checkpoint-900 --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/pipelines/infer/rollout.py:SwiftRolloutDeploy.get_infer_engine
    """
    for pair in once_a_trainer(rollouts(run)):
        adapters = pair.server.get("adapters")
        if not isinstance(adapters, tuple) or not adapters or not empty(pair.trainer.get("adapters")) or not empty(pair.trainer.get("resume_from_checkpoint")):
            continue
        trainer, server = run.job(pair.trainer), run.job(pair.server)
        template = (
            "the server is given --adapters {adapter}, but the trainer starts a fresh adapter from the base model and overwrites the server's weights; "
            "give the trainer --adapters {adapter} --ref_adapters {adapter}, or merge the adapter and use the merged model on both sides"
        )
        yield server.finding(
            template, "adapters", flags=["ref_adapters"], related=[(trainer.span("model"), "the trainer starts here")], adapter=adapters[0],
            fix=trainer.set_flag("adapters", str(adapters[0])),
        )  # fmt: skip


@rule("PRS109", "async-engine-keeps-old-adapter", consequence="wrong", scope="run", since="4.0", until="4.4")
def async_engine_keeps_old_adapter(run: RunCheck) -> Iterator[Finding]:
    """An asynchronous rollout engine that never uses the adapter it is sent.

    Up to 4.4 the asynchronous engine received the trainer's adapters, but generated without them. Send merged weights (no `vllm_enable_lora`), or use 4.5.

    In the log: nothing; rewards stay flat while the KL divergence grows

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 --vllm_enable_lora true --vllm_max_lora_rank 16 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 16 --vllm_server_pass_dataset true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=7 swift rollout --model Qwen/Qwen3-8B --multi_turn_scheduler math_tip_trick --max_turns 3 &
    CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 4 --tuner_type lora --lora_rank 16 --vllm_server_pass_dataset true --use_vllm true --vllm_mode server --vllm_server_host 127.0.0.1
    ```

    Source: swift/infer_engine/grpo_vllm_engine.py:GRPOVllmEngine.infer_async (4.5 adds the adapter)
    Not shown on CPU: no server is there
    """
    for pair in once_a_trainer(rollouts(run)):
        if pair.server.get("vllm_enable_lora") is True and pair.server.get("vllm_use_async_engine") is True and pair.trainer.get("tuner_type") == "lora":
            server = run.job(pair.server)
            template = (
                "in ms-swift {version} the asynchronous engine generates without the adapter it is sent; turn --vllm_enable_lora off on both sides (merged weights "
                "are sent then), or use 4.5"
            )
            fix = server.drop_flag("vllm_enable_lora")
            yield server.finding(template, "vllm_enable_lora", flags=["vllm_use_async_engine"], version=run.facts.version, fix=fix)
