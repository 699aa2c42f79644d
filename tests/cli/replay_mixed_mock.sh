# A CPU and a GPU of one plan: executor host beside cuda (on mock libraries), no MPI.
. "$ROOT/tests/cli/lib.sh.inc"
[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || { echo "skipped: fewer than two cores"; exit 77; }
mocks
mixed="$REPLAY --executor cuda --cpu-types C --deadline 30"
hide() { sed 's/[0-9]* CPU cores/N CPU cores/; s/, [0-9]* per device/, N per device/; s/task [0-9]*/task N/'; }

# Every kind of call between the two, both ways; both executors' tasks in one timeline, in order on each stream.
"$M" calibrate --schedule-only --devices 2 --type C --samples p -o c.json >/dev/null || bad=1
# Calls of up to 16 KiB are enough.
awk 'NR > 1 { match($0, /"bytes":[0-9]+/); if (substr($0, RSTART + 8, RLENGTH - 8) + 0 > 16384) next
	sub(/"id":[0-9]+/, "\"id\":" n++); task[n] = $0; next } { head = $0 }
	END { sub(/"tasks":[0-9]+/, "\"tasks\":" n, head); print head; for (i = 1; i <= n; i++) print task[i] }' p/comm.jsonl >cpus.jsonl
sed '1s/"name":"cpu1","type":"C"/"name":"gpu1","type":"G"/' cpus.jsonl >comm.jsonl
sed '1s/"name":"cpu1","type":"C"/"name":"gpu1","type":"G"/' p/overlap.jsonl >overlap.jsonl
$mixed --dry-run comm.jsonl | hide
mkdir out; $mixed --warmup 0 --reps 1 -o out comm.jsonl overlap.jsonl; echo "-> $?"
awk -F, 'NR > 1 { n[$2 " on " $10]++; if ($7 < $6) bad++; k = $2 "," $3 "," $11; if ((k in last) && $6 < last[k] - 1e-9) order++; last[k] = $7 }
	END { print n["cpu0 on host"], n["gpu1 on cuda"], bad + 0, order + 0 }' out/comm.timeline.csv
ls out; grep -c '^gpu=\|^cpu=' out/environment.txt
# The same ranks all on CPUs, without MPI.
PATH=/nowhere "$REPLAY" --local 2 --warmup 0 --reps 1 -o local cpus.jsonl p/overlap.jsonl 2>&1; echo "-> $?"

# A message of 16 MB, four times the wire's ring, between the GPU and the CPU never takes less than the planted copies
# do, and, in the best of up to four runs, since other programs may take the cores, not twice as long. They are planted
# so slow that the CPU's part is small.
schedule() { # KEY:VALUE,... of the tasks' common part; SENDER RECEIVER
	printf '{"maquette_schedule":1,"model":"m","plan_hash":"1","model_hash":"0","devices":[{"rank":0,"name":"cpu0","type":"C"},{"rank":1,"name":"gpu0","type":"G"}],"comms":[{"id":0,"purpose":"dp","ranks":[0,1]}],"ops":[],"works":[],"tasks":2}\n'
	printf '{"id":0,"device":%d,%s,%s}\n{"id":1,"device":%d,%s,%s}\n' "$2" "$1" "$4" "$3" "$1" "$5"
}
message='"dtype":"fp32","bytes":16000000,"stage":0,"phase":"forward"'
schedule "$message" 1 0 '"stream":"send","kind":"send","peer":0,"channel":0' '"stream":"recv","kind":"recv","peer":1,"channel":0' >down.jsonl
schedule "$message" 0 1 '"stream":"send","kind":"send","peer":1,"channel":0' '"stream":"recv","kind":"recv","peer":0,"channel":0' >up.jsonl
step() { # BYTES-PER-SECOND WAY: least time of a step
	MOCK_COPY_BPS=$1 $mixed --warmup 0 --reps 2 -o t.csv $2.jsonl && awk -F, 'NR > 1 { if ($7 > s[$11]) s[$11] = $7 }
		END { for (i in s) if (!m || s[i] < m) m = s[i]; print m }' t.csv
}
planted() { # SECONDS WAY: what that does not fit, if any
	local least=
	for try in 1 2 3 4; do
		least=$(printf '%s\n' $least "$(step "$(awk "BEGIN { print 16e6 / $1 }")" "$2")" | sort -g | head -n 1)
		awk "BEGIN { exit !($least >= 2 * $1) }" || break
	done
	awk "BEGIN { exit !($least < $1 || $least >= 2 * $1) }" && echo "$least s instead of $1 s"
}
for way in down up; do
	off=$(planted .2 $way)$(planted .4 $way); echo "$way ${off:-as planted, and longer at half the speed}"
