# A node's health: the same probes measured again pass, those of a node whose copies are slower fail by name and device.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
measure() { # SEED OUT OPTIONS...
	MOCK_NOISE=0.005 MOCK_SEED=$1 LD_PRELOAD=$MAQUETTE_CUDART "$M" calibrate --executor cuda --devices 2 --reps 5 --launches 1 --draws 2 -o "$2" "${@:3}" >log 2>&1
}
measure 1 base.json || cat log
measure 2 again.json --against base.json || { echo "exit code $?"; tail -n 20 log; }
sed -n '/slower %/,$p' log >table
grep -c ' pass$' table; grep -v ' pass$' table | sed 's/  */ /g'
MOCK_COPY_BPS=20e9 measure 3 slow.json --against base.json; echo "exit code $?"
awk '/slower %/ { on = 1 } on && $NF == "fail" { print $1, $2, $3, ($5 > 15 && $5 < 30 ? "slower" : "by " $5) }' log
tail -n 1 log
try 2 'no folder none.samples beside it' calibrate --executor cuda -o x.json --against none.json
# Levels: which probes, how many launches, the time of each.
for level in quick medium long; do
	"$M" calibrate --executor cuda --devices 2 --type T --level $level --schedule-only -o $level.json >log 2>&1 || cat log
	awk -v level=$level '/maquette-replay/ { n++; for (i = 1; i < NF; i++) { if ($i == "--budget") s += $(i + 1); if ($i == "--reps") r = $(i + 1) }
		sub(/.* -o [^ ]* /, ""); gsub(/[^ ]*\//, ""); p = $0 }
		END { print level ": " n " launches of " r " repetitions, " s " s: " p }' log
done
# A level of another is compared in what both have measured; samples that another level left behind are none.
measure 2 again.json --level quick --against base.json || tail -n 3 log
grep -c ' pass$' log; grep 'not compared' log; ls again.samples
# Launches of an earlier run are neither counted nor used; samples go when others are measured, not when that is asked for.
measure 1 more.json --level quick --launches 2; measure 2 more.json --level quick; grep 'no time' log
"$M" calibrate --executor cuda --devices 2 --type T --schedule-only -o more.json >log || bad=1
find more.samples -name '*.csv' -o -name launch-2 | sort
try 2 'samples in ./base.samples would overwrite base.samples' calibrate --executor cuda --devices 2 -o ./base.json --against base.json
# No more runs begin than the time has room for: 24 s for steps of 1.9 s, of which two repetitions warm up.
steps() { # STEP_S WARM-UPS: what was run within the level's time
	MOCK_STEP_S=$1 measure 3 short.json --level quick --against base.json; echo "exit code $?"
	cat short.samples/launch-1/*.csv | awk -F, -v s=$1 -v warm=$2 '$1 == 0 { n++ } END { print n + 0, "samples,", ((n + warm) * s <= 24 && (n + warm + 1) * s > 24) ? "as many as fit" : "not what fits" }'
}
steps 1.9 6; grep 'no time' log
steps 4.5 0; grep 'no time' log # too slow to warm up
steps 11 0; grep 'no time' log
cp -r base.samples other.samples; sed -i 's/"bytes": *[0-9]*/"bytes":4/' other.samples/memory.jsonl
"$M" calibrate --executor cuda --from again.samples -o y.json --draws 2 --against other.json >log 2>&1; echo "exit code $?"; tail -n 1 log
rm other.samples/{gemm,memory,comm}.jsonl
"$M" calibrate --executor cuda --from again.samples -o y.json --draws 2 --against other.json >log 2>&1; echo "exit code $?"; tail -n 1 log
exit $bad
