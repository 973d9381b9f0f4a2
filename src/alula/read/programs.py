"""Programs that start another program: what they start, and what environment it gets.

Everything here works on plain words and answers with their indices, so that whoever holds tokens, fields or strings keeps them.
The options are those of the programs' own manuals; only which of them take a value matters.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from alula.run.record import record

_SETTING = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=", re.ASCII)


@record
class Setting:
    """A variable that the wrapper sets: the value is `words[word][offset:end]`, or `text` where it is written otherwise (JSON)."""

    name: str
    word: int
    offset: int = 0
    end: int | None = None
    text: str | None = None


@record
class Peel:
    """What a wrapper starts.

    Attributes:
        program: the indices of the words of the program that it starts, which may be a wrapper again.
        script: the indices of the words that, joined by blanks, are the text a shell runs instead; `offset` characters of the first
            word do not belong to it.
        file: the index of a script file that it runs (`sbatch train.sh`); the words after it are its arguments.
        settings: variables that it sets.
        passes: variables of the caller that it hands on although `keeps` is False.
        unset: variables that it removes.
        keeps: the caller's exported variables reach the program.
        remote: the program runs on another machine or in a container, whose files are not these.
        reads: with neither program nor script: a shell that reads commands from standard input (`ssh host`).
    """

    program: tuple[int, ...] = ()
    script: tuple[int, ...] = ()
    offset: int = 0
    file: int | None = None
    settings: tuple[Setting, ...] = ()
    passes: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()
    keeps: bool = True
    remote: bool = False
    reads: bool = False


@dataclass(slots=True)
class _Options:
    """What a run over leading options saw."""

    at: int
    seen: list[tuple[str, int, int]] = field(default_factory=list)  # option, index and offset of its value

    def values(self, *names: str) -> list[tuple[int, int]]:
        return [(word, offset) for name, word, offset in self.seen if name in names]


def _options(words: Sequence[str], at: int, short: str = "", long: Sequence[str] = (), flags: Collection[str] | None = None) -> _Options:
    """Over options from index `at`.

    `short`: letters that take a value. `long`: long options that take one; or, with `flags`, every long option takes one but those.
    """
    out = _Options(at)
    while out.at < len(words):
        word = words[out.at]
        if word == "--":
            out.at += 1
            break
        if len(word) < 2 or word[0] != "-":
            break
        here = out.at
        out.at += 1
        if word.startswith("--"):
            name, equals, _ = word.partition("=")
            if equals:
                out.seen.append((name, here, len(name) + 1))
            elif (name in long) if flags is None else (name not in flags):
                if out.at < len(words):
                    out.seen.append((name, out.at, 0))
                    out.at += 1
            else:
                out.seen.append((name, here, len(word)))
            continue
        for position, letter in enumerate(word[1:], 1):
            if letter in short:
                if position + 1 < len(word):
                    out.seen.append(("-" + letter, here, position + 1 + (word[position + 1] == "=")))
                elif out.at < len(words):
                    out.seen.append(("-" + letter, out.at, 0))
                    out.at += 1
                break
            out.seen.append(("-" + letter, here, len(word)))
    return out


def _rest(words: Sequence[str], at: int) -> tuple[int, ...]:
    return tuple(range(at, len(words)))


def _settings(words: Sequence[str], places: Sequence[tuple[int, int]]) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """`NAME=VALUE` at these places are settings; a bare `NAME` passes the caller's value on."""
    found: list[Setting] = []
    passes: list[str] = []
    for word, offset in places:
        text = words[word][offset:]
        match = _SETTING.match(text)
        if match:
            found.append(Setting(match.group(1), word, offset + match.end()))
        elif re.fullmatch(r"\w+", text):
            passes.append(text)
    return tuple(found), tuple(passes)


def _leading(words: Sequence[str], at: int) -> tuple[tuple[Setting, ...], int]:
    found: list[Setting] = []
    while at < len(words):
        match = _SETTING.match(words[at])
        if not match:
            break
        found.append(Setting(match.group(1), at, match.end()))
        at += 1
    return tuple(found), at


# --- local wrappers ---


def _plain(short: str = "", long: Sequence[str] = (), operands: int = 0) -> Callable[[Sequence[str]], Peel | None]:
    """A wrapper with options, some operands of its own, and then the program."""

    def peel(words: Sequence[str]) -> Peel | None:
        at = _options(words, 1, short, long).at + operands
        return Peel(_rest(words, at)) if at < len(words) else None

    return peel


