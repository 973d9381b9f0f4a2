"""Emulated tools, arithmetic, patterns and expansions against the real ones: one bash run for each table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .bash import both, read

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")

SETUP = r"""
X='a/b/c.tar.gz'; W='one two  three'; N=7; E=; A=(alpha beta gamma 'delta one'); declare -A M=([k]=v [l]='w x'); U='ünï'; Q='it'"'"'s "q"'
printf 'b 2 x\na 10 y\nc 1 z\na 10 y\n' > data.txt; printf 'k1=v1\nk2=v2\n# note\n\nk3 = v3\n' > conf.ini; mkdir -p tree/sub; : > tree/f1.txt; : > tree/f2.log; : > tree/sub/f3.txt
printf '{"a": {"b": [1, 2, {"c": "d"}]}, "t": true, "n": null, "s": "x y"}' > j.json
"""

TOOLS = r"""
echo one two
echo -n x
echo -e 'a\tb\nc'
echo -e 'x\x41\101\cgone'
printf '%s\n' a b c
printf '%s=%s;' k v k2 v2
printf '%d %5d|%-5d|%05d|%x|%X|%o|%c' 7 7 7 7 255 255 8 word
printf '%.2f %e %g' 3.14159 1000 0.5
printf '%5s|%-5s|%.2s|%%|%b' ab ab abcdef 'x\ty'
printf '%q ' plain 'two words' '' 'a$b'
printf '%*d' 5 42
printf 'no newline'
printf '%s' "${A[@]}"
cat data.txt
cat < data.txt
cat data.txt - <<< extra
cat <<< "$W"
head -2 data.txt
head -n 1 data.txt
head -c 3 data.txt
tail -1 data.txt
tail -n 2 data.txt
tail -n +3 data.txt
tail -c 4 data.txt
wc -l < data.txt
wc -w < data.txt
wc -c < data.txt
echo -n héé | wc -m
sort data.txt
sort -r data.txt
sort -u data.txt
sort -k2,2n data.txt
sort -t' ' -k2 -n -r data.txt
printf '10\n9\n100\n' | sort -n
printf 'v1.10\nv1.9\nv1.2\n' | sort -V
printf 'B\na\nC\n' | sort -f
sort data.txt | uniq
sort data.txt | uniq -c
sort data.txt | uniq -d
sort data.txt | uniq -u
tac data.txt
echo abc | rev
echo '  trim  me ' | xargs
printf 'a\nb\nc\n' | paste -sd,
printf 'a\nb\nc\n' | paste -s -d ' ' -
echo a,b,c | tr ',' '\n'
echo hello | tr a-y b-z
echo Hello | tr '[:upper:]' '[:lower:]'
echo 'a  b   c' | tr -s ' '
echo a1b2 | tr -d '0-9'
echo a1b2 | tr -cd '0-9'
echo a:b:c | cut -d: -f1,3
echo a:b:c | cut -d: -f2-
echo a:b:c | cut -d: -f-2
echo abcdef | cut -c2-4
echo abcdef | cut -c1,3
printf 'x\ty\n' | cut -f2
echo nodelim | cut -d: -f1
echo nodelim | cut -s -d: -f1
grep a data.txt
grep -v a data.txt
grep -c a data.txt
grep -o '[0-9]*' data.txt
grep -i A data.txt
grep -E '^(a|b)' data.txt
grep -oE '[0-9]+' data.txt
grep -F '10 y' data.txt
grep -w b data.txt
grep -x 'c 1 z' data.txt
grep -m1 a data.txt
grep '^k[0-9]' conf.ini
grep -E 'k2' conf.ini | cut -d= -f2
grep -q a data.txt && echo found
grep -q zzz data.txt || echo none
sed 's/a/A/' data.txt
sed 's/o/0/g' <<< "$W"
sed 's#/#_#g' <<< "$X"
sed -n '2p' data.txt
sed -n '$p' data.txt
sed '1d' data.txt
sed '/^a/d' data.txt
sed -n '/^b/,/^c/p' data.txt
sed -E 's/([a-z]) ([0-9]+)/\2-\1/' data.txt
sed 's/\([a-z]\) \([0-9]*\)/\2\1/' data.txt
sed -e 's/a/1/' -e 's/b/2/' data.txt
sed 's/a/1/;s/b/2/' data.txt
sed 's/[0-9]\+/N/' data.txt
sed 's/o/[&]/2' <<< "one two oo"
sed '/^$/d;/^#/d' conf.ini
sed 's/ *= */=/' conf.ini
sed 's/A/x/I' data.txt
sed '2q' data.txt
sed -n 's/^k1=//p' conf.ini
sed '$!d' data.txt
sed '=' <<< a
awk '{print $1}' data.txt
awk '{print $NF}' data.txt
awk '{print NF}' <<< "$W"
awk -F: '{print $2}' <<< a:b:c
awk -F',' '{print NF}' <<< 0,1,2,3
awk '{print $2, $1}' data.txt
awk '{print $1 "-" $2}' data.txt
awk 'NR==2 {print $2}' data.txt
awk '/^a/ {print NR}' data.txt
awk '$2 > 5 {print $1}' data.txt
awk '$1 == "b" {print}' data.txt
awk -F= '/^k2/ {print $2}' conf.ini
awk 'END {print NR}' data.txt
awk -v p=pre '{print p $1}' data.txt
awk 'NR==1{print; exit}' data.txt
awk '{printf "x"}' data.txt
awk '/b/' data.txt
awk '{print $(NF-1)}' data.txt
basename /a/b.txt
basename /a/b.txt .txt
basename "$X" .gz
basename a/
basename -s .txt /x/y.txt
dirname /a/b/c
dirname a
dirname /a
dirname a/b/
realpath tree/../tree
readlink -f tree
seq 3
seq 2 4
seq 1 2 7
seq 3 -1 1
seq -s, 0 3
seq -w 8 10
expr 3 + 4
expr 16 / 4
expr 2 \* 3
expr 7 % 4
expr length hello
expr a = a
expr abc : 'a\(.\)c'
expr abc : 'a.'
expr 3 '>' 2
expr \( 1 + 2 \) \* 3
expr 10 - 3 - 2
echo '3 * (2+1)' | bc
echo '7 / 2' | bc
seq -s : 3
seq --separator=, 2
seq 5 3
getopt --options=ab: --long=lo:,go --name=x -- -a -b1 --lo=2 --go -- z
getopt -n prog -o v -l verbose -- --verb a b
ls -d tree
ls tree
ls -1 tree
ls -r tree
ls -d tree/*.txt
find tree -name '*.txt' | sort
find tree -maxdepth 1 -type f | sort
find tree -type d | sort
find tree -name 'f3.txt' -printf '%h\n'
cp data.txt d2.txt; wc -l < d2.txt
cp data.txt d3.txt; sed -i 's/a/Z/' d3.txt; head -1 d3.txt; sed -n 2p d3.txt
printf 'x' > w1; printf 'y' >> w1; cat w1
{ echo a; echo b; } > w2; cat w2
echo gone > w3; : > w3; cat w3
echo a | tee w4 | cat; cat w4
cat <<EOF > w5
$X \$X $(echo sub)
EOF
cat w5
pwd | xargs basename
printf 'a b\nc\n' | xargs echo -n pre
echo "$(< data.txt)"
getopt -o ab: --long foo,bar: -- -a -b 1 --foo --bar=2 rest
getopt -o a: -l long: -- --lo x -ay
cat data.txt | while read -r a b c; do echo "$c$b$a"; done
while IFS= read -r line; do echo "[$line]"; done < conf.ini
while IFS='=' read -r k v; do echo "$k->$v"; done < conf.ini
mapfile -t L < data.txt; echo "${#L[@]} ${L[2]}"
mapfile L < data.txt; echo "${L[0]}."
readarray -t -s 1 -n 9 L < data.txt; echo "${L[0]}"
read -r -d '' V < conf.ini; echo "$V"
read -ra P <<< "$W"; echo "${#P[@]} ${P[2]}"
IFS=/ read -r p q <<< "$X"; echo "$p $q"
read -n 3 V <<< abcdef; echo "${V:-x}" | cut -c1
echo "x y" | { read -r a b; echo "$b$a"; }
command -v echo >/dev/null && echo yes
type cd >/dev/null 2>&1 && echo builtin
test -f data.txt && echo file
[ -d tree -a -f data.txt ] && echo both
env printf '%s' x
""".strip("\n")

EXPANSIONS = r"""
${X#*/}
${X##*/}
${X%.*}
${X%%.*}
${X/b/B}
${X//[abc]/_}
${X/#a/Z}
${X/%gz/Z}
${X//\//-}
${W// /}
${W/ */}
${W^}
${W^^}
${W^^[aeiou]}
${W,}
${U^^}
${#U}
${U:1:1}
${#X}
${X:2}
${X:2:3}
${X: -3}
${X: -6:3}
${X:0:-3}
${X:(-3):2}
${E:-default}
${E-default}
${NOPE:-default}
${NOPE-default}
${E:+set}
${E+set}
${X:+set}
${NOPE:=assigned}$NOPE
${NOPE2:-${X:-z}}
${NOPE2:-$(echo sub)}
${NOPE2:-"quoted  word"}
"${NOPE2:-'single'}"
"${NOPE2:-"double"}"
"${NOPE2:-a\}b}"
${A}
${A[1]}
${A[-1]}
${A[@]}
"${A[@]}"
"${A[*]}"
${#A[@]}
${#A[1]}
"${A[@]:1}"
"${A[@]:1:2}"
"${A[@]: -1}"
"${A[@]/a/A}"
"${A[@]%a}"
"${A[@]#?}"
"${A[@]^}"
"${!A[@]}"
${X@Q} ${Q@Q} ${E@Q}
${X@U} ${X@u} ${W@L} ${U@U}
${!NOP*} "${!NOP@}"
${W:1:-2} "${X:10:50}" ${X: -50} ${E:0:1} ${X:N-5:2}
${X//[![:alpha:]]/} ${X//./} ${W//o/0}
${A[N-6]} ${A[$((N-5))]} ${A[@]:N-6:1}
"${A[@]/#/--}"
"${A[*]/%/;}"
${M[k]}
"${M[l]}"
${#M[@]}
"${M[nope]:-none}"
"x${A[@]}y"
$((N+1))
$((N*2-3))
$((N/2)) $((N%2)) $((-N/2)) $((-N%3))
$((N**2)) $((2**10))
$((N>5)) $((N<5)) $((N==7)) $((N!=7)) $((N>=7&&N<=7)) $((0||N))
$((N?1:2)) $((0?1:2))
$((N<<2)) $((N>>1)) $((N&3)) $((N|8)) $((N^1)) $((~N)) $((!N))
$((0x1f)) $((010)) $((2#101)) $((16#ff)) $((36#z))
$(((N+1)*(N-1)))
$((N++)) $((N))
$((++N)) $((N--)) $((--N))
$((N+=3)) $((N-=3)) $((N*=2)) $((N/=2)) $((N%=5)) $((N=7))
$((A1=3,A1+1))
$(( ${#A[@]} * 2 )) $((${#X}+1))
$((A[0])) $((NOPE3+1))
$(( 1 + 2 * 3 - 4 / 2 ))
$((1<2&&2<3||0)) $((1,2,3))
$[N+1]
{a,b}{1,2}
x{1..3}y
{3..1}
{01..03}
{a..e..2}
{1..10..3}
pre{,-suf}
{a,{b,c}}
"{a,b}"
{a}
{}
a{b
{a,b}c{d
$'a\tb' $'\x41\u00e9' $'it\'s'
"a\"b" "a\$b" "a\\b" "a\nb"
'a"b' a\ b a\\b
$Q "$Q"
tree/*.txt
tree/*
tree/f?.txt
tree/f[12].*
tree/nothing*
tr*/s*
"tree/*"
[!a]ata.txt
~
~/x
a~b
"~"
$(echo a b)
"$(echo a  b)"
`echo back`
`echo \`echo nested\``
"`echo "quoted"`"
$(echo $(echo $(echo deep)))
$(printf 'a\n\n\n')x
$(cat <<H
here $N
H
)
a"b"'c'$N
--x="$W" --y=$N
$E"$E"''
$W$W
"$W"$W
$@
"$@"
"$*"
$#
${@:2}
"${@:1:1}"
"${*:2}"
${1} $2
"${@: -1}"
"${@/o/0}"
""".strip("\n")

PATTERNS = r"""
abc a*
abc *c
abc ?b?
abc [a-c]bc
abc [!x]bc
abc [[:alpha:]]*
a1 [[:alpha:]][[:digit:]]
abc abc
abc ABC
a*b a\*b
axb a\*b
"a b" a*b
"" ""
"" *
a/b a*b
.x *
abc @(abc|x)
foobar foo@(bar|baz)
aaa +(a)
aab !(aaa)
x.tar.gz *.tar.@(gz|bz2)
a-b [a-]-b
] []]
a^ a[^x]
""".strip("\n")


def cases(table: str) -> list[str]:
    """Lines; a here-document goes on to its end."""
    out: list[str] = []
    lines = table.split("\n")
    at = 0
    while at < len(lines):
        text = lines[at]
        for end in ("EOF", "H"):
            if f"<<{end}" in text:
                while lines[at] not in (end, f"{end}"):
                    at += 1
                    text += "\n" + lines[at]
                follow = {"EOF": 1, "H": 1}[end]
                for _ in range(follow):
                    at += 1
                    text += "\n" + lines[at]
        out.append(text)
        at += 1
    return out


def compare(script: str, tmp: Path) -> None:
    real, mine = both(SETUP + script, tmp, ("one", "two words", ""))
    left = {launch[0][1]: launch[0] for launch in real}
    right = {launch[0][1]: launch[0] for launch in mine}
    wrong = {key: (left[key], right.get(key)) for key in left if left[key] != right.get(key)}
    assert not wrong
    assert len(left) == len(right) > 10


def test_tools(tmp_path: Path) -> None:
    compare("\n".join(f"swift {n} \"$({case}\n)\"" for n, case in enumerate(cases(TOOLS))), tmp_path)


def test_expansions(tmp_path: Path) -> None:
    compare("\n".join(f"N=7; swift {n} {case}" for n, case in enumerate(cases(EXPANSIONS))), tmp_path)


def test_expansions_that_are_assigned(tmp_path: Path) -> None:
    single = [case for case in cases(EXPANSIONS) if " " not in case and "\n" not in case]
    compare("\n".join(f'N=7; V={case}; swift {n} "$V"' for n, case in enumerate(single)), tmp_path)


def test_expansions_in_double_quotes(tmp_path: Path) -> None:
    single = [case for case in cases(EXPANSIONS) if '"' not in case and "'" not in case and "`" not in case and "\n" not in case]
    compare("\n".join(f'N=7; swift {n} "<{case}>"' for n, case in enumerate(single)), tmp_path)


def test_expansions_in_a_here_document(tmp_path: Path) -> None:
    single = [case for case in cases(EXPANSIONS) if "'" not in case and "\n" not in case and "`" not in case]
    compare("\n".join(f"N=7; swift {n} \"$(cat <<EOF\n{case}\nEOF\n)\"" for n, case in enumerate(single)), tmp_path)


def test_patterns(tmp_path: Path) -> None:
    script = "shopt -s extglob\n"
    for n, case in enumerate(PATTERNS.split("\n")):
        text, pattern = case.rsplit(" ", 1)
        script += f"V={text}\nif [[ $V == {pattern} ]]; then swift t{n} yes; else swift t{n} no; fi\n"
        script += f"case $V in\n{pattern}) swift c{n} yes;;\n*) swift c{n} no;;\nesac\n"
        script += f'swift p{n} "${{V#{pattern}}}" "${{V%{pattern}}}"\n' if '"' not in pattern else ""
    compare(script, tmp_path)


TESTS = r"""
[ a = a ]
[ a != a ]
[ a == b ]
[ -z "" ]
[ -n "" ]
[ "" ]
[ x ]
[ ]
[ ! x ]
[ ! "" ]
[ 3 -eq 3 -a 4 -gt 5 ]
[ 3 -eq 3 -o 4 -gt 5 ]
[ ! 3 -eq 3 ]
[ \( a = a -o b = c \) -a x = x ]
[ 3 -lt 10 ]
[ 3 -le 3 ]
[ 3 -ge 4 ]
[ 3 -ne 4 ]
[ abc \< abd ]
[ x -eq 1 ] 2>/dev/null
[ -f data.txt ]
[ -d data.txt ]
[ -e tree ]
[ -s data.txt ]
[ -r data.txt ]
[ -x tree ]
[ -L data.txt ]
[ -v N ]
[ -v NOPE9 ]
[ = = = ]
[ -n = ]
test 1 -eq 1
test a
test
[[ a == a ]]
[[ a = b ]]
[[ abc == a* ]]
[[ abc == "a*" ]]
[[ abc != a* ]]
[[ -z $E ]]
[[ -n $W ]]
[[ $W == one* && -f data.txt ]]
[[ $W == two* || -d tree ]]
[[ ! -f data.txt ]]
[[ ( a == a || b == c ) && d == d ]]
[[ 10 -gt 9 ]]
[[ 10 > 9 ]]
[[ a < b ]]
[[ N -eq 7 ]]
[[ N+1 -eq 8 ]]
[[ abc =~ ^a.c$ ]]
[[ abc =~ b ]]
[[ abc =~ "b." ]]
[[ a.c =~ a\.c ]]
[[ v12 =~ ^v([0-9]+)$ ]]
[[ "a b" =~ ^[a-z]\ [a-z]$ ]]
[[ abc =~ ^(x|abc)$ ]]
[[ x12 =~ [[:digit:]]+ ]]
[[ -e tree/f1.txt ]]
[[ $NOPE9 ]]
[[ $W ]]
(( N > 5 ))
(( N > 50 ))
(( 0 ))
(( N == 7 && 1 ))
(( X1 = 0 ))
let 'N > 5'
let N-7
true
false
! true
! false
true && false
false || true
(exit 3)
{ true; false; }
if false; then :; fi
""".strip("\n")


def test_conditions(tmp_path: Path) -> None:
    script = "".join(f"N=7\n{case}\nswift {n} $?\nif {case}\nthen swift i{n} yes; else swift i{n} no; fi\n" for n, case in enumerate(TESTS.split("\n")))
    compare(script, tmp_path)


@pytest.mark.parametrize(
    ("program", "result"),
    [
        (".a.b[0]", "1"), (".a.b[2].c", "d"), (".a.b[-1].c", "d"), (".s", "x y"), (".t", "true"), (".n", "null"), (".nope", "null"), (".nope // \"dflt\"", "dflt"),
        (".a.b | length", "3"), ("keys | join(\",\")", "a,n,s,t"), (".a.b[] | .c?", None), ("to_entries[] | \"--\\(.key) \\(.value)\"", None),
        (".s, .t", "x y\ntrue"), (".a.b[0:1]", None), ("unknown_function", None), ("[.a", None), (".s | ascii_downcase", "x y"), ("\"p\\(.s)q\"", "px yq"),
        ("keys[]", "a\nn\ns\nt"), (".a[\"b\"][1]", "2"),
    ],
)  # fmt: skip
def test_jq(program: str, result: str | None, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "j.json").write_text('{"a": {"b": [1, 2, {"c": "d"}]}, "t": true, "n": null, "s": "x y"}')
    [command] = read(f"swift \"$(jq -r '{program}' j.json)\"".encode(), tmp_path)
    token = command.words[1]
    if result is None:
        assert token.unresolved or token.text
    else:
        assert (token.text, token.unresolved) == (result, ())
