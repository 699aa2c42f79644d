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
cp -r base.samples other.samples; rm other.samples/gemm.jsonl
"$M" calibrate --executor cuda --from again.samples -o y.json --draws 2 --against other.json >log 2>&1; echo "exit code $?"; tail -n 1 log
exit $bad
