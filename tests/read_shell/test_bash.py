"""The reader against real bash: every construct gives the words and the environment that bash gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .bash import both

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")

# one script each; blank lines separate them; \x20 is a blank at the end of a line
SCRIPTS = r"""
swift a "b c" 'd e' f\ g "" '' x"y"'z'

A=1; B="two words"; swift $A $B "$B" ${A}x "${B}y"

swift a \
  --b c \
  --d e

swift a \
  # a comment ends it \
  --lost x

swift a \x20
  --lost x

X=1 Y="a b" swift a; swift b

export X=1; Y=2; swift a; export Y; swift b; unset X; swift c

A=(1 "2 3" 4); swift "${A[@]}" ${A[@]} "${A[*]}" ${#A[@]} "${A[1]}" ${A[-1]}

A=(--x 1); A+=(--y "2 3"); A[7]=seven; swift "${A[@]}" "${!A[@]}"

declare -A M=([a]=1 [b]="2 3"); swift "${M[a]}" "${M[b]}" ${#M[@]}

A=(a b c d e); swift "${A[@]:1:2}" "${A[@]: -2}" "${A[@]:3}"

X=/a/b/c.tar.gz; swift ${X##*/} ${X%/*} ${X%%.*} ${X#*/} ${X%.gz} ${X/b/B} ${X//\//_} ${X/#\/a/Z} ${X/%gz/bz}

X=hello; swift ${X^} ${X^^} ${#X} ${X:1:3} ${X: -2} ${X:1} ${X/l} ${X//l}

swift ${U:-d} ${U-d} "${U:-a b}" ${U:-a b} ${U:+set} "${U:+set}" "${U:=new}" $U

E=""; swift ${E:-d} "${E-d}" ${E:+x} "${E}" $E end

R=X; X=val; swift ${!R} "${!R}"

N=3; swift $((N+1)) $((N*2)) $(( N > 2 ? 10 : 20 )) $((N%2)) $((2**N)) $(( (N+1)*2 )) $((0x10)) $((N<<2))

i=5; ((i++)); let i+=2; swift $i $((i--)) $i $((++i))

swift {1..3} a{b,c}d {x,y}{1,2} {a..c} {01..03} "{1..3}" {single} a{}b

swift $(echo one two) "$(echo one two)" `echo back` "$(echo "nested $(echo deep)")"

swift "$(printf '%s-%s' a b)" $(printf '%s\n' x y z) $(printf '%05.2f' 3.14159) $(printf '%03d' 7)

X=$(cat <<EOF
a b
c
EOF
); swift "$X" $X

IFS=','; X="a,b,,c"; swift $X; unset IFS; swift $X

IFS=',' read -ra P <<< "1,2,3"; swift "${P[@]}" ${#P[@]}

read -r A B <<< "one two three"; swift "$A" "$B"

for x in a "b c" d; do swift "$x"; done

for ((i=0;i<3;i++)); do swift $i; done

i=0; while [ $i -lt 3 ]; do swift $i; i=$((i+1)); done

i=3; until [ $i -le 0 ]; do swift $i; ((i--)); done

for x in 1 2 3 4; do [ $x = 2 ] && continue; [ $x = 4 ] && break; swift $x; done

for i in 1 2; do for j in a b; do [ $j = b ] && continue 2; swift $i$j; done; done

X=b; case $X in a) swift A;; b|c) swift BC;; *) swift D;; esac

X=foo.sh; case "$X" in *.py) swift py;; *.sh) swift sh;& zzz) swift fall;; esac

if [ -n "$U" ]; then swift set; elif [ "x" = "x" ]; then swift elif; else swift else; fi

if [[ "abc" == a* && ! "x" =~ ^[0-9]+$ ]]; then swift yes; fi

[[ "v1.2.3" =~ v([0-9]+)\.([0-9]+) ]] && swift "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"

[ 1 -eq 1 -a 2 -gt 1 ] && swift and; [ 1 -eq 2 -o 2 -gt 1 ] && swift or; [ ! 1 -eq 2 ] && swift not

f() { local x=$1; swift "$x" "$#" "$@"; x=changed; return 3; }; x=outer; f a "b c"; swift $? $x

f() { echo "out $1"; }; swift "$(f 1)" $(f 2)

f() { Y=from_f swift "$Y"; }; Y=env f; swift "$Y"

function g { swift g "$1"; }; g x; (X=sub; swift $X); swift "[$X]"

{ echo a; swift b; } > out.txt; { echo c; echo d; } > out.txt; swift $(cat out.txt)

