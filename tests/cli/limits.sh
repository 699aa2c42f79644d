. "$ROOT/tests/cli/lib.sh.inc"
# What is too large to simulate is said before memory for it is asked for.
"$M" search -m $tiny -p dgx1_v100 --batch 8 -e data-parallel --evals 2 -o p >/dev/null || echo "search fails"
sed 's/"micro_batches": *[0-9]*/"micro_batches": 268435456/; s/"devices": .*/"devices": [0]}/; s/"batch": 8/"batch": 1/' p/plan-1.json >big.json
ulimit -v 2000000
try 1 'refused: 536870912 tasks or more .*use fewer micro-batches' simulate -m $tiny -p dgx1_v100 --batch 268435456 -P big.json -o s
try 1 'no feasible plan' search -m $tiny -p dgx1_v100 --batch 1000000000 -e expert,data-parallel --fix mbs=1 --fix pp=1 --evals 20 -j 1 -o q
try 0 '' search -m gpt:layers=4000,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 64 -e expert --evals 2 -j 1 -o deep
finish
