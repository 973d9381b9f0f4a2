"""placeholder until written below"""
from pathlib import Path
from typing import Any
from .source import Tree
def registries(tree: Tree, wheels: Path) -> dict[str, Any]:
    return {}