echo "a b c" | while read -r x y; do swift "$x" "$y"; done; swift "$x"

set -- a "b c" d; swift $# "$2" "$@"; shift; swift "$1" $#

CMD="swift run --x 1 --y 'q r'"; $CMD; eval $CMD; eval "$CMD"

CMD="swift run \
  --x 1 \
  --y 2"; $CMD; eval $CMD

bash -c 'swift "$0" "$1"' zero one; bash -c "swift inner $HOME_X"

X=1 bash -c 'swift $X'; export Z=2; bash -c 'swift $Z $X'

env A=1 B="x y" swift e; env -u A swift f; nohup swift g; nice -n 5 swift h; timeout 5 swift i; time swift j

exec swift last; swift never

swift a & wait; swift b

(exit 3); swift $?; false || swift or; true && swift and; ! false && swift bang

cat > conf.yaml <<EOF
a: 1
EOF
swift $(cat conf.yaml) $(wc -l < conf.yaml)

cat <<-EOF > t.txt
	tabs
	EOF
swift "$(cat t.txt)"

X=5; cat <<'EOF' > t.txt
$X `date`
EOF
swift "$(cat t.txt)"

swift "$(echo a,b,c | tr ',' '\n' | wc -l)" "$(echo 0,1,2,3 | awk -F',' '{print NF}')" $(echo "a:b:c" | cut -d: -f2) $(seq 1 3) $(seq -s, 0 3)

swift $(basename /a/b.txt .txt) $(dirname /a/b/c) $(expr 16 / 4) $(echo hello | sed 's/l/L/g') $(echo "x=1" | sed -E 's/(.)=(.)/\2=\1/')

swift $(echo -e "b\na\nc" | sort | head -1) $(echo -e "1\n2\n3" | tail -n 1) $(printf 'a\nb\na\n' | sort -u | wc -l)

while getopts "a:b" o; do case $o in a) A=$OPTARG;; b) B=1;; esac; done; swift "$A" "$B"

mapfile -t L < <(printf '%s\n' "a b" c); swift "${L[@]}"

printf -v X '%s_%s' a b; swift $X

swift a 2>&1 | cat; swift b > /dev/null 2>&1; swift c >> log.txt

export A=1 B=2
C=3 \
D=4 \
swift x

A=1 \
B=2 \
C=3
swift "$A$B$C"

swift a; # comment; swift no
swift b#c "#d" \#e

swift $'tab\there' $'it\'s' "dollar \$X back\\slash \"q\""

swift a;swift b&&swift c||swift d

X="a  b"; Y=$X; swift "$Y" $Y

A=(a b); B=("${A[@]}" c); swift "${B[@]/#/--}" "${B[@]^^}"

OPTS=""; [ -n "$OPTS" ] && OPTS="--x"; swift $OPTS end

EXTRA=(); swift "${EXTRA[@]}" end "${EXTRA[@]:-none}"

f() { for a in "$@"; do swift "$a"; done; }; f x "y z"

local_test() { local A=1 B; B=2; swift $A $B; }; local_test; swift "$A$B"

N=0; add() { N=$((N+1)); }; add; add; swift $N

declare -i I=5; I+=3; swift $I; declare -x EXP=1; swift e; readonly RO=1; swift $RO

ARGS="--a 1"; ARGS="$ARGS --b 2"; ARGS+=" --c 3"; swift $ARGS

swift ~ ~/x "~" a~

X=~/data; swift $X

DIR="$(cd "$(dirname "$0")" && pwd)"; [ -d "$DIR" ] && swift in

touch m1.bin m2.bin; swift *.bin; swift "*.bin"; swift nothing*.zip

[ -f none ] || swift absent; mkdir -p d; [ -d d ] && swift dir

A="x"; A=${A:+$A,}y; swift $A; A=${A:+$A,}z; swift $A

v=1; while :; do v=$((v*2)); [ $v -gt 20 ] && break; done; swift $v

trap 'swift trapped' EXIT; swift body

if ! grep -q zzz run.sh.none 2>/dev/null; then swift notfound; fi

swift ${PATH_X:-/a:/b} "${A[@]-}" end

P=8; swift --port $((P+1)) --url "http://h:${P}/v1"

A='{"a": 1}'; swift --j "$A" --k '{"b": [1, 2]}'

swift --x={1,2} --y={"a":1}

source ./lib.sh 2>/dev/null; swift after

