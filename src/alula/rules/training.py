"""Training arguments that do not depend on the algorithm: the model, the task, and names that ms-swift looks up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from alula.facts import swift as facts

from .context import JobCheck, names
from .registry import TRAIN, rule
from .values import closest, exists, from_checkpoint, given, json_value, loads_nothing, may_register

if TYPE_CHECKING:
    from alula.run.finding import Finding, Fix

BASE = (*TRAIN, "swift infer", "swift deploy", "swift rollout", "swift sample", "swift eval", "swift app")
"""Routes whose arguments pass through BaseArguments and load one model as it is."""


@rule("TRN001", "no-model", routes=tuple(route for route in BASE if route != "swift rollout"))
def no_model(c: JobCheck) -> Iterator[Finding]:
    """A run without `--model`.

    Adapters name no model in training (`--load_args` is off there). A full checkpoint can stand in: `--resume_from_checkpoint` with
    `--resume_only_model true`. Elsewhere `--adapters` is enough. An engine that is reached over HTTP (`swift sample --sampler_engine client`,
    `swift eval --eval_url`) still needs the name that its server serves.

    In the log: `ValueError: Please set --model <model_id_or_path>, model: None`

    Wrong:
    ```sh
    swift sft --model_type qwen3 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: swift/arguments/base_args/model_args.py:ModelArguments.__post_init__
    """
    if given(c, "model") == "":
        yield c.finding("--model is empty: ms-swift finds no model by that name; is a variable unset?", "model", fix="--model <id or folder>")
        return
    if not c.v.absent("model"):
        return
    from_checkpoint = "resume_from_checkpoint" in c.v.flags and c.v.get("resume_only_model") is not False and not c.v.absent("resume_from_checkpoint")
    from_adapters = c.v.get("load_args") is not False and not c.v.absent("adapters")
    if from_checkpoint or from_adapters or c.v.use("ckpt_dir") is not None:  # --ckpt_dir until 3.12
        return
    template = "no --model: ms-swift stops with `Please set --model`"
    old = next((token for token in c.v.parsed.extras if token.text.startswith("--model_id_or_path")), None)
    if old is not None:
        template += " (--model_id_or_path was its name in 2.x)"
    elif c.v.written("adapters"):
        template += "; --adapters alone names no model in training: give the model that the adapter was trained on"
    yield c.finding(template, flags=["model"], fix="--model <id or folder>")


@rule("TRN002", "no-dataset", routes=TRAIN)
def no_dataset(c: JobCheck) -> Iterator[Finding]:
    """Training without `--dataset` and without `--cached_dataset`.

    `--val_dataset` alone is not enough, and `--custom_dataset_info` only registers names.

    In the log: `ValueError: self.dataset: [], self.cached_dataset: []. Please input the training dataset.`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --val_dataset val.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset train.jsonl --val_dataset val.jsonl
    ```

    Source: swift/arguments/sft_args.py:SftArguments.__post_init__
    """
    cached = "cached_dataset" not in c.v.flags or c.v.absent("cached_dataset")
    if c.v.absent("dataset") and cached and c.v.get("load_data_args") in (False, None):
        yield c.finding("no --dataset: ms-swift stops with `Please input the training dataset`", flags=["dataset"], fix="--dataset <id or file>")


@rule("TRN003", "not-an-adapter", consequence="wrong", routes=(*TRAIN, "swift infer"))
def not_an_adapter(c: JobCheck) -> Iterator[Finding]:
    """`--adapters` names a whole model.

    An adapter is a folder with `adapter_config.json`. A full checkpoint, also one that training with `--tuner_type full` or a merge wrote, is a `--model`.

    In the log: ``AssertionError: `…` is not an adapter, please try using `--model` to pass it.``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --adapters Qwen/Qwen3-8B
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments.__post_init__
    Not shown on CPU: it looks into the folder that was downloaded
    """
    use = c.v.use("adapters")
    if use is None or use.maybe:
        return
    for token in use.values:
        if not token.known or not token.text:
            continue
        folder = Path(c.whole.cwd) / token.text
        entry = c.facts.registries.model_of(token.text)
        full = entry is not None and token.text in entry.ids and not exists(c, token.text)
        if not full and exists(c, token.text):
            full = (folder / "config.json").is_file() and not any((folder / part).exists() for part in ("adapter_config.json", "default/adapter_config.json", "reft"))
        if full:
            template = "--adapters {text} is a whole model, no adapter: pass it with --model"
            yield c.finding(template, token, flags=["adapters", "model"], text=token.text, fix=f"--model {token.text}")


@rule("TRN004", "unknown-model-type", consequence="wrong", routes=BASE)
def unknown_model_type(c: JobCheck) -> Iterator[Finding]:
    """A `--model_type` that this ms-swift version does not register.

    It is ms-swift's own name of a family (`qwen2_5_vl`), not the `model_type` of `config.json`. Most models need none. Plugins may register more.

    In the log: `ValueError: model_type: 'qwen33' not in […]`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --model_type qwen33 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --model_type qwen3 --dataset data.jsonl
    ```

    Source: swift/model/model_meta.py:_get_model_info
    Not shown on CPU: the name is looked up with the model; commands recorded without their models were accepted with any
    """
    value = given(c, "model_type")
    if not isinstance(value, str) or not value or may_register(c) or loads_nothing(c):
        return
    known = c.facts.registries.models
    if value in known:
        return
    entry = c.facts.registries.model_of(str(c.v.get("model") or ""))
    renamed = _renamed_type(c, value)
    close = renamed or (entry.model_type if entry is not None else closest(value, known))
    template = "--model_type {value} is no model type of ms-swift {version}"
    if renamed:
        template += "; what was {value} in 3.x is {close} now"
    elif close:
        template += "; {model} is {close}" if entry is not None else "; did you mean {close}?"
    fix: Fix | str = c.set_flag("model_type", close) if close else "leave --model_type out, or register it with --external_plugins"
    yield c.finding(template, "model_type", value=value, version=c.facts.version, close=close or "", model=c.v.get("model"), fix=fix)


def _renamed_type(c: JobCheck, value: str) -> str | None:
    """What this version calls the models that the last 3.x had under this type, or None."""
    if c.facts.version.startswith("3."):
        return None
    before = facts.load([version for version in facts.versions() if version.startswith("3.")][-1]).registries.models.get(value)
    now = (c.facts.registries.model_of(model) for model in before.ids) if before is not None else ()
    kinds = {entry.model_type for entry in now if entry is not None}
    return kinds.pop() if len(kinds) == 1 else None


@rule("TRN005", "unknown-template", routes=BASE)
def unknown_template(c: JobCheck) -> Iterator[Finding]:
    """A `--template` that this ms-swift version does not register.

    A template is found by the model; the flag is for models that ms-swift does not know, and for another chat format on purpose.

    In the log: `ValueError: template_type: 'qwen9' not in […]`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --template qwen9 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --template qwen3 --dataset data.jsonl
    ```

    Source: swift/template/register.py:get_template_meta
    """
    value = given(c, "template")
    if not isinstance(value, str) or not value or may_register(c) or loads_nothing(c):
        return
    known = c.facts.registries["templates"]
    if value in known:
        return
    entry = c.facts.registries.model_of(str(c.v.get("model") or ""))
    close = entry.templates[0] if entry is not None and entry.templates else closest(value, known)
    template = "--template {value} is no template of ms-swift {version}" + ("; did you mean {close}?" if close else "")
    fix: Fix | str = c.set_flag("template", close) if close else "leave --template out, or register it with --external_plugins"
    yield c.finding(template, "template", value=value, version=c.facts.version, close=close or "", fix=fix)


@rule("TRN006", "template-undecided", severity="warning", confidence="medium", consequence="wrong", routes=TRAIN, since="4.0")
def template_undecided(c: JobCheck) -> Iterator[Finding]:
    """A model that ms-swift does not know by name, of a type with several templates, and no `--template`.

    The model's name decides between the templates of a type. A renamed copy has none of the known names; unless its folder holds the `args.json` of an
    ms-swift run, ms-swift stops and asks.

    In the log: `ValueError: Failed to automatically match `template_type` for … Multiple possible types found: […]`

    Wrong:
    ```sh
    swift sft --model models/my-qwen --model_type qwen3 --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model models/my-qwen --model_type qwen3 --template qwen3 --dataset data.jsonl
    ```

    Source: swift/template/register.py:get_template_meta
    """
    model, kind = given(c, "model"), given(c, "model_type")
    if not isinstance(model, str) or not isinstance(kind, str) or not c.v.absent("template") or may_register(c):
        return
    entry = c.facts.registries.models.get(kind)
    if entry is None or len(entry.templates) < 2 or c.facts.registries.model_of(model) is not None or "checkpoint" in model:
        return
    if exists(c, model) and (Path(c.whole.cwd) / model / "args.json").is_file():
        return
    template = "--model_type {kind} has several templates ({templates}) and the name {model} tells none: add --template"
    yield c.finding(template, "model_type", flags=["template"], kind=kind, templates=names(entry.templates), model=model, fix=f"--template {entry.templates[0]}")


@rule("TRN007", "labels-uncounted", routes=BASE)
def labels_uncounted(c: JobCheck) -> Iterator[Finding]:
    """A classification task without the number of labels.

    `--task_type seq_cls` builds a head with `--num_labels` outputs; `--rlhf_type rm` sets both itself.

    In the log: ``AssertionError: Please pass the parameter `num_labels`.``

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --task_type seq_cls --dataset data.jsonl
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --task_type seq_cls --num_labels 2 --dataset data.jsonl
    ```

    Source: swift/model/model_meta.py:get_model_info_meta
    """
    if given(c, "task_type") == "seq_cls" and c.v.absent("num_labels") and not from_checkpoint(c):
        yield c.finding("--task_type seq_cls needs --num_labels", "task_type", flags=["num_labels"], fix="--num_labels <number of classes>")


@rule("TRN008", "rope-scaling", routes=BASE, since="3.12")
def rope_scaling(c: JobCheck) -> Iterator[Finding]:
    """`--rope_scaling` that names no method, or gives no factor.

    A name (`linear`, `dynamic`, `yarn`) needs `--max_model_len`, from which ms-swift computes the factor; a JSON object may carry the factor itself.

    In the log: `AssertionError: max_model_len must be set if rope_scaling does not contain a "factor"`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --rope_scaling yarn
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --rope_scaling yarn --max_model_len 131072
    ```

    Source: swift/arguments/base_args/model_args.py:ModelArguments._init_rope_scaling
    """
    value, length = given(c, "rope_scaling"), given(c, "max_model_len")
    if not isinstance(value, str) or not value or loads_nothing(c):
        return
    kind, parsed = json_value(c, value)
    if kind == "unknown":
        return
    if kind == "broken" and value not in ("linear", "dynamic", "yarn"):
        template = "--rope_scaling {value} is neither linear, dynamic or yarn nor a JSON object"
        yield c.finding(template, "rope_scaling", value=value, fix="--rope_scaling yarn --max_model_len <tokens>")
    elif kind == "other":
        yield c.finding("--rope_scaling {value} must be a name or a JSON object", "rope_scaling", value=value, fix="--rope_scaling yarn --max_model_len <tokens>")
    elif length is None and c.v.absent("max_model_len") and not from_checkpoint(c):
        if kind == "object" and ("factor" in parsed or parsed.get("rope_type", parsed.get("type", "default")) == "default"):
            return
        template = "--rope_scaling {value} has no factor and --max_model_len is not set, so that ms-swift cannot compute one"
        yield c.finding(template, "rope_scaling", flags=["max_model_len"], value=value, fix='--max_model_len <tokens>, or a JSON object with "factor"')


@rule("TRN012", "resume-from-no-path", consequence="wrong", routes=TRAIN)
def resume_from_no_path(c: JobCheck) -> Iterator[Finding]:
    """`--resume_from_checkpoint` with a word instead of a path.

    transformers' own scripts accept `true`; ms-swift takes the value for a folder, which must exist.

    In the log: `FileNotFoundError: path: '/…/true'`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --resume_from_checkpoint true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --resume_from_checkpoint output/v0/checkpoint-100
    ```

    Source: swift/arguments/sft_args.py:SftArguments.__post_init__; swift/utils/utils.py:to_abspath
    Not shown on CPU: the judge has every checkpoint that a command names
    """
    value = c.v.get("resume_from_checkpoint")
    if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no", "auto", "latest", "last", "none", "null") and not exists(c, value):
        template = "--resume_from_checkpoint {value}: ms-swift wants the folder of a checkpoint" + ("; leave the flag out to start anew" if value.lower() in ("false", "no", "none", "null") else "")
        fix: Fix | str = c.drop_flag("resume_from_checkpoint") if value.lower() in ("false", "no", "none", "null") else "--resume_from_checkpoint <output_dir>/checkpoint-<step>"
        yield c.finding(template, "resume_from_checkpoint", value=value, fix=fix)


@rule("TRN013", "swanlab-notification", routes=TRAIN, since="3.12")
def swanlab_notification(c: JobCheck) -> Iterator[Finding]:
    """SwanLab notifications by an unknown method, or by mail without its settings.

    Looked at only with `--report_to swanlab`.

    In the log: `ValueError: Unsupported swanlab_notification_method: "telegram". …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --report_to swanlab --swanlab_notification_method telegram
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --report_to swanlab --swanlab_notification_method slack --swanlab_webhook_url https://hooks.example.com/x
    ```

    Source: swift/arguments/sft_args.py:SwanlabArguments._init_swanlab
    """
    report, method = c.v.get("report_to"), c.v.get("swanlab_notification_method")
    if not isinstance(report, tuple) or "swanlab" not in report or not isinstance(method, str):
        return
    methods = ("lark", "dingtalk", "email", "discord", "wxwork", "slack")
    if method not in methods:
        yield c.finding(
            "--swanlab_notification_method {method} is none of {methods}", "swanlab_notification_method", method=method, methods=names(methods), fix=f"one of {names(methods)}"
        )
        return
    needed = ("swanlab_sender_email", "swanlab_receiver_email", "swanlab_smtp_server", "swanlab_smtp_port")
    missing = [flag for flag in needed if c.v.absent(flag)] if method == "email" else []
    if missing:
        template = "--swanlab_notification_method email needs {missing}"
        yield c.finding(template, "swanlab_notification_method", flags=missing, missing=names(f"--{flag}" for flag in missing), fix=names(f"--{flag} …" for flag in missing))
