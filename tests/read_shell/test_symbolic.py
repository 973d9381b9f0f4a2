"""What cannot be known, where values come from, and both sides of open conditions."""

from __future__ import annotations

from pathlib import Path

import pytest

from alula.read.shell import ShellContext, ShellResult, read_shell
from alula.run.job import Command
from alula.run.source import Source, Token


def read(script: str, tmp: Path, *args: str, gpus: int | None = None, **environ: str) -> ShellResult:
    return read_shell(Source("run.sh", script.encode()), ShellContext(args, environ, tmp, "run.sh", gpus))


def launches(result: ShellResult) -> list[Command]:
    return [command for command in result.commands if command.words[0].text in ("swift", "megatron", "torchrun")]


def texts(command: Command) -> str:
    return " ".join(word.text for word in command.words)


def word(result: ShellResult, text: str) -> Token:
    return next(token for command in result.commands for token in command.words if token.text == text)


# --- unknown ---


@pytest.mark.parametrize(
    ("script", "text", "unresolved"),
    [
        ("swift sft --s $RANDOM", "$RANDOM", ("$RANDOM",)),
        ("swift sft --s ${RANDOM}", "$RANDOM", ("$RANDOM",)),
        ("swift sft --s run_$(date +%s)", "run_$(date +%s)", ("$(date +%s)",)),
        ('D=$(date "+%F %T"); N="x_$D"; swift sft --s "$N"', 'x_$(date "+%F %T")', ('$(date "+%F %T")',)),
        ("P=$((29500 + RANDOM % 100)); swift sft --s $P", "$((29500 + RANDOM % 100))", ("$((29500 + RANDOM % 100))",)),
        ("swift sft --s ${X:?needed}", "${X:?needed}", ("${X:?needed}",)),
        ("read -p name N; swift sft --s $N", "$N", ("$N",)),
        ("swift sft --s $(python -c 'print(1)')", "$(python -c 'print(1)')", ("$(python -c 'print(1)')",)),
        ("X=$(hostname); swift sft --s ${X%%.*}", "${X%%.*}", ("${X%%.*}",)),
        ("X=$(nproc); swift sft --s $((X / 2))", "$((X / 2))", ("$((X / 2))",)),
        ("X=`curl -s u`; swift sft --s \"$X\"", "`curl -s u`", ("`curl -s u`",)),
        ("true | swift sft --s $?", "0", ()),
        ("foo; swift sft --s $?", "$?", ("$?",)),
        ("swift sft --s <your_path>", "<your_path>", ("<your_path>",)),
        ("swift sft --s $(nvidia-smi -L | wc -l)", "$(nvidia-smi -L | wc -l)", ("$(nvidia-smi -L | wc -l)",)),
        ("swift sft --s $(cat nothing.txt)", "$(cat nothing.txt)", ("$(cat nothing.txt)",)),
        ("swift sft --s $!", "$!", ("$!",)),
    ],
)  # fmt: skip
def test_never_guessed(script: str, text: str, unresolved: tuple[str, ...], tmp_path: Path) -> None:
    result = read(script, tmp_path)
    token = launches(result)[-1].words[3]
    assert (token.text, token.unresolved) == (text, unresolved)
    assert bool(result.unresolved) == bool(unresolved)


def test_unknown_text_is_one_word(tmp_path: Path) -> None:
    [command] = launches(read("X=$(cat list); swift sft --files $X --y", tmp_path))
    assert [w.text for w in command.words[2:]] == ["--files", "$(cat list)", "--y"]


def test_gpus_are_counted_where_they_are_said(tmp_path: Path) -> None:
    for script in ("$(nvidia-smi -L | wc -l)", "$(nvidia-smi --list-gpus | wc -l)", "$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)"):
        [command] = launches(read(f"N={script}; NPROC_PER_NODE=$N swift sft --x $((N-1))", tmp_path, gpus=4))
        assert (command.env["NPROC_PER_NODE"].token.text, command.words[3].text) == ("4", "3")


# --- provenance ---


