. "$ROOT/tests/cli/lib.sh.inc"
# The example of a table of one's own: thousands of GPUs, the first and the last chunk without a layer. All
# rows are scored, none has too many tasks, and none is far off.
"$M" score "$ROOT/results/llama3-405b/runs.csv" --threshold 0.15 -j 1 -o out >said.txt || {
	cat said.txt; bad=1; }
awk -F, 'NR > 1 && !($5 > -0.3 && $5 < 0.3) { print "far off: " $0 } END { if (NR != 4) print NR - 1 " rows" }' \
	out/score.csv | grep . && bad=1
finish
