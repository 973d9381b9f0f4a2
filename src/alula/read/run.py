"""From files, stdin or a bare command to a Run."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from alula.run.finding import Finding
from alula.run.job import Cluster, Command, EnvEntry, Job, Launch, Run
from alula.run.source import Source, Span, Token

from .errors import ReadError
from .launcher import find_start

if TYPE_CHECKING:
    from .yaml import Entry

# `.config` is imported where a config is met: most runs are scripts, and PyYAML takes a tenth of a check's start-up.

CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
ROWS_SUFFIXES = (".jsonl", ".csv", ".parquet")
MAX_BYTES = 5_000_000
MAX_JOBS = 200  # of one script; a loop with more starts has shown by then what it does
_YAML_FIRST_SINCE = (4, 1)
_CONFIG_FLAG_SINCE = (3, 10)


@dataclass(frozen=True)
class ReadOptions:
    """How to read.

    Attributes:
        args: the script's own arguments.
        environ: the environment the script would see.
        cwd: where it would be started; relative paths begin here.
        cluster: what the user said about the machines.
        route: the route of a bare YAML.
        version: the ms-swift version, since older ones take config files otherwise.
    """

    args: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cwd: Path = field(default_factory=Path.cwd)
    cluster: Cluster = field(default_factory=Cluster)
    route: str | None = None
    version: str = "4.6.0"


def load_source(name: str, stdin: bytes | None = None) -> Source:
    """A file's bytes, or stdin's for `-`. A pipe is read to its end (`alula check <(make-script)`), one that nobody writes to is refused.

    Raises:
        ReadError: missing, a directory, unreadable, a pipe without a writer, or larger than 5 MB.
    """
    data = stdin or b""
    path = None if name == "-" else name
    try:
        if path is not None:
            if not path or Path(path).is_dir():
                raise ReadError("is a directory; give a script, a YAML or `-- swift …`" if path else "the name of the file is empty", path or None)
            data = _bytes_of(path)
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", name) from None
    except ValueError as error:  # an embedded NUL in the name
        raise ReadError(f"cannot be read: {error}", repr(name)) from None
    if len(data) > MAX_BYTES:
        if not name.endswith(ROWS_SUFFIXES):  # rows are sampled from the file itself; the text here is for showing places in it
            raise ReadError(f"is larger than the {MAX_BYTES:,} bytes that a launch script may have", name)
        data = data[:MAX_BYTES]
    return Source(name, data, path)


def _bytes_of(path: str) -> bytes:
    """The first bytes of a file, one more than are allowed, without waiting for a pipe that has no writer."""
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        kind = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(kind):
            return file.read(MAX_BYTES + 1)
        os.set_blocking(file.fileno(), True)
        data = file.read(MAX_BYTES + 1)
    if not data and stat.S_ISFIFO(kind):
        raise ReadError("is a pipe that nobody writes to", path)
    return data


def read_source(source: Source, options: ReadOptions) -> Run:
    """One script, config, plugin or file of rows -> Run. Raises ReadError when it cannot be read at all."""
    if source.name.endswith((".py", *ROWS_SUFFIXES)) or (source.name.endswith(".json") and _holds_rows(source.data)):
        return _read_beside(source, options)
    if source.name.endswith(CONFIG_SUFFIXES) or (source.name == "-" and options.route is not None):
        return _read_config_file(source, options)
    return _read_script(source, options)


def _holds_rows(data: bytes) -> bool:
    """A `.json` that is no config: an array, or an object on each line."""
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").strip().partition(b"\n")
    return first.startswith(b"[") or (first.startswith(b"{") and first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{"))


def _read_beside(source: Source, options: ReadOptions) -> Run:
    """A plugin or rows given by themselves: no job of their own, but for what their comments say about their use."""
    from .hints import context_job

    job = context_job(source)
    return Run((job,) if job is not None else (), {source.name: source}, options.cluster)


def read_command(words: Sequence[str], options: ReadOptions) -> Run:
    """A command given after `--`: `swift rlhf …`, already split into words, environment assignments in front."""
    spans: list[Token] = []
    text = b""
    for word in words:
        raw = _quoted(word).encode("utf-8", "surrogateescape")
        spans.append(Token(word, Span("<args>", len(text), len(text) + len(raw))))
        text += raw + b" "
    source = Source("<args>", text.rstrip(b" "))
    env = _inherited(options.environ)
    at = 0
    if spans and spans[0].text == "env":
        at = 1
    while at < len(spans) and _is_assignment(spans[at].text):
        name, _, value = spans[at].text.partition("=")
        env[name] = EnvEntry(name, spans[at].with_text(value), "prefix")
        at += 1
    command = Command(tuple(spans[at:]), env, Span("<args>", 0, len(source.data)))
    builder = _Builder(options, {source.name: source}, {})
    job = builder.job(command)
    if job is None:
        raise ReadError(f"`{' '.join(words[:4])}` is no ms-swift command; write `alula check -- swift rlhf …`")
    return Run((job,), builder.sources, options.cluster, tuple(builder.findings), tuple(_unresolved((job,))))


def together(runs: Sequence[Run]) -> Run:
    """Several files as one run. Scripts of the same job that differ by node only become one Job with several launches."""
    jobs: list[Job] = []
    sources: dict[str, Source] = {}
    findings: list[Finding] = []
    unresolved: list[Token] = []
    for run in runs:
        shift = len(jobs)
        sources.update(run.sources)
        findings.extend(replace(f, job=f.job + shift) if f.job is not None else f for f in run.findings)
        unresolved.extend(run.unresolved)
        for job in run.jobs:
            same = next((at for at, known in enumerate(jobs) if known.file != job.file and _same_job(known, job)), None)
            if same is None:
                jobs.append(job)
            else:
                jobs[same] = replace(jobs[same], launches=(*jobs[same].launches, *job.launches))
    return Run(tuple(jobs), sources, runs[0].cluster if runs else Cluster(), tuple(findings), tuple(unresolved))


def _same_job(a: Job, b: Job) -> bool:
    """Two nodes' scripts of one job: the same words, launched on several nodes with different ranks."""
    if a.route != b.route or a.launch.nnodes is None or b.launch.nnodes is None:
        return False
    ranks = [launch.node_rank.text if launch.node_rank else "" for launch in (*a.launches, b.launch)]
    return len(set(ranks)) == len(ranks) and [t.text for t in a.argv] == [t.text for t in b.argv]