def test_gpus_that_python_counts(tmp_path: Path) -> None:
    script = 'N=$(python -c "import torch; print(torch.cuda.device_count())"); swift sft --n $N'
    assert launches(read(script, tmp_path, gpus=4))[0].words[3].text == "4"
    assert launches(read(script, tmp_path))[0].words[3].unresolved


def definition(script: str, token: Token) -> str:
    return script[token.definition.start : token.definition.end]


@pytest.mark.parametrize(
    ("script", "text", "use", "defined", "chain"),
    [
        ("swift sft --lr 1e-5", "1e-5", "1e-5", "1e-5", []),
        ("swift sft --lr '1e-5'", "1e-5", "'1e-5'", "'1e-5'", []),
        ("LR=1e-5; swift sft --lr $LR", "1e-5", "$LR", "1e-5", [("variable", "LR")]),
        ('LR="1e-5"; swift sft --lr "${LR}"', "1e-5", '"${LR}"', "1e-5", [("variable", "LR")]),
        ("swift sft --lr ${LR:-1e-5}", "1e-5", "${LR:-1e-5}", "1e-5", [("default", "LR")]),
        ("LR=${LR:-1e-5}; swift sft --lr $LR", "1e-5", "$LR", "1e-5", [("default", "LR"), ("variable", "LR")]),
        ("A=7; B=$A; swift sft --n $B", "7", "$B", "7", [("variable", "A"), ("variable", "B")]),
        ("A=(--lr 1e-5); swift sft ${A[@]}", "1e-5", "${A[@]}", "1e-5", [("array", "A")]),
        ("V=3; A=(--n $V); swift sft \"${A[@]}\"", "3", '"${A[@]}"', "3", [("variable", "V"), ("array", "A")]),
        ('A="--x 1 --lr 1e-5"; swift sft $A', "1e-5", "$A", "1e-5", [("variable", "A")]),
        ("A=\"--x 1 \\\n  --lr 1e-5\"; swift sft $A", "1e-5", "$A", "1e-5", [("variable", "A")]),
        ('C="swift sft --lr 1e-5"; eval $C', "1e-5", "$C", "1e-5", [("variable", "C")]),
        ('V=9; C="swift sft --n $V/x"; eval "$C"', "9/x", '$C', "$V/x", [("variable", "C")]),
        ("bash -c 'swift sft --lr 1e-5'", "1e-5", "1e-5", "1e-5", []),
        ('ssh h "cd x && swift sft --lr 1e-5"', "1e-5", "1e-5", "1e-5", []),
        ("for s in 1 22; do swift sft --seed $s; done", "22", "$s", "22", [("loop", "s")]),
        ("f() { swift sft --m $1; }; f model", "model", "$1", "model", [("argument", "1")]),
        ("M=base; swift sft --m $M/x", "base/x", "$M/x", "$M/x", [("variable", "M")]),
        ("X=a/b/c; swift sft --m ${X##*/}", "c", "${X##*/}", "c", [("variable", "X")]),
        ("swift sft --n $((2*3))", "6", "$((2*3))", "$((2*3))", []),
        ("LR=; swift sft --lr \"$LR\"", "", '"$LR"', "", [("variable", "LR")]),
        ("X=$(echo hi); swift sft --lr $X", "hi", "$X", "hi", [("command", "echo"), ("variable", "X")]),
        ("read -r A B <<< 'one two'; swift sft --lr $B", "two", "$B", "two", [("variable", "B")]),
    ],
)  # fmt: skip
def test_where_a_word_was_written(script: str, text: str, use: str, defined: str, chain: list[tuple[str, str]], tmp_path: Path) -> None:
    token = launches(read(script, tmp_path))[-1].words[-1]
    assert token.text == text
    assert script[token.span.start : token.span.end] == use
    assert definition(script, token) == defined
    assert [(origin.kind, origin.name) for origin in token.chain] == chain


