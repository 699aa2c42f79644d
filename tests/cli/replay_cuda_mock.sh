# The cuda executor on mock libraries: faults end soon, with one line and their own exit status.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
"$MAQUETTE" calibrate --executor cuda --schedule-only --devices 2 --type G --samples m -o m/g.json >/dev/null
run() { # SETTING...: the replay's line, its exit status, and whether it ended by deadline + 5 s
	local begin=$(date +%s) rc
	env "$@" "$REPLAY" --executor cuda --deadline "${deadline:-2}" --reps 2 --warmup 0 -o out m/comm.jsonl m/overlap.jsonl \
		2>&1 | sed 's/task [0-9]*/task N/; s/rank [01]/rank N/g; s/gpu[01] on/gpuN on/; s/GPU [01] (/GPU N (/'
	rc=${PIPESTATUS[0]}
	[ $(($(date +%s) - begin)) -le $((${deadline:-2} + 6)) ] || echo "took too long"
	echo "$* -> $rc"
}
deadline=30 run MOCK_DEVICES=2
head -n 1 out/comm.timeline.csv
run MOCK_FAIL=hang:1:40
run MOCK_FAIL=error:0:30
run MOCK_FAIL=die:1:50
run MOCK_FAIL=die:0:50
run MOCK_FAIL=init-hang:1:0
run MOCK_FAIL=init-error:1:0
run MOCK_MEMORY_B=1e8
run MOCK_DRIVER=none
run MOCK_DRIVER=stub
run MOCK_DRIVER=nodevice
run MOCK_DEVICES=0
run MOCK_DEVICES=1
run MOCK_NCCL_VERSION=21302
run MAQUETTE_CUDART=/nonexistent.so
# No process is left behind, and no meeting place.
sleep 0.2
[ -z "$(here "m/comm.jsonl m/overlap.jsonl")" ] || echo "orphans"
ls -d "$PWD"/mq-replay-* 2>/dev/null
# Several ranks on one GPU: only when asked for, marked, and never fitted.
MOCK_DEVICES=1 "$REPLAY" --executor cuda --share-gpu --reps 1 --warmup 0 -o out m/comm.jsonl m/overlap.jsonl && echo shared
grep shared_device out/environment.txt
mkdir -p m/launch-1 && cp out/* m/launch-1/
"$MAQUETTE" calibrate --executor cuda --from m -o c.json
echo "-> $?"
