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

    lost_plugin = False

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
            setattr(args, field, FALLBACK_TYPE)
            self.replaced.append(f"--{field}")
            return self._model_dir(text, MODEL_MAPPING[FALLBACK_TYPE])
        meta = MODEL_MAPPING[written] if written else get_matched_model_meta(text)
        if meta is None:  # a folder of the user's own, whose config.json would have told the type
            meta = MODEL_MAPPING[FALLBACK_TYPE]
            if name == "model" and hasattr(args, "model_type"):
                args.model_type = FALLBACK_TYPE
        return self._model_dir(text, meta)

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
                json.dumps({"peft_type": "LORA", "r": getattr(args, "lora_rank", 8), "lora_alpha": 32, "target_modules": ["q_proj"]}), encoding="utf-8"
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

        model = getattr(args, "model", None) or self._model_dir("stand-in", MODEL_MAPPING[FALLBACK_TYPE])
        saved = {"model": model, "model_type": getattr(args, "model_type", None) or FALLBACK_TYPE, "tuner_type": tuner_type, "swift_version": "4.6.0"}
        if getattr(args, "model", None):
            saved.pop("model_type")  # the name decides
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
