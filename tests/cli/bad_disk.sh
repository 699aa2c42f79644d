. "$ROOT/tests/cli/lib.sh.inc"
# A full disk: exit 2 with the file's name, and what was judged is kept.
run() { "$M" search -m $tiny --batch 8 -p dgx1_v100 -e data-parallel,random --evals 12 --seed 3 -j 2 -o "$1"; }
run whole >/dev/null 2>&1
for f in candidates.csv evaluations.csv run.ini plan-1.json; do
	mkdir "d_$f"; ln -s /dev/full "d_$f/$f"
	try 2 "d_$f/$f: .*No space left" search -m $tiny --batch 8 -p dgx1_v100 -e data-parallel,random --evals 12 --seed 3 -o "d_$f"
done
# The same command, once there is room, ends as if nothing had happened.
rm d_candidates.csv/candidates.csv
run d_candidates.csv >/dev/null 2>&1 || echo "does not resume"
cmp whole/candidates.csv d_candidates.csv/candidates.csv || bad=1
for f in summary.csv timeline.csv memory.csv links.csv; do
	mkdir "s_$f"; ln -s /dev/full "s_$f/$f"
	try 2 'No space left' simulate -m $tiny --batch 8 -p dgx1_v100 -P whole/plan-1.json -o "s_$f"
done
"$M" list engines >/dev/full 2>err; [ $? -eq 2 ] || { echo "list to a full disk: $?"; bad=1; }
grep -q 'standard output' err || { cat err; bad=1; }
finish
