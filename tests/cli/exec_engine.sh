. "$ROOT/tests/cli/lib.sh.inc"
# Engines in other languages: the examples of strategies/README.md.
gcc -o example "$ROOT/tests/engines/exec_example.c" || exit 1
"$M" search -m gpt:layers=2,hidden=64,heads=8 --batch 64 -p dgx1_v100 -e exec:./example --evals 10 -o c >/dev/null || bad=1
cut -d, -f1,2,4,11-14 c/candidates.csv
if command -v python3 >/dev/null; then
	"$M" search -m gpt:layers=2,hidden=64,heads=8 --batch 64 -p dgx1_v100 -e "exec:$ROOT/tests/engines/exec_example.py" --evals 10 -o p >/dev/null || bad=1
	grep -c ',ok,' p/candidates.csv | sed 's/^[1-9][0-9]*$/several feasible plans from Python/'
else echo "several feasible plans from Python"; echo "skip: no python3" >&2; fi
finish
