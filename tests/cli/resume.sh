. "$ROOT/tests/cli/lib.sh.inc"
# Killed at any moment, the same command continues; -j changes nothing; run.ini reproduces the run.
args=(-m $tiny --batch 16 -p cloud_v100_t4 -e data-parallel,expert,random --evals 40 --seed 7)
"$M" search "${args[@]}" -j 2 -o whole >/dev/null || echo "search fails"
for delay in 0.05 0.2 0.35; do
	rm -rf part
	setsid "$M" search "${args[@]}" -j 2 -o part >/dev/null 2>&1 & pid=$!
	sleep $delay; kill -9 -- -$pid 2>/dev/null; wait $pid 2>/dev/null
	"$M" search "${args[@]}" -j 1 -o part >/dev/null || echo "does not resume after $delay s"
	cmp whole/candidates.csv part/candidates.csv || bad=1
	cmp whole/plan-1.json part/plan-1.json || bad=1
done
"$M" run whole/run.ini -o again >/dev/null || echo "run fails"
cmp whole/candidates.csv again/candidates.csv || bad=1
try 2 'written by another command' search "${args[@]}" --seed 8 -o whole
finish