def _env(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "uCS", ("--unset", "--chdir", "--split-string"))
    settings, at = _leading(words, options.at)
    unset = tuple(words[word][offset:] for word, offset in options.values("-u", "--unset"))
    clean = any(name in ("-i", "--ignore-environment") for name, _, _ in options.seen) or (options.at > 1 and "-" in words[1 : options.at])
    if at < len(words) and words[at] == "-":
        clean, (settings, at) = True, _leading(words, at + 1)
    split = options.values("-S", "--split-string")
    if split:
        return Peel(script=(split[0][0], *_rest(words, at)), settings=settings, unset=unset, keeps=not clean)
    return Peel(_rest(words, at), settings=settings, unset=unset, keeps=not clean) if at < len(words) else None


def _sudo(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "ugpCrtThDRU", ("--user", "--group", "--prompt", "--chdir", "--host"))
    settings, at = _leading(words, options.at)
    keeps = any(name in ("-E", "--preserve-env") for name, _, _ in options.seen)
    return Peel(_rest(words, at), settings=settings, keeps=keeps) if at < len(words) else None


def _nice(words: Sequence[str]) -> Peel | None:
    at = 2 if len(words) > 1 and re.fullmatch(r"--?\d+", words[1]) else _options(words, 1, "n", ("--adjustment",)).at
    return Peel(_rest(words, at)) if at < len(words) else None


def _taskset(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "", ())
    at = options.at + 1  # the mask or the list
    return Peel(_rest(words, at)) if at < len(words) and not options.values("-p") else None


def _command_text(option: str) -> Callable[[Sequence[str]], Peel | None]:
    """`su user -c TEXT`, `script -c TEXT file`: the option may stand anywhere."""

    def peel(words: Sequence[str]) -> Peel | None:
        for at in range(1, len(words) - 1):
            if words[at] == option or (re.fullmatch(r"-[A-Za-z]+", words[at]) and words[at].endswith(option[1:])):
                return Peel(script=(at + 1,))
        return None

    return peel


def _flock(words: Sequence[str]) -> Peel | None:
    at = _options(words, 1, "wE", ("--timeout", "--conflict-exit-code")).at + 1
    if at < len(words) and words[at] in ("-c", "--command"):
        return Peel(script=(at + 1,)) if at + 1 < len(words) else None
    return Peel(_rest(words, at)) if at < len(words) else None


def _after_run(short: str = "", long: Sequence[str] = (), verbs: Sequence[str] = ("run",), flags: Collection[str] | None = None) -> Callable[[Sequence[str]], Peel | None]:
    """`uv run …`, `poetry run …`: options may stand before and after the verb."""

    def peel(words: Sequence[str]) -> Peel | None:
        at = _options(words, 1, short, long).at
        if at >= len(words) or words[at] not in verbs:
            return None
        options = _options(words, at + 1, short, long, flags)
        return Peel(_rest(words, options.at)) if options.at < len(words) else None

    return peel


_UV_VALUES = (
    "--with", "--with-editable", "--with-requirements", "--python", "--extra", "--no-extra", "--group", "--no-group", "--only-group", "--env-file",
    "--project", "--directory", "--package", "--index", "--default-index", "--index-url", "--extra-index-url", "--find-links", "--link-mode",
    "--cache-dir", "--config-file", "--resolution", "--prerelease", "--refresh-package", "--reinstall-package", "--index-strategy", "--color",
)  # fmt: skip


# --- clusters ---

_SRUN_FLAGS = frozenset(
    """--exclusive --label --unbuffered --overcommit --pty --preserve-env --verbose --quiet --no-kill --hold --contiguous --immediate --exact
    --overlap --oversubscribe --spread-job --use-min-nodes --multi-prog --container-writable --container-mount-home --no-container-mount-home
    --container-remap-root --no-container-remap-root --no-container-entrypoint --container-entrypoint --kill-on-bad-exit --disable-status
    --test-only --reboot --interactive --requeue --no-requeue --parsable --no-allocate --propagate --slurmd-debug --wait-all""".split()
)


def _slurm_export(words: Sequence[str], options: _Options) -> tuple[tuple[Setting, ...], bool]:
    settings: list[Setting] = []
    keeps = True
    for word, offset in options.values("--export"):
        keeps = False
        at = offset
        for item in words[word][offset:].split(","):
            match = _SETTING.match(item)
            if match:
                settings.append(Setting(match.group(1), word, at + match.end(), at + len(item)))
            elif item == "ALL":
                keeps = True
            at += len(item) + 1
    return tuple(settings), keeps


