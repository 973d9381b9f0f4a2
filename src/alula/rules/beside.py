"""The files beside a run: its rows of data and its plugins, found on this disk and read once a run.

What is not here (a hub id, a path on another machine, a form that is not looked into) is not known, and rules stay silent about it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alula.run.finding import Finding, Fix
from alula.run.source import Source, Span, Token
from alula.swift.columns import STANDARD, Mapped, mapped
from alula.swift.parse import UNKNOWN
from alula.swift.rows import Converted, convert

if TYPE_CHECKING:
    from alula.run.dataset import DatasetSample, Row
    from alula.run.plugin import Plugin, PluginClass, Registration
    from alula.swift.effective import View

    from .context import JobCheck, RunCheck
    from .registry import Rule

ROWS_SUFFIXES = (".jsonl", ".csv", ".parquet", ".txt")


def local_file(whole: RunCheck, name: str, script: str | None = None) -> Path | None:
    """A path of the run on this disk: from where the run starts, else from beside the script that names it."""
    path = Path(name).expanduser()
    beside = [Path(whole.cwd), *([Path(script).parent] if script and not script.startswith(("<", "-")) else [])]
    try:
        for folder in beside:
            if (folder / path).is_file():
                return folder / path
    except (OSError, ValueError):  # a name too long, or with a NUL
        return None
    return None


def from_comment(view: View) -> bool:
    """A job that only a comment of a plugin or of rows names: what it does not say counts as not said."""
    return view.job.commented and view.job.file.endswith((".py", ".json", *ROWS_SUFFIXES))


# --- rows ---


@dataclass(frozen=True, eq=False, repr=False)
class Entry:
    """One value of `--dataset` or `--val_dataset`.

    Attributes:
        name: without the prefix of a hub, subsets and `#N`.
        take: the N of `#N`.
        token: where it is written; None for rows that stand for the data.
        sample: what the file holds; None where it is not here, or of a form that is not looked into.
        mapped: its columns as ms-swift maps them; None where they are not known.
        path: the file on this disk.
    """

    name: str
    take: int | None
    token: Token | None
    sample: DatasetSample | None
    mapped: Mapped | None
    path: Path | None = None

    @property
    def count(self) -> int | None:
        """Rows that it gives, `#N` applied (more than there are repeats them)."""
        if self.take is not None:
            return self.take
        return self.sample.count if self.sample is not None else None


@dataclass(frozen=True, eq=False, repr=False)
class Data:
    """The data of one flag of a job.

    Attributes:
        keeps_all: columns that ms-swift does not know are kept (GRPO); None where that is not known.
    """

    entries: tuple[Entry, ...]
    keeps_all: bool | None

    @property
    def complete(self) -> bool:
        """True when all of it was found and has known columns."""
        return bool(self.entries) and all(entry.mapped is not None for entry in self.entries)

    @property
    def count(self) -> int | None:
        """Rows altogether, or None."""
        counts = [entry.count for entry in self.entries]
        return sum(count for count in counts if count is not None) if counts and None not in counts else None

    @cached_property
    def columns(self) -> frozenset[str] | None:
        """Columns of the loaded data, which is the union over its parts; None where a part is not known."""
        if not self.complete or self.keeps_all is None:
            return None
        every = frozenset().union(*(entry.mapped.columns for entry in self.entries if entry.mapped is not None))
        return every if self.keeps_all else every & STANDARD


def split_name(value: str, exists: bool) -> tuple[str, int | None]:
    """`hf::id:subset#N` -> (id or path, N). `exists`: the whole is a path."""
    if exists:
        return value, None
    head, colons, rest = value.partition("::")
    value = rest if colons and head.lower() in ("hf", "ms") else value
    name, mark, count = value.rpartition("#")
    take = int(count) if mark and count.strip().lstrip("-").isdigit() else None
    return ((name if take is not None else value), take)


def data_of(c: JobCheck, flag: str = "dataset") -> Data | None:
    """What is known about the data of a job; None when the flag is not given, or its values are not known."""
    key = f"data:{c.v.index}:{flag}"
    found: Data | None = c.whole.once(key, lambda: _data_of(c, flag))
    return found


def train_rows(c: JobCheck) -> int | None:
    """Rows that are trained on in one epoch, the validation split taken off; None where that is not known."""
    data = data_of(c)
    ratio = c.v.get("split_dataset_ratio", 0.0)
    if data is None or data.count is None or c.v.get("streaming") is not False or not isinstance(ratio, (int, float)):
        return None
    if ratio <= 0:
        return data.count
    return sum(entry.count - max(int(entry.count * ratio), 1) for entry in data.entries if entry.count is not None)


def _data_of(c: JobCheck, flag: str) -> Data | None:
    keeps = c.v.get("remove_unused_columns")
    keeps_all = None if keeps is UNKNOWN else not keeps
    user = columns_mapping(c.v)
    automatic = c.v.get("disable_auto_column_mapping", False)
    known_mapping = user is not None and automatic is not UNKNOWN and c.v.get("custom_dataset_info") in ((), None)
    if from_comment(c.v) and not any(c.v.use(name) for name in ("columns", "disable_auto_column_mapping", "custom_dataset_info")):
        user, automatic, known_mapping = {}, False, True
    stand_in = c.whole.dataset_file if flag == "dataset" else None
    if stand_in is not None:
        sample = _sample(c.whole, Path(stand_in), stand_in)
        return Data((_entry(stand_in, None, None, sample, user if known_mapping else None, bool(automatic), Path(stand_in)),), keeps_all)
    use = c.v.use(flag)
    if use is None or use.maybe or not use.values or not all(value.known for value in use.values):
        return None
    loose = loose_rows(c.whole)
    entries: list[Entry] = []
    for token in use.values:
        whole_path = local_file(c.whole, token.text, c.job.file)
        name, take = split_name(token.text, whole_path is not None)
        path = whole_path or local_file(c.whole, name, c.job.file) or _given(loose, name, len(use.values) == 1)
        sample = _sample(c.whole, path, name) if path is not None else None
        entries.append(_entry(name, take, token, sample, user if known_mapping else None, bool(automatic), path))
    return Data(tuple(entries), keeps_all)


def _entry(
    name: str, take: int | None, token: Token | None, sample: DatasetSample | None, user: Mapping[str, str] | None, disabled: bool, path: Path | None
) -> Entry:
    known = sample is not None and sample.rows and user is not None
    return Entry(name, take, token, sample, mapped(sample.columns, user, not disabled) if known and sample is not None else None, path)


def columns_mapping(v: View) -> Mapping[str, str] | None:
    """`--columns` as a mapping; None where it cannot be known (it may also name a file)."""
    value = v.get("columns")
    if not isinstance(value, dict):
        return {} if value is None else None
    return {str(old): str(new) for old, new in value.items()}


def _sample(whole: RunCheck, path: Path, name: str) -> DatasetSample | None:
    given = next((given for given, there in loose_rows(whole).items() if there == path), name)
    from alula.read.dataset import read_dataset

    found: DatasetSample | None = whole.once(f"rows:{path}", lambda: read_dataset(path, given))
    return found


def loose_rows(whole: RunCheck) -> dict[str, Path]:
    """Files of rows that were given to `check` themselves, by name."""
    configs = {job.config for job in whole.run.jobs} | {job.file for job in whole.run.jobs} | {whole.dataset_file}
    found: dict[str, Path] = {}
    from alula.read.dataset import form_of

    for name, source in whole.run.sources.items():
        rows = name.endswith(ROWS_SUFFIXES) or (name.endswith(".json") and name not in configs)
        if rows and source.path is not None and form_of(source.path) is not None:
            found[name] = Path(source.path)
    return found


def _given(loose: Mapping[str, Path], name: str, alone: bool) -> Path | None:
    """A file given beside the script that the run names, or the only one there is."""
    same = [path for given, path in loose.items() if posixpath.basename(given) == posixpath.basename(name)]
    if same:
        return same[0]
    return next(iter(loose.values())) if alone and len(loose) == 1 else None


@dataclass
class RowsCheck:
    """One file of rows and the job that uses it, as a rule sees them.

    Attributes:
        c: the job; None for rows that were given without one.
        flag: `dataset` or `val_dataset`.
        data: everything that flag names.
    """

    whole: RunCheck
    rule: Rule
    sample: DatasetSample
    c: JobCheck | None = None
    flag: str = "dataset"
    entry: Entry | None = None
    data: Data | None = None

    @property
    def kind(self) -> Any:
        """The algorithm: an rlhf_type, `sft` or `sample`; UNKNOWN where it is not known, None without a job."""
        if self.c is None:
            return None
        route = self.c.v.route
        if route.endswith(" rlhf"):
            return self.c.v.rlhf_type
        return {"swift sft": "sft", "swift pt": "sft", "megatron sft": "sft", "megatron pt": "sft", "swift sample": "sample"}.get(route)

    @property
    def mapped(self) -> Mapped | None:
        if self.entry is not None:
            return self.entry.mapped
        return mapped(self.sample.columns, {}) if self.sample.rows else None

    @property
    def converted(self) -> list[tuple[Row, Converted]]:
        """The rows with what ms-swift makes of each; empty where the mapping of their columns is not known."""
        found = self.mapped
        if found is None or self._own_loading:
            return []
        key = f"converted:{self.sample.path}:{sorted(found.renamed.items())}"
        made: list[tuple[Row, Converted]] = self.whole.once(
            key, lambda: [(row, convert(row.values, found, self.sample.columns)) for row in self.sample.rows]
        )
        return made

    @property
    def _own_loading(self) -> bool:
        """A plugin registers data sets, which may load these rows their own way."""
        return self.c is not None and any(plugin.registers_data for plugin in plugins_of(self.whole, self.c.v).plugins)

    def where(self, row: Row | None = None, start: int = 0, end: int = 0) -> Span | None:
        """The row itself where its file was given to `check`, else the word that names the file."""
        source = self.whole.run.sources.get(self.sample.path)
        if source is not None and (row is not None or end):
            first, last = (row.start, row.end) if row is not None else (start, end)
            if 0 < last <= len(source.data):
                return Span(source.name, first, min(last, first + 200))
        if source is not None and (self.entry is None or self.entry.token is None):
            return Span(source.name, 0, 0)
        if self.entry is not None and self.entry.token is not None:
            return self.entry.token.span
        return self.c.span(None) if self.c is not None else None

    def finding(
        self, template: str, row: Row | None = None, *, span: Span | None = None, flags: Sequence[str] = (), fix: Fix | str | None = None, **params: Any
    ) -> Finding:  # fmt: skip
        """A finding about these rows. The template may use `{file}` and, with a row, `{at}` ("line 3 of rows.jsonl")."""
        meta = self.rule
        advice = Fix(fix) if isinstance(fix, str) else fix
        names = tuple(dict.fromkeys([*([self.flag] if self.c is not None else []), *flags]))
        params = {"file": self.sample.path, "at": at_row(self.sample, row), **params}
        index = self.c.v.index if self.c is not None else None
        place = span or self.where(row)
        return Finding(meta.code, meta.slug, meta.severity, meta.confidence, meta.consequence, template, params, index, names, place, (), advice)


def at_row(sample: DatasetSample, row: Row | None) -> str:
    """`line 3 of rows.jsonl`; a row out of the middle of a large file has no number."""
    if row is None or row.number is None:
        return f"a row of {sample.path}"
    return f"{'line' if sample.form in ('jsonl', 'txt') else 'row'} {row.number} of {sample.path}"


def rows_checks(whole: RunCheck, *flags: str) -> Iterator[RowsCheck]:
    """Every file of rows that was found, with the job that uses it; rows given to `check` that no job uses come without one."""
    assert whole.rule is not None
    used: set[str] = set()
    for view in whole.views:
        c = whole.job(view)
        for flag in flags or ("dataset", "val_dataset"):
            data = data_of(c, flag)
            for entry in data.entries if data is not None else ():
                if entry.sample is not None:
                    used.add(entry.sample.path)
                    yield RowsCheck(whole, whole.rule, entry.sample, c, flag, entry, data)
    for name, path in loose_rows(whole).items():
        sample = _sample(whole, path, name)
        if sample is not None and sample.path not in used:
            yield RowsCheck(whole, whole.rule, sample)


def add_source(whole: RunCheck, source: Source) -> None:
    """Keep a text that a rule read, so that findings in it can be shown with their lines. Readers make `Run.sources` a dict."""
    sources = whole.run.sources
    if isinstance(sources, dict) and source.name not in sources:
        sources[source.name] = source
        _added(whole).add(source.name)


def _added(whole: RunCheck) -> set[str]:
    """Names of the sources that were not given to `check` but read because the run names them."""
    found: set[str] = whole.once("added sources", set)
    return found


# --- plugins ---


@dataclass(frozen=True, eq=False, repr=False)
class Loaded:
    """The plugins that a job imports.

    Attributes:
        complete: all of them were found and read, and register nothing under names that are not known.
        named: some are named at all.
    """

    plugins: tuple[Plugin, ...]
    complete: bool
    named: bool

    def names(self, registry: str) -> frozenset[str]:
        return frozenset().union(*(plugin.names(registry) for plugin in self.plugins))

    def find(self, registry: str, name: str) -> tuple[Plugin, Registration] | None:
        """Where a name is registered last."""
        for plugin in reversed(self.plugins):
            found = plugin.find(registry, name)
            if found is not None:
                return plugin, found
        return None

    def target(self, registry: str, name: str) -> tuple[Plugin, PluginClass] | None:
        """The class behind a registered name, where it stands in the plugin itself."""
        found = self.find(registry, name)
        if found is None or found[1].kind != "class":
            return None
        cls = found[0].classes.get(found[1].target)
        return (found[0], cls) if cls is not None else None


def plugins_of(whole: RunCheck, view: View) -> Loaded:
    """The plugins of one job (`--external_plugins`, and its older name `--custom_register_path`)."""
    found: Loaded = whole.once(f"plugins:{view.index}", lambda: _plugins_of(whole, view))
    return found


def _plugins_of(whole: RunCheck, view: View) -> Loaded:
    loose = loose_plugins(whole)
    tokens: list[Token] = []
    complete = not view.open_ended or from_comment(view)
    for flag in ("external_plugins", "custom_register_path"):
        use = view.use(flag)
        if use is not None:
            complete = complete and not use.maybe and all(value.known for value in use.values)
            tokens.extend(use.values)
    plugins: list[Plugin] = []
    for token in tokens:
        path = local_file(whole, token.text, view.job.file) if token.known else None
        plugin = _plugin(whole, path, token.text) if path is not None else _named_alike(loose, token.text, len(tokens) == 1)
        if plugin is None:
            complete = False
        elif plugin not in plugins:
            plugins.append(plugin)
    if not tokens and loose and view.open_ended:
        plugins.extend(loose.values())  # a plugin given to `check` with part of its command in a comment
    complete = complete and not any(plugin.open for plugin in plugins) and not (_reads_checkpoint(view) and not tokens)
    return Loaded(tuple(plugins), complete, bool(tokens))


def _named_alike(loose: Mapping[str, Plugin], name: str, alone: bool) -> Plugin | None:
    """A plugin given beside the run: the one of this name, or the only one there is."""
    same = [plugin for given, plugin in loose.items() if posixpath.basename(given) == posixpath.basename(name)]
    if same:
        return same[0]
    return next(iter(loose.values())) if alone and len(loose) == 1 else None


def _reads_checkpoint(view: View) -> bool:
    """`swift rollout` and `swift sample` take plugins from the args.json of a checkpoint, where none are named."""
    if view.get("load_args") is False:
        return False
    model = view.get("model")
    hub = isinstance(model, str) and model.count("/") == 1 and not model.startswith((".", "/", "~", "output")) and not Path(model).exists()
    return not hub or bool(view.get("adapters"))


def loose_plugins(whole: RunCheck) -> dict[str, Plugin]:
    """Plugin files that were given to `check` themselves, by name."""

    def make() -> dict[str, Plugin]:
        from alula.read.plugin import read_plugin

        return {name: read_plugin(source) for name, source in list(whole.run.sources.items()) if name in given}

    given = {name for name in whole.run.sources if name.endswith(".py")} - _added(whole)
    if not given:
        return {}
    found: dict[str, Plugin] = whole.once("plugins", make)
    return found


def _plugin(whole: RunCheck, path: Path, name: str) -> Plugin | None:
    """A plugin on disk; its text is kept, so that findings can be shown in it."""

    def make() -> Plugin | None:
        from alula.read.plugin import MAX_BYTES, read_plugin

        given = next((plugin for known, plugin in loose_plugins(whole).items() if _same_file(whole.run.sources.get(known), path)), None)
        if given is not None:
            return given
        try:
            if path.stat().st_size > MAX_BYTES:
                return None
            source = Source(name, path.read_bytes(), str(path))
        except OSError:
            return None
        add_source(whole, source)
        return read_plugin(source)

    found: Plugin | None = whole.once(f"plugin:{path}", make)
    return found


def _same_file(source: Source | None, path: Path) -> bool:
    return source is not None and source.path is not None and Path(source.path).resolve() == path.resolve()
