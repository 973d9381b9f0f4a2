"""Secrets are hidden in every form they come in, and nothing else is."""

from __future__ import annotations

from itertools import pairwise

import pytest
from cases import SECRET, report
from hypothesis import given, settings
from hypothesis import strategies as st

from alula.output.github import render as github
from alula.output.json_v1 import render_check
from alula.output.sarif import render as sarif
from alula.output.text import render as text
from alula.run.redact import Redactor, find, redact, redact_words, secret_name

HEX = "0123456789abcdef0123456789abcdef01234567"
UUID = "01234567-89ab-cdef-0123-456789abcdef"

SHOWN = {
    SECRET: "hf_…(redacted)",
    f"export HF_TOKEN={SECRET};x": "export HF_TOKEN=hf_…(redacted);x",
    "--api_key sk-proj-abcDEF0123456789abcDEF": "--api_key sk-…(redacted)",
    f"token ms-{UUID}.": "token ms-…(redacted).",
    "AKIAIOSFODNN7EXAMPLE": "AKIA…(redacted)",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789": "ghp_…(redacted)",
    "Authorization: Bearer abcdef.ghijkl-mnopqr": "Authorization: Bearer …(redacted)",
    f"wandb login --relogin {HEX}": "wandb login --relogin …(redacted)",
    f"export WANDB_API_KEY={HEX} # mine": "export WANDB_API_KEY=…(redacted) # mine",
    f"WANDB_API_KEY: '{HEX}'": "WANDB_API_KEY: '…(redacted)'",
    f'os.environ["WANDB_API_KEY"] = "{HEX}"': 'os.environ["WANDB_API_KEY"] = "…(redacted)"',
    '{"api_key": "foo-bar-baz"}': '{"api_key": "…(redacted)"}',
    "${SWANLAB_API_KEY:-abcdefgh}": "${SWANLAB_API_KEY:-…(redacted)}",
    "docker run -e MODELSCOPE_API_TOKEN=abcdefgh img": "docker run -e MODELSCOPE_API_TOKEN=…(redacted) img",
    "http_proxy=http://me:pa55@proxy:3128": "http_proxy=http://me:…(redacted)@proxy:3128",
    "--hub_token \\\n    abcdefgh --x": "--hub_token \\\n    …(redacted) --x",
    "--swanlab_secret=abc": "--swanlab_secret=…(redacted)",
    "PASSWORD=123456 x": "PASSWORD=…(redacted) x",
    "AWS_SECRET_ACCESS_KEY=ab/cd+ef==": "AWS_SECRET_ACCESS_KEY=…(redacted)",
    "apiKey: abcdefgh": "apiKey: …(redacted)",
    "--hub_token abcdefgh: use the environment": "--hub_token …(redacted): use the environment",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc+/=\nabc\n-----END": "-----BEGIN RSA PRIVATE KEY-----…(redacted)-----END",
}

KEPT = [
    "--max_new_tokens 512 --max_tokens=8 IMAGE_MAX_TOKEN_NUM=1024 TOKENIZERS_PARALLELISM=false",
    "--teacher_tag_key dataset --tag_key dataset_name",
    "eos_token: <|im_end|>  pad_token=abcdefgh",
    "HF_TOKEN=$HF_TOKEN --hub_token ${TOKEN} --api_key EMPTY",
    "WANDB_API_KEY=your_wandb_api_key OPENAI_API_KEY=xxxxxxxx HF_TOKEN=<your-token>",
    f"--revision {HEX}",
    "--model ms-swift/some-long-model-name --output_dir /out/task-sk-learn-experiments-long-name",
    "hf_hub_download hf_model_path_of_mine",
    "api_key=os.environ['X'] token=get_token()",
    "the token that follows, the key to it all",
    "http://user@host:80 http://host:8000/x@y",
    "--use_vllm true --vllm_mode server",
]  # fmt: skip


@pytest.mark.parametrize("given_text", SHOWN)
def test_shown(given_text: str) -> None:
    assert redact(given_text) == SHOWN[given_text]
    assert redact(SHOWN[given_text]) == SHOWN[given_text]


@pytest.mark.parametrize("kept", KEPT)
def test_kept(kept: str) -> None:
    assert redact(kept) == kept


def test_words_of_a_command() -> None:
    words = ["swift", "sft", "--hub_token", "abcdefgh", "--max_tokens", "5", "--api_key=abcdefgh", "--swanlab_token", "--x", SECRET]
    assert redact_words(words) == [
        "swift", "sft", "--hub_token", "…(redacted)", "--max_tokens", "5", "--api_key=…(redacted)", "--swanlab_token", "--x", "hf_…(redacted)",
    ]  # fmt: skip
    assert redact("abcdefgh", "WANDB_API_KEY") == "…(redacted)"
    assert redact("0,1", "CUDA_VISIBLE_DEVICES") == "0,1"


def test_names() -> None:
    secret = ("WANDB_API_KEY", "hub_token", "HF_TOKEN", "--swanlab-secret", "password", "AWS_ACCESS_KEY_ID", "OPENAI_KEY", "apikey")
    other = ("max_new_tokens", "teacher_tag_key", "IMAGE_MAX_TOKEN_NUM", "eos_token", "lazy_tokenize", "key", "TAG_KEY", "NODE_RANK", "")
    assert all(map(secret_name, secret))
    assert not any(map(secret_name, other))


def test_a_secret_of_the_source_is_hidden_wherever_it_turns_up() -> None:
    redactor = Redactor(["--hub_token plainlookingvalue\n"])
    assert redactor("the value plainlookingvalue is wrong") == "the value …(redacted) is wrong"
    assert redact("the value plainlookingvalue is wrong") == "the value plainlookingvalue is wrong"


PIECES = st.sampled_from([*SHOWN, *KEPT, "key", "token", "=", ": ", " ", "\n", '"', "'", "sk-", "hf_", "://", "a", "\\\n", "…(redacted)"])


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text()))
def test_ranges_are_sound_and_redaction_is_idempotent(value: str) -> None:
    found = find(value)
    assert all(0 <= s.start < s.end <= len(value) for s in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    once = redact(value)
    assert redact(once) == once


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "key",
        "key=",
        "API_KEY=",
        "--token ",
        "token:  ",
        "://a",
        "sk-",
        "wandb login ",
        "HF_TOKEN=$",
        "-----BEGIN PRIVATE KEY-----",
        "'\"",
    ],
)
def test_no_input_makes_it_slow(piece: str) -> None:
    import time

    def seconds(size: int) -> float:
        value = piece * (size // len(piece))
        start = time.process_time()
        find(value)
        return time.process_time() - start

    small = max(seconds(50_000), 1e-3)
    assert seconds(400_000) < small * 40  # eight times the work; sixty-four were it quadratic


def test_no_format_shows_a_secret() -> None:
    full = report()
    for rendered in (text(full), text(full, color=True, width=50), render_check(full), sarif(full, ()), github(full)):
        assert SECRET[4:] not in rendered
        assert HEX not in rendered
