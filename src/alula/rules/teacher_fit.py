"""Teachers that nothing reads, that do not fit the student, or that teach nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alula.swift.parse import UNKNOWN

from .beside import data_of
from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import ROLLOUT_TYPES, empty, explicit_teacher, given, kind, minor, number, set_to, whole
from .teacher import servers_of

if TYPE_CHECKING:
    from alula.run.finding import Finding


@rule("TEA009", "teacher-not-used", severity="warning", consequence="wrong", routes=RLHF, since="4.0")
def teacher_not_used(c: JobCheck) -> Iterator[Finding]:
    """A teacher that nothing reads.

    Only GKD has a teacher, and GRPO since 4.4 (OPD-RL). A teacher's adapters need a `teacher_model` to sit on.

    In the log: `teacher_model / teacher_model_server is ignored for rlhf_type='dpo'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_teacher; swift/pipelines/train/rlhf.py:SwiftRLHF._prepare_single_model
    """
    algorithm = kind(c)
    if algorithm is None:
        return
    users = ROLLOUT_TYPES if minor(c) >= (4, 4) else ("gkd",)
    if algorithm not in users:
        for name in ("teacher_model", "teacher_model_server"):
            if isinstance(given(c.v, name), str):
                template = "--{name} is not read with --rlhf_type {kind}; teachers belong to {users}"
                yield c.finding(template, name, flags=["rlhf_type"], name=name, kind=algorithm, users=" and ".join(u.upper() for u in users), fix=c.drop_flag(name))
        return
    if given(c.v, "teacher_model") is not None:
        return
    for name in ("teacher_adapters", "offload_teacher_model", "teacher_deepspeed"):
        if set_to(c.v, name):
            yield c.finding("--{name} needs --teacher_model; there is no local teacher here", name, flags=["teacher_model"], name=name, fix=c.drop_flag(name))


@rule("TEA010", "teacher-deepspeed-without-deepspeed", severity="warning", consequence="wrong", routes=("swift rlhf",), since="4.0")
def teacher_deepspeed_without_deepspeed(c: JobCheck) -> Iterator[Finding]:
    """`teacher_deepspeed` while the student runs without DeepSpeed: the teacher is then held whole on every GPU.

    The teacher's own DeepSpeed configuration is applied only where the trainer runs under DeepSpeed at all.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --teacher_deepspeed zero3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --deepspeed zero2 --teacher_deepspeed zero3
    ```

    Source: swift/rlhf_trainers/rollout_mixin.py:RolloutTrainerMixin._setup_teacher
    """
    if kind(c) in ROLLOUT_TYPES and set_to(c.v, "teacher_deepspeed") and given(c.v, "teacher_model") is not None and c.v.get("deepspeed") is None:
        template = "--teacher_deepspeed {value} is read only beside --deepspeed; without it every GPU holds the whole teacher"
        yield c.finding(template, "teacher_deepspeed", flags=["deepspeed"], value=c.v.get("teacher_deepspeed"), fix=c.set_flag("deepspeed", "zero2"))


@rule("TEA011", "teacher-vocabulary-differs", severity="warning", consequence="wrong", routes=RLHF, since="4.0")
def teacher_vocabulary_differs(c: JobCheck) -> Iterator[Finding]:
    """Student and teacher have vocabularies of different width.

    Distillation compares the two distributions token by token, so both must use one tokenizer. A small difference is padding of the same tokenizer
    (Qwen2.5: 151936 for the small models, 152064 for the large): full-vocabulary GKD then fills the missing columns with the other model's logits, while
    Liger's loss stops at the shapes and top-k distillation is exact. A large difference means another tokenizer: the loss has no meaning.

    In the log: nothing, or a shape error in the loss

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-3B-Instruct --dataset data.jsonl --teacher_model Qwen/Qwen2.5-72B-Instruct
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen2.5-3B-Instruct --dataset data.jsonl --teacher_model Qwen/Qwen2.5-72B-Instruct --gkd_logits_topk 64
    ```

    Source: swift/rlhf_trainers/gkd_loss.py:_align_vocab
    """
    name = given(c.v, "teacher_model")
    if kind(c) not in ROLLOUT_TYPES or not isinstance(name, str) or not isinstance(c.v.get("model"), str):
        return
    student, teacher = c.shape, c.model_shape(name)
    if student is None or teacher is None or not student.vocab or not teacher.vocab or student.vocab == teacher.vocab or student is teacher:
        return
    widths = "vocab_size {student} of the student and {teacher} of the teacher"
    related = [("model", f"vocab_size {student.vocab}")]
    far = abs(student.vocab - teacher.vocab) > 1024
    if far:
        template = f"{widths} are two tokenizers: token by token distillation has no meaning; choose a teacher of the student's family"
        fix = "--teacher_model <a model of the student's family>"
    elif kind(c) != "gkd" or whole(c.v.get("gkd_logits_topk")) is not None:
        return
    elif c.v.get("use_liger_kernel") is True:
        template = f"{widths} do not fit Liger's fused loss, which needs equal widths; drop --use_liger_kernel or use --gkd_logits_topk 64"
        fix = "--gkd_logits_topk 64, without --use_liger_kernel"
    else:
        template = (
            f"{widths} differ (padding of one tokenizer): the full-vocabulary loss needs equal widths and ms-swift fills the gap with the other model's logits "
            "(older versions stop at the shapes); a teacher with vocab_size {student}, or --gkd_logits_topk 64, avoids it"
        )
        fix = "--gkd_logits_topk 64"
    finding = c.finding(
        template, "teacher_model", flags=["model", "gkd_logits_topk"], related=related, student=student.vocab, teacher=teacher.vocab, fix=fix
    )  # fmt: skip
    yield replace(finding, severity="error") if far or c.v.get("use_liger_kernel") is True else finding


@rule("TEA012", "gkd-generates-without-vllm", severity="info", consequence="waste", routes=("swift rlhf",), since="4.0")
def gkd_generates_without_vllm(c: JobCheck) -> Iterator[Finding]:
    """On-policy GKD that generates with transformers.

    With `lmbda` above 0 that share of the steps samples completions from the student. Without vLLM this is done by `generate`, many times slower.

    In the log: long steps

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --lmbda 1
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --lmbda 1 --use_vllm true --vllm_mode colocate --sleep_level 1
    ```

    Source: swift/rlhf_trainers/gkd_trainer.py:GKDTrainer._rollout_samples
    """
    share = number(c.v.get("lmbda"))
    if kind(c) == "gkd" and share is not None and share > 0 and c.v.get("use_vllm") is False:
        template = "{percent} of the steps generate with transformers (lmbda {share} without vLLM): --use_vllm true --vllm_mode colocate is many times faster"
        yield c.finding(template, "lmbda" if c.v.use("lmbda") is not None else "rlhf_type", flags=["lmbda", "use_vllm"], percent=f"{share:.0%}", share=share, fix="--use_vllm true --vllm_mode colocate --sleep_level 1")


@rule("TEA013", "gkd-on-policy-without-vllm", consequence="wrong", routes=("megatron rlhf",), since="4.0")
def gkd_on_policy_without_vllm(c: JobCheck) -> Iterator[Finding]:
    """Megatron GKD with `lmbda` above 0 and no vLLM: it trains on the data's answers instead.

    Megatron's GKD generates with vLLM or not at all. Asked for on-policy steps without it, it warns once and goes on off-policy.

    In the log: `On-policy mode triggered but use_vllm=False. …`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --teacher_model Qwen/Qwen3-32B --lmbda 1 --use_vllm false
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 megatron rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --num_train_epochs 1 --teacher_model Qwen/Qwen3-32B --lmbda 1 --use_vllm true --vllm_mode colocate
    ```

    Source: swift/megatron/trainers/gkd_trainer.py
    Not shown on CPU: the arguments are accepted; only a warning appears during training
    """
    share = number(c.v.get("lmbda"))
    if kind(c) == "gkd" and share is not None and share > 0 and c.v.get("use_vllm") is False and c.job.ray is None:
        template = "lmbda {share} asks for the student's own completions, but with --use_vllm false Megatron GKD takes the data's answers"
        yield c.finding(template, "use_vllm", flags=["lmbda"], share=share, fix="--use_vllm true --vllm_mode colocate, or --lmbda 0")


@rule("TEA014", "self-distillation-of-nothing", severity="warning", consequence="wrong", confidence="medium", routes=RLHF, since="4.0")
def self_distillation_of_nothing(c: JobCheck) -> Iterator[Finding]:
    """GKD without a teacher, and no `teacher_prompt` in the rows.

    Without a teacher the student itself is the teacher. That teaches something only where the teacher sees another prompt, from the column
    `teacher_prompt`; with the same prompt both distributions are one, and the loss is 0.

    In the log: `No teacher_model specified. Using self-distillation mode (teacher = student).`, then `loss: 0.0`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B
    ```

    Source: swift/rlhf_trainers/gkd_trainer.py:GKDTrainer.compute_loss; swift/rl_core/data.py:build_teacher_view
    """
    if kind(c) != "gkd" or explicit_teacher(c.v) is not False or not empty(c.v.get("external_plugins")) or not empty(c.v.get("custom_dataset_info")):
        return
    if c.job.ray is not None and "teacher" in c.job.ray.groups:
        return
    data = data_of(c)
    columns = data.columns if data is not None else None
    if columns is not None and {"teacher_prompt", "teacher_images"} & columns:
        return
    known = "the rows have no column teacher_prompt" if columns is not None else "unless the rows have a column teacher_prompt"
    template = "GKD without --teacher_model or --teacher_model_server distils the model from itself: the loss is 0, {known}"
    finding = c.finding(template, "rlhf_type", flags=["teacher_model", "teacher_model_server"], known=known, fix="--teacher_model <model>, or rows with teacher_prompt")
    yield finding if columns is None else replace(finding, severity="error", confidence="high")


@rule("TEA015", "tags-without-several-teachers", severity="info", consequence="waste", routes=RLHF, since="4.4")
def tags_without_several_teachers(c: JobCheck) -> Iterator[Finding]:
    """`teacher_tag_key` with at most one teacher: there is nothing to choose.

    The key names the column by which rows are routed to one of several teacher servers. A single teacher gets every row.

    In the log: nothing

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --teacher_tag_key source
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --gkd_logits_topk 20 --teacher_tag_key source --teacher_model_server '[{"url": "http://a:8000", "tags": ["math"]}, {"url": "http://b:8000", "tags": ["code"]}]'
    ```

    Source: swift/rlhf_trainers/gkd_helpers.py:route_samples_to_teachers
    """
    key, text = given(c.v, "teacher_tag_key"), given(c.v, "teacher_model_server")
    if not isinstance(key, str) or text is UNKNOWN or kind(c) not in ROLLOUT_TYPES:
        return
    if text is None or (len(servers_of(c)) == 1):
        yield c.finding("--teacher_tag_key {key} chooses among several teacher servers; here is at most one", "teacher_tag_key", key=key, fix=c.drop_flag("teacher_tag_key"))


@rule("TEA016", "sample-without-teacher", consequence="wrong", routes=RLHF, since="4.4")
def sample_without_teacher(c: JobCheck) -> Iterator[Finding]:
    """Rows whose tag belongs to none of the teachers.

    With several teacher servers each row goes to the one that lists the row's tag, the value of the column `teacher_tag_key` names (by default
    `dataset`, which ms-swift fills in itself). A row with another value stops the run.

    In the log: `ValueError: sample[0] tag 'physics' (from "source") matches no teacher; available tags: ['code', 'math']`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset rows.jsonl#64 --gkd_logits_topk 20 --teacher_tag_key source --teacher_model_server '[{"url": "http://a:8000", "tags": ["math"]}, {"url": "http://b:8000", "tags": ["code"]}]'
    ```
    ```jsonl rows.jsonl
    {"messages": [{"role": "user", "content": "Why is the sky blue?"}, {"role": "assistant", "content": "Scattering."}], "source": "physics"}
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset rows.jsonl#64 --gkd_logits_topk 20 --teacher_tag_key source --teacher_model_server '[{"url": "http://a:8000", "tags": ["math"]}, {"url": "http://b:8000", "tags": ["code"]}]'
    ```
    ```jsonl rows.jsonl
    {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}], "source": "math"}
    ```

    Source: swift/rlhf_trainers/gkd_helpers.py:route_samples_to_teachers
    Not shown on CPU: the arguments are accepted; the first batch raises
    """
    key, servers = c.v.get("teacher_tag_key"), servers_of(c)
    if not isinstance(key, str) or key == "dataset" or len(servers) < 2 or kind(c) not in ROLLOUT_TYPES:
        return
    tags = {tag for _, words in servers for tag in words}
    data = data_of(c)
    for entry in data.entries if data is not None else ():
        values = [_tag(row.values.get(key)) for row in entry.sample.rows] if entry.sample is not None else []
        stray = sorted({value for value in values if value not in tags})
        if stray:
            template = "rows of {file} have {key} {stray}, which no teacher lists ({tags})"
            yield c.finding(
                template, "teacher_model_server", flags=["teacher_tag_key", "dataset"], file=entry.name, key=key, stray=names(map(repr, stray), 4),
                tags=names(sorted(tags)), fix="add the tag to a teacher, or drop those rows",
            )  # fmt: skip


def _tag(value: Any) -> str:
    return "None" if value is None else str(value)