def test_from_outside(tmp_path: Path) -> None:
    [command] = launches(read("swift sft --a $1 --b $B", tmp_path, "x", B="y"))
    assert [(w.text, w.chain[0].kind, w.chain[0].span) for w in command.words if w.chain] == [("x", "argument", None), ("y", "environment", None)]


def test_bytes_not_characters(tmp_path: Path) -> None:
    script = "# é 中\nLR='1é'; swift sft --lr $LR\n"
    token = launches(read(script, tmp_path))[-1].words[-1]
    assert token.text == "1é"
    assert script.encode()[token.definition.start : token.definition.end].decode() == "1é"


def test_split_says_how_many_words_came_of_one(tmp_path: Path) -> None:
    [command] = launches(read('A="--x 1"; swift sft $A "$A" --y', tmp_path))
    assert [w.split for w in command.words] == [1, 1, 2, 2, 1, 1]


def test_a_sourced_file_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "common.sh").write_text("LR=1e-5\n")
    result = read("source ./common.sh\nswift sft --lr $LR", tmp_path)
    token = word(result, "1e-5")
    assert token.definition.file == str(tmp_path / "common.sh")
    assert result.sources[token.definition.file].text(token.definition) == "1e-5"


# --- environment ---


def test_environment(tmp_path: Path) -> None:
    script = "export A=1; B=2; export B; C=3; D=4 swift sft; unset A; E=5; export E; E=6; swift rlhf"
    first, second = launches(read(script, tmp_path, NPROC_PER_NODE="8", OTHER="x"))
    assert {n: (e.token.text, e.how) for n, e in first.env.items()} == {
        "A": ("1", "export"), "B": ("2", "export"), "D": ("4", "prefix"), "NPROC_PER_NODE": ("8", "inherited"),
    }  # fmt: skip
    assert {n: t.text for n, t in first.shell_variables.items()} == {"C": "3"}
    assert {n: e.token.text for n, e in second.env.items()} == {"B": "2", "E": "6", "NPROC_PER_NODE": "8"}
    assert script[first.env["A"].token.span.start : first.env["A"].token.span.end] == "1"


def test_an_inherited_variable_stays_exported(tmp_path: Path) -> None:
    [command] = launches(read("NPROC_PER_NODE=2; swift sft", tmp_path, NPROC_PER_NODE="8"))
    assert (command.env["NPROC_PER_NODE"].token.text, command.env["NPROC_PER_NODE"].how) == ("2", "export")


# --- conditions ---


