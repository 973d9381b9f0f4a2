"""Lists where nothing is split: with what bash joins `$*`, `$@` and arrays, by place, operator and IFS."""

import shutil
from pathlib import Path

import pytest

from .bash import both

LISTS = [
    "${" + name + op + "}"
    for name in ("@", "*", "ARR[@]", "ARR[*]", "!ARR[@]", "!ARR[*]")
    for op in ("", "#q", "%q", "/q/w", "^^", ":1", ":0:2", ":-d", ":+y")
    if not (op and name.startswith("!"))
]  # fmt: skip
PLACES = [
    'B="{}" swift x', "B={} swift x", 'export B="p{}q"; swift x', "export B={}; swift x", 'export B=${{u:-"{}"}}; swift x', 'B="{}"; swift "$B"', "B={}; swift \"$B\"",
    'B=; B+={}; swift "$B"', 'read -r B C <<< "{}"; swift "$B" "$C"', 'read -r B C <<< {}; swift "$B" "$C"', 'case "{}" in *,*) swift comma;; *" "*) swift blank;; esac',
    'case {} in *,*) swift comma;; *" "*) swift blank;; esac', '[[ "{}" == *,* ]] && swift comma', "[[ {} == *,* ]] && swift comma", 'f() {{ local B={}; swift "$B"; }}; f',
    'TWO=({}); swift "${{#TWO[@]}}"', 'swift "{}"', "swift {}",
]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ifs", ["IFS=,", "IFS=' ,'", "unset IFS"])
def test_joined_as_bash_does(tmp_path: Path, ifs: str, place: str) -> None:
    lines = [f"unset B C u\n{place.format(one)}" for one in LISTS]
    real, mine = both("\n".join([ifs, "ARR=(a b c)", *lines]) + "\n", tmp_path, ("one", "two words"))
    assert mine == real
    assert real or "comma" in place
