. "$ROOT/tests/cli/lib.sh.inc"
# What is too large to simulate is said before memory for it is asked for.
"$M" search -m $tiny -p dgx1_v100 --batch 8 -e data-parallel --evals 2 -o p >/dev/null || echo "search fails"
sed 's/"micro_batches": *[0-9]*/"micro_batches": 268435456/; s/"devices": .*/"devices": [0]}/; s/"batch": 8/"batch": 1/' p/plan-1.json >big.json
ulimit -v 2000000 # of all that follows
try 1 'refused: 536870912 tasks or more .*use fewer micro-batches' simulate -m $tiny -p dgx1_v100 --batch 268435456 -P big.json -o s
try 1 'no feasible plan' search -m $tiny -p dgx1_v100 --batch 1000000000 -e expert,data-parallel --fix mbs=1 --fix pp=1 --evals 20 -j 1 -o q
try 0 '' search -m gpt:layers=4000,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 64 -e expert --evals 2 -j 1 -o deep

# What the shell limits: one line and a code of ours; never a library that asks for memory for ever.
small() { (ulimit $1 "$2"; unset OPENBLAS_NUM_THREADS; bad=0; try "${@:3}"; exit $bad) || bad=1; }
few=(search -m $tiny --batch 8 -p dgx1_v100 -e random --evals 8 -j 4)
small -v 200000 3 'memory is limited to 205 MB .*at least 400 MB' "${few[@]}" -o v1
small -v 500000 0 '' "${few[@]}" -e automap --evals 4 -o v2
small -d 300000 3 'memory is limited to 307 MB' list engines
small -f 1 2 'File too large' "${few[@]}" -o f1
small -n 6 4 'Too many open files' "${few[@]}" -o n1
small -n 9 3 'raise the limit on open files' "${few[@]}" -o n2
finish
