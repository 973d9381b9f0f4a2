"""Flags: what the parser of the checked ms-swift version refuses or reads otherwise than meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alula.facts.swift import Rename, history, rename
from alula.run.finding import Finding, Fix
from alula.run.lazy import get_close_matches

from .context import JobCheck, names
from .registry import rule

if TYPE_CHECKING:
    from alula.run.source import Token
    from alula.swift.parse import ParseError


def rename_of(c: JobCheck, name: str) -> Rename | None:
    """What became of a flag of an older version, as this version sees it."""
    return rename(name.replace("-", "_"), c.v.route, c.facts.version)


def leftovers(c: JobCheck) -> list[tuple[Token, list[Token]]]:
    """`remaining_argv`, grouped: each unknown `--flag` word with the plain words after it; plain words alone come with themselves."""
    groups: list[tuple[Token, list[Token]]] = []
    taken = {id(token) for token in c.v.parsed.extras}
    last = -2
    for at, token in enumerate(c.job.argv):
        if id(token) not in taken:
            continue
        if token.text.startswith("--") and " " not in token.text:
            groups.append((token, []))
        elif groups and at == last + 1:
            groups[-1][1].append(token)
        else:
            groups.append((token, []))
        last = at
    return groups


def flag_name(token: Token) -> str:
    """`--learning-rate=1` -> `learning_rate`."""
    return token.text.lstrip("-").partition("=")[0].replace("-", "_")


def is_flag(token: Token) -> bool:
    return token.text.startswith("--") and len(token.text) > 2 and " " not in token.text


@rule("FLG000", "unknown-route")
def unknown_route(c: JobCheck) -> Iterator[Finding]:
    """The sub-command is none that this ms-swift has.

    ms-swift looks the first word up in a table and stops with a bare KeyError where it is not there. Algorithms are values of `--rlhf_type`, not
    sub-commands.

    In the log: `KeyError: 'grpo'`

    Wrong:
    ```sh
    swift grpo --model Qwen/Qwen3-8B --dataset data.jsonl
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Source: swift/cli/main.py:cli_main
    """
    if c.v.route in c.facts.routes:
        return
    program, _, word = c.v.route.partition(" ")
    known = sorted(route.partition(" ")[2] for route in c.facts.routes if route.startswith(f"{program} "))
    algorithms = ("grpo", "gkd", "ppo", "dpo", "kto", "rm", "cpo", "simpo", "orpo")
    if word in algorithms:
        advice = f"{program} rlhf --rlhf_type {word} …"
    else:
        close = get_close_matches(word, known, 1)
        advice = f"{program} {close[0]} …" if close else f"one of: {', '.join(known)}"
    yield c.finding("`{route}` is no command of ms-swift {version}; write `{advice}`", route=c.v.route, version=c.facts.version, advice=advice, fix=advice)


@rule("FLG001", "unknown-flag")
def unknown_flag(c: JobCheck) -> Iterator[Finding]:
    """A flag that this route of this ms-swift version does not have.

    ms-swift parses what it knows and raises on what is left. Every rank says so, after the whole argument check. A flag is reported only when no
    transformers version that this ms-swift allows has it either. Renamed and removed flags are FLG002.

    In the log: `ValueError: remaining_argv: ['--learnig_rate', '1e-6']`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --learnig_rate 1e-6
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --learning_rate 1e-6
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """
    if c.v.route not in c.facts.routes or _errors_ignored(c):
        return
    for token, values in leftovers(c):
        if not is_flag(token) or token.unresolved:
            continue
        name = flag_name(token)
        if rename_of(c, name) is not None or c.facts.transformers_only_elsewhere(name):
            continue
        yield from _unknown(c, token, name, values)


def _unknown(c: JobCheck, token: Token, name: str, values: list[Token]) -> Iterator[Finding]:
    if name == "config" and values and values[0].text.endswith((".yaml", ".yml", ".json")):
        template = "--config is read by Megatron-Ray only; ms-swift {version} takes a config file as the first word: `{route} {file} …`"
        advice = f"{c.v.route} {values[0].text} … (the file first, without --config)"
        yield c.finding(template, token, flags=["config"], version=c.facts.version, route=c.v.route, file=values[0].text, fix=advice)
        return
    if name.endswith(":") or (token.text.endswith(":") and name.rstrip(":") in c.v.flags):
        template = "{flag} is not a flag: the colon belongs to YAML; write {right}"
        right = "--" + name.rstrip(":")
        yield c.finding(template, token, flags=[name.rstrip(":")], flag=token.text, right=right, fix=c.rename_flag(token, name.rstrip(":")))
        return
    elsewhere = _other_routes(c, name)
    close = get_close_matches(name, list(c.v.flags), 3, 0.75)
    template = "--{flag} is no flag of `{route}` in ms-swift {version}"
    fix: Fix | str
    if close:
        template += "; did you mean --{close}?"
        fix = c.rename_flag(token, close[0], "unsafe")
    elif elsewhere:
        template += "; it belongs to {elsewhere}"
        fix = f"remove --{name} here, or use {elsewhere[0]}"
    else:
        template += "; ms-swift stops with remaining_argv"
        fix = f"remove --{name}"
    arrived = _arrival(c, name)
    if arrived:
        template += " (it came with ms-swift {arrived})"
        fix = f"ms-swift {arrived} or newer, or remove --{name}"
    yield c.finding(
        template, token, flags=[name], flag=name, route=c.v.route, version=c.facts.version, close=close[0] if close else "",
        elsewhere=names(elsewhere, 4), arrived=arrived or "", fix=fix,
    )  # fmt: skip


def _other_routes(c: JobCheck, name: str) -> list[str]:
    return [route for route in c.facts.routes if route != c.v.route and name in c.facts.flags(route)]


def _arrival(c: JobCheck, name: str) -> str | None:
    """The version that brought the flag, when the checked one is older."""
    order = [(version, fact) for version, fact in history(name, c.v.route)]
    here = next((at for at, (version, _) in enumerate(order) if version == c.facts.version), None)
    if here is None:
        return None
    return next((version for version, fact in order[here + 1 :] if fact is not None), None)


def _errors_ignored(c: JobCheck) -> bool:
    """`--ignore_args_error true`, and Megatron-Ray always, only warn about leftovers."""
    return c.v.get("ignore_args_error") is True or c.job.ray is not None


@rule("FLG002", "renamed-flag")
def renamed_flag(c: JobCheck) -> Iterator[Finding]:
    """Flags that this ms-swift version renamed or removed, all of a command in one finding.

    A script of an older release usually has several. Some old names are refused as unknown, some as ambiguous beginnings of newer flags
    (`--save`, `--load` on Megatron). The other rules judge the command as if the new names stood there.

    In the log: `ValueError: remaining_argv: ['--train_type', 'lora']`, or `error: ambiguous option: --save could match …`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --train_type lora
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """
    if c.v.route not in c.facts.routes or _errors_ignored(c):
        return
    found = [(token, values, known) for token, values in _old_flags(c) if (known := rename_of(c, flag_name(token))) is not None]
    if not found:
        return
    words = list(dict.fromkeys(_became(flag_name(token), known) for token, _, known in found))
    flags = [name for token, _, known in found for name in (flag_name(token), known.new) if name]
    template = "{changes}" if len(found) == 1 else "{count} flags are of an older ms-swift: {changes}"
    fixes = [c.rename_flag(token, known.new) if known.new else c.drop_words(token, values) for token, values, known in found]
    yield c.finding(
        template, found[0][0], flags=flags, related=[(token, _label(known)) for token, _, known in found[1:]], count=len(found), changes="; ".join(words),
        fix=_together(fixes, [known for _, _, known in found]),
    )  # fmt: skip


def _old_flags(c: JobCheck) -> Iterator[tuple[Token, list[Token]]]:
    """Words that may be flags of another version, with the values after them: what no flag took, and ambiguous beginnings."""
    ambiguous = {id(error.token): error.token for error in c.v.parsed.errors if error.kind == "ambiguous" and error.token is not None}
    for token in ambiguous.values():
        yield token, []
    for token, values in leftovers(c):
        if is_flag(token) and not token.unresolved and id(token) not in ambiguous:
            yield token, values


def _became(name: str, known: Rename) -> str:
    note = f" ({known.note})" if known.note else ""
    return f"--{name} is --{known.new} since {known.since}{note}" if known.new else f"--{name} was removed in {known.since}{note}"


def _label(known: Rename) -> str:
    return f"now --{known.new}" if known.new else "removed"


def _together(fixes: list[Fix], known: list[Rename]) -> Fix:
    """One fix for all: safe when every part is a rename that keeps the value, else unsafe; manual where a part has no edits."""
    words = "; ".join(dict.fromkeys(fix.description for fix in fixes))
    edits = tuple(edit for fix in fixes for edit in fix.edits)
    if any(not fix.edits for fix in fixes) or not all(entry.same_value for entry in known):
        return Fix(words)  # where a value means something else now, a person must translate it
    safe = all(fix.safety == "safe" and entry.new for fix, entry in zip(fixes, known, strict=True))
    return Fix(words, "safe" if safe else "unsafe", edits)


@rule("FLG003", "stray-word")
def stray_word(c: JobCheck) -> Iterator[Finding]:
    """A word that belongs to no flag.

    It comes from several values for a flag that takes one, a value after `--no_x`, a lost quote, or a flag and its value in one pair of quotes.

    In the log: `ValueError: remaining_argv: ['true']`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --learning_rate 1e-6 1e-7
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --learning_rate 1e-6
    ```

    Source: swift/pipelines/base.py:SwiftPipeline._parse_args
    """
    if c.v.route not in c.facts.routes or _errors_ignored(c):
        return
    for token, values in leftovers(c):
        if is_flag(token) or token.unresolved or token.maybe or _assignment(token.text):
            continue
        before = _flag_before(c, token)
        if before is None:
            yield c.finding("`{word}` belongs to no flag: ms-swift stops with remaining_argv", token, word=_short(token.text), fix=f"remove `{_short(token.text)}`")
            continue
        use = c.v.use(before)
        if use is not None and use.negated:
            template = "`{word}` after --no_{flag} is left over: --no_{flag} takes no value; write --{flag} false"
            yield c.finding(template, token, flags=[before], word=_short(token.text), flag=before, fix=f"--{before} false")
        else:
            template = "`{word}` is left over: --{flag} takes one value; ms-swift stops with remaining_argv"
            rest = [token, *values]
            yield c.finding(template, token, flags=[before], word=_short(" ".join(t.text for t in rest)), flag=before, fix=f"one value for --{before}")


def _assignment(text: str) -> bool:
    name, equals, _ = text.partition("=")
    return bool(equals) and name.isidentifier()


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


def _flag_before(c: JobCheck, token: Token) -> str | None:
    name = None
    for use in c.v.parsed.uses:
        if use.token.span.file == token.span.file and use.token.span.start <= token.span.start:
            name = use.name
    return name


def _of_kind(c: JobCheck, *kinds: str) -> Iterator[ParseError]:
    for error in c.v.parsed.errors:
        if error.kind in kinds and error.certain:
            yield error


@rule("FLG004", "ambiguous-flag")
def ambiguous_flag(c: JobCheck) -> Iterator[Finding]:
    """A shortened flag that could mean several.

    argparse takes any unambiguous beginning of a flag. Flags with `_` are registered with `-` too, so that a beginning before the first `_` is never
    unambiguous.

    In the log: `error: ambiguous option: --eval could match --eval_steps, …`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --eval 100
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --eval_steps 100
    ```

    Source: transformers/hf_argparser.py:HfArgumentParser._parse_dataclass_field, argparse
    """
    for error in _of_kind(c, "ambiguous"):
        if rename_of(c, error.flag) is not None:
            continue  # FLG002 says what it is called now
        template = "--{flag} is ambiguous: it could mean {options}"
        fix = f"write the flag in full: {names(('--' + option for option in error.options), 4)}"
        shown = names(("--" + option for option in error.options), 6)
        yield c.finding(template, error.token, flags=[error.flag.replace("-", "_")], flag=error.flag, options=shown, fix=fix)


@rule("FLG005", "abbreviated-flag", severity="warning", consequence="wrong")
def abbreviated_flag(c: JobCheck) -> Iterator[Finding]:
    """A shortened flag that is accepted today.

    argparse accepts it, ms-swift never mentions it, and the next release that adds a flag with the same beginning refuses it. It also hides typing
    errors: `--learning 3e-6` sets the learning rate.

    In the log: nothing

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --lora_ran 16
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --lora_rank 16
    ```

    Source: argparse (allow_abbrev)
    """
    for use in c.v.parsed.uses:
        if use.abbreviated and use.token.known:
            template = "{flag} is read as --{name}: write the flag in full"
            yield c.finding(template, use.token, flags=[use.name], flag=use.token.text.partition("=")[0], name=use.name, fix=c.rename_flag(use.token, use.name))


@rule("FLG006", "bad-choice")
def bad_choice(c: JobCheck) -> Iterator[Finding]:
    """A value that is none of the flag's choices.

    The parser refuses it before anything is loaded. Names that an older release used are said so.

    In the log: `error: argument --vllm_mode/--vllm-mode: invalid choice: 'colocated' (choose from …)`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocated
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --use_vllm true --vllm_mode colocate --reward_funcs accuracy
    ```

    Source: transformers/hf_argparser.py:make_choice_type_function
    """
    for error in _of_kind(c, "bad-choice"):
        assert error.value is not None
        options = [option for option in error.options if option != "None"]
        close = get_close_matches(error.value.text, options, 1)
        template = "--{flag} {value} is none of its choices: {options}"
        fix: Fix | str = f"--{error.flag} " + "|".join(options)
        if close:
            fix = c.set_flag(error.flag, close[0])
        alias = {"pt": "transformers"}.get(error.value.text)
        if alias in options:
            template += " (`{value}` became `{alias}` in ms-swift 4.0)"
            fix = c.set_flag(error.flag, str(alias), safety="safe")
        yield c.finding(
            template, error.value, flags=[error.flag], flag=error.flag, value=_short(error.value.text), options=names(options), alias=alias or "", fix=fix
        )  # fmt: skip


@rule("FLG007", "bad-type")
def bad_type(c: JobCheck) -> Iterator[Finding]:
    """A value of the wrong type.

    Integers take no `1e3` and no `1.0`; booleans take true/false, yes/no, t/f, y/n and 1/0.

    In the log: `error: argument --save_steps/--save-steps: invalid float value: 'ten'`

    Wrong:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 1.5
    ```

    Right:
    ```sh
    swift rlhf --rlhf_type dpo --model Qwen/Qwen3-8B --dataset data.jsonl --per_device_train_batch_size 1
    ```

    Source: transformers/hf_argparser.py:HfArgumentParser._parse_dataclass_field
    """
    wanted = {"int": "an integer", "float": "a number", "bool": "true or false", "dict": "nothing that a command line can give"}
    for error in _of_kind(c, "bad-value"):
        assert error.value is not None
        fact = c.v.flags[error.flag]
        template = "--{flag} {value}: must be {wanted}"
        yield c.finding(
            template, error.value, flags=[error.flag], flag=error.flag, value=_short(error.value.text) or "''", wanted=wanted.get(fact.type, fact.type),
            fix=f"--{error.flag} with {wanted.get(fact.type, fact.type)}",
        )  # fmt: skip


@rule("FLG008", "missing-value")
def missing_value(c: JobCheck) -> Iterator[Finding]:
    """A flag without the value it needs.

    Only a plain boolean may stand alone. The usual reasons are an empty variable, an empty YAML list, and an optional boolean, which needs its value.

    In the log: `error: argument --reward_funcs/--reward-funcs: expected at least one argument`

    Wrong:
    ```sh
    swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs --num_generations 8
    ```

    Right:
    ```sh
    NPROC_PER_NODE=8 swift rlhf --rlhf_type grpo --model Qwen/Qwen3-8B --dataset data.jsonl --reward_funcs accuracy --num_generations 8
    ```

    Source: argparse; transformers/hf_argparser.py:HfArgumentParser._parse_dataclass_field
    """
    for error in _of_kind(c, "expected-one", "expected-some"):
        many = error.kind == "expected-some"
        fact = c.v.flags[error.flag]
        example = "true" if fact.type == "bool" else "|".join(str(x) for x in fact.choices) if fact.choices else "<value>"
        template = "--{flag} has no value; it needs {count}"
        yield c.finding(template, error.token, flags=[error.flag], flag=error.flag, count="at least one" if many else "one", fix=f"--{error.flag} {example}")


@rule("FLG009", "negation-with-value")
def negation_with_value(c: JobCheck) -> Iterator[Finding]:
    """`--no_x=value`: the negated form takes no value.

    Each boolean that is on by default has a `--no_` form, which stands alone.

    In the log: `error: argument --no_add_version/--no-add-version: ignored explicit argument 'true'`

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --no_add_version=true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --add_version false
    ```

    Source: argparse (store_false)
    """
    for error in _of_kind(c, "takes-no-value"):
        template = "--no_{flag} takes no value; write --{flag} false"
        yield c.finding(template, error.token, flags=[error.flag], flag=error.flag, fix=f"--{error.flag} false")


@rule("FLG010", "repeated-flag", severity="warning", consequence="wrong")
def repeated_flag(c: JobCheck) -> Iterator[Finding]:
    """The same flag twice with different values: the last one wins, without a word.

    A list flag is not extended either; `--dataset a --dataset b` trains on `b` alone.

    In the log: nothing

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset a.jsonl --dataset b.jsonl --tuner_type lora
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset a.jsonl b.jsonl --tuner_type lora
    ```

    Source: argparse (the store action)
    """
    for name, uses in c.v.parsed.by_name.items():
        sure = [use for use in uses if not use.maybe]
        if len(sure) < 2 or all(use.value == sure[-1].value for use in sure):
            continue
        if {use.token.span.file for use in sure} == {sure[-1].token.span.file} and sure[0].token.span == sure[-1].token.span:
            continue  # one word written once that bash used twice
        if c.job.config is not None and sure[0].token.chain and sure[0].token.chain[0].kind == "yaml" and not sure[-1].token.chain:
            continue  # the command line overriding its config file is what configs are for
        first, last = sure[0], sure[-1]
        many = c.v.flags[name].nargs == "+"
        template = "--{name} is given {count} times; only the last counts: {value}"
        if many:
            template += ". A list is not extended: write all values after one --{name}"
        shown = " ".join(token.text for token in last.values)
        yield c.finding(
            template, last.token, flags=[name], related=[(first.token, "overwritten")], name=name, count=len(sure), value=_short(shown),
            fix=f"one --{name}" + (" with all values" if many else ""),
        )  # fmt: skip


@rule("FLG011", "version-dependent-flag", severity="info", consequence="refused", confidence="medium")
def version_dependent_flag(c: JobCheck) -> Iterator[Finding]:
    """A flag of the transformers base that only some of the transformers versions this ms-swift allows have.

    ms-swift's training arguments inherit from transformers', so that the installed transformers decides whether the flag exists.

    In the log: `ValueError: remaining_argv: […]` where the installed transformers lacks it

    Wrong:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora --overwrite_output_dir true
    ```

    Right:
    ```sh
    swift sft --model Qwen/Qwen3-8B --dataset data.jsonl --tuner_type lora
    ```

    Source: transformers/training_args.py:TrainingArguments
    """
    if c.v.route not in c.facts.routes or _errors_ignored(c):
        return
    for token, _ in leftovers(c):
        if not is_flag(token) or token.unresolved:
            continue
        name = flag_name(token)
        having = c.facts.transformers_only_elsewhere(name)
        if having and rename_of(c, name) is None:
            template = "--{flag} exists in transformers {having} but not in {base}: it depends on what is installed"
            yield c.finding(template, token, flags=[name], flag=name, having=names(having), base=c.facts.default_transformers, fix=f"remove --{name}")
