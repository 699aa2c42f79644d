# Two rounds of `make soak`, of a stated seed: every kind of command, one killed at random, goes on to the same bytes.
. "$ROOT/tests/cli/lib.sh.inc"
"$ROOT/tests/run-soak" "$MAQUETTE" 2 7 >said 2>&1 || { cat said; exit 1; }
sed -n 's/.*rounds: .*; \(.*\)/\1/p' said
