. "$ROOT/tests/cli/lib.sh.inc"
# Kernels of impossible sizes are refused when the schedule is read, by --dry-run too; possible ones that no machine
# has memory for are refused where that is asked for.
export TMPDIR=$PWD
"$MAQUETTE" calibrate --schedule-only --devices 1 --type C --samples m -o c.json >/dev/null || echo "no probes"
replay() { # EXIT-CODE REGEX ARGUMENTS...
	local want=$1 regex=$2 rc out; shift 2
	out=$(timeout 60 "$REPLAY" "$@" 2>&1 </dev/null); rc=$?
	[ $rc -eq "$want" ] && grep -qE -- "$regex" <<<"$out" || { echo "maquette-replay $*: exit code $rc, expected $want: $out"; bad=1; }
}
for m in 1e18 -1 2147483648; do
	sed "s/\"m\":10,/\"m\":$m,/" m/gemm.jsonl >bad.jsonl
	replay 2 'bad.jsonl:1: "m" must be a number from 0 to 1e\+09' --dry-run bad.jsonl
	replay 2 'bad.jsonl:1: "m" must be a number from 0 to 1e\+09' --warmup 0 --reps 1 -o out bad.jsonl
done
sed 's/"m":10,"n":[0-9]*,"k":[0-9]*/"m":1e9,"n":1e9,"k":1e9/' m/gemm.jsonl >large.jsonl
replay 3 'operands cannot be had' --warmup 0 --reps 1 -o out large.jsonl
sed 's/"m":10,/"m":10.5,/' m/gemm.jsonl >odd.jsonl
replay 0 '' --warmup 0 --reps 1 -o out odd.jsonl
finish
