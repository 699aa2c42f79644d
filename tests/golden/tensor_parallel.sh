. "$ROOT/tests/golden/machine.sh.inc"
# Two by two: tensor parallelism inside, data parallelism outside; and the analytic executor beside.
"$M" search "${question[@]}" -e expert --evals 1 --fix tp=2 --fix dp=2 --fix recompute=none --fix mbs=4 -o s >/dev/null || exit 1
"$M" simulate "${question[@]}" -P s/plan-1.json -o out
"$M" simulate "${question[@]}" -P s/plan-1.json --executor analytic -o analytic
cat out/summary.csv analytic/summary.csv
head -n 40 out/timeline.csv
