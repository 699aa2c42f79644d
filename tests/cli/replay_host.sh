# The host executor: two CPU ranks under mpirun, its bookkeeping, and its ends.
command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
[ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || { echo "skipped: fewer than two cores"; exit 77; }
. "$ROOT/tests/cli/lib.sh.inc"
export TMPDIR=$PWD
"$MAQUETTE" calibrate --schedule-only --devices 2 --type C --samples m -o c.json >/dev/null
"$REPLAY" --dry-run m/comm.jsonl | sed 's/[0-9]* CPU cores on this machine/N CPU cores on this machine/; s/, [0-9]* per device/, N per device/'
"$REPLAY" --warmup 0 --reps 2 -o out m/overlap.jsonl m/empty.jsonl; echo "-> $?"
# Every task once per sample; no task ends before it starts; tasks of a stream follow one another.
awk -F, 'NR > 1 { n++; if ($7 < $6) bad++; k = $2 "," $3 "," $11; if ((k in last) && $6 < last[k] - 1e-9) order++; last[k] = $7 }
	END { print n % 2 ? "not whole samples" : "whole samples", bad + 0, order + 0 }' out/overlap.timeline.csv
# Empty tasks follow one another, fifty and more of them in a sample; what one costs is for a quiet machine to say.
awk -F, 'NR > 1 && $2 == "cpu0" { if (s != $11) { s = $11; n = 0 } t[n] = $6
	if (n >= 50 && (!k++ || t[n] - t[n - 50] < least)) least = t[n] - t[n - 50]; n++ }
	END { print (k && least >= 0) ? "empty tasks in order" : "empty tasks: " k + 0 ", least of fifty " least " s" }' out/empty.timeline.csv
grep -c . out/environment.txt >/dev/null && echo "environment recorded"
# More devices than cores; a type the BLAS does not have; a file that is none.
"$REPLAY" --cores 512 -o out2 m/empty.jsonl 2>&1 | sed 's/this machine has [0-9]*/this machine has N/'; echo "-> ${PIPESTATUS[0]}"
sed 's/"dtype":"fp32"/"dtype":"fp16"/g' m/gemm.jsonl >half.jsonl
"$REPLAY" -o half.csv half.jsonl; echo "-> $?"
echo '{"maquette_schedule":1}' >broken.jsonl
"$REPLAY" -o x.csv broken.jsonl 2>&1 | cut -c1-30; echo "-> ${PIPESTATUS[0]}"
"$REPLAY" --executor nothing -o x.csv m/overlap.jsonl 2>&1 | sed 's/in .* (there/in DIR (there/'; echo "-> ${PIPESTATUS[0]}"
# A rank that dies ends the run with its name, soon and without orphans.
"$REPLAY" --warmup 0 --reps 100000 --deadline 10 -o out3 m/overlap.jsonl m/empty.jsonl >dead.log 2>&1 & run=$!
for i in $(seq 300); do # until rows were written: then both have met
	[ -n "$(find out3 -name '*.csv' -size +0 2>/dev/null)" ] && rank=$(for p in $(here "out3 m/overlap.jsonl"); do
		of "$p" OMPI_COMM_WORLD_RANK=1 && echo "$p"; done | head -n 1)
	[ -n "$rank" ] && break; sleep 0.1
done
kill -9 "$rank"
wait $run; echo "-> $?"
cat dead.log
