"""Values that ms-swift looks up or takes apart: JSON, registered names, attention implementations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.swift.parse import UNKNOWN

from .context import JobCheck, names
from .registry import TRAIN, rule
from .training import BASE
from .values import closest, exists, given, json_value, loads_nothing, may_register, names_in

if TYPE_CHECKING:
    from alula.run.finding import Finding

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
    if not isinstance(value, str) or value.lower() not in _ATTENTION or loads_nothing(c):
        return
    right = _ATTENTION[value.lower()]
    template = "--attn_impl {value} is no attention of transformers: sdpa, eager, flex_attention, flash_attn, flash_attention_2, flash_attention_3"
    yield c.finding(template, "attn_impl", value=value, fix=c.set_flag("attn_impl", right, safety="safe") if right else c.drop_flag("attn_impl"))


_FILES = ("system", "new_special_tokens", "custom_dataset_info", "external_plugins", "custom_register_path", "deepspeed", "fsdp")


@rule("TRN014", "file-not-there", severity="warning", confidence="medium", consequence="wrong", routes=TRAIN)
def file_not_there(c: JobCheck) -> Iterator[Finding]:
    """A file that a flag names is not in its folder, though the folder is there.

    Looked at only where the folder exists on this machine: otherwise the run is meant for another one.

    In the log: `AssertionError: self.system: prompts/sytem.txt`, `FileNotFoundError` or a JSON error

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --system prompts/sytem.txt
    ```
    ```text prompts/system.txt
    You answer briefly.
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --system prompts/system.txt
    ```
    ```text prompts/system.txt
    You answer briefly.
    ```

    Source: swift/arguments/base_args/template_args.py:TemplateArguments.__post_init__; swift/utils/utils.py:import_external_file
    """
    for flag in _FILES:
        use = c.v.use(flag)
        for token in use.values if use is not None and not use.maybe else ():
            text = token.text
            suffix = {"system": ".txt", "new_special_tokens": ".txt", "external_plugins": ".py", "custom_register_path": ".py"}.get(flag, ".json")
            folder, slash, name = text.rpartition("/")
            if not token.known or not slash or not text.endswith(suffix) or not folder or exists(c, text) or not exists(c, folder):
                continue
            there = names_in(c, folder, suffix)
            close = closest(name, there, 0.75)
            template = "--{flag} {text}: there is no such file in {folder}" + ("; did you mean {close}?" if close else "")
            yield c.finding(template, token, flags=[flag], flag=flag, text=text, folder=folder, close=f"{folder}/{close}", fix=f"--{flag} {folder}/{close}" if close else "correct the path")
