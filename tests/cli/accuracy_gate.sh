# The truth gate of `make accuracy` says what got worse, and passes only with a reason.
. "$ROOT/tests/cli/lib.sh.inc"
gate="$ROOT/tests/accuracy-gate"
mkdir old; cp "$ROOT/results/accuracy/summary.csv" "$ROOT/results/accuracy/score.csv" old/
"$gate" old || bad=1
awk 'BEGIN { FS = OFS = "," } $1 == "step-time" && $2 ~ /^internevo/ { $5 -= .02 } { print }' "$ROOT/results/accuracy/summary.csv" >old/summary.csv
echo 'internevo_a100_8_to_1024,iev-9999,1,.1' >>old/score.csv
"$gate" old | sed 's/[0-9.]* % was, [0-9.]* % is/A % was, B % is/'
[ "${PIPESTATUS[0]}" -eq 1 ] || { echo "the gate lets it pass"; bad=1; }
ACCEPTED="a test" "$gate" old | tail -n 1; [ "${PIPESTATUS[0]}" -eq 0 ] || bad=1
finish
