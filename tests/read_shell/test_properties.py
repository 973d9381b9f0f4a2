"""Properties: whatever bytes come in, the reader answers; whatever simple script is written, it answers as bash does."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from alula.read.shell import MAX_BYTES, ShellContext, read_shell
from alula.run.source import Source

from .bash import both

CONTEXT = ShellContext((), {"PATH": "/bin"}, Path("/nonexistent"), "run.sh", 8)
PIECES = st.sampled_from(
    [
        b'"', b"'", b"`", b"$(", b")", b"${", b"}", b"\\", b"\n", b" ", b"#", b"fi", b"done", b"then ", b"if ", b"(", b"((", b"))", b"<<EOF\n", b"EOF\n",
        b"|", b"&&", b";;", b"case x in\n", b"esac\n", b"[[ ", b" ]]", b"\xff", b"\x00", b"\r\n", b"<", b">", b"*", b"{", b"$", b"!", b"=(", b"[",
        b"f() {", b"while :; do ", b"eval ", b'"$@"', b"${x//", b"&", b"\xc2\xa0", b"swift rlhf ", b"--a 1 ", b"x=1", b"$x", b"$((", b"{1..9}", b"f\n",
        b"export ", b"local ", b"read x <<< ", b"for i in ", b"do\n", b"\\\n", b"\\ \n", b"bash -c ", b"exit\n", b"return\n", b"source run.sh\n", b"%%", b"##",
    ]
)  # fmt: skip


def answers(data: bytes) -> None:
    source = Source("run.sh", data)
    result = read_shell(source, CONTEXT)
    for finding in result.findings:
        assert finding.message
        assert finding.span is not None
        assert 0 <= finding.span.start <= finding.span.end <= len(data)
        for edit in finding.fix.edits if finding.fix else ():
            assert 0 <= edit.span.start <= edit.span.end <= len(data)
    for command in result.commands:
        for token in command.words:
            if token.span.file == "run.sh":
                assert 0 <= token.span.start <= token.span.end <= len(data)
            token.text.encode()
        dict(command.shell_variables)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    answers(data)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=40).map(b"".join))
def test_any_shell_like_bytes(data: bytes) -> None:
    answers(data)


@pytest.mark.parametrize(
    "data",
    [
        b"(" * 20000, b"{ " * 20000, b"$(" * 20000, b'"$(' * 20000, b"if x; then " * 5000, b"f() { f; }; f", b"f() { f | f & f; }; f", b"while :; do :; done",
        b"while true; do swift rlhf --a 1; done", b"for ((;;)); do x=$x$x; done", b"x=aaaaaaaa; for i in {1..100}; do x=$x$x; done; swift rlhf --x $x",
        b"eval 'eval \"$0\"'", b"a=b; b=a; echo $((a)) ${!a}", b"declare -n a=b; declare -n b=a; echo $a; a=1", b"trap 'exit' EXIT; exit", b"[[ " * 3000,
        b"((" * 5000, b"${x:-" * 5000, b"`" * 9999, b"\\\n" * 50000 + b"x", b"echo {1..1000}{1..1000}{1..1000}", b"x[1" * 3000, b"case x in " * 2000,
        b"source run.sh", b"bash run.sh", b"#" * 100000, b"x=" + b"a" * 200000 + b"; echo ${x%%b*} ${x//a/b}", b"! " * 5000 + b"x", b"[[ x =~ (((((a+)+)+)+)+)b ]]",
        b"x=" + b"a" * 9000 + b"; case $x in *a*a*a*a*a*a*a*a*b) swift;; esac; [[ $x == *a*a*a*a*a*ab ]]; y=${x%%a*a*a*a*b}; z=${x//*a*a*a*a*b/}",
        b"echo " + b"a" * 3000 + b" | grep -E '(a|aa)*b'; echo " + b"a" * 3000 + b" | sed -E 's/(a*a*a*a*a*a*a*)b//'; [[ " + b"a" * 1500 + b" =~ (a*)*b ]]",
        b"# " + b'A="1" ' * 40 + b"prose\n# " + b"A='1' " * 40 + b"prose\nswift",
        b"printf '%99999999999d' 1", b"echo $((9**9**9))", b"seq 1 99999999999", b"read -r x < /dev/zero", b"cat /dev/urandom", b"x=$(< /proc/kcore)",
        b"set -- a b c; while [ $# -gt 0 ]; do set -- \"$@\" x; done", b"shift 99999999999999999999", b"exit 99999999999999999999999", b"echo ${x:99999999999999999999}",
    ],
)  # fmt: skip
def test_hostile(data: bytes) -> None:
    answers(data)


def test_too_large_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="too large") as caught:
        read_shell(Source("run.sh", b"#" * (MAX_BYTES + 1)), CONTEXT)
    assert "\n" not in str(caught.value)


# --- the same as bash ---

_TEXT = st.text("abcXYZ019 _-./:,=@+", max_size=6)
_NAME = st.sampled_from(["A", "B", "C", "ITEM"])
_SINGLE = st.text("ab $`\"\\*?{}#;&|<>()~!", max_size=6).map(lambda t: f"'{t}'")
_BARE = st.text("abXY019_-./:,=@+", min_size=1, max_size=6)
_PATTERN = st.sampled_from(["a*", "*a", "?", "*", "[a-c]", "*/", "/*", "b"])
_OP = st.sampled_from(["%", "%%", "#", "##"])
_EXPANSION = st.one_of(
    _NAME.map(lambda n: f"${n}"), _NAME.map(lambda n: f"${{{n}}}"), st.builds(lambda n, t: f"${{{n}:-{t}}}", _NAME, _BARE),
    st.builds(lambda n, t: f"${{{n}:+{t}}}", _NAME, _BARE), st.builds(lambda n, o, p: f"${{{n}{o}{p}}}", _NAME, _OP, _PATTERN),
    st.builds(lambda n, p, t: f"${{{n}//{p}/{t}}}", _NAME, st.sampled_from(["a", "b", "[0-9]", "?"]), st.text("xyz", max_size=2)),
    _NAME.map(lambda n: f"${{#{n}}}"), st.builds(lambda n, a, b: f"${{{n}:{a}:{b}}}", _NAME, st.integers(0, 3), st.integers(0, 3)),
    _NAME.map(lambda n: f"${{{n}^^}}"), st.builds(lambda a, b, o: f"$(({a} {o} {b}))", st.integers(0, 9), st.integers(1, 9), st.sampled_from("+ - * / % < == &&".split())),
    _NAME.map(lambda n: f"$(echo ${n})"), _NAME.map(lambda n: f"$(printf '%s|' ${n})"), st.just("${ARR[@]}"), st.just("${ARR[*]}"), st.just("${#ARR[@]}"), st.just("$@"),
    st.just("${ARR[1]}"), st.just("$#"), st.just("$1"), st.just("${ARR[@]:1}"), st.just("${N}"), st.just("$((N+1))"),
)  # fmt: skip
_INSIDE = st.one_of(_EXPANSION, st.text("abc 01-_./'*?{}#~", max_size=5), st.sampled_from(['\\"', "\\$", "\\\\", "\\x"]))
_DOUBLE = st.lists(_INSIDE, max_size=3).map(lambda parts: '"' + "".join(parts) + '"')
_WORD = st.lists(st.one_of(_BARE, _SINGLE, _DOUBLE, _EXPANSION, st.sampled_from(["{a,b}", "{1..3}", "\\ ", "\\*", "$'a\\tb'"])), min_size=1, max_size=3).map("".join)
_ASSIGN = st.one_of(
    st.builds(lambda n, w: f"{n}={w}", _NAME, _WORD), st.builds(lambda n, w: f"export {n}={w}", _NAME, _DOUBLE), st.builds(lambda n, w: f"{n}+={w}", _NAME, _BARE),
    st.lists(_WORD, max_size=3).map(lambda ws: f"ARR=({' '.join(ws)})"), st.lists(_WORD, max_size=2).map(lambda ws: f"ARR+=({' '.join(ws)})"),
    st.lists(_WORD, max_size=2).map(lambda ws: "set -- " + " ".join(ws)), _NAME.map(lambda n: f"unset {n}"), st.integers(0, 20).map(lambda n: f"N={n}"),
    st.just("((N++))"), st.builds(lambda n, w: f"read -r {n} REST <<< {w}", _NAME, _DOUBLE), st.sampled_from(["IFS=,", "unset IFS", "IFS=' ,'"]),
)  # fmt: skip
_LAUNCH = st.builds(lambda pre, ws: f"{pre}swift {' '.join(ws)}", st.one_of(st.just(""), st.builds(lambda n, w: f"{n}={w} ", _NAME, _DOUBLE)), st.lists(_WORD, max_size=4))
_TEST = st.one_of(
    st.builds(lambda w, v: f"[ {w} = {v} ]", _DOUBLE, _DOUBLE), _DOUBLE.map(lambda w: f"[ -n {w} ]"), st.builds(lambda w, p: f"[[ {w} == {p} ]]", _DOUBLE, _PATTERN),
    st.builds(lambda n: f"[ $N -gt {n} ]", st.integers(0, 20)), st.just("true"), st.just("false"), st.builds(lambda n: f"(( N < {n} ))", st.integers(0, 20)),
)  # fmt: skip


def _blocks(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = st.lists(inner, min_size=1, max_size=3).map("\n".join)
    return st.one_of(
        st.builds(lambda t, a, b: f"if {t}; then\n{a}\nelse\n{b}\nfi", _TEST, body, body), st.builds(lambda t, a: f"{t} && {{ {a}\n}}", _TEST, body),
        st.builds(lambda n, ws, b: f"for {n} in {' '.join(ws)}; do\n{b}\ndone", _NAME, st.lists(_WORD, max_size=3), body), body.map(lambda b: f"( {b}\n)"),
        st.builds(lambda w, p, a, b: f"case {w} in\n{p}) {a}\n;;\n*) {b}\n;;\nesac", _DOUBLE, _PATTERN, body, body),
        st.builds(lambda b, ws: f"f() {{ local A=$1; {b}\n}}\nf {' '.join(ws)}", body, st.lists(_WORD, max_size=2)),
        st.builds(lambda b: f"i=0; while [ $i -lt 2 ]; do\n{b}\ni=$((i+1)); done", body),
    )  # fmt: skip


_SCRIPT = st.lists(st.recursive(st.one_of(_ASSIGN, _LAUNCH), _blocks, max_leaves=6), min_size=1, max_size=8).map("\n".join)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(_SCRIPT)
def test_simple_scripts_as_bash(script: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            real, mine = both(script + "\nswift end\n", Path(folder), ("one", "two words"))
        except subprocess.TimeoutExpired:  # about one in a thousand doubles its arguments until bash itself comes to no end: nothing to compare with
            reject()
        assert mine == real, script