def _srun(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "AbcCdDeEgGiJLmMnNopPqrRStTwWxB", (), _SRUN_FLAGS)
    settings, keeps = _slurm_export(words, options)
    return Peel(_rest(words, options.at), settings=settings, keeps=keeps) if options.at < len(words) else None


def _sbatch(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "AabcCdDeFgGiJLmMnNopPqrRStTwWxB", (), _SRUN_FLAGS | {"--wait", "-W"})
    settings, keeps = _slurm_export(words, options)
    wrap = options.values("--wrap")
    if wrap:
        word, offset = wrap[-1]
        return Peel(script=(word,), offset=offset, settings=settings, keeps=keeps)
    if options.at < len(words):
        return Peel(file=options.at, settings=settings, keeps=keeps)
    return Peel(reads=True, settings=settings, keeps=keeps)


_MPI_VALUES = frozenset(
    """np n c N H host hosts hostfile machinefile x bind-to map-by rank-by wdir wd rf rankfile ppn f prefix path output-filename timeout
    npernode npersocket cpus-per-proc genvlist envlist""".split()
)
_MPI_PAIRS = frozenset(("mca", "genv", "env", "gmca", "omca", "prtemca", "pmixmca"))


def _mpirun(words: Sequence[str]) -> Peel | None:
    at = 1
    places: list[tuple[int, int]] = []
    settings: list[Setting] = []
    while at < len(words) and words[at].startswith("-"):
        name = words[at].lstrip("-")
        if name == "x" and at + 1 < len(words):
            places.append((at + 1, 0))
        if name in ("genv", "env") and at + 2 < len(words):
            settings.append(Setting(words[at + 1], at + 2))
        at += 3 if name in _MPI_PAIRS else 2 if name in _MPI_VALUES else 1
    found, passes = _settings(words, places)
    return Peel(_rest(words, at), settings=(*settings, *found), passes=passes) if at < len(words) else None


def _ray(words: Sequence[str]) -> Peel | None:
    if list(words[1:3]) != ["job", "submit"] or "--" not in words:
        return None
    at = list(words).index("--") + 1
    settings: list[Setting] = []
    for place in range(3, at - 1):
        for option in ("--runtime-env-json=", "--runtime-env-json"):
            if words[place].startswith(option):
                word, offset = (place, len(option)) if option.endswith("=") else (place + 1, 0)
                settings.extend(_json_env(words[word][offset:], word))
                break
    return Peel(_rest(words, at), settings=tuple(settings), keeps=False, remote=True) if at < len(words) else None