# --- scripts ---


def _read_script(source: Source, options: ReadOptions) -> Run:
    from .shell import ShellContext, read_shell

    context = ShellContext(
        args=options.args, environ=options.environ, cwd=options.cwd, script=source.name, gpus_per_node=options.cluster.gpus_per_node
    )  # fmt: skip
    try:
        result = read_shell(source, context)
    except ValueError as error:
        raise ReadError(str(error), source.name) from None
    builder = _Builder(options, {source.name: source, **result.sources}, result.files)
    jobs: list[Job] = []
    further: list[Token] = []
    for command in result.commands:
        job = builder.job(command)
        if job is None:
            continue
        if len(jobs) == MAX_JOBS:
            text = f"the starts behind the first {MAX_JOBS}"
            further.append(Token(text, command.span, unresolved=(text,)))
            break
        jobs.append(job)
    findings = (*result.findings, *builder.findings)
    return Run(tuple(jobs), builder.sources, options.cluster, findings, (*_unresolved(jobs), *further))


class _Builder:
    """Commands -> Jobs, reading the config files they name."""

    def __init__(self, options: ReadOptions, sources: dict[str, Source], written: Mapping[str, Token]) -> None:
        self.options = options
        self.sources = sources
        self.written = written
        self.findings: list[Finding] = []
        major, minor = (int(part) for part in options.version.split(".")[:2])
        self.version = (major, minor)

    def job(self, command: Command) -> Job | None:
        start = find_start(tuple(_and_so_on(word) for word in command.words), command.env)
        if start is None:
            return None
        job = Job(
            command.span.file, start.route, start.argv, command.env, (start.launch,), command.span, start.argv, command.shell_variables,
            background=command.background, maybe=command.maybe, commented=command.commented, loop=command.loop,
        )  # fmt: skip
        if start.route == "megatron rlhf":
            asked, rest = _use_ray(start.argv)
            if asked:
                return self._ray(job)
            job = replace(job, argv=rest)
        return self._with_config(job)

    def _with_config(self, job: Job) -> Job:
        """Flatten a config file in place, as this version of ms-swift does."""
        if self.version >= _YAML_FIRST_SINCE:
            if not job.argv or not job.argv[0].text.endswith(CONFIG_SUFFIXES):
                return job
            at, count = 0, 1
        elif self.version >= _CONFIG_FLAG_SINCE:
            place = next((n for n, token in enumerate(job.argv) if token.text == "--config" and n + 1 < len(job.argv)), None)
            if place is None:
                return job
            at, count = place, 2
        else:
            return job
        from .config import env_block, flatten

        token = job.argv[at + count - 1]
        entries = self._entries(token)
        if entries is None:  # not here: it may hold any flag
            words: tuple[Token, ...] = (replace(token, unresolved=(token.text,)),)
            return replace(job, argv=(*job.argv[:at], *words, *job.argv[at + count :]), config=token.text)
        env = {**env_block(entries), **job.env}
        launch = job.launch if job.launch.launcher != "cli" else _launch_from(env)
        argv = (*job.argv[:at], *flatten(entries), *job.argv[at + count :])
        return replace(job, argv=argv, env=env, launches=(launch,), config=token.text)

    def _ray(self, job: Job) -> Job:
        """`megatron rlhf --use_ray true --config x.yaml`: everything but `--config` is dropped (`cli/_megatron/rlhf.py`)."""
        place = next((n for n, token in enumerate(job.argv) if token.text == "--config" and n + 1 < len(job.argv)), None)
        if place is None:
            return job
        token = job.argv[place + 1]
        entries = self._entries(token)
        if entries is None:  # still a Ray job, of unknown size
            unknown = replace(token, unresolved=(token.text,))
            launch = Launch("ray", nproc=unknown)
            return replace(job, argv=(unknown,), launches=(launch,), config=token.text)
        return ray_job(job, entries, token.text)

    def _entries(self, token: Token) -> Mapping[str, Entry] | None:
        """A config file's entries: one that the script itself writes, else one on disk; None when there is none or it cannot be read."""
        from .config import read_config

        name = token.text
        if not token.known:
            return None
        written = self.written.get(name) or self.written.get(posixpath.normpath(name))
        try:
            if written is not None:
                return self._written_entries(name, written)
            path = self.options.cwd / name
            if not path.is_file():
                return None
            source = load_source(str(path))
            source = Source(name, source.data, source.path)
            self.sources[name] = source
            return read_config(source)
        except ReadError as error:
            self.findings.append(_unreadable(token, str(error)))
            return None

    def _written_entries(self, name: str, written: Token) -> Mapping[str, Entry]:
        """YAML from a here-document. Where its bytes stand in the script unchanged, the nodes point there."""
        from .config import read_config

        text = written.text.encode("utf-8", "surrogateescape")
        source = self.sources.get(written.span.file)
        if source is not None and source.data[written.span.start : written.span.end] == text:
            return read_config(source, written.span.start, text)
        made = Source(name, text)
        self.sources[name] = made
        return read_config(made)


