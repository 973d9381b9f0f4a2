"""Stand-ins for what a command names but the judge does not have: models, adapters, plugins, configuration files.

Applied between the parser and `__post_init__`, on the parsed object, so that the parser always sees the command as it was written.
Every model stand-in keeps the last part of the name that was written (`Qwen/Qwen3-8B` becomes `…/Qwen3-8B`), because that is what
ms-swift's registry matches: model type, template and the multimodal flags are then the real ones, only `config.json` is made up.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from conformance import fixtures

FALLBACK_TYPE = "qwen2"
FALLBACK_TEMPLATE = "qwen2_5"

# field: how it is stood in for. A list field is handled element by element.
MODELS = ("model", "ref_model", "teacher_model", "reward_model")
ADAPTERS = ("adapters", "ref_adapters", "reward_adapters", "teacher_adapters")
CHECKPOINTS = ("mcore_model", "mcore_adapter", "mcore_ref_model", "mcore_ref_adapter", "resume_from_checkpoint")
TEXT_FILES = ("system",)
JSON_FILES = ("deepspeed", "teacher_deepspeed", "fsdp")
PRESETS = frozenset({"zero0", "zero1", "zero2", "zero3", "zero2_offload", "zero3_offload", "fsdp2"})
PLUGINS = ("external_plugins", "custom_register_path", "custom_dataset_info")


class StandIns:
    """Replaces the fields of one parsed object in place; `replaced` names the fields that were touched."""

    def __init__(self, home: Path, shape: dict[str, Any] | None, parallel: fixtures.Parallel) -> None:
        self.home = home
        self.shape = shape
        self.parallel = parallel
        self.replaced: list[str] = []
        self._written: dict[str, str] = {}

    def as_written(self, message: str) -> str:
        """`message` with every stand-in's path turned back into what the command says."""
        for path, text in sorted(self._written.items(), key=lambda item: -len(item[0])):
            message = message.replace(path, text)
        return message

    def apply(self, args: Any) -> None:
        """Replace in `args` whatever is not there. Values that exist (files given with the request) stay as they are."""
        self._plugins(args)
        for name in MODELS:
            self._each(args, name, lambda text, name=name: self._model(args, text, name))
        for name in ADAPTERS:
            self._each(args, name, lambda text: self._adapter(args, text))
        for name in CHECKPOINTS:
            self._each(args, name, lambda text: self._checkpoint(args, text))
        for name in TEXT_FILES:
            self._each(args, name, lambda text: self._text(text) if text.endswith(".txt") else text)
        for name in JSON_FILES:
            self._each(args, name, lambda text, name=name: self._json(text, name))
        self._each(args, "new_special_tokens", lambda text: self._text(text) if text.endswith(".txt") else text)
        self._output(args)

    def _each(self, args: Any, name: str, change: Any) -> None:
        value = getattr(args, name, None)
        if not value:
            return
        new = [change(v) for v in value] if isinstance(value, list) else change(value)
        pairs: Any = zip(value, new, strict=True) if isinstance(value, list) else [(value, new)]
        self._written.update((after, before) for before, after in pairs if before != after)
        if new != value:
            setattr(args, name, new)
            self.replaced.append(f"--{name}")

    def _plugins(self, args: Any) -> None:
        for name in PLUGINS:
            value = getattr(args, name, None)
            if not value:
                continue
            kept = [v for v in ([value] if isinstance(value, str) else value) if os.path.isfile(v)]
            if kept != value:
                setattr(args, name, kept)
                self.replaced.append(f"--{name}")
                self.lost_plugin = True

        if self.lost_plugin:
            self._registered_elsewhere(args)

    lost_plugin = False

    @staticmethod
    def _registered_elsewhere(args: Any) -> None:
        """A scheduler that no built-in registry has comes from the plugin that is not here."""
        from swift.rollout.multi_turn import MultiTurnScheduler, multi_turns

        name = getattr(args, "multi_turn_scheduler", None)
        if isinstance(name, str):
            multi_turns.setdefault(name, MultiTurnScheduler)

    def _model(self, args: Any, text: str, name: str) -> str:
        from swift.model import MODEL_MAPPING
        from swift.model.model_meta import get_matched_model_meta

        if os.path.exists(text):
            return text
        field = "model_type" if name == "model" else f"{name}_type"
        written = getattr(args, field, None)
        if isinstance(written, list):
            written = written[0] if written else None
        if written is not None and written not in MODEL_MAPPING:
            if not self.lost_plugin:
                return self._model_dir(text, None)  # ms-swift itself refuses the unknown type
            setattr(args, field, None)  # the plugin that registers it is not here
            self.replaced.append(f"--{field}")
            written = None
        by_name = get_matched_model_meta(text)
        meta = MODEL_MAPPING[written] if written else by_name or MODEL_MAPPING[FALLBACK_TYPE]
        if by_name is None:
            self._own_folder(args, meta, field)
        return self._model_dir(text, meta)

    def _own_folder(self, args: Any, meta: Any, field: str) -> None:
        """A folder of the user's own: its `config.json` and `args.json` would have told model type and template."""
        if not isinstance(getattr(args, field, []), list):  # reward models have a list of types, which nothing reads while parsing
            setattr(args, field, meta.model_type)
        if field == "model_type" and getattr(args, "template", "") is None and meta.template is None and len(meta.candidate_templates) != 1:
            args.template = (
                FALLBACK_TEMPLATE if FALLBACK_TEMPLATE in meta.candidate_templates else next(iter(meta.candidate_templates), "dummy")
            )
            self.replaced.append("--template")

    def _model_dir(self, text: str, meta: Any) -> str:
        folder = self.home / "models" / (text.rstrip("/").split("/")[-1].replace(":", "_") or "model")
        if not folder.exists():
            folder.mkdir(parents=True)
            config = fixtures.model_config(meta, self.shape, self.parallel)
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return str(folder)

    def _adapter(self, args: Any, text: str) -> str:
        label, _, path = text.rpartition("=")  # swift deploy takes name=path
        if os.path.exists(path):
            return text
        folder = self.home / "adapters" / (path.rstrip("/").split("/")[-1] or "adapter")
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "adapter_config.json").write_text(
                json.dumps({"peft_type": "LORA", "r": getattr(args, "lora_rank", 8), "lora_alpha": 32, "target_modules": ["q_proj"]}),
                encoding="utf-8",
            )
            self._args_json(args, folder, "lora")
        return f"{label}={folder}" if label else str(folder)

    def _checkpoint(self, args: Any, text: str) -> str:
        if os.path.exists(text):
            return text
        folder = self.home / "checkpoints" / (text.rstrip("/").split("/")[-1] or "checkpoint")
        if not folder.exists():
            folder.mkdir(parents=True)
            self._args_json(args, folder, getattr(args, "tuner_type", "full"))
        return str(folder)

    def _args_json(self, args: Any, folder: Path, tuner_type: str) -> None:
        """What a training run of ms-swift leaves beside its weights: the model that it started from."""
        from swift.model import MODEL_MAPPING

        saved = {"tuner_type": tuner_type, "swift_version": "4.6.0"}
        if getattr(args, "model", None):
            saved["model"] = args.model
        else:
            model = self._model_dir("stand-in", MODEL_MAPPING[FALLBACK_TYPE])
            saved.update(model=model, model_type=FALLBACK_TYPE, template=FALLBACK_TEMPLATE)
        (folder / "args.json").write_text(json.dumps(saved), encoding="utf-8")

    def _text(self, text: str) -> str:
        if os.path.isfile(text):
            return text
        path = self.home / "stand-in.txt"
        path.write_text("You are a helpful assistant.", encoding="utf-8")
        return str(path)

    def _json(self, text: str, name: str) -> str:
        if text in PRESETS or not text.endswith(".json") or os.path.isfile(text):
            return text
        if name == "fsdp":
            return "fsdp2"
        return "zero3" if "3" in Path(text).name else "zero2"

    def _output(self, args: Any) -> None:
        """Output goes nowhere near the caller's folders."""
        for name in ("output_dir", "logging_dir", "tensorboard_dir", "eval_output_dir", "result_path"):
            value = getattr(args, name, None)
            if isinstance(value, str) and value:
                setattr(args, name, str(self.home / "out" / Path(value).name))
