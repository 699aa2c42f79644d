# The closed loop on mock libraries: it ends, a killed run goes on where it was, and the same question gives the same plan.
. "$ROOT/tests/cli/lib.sh.inc"
mocks
export LD_PRELOAD=$MAQUETTE_CUDART EXECUTOR=cuda DTYPE=bf16 ROUNDS=2 TOP=4 EVALS=20 LAUNCHES=1 REPS=3
tune() { "$ROOT/validator/tune" "$1" 2>&1; }
tune whole | sed 's/[0-9.]* %/N %/g; s/  */ /g' | grep -c 'round\|final plan'
[ -s whole/search-1/plan-1.json ] && [ -s whole/replay-1/plans.csv ] && [ ! -e whole/replay-1.part ] && echo "steps are whole"
# Killed in the middle, and started again.
setsid "$ROOT/validator/tune" killed >/dev/null 2>&1 & run=$!
for i in $(seq 300); do [ -d killed/search-1 ] && break; sleep 0.1; done
kill -9 -- -$run 2>/dev/null; wait $run 2>/dev/null
for i in $(seq 50); do flock -n killed/lock true && break; sleep 0.1; done
before=$(stat -c %Y killed/calibrated); tune killed >said || cat said
[ "$(stat -c %Y killed/calibrated)" = "$before" ] && echo "what was there was kept"
cmp whole/search-1/plan-1.json killed/search-1/plan-1.json && echo "the same plan"
MODEL=gpt:layers=2,hidden=256,heads=4,vocab=1024 tune whole | grep -o 'is of another question'
