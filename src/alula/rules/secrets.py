"""Secrets written into scripts and configs, and programs that come from the network."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.run.redact import find as find_secrets
from alula.run.redact import secret_name
from alula.run.source import Span

from .registry import rule

if TYPE_CHECKING:
    from alula.run.finding import Finding

    from .context import RunCheck

MOST = 20  # findings of one source; a leaked key file would give thousands
_PIPED = re.compile(rb"(?:curl|wget)\b[^\n|;#]*\|\s*(?:sudo\s+)?(?:ba|z)?sh\b|(?:ba)?sh\s+<\(\s*(?:curl|wget)\b[^)\n]*\)|eval\s+\"?\$\(\s*(?:curl|wget)\b[^)\n]*\)")
_NAME = re.compile(r"([A-Za-z_][\w-]*)[\"']?\]?\s*(?::-|:=|[:=])?\s*[\"']?$")


def _label(before: str) -> str:
    """The name that the secret is given to, when one stands right before it; never another secret."""
    match = _NAME.search(before)
    return match[1] if match is not None and secret_name(match[1]) and not find_secrets(match[1]) else ""


@rule("SEC001", "secret-in-file", severity="warning", consequence="waste", scope="run")
def secret_in_file(run: RunCheck) -> Iterator[Finding]:
    """A key, token or password stands in a script or config.

    It goes wherever the file goes: into a repository, an issue, and next to the checkpoints, since ms-swift copies its config file there and writes its arguments
    into `args.json`. Words of a command line can be read by every user of the machine. Take it from the environment of the shell that starts the script.

    In the log: the command line with the secret in it (`run sh: …`)

    Wrong:
    ```sh
    export WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --report_to wandb
    ```

    Right:
    ```sh
    export WANDB_API_KEY="${WANDB_API_KEY:?}"
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --report_to wandb
    ```

    Source: swift/arguments/base_args/base_args.py:BaseArguments.save_args
    """
    view = run.views[0] if run.views else None
    if view is None:
        return
    c = run.job(view)
    for name, source in run.run.sources.items():
        if name.endswith((".py", ".jsonl")):
            continue
        text = source.data.decode("utf-8", "surrogateescape")
        for secret in find_secrets(text)[:MOST]:
            start = len(text[: secret.start].encode("utf-8", "surrogateescape"))
            end = start + len(text[secret.start : secret.end].encode("utf-8", "surrogateescape"))
            label = _label(text[max(0, secret.start - 80) : secret.start])
            what = label or "a secret"
            template = "{what} is written here ({shown}): whoever gets this file has it; take it from the environment and change it"
            yield c.finding(template, Span(name, start, end), flags=[what] if label else [], what=what, shown=secret.shown, fix=f"{what} from the environment: \"${{{what.upper()}:?}}\"" if label else "from the environment")


@rule("SEC002", "download-executed", severity="info", consequence="waste", scope="run")
def download_executed(run: RunCheck) -> Iterator[Finding]:
    """A downloaded script is run at once.

    What the address serves today may be something else tomorrow, and a download that breaks off runs half a script. Download it, look at it, keep its checksum.

    In the log: nothing

    Wrong:
    ```sh
    curl -fsSL https://example.com/setup.sh | bash
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    bash setup.sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Source: bash
    """
    if not run.views:
        return
    c = run.job(run.views[0])
    for name, source in run.run.sources.items():
        for match in _PIPED.finditer(source.data):
            line = source.data.rfind(b"\n", 0, match.start()) + 1
            if source.data[line : match.start()].lstrip().startswith(b"#"):
                continue
            yield c.finding("a downloaded script is run at once", Span(name, match.start(), match.end()), fix="download it, check it, then run it")
