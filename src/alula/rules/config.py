"""Mistakes in config files: what the words of YAML become on the command line that ms-swift makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.read.errors import ReadError
from alula.run.finding import Finding, Fix

from .registry import Rule, add, rule

if TYPE_CHECKING:
    from alula.run.source import Token

    from .context import JobCheck

add(
    Rule(
        "CFG001", "config-unreadable", "error", "high", "refused", "run", (), None, None,
        """The config file cannot be read: it is no YAML or JSON, or no mapping of flags to values.

    ms-swift reads the file before anything else; a tab in the indentation or a bracket that is never closed stops it there.

    In the log: `yaml.scanner.ScannerError: …`, or `AttributeError: 'list' object has no attribute 'pop'`

    Wrong:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    - model: Qwen/Qwen3-8B
    - dataset: data.jsonl
    ```

    Right:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    ```

    Source: swift/cli/main.py:parse_yaml_args
    Not shown on CPU: it fails in the start script, before the arguments are read
    """, None, __name__,
    )
)  # fmt: skip

_SAID_ELSEWHERE = (
    "deepspeed", "fsdp", "resume_from_checkpoint", "model_kwargs", "columns", "lr_scheduler_kwargs", "gradient_checkpointing_kwargs", "mrl_dims", "max_memory", "rope_scaling",
    "init_weights",
)  # fmt: skip
_BOOLEANS = ("yes", "no", "on", "off", "true", "false")


def _from_yaml(token: Token) -> bool:
    return bool(token.chain) and token.chain[0].kind == "yaml"


def _raw(c: JobCheck, token: Token) -> str:
    """What stands in the file where the token comes from."""
    source = c.whole.run.sources.get(token.definition.file)
    return "" if source is None else source.text(token.definition)


def _quoted(c: JobCheck, token: Token, description: str, word: str) -> Fix:
    source = c.whole.run.sources.get(token.definition.file)
    if source is None or source.path is None:
        return Fix(description)
    return c.edit(description, [(token.definition, f'"{word}"')], "safe")


@rule("CFG002", "none-as-text", consequence="wrong")
def none_as_text(c: JobCheck) -> Iterator[Finding]:
    """A value that is meant to be nothing, and arrives as the text `None`.

    ms-swift turns a config into a command line: YAML `null` (also `~` and an empty value) becomes the word None. A flag that takes text keeps it: `ref_model: null`
    sets a reference model of that name. Leave the key out.

    In the log: whatever a file or model named `None` leads to

    Wrong:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    system: null
    ```

    Right:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    ```

    Source: swift/cli/main.py:parse_yaml_args
    Not shown on CPU: ms-swift accepts the text
    """
    for use in c.v.parsed.uses:
        fact = c.v.flags.get(use.name)
        if fact is None or fact.type != "str" or use.name in _SAID_ELSEWHERE or (fact.choices is not None and any(choice in (None, "None") for choice in fact.choices)):
            continue
        for token in use.values:
            if not token.known or token.text not in ("None", "null"):
                continue
            how = "a null in the config arrives as the text None" if _from_yaml(token) else "it is text"
            template = "--{flag} {text} is not the same as leaving it out: {how}"
            yield c.finding(template, token, flags=[use.name], flag=use.name, text=token.text, how=how, fix=c.drop_flag(use.name, f"leave {use.name} out", safety="safe"))


@rule("CFG003", "word-read-as-boolean", consequence="wrong")
def word_read_as_boolean(c: JobCheck) -> Iterator[Finding]:
    """An unquoted `no`, `off`, `yes` or `on` in YAML for a flag that takes a word.

    YAML 1.1, which ms-swift reads, takes these for booleans: `eval_strategy: no` arrives as `--eval_strategy False`. Quote the word.

    In the log: `invalid choice: 'False'`, or `False is not a valid IntervalStrategy`

    Wrong:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    run_name: off
    ```

    Right:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    run_name: "off"
    ```

    Source: swift/cli/main.py:parse_yaml_args
    Not shown on CPU: ms-swift accepts the text where a flag takes any
    """
    for use in c.v.parsed.uses:
        fact = c.v.flags.get(use.name)
        if fact is None or fact.type != "str" or use.name == "init_weights":
            continue
        for token in use.values:
            if token.text not in ("True", "False") or not _from_yaml(token):
                continue
            raw = _raw(c, token).strip()
            if raw.lower() in _BOOLEANS:
                template = "{flag}: {raw} is a boolean to YAML and arrives as {text}; quote it: {flag}: \"{raw}\""
                yield c.finding(template, token, flags=[use.name], flag=use.name, raw=raw, text=token.text, fix=_quoted(c, token, f'{use.name}: "{raw}"', raw))


@rule("CFG004", "mapping-in-list", consequence="wrong")
def mapping_in_list(c: JobCheck) -> Iterator[Finding]:
    """A list of mappings where ms-swift wants a list of words.

    Each item of a list becomes one word of the command line; a mapping becomes its Python text, `{'path': 'data.jsonl'}`, which is then taken for a name. A
    data set is written `name:subset#count`.

    In the log: a data set or plugin with braces in its name that cannot be found

    Wrong:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset:
      - path: data.jsonl
        type: jsonl
    ```

    Right:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    model: Qwen/Qwen3-8B
    dataset:
      - data.jsonl
    ```

    Source: swift/cli/main.py:parse_yaml_args
    Not shown on CPU: the name is looked up when the data is loaded
    """
    for use in c.v.parsed.uses:
        fact = c.v.flags.get(use.name)
        if fact is None or fact.nargs != "+":
            continue
        token = next((token for token in use.values if _from_yaml(token) and token.text.startswith(("{'", '{"'))), None)
        if token is not None and not _raw(c, token).lstrip().startswith(("'", '"')):
            template = "{flag}: an item is a mapping and arrives as the word {text}; a list of words is meant"
            yield c.finding(template, token, flags=[use.name], flag=use.name, text=token.text if len(token.text) < 60 else token.text[:57] + "…", fix=f"{use.name}: [<word>, <word>]")


@rule("CFG005", "env-block-overridden", severity="warning", consequence="wrong")
def env_block_overridden(c: JobCheck) -> Iterator[Finding]:
    """A variable of the config's `ENV:` block that the environment already sets otherwise.

    ms-swift exports the block's names only where they are not set yet.

    In the log: `NPROC_PER_NODE is already set in environment, using `8` instead of `4``

    Wrong:
    ```sh
    NPROC_PER_NODE=8 swift sft train.yaml
    ```
    ```yaml train.yaml
    ENV:
      NPROC_PER_NODE: 4
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    ```

    Right:
    ```sh
    swift sft train.yaml
    ```
    ```yaml train.yaml
    ENV:
      NPROC_PER_NODE: 4
    model: Qwen/Qwen3-8B
    dataset: data.jsonl
    ```

    Source: swift/cli/main.py:parse_yaml_args
    """
    source = c.whole.run.sources.get(c.job.config or "")
    if source is None or c.job.ray is not None:
        return
    try:
        from alula.read.config import read_config

        block = read_config(source).get("ENV")
    except ReadError:
        return
    if block is None:
        return
    if block.node.kind != "mapping":
        yield c.finding("ENV must be a mapping of names to values, not a {kind}", block.node.span, flags=["ENV"], kind=block.node.kind, fix="ENV:\n  NAME: value")
        return
    for name, entry in block.node.value.items():
        here = c.env_entry(name)
        if here is not None and here.how != "block" and here.token.known and here.token.text != str(entry.node.plain()):
            template = "ENV sets {name} to {wanted}, and the environment already has {text}: the environment wins"
            yield c.finding(template, entry.node.span, flags=[name], related=[(name, "this one counts")], name=name, wanted=entry.node.plain(), text=here.token.text, fix=f"set {name} in one place")
