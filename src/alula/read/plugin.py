"""A plugin file read as syntax: it is never imported, and nothing in it runs."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from alula.run.plugin import Function, Import, Parameter, Plugin, PluginClass
from alula.run.source import Source, Span

from .plugin_body import Body, FunctionNode, Scope, assigns_of, calls_of, endless_of, mentions_of, rebuilds_of
from .plugin_registry import Names, Registrations
from .plugin_returns import returns_of

MAX_BYTES = 2_000_000
MAX_MODULES = 20
MAX_DEPTH = 3
# Packages that are often imported by plugins and register nothing with ms-swift.
_INERT = frozenset(
    """swift torch transformers numpy datasets trl peft accelerate deepspeed vllm requests aiohttp httpx openai anthropic dashscope math_verify
    latex2sympy2_extended sympy PIL cv2 tqdm pandas scipy sklearn nltk rouge rouge_score rouge_chinese jieba regex yaml json_repair json5 orjson ujson
    modelscope megatron mcore_bridge Levenshtein rapidfuzz fuzzywuzzy editdistance sacrebleu evaluate bert_score sentence_transformers ray fastapi
    pydantic tenacity loguru wandb swanlab faiss redis grpc matplotlib shapely librosa soundfile torchvision torchaudio safetensors tokenizers
    typing_extensions dacite packaging einops flask uvicorn starlette bs4 lxml psutil e2b e2b_code_interpreter openenv gymnasium gym zhipuai tiktoken
    qwen_vl_utils decord av imageio networkx joblib dotenv""".split()
)
_NEWER = re.compile(r"^\s*(type\s+\w|match\s|case\s|except\s*\*|(class|def)\s+\w+\s*\[)")


def read_plugin(source: Source) -> Plugin:
    """A plugin's text -> Plugin. A syntax error is in `Plugin.error`, never raised; modules beside the file that it imports are read too."""
    folder = Path(source.path).parent if source.path is not None else None
    return _Reader(folder, {}).read(source, 0)


def _parse(source: Source) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source.data, filename=source.name)


