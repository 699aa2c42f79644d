. "$ROOT/tests/golden/machine.sh.inc"
# 1F1B over four stages: the first and the last device of the timeline, where the time went, the links.
"$M" search "${question[@]}" -e expert --evals 1 --fix pp=4 --fix dp=1 --fix mbs=2 --fix schedule=1f1b --fix recompute=none -o s >/dev/null || exit 1
"$M" simulate "${question[@]}" -P s/plan-1.json -o out
cat out/summary.csv out/memory.csv
grep -E '^task|,d0,|,d3,' out/timeline.csv
cat out/links.csv
