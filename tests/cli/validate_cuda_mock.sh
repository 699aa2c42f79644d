# validate on the mock libraries: from a bare node to measured plans, each way of doing it, and its ends.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
export LD_PRELOAD=$MAQUETTE_CUDART # the host's clock is the mocks' too
"$M" calibrate --executor cuda --devices 2 --reps 3 --launches 1 --draws 20 -o c.json >/dev/null || bad=1
# What the replay holds beside tensors is a software's: a context of 500 MB (planted), no framework.
look() { "$M" search --software generic,reserve_GB=0.5,comm_GB=0 -m gpt:layers=$2,hidden=${hidden:-512},heads=8,vocab=2048,seq=${seq:-128},fused_attention=false --batch 8 --dtype bf16 \
	-p c.xml --calib c.json -e exhaustive --evals 20 --top 3 "${@:3}" -o "$1" >/dev/null || bad=1; }
look one 4 --max devices=1; look two 6 --max devices=1
# What would run, without running it; then the same schedules as files and command lines.
"$M" validate one --top 1 --dry-run | sed 's/, [0-9.]* [MG]B on the fullest/, N on the fullest/'
[ -e one/validate ] && echo "--dry-run left something"
"$M" validate one two --top 2 --launches 1 --reps 3 --settle .01 --schedule-only -o out >lines || bad=1
ls out | sort | tr '\n' ' '; sed 's# .*maquette-replay# maquette-replay#; s#-[0-9]*\.jsonl#-N.jsonl#g' lines | tail -n 1 | cut -c1-40
# Here, and from what was brought back: the same tables.
"$M" validate one two --top 2 --launches 2 --reps 3 --settle .01 -o out >said || { cat said; bad=1; }
"$M" validate one two --top 2 --from out -o again >/dev/null || bad=1
cmp out/validate.csv again/validate.csv && cmp out/plans.csv again/plans.csv && echo "the same from the samples"
grep -oE '^step time: [0-9]+ plans, median error' said; grep -oE 'Kendall.s tau' said | head -n 1; grep -oE '[0-9]+ of [0-9]+ samples dropped' said
head -n 1 out/validate.csv
awk -F, 'NR > 1 && $2 == "step" { n++; if ($9 / $10 < .5 || $9 / $10 > 2) print "far off:", $0; if (!($11 <= $10 && $10 <= $12)) print "interval:", $0 } END { print n, "steps" }' out/validate.csv
# What runs as something else is named in the timelines; by cuDNN and NVRTC nothing of these plans does.
kinds() { cut -d, -f4 $1/launch-1/one-plan-*.timeline.csv | sort -u | tr '\n' ' '; echo; }
kinds out
MAQUETTE_NVRTC=off "$M" validate one --top 1 --launches 1 --reps 2 --settle 0 -o swept >/dev/null || bad=1; kinds swept
# The trace has both lanes.
for lane in predicted analytic measured; do grep -q "$lane" out/trace-one-plan-1.json && echo "lane $lane"; done
# Memory by purpose: the plan's own tensors, live as long as the schedule says, and the planted context of 500 MB.
awk -F, 'NR > 1 && $6 != "" { n[$3]++; if ($6 < .98 || $6 > 1.02) print "memory:", $0 }
	END { for (p in n) print n[p], p }' out/memory.csv | sort
head -n 1 out/memory.csv; grep -o 'tensors on its fullest device: [0-9]* plans' said
MOCK_MEMORY_B=1.7e9 "$M" validate one --top 1 --launches 1 --reps 2 --settle 0 -o tight | grep -o 'memory: on . devices.*'
# Plans on two devices, which the fit did not see, are predicted too, and lie in their intervals.
hidden=1024; seq=512; look pair 8 --fix dp=2; look pipe 8 --fix pp=2
"$M" validate pair pipe --top 3 --launches 1 --reps 3 --settle 0 -o both >said || { cat said; bad=1; }
grep -o 'activations and buffers [0-9.]*' said
awk '/^step time: / { match($0, /median error [0-9.]+/); e = substr($0, RSTART + 13, RLENGTH - 13); n = $3 }
	/^95 % intervals: / { inside = $4 } END { print n, "plans of two devices,", (e <= 8 ? "median error at most 8 %," : "median error " e " %,"),
	(inside >= .8 * n ? "at least 80 % inside" : inside " inside") }' said
# An error above the threshold is exit status 5; a calibration made half as fast is mended by recalibration.
try 5 'median error .* is above --threshold 0 %' validate one two --top 2 --from out --threshold 0 -o x
awk '/"(gemm_eff|elementwise_bw_share)":/ { slow = 1 } slow && /"value":/ { match($0, /[0-9.e+-]+,?$/)
	printf "%s%.9g,\n", substr($0, 1, RSTART - 1), substr($0, RSTART) * .5; slow = 0; next } { print }' c.json >slow.json
