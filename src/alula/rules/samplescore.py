"""Scoring in `swift sample`: reward names, thresholds, and how many candidates are kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .beside import plugins_of
from .context import JobCheck, names
from .registry import rule
from .rl import number, set_to, whole

if TYPE_CHECKING:
    from alula.run.finding import Finding

_ROUTE = ("swift sample",)


@rule("SMP009", "best-of-without-score", severity="warning", consequence="wrong", routes=_ROUTE)
def best_of_without_score(c: JobCheck) -> Iterator[Finding]:
    """Choosing the best candidates without anything that scores them, or from too few.

    Without `--orm_model` and `--prm_model` every candidate is written, whatever `n_best_to_keep` and the thresholds say. With `n_best_to_keep` at or above
    `num_return_sequences` scoring leaves out the worst candidate alone.

    In the log: `prm_model is None.` and `orm_model is None.`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 16 --n_best_to_keep 2
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 16 --n_best_to_keep 2 --orm_model math
    ```

    Source: swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler.do_sample
    """
    orm, prm = c.v.get("orm_model"), c.v.get("prm_model")
    if UNKNOWN in (orm, prm) or c.v.open_ended:
        return
    if orm is None and prm is None:
        for flag in ("n_best_to_keep", "easy_query_threshold", "prm_threshold"):
            if c.v.written(flag):
                template = "--{flag} has no effect without --orm_model or --prm_model: all {count} candidates of a row are written"
                fix = f"--orm_model math, or remove --{flag}"
                yield c.finding(template, flag, flags=["orm_model", "prm_model"], flag=flag, count=c.v.get("num_return_sequences"), fix=fix)
        return
    if prm is None and c.v.written("prm_threshold"):
        yield c.finding("--prm_threshold has no effect without --prm_model", "prm_threshold", flags=["prm_model"], fix="--prm_model …, or remove --prm_threshold")
    best, count = whole(c.v.get("n_best_to_keep")), whole(c.v.get("num_return_sequences"))
    if best is not None and count is not None and best >= count > 1 and c.v.written("n_best_to_keep"):
        template = "--n_best_to_keep {best} of --num_return_sequences {count} keeps all but the worst; sample more, or keep fewer (such as {better})"
        related = [("num_return_sequences", f"{count} here")]
        fewer = c.set_flag("n_best_to_keep", str(max(count // 4, 1)))
        yield c.finding(template, "n_best_to_keep", flags=["num_return_sequences"], related=related, best=best, count=count, better=max(count // 4, 1), fix=fewer)


@rule("SMP010", "easy-query-threshold-drops-all", consequence="wrong", routes=_ROUTE)
def easy_threshold_drops_all(c: JobCheck) -> Iterator[Finding]:
    """`easy_query_threshold` without an ORM.

    The threshold counts candidates with a positive outcome score. Without `--orm_model` every score is 1, so that each query counts as solved by all
    candidates and is dropped.

    In the log: nothing; the output is empty

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --prm_model qwen_max --easy_query_threshold 0.5
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --prm_model qwen_max --orm_model math --easy_query_threshold 0.5
    ```

    Source: swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler.do_sample
    Not shown on CPU: scores are counted after generation
    """
    limit = number(c.v.get("easy_query_threshold"))
    if limit is not None and limit <= 1 and c.v.absent("orm_model") and set_to(c.v, "prm_model"):
        template = "--easy_query_threshold {limit:g} without --orm_model drops every query: all outcome scores are 1, and {count} of {count} candidates count as right"
        yield c.finding(template, "easy_query_threshold", flags=["orm_model"], limit=limit, count=c.v.get("num_return_sequences"), fix="--orm_model math, or remove --easy_query_threshold")


@rule("SMP011", "samples-all-the-same", severity="warning", consequence="waste", routes=_ROUTE)
def samples_all_the_same(c: JobCheck) -> Iterator[Finding]:
    """Many candidates, and a temperature that makes them equal.

    At temperature 0, and with `top_k 1`, generation is greedy: all candidates of a row are the same.

    In the log: nothing

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 16 --temperature 0
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --num_return_sequences 16 --temperature 0.8
    ```

    Source: swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler.generate
    """
    count = whole(c.v.get("num_return_sequences"))
    if count is None or count < 2 or c.v.get("sampler_engine") == "no":
        return
    for flag, greedy in (("temperature", 0), ("top_k", 1)):
        if number(c.v.get(flag)) == greedy and c.v.written(flag):
            template = "--{flag} {greedy} makes all {count} candidates of a row the same; raise it, or set --num_return_sequences 1"
            better = c.set_flag("temperature", "0.8") if flag == "temperature" else c.drop_flag("top_k")
            yield c.finding(template, flag, flags=["num_return_sequences"], flag=flag, greedy=greedy, count=count, fix=better)


@rule("SMP015", "scorer-unusable", consequence="wrong", routes=_ROUTE)
def scorer_unusable(c: JobCheck) -> Iterator[Finding]:
    """A built-in ORM or PRM that `swift sample` cannot use.

    ORMs get requests and ground truths here. Of the built-in ones only `math` reads these; the others are made for GRPO. A name that is registered nowhere
    is downloaded as a model.

    In the log: `TypeError: MathAccuracy.__call__() missing 1 required positional argument: 'solution'`

    Wrong:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --orm_model accuracy
    ```

    Right:
    ```sh
    swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --orm_model math
    ```

    Source: swift/pipelines/sampling/utils.py:get_reward, swift/rewards/orm.py, swift/rewards/prm.py
    Not shown on CPU: candidates are scored after generation
    """
    loaded = plugins_of(c.whole, c.v)
    orm, prm = c.v.get("orm_model"), c.v.get("prm_model")
    if isinstance(orm, str) and loaded.complete and orm in c.facts.registries["orms"] and orm != "math" and orm not in loaded.names("orms"):
        template = "--orm_model {orm} is made for GRPO and cannot score here: of the built-in ones only `math` takes requests and ground truths; a plugin's needs __call__(self, infer_requests, ground_truths, **kwargs)"
        yield c.finding(template, "orm_model", flags=["external_plugins"], orm=orm, fix=c.set_flag("orm_model", "math"))
    if prm == "client" and loaded.complete and "client" not in loaded.names("prms"):
        template = "--prm_model client indexes requests like mappings and fails on what `swift sample` gives it; use qwen_max, a reward model's id, or a PRM of your own"
        yield c.finding(template, "prm_model", fix=c.set_flag("prm_model", "qwen_max"))
    for flag, value in (("orm_model", orm), ("prm_model", prm)):
        registry = {"orm_model": "orms", "prm_model": "prms"}[flag]
        known = {*c.facts.registries[registry], *loaded.names(registry)}
        if isinstance(value, str) and loaded.complete and value not in known and "/" not in value and not Path(c.whole.cwd, value).exists():
            template = "--{flag} {value} is no registered name ({known}): ms-swift takes it for a model's id and tries to download it"
            yield c.finding(template, flag, flags=["external_plugins"], flag=flag, value=value, known=names(sorted(known)), fix=f"--{flag} {'math' if flag == 'orm_model' else 'qwen_max'}")


@rule("SMP016", "scorer-beside-engine", severity="warning", confidence="medium", consequence="waste", routes=_ROUTE)
def scorer_beside_engine(c: JobCheck) -> Iterator[Finding]:
    """A reward model loaded in the same process as a serving engine that takes the whole card.

    A `--prm_model` or `--orm_model` that is no registered name is a model of its own: transformers loads it beside the engine, and its answer must be one
    score (a sequence-classification reward model). vLLM and LMDeploy take most of the card's memory by default, so that nothing is left for it.

    In the log: `torch.OutOfMemoryError` while the engine starts, or at the first scoring

    Wrong:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine vllm --prm_model Qwen/Qwen2.5-Math-RM-72B --num_return_sequences 8
    ```

    Right:
    ```sh
    CUDA_VISIBLE_DEVICES=0 swift sample --model Qwen/Qwen3-8B --dataset data.jsonl --sampler_engine no --cache_files out/generated.jsonl --prm_model Qwen/Qwen2.5-Math-RM-72B --num_return_sequences 8
    ```

    Source: swift/pipelines/sampling/base.py:Sampler._prepare_prm, swift/pipelines/sampling/vanilla_sampler.py:VanillaSampler._prepare_sampler
    """
    engine, made = c.v.get("sampler_engine"), c.v.get("engine_kwargs")
    limits = {"vllm": ("gpu_memory_utilization", "90 %"), "lmdeploy": ("cache_max_entry_count", "80 % of what is free")}
    loaded = plugins_of(c.whole, c.v)
    if not isinstance(engine, str) or engine not in limits or not isinstance(made, dict) or not loaded.complete or c.v.get("use_ray") is not False or c.v.use("device_groups") is not None:
        return
    key, share = limits[engine]
    for flag, registry in (("prm_model", "prms"), ("orm_model", "orms")):
        value = c.v.get(flag)
        if not isinstance(value, str) or value in c.facts.registries[registry] or value in loaded.names(registry) or key in made:
            continue
        template = (
            "--{flag} {value} is no registered scorer ({known}), so it is loaded with transformers beside {engine}, which takes {share} of the card, and must answer "
            "with one score; generate first without it, then score with --sampler_engine no --cache_files <output>, or leave room with --engine_kwargs '{{\"{key}\": 0.5}}'"
        )
        known = ", ".join(sorted({*c.facts.registries[registry], *loaded.names(registry)}))
        yield c.finding(
            template, flag, flags=["sampler_engine", "engine_kwargs", "cache_files"], flag=flag, value=value, known=known, engine=engine, share=share, key=key,
            fix="two passes: first without --" + flag + ", then --sampler_engine no --cache_files <output of the first>",
        )  # fmt: skip