cat > lib.sh <<'EOF'
LIB=yes
libf() { swift lib "$1"; }
EOF
source ./lib.sh; libf $LIB; . ./lib.sh; swift $LIB

cat > child.sh <<'EOF'
swift child "$1" "$EXPORTED" "$NOT"
EOF
export EXPORTED=e; NOT=n; bash child.sh arg; sh child.sh

set -a; AUTO=1; set +a; MAN=2; swift x

A=1; unset A; swift "${A-unset}"; A=; swift "${A-unset}"

A[3]=x; swift ${#A[@]} "${A[3]}" "${A[0]}"

x=10; swift $((x > 5 && x < 20)) $((x == 10 || 0)) $((!x)) $((~x)) $((x,x+1))

a=1; b=$a$a; c="$a-$b"; swift "$c"

echo x > f; if [ -s f ]; then swift nonempty; fi; rm f

select_x() { :; }; select_x; swift done

coproc_x=1; swift "$coproc_x"

((0)) || swift zero; ((5)) && swift five

until true; do swift never; done; swift after

case abc in [a-c]bc) swift class;; esac; case "" in "") swift empty;; esac

case x in (x) swift paren;; esac

swift "${@:-no args}" "${1:-first}" "${*}"

A=("x y" z); for e in "${A[@]}"; do swift "$e"; done; for i in "${!A[@]}"; do swift $i; done

func_with-dash() { swift dash; }; func_with-dash

swift "a
b" 'c
d'

swift a\
b c

X="a" Y="$X" swift "$X"

X=1; X=2 swift "$X"; swift $X

tee_test() { swift "$1" 2>&1 | tee out.log; }; tee_test x

LIST="a b c"; set -- $LIST; swift $# $3

A=$(echo a; echo b); swift $A "$A"

[ "$(echo yes)" = yes ] && swift cmp; test 5 -gt 3 && swift gt

echo '{"a": {"b": [1, 2]}}' > j.json; swift x

swift a || swift b; swift c && swift d

{ X=group; }; swift $X; ( Y=sub ); swift "${Y:-none}"

export V="a b"; swift x; V="c" swift y; swift z

NPROC=4; if (( NPROC > 1 )); then swift multi; else swift single; fi

swift --flag="$X" --other=${Y:-z} --list=a,b

MODEL=org/name#1000; swift --dataset ${MODEL%#*} --n ${MODEL#*#}

NUM=$(( $(echo 3) * 2 )); swift $NUM; swift $[1+2]

while read -r line; do [ -z "$line" ] && continue; swift "$line"; done <<EOF
one
two words

three
EOF

f() { return 1; }; if f; then swift yes; else swift no; fi; f || swift or

A="1 2"; B=($A 3); swift "${#B[@]}"; IFS=- ; C="${B[*]}"; swift "$C"

swift "${A:-}" ${B:-} "${C:-$D}" "${D:-${E:-deep}}"

X='a*b'; swift "$X"; set -f; swift $X

bash <<'EOF'
swift heredoc
EOF

bash -s one <<'EOF'
swift "$1"
EOF

echo 'swift piped' | bash

X="--a 1 --b"; swift ${X} 2 ${X:+"q r"}

printf '%s ' "$(swift sub)" ; swift end

swift $(echo "a b" | xargs) end

A=$((1+1))B; swift $A; swift a=$A

ulimit -n 1000; set -euo pipefail; swift strict

cd /tmp && swift cd; cd - >/dev/null; swift "$(basename "$OLDPWD")"
""".strip("\n").split("\n\n")


def blocks(lines: list[str]) -> list[str]:
    """A script may hold blank lines itself, inside a here-document: glue what does not parse alone."""
    out: list[str] = []
    at = 0
    while at < len(lines):
        text = lines[at]
        while "<<EOF" in text and text.count("EOF") % 2:
            at += 1
            text += "\n\n" + lines[at]
        out.append(text)
        at += 1
    return out


@pytest.mark.parametrize("script", blocks(SCRIPTS))
def test_as_bash(script: str, tmp_path: Path) -> None:
    real, mine = both(script.replace("\\x20", "\\ ") + "\n", tmp_path, ("-a", "1", "-b"))
    assert sorted(mine) == sorted(real)


LONGER = (Path(__file__).parent / "longer.txt").read_text().split("===\n")


@pytest.mark.parametrize("script", LONGER)
def test_longer_scripts_as_bash(script: str, tmp_path: Path) -> None:
    real, mine = both(script, tmp_path, ("one", "two words"))
    assert sorted(mine) == sorted(real)