"$M" validate one two --top 2 --from out --calib slow.json --recalibrate -o mended >mended.log || { cat mended.log; bad=1; }
awk '/^held out, before/ { match($0, /median error [0-9.]+/); b = substr($0, RSTART + 13, RLENGTH - 13) }
	/^held out, after recalibration: [0-9]+ plans/ { match($0, /median error [0-9.]+/); a = substr($0, RSTART + 13, RLENGTH - 13) }
	END { print a * 2 <= b ? "at least halved" : "from " b " to " a }' mended.log
grep '^95 % intervals' mended.log | grep -o '0 of 4 plans inside'
[ -s mended/calib.json ] || echo "no calibration"
# One that would make the plans held out worse is not written; samples that are there twice are an error.
cp -r out bent; for f in bent/launch-*/*-plan-1.timeline.csv; do
	awk -F, -v OFS=, 'NR > 1 { $6 *= 2; $7 *= 2 } { print }' "$f" >t.csv && mv t.csv "$f"; done
try 5 'was not written: on the plans held out the median error would go from' validate one two --top 2 --from bent --recalibrate -o worse
[ -e worse/calib.json ] && echo "a worse calibration was written"
for f in bent/launch-1/one-plan-1.timeline.csv; do tail -n +2 "$f" >t.csv; cat t.csv >>"$f"; done
try 2 'task [0-9]+ of sample [0-9]+ is there twice' validate one two --top 2 --from bent -o x
# Half of the samples disturbed (clocks throttled): the others do. One more: refused, with what to do, and nothing is written.
throttle() { # SAMPLES FILE...: those samples of these files
	local those=$1; shift
	for f in "$@"; do awk -F, -v OFS=, -v those="$those" 'NR > 1 && index(those, $11) { $14 = 1 } { print }' "$f" >t.csv && mv t.csv "$f"; done
}
cp -r out hot; throttle "0 1" hot/launch-1/*-plan-*.timeline.csv; throttle 0 hot/launch-2/*-plan-*.timeline.csv
"$M" validate one two --top 2 --from hot --calib slow.json --recalibrate -o half >half.log 2>&1 || { cat half.log; bad=1; }
grep -o '12 of 24 samples dropped' half.log; [ -s half/calib.json ] || echo "no calibration of half the samples"
throttle 1 hot/launch-2/one-plan-1.timeline.csv
try 4 '13 of 24 samples were disturbed .other programs, steal time, throttled clocks.: measure again on a quiet machine, with more --reps, or with fewer --cores' \
	validate one two --top 2 --from hot --calib slow.json --recalibrate -o x
[ -e x/calib.json ] && echo "a calibration of disturbed samples was written"
# Plans that have no others are not judged, and not ranked.
throttle "0 1 2" hot/launch-*/*-plan-*.timeline.csv
"$M" validate one two --top 2 --from hot -o x | grep -oE 'of [0-9]+ plans nothing can be said|cannot rank these [0-9]+: [0-9]+ have' | sort | uniq -c
# Strangers' runs on how far each prediction may be off: a line, columns, an object.
"$M" validate one two --top 2 --from out -o again --json 2>lines | python3 -c '
import json, sys
for plan in json.load(sys.stdin)["plans"]:
    t = plan["trust"]
    if not t["low_80_s"] <= t["low_50_s"] < t["high_50_s"] <= t["high_80_s"]:
        print(plan["name"], t)'
grep -c '^trust: ' lines
# The corrected calibration serves the search, and tells how sure it is.
"$M" search -m gpt:layers=4,hidden=512,heads=8,vocab=2048,seq=128,fused_attention=false --batch 8 --dtype bf16 -p c.xml --calib mended/calib.json -e exhaustive --evals 5 -o re >/dev/null || bad=1
"$M" simulate -m gpt:layers=4,hidden=512,heads=8,vocab=2048,seq=128,fused_attention=false --batch 8 --dtype bf16 -p c.xml --calib c.json \
	-P one/plan-1.json --intervals --against one/plan-2.json -o i | grep -oE 'step time between|is faster with probability'
"$M" simulate -m gpt:layers=4,hidden=512,heads=8,vocab=2048,seq=128,fused_attention=false --batch 8 -p dgx_a100 -P one/plan-1.json --intervals -o i2 2>&1 |
	grep -o 'no calibration says how sure it is'
# Its ends.
try 2 'give the folder of a search' validate
try 2 'no samples of' validate one two --top 3 --from out -o x
MOCK_DRIVER=nodevice try 3 'no GPU' validate one --top 1 -o x
try 2 'no such executor' validate one --top 1 -o x --executor nothing
finish