def ray_job(job: Job, entries: Mapping[str, Entry], file: str) -> Job:
    """A Megatron-Ray Job: its argv is what the trainer's workers get."""
    from .config import ray_shared_words, ray_spec

    spec = ray_spec(entries, file)
    train = spec.groups.get("train")
    argv = train.argv if train is not None else ray_shared_words(entries)
    gpus = train.keys.get("gpus") if train is not None else None
    launch = replace(job.launch, launcher="ray", nproc=gpus, nnodes=spec.top.get("nnodes"))
    return replace(job, argv=argv, ray=spec, config=file, launches=(launch,))


def _unreadable(token: Token, reason: str) -> Finding:
    template = "{reason}"
    return Finding("CFG001", "config-unreadable", "error", "high", "refused", template, {"reason": reason}, None, ("config",), token.span)


def _use_ray(argv: tuple[Token, ...]) -> tuple[bool, tuple[Token, ...]]:
    """Whether `--use_ray` starts the Ray driver, and the words without it (`cli/_megatron/rlhf.py:_use_ray`).

    The exact word counts, a following true or false is its value, and bare it is true.
    """
    at = next((n for n, token in enumerate(argv) if token.text == "--use_ray"), None)
    if at is None:
        return False, argv
    value = argv[at + 1].text.lower() if at + 1 < len(argv) else ""
    end = at + 2 if value in ("true", "false") else at + 1
    return value != "false", (*argv[:at], *argv[end:])


def _and_so_on(word: Token) -> Token:
    """`...` in place of arguments, as people write in notes and issues: whatever flags are left out there are not known."""
    return replace(word, unresolved=(word.text,)) if word.text in ("...", "…") else word


# --- bare configs ---


