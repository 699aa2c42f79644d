. "$ROOT/tests/golden/machine.sh.inc"
# The whole table of a small search.
"$M" search "${question[@]}" -e data-parallel,expert,random --evals 8 --seed 5 -j 2 -o s
cat s/candidates.csv