def test_what_is_certain_is_not_maybe(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    script = 'if [ -f f ]; then swift sft --a; else swift rlhf --b; fi; [ "x" = y ] && swift pt; X=1; ((X > 0)) && swift infer'
    assert [(texts(c), c.maybe) for c in launches(read(script, tmp_path))] == [("swift sft --a", False), ("swift infer", False)]


def test_an_absent_file_leaves_both_sides_open(tmp_path: Path) -> None:
    script = "if [ -f ckpt ]; then swift infer --a; else swift sft --b; fi"
    assert {(texts(c), c.maybe) for c in launches(read(script, tmp_path))} == {("swift sft --b", False), ("swift infer --a", True)}


def test_a_check_by_a_function_is_as_open_as_what_it_checks(tmp_path: Path) -> None:
    script = "has() { [ -f ckpt ] && return 0; return 1; }; if has; then swift infer; else swift sft; fi"
    assert {(texts(c), c.maybe) for c in launches(read(script, tmp_path))} == {("swift sft", False), ("swift infer", True)}


def test_a_branch_that_only_gives_up_is_passed_over(tmp_path: Path) -> None:
    for guard in (
        "if [ ! -f data ]; then echo no; exit 1; fi", "[ -f data ] || exit 1", "[[ -d data ]] || { echo no >&2; exit 2; }",
        "die() { echo $1; exit 1; }; [ -e data ] || die gone", "check() { [ -f data ] || return 1; }; check", "test -s data || exit", "cd data || exit 1",
        "command -v swift >/dev/null || { echo no; exit 1; }", "if ! command -v swift; then exit 1; fi", "python -c 'import swift' || exit 1",
    ):  # fmt: skip
        assert [(texts(c), c.maybe) for c in launches(read(f"{guard}\nswift sft --b", tmp_path))] == [("swift sft --b", False)], guard


def test_variables_that_differ_have_alternatives(tmp_path: Path) -> None:
    script = "if [ -d big ]; then BS=8; else BS=1; fi; swift sft --bs $BS --out o_$BS"
    [command] = launches(read(script, tmp_path))
    assert [(w.text, w.alternatives) for w in command.words if w.alternatives] == [("1", ("8",)), ("o_1", ("o_8",))]
    assert not command.words[3].known


def test_words_that_are_there_only_on_one_path(tmp_path: Path) -> None:
    for script in (
        'A=(--x 1); [ -d ckpt ] && A+=(--resume ckpt); swift sft "${A[@]}" --z', "A='--x 1'; [ -d ckpt ] && A=\"$A --resume ckpt\"; swift sft $A --z",
        "A='--x 1'; R=''; if [ -d ckpt ]; then R='--resume ckpt'; fi; swift sft $A $R --z", "C='swift sft --x 1'; [ -f ckpt ] && C+=' --resume ckpt'; eval \"$C --z\"",
    ):  # fmt: skip
        result = read(script, tmp_path)
        command = launches(result)[0]
        if script.startswith("C="):
            assert texts(command) == "swift sft --x 1 --z"
            continue
        assert [(w.text, w.maybe) for w in command.words[2:]] == [("--x", False), ("1", False), ("--resume", True), ("ckpt", True), ("--z", False)], script


def test_flags_are_matched_by_name_where_arrays_differ(tmp_path: Path) -> None:
    script = (
        "if curl -s http://x/health; then V=(--use_vllm true --vllm_mode server --host h); else V=(--use_vllm true --vllm_mode colocate --tp 1); fi; "
        'swift rlhf "${V[@]}"'
    )
    [command] = launches(read(script, tmp_path))
    assert [(w.text, w.alternatives, w.maybe) for w in command.words[2:]] == [
        ("--use_vllm", (), False), ("true", (), False), ("--vllm_mode", (), False), ("server", ("colocate",), False), ("--host", (), True), ("h", (), True),
        ("--tp", (), True), ("1", (), True),
    ]  # fmt: skip


def test_exported_on_one_path(tmp_path: Path) -> None:
    [command] = launches(read("[ -f net ] && export NCCL_IB_DISABLE=1; swift sft", tmp_path))
    token = command.env["NCCL_IB_DISABLE"].token
    assert (token.text, token.maybe) == ("1", True)


def test_exit_status_of_an_unknown_program_is_likely_success(tmp_path: Path) -> None:
    script = "swift sft --a; if [ $? -ne 0 ]; then swift sft --retry; exit 1; fi; swift infer --b"
    assert {(texts(c), c.maybe) for c in launches(read(script, tmp_path))} == {("swift sft --a", False), ("swift sft --retry", True), ("swift infer --b", False)}


# --- loops ---


def test_loops(tmp_path: Path) -> None:
    script = "for s in 1 2; do swift sft --s $s; done; while true; do swift rollout; sleep 1; done; swift never"
    result = launches(read(script, tmp_path))
    assert [(texts(c), c.loop) for c in result] == [("swift sft --s 1", True), ("swift sft --s 2", True), ("swift rollout", True), ("swift never", False)]


@pytest.mark.parametrize(
    "loop",
    [
        "until curl -s http://h/health; do sleep 5; done", "while ! nc -z h 1; do sleep 1; done", "while [ ! -f ready ]; do sleep 5; done",
        "for i in $(seq 1 90); do if curl -s u; then break; fi; [ $i -eq 90 ] && exit 1; sleep 2; done",
        "while true; do if curl -s u; then break; fi; sleep 1; done", "n=0; until curl u; do n=$((n+1)); [ $n -lt 60 ] || exit 1; done",
        "wait_for() { for i in {1..60}; do if curl -s u; then return 0; fi; sleep 1; done; echo no; exit 1; }; wait_for",
        "wait_for() { while :; do curl -s u && return 0; sleep 1; done; }; wait_for || exit 1",
        "while true; do [ -f ready ] && break; sleep 1; done",
        'for i in $(seq 60); do S=$(curl -s -w "%{http_code}" u); if [ "$S" = 200 ]; then OK=1; break; fi; sleep 1; done; [ "$OK" = 1 ] || exit 1',
        'for i in $(seq 60); do [ "$(curl u)" = ok ] && break; [ $i -eq 60 ] && { echo no; exit 1; }; sleep 1; done',
        'w() { for i in {1..60}; do C=$(curl u); if [ "$C" = 200 ]; then return 0; fi; sleep 1; done; return 1; }; w || exit 1',
        'w() { n=0; while [ $n -lt 60 ]; do [ "$(curl u)" = ok ] && return; n=$((n+1)); sleep 5; done; echo no; exit 1; }; w',
        'while [[ "$(curl -s -o /dev/null -w %{http_code} u)" != 200 ]]; do sleep 5; done', "while kill -0 $PID 2>/dev/null; do sleep 5; done",
        "while pgrep -f x >/dev/null; do sleep 5; done", 'n=0; while [ "$S" != ok ]; do S=$(curl u); n=$((n+1)); [ $n -gt 99 ] && exit 1; sleep 1; done',
    ],
)  # fmt: skip
def test_a_loop_that_waits_ends(loop: str, tmp_path: Path) -> None:
    assert [(texts(c), c.maybe) for c in launches(read(f"{loop}\nswift sft", tmp_path))] == [("swift sft", False)]


def test_background(tmp_path: Path) -> None:
    script = "swift rollout & swift rlhf; { swift deploy; } & (swift eval) & nohup swift infer > log 2>&1 &"
    assert [(texts(c), c.background) for c in launches(read(script, tmp_path))] == [
        ("swift rollout", True), ("swift rlhf", False), ("swift deploy", True), ("swift eval", True), ("swift infer", True),
    ]  # fmt: skip


# --- a script that needs arguments ---


def test_every_branch_is_looked_at_when_nothing_starts_by_itself(tmp_path: Path) -> None:
    script = 'case "$1" in train) swift sft --a ;; eval) swift eval --b ;; *) echo usage; exit 1 ;; esac'
    assert [(texts(c), c.maybe) for c in launches(read(script, tmp_path))] == [("swift sft --a", True), ("swift eval --b", True)]
    assert [(texts(c), c.maybe) for c in launches(read(script, tmp_path, "eval"))] == [("swift eval --b", False)]


@pytest.mark.parametrize(
    "script",
    [
        'if [ $# -lt 1 ]; then echo usage; exit 1; fi; if [ "$1" = a ]; then swift sft; fi', 'if [ "$MODE" = train ]; then swift sft; else exit 0; fi',
        '[ -z "$1" ] && exit 1; [ "$1" == x ] && swift sft', 'while [ $# -gt 0 ]; do case $1 in --go) swift sft;; esac; shift; done',
        "MODE=${MODE:-help}; case $MODE in help) exit 0;; train) swift sft;; esac", '[[ -n "$RUN" ]] || exit 1; swift sft', 'for m in "$@"; do swift sft --m $m; done',
        "main() { case $1 in a) swift sft;; esac; }; main \"$@\"", 'while getopts "m:" o; do case $o in m) M=$OPTARG; swift sft;; esac; done',
    ],
)  # fmt: skip
def test_exploring(script: str, tmp_path: Path) -> None:
    found = launches(read(script, tmp_path))
    assert found, script
    assert all(c.maybe for c in found)


# --- files ---


def test_files_that_the_script_writes(tmp_path: Path) -> None:
    script = "M=qwen\ncat > conf/a.yaml <<EOF\nmodel: x\nlr: 1\nEOF\ncat > b.yaml << EOF\nmodel: $M\nEOF\necho 'k: v' > c.yaml\nprintf 'a: %s\\n' 1 >> c.yaml\nswift sft conf/a.yaml"
    result = read(script, tmp_path)
    assert {name: token.text for name, token in result.files.items() if not name.startswith("/")} == {
        "conf/a.yaml": "model: x\nlr: 1\n", "b.yaml": "model: qwen\n", "c.yaml": "k: v\na: 1\n",
    }  # fmt: skip
    token = result.files["conf/a.yaml"]
    assert script[token.span.start : token.span.end] == token.text
    assert str(tmp_path / "conf" / "a.yaml") in result.files


def test_the_pieces_of_a_file(tmp_path: Path) -> None:
    script = 'M=qwen\ncat > a.yaml <<EOF\nmodel: $M\nlr: 1\nEOF\nswift sft a.yaml'
    pieces = read(script, tmp_path).pieces["a.yaml"]
    assert [(p.text, script[p.definition.start : p.definition.end]) for p in pieces] == [("model: ", "model: "), ("qwen", "qwen"), ("\nlr: 1\n", "\nlr: 1\n")]


def test_nothing_is_written_or_run(tmp_path: Path) -> None:
    read("echo x > made; touch t; mkdir d; rm -rf /; $(touch u); bash -c 'touch v'; cp made w; swift sft", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_script_that_starts_a_script(tmp_path: Path) -> None:
    (tmp_path / "inner.sh").write_text('swift sft --m "$1" --e $E\n')
    script = "export E=1\ncat > made.sh <<'EOF'\nswift pt --m $1\nEOF\nbash inner.sh a; ./inner.sh b; chmod +x made.sh; ./made.sh c; sbatch inner.sh d"
    assert [texts(c) for c in launches(read(script, tmp_path))] == ["swift sft --m a --e 1", "swift sft --m b --e 1", "swift pt --m c", "swift sft --m d --e 1"]


def test_templates(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("model: MODEL\nport: ${PORT}\n")
    script = "cp t.yaml c.yaml; sed -i 's/MODEL/qwen/' c.yaml; export PORT=8; envsubst < c.yaml > d.yaml; swift sft d.yaml"
    assert read(script, tmp_path).files["d.yaml"].text == "model: qwen\nport: 8\n"


# --- commented companions ---


def companions(script: str, tmp: Path) -> list[Command]:
    return [command for command in read(script, tmp).commands if command.commented]


def test_a_companion_that_stands_commented_out(tmp_path: Path) -> None:
    script = "# start the server first:\n# CUDA_VISIBLE_DEVICES=7 \\\n# swift rollout \\\n#     --model m \\\n#     --port 8000\n\nNPROC_PER_NODE=4 \\\nswift rlhf --vllm_mode server\n"
    result = read(script, tmp_path)
    server, trainer = result.commands
    assert (texts(server), server.commented, trainer.commented) == ("swift rollout --model m --port 8000", True, False)
    assert {n: e.token.text for n, e in server.env.items()} == {"CUDA_VISIBLE_DEVICES": "7"}
    port = server.words[-1]
    assert script[port.span.start : port.span.end] == "8000"
    assert script[server.span.start : server.span.end].startswith("CUDA_VISIBLE_DEVICES=7")


@pytest.mark.parametrize(
    "comment",
    [
        "# then run swift rollout on the other node", "# swift rlhf is the command that trains", "# swift rollout --help", "# see swift rollout --model x",
        "# swift sft", "#     --use_vllm true \\", "# use `swift rollout --model x` first", "# swift export with --merge_lora true",
    ],
)  # fmt: skip
def test_prose_is_no_command(comment: str, tmp_path: Path) -> None:
    assert companions(f"{comment}\nswift rlhf --a 1\n", tmp_path) == []


def test_companion_with_the_scripts_variables(tmp_path: Path) -> None:
    [command] = companions("export MODEL=m\n# swift deploy --model $MODEL --port 8000\nswift rlhf --model $MODEL\n", tmp_path)
    assert texts(command) == "swift deploy --model m --port 8000"
    assert dict(command.env) == {}
