"""The registries of an ms-swift release: models, templates, and every table whose names can stand in a flag."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from .dataclass_fields import Classes
from .source import Module, Place, Tree, Unknown

# What a table is called here: the variables that hold it in one version or another.
TABLES: dict[str, tuple[str, ...]] = {
    "orms": ("orms",),
    "prms": ("prms",),
    "rm_plugins": ("rm_plugins",),
    "multi_turns": ("multi_turns",),
    "envs": ("envs",),
    "context_managers": ("context_managers",),
    "tuners": ("tuners_map", "extra_tuners"),
    "optimizers": ("optimizers_map",),
    "callbacks": ("callbacks_map",),
    "megatron_callbacks": ("megatron_callbacks_map",),
    "loss_scales": ("loss_scale_map",),
    "loss_types": ("loss_map", "loss_mapping"),
    "metrics": ("eval_metrics_map", "METRIC_MAPPING", "metric_mapping"),
    "agent_templates": ("agent_template_map", "agent_templates"),
}
_HUB_FIELDS = ("ms_model_id", "hf_model_id", "model_path")


def registries(tree: Tree, bridge: Tree | None) -> dict[str, Any]:
    """All registries. `bridge`: mcore-bridge, which holds the Megatron models of ms-swift ≥ 4.1."""
    modules = [tree.module_of(path) for path in tree.files("swift/")]
    out: dict[str, Any] = {"models": _models(tree, modules), "templates": _templates(tree, modules)}
    for name, variables in TABLES.items():
        keys = _table(tree, modules, variables)
        if keys:
            out[name] = keys
    out["tuners"] = sorted({*out.get("tuners", ()), *_literal_tuners(modules)})
    for name, part in (("grpo_loss_types", "rlhf_trainer"), ("megatron_grpo_loss_types", "megatron/trainers/")):
        names = _compared(modules, part)
        if names:
            out[name] = names
    for model_type, conditional in sorted(_megatron_types(tree, modules, bridge).items()):
        if model_type in out["models"]:
            out["models"][model_type]["megatron"] = True
            if conditional:
                out["models"][model_type]["megatron_conditional"] = True
    for entry in out["models"].values():
        if entry.pop("mcore_model_type", None):
            entry["megatron"] = True
    return out


def _calls(modules: Sequence[Module], name: str) -> Iterator[tuple[Module, ast.Call]]:
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield module, node


class _Constructor:
    """A dataclass call read as keyword arguments. Fields without a constant value are absent; omitted ones have their default."""

    def __init__(self, tree: Tree, module: Module, call: ast.Call) -> None:
        self.tree, self.module = tree, module
        place = tree.lookup(module, call.func)
        classes = Classes(tree)
        self.fields = _field_names(classes, place)
        self.given: dict[str, ast.expr] = dict(zip(self.fields, call.args, strict=False))
        self.given.update({k.arg: k.value for k in call.keywords if k.arg})

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self.given:
            return default
        return self.tree.evaluate(self.module, self.given[name])


def _field_names(classes: Classes, place: Place) -> list[str]:
    out: dict[str, None] = {}
    for cls in reversed(classes.mro(place)):
        if isinstance(cls.node, ast.ClassDef):
            for node in cls.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    out[node.target.id] = None
    return list(out)


def _models(tree: Tree, modules: Sequence[Module]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    kinds = _model_kinds(modules)
    for module, call in _calls(modules, "register_model"):
        if not call.args or not isinstance(call.args[0], ast.Call):
            continue
        meta = _Constructor(tree, module, call.args[0])
        model_type = meta.get("model_type")
        groups = meta.given["model_groups"]
        ids: dict[str, None] = {}
        templates = dict.fromkeys(t for t in [meta.get("template")] if t)
        for group in _group_calls(tree, module, groups):
            made = _Constructor(tree, module, group)
            if made.get("template"):
                templates[made.get("template")] = None
            for model in _model_calls(tree, module, made.given["models"]):
                one = _Constructor(tree, module, model)
                for name in _HUB_FIELDS:
                    if one.get(name):
                        ids[one.get(name)] = None
        entry = {
            "architectures": meta.get("architectures", []),
            "templates": list(templates),
            "is_multimodal": bool(meta.get("is_multimodal", False)) or model_type in kinds["MLLMModelType"],
            "is_reward": bool(meta.get("is_reward", False)) or model_type in kinds["RMModelType"],
            "mcore_model_type": meta.get("mcore_model_type"),
            "ids": list(ids),
        }
        out[model_type] = {k: v for k, v in entry.items() if v}
    return out


def _list_items(tree: Tree, module: Module, node: ast.expr) -> list[ast.expr]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [
            inner for item in node.elts for inner in (_list_items(tree, module, item.value) if isinstance(item, ast.Starred) else [item])
        ]
    if isinstance(node, ast.Name):
        place = tree.resolve(module, node.id)
        if isinstance(place.node, ast.expr):
            return _list_items(tree, module, place.node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _list_items(tree, module, node.left) + _list_items(tree, module, node.right)
    return [node]


def _group_calls(tree: Tree, module: Module, node: ast.expr) -> Iterator[ast.Call]:
    for item in _list_items(tree, module, node):
        if not isinstance(item, ast.Call):
            raise Unknown(f"a model group in {module.name}: {ast.unparse(item)[:80]}")
        yield item


_model_calls = _group_calls


def _model_kinds(modules: Sequence[Module]) -> dict[str, set[str]]:
    """The attribute names of the classes that list multimodal and reward model types."""
    out: dict[str, set[str]] = {"MLLMModelType": set(), "RMModelType": set()}
    for module in modules:
        if not module.name.endswith("model.constant"):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and node.name in out:
                for line in node.body:
                    if isinstance(line, ast.Assign):
                        out[node.name] |= {t.id for t in line.targets if isinstance(t, ast.Name)}
    return out


def _templates(tree: Tree, modules: Sequence[Module]) -> list[str]:
    out: set[str] = set()
    for module, call in _calls(modules, "register_template"):
        if call.args and isinstance(call.args[0], ast.Call):
            out.add(_Constructor(tree, module, call.args[0]).get("template_type"))
    return sorted(out)


def _table(tree: Tree, modules: Sequence[Module], variables: Sequence[str]) -> list[str]:
    out: dict[str, None] = {}
    for module in modules:
        for variable in variables:
            for node in module.bindings.get(variable, ()):
                if isinstance(node, ast.Dict):
                    for key in node.keys:
                        if key is not None:
                            out[tree.evaluate(module, key)] = None
    return list(out)


def _literal_tuners(modules: Sequence[Module]) -> set[str]:
    """`get_supported_tuners` unites a literal set with the registered ones."""
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.name == "get_supported_tuners":
                for part in ast.walk(node):
                    if isinstance(part, ast.Set):
                        return {e.value for e in part.elts if isinstance(e, ast.Constant) and isinstance(e.value, str)}
    raise Unknown("get_supported_tuners")


def _compared(modules: Sequence[Module], part: str) -> list[str]:
    """The texts that a GRPO trainer compares its `loss_type` with: all that it can compute."""
    out: set[str] = set()
    for module in modules:
        if part not in module.path or not module.path.endswith("grpo_trainer.py"):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("loss_type"):
                for side in node.comparators:
                    for item in side.elts if isinstance(side, (ast.List, ast.Tuple, ast.Set)) else [side]:
                        if isinstance(item, ast.Constant) and isinstance(item.value, str):
                            out.add(item.value)
    return sorted(out)


def _megatron_types(tree: Tree, modules: Sequence[Module], bridge: Tree | None) -> dict[str, bool]:
    """ms-swift model types with a Megatron mapping: `register_megatron_model` up to 4.0, mcore-bridge's own registry since.

    The value says that its only registration stands under an `if`: it needs a newer megatron-core or a setting of the bridge.
    """
    out: dict[str, bool] = {}
    for module, call in _calls(modules, "register_megatron_model"):
        if call.args and isinstance(call.args[0], ast.Call):
            out.update(dict.fromkeys(_Constructor(tree, module, call.args[0]).get("model_types"), False))
    if not out:
        if bridge is None:
            raise Unknown("this release keeps its Megatron models in mcore-bridge")
        for module, call in _calls([bridge.module_of(path) for path in bridge.files("mcore_bridge/")], "register_model"):
            if call.args and isinstance(call.args[0], ast.Call):
                plain = any(isinstance(statement, ast.Expr) and statement.value is call for statement in module.tree.body)
                for model_type in _Constructor(bridge, module, call.args[0]).get("model_types"):
                    out[model_type] = not plain and model_type not in out  # two conditional ones are the branches of one choice
    return out
