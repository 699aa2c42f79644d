. "$ROOT/tests/cli/lib.sh.inc"
# Engines in other languages: the examples of strategies/README.md.
gcc -o example "$ROOT/tests/engines/exec_example.c" || exit 1
"$M" search -m gpt:layers=2,hidden=64,heads=8 --batch 64 -p dgx1_v100 -e exec:./example --evals 10 -o c >/dev/null || bad=1
cut -d, -f1,2,4,11-14 c/candidates.csv
if command -v python3 >/dev/null; then
	"$M" search -m gpt:layers=2,hidden=64,heads=8 --batch 64 -p dgx1_v100 -e "exec:$ROOT/tests/engines/exec_example.py" --evals 10 -o p >/dev/null || bad=1
	grep -c ',ok,' p/candidates.csv | sed 's/^[1-9][0-9]*$/several feasible plans from Python/'
else echo "several feasible plans from Python"; echo "skip: no python3" >&2; fi
# What a shape does not have is no shape: a misspelt key was passed over.
for shape in '"dp": 8, "microbatches": 2' '"dp": 3, "tp": 3' '"dp": 8, "sync": "zero4"'; do
	printf '%s\n' 'while read -r line; do case $line in *start*) echo "{}";; *propose*) cat shape;; *stop*) exit;; esac; done' >mine.sh
	printf '{"shape": {%s}}\n' "$shape" >shape
	rm -rf m; "$M" search -m gpt:layers=2,hidden=64,heads=8 --batch 64 -p dgx1_v100 -e "exec:sh mine.sh" -o m 2>/dev/null | grep -oE 'answer 2: .*'
done
finish