done

# What cannot be: NCCL's algorithms with a CPU, sums that a CPU does not add, too few cores.
call='"stream":"grad","kind":"collective","comm":0,"coll":"all_reduce","root":0,"bytes":4096,"stage":0,"phase":"backward"'
schedule "$call" 0 1 '"dtype":"fp32","algo":"tree","proto":"ll"' '"dtype":"fp32","algo":"tree","proto":"ll"' >tree.jsonl
schedule "$call" 0 1 '"dtype":"bf16","algo":"auto","proto":"auto"' '"dtype":"bf16","algo":"auto","proto":"auto"' >half.jsonl
$mixed -o x.csv tree.jsonl 2>&1 | hide; echo "-> ${PIPESTATUS[0]}"
# Both ranks refuse the sum, each in its words: the first to speak is heard.
$mixed -o x.csv half.jsonl >half.err 2>&1; code=$?
grep -cE 'of a group that holds CPUs is added by CPUs, in fp32 and fp64: it asks for bf16|executor host adds fp32 and fp64, task [0-9]+ asks for bf16' half.err
echo "-> $code"
$mixed --cores 512 -o x.csv up.jsonl 2>&1 | hide; echo "-> ${PIPESTATUS[0]}"

# Dead ranks of either kind, and one that hangs, end the run by deadline + 5 s with their name.
rank() { # RANK: its process, once rows were written, so that all have met
	for i in $(seq 300); do
		[ -s dead.csv ] && for p in $(here "dead.csv up.jsonl"); do
			of "$p" "MAQUETTE_RANK=$1" && { echo "$p"; return; }; done
		sleep 0.1
	done
}
for signal in KILL STOP; do for r in 0 1; do
	[ $signal = KILL ] && patience=60 || patience=4 # a dead rank is seen at once, however busy the machine
	rm -f dead.csv; $mixed --deadline $patience --warmup 0 --reps 100000 -o dead.csv up.jsonl >dead.log 2>&1 & run=$!
	p=$(rank $r); begin=$(date +%s); kill -$signal "$p"; wait $run; rc=$?
	[ $(($(date +%s) - begin)) -le 9 ] || echo "took too long"
	hide <dead.log | sed "s/all_reduce\|all_gather\|reduce_scatter\|broadcast\|reduce\|alltoall\|send\|recv/CALL/; s/ on communicator [0-9]*//; s/CALL.*rank/CALL rank/; s/rank [01].* made no progress for 4 s\|rank [01] did not answer before the deadline/a rank does not answer/"
	echo "$signal rank $r -> $rc"
done; done
sleep 0.2; [ -z "$(here "dead.csv up.jsonl")" ] || echo "orphans"
ls -d "$PWD"/mq-replay-* 2>/dev/null

# The way of a user: plans of one stage each, of replicas, and of operators placed on either, found, replayed, joined.
look() { "$M" search -m gpt:layers=2,hidden=128,heads=4,vocab=512,seq=64,fused_attention=false --batch 8 --dtype fp32 "$@" >/dev/null || bad=1; }
look -p cpu_node -e exhaustive --max devices=2 --fix dp=2 --evals 20 --top 1 -o dp
look -p cpu_node -e exhaustive --max devices=2 --fix pp=2 --evals 20 --top 1 -o pp
look -p cpu_gpu_ws -e metis --evals 10 --top 2 -o s
cp dp/plan-1.json s/plan-3.json; cp pp/plan-1.json s/plan-4.json
"$M" validate s --top 4 --cores 1 --launches 1 --warmup 1 --reps 3 -o v >said || { cat said; bad=1; }
awk -F, 'NR > 1 && $2 != "step" { n[$5]++ } END { print "calls of plans on", (n["cpu0"] && n["gpu0"] ? "both devices" : "one device") }' v/validate.csv
awk -F, 'NR > 1 { print $3 }' v/plans.csv | grep -o 'dp 2 tp 1\|pp 2\|placement on 2' | sort
awk -F, 'NR > 1 && $3 != "reserve" && $6 != "" { n[$2]++; if ($4 < 1e6) next; if ($6 < .98 || $6 > 1.02) print "memory:", $0 } END { print n["cpu0"], n["gpu0"] }' v/memory.csv
grep -c measured v/trace-s-plan-*.json | sed 's/:.*//'
finish
