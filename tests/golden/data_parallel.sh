. "$ROOT/tests/golden/machine.sh.inc"
# Four replicas: gradients overlap with the last backward pass.
"$M" search "${question[@]}" -e data-parallel --evals 1 --fix sync=allreduce --fix recompute=none --fix mbs=2 -o s >/dev/null || exit 1
"$M" simulate "${question[@]}" -P s/plan-1.json -o out
cat out/summary.csv
grep -E '^task|,d0,' out/timeline.csv
