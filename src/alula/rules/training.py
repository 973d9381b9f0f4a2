"""Training arguments that do not depend on the algorithm: the model, the task, and names that ms-swift looks up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from alula.run.finding import Finding, Fix
from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import TRAIN, rule
from .values import closest, exists, given, json_value, may_register

BASE = (*TRAIN, "swift infer", "swift deploy", "swift rollout", "swift sample", "swift eval", "swift app")
"""Routes whose arguments pass through BaseArguments and load one model as it is."""


@rule("TRN001", "no-model", routes=TRAIN)
def no_model(c: JobCheck) -> Iterator[Finding]:
    """Training without `--model`.

    Adapters name no model in training (`--load_args` is off there). A full checkpoint can stand in: `--resume_from_checkpoint` with
    `--resume_only_model true`.

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
    from_checkpoint = c.v.get("resume_only_model") is not False and not c.v.absent("resume_from_checkpoint")
    from_adapters = c.v.get("load_args") is not False and not c.v.absent("adapters")
    if from_checkpoint or from_adapters:
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
    """
    value = given(c, "model_type")
    if not isinstance(value, str) or not value or may_register(c):
        return
    known = c.facts.registries.models
    if value in known:
        return
    entry = c.facts.registries.model_of(str(c.v.get("model") or ""))
    close = entry.model_type if entry is not None else closest(value, known)
    template = "--model_type {value} is no model type of ms-swift {version}" + ("; {model} is {close}" if entry is not None else "; did you mean {close}?" if close else "")
    fix: Fix | str = c.set_flag("model_type", close) if close else "leave --model_type out, or register it with --external_plugins"
    yield c.finding(template, "model_type", value=value, version=c.facts.version, close=close or "", model=c.v.get("model"), fix=fix)


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
    if not isinstance(value, str) or not value or may_register(c):
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
    if given(c, "task_type") == "seq_cls" and c.v.absent("num_labels") and c.v.get("load_args") is not True:
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
    if not isinstance(value, str) or not value:
        return
    kind, parsed = json_value(c, value)
    if kind == "unknown":
        return
    if kind == "broken" and value not in ("linear", "dynamic", "yarn"):
        template = "--rope_scaling {value} is neither linear, dynamic or yarn nor a JSON object"
        yield c.finding(template, "rope_scaling", value=value, fix="--rope_scaling yarn --max_model_len <tokens>")
    elif kind == "other":
        yield c.finding("--rope_scaling {value} must be a name or a JSON object", "rope_scaling", value=value, fix="--rope_scaling yarn --max_model_len <tokens>")
    elif length is None and c.v.absent("max_model_len"):
        if kind == "object" and ("factor" in parsed or parsed.get("rope_type", parsed.get("type", "default")) == "default"):
            return
        template = "--rope_scaling {value} has no factor and --max_model_len is not set, so that ms-swift cannot compute one"
        yield c.finding(template, "rope_scaling", flags=["max_model_len"], value=value, fix='--max_model_len <tokens>, or a JSON object with "factor"')


_JSON_FLAGS = {  # flag -> whether another JSON value than an object is refused too
    "model_kwargs": True, "columns": False, "lr_scheduler_kwargs": False, "gradient_checkpointing_kwargs": False, "mrl_dims": True,
    "eval_dataset_args": False, "eval_generation_config": False, "extra_eval_args": False, "max_memory": False,
}  # fmt: skip
_EVALSCOPE = ("eval_dataset_args", "eval_generation_config", "extra_eval_args")


@rule("TRN009", "not-json", routes=BASE)
def not_json(c: JobCheck) -> Iterator[Finding]:
    """A flag that takes JSON, or the path of a JSON file, and gets neither.

    YAML null is the usual reason: it reaches these flags as the text `None`. In the shell the braces need single quotes around them.

    In the log: `json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs min_lr=1e-6
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --lr_scheduler_type cosine_with_min_lr --lr_scheduler_kwargs '{"min_lr": 1e-6}'
    ```

    Source: swift/utils/utils.py:json_parse_to_dict
    """
    for flag, only_object in _JSON_FLAGS.items():
        value = given(c, flag)
        if not isinstance(value, str) or (not value and flag not in ("model_kwargs", "columns")):
            continue
        if flag in _EVALSCOPE and c.v.get("eval_use_evalscope") is not True:
            continue
        kind, parsed = json_value(c, value)
        if flag == "max_memory" and _python_literal(value):
            continue
        shown = value if len(value) <= 60 else value[:57] + "…"
        if kind == "broken":
            hint = "; a YAML null arrives as the text None: leave the key out" if value == "None" else ""
            yield c.finding("--{flag} {value} is no JSON and no file{hint}", flag, flag=flag, value=shown or "''", hint=hint, fix=f"--{flag} '{{\"key\": value}}'")
        elif kind == "other" and only_object:
            yield c.finding("--{flag} {value} must be a JSON object", flag, flag=flag, value=shown, fix=f"--{flag} '{{\"key\": value}}'")
        elif flag == "mrl_dims" and kind == "object" and not all(_integer(key) for key in parsed):
            yield c.finding("--mrl_dims {value}: its keys must be dimensions", flag, value=shown, fix="--mrl_dims '{\"128\": 1.0}'")


def _python_literal(text: str) -> bool:
    import ast

    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _integer(text: object) -> bool:
    try:
        int(str(text))
    except ValueError:
        return False
    return True


_REGISTRIES = {"optimizer": "optimizers", "callbacks": "callbacks", "eval_metric": "metrics", "agent_template": "agent_templates"}


@rule("TRN010", "unknown-name", consequence="wrong", routes=TRAIN, since="4.0")
def unknown_name(c: JobCheck) -> Iterator[Finding]:
    """An optimizer, callback, loss, metric, loss scale or agent template that is not registered.

    These names are looked up when the trainer or the template is built, after the model is loaded. Plugins may register more.

    In the log: `KeyError: 'earlystop'`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --callbacks earlystop
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --callbacks early_stop
    ```

    Source: swift/trainers/mixin.py:SwiftMixin (optimizers_map, callbacks_map, eval_metrics_map, loss_map); swift/loss_scale/mapping.py:get_loss_scale
    Not shown on CPU: names are looked up after the model is loaded
    """
    if may_register(c):
        return
    for flag, registry in _REGISTRIES.items():
        yield from _looked_up(c, flag, registry, c.v.get(flag))
    if c.v.route != "swift rlhf":
        yield from _looked_up(c, "loss_type", "loss_types", c.v.get("loss_type"))
    scale = c.v.get("loss_scale")
    if isinstance(scale, str) and c.v.written("loss_scale") and scale:
        first, *rest = scale.split("+")
        words = rest if first in ("default", "last_round", "all") else [first, *rest]
        known = c.facts.registries["loss_scales"]
        for word in words:
            if word not in known:
                options = ["default", "last_round", "all", *known]
                template = "--loss_scale {scale}: `{word}` is not registered; it is made of {options}, joined by +"
                yield c.finding(template, "loss_scale", scale=scale, word=word, options=names(options), fix=_meant("loss_scale", word, options))
                return


def _looked_up(c: JobCheck, flag: str, registry: str, value: object) -> Iterator[Finding]:
    if not c.v.written(flag) or value is UNKNOWN or value is None:
        return
    known = c.facts.registries[registry]
    for word in value if isinstance(value, tuple) else (value,):
        if isinstance(word, str) and word and word not in known:
            template = "--{flag} {word} is not registered in ms-swift {version}: {known}"
            yield c.finding(template, flag, flag=flag, word=word, version=c.facts.version, known=names(known), fix=_meant(flag, word, known))


def _meant(flag: str, word: str, known: object) -> str:
    close = closest(word, known) if isinstance(known, (tuple, list)) else None
    return f"--{flag} {close}" if close else f"one of them, or register {word} with --external_plugins"


_ATTENTION = {
    "flash": "flash_attn", "fa": "flash_attn", "fa2": "flash_attn", "fa3": "flash_attention_3", "flash_attn_2": "flash_attention_2", "flash_attn2": "flash_attention_2",
    "flash_attn_3": "flash_attention_3", "flash-attn": "flash_attn", "flash_attention": "flash_attention_2", "flash-attention-2": "flash_attention_2",
    "flashattn": "flash_attn", "flash_attention2": "flash_attention_2", "flash2": "flash_attention_2", "spda": "sdpa", "auto": "", "true": "flash_attn",
}  # fmt: skip


@rule("TRN011", "unknown-attention", consequence="wrong", routes=BASE)
def unknown_attention(c: JobCheck) -> Iterator[Finding]:
    """A spelling of `--attn_impl` that transformers does not have.

    ms-swift passes the name on (`flash_attn` becomes `flash_attention_2`); transformers refuses others when it builds the model.

    In the log: `ValueError: Specified `attn_implementation="flash_attn_2"` is not supported. …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --attn_impl flash_attn_2
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --attn_impl flash_attention_2
    ```

    Source: swift/model/utils.py:AttnImpl.update_attn_impl; transformers/modeling_utils.py
    Not shown on CPU: transformers looks at it when it builds the model
    """
    value = c.v.get("attn_impl")
    if not isinstance(value, str) or value.lower() not in _ATTENTION:
        return
    right = _ATTENTION[value.lower()]
    template = "--attn_impl {value} is no attention of transformers: sdpa, eager, flex_attention, flash_attn, flash_attention_2, flash_attention_3"
    yield c.finding(template, "attn_impl", value=value, fix=c.set_flag("attn_impl", right, safety="safe") if right else c.drop_flag("attn_impl"))


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