def _read_config_file(source: Source, options: ReadOptions) -> Run:
    from .config import env_block, flatten, is_ray, read_config

    entries = read_config(source)
    if "apiVersion" in entries and "kind" in entries:
        raise ReadError("a Kubernetes manifest, not an ms-swift config; give the config or script it starts", source.name)
    if "compute_environment" in entries or "distributed_type" in entries:
        raise ReadError("a config of accelerate, not of ms-swift; give the script that launches with it", source.name)
    route = options.route or guess_route(entries)
    if options.route is None and entries and route != "ray" and not _any_flag(entries, options.version):
        names = ", ".join(list(entries)[:3])
        raise ReadError(f"no ms-swift config: no key of it is a flag of any command ({names}); `--route 'swift rlhf'` reads it as one all the same", source.name)
    span = Span(source.name, 0, len(source.data))
    env = {**env_block(entries), **_inherited(options.environ)}
    job = Job(source.name, "megatron rlhf" if route == "ray" else route, (), env, (Launch("cli"),), span, config=source.name)
    if route == "ray" or (route == "megatron rlhf" and is_ray(entries)):
        job = ray_job(job, entries, source.name)
        words = job.argv
    else:
        words = flatten(entries)
        argv = words if _complete(entries) else (*words, _rest_of_command(span))
        job = replace(job, argv=argv, launches=(_outside(_launch_from(env), span),))
    job = replace(job, words=words)
    return Run((job,), {source.name: source}, options.cluster, (), tuple(_unresolved((job,))))


def _any_flag(entries: Mapping[str, Entry], version: str) -> bool:
    """Whether a key is, or once was, a flag of some command; else the file belongs to another tool."""
    from alula.facts import swift

    facts = swift.load(version)
    if any(name in facts.flags(route) for route in facts.routes for name in entries):
        return True
    return not {rename.old for rename in swift.renames()}.isdisjoint(entries)


def _complete(entries: Mapping[str, Entry]) -> bool:
    """A config that names its model and, for training, its data; else the command line that starts it gives the rest."""
    model = any(key in entries for key in ("model", "mcore_model", "adapters"))
    return model and any(key in entries for key in ("dataset", "cached_dataset", "to_hf", "to_mcore", "port"))


def _rest_of_command(span: Span) -> Token:
    """What stands after the config on the command line, which is not here."""
    return Token("…", Span(span.file, span.end, span.end), unresolved=("…",))


def _outside(launch: Launch, span: Span) -> Launch:
    """A config without launch variables is started with some that are not here."""
    if launch.nproc is not None or launch.nnodes is not None:
        return launch
    token = Token("$NPROC_PER_NODE", span, unresolved=("$NPROC_PER_NODE",))
    return replace(launch, nproc=token)


def guess_route(entries: Mapping[str, Entry]) -> str:
    """The route a config was written for, from its keys; `ray` for Megatron-Ray."""
    from .config import is_ray

    if is_ray(entries):
        return "ray"
    megatron = any(key in entries for key in ("micro_batch_size", "global_batch_size", "tensor_model_parallel_size", "train_iters"))
    if "rlhf_type" in entries:
        return "megatron rlhf" if megatron else "swift rlhf"
    if any(key in entries for key in ("sampler_type", "sampler_engine", "num_return_sequences")):
        return "swift sample"
    if "to_hf" in entries or "to_mcore" in entries:
        return "megatron export"
    if "stream" in entries or "infer_backend" in entries:
        return "swift deploy" if "port" in entries else "swift infer"
    return "megatron sft" if megatron else "swift sft"


# --- small things ---


_LAUNCH_NAMES = ("NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
INHERITED = (
    *_LAUNCH_NAMES, "CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES", "WORLD_SIZE", "RANK", "LOCAL_RANK",
    "SWIFT_SINGLE_DEVICE_MODE",
)  # fmt: skip


def _inherited(environ: Mapping[str, str]) -> dict[str, EnvEntry]:
    here = Span("<environment>", 0, 0)
    return {name: EnvEntry(name, Token(environ[name], here), "inherited") for name in INHERITED if name in environ}


def _launch_from(env: Mapping[str, EnvEntry]) -> Launch:
    return Launch("cli", *(env[name].token if name in env else None for name in _LAUNCH_NAMES))


def _unresolved(jobs: Sequence[Job]) -> list[Token]:
    """Words and variables of the jobs whose text is not known, each place once."""
    seen: dict[tuple[Span, str], Token] = {}
    for job in jobs:
        for token in (*job.argv, *(entry.token for entry in job.env.values())):
            if token.unresolved:
                seen.setdefault((token.span, token.text), token)
    return list(seen.values())


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier() and name.isascii()


def _quoted(word: str) -> str:
    import shlex

    return shlex.quote(word)