class _Reader:
    """Reads one plugin and, through its imports, the modules beside it."""

    def __init__(self, folder: Path | None, seen: dict[Path, Plugin]) -> None:
        self.folder = folder
        self.seen = seen

    def read(self, source: Source, depth: int) -> Plugin:
        if len(source.data) > MAX_BYTES:
            return Plugin(source.name, open=True)
        try:
            tree = _parse(source)
        except SyntaxError as error:
            return Plugin(source.name, open=True, error=_syntax_error(source, error))
        except ValueError as error:  # NUL bytes
            return Plugin(source.name, open=True, error=(str(error), Span(source.name, 0, 0)))
        except (RecursionError, MemoryError):
            return Plugin(source.name, open=True)
        try:
            found = _Module(source, tree)
            return self._with_imports(found, depth)
        except RecursionError:
            return Plugin(source.name, open=True)

    def _with_imports(self, module: _Module, depth: int) -> Plugin:
        """Add what local modules register. A module that is not at hand and not known to be harmless may register anything."""
        own = module.plugin()
        registrations = list(own.registrations)
        is_open = own.open
        data = own.registers_data
        for name in sorted(module.modules):
            head = name.lstrip(".").partition(".")[0]
            if not name.startswith(".") and (head in sys.stdlib_module_names or head in _INERT):
                continue
            path = self._module_path(name.lstrip("."))
            if path is None or depth >= MAX_DEPTH or len(self.seen) >= MAX_MODULES:
                is_open = True
                continue
            if path not in self.seen:
                self.seen[path] = Plugin(str(path))  # a cycle ends here
                try:
                    self.seen[path] = self.read(Source(str(path), path.read_bytes(), str(path)), depth + 1)
                except OSError:
                    is_open = True
            other = self.seen[path]
            registrations = [*other.registrations, *registrations]
            is_open = is_open or other.open
            data = data or other.registers_data
        return Plugin(own.file, own.classes, own.functions, tuple(registrations), own.imports, is_open, data)

    def _module_path(self, name: str) -> Path | None:
        if self.folder is None or not name:
            return None
        base = self.folder.joinpath(*name.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return path
        return None


def _syntax_error(source: Source, error: SyntaxError) -> tuple[str, Span] | None:
    """None where a newer Python may well accept what this one does not."""
    line = source.line(error.lineno or 0)
    message = error.msg or "invalid syntax"
    if "f-string" in message or re.search(r"\bf[rR]?['\"]", line) or _NEWER.match(line):
        return None
    start = _offset(source, error.lineno or 1, len(line[: max((error.offset or 1) - 1, 0)].encode("utf-8", "replace")))
    return message, Span(source.name, start, start + 1)


def _offset(source: Source, line: int, column: int) -> int:
    """Line (from 1) and bytes in it -> byte of the file."""
    at = 0
    for _ in range(line - 1):
        next_line = source.data.find(b"\n", at)
        if next_line == -1:
            return len(source.data)
        at = next_line + 1
    if line == 1 and source.data.startswith(b"\xef\xbb\xbf"):
        at += 3
    return min(at + column, len(source.data))


class _Module:
    """One parsed file on its way to a Plugin."""

    def __init__(self, source: Source, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self._children: dict[int, list[ast.AST]] = {}
        self.nodes, self.guarded = _walk(tree, self._children)
        self.names = Names()
        self.modules: set[str] = set()
        self.imports: list[Import] = []
        self.open = False
        self._line_starts = [0]
        for line in source.data.split(b"\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._collect()

    # --- names and places ---

    def span(self, node: ast.AST) -> Span:
        """The bytes of a node; of a function or class only its first line."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end_column = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None) or column
        start = self._at(line, column)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or end_line > line:
            end = self.source.data.find(b"\n", start)
            return Span(self.source.name, start, len(self.source.data) if end == -1 else end)
        return Span(self.source.name, start, max(self._at(end_line, end_column), start))

    def children(self, node: ast.AST) -> list[ast.AST]:
        return self._children.get(id(node), [])

    def _at(self, line: int, column: int) -> int:
        start = self._line_starts[min(line - 1, len(self._line_starts) - 1)]
        if line == 1 and self.source.data.startswith(b"\xef\xbb\xbf"):
            start += 3
        return min(start + column, len(self.source.data))

    def _collect(self) -> None:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names.imports[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]
                    self._imported(alias.name, (), node)
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                for alias in node.names:
                    self.names.imports[alias.asname or alias.name] = f"{module}.{alias.name}"
                self._imported(module, tuple(alias.name for alias in node.names), node)
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            value = getattr(node, "value", None)
            for target in targets:
                if isinstance(target, ast.Name) and value is not None:
                    self.names.constants[target.id] = value
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                self._holder(node)

    def _imported(self, module: str, names: tuple[str, ...], node: ast.AST) -> None:
        if module.startswith("."):
            self.modules.update([module] if module.strip(".") else [f".{name}" for name in names])
        else:
            self.modules.add(module)
        if module == "swift" or module.startswith("swift."):
            self.imports.append(Import(module, names, self.span(node), id(node) in self.guarded))

    def _holder(self, node: ast.Assign) -> None:
        """`self.session = requests.Session()`: calls of `self.session.post` are calls of requests."""
        made = self.names.dotted(node.value.func) if isinstance(node.value, ast.Call) else ""
        if made.partition(".")[0] not in ("requests", "httpx", "openai", "aiohttp", "urllib", "urllib3"):
            return
        for target in node.targets:
            name = _plain(target)
            if name:
                self.names.holders.setdefault(name, made)

    # --- what it defines ---

    def plugin(self) -> Plugin:
        scope = Scope(self.names.dotted, self.span, self.children)
        classes: dict[str, PluginClass] = {}
        functions: dict[str, Function] = {}
        for node in self.nodes:
            if isinstance(node, ast.ClassDef):
                bases = tuple(name for name in (self.names.dotted(base) for base in node.bases) if name)
                methods = {
                    item.name: self._function(item, scope, method=True)
                    for item in node.body
                    if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))
                }
                methods.update(_aliases(node, methods))
                classes[node.name] = PluginClass(node.name, self.span(node), bases, methods)
        for node in self.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions[node.name] = self._function(node, scope, method=False)
        finder = Registrations(self.tree, self.nodes, self.children, self.names, self.span, set(classes), {n.name for n in self.nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))})
        registrations = finder.find()
        data = any(
            isinstance(node, ast.Call) and self.names.dotted(node.func).rsplit(".", 1)[-1] in ("register_dataset", "register_dataset_info")
            for node in self.nodes
        )
        return Plugin(self.source.name, classes, functions, registrations, tuple(self.imports), finder.open, data)

    def _function(self, node: FunctionNode, scope: Scope, method: bool) -> Function:
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        required = len(positional) - len(arguments.defaults)
        parameters = [Parameter(argument.arg, at < required) for at, argument in enumerate(positional)]
        body = Body(node, scope)
        static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
        if method and not static and parameters:
            parameters = parameters[1:]
        parameters += [Parameter(a.arg, default is None, True) for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
        return Function(
            node.name, self.span(node), tuple(parameters), arguments.vararg is not None or (method and not static and not positional),
            arguments.kwarg is not None, isinstance(node, ast.AsyncFunctionDef),
            any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in body.nodes),
            calls_of(node, scope), returns_of(body, scope), rebuilds_of(body, scope), assigns_of(body), endless_of(body, scope), mentions_of(body),
        )  # fmt: skip


def _aliases(node: ast.ClassDef, methods: Mapping[str, Function]) -> Iterator[tuple[str, Function]]:
    """`__call__ = score` in a class."""
    for item in node.body:
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Name) and item.value.id in methods:
            for target in item.targets:
                if isinstance(target, ast.Name):
                    yield target.id, methods[item.value.id]


def _walk(tree: ast.Module, children: dict[int, list[ast.AST]]) -> tuple[list[ast.AST], set[int]]:
    """All nodes (their children go into `children`, by id), and the ids of import statements that need not run when the file is imported: under `try`, `if`, or in a function."""
    nodes: list[ast.AST] = []
    guarded: set[int] = set()
    todo: list[tuple[ast.AST, bool]] = [(tree, False)]
    while todo:
        node, inside = todo.pop()
        nodes.append(node)
        if inside and isinstance(node, (ast.Import, ast.ImportFrom)):
            guarded.add(id(node))
        inside = inside or isinstance(node, (ast.Try, ast.If, ast.FunctionDef, ast.AsyncFunctionDef))
        below = children[id(node)] = list(ast.iter_child_nodes(node))
        todo.extend((child, inside) for child in reversed(below))
    return nodes, guarded


def _plain(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""
