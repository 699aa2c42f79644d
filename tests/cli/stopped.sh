. "$ROOT/tests/cli/lib.sh.inc"
# Ctrl-C: the table of what was found, and the plans, and the end of a program that was interrupted; the same command
# goes on to what it would have found alone. A reader who has enough is no error. Folders of others are refused.
args=(-m gpt:layers=8,hidden=512,heads=8 --batch 64 -p "gpu=H100 nodes=2" -e random,expert --evals 400 --seed 7 -j 2)
set -m # so that a child in the background can be interrupted
"$M" search "${args[@]}" -o part >said.txt 2>err.txt & pid=$!
for i in $(seq 200); do [ -s part/candidates.csv ] && [ "$(wc -l <part/candidates.csv)" -gt 40 ] && break; sleep 0.05; done
kill -INT -- -$pid; { wait $pid; rc=$?; } 2>/dev/null
[ $rc -eq 130 ] || { echo "exit code $rc"; cat err.txt; bad=1; }
grep -q 'the same command goes on from here' err.txt || { cat err.txt; bad=1; }
grep -qE '^ +1 .* dp [0-9]+ tp ' said.txt && [ -s part/plan-1.json ] && [ -s part/report.html ] || { cat said.txt; ls part; bad=1; }
rows=$(wc -l <part/candidates.csv); [ "$rows" -lt 400 ] || { echo "was not stopped: $rows rows"; bad=1; }
"$M" search "${args[@]}" -o part >/dev/null 2>&1 && "$M" search "${args[@]}" -o whole >/dev/null || bad=1
cmp part/candidates.csv whole/candidates.csv && cmp part/plan-1.json whole/plan-1.json || bad=1
# So for `timeout` and batch systems, whose signal may come twice, to the process and to its group, amid a simulation.
long=(-m gpt:layers=24,hidden=1024,heads=16 --batch 512 -p gpu=H100,nodes=2 -e random,expert --fix mbs=1 --no-fold -j 2)
for signal in TERM HUP; do
	rm -rf part
	"$M" search "${long[@]}" --evals 1000 -o part >said.txt 2>err.txt & pid=$!
	for i in $(seq 600); do grep -q ',ok,' part/evaluations.csv 2>/dev/null && break; sleep 0.05; done
	kill -$signal -- -$pid; kill -$signal -- -$pid; { wait $pid; rc=$?; } 2>/dev/null
	[ $rc -gt 128 ] && [ -s part/plan-1.json ] && [ -s part/report.html ] && grep -qE '^ +1 .* dp [0-9]+ tp ' said.txt ||
		{ echo "$signal: $rc"; cat said.txt err.txt; ls part; bad=1; }
done

# A study keeps its finished points, says how many there are and goes on with the others; so does a comparison of devices,
# which begins anew.
printf 'model = gpt:layers=8,hidden=512,heads=8\nbatch = 8, 16, 24, 32, 40, 48, 64, 96, 128, 192\nplatform = gpu=H100 nodes=2\nengine = random\nevals = 20\nj = 1\n' >points.ini
"$M" whatif points.ini -j 2 -o points >said.txt 2>err.txt & pid=$!
for i in $(seq 400); do [ "$(ls points/points 2>/dev/null | grep -vc json)" -ge 2 ] && break; sleep 0.05; done
kill -TERM $pid; { wait $pid; rc=$?; } 2>/dev/null
n=$(($(wc -l <points/whatif.csv) - 1))
[ $rc -eq 143 ] && [ $n -ge 2 ] && [ $n -lt 10 ] && grep -q "^points/whatif.csv: $n of 10 points" said.txt &&
	[ "$(grep -c 'the same command goes on from here' err.txt)" -eq 1 ] || { echo "whatif: $rc"; cat said.txt err.txt points/whatif.csv; bad=1; }
try 0 '10 points' whatif points.ini -j 2 -o points
try 0 '10 points' whatif points.ini -j 2 -o all
cmp points/whatif.csv all/whatif.csv || bad=1
"$M" recommend -m gpt:layers=24,hidden=1024,heads=16 --batch 512 -e random --evals 40 --gpu 'H100, H200, B200' --target samples/day=1e7 \
	-o devices >said.txt 2>err.txt & pid=$!
for i in $(seq 400); do [ "$(cat devices/tried.csv 2>/dev/null | wc -l)" -ge 3 ] && break; sleep 0.05; done
kill -TERM $pid; { wait $pid; rc=$?; } 2>/dev/null
n=$(($(wc -l <devices/tried.csv) - 1))
[ $rc -eq 143 ] && [ $n -ge 2 ] && [ -s devices/recommend.csv ] && grep -q "^devices/tried.csv: $n points" said.txt && ! grep -q fewest said.txt &&
	grep -q 'a new run begins anew' err.txt || { echo "recommend: $rc"; cat said.txt err.txt; bad=1; }

for command in "list parameters" "model gpt:layers=96" "--help"; do
	"$M" $command 2>err.txt | head -n 1 >/dev/null; rc=${PIPESTATUS[0]}
	[ $rc -eq 0 ] && [ ! -s err.txt ] || { echo "$command | head: $rc, $(cat err.txt)"; bad=1; }
done

study() { printf 'model = %s\nbatch = %s\nplatform = dgx1_v100\nengine = expert\nevals = 2\n' "$tiny" "$1" >"$2"; }
study 8 a.ini; study 16 b.ini; study '8, 16' both.ini
try 0 '1 points' whatif a.ini -o w
cp w/whatif.csv before.csv
try 2 'w/study.ini: the folder has the results of another study' whatif b.ini -o w
cmp before.csv w/whatif.csv || bad=1
try 0 '2 points' whatif both.ini -o w # shares a point
# Nothing is written where the GPUs of a replay are missing.
"$M" search -m $tiny --batch 8 -p dgx1_v100 -e expert --evals 1 -o s >/dev/null || bad=1
export MAQUETTE_CUDA=/none MAQUETTE_CUDART=/none
try 3 '.' validate s
[ -e s/validate ] && { echo "left:"; ls s/validate; bad=1; }
try 0 'executor cuda' validate s --dry-run
finish