def _json_env(text: str, word: int) -> list[Setting]:
    try:
        env = json.loads(text)["env_vars"]
        return [Setting(str(name), word, text=str(value)) for name, value in env.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


# --- containers and other machines ---

_DOCKER_FLAGS = frozenset(
    """--rm --init --privileged --detach --interactive --tty --read-only --no-healthcheck --oom-kill-disable --publish-all --quiet
    --sig-proxy --disable-content-trust --no-deps --service-ports --build --remove-orphans --replace --no-TTY --use-aliases --no-tty""".split()
)
_DOCKER_GLOBAL = ("--config", "--context", "--host", "--log-level", "--file", "--project-name", "--profile", "--env-file", "--project-directory")


def _docker(words: Sequence[str]) -> Peel | None:
    at = _options(words, 1, "cHl", _DOCKER_GLOBAL).at
    if at < len(words) and words[at] in ("compose", "container"):
        at = _options(words, at + 1, "fp", _DOCKER_GLOBAL).at
    if at >= len(words) or words[at] not in ("run", "exec", "create"):
        return None
    options = _options(words, at + 1, "evpuwhmcla", (), _DOCKER_FLAGS)
    settings, passes = _settings(words, options.values("-e", "--env"))
    entry = options.values("--entrypoint")
    program = _rest(words, options.at + 1)  # after the image or the container
    if entry and words[entry[-1][0]][entry[-1][1] :] and entry[-1][1] == 0:
        program = (entry[-1][0], *program)
    return Peel(program, settings=settings, passes=passes, keeps=False, remote=True) if program else None


_SINGULARITY_FLAGS = frozenset(
    """--nv --rocm --nvccli --contain --containall --cleanenv --no-home --writable --writable-tmpfs --fakeroot --userns --pid --ipc --net --uts
    --no-init --compat --keep-privs --no-privs --allow-setuid --unsquash --no-eval --no-umask --no-https --disable-cache --vm""".split()
)


def _singularity(words: Sequence[str]) -> Peel | None:
    at = _options(words, 1, "c", ("--config",)).at
    if at >= len(words) or words[at] not in ("exec", "run"):
        return None
    options = _options(words, at + 1, "BHWoSd", (), _SINGULARITY_FLAGS)
    settings: list[Setting] = []
    for word, offset in options.values("--env"):
        place = offset
        for item in words[word][offset:].split(","):
            match = _SETTING.match(item)
            if match:
                settings.append(Setting(match.group(1), word, place + match.end(), place + len(item)))
            place += len(item) + 1
    clean = any(name in ("--cleanenv", "--containall", "-e", "-C") for name, _, _ in options.seen)
    program = _rest(words, options.at + 1)
    return Peel(program, settings=tuple(settings), keeps=not clean, remote=True) if program else None


def _enroot(words: Sequence[str]) -> Peel | None:
    if len(words) < 2 or words[1] != "start":
        return None
    options = _options(words, 2, "cemr", ("--conf", "--env", "--mount", "--rc"))
    settings, passes = _settings(words, options.values("-e", "--env"))
    program = _rest(words, options.at + 1)
    return Peel(program, settings=settings, passes=passes, remote=True) if program else None


def _after_dashes(verb: str) -> Callable[[Sequence[str]], Peel | None]:
    """`kubectl exec … -- program`."""

    def peel(words: Sequence[str]) -> Peel | None:
        if verb not in words or "--" not in words:
            return None
        at = list(words).index("--") + 1
        return Peel(_rest(words, at), keeps=False, remote=True) if at < len(words) else None

    return peel


def _ssh(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "BbcDEeFIiJLlmOopQRSWw")
    after = _options(words, options.at + 1, "BbcDEeFIiJLlmOopQRSWw").at  # options may follow the host
    if options.at >= len(words):
        return None
    if after >= len(words):
        return Peel(reads=True, keeps=False, remote=True)
    return Peel(script=_rest(words, after), keeps=False, remote=True)


def _hosts(short: str) -> Callable[[Sequence[str]], Peel | None]:
    """`pdsh -w hosts command`: no host operand."""

    def peel(words: Sequence[str]) -> Peel | None:
        at = _options(words, 1, short).at
        return Peel(script=_rest(words, at), keeps=False, remote=True) if at < len(words) else None

    return peel


def _tmux(words: Sequence[str]) -> Peel | None:
    at = _options(words, 1, "LSf").at
    if at >= len(words):
        return None
    verb = words[at]
    if verb in ("new", "new-session", "new-window", "neww", "split-window", "splitw", "respawn-pane", "respawnp"):
        options = _options(words, at + 1, "csntxyeFlp")
        settings, _ = _settings(words, options.values("-e"))
        if options.at >= len(words):
            return None
        rest = _rest(words, options.at)
        return Peel(script=rest, settings=settings) if len(rest) == 1 else Peel(rest, settings=settings)
    if verb in ("send", "send-keys"):
        options = _options(words, at + 1, "tNc")
        keys = tuple(n for n in _rest(words, options.at) if words[n] not in ("C-m", "Enter", "ENTER", "C-M", "KPEnter", "Space"))
        return Peel(script=keys) if keys else None
    return None


def _screen(words: Sequence[str]) -> Peel | None:
    options = _options(words, 1, "SceEhpstTrx")
    at = options.at
    if at + 1 < len(words) and words[at - 1] == "-X" and words[at] == "stuff":
        return Peel(script=(at + 1,))
    return Peel(_rest(words, at)) if at < len(words) else None


def _profiler(verbs: Sequence[str]) -> Callable[[Sequence[str]], Peel | None]:
    """`nsys profile -o x program`, `ncu -o x program`: nearly every option takes a value."""

    def peel(words: Sequence[str]) -> Peel | None:
        at = 1
        if verbs:
            if len(words) < 2 or words[1] not in verbs:
                return None
            at = 2
        while at < len(words) and words[at].startswith("-"):
            valued = "=" not in words[at] and at + 1 < len(words) and not words[at + 1].startswith("-")
            at += 2 if valued else 1
        return Peel(_rest(words, at)) if at < len(words) else None

    return peel


def _watch(words: Sequence[str]) -> Peel | None:
    at = _options(words, 1, "n", ("--interval",)).at
    return Peel(script=_rest(words, at)) if at < len(words) else None


_WRAPPERS: dict[str, Callable[[Sequence[str]], Peel | None]] = {
    "env": _env, "sudo": _sudo, "doas": _plain("uC"), "nohup": _plain(), "setsid": _plain(), "time": _plain("ofp", ("--output", "--format")),
    "nice": _nice, "ionice": _plain("cntpPu", ("--class", "--classdata")), "stdbuf": _plain("ioe", ("--input", "--output", "--error")),
    "timeout": _plain("ks", ("--kill-after", "--signal"), 1), "gtimeout": _plain("ks", ("--kill-after", "--signal"), 1), "taskset": _taskset,
    "numactl": _plain("mNCpiPwl", ("--membind", "--cpunodebind", "--physcpubind", "--preferred", "--interleave", "--cpubind", "--localalloc")),
    "chrt": _plain("TPD", (), 1), "unbuffer": _plain(), "chronic": _plain(), "caffeinate": _plain("tw"), "proxychains": _plain("f"),
    "proxychains4": _plain("f"), "xvfb-run": _plain("efnpsw"), "strace": _plain("aeoOpPsSuEbXI"), "systemd-run": _plain("pEuMH", ("--property", "--setenv", "--unit")),
    "systemd-inhibit": _plain(), "gdb": _plain(), "catchsegv": _plain(), "compute-sanitizer": _plain("", ("--tool", "--log-file")), "busybox": _plain(),
    "direnv": _plain("", (), 2), "flock": _flock, "su": _command_text("-c"), "script": _command_text("-c"), "runuser": _command_text("-c"),
    "uv": _after_run("pmn", _UV_VALUES), "poetry": _after_run("CP", ("--directory", "--project")), "pipenv": _after_run(), "pdm": _after_run("p"),
    "hatch": _after_run("e", ("--env",)), "pixi": _after_run("e", ("--environment", "--manifest-path")), "rye": _after_run(), "pyenv": _after_run(verbs=("exec",)),
    "conda": _after_run("np", ("--name", "--prefix", "--cwd")), "mamba": _after_run("np", ("--name", "--prefix", "--cwd")),
    "micromamba": _after_run("np", ("--name", "--prefix", "--cwd")), "srun": _srun, "sbatch": _sbatch, "mpirun": _mpirun, "mpiexec": _mpirun,
    "mpiexec.hydra": _mpirun, "ray": _ray, "docker": _docker, "podman": _docker, "nerdctl": _docker, "nvidia-docker": _docker,
    "singularity": _singularity, "apptainer": _singularity, "enroot": _enroot, "kubectl": _after_dashes("exec"), "oc": _after_dashes("exec"),
    "ssh": _ssh, "pdsh": _hosts("wxgfltu"), "clush": _hosts("wxgfltu"), "pssh": _hosts("hHlptoe"), "parallel-ssh": _hosts("hHlptoe"),
    "tmux": _tmux, "screen": _screen, "nsys": _profiler(("profile", "launch")), "ncu": _profiler(()),
    "watch": _watch,
}  # fmt: skip


def peel(words: Sequence[str]) -> Peel | None:
    """The words of a command -> what it starts, or None when the first word is no wrapper (or starts nothing)."""
    if not words:
        return None
    program = posixpath.basename(words[0])
    wrapper = _WRAPPERS.get(program)
    if wrapper is not None:
        return wrapper(words)
    if "--" in words[1:-1]:  # an unknown wrapper, in the common form `tool options -- program`
        at = list(words).index("--") + 1
        if posixpath.basename(words[at]) in ("swift", "megatron", "torchrun", "deepspeed", "accelerate") or re.match(r"python[\d.]*$", posixpath.basename(words[at])):
            return Peel(_rest(words, at)) if not re.match(r"python|swift|megatron|torchrun|accelerate|deepspeed", program) else None
    return None


def is_launch(words: Sequence[str]) -> bool:
    """True for a command that starts ms-swift, directly or through a launcher."""
    if not words:
        return False
    program = posixpath.basename(words[0])
    if program in ("swift", "megatron"):
        return True
    if program in ("torchrun", "accelerate", "deepspeed") or re.match(r"python[\d.]*$|torch\.distributed\.", program):
        return any(_STARTS.search(word) for word in words[1:60])
    return _STARTS.search(words[0]) is not None


_STARTS = re.compile(r"(?:^|[./])swift(?:\.cli(?:\.|$)|/cli/|$)|^megatron$|(?:^|/)megatron\.py$")
