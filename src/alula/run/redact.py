"""Secrets are never shown: every output passes its texts through here.

A secret is recognised by its own form (`hf_…`, `sk-…`, `AKIA…`, a bearer token, a private key) or by the name it is given to
(`WANDB_API_KEY=…`, `--hub_token …`, `password: …`). What is shown in its place keeps the telling prefix: `hf_…(redacted)`.
Names that only sound like one (`max_new_tokens`, `teacher_tag_key`, `IMAGE_MAX_TOKEN_NUM`) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from alula.run.record import record

MARK = "…(redacted)"

# Keys that are known by their form: a text that must be there, the prefix that is shown, the rest. The rests are strict enough that a
# model or folder name is no key: `sk-` needs a digit, `ms-` needs the UUID of a ModelScope SDK token, `hf_` takes no further underscore.
_FORMS: tuple[tuple[str, str, str], ...] = (
    ("sk-", r"sk-", r"(?=[\w-]{0,40}\d)[\w-]{20,}"),
    ("hf_", r"hf_", r"[A-Za-z0-9]{16,}"),
    ("ms-", r"ms-", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("AKIA", r"AKIA", r"[0-9A-Z]{16}"),
    ("ASIA", r"ASIA", r"[0-9A-Z]{16}"),
    ("gh", r"gh[pousr]_", r"[A-Za-z0-9]{20,}"),
    ("github_pat_", r"github_pat_", r"\w{20,}"),
    ("glpat-", r"glpat-", r"[\w-]{16,}"),
    ("xox", r"xox[abprs]-", r"[A-Za-z0-9-]{16,}"),
    ("AIza", r"AIza", r"[\w-]{30,}"),
    ("nvapi-", r"nvapi-", r"[\w-]{20,}"),
    ("wandb_v", r"wandb_v\d+_", r"\w{20,}"),
    ("eyJ", r"eyJ", r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]*"),
)

# Secrets known by what stands around them: a text that must be there, and a pattern whose group is the secret.
_CONTEXT: tuple[tuple[str, str], ...] = (
    ("Bearer", r"\bBearer\s+([\w.~+/=-]{16,})"),
    ("Basic", r"\bBasic\s+([\w.~+/=-]{16,})"),
    ("login", r"\b(?:wandb|swanlab)\s+login\s+(?:-\S+\s+){0,4}([\w-]{20,})"),
    ("://", r"://[^/\s:@]{1,200}:([^/\s@$]{1,200})@"),
    ("PRIVATE KEY", r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----([\w+/=\s]{1,20000})"),
)

# A name; what parts it from its value, where only an option (`--token x`) may be parted by blanks alone; and the value. Name, blanks
# and value are bounded and the value is looked at only behind a telling name, so that no input makes this slow.
_NAME = r"-{0,2}[A-Za-z_][\w-]{0,80}"
_PARTS = r"""["']?\]?[ \t]{0,4}(?::-|:=|[:=])[ \t]{0,4}|(["']?[ \t]{1,40}(?:\\\r?\n[ \t]{0,40})?)"""
_VALUE = r"""(?:"([^"\n]{1,500})"|'([^'\n]{1,500})'|([^\s"'`;,&|)}\]]{1,500}))"""
_TELLING = ("key", "token", "secret", "passw", "credential")

_ALWAYS = frozenset({"PASSWORD", "PASSWD", "SECRET", "CREDENTIAL", "CREDENTIALS", "APIKEY"})
_KEY_OF = frozenset({"API", "ACCESS", "SECRET", "PRIVATE", "AUTH", "ACCOUNT", "SIGNING", "ENCRYPTION", "SSH", "DEPLOY"})
_NOT_TOKEN_OF = frozenset(
    {"EOS", "BOS", "PAD", "UNK", "SEP", "CLS", "MASK", "STOP", "IMAGE", "VIDEO", "AUDIO", "SPECIAL", "PER", "MAX", "MIN", "NUM"}
)
_NOT_KEY_OF = frozenset({"TAG", "SORT", "CONTENT", "ROLE", "INNER", "LAYER", "DICT", "PARTITION", "GROUP"})
_NO_SECRET = r"(?i:\$|<|[x*.…]+$|your[_-]|[a-z_][\w.]*[(\[]|(?:empty|none|null|true|false|auto|str|optional|any)$|-?\d{1,6}$)"

# Most texts need none of these patterns, and compiling them all costs more than a whole check: each waits until it is wanted.
_pattern = cache(re.compile)


@record
class Secret:
    """A range of characters that must not be shown, and what to show in its place."""

    start: int
    end: int
    shown: str


def secret_name(name: str) -> bool:
    """True when a flag, environment variable or key of this name holds a secret."""
    parts = name.strip("-").replace("-", "_").upper().split("_")
    if not _ALWAYS.isdisjoint(parts) or parts[-1].endswith("APIKEY"):
        return True
    before = parts[-2] if len(parts) > 1 else ""
    if parts[-1] == "TOKEN":
        return before not in _NOT_TOKEN_OF
    if parts[-1] == "ID":  # AWS_ACCESS_KEY_ID
        return parts[-2:-1] == ["KEY"] and parts[-3:-2] == ["ACCESS"]
    if parts[-1] == "KEY":
        return before in _KEY_OF or (name.isupper() and len(parts) > 1 and before not in _NOT_KEY_OF)
    return False


def redact_words(words: Iterable[str]) -> list[str]:
    """A command line as it may be shown: the word after `--hub_token` is a secret whatever it looks like."""
    shown: list[str] = []
    name = ""
    for word in words:
        shown.append(redact(word, name) if name and not word.startswith("--") else redact(word))
        name = word if word.startswith("-") and "=" not in word else ""
    return shown


def find(text: str) -> list[Secret]:
    """The secrets in a text, in order, without overlap."""
    found: list[Secret] = []
    for hint, prefix, rest in _FORMS:
        if hint in text:
            form = _pattern(rf"(?<![\w-])({prefix}){rest}[\w-]*")
            found += [Secret(m.start(), m.end(), m[1] + MARK) for m in form.finditer(text)]
    for hint, context in _CONTEXT:
        if hint in text:
            found += [Secret(m.start(1), m.end(1), MARK) for m in _pattern(context).finditer(text) if not m[1].startswith(MARK)]
    lower = text.lower()
    if any(hint in lower for hint in _TELLING):
        found += _named(text)
    return _merged(found)


def redact(text: str, name: str = "") -> str:
    """The text as it may be shown; `name` is the variable, flag or key whose value it is. Idempotent."""
    if name and text and secret_name(name) and not _harmless(name, text):
        found = find(text)
        return found[0].shown if found and found[0].start == 0 else MARK
    return _replace(text, find(text))


class Redactor:
    """Redacts what is shown about some texts: also the bare secret values that stand in those texts, wherever they turn up again."""

    def __init__(self, texts: Iterable[str]) -> None:
        literals: dict[str, str] = {}
        for text in texts:
            for secret in find(text):
                for part in text[secret.start : secret.end].split("\n"):
                    if len(part) >= 8:  # a shorter one would hide ordinary words
                        literals[part] = secret.shown
        self._shown = literals
        longest_first = sorted(literals, key=len, reverse=True)
        self._literal = re.compile("|".join(map(re.escape, longest_first))) if literals else None

    def find(self, text: str) -> list[Secret]:
        """The secrets in a text, in order, without overlap."""
        found = find(text)
        if self._literal is not None:
            found += [Secret(m.start(), m.end(), self._shown[m[0]]) for m in self._literal.finditer(text)]
            found = _merged(found)
        return found

    def __call__(self, text: str) -> str:
        return _replace(text, self.find(text))


def _named(text: str) -> list[Secret]:
    found = []
    at = 0
    for hint in _pattern("|".join(_TELLING), re.IGNORECASE).finditer(text):
        start = hint.start()
        if start < at:
            continue
        while start > at and hint.start() - start < 80 and (text[start - 1].isalnum() or text[start - 1] in "_-"):
            start -= 1
        m = _pattern(_NAME).match(text, start)
        at = m.end() if m else hint.end()
        if m is None or not secret_name(m[0]):
            continue
        name = m[0]
        parts = _pattern(_PARTS).match(text, at)
        if parts is None or (parts[1] is not None and not name.startswith("-")):
            continue
        value = _pattern(_VALUE).match(text, parts.end())
        if value is None:
            continue
        group = value.lastindex or 0
        secret = value[group].rstrip(":.,") if group == 3 else value[group]  # a sentence may go on behind a bare one
        if secret and not _harmless(name, secret):
            found.append(Secret(value.start(group), value.start(group) + len(secret), MARK))
            at = value.end()
    return found


def _harmless(name: str, value: str) -> bool:
    if MARK[:-1] in value:  # redacted before
        return True
    always = not _ALWAYS.isdisjoint(name.strip("-").replace("-", "_").upper().split("_"))
    if _pattern(_NO_SECRET).match(value):
        return not (always and value.isdigit())  # a password may be 123456
    return len(value) < 6 and not always


def _merged(found: Sequence[Secret]) -> list[Secret]:
    merged: list[Secret] = []
    for secret in sorted(found, key=lambda s: (s.start, -s.end, -len(s.shown))):
        if merged and secret.start < merged[-1].end:
            last = merged[-1]
            # The one that says what it is wins where both start at the same place.
            shown = secret.shown if secret.start == last.start and len(secret.shown) > len(last.shown) else last.shown
            merged[-1] = Secret(last.start, max(last.end, secret.end), shown)
        else:
            merged.append(secret)
    return merged


def _replace(text: str, secrets: Sequence[Secret]) -> str:
    if not secrets:
        return text
    parts, at = [], 0
    for secret in secrets:
        parts += [text[at : secret.start], secret.shown]
        at = secret.end
    return "".join(parts) + text[at:]
