# What executor host asks of OpenBLAS and MPI is what the schedule says, call by call, and timelines keep its order.
. "$ROOT/tests/cli/lib.sh.inc"
export TMPDIR=$PWD
check=$ROOT/tests/check-replay
command -v mpirun >/dev/null && [ "$(getconf _NPROCESSORS_ONLN)" -ge 2 ] || { echo "skipped: no mpirun or fewer than two cores"; exit 77; }
"$check" make host >cpu.jsonl; mkdir cpu
MOCK_LOG=$PWD/cpu LD_PRELOAD=$ROOT/$BUILD/mock/record_host.so "$REPLAY" --deadline 30 --warmup 0 --reps 1 -o cpu.csv cpu.jsonl && "$check" check cpu.jsonl cpu.csv cpu
"$REPLAY" --deadline 30 --warmup 0 --reps 2 -o cpu.csv cpu.jsonl && "$check" check cpu.jsonl cpu.csv
"$REPLAY" --local 2 --deadline 30 --warmup 0 --reps 2 -o cpu.csv cpu.jsonl && "$check" check cpu.jsonl cpu.csv
