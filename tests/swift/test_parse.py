"""ms-swift's parser, mirrored: against the real `argparse` for arbitrary words, and in its documented corners."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.facts import swift as facts
from alula.run.source import Span, Token
from alula.swift.parse import UNKNOWN, Parsed, Use, Vocabulary, parse

FLAGS = facts.load("4.6.0").flags("swift rlhf")


def words(*texts: str) -> tuple[Token, ...]:
    return tuple(Token(text, Span("t", at, at + 1)) for at, text in enumerate(texts))


def read(*texts: str) -> Parsed:
    return parse(words(*texts), FLAGS)


class _Refused(Exception):
    pass


class _Reference(argparse.ArgumentParser):
    """transformers' HfArgumentParser over our facts, built the way `_parse_dataclass_field` registers fields."""

    def __init__(self, flags: dict[str, facts.Flag]) -> None:
        super().__init__(allow_abbrev=True)
        for flag in flags.values():
            names = [f"--{flag.name}"] + ([f"--{flag.name.replace('_', '-')}"] if "_" in flag.name else [])
            options: dict[str, Any] = {"default": argparse.SUPPRESS}
            if flag.choices is not None:
                by_text = {str(choice): choice for choice in flag.choices}
                options |= {"type": lambda text, by_text=by_text: by_text.get(text, text), "choices": flag.choices}
            elif flag.type == "bool":
                options["type"] = _truth
                if flag.nargs == "?":
                    options |= {"nargs": "?", "const": True}
            else:
                options["type"] = {"int": int, "float": float, "str": str, "dict": dict, "object": object}[flag.type]
            if flag.nargs == "+":
                options["nargs"] = "+"
            self.add_argument(*names, **options)
            if flag.negatable:
                self.add_argument(
                    f"--no_{flag.name}", f"--no-{flag.name.replace('_', '-')}", action="store_false", dest=flag.name, default=argparse.SUPPRESS
                )  # fmt: skip

    def error(self, message: str) -> Any:
        raise _Refused(message)

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002
        raise _Refused("help")


def _truth(text: str) -> bool:
    lowered = text.lower()
    if lowered in ("yes", "true", "t", "y", "1"):
        return True
    if lowered in ("no", "false", "f", "n", "0"):
        return False
    raise argparse.ArgumentTypeError(
        f"Truthy value expected: got {text} but expected one of yes/no, true/false, t/f, y/n, 1/0 (case insensitive)."
    )  # fmt: skip


SOME = {
    name: FLAGS[name]
    for name in (
        "rlhf_type", "model", "beta", "use_vllm", "vllm_mode", "reward_funcs", "num_generations", "num_generations_eval", "add_version", "save_steps",
        "save_strategy", "lora_rank", "lora_alpha", "freeze_vit", "system", "vllm_server_port", "eval_on_start", "loss_type", "center_rewards_coefficient",
    )
}  # fmt: skip
REFERENCE = _Reference(SOME)
VOCABULARY = Vocabulary.of(SOME)

_flag_words = st.sampled_from(sorted(SOME)).flatmap(
    lambda name: st.sampled_from([f"--{name}", f"--{name.replace('_', '-')}", f"--no_{name}", f"--{name}=1", f"--{name}=", f"--{name[:5]}", f"--{name}x"])
)
_values = st.sampled_from(["1", "-1", "-1.5", "1e-3", "true", "False", "grpo", "server", "None", "x y", "--a b", "-x", "-", "", "8", "a,b", "--", "-h8", "=", "--="])


@settings(max_examples=1500, deadline=None)
@given(st.lists(st.one_of(_flag_words, _values), max_size=7))
def test_same_as_argparse(argv: list[str]) -> None:
    ours = parse(words(*argv), SOME, VOCABULARY)
    try:
        space, remaining = REFERENCE.parse_known_args(argv)
    except _Refused as refusal:
        assert ours.errors or ours.help, f"argparse refuses: {refusal}"
        if not ours.help:
            assert _squeezed(ours.errors[0].message) == _squeezed(str(refusal))
        return
    assert not ours.errors
    assert [token.text for token in ours.extras] == remaining
    expected = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(space).items()}
    assert {name: uses[-1].value for name, uses in ours.by_name.items()} == expected


def _squeezed(message: str) -> str:
    return message.replace("'", "").replace(" ", "")


CORNERS = [
    (("--beta", "0.1", "--beta", "0.2"), "beta", 0.2),
    (("--use_vllm",), "use_vllm", True),
    (("--no_add_version",), "add_version", False),
    (("--reward_funcs", "a", "-1", "b"), "reward_funcs", ("a", "-1", "b")),
    (("--vllm-mode", "server"), "vllm_mode", "server"),
    (("--beta=0.5",), "beta", 0.5),
    (("--truncation_strategy", "None"), "truncation_strategy", None),
    (("--ref_model", "None"), "ref_model", "None"),
]


@pytest.mark.parametrize(("argv", "name", "value"), CORNERS)
def test_value(argv: tuple[str, ...], name: str, value: object) -> None:
    use = read(*argv).last(name)
    assert use is not None
    assert use.value == value


def test_key_and_value_in_one_word_is_no_flag() -> None:
    assert [token.text for token in read("--beta 0.1").extras] == ["--beta 0.1"]


def test_unknown_text_is_unknown_not_wrong() -> None:
    token = Token("$(steps)", Span("t", 0, 1), unresolved=("$(steps)",))
    parsed = parse((*words("--save_steps"), token), FLAGS)
    assert parsed.errors == ()
    use = parsed.last("save_steps")
    assert isinstance(use, Use)
    assert use.value is UNKNOWN


def test_all_errors_are_kept_and_the_first_is_argparses() -> None:
    parsed = read("--beta", "x", "--save", "1", "--num_generations", "y")
    assert [error.kind for error in parsed.errors] == ["ambiguous", "bad-value", "bad-value"]
