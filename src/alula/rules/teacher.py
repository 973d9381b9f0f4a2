"""Teachers: distillation by GKD and OPD-RL, from a local model or a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .context import JobCheck, names
from .registry import RLHF, rule
from .rl import ROLLOUT_TYPES, explicit_teacher, given, kind, minor, number, whole
from .values import closest, json_value

if TYPE_CHECKING:
    from alula.run.finding import Finding


@rule("TEA001", "two-teachers", routes=RLHF, since="4.0")
def two_teachers(c: JobCheck) -> Iterator[Finding]:
    """A local teacher and a teacher server at once.

    Log-probabilities come either from a model that the trainer loads, or from a server. ms-swift does not choose.

    In the log: `ValueError: setting both teacher_model and teacher_model_server is not supported.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --teacher_model_server http://localhost:8100 --gkd_logits_topk 20
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 20
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_teacher; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin._check_teacher
    """
    algorithm = kind(c)
    if algorithm not in ROLLOUT_TYPES or (algorithm == "grpo" and minor(c) < (4, 4)):
        return
    if isinstance(given(c.v, "teacher_model"), str) and isinstance(given(c.v, "teacher_model_server"), str):
        template = "--teacher_model and --teacher_model_server are both given; keep the one that is meant"
        related = [("teacher_model_server", "the other teacher")]
        yield c.finding(template, "teacher_model", flags=["teacher_model_server"], related=related, fix=c.drop_flag("teacher_model"))


def parse_servers(text: str) -> tuple[list[tuple[str, tuple[str, ...]]], str | None]:
    """`teacher_model_server` -> [(url, tags)], and why ms-swift refuses it, or None. Mirrors `gkd_helpers.py:parse_teacher_model_server`.

    Broken JSON is repaired by ms-swift in ways that are not mirrored here: it gives no servers and no reason.
    """
    text = text.strip()
    if not text.startswith("["):
        return [(text, ())], None
    try:
        made = json.loads(text)
    except ValueError:
        return [], None
    if not made:
        return [], "the JSON list is empty"
    servers: list[tuple[str, tuple[str, ...]]] = []
    for at, entry in enumerate(made):
        if not isinstance(entry, dict):
            return servers, f"entry {at} is no object with url and tags"
        if not entry.get("url"):
            return servers, f"entry {at} has no url"
        tags = entry.get("tags", [])
        if not isinstance(tags, list):
            return servers, f"the tags of entry {at} are no list"
        servers.append((str(entry["url"]), tuple(map(str, tags))))
    if len(servers) > 1:
        seen: dict[str, int] = {}
        for at, (_, words) in enumerate(servers):
            if not words:
                return servers, f"entry {at} has no tags, which several teachers need"
            for word in words:
                if word in seen:
                    return servers, f"the tag {word!r} stands in entries {seen[word]} and {at}"
                seen[word] = at
    return servers, None


def servers_of(c: JobCheck) -> list[tuple[str, tuple[str, ...]]]:
    """The teacher servers of a job, (url, tags) each; empty where there are none or they cannot be known."""
    text = given(c.v, "teacher_model_server")
    return parse_servers(text)[0] if isinstance(text, str) else []


@rule("TEA002", "teacher-servers-unreadable", routes=RLHF, since="4.4")
def teacher_servers_unreadable(c: JobCheck) -> Iterator[Finding]:
    """`teacher_model_server` as a list that ms-swift refuses.

    It is one URL, or a JSON list of `{"url": …, "tags": […]}`. With several teachers every sample goes to the one that has its tag (the column named by
    `teacher_tag_key`), so each needs tags, and no tag may stand twice.

    In the log: `ValueError: teacher_model_server[1]: "tags" must be non-empty with multiple teachers …`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --gkd_logits_topk 20 --teacher_model_server '[{"url": "http://a:8000"}, {"url": "http://b:8000"}]'
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --gkd_logits_topk 20 --teacher_model_server '[{"url": "http://a:8000", "tags": ["math"]}, {"url": "http://b:8000", "tags": ["code"]}]'
    ```

    Source: swift/rlhf_trainers/gkd_helpers.py:parse_teacher_model_server
    """
    text = given(c.v, "teacher_model_server")
    if kind(c) not in ROLLOUT_TYPES or not isinstance(text, str) or c.job.ray is not None:
        return
    _, reason = parse_servers(text)
    if reason is not None:
        template = '--teacher_model_server: {reason}; write [{{"url": "http://…", "tags": ["…"]}}, …] with tags that differ'
        yield c.finding(template, "teacher_model_server", reason=reason, fix='[{"url": "http://…", "tags": ["…"]}, …]')


@rule("TEA003", "teacher-url-without-scheme", consequence="wrong", routes=RLHF, since="4.0")
def teacher_url_without_scheme(c: JobCheck) -> Iterator[Finding]:
    """A teacher's address without `http://`.

    The address is taken apart as a URL; without a scheme no host is found in it.

    In the log: `ConnectionError: Servers not reachable after 240.0s`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --gkd_logits_topk 20 --teacher_model_server localhost:8100
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --gkd_logits_topk 20 --teacher_model_server http://localhost:8100
    ```

    Source: swift/rlhf_trainers/vllm_client.py:VLLMInferClient.__init__
    Not shown on CPU: no server is there to be reached
    """
    if kind(c) not in ROLLOUT_TYPES:
        return
    for url, _ in servers_of(c):
        if "://" not in url:
            yield c.finding("--teacher_model_server {url} lacks its scheme; write http://{url}", "teacher_model_server", url=url, fix=f"http://{url}")


@rule("TEA004", "gkd-needs-topk", routes=RLHF, since="4.0")
def gkd_needs_topk(c: JobCheck) -> Iterator[Finding]:
    """GKD with a teacher server needs `gkd_logits_topk`, and it must be above 0.

    A server returns the log-probabilities of its top tokens only. It must also permit that many: `--max_logprobs` of `swift deploy` (vLLM:
    `--max-logprobs`), 20 by default.

    In the log: `ValueError: gkd_logits_topk is required when using teacher_model_server`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model_server http://localhost:8100 --gkd_logits_topk 20
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_gkd; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.__post_init__
    """
    if kind(c) != "gkd":
        return
    count = c.v.get("gkd_logits_topk")
    if count is None and isinstance(given(c.v, "teacher_model_server"), str):
        template = "GKD with a teacher server needs --gkd_logits_topk: the server returns the top tokens only (20 is its default limit)"
        yield c.finding(template, "teacher_model_server", flags=["gkd_logits_topk"], fix=c.set_flag("gkd_logits_topk", "20"))
    top = whole(count)
    if top is not None and top <= 0:
        yield c.finding("--gkd_logits_topk {count} must be above 0", "gkd_logits_topk", count=top, fix=c.set_flag("gkd_logits_topk", "20"))


@rule("TEA005", "gkd-with-liger", routes=("swift rlhf",), since="4.0")
def gkd_with_liger(c: JobCheck) -> Iterator[Finding]:
    """Liger's fused GKD loss beside what it cannot do.

    It works on whole vocabularies of a separate local teacher: no `gkd_logits_topk`, no self-distillation.

    In the log: `ValueError: gkd_logits_topk is not supported when using liger kernel`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --gkd_logits_topk 64 --use_liger_kernel true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --use_liger_kernel true
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_teacher, _check_gkd
    """
    if kind(c) != "gkd" or c.v.get("use_liger_kernel") is not True:
        return
    if whole(c.v.get("gkd_logits_topk")) is not None:
        template = "--use_liger_kernel true works on the whole vocabulary and refuses --gkd_logits_topk; drop one of the two"
        yield c.finding(template, "use_liger_kernel", flags=["gkd_logits_topk"], fix=c.set_flag("use_liger_kernel", "false"))
    if explicit_teacher(c.v) is False:
        template = "--use_liger_kernel true needs a separate teacher; without one GKD distils the model from itself, which Liger's loss cannot do"
        yield c.finding(template, "use_liger_kernel", flags=["teacher_model"], fix="--teacher_model <model>, or --use_liger_kernel false")


@rule("TEA006", "gkd-liger-needs-local-teacher", consequence="wrong", routes=("swift rlhf",), since="4.0")
def gkd_liger_needs_local_teacher(c: JobCheck) -> Iterator[Finding]:
    """Liger's GKD loss with the model as its own teacher, or with an SFT term.

    With LoRA and `teacher_model` equal to `model` no second model is loaded, and Liger has none to read; `sft_alpha` is not part of its loss. Both are
    found out when the trainer is built.

    In the log: `ValueError: Liger GKD loss requires a local teacher model …`, or `AssertionError: SFT loss is not supported with liger loss`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --teacher_model Qwen/Qwen3-8B --use_liger_kernel true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --teacher_model Qwen/Qwen3-32B --use_liger_kernel true
    ```

    Source: swift/rlhf_trainers/gkd_trainer.py:GKDTrainer._prepare_liger_loss
    Not shown on CPU: the arguments are accepted; building the trainer raises
    """
    if kind(c) != "gkd" or c.v.get("use_liger_kernel") is not True:
        return
    if explicit_teacher(c.v) and c.v.get("teacher_model") is None and isinstance(given(c.v, "teacher_model"), str):
        template = "--use_liger_kernel true needs a second model, but with LoRA --teacher_model equal to --model is the model without its adapter"
        yield c.finding(template, "use_liger_kernel", flags=["teacher_model"], fix=c.set_flag("use_liger_kernel", "false"))
    weight = number(c.v.get("sft_alpha"))
    if weight:
        template = "--sft_alpha {weight} is not part of Liger's GKD loss; drop it or --use_liger_kernel"
        yield c.finding(template, "sft_alpha", flags=["use_liger_kernel"], weight=weight, fix=c.set_flag("use_liger_kernel", "false"))


@rule("TEA007", "gkd-removed-modes", routes=RLHF, since="4.4")
def gkd_removed_modes(c: JobCheck) -> Iterator[Finding]:
    """GKD modes that this version refuses: `seq_kd` (answers written by the teacher) and asynchronous generation.

    For answers of the teacher, sample them beforehand (`swift sample` or `swift infer` with the teacher) and train on that data with `--lmbda 0`.

    In the log: `NotImplementedError: seq_kd=True (Sequential KD with teacher generation) is deprecated.`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --seq_kd true
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --lmbda 0.5
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._check_gkd; swift/megatron/arguments/megatron_args.py:RLHFMegatronArgumentsMixin.__post_init__
    """
    if kind(c) != "gkd":
        return
    if c.v.get("seq_kd") is True:
        template = "--seq_kd true is refused: sample the teacher's answers beforehand and train on them with --lmbda 0"
        yield c.finding(template, "seq_kd", fix=c.set_flag("seq_kd", "false"))
    if c.v.get("async_generate") is True and c.v.get("vllm_mode") == "server" and not c.v.megatron:  # elsewhere async-without-server says it
        yield c.finding("--async_generate true is not supported for GKD", "async_generate", flags=["rlhf_type"], fix=c.set_flag("async_generate", "false"))


@rule("TEA008", "gkd-share-out-of-range", routes=("swift rlhf",), since="4.0")
def gkd_share_out_of_range(c: JobCheck) -> Iterator[Finding]:
    """`lmbda` and `beta` of GKD are shares within 0 … 1.

    `lmbda` is the share of steps that train on the student's own completions, `beta` lies between forward (0) and reverse KL (1).

    In the log: `ValueError: lmbda must be in the range [0.0, 1.0].`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --lmbda 1.5
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --lmbda 1.0
    ```

    Source: trl/experimental/gkd/gkd_config.py:GKDConfig.__post_init__
    """
    if kind(c) != "gkd":
        return
    for name in ("lmbda", "beta"):
        value = number(c.v.get(name))
        if value is not None and not 0.0 <= value <= 1.0:
            better = 1.0 if value > 1 else 0.0
            yield c.finding("--{name} {value} must lie within 0 … 1 for GKD", name, name=name, value=value, fix=c.set_flag(name, str(better)))


DEEPSPEED_PRESETS = ("zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload")


@rule("TEA017", "teacher-deepspeed-unknown", routes=("swift rlhf",), since="4.0")
def teacher_deepspeed_unknown(c: JobCheck) -> Iterator[Finding]:
    """`teacher_deepspeed` is neither a preset nor JSON nor a file.

    Presets: zero0, zero1, zero2, zero3, zero2_offload, zero3_offload. Anything else must be a JSON file or JSON itself. It is read whatever the
    `rlhf_type`.

    In the log: `json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)`

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --deepspeed zero2 --teacher_deepspeed z3
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type gkd --model Qwen/Qwen3-8B --dataset data.jsonl --teacher_model Qwen/Qwen3-32B --deepspeed zero2 --teacher_deepspeed zero3
    ```

    Source: swift/arguments/rlhf_args.py:RLHFArguments._init_teacher_deepspeed
    """
    value = given(c.v, "teacher_deepspeed")
    if not isinstance(value, str) or not value or value in DEEPSPEED_PRESETS or json_value(c, value)[0] != "broken":
        return
    close = closest(value, DEEPSPEED_PRESETS, 0.5)
    fix = c.set_flag("teacher_deepspeed", close) if close else f"--teacher_deepspeed {'|'.join(DEEPSPEED_PRESETS)}"
    template = "--teacher_deepspeed {value} is no preset, no file and no JSON; presets: {presets}"
    yield c.finding(template, "teacher_deepspeed", value=value, presets=names(DEEPSPEED_PRESETS), fix=fix)
