# Every device type that is shipped, with what it is bought by; one of them alone; as objects.
. "$ROOT/tests/cli/lib.sh.inc"
"$M" list devices >all
for f in "$ROOT"/platforms/calib/*.json; do
	name=$(basename "$f" .json)
	grep -q '"kind": "device"' "$f" || continue
	grep -q "^$name " all || { echo "no $name"; bad=1; }
done
for name in MI325X MI350X GB300 H20-96GB RTX-PRO-6000; do "$M" list devices $name | cut -d';' -f1; done
"$M" list devices --json | python3 -c 'import json, sys
d = {x["name"]: x for x in json.load(sys.stdin)}
print(d["MI350X"]["peak_bf16_flops"] / d["MI355X"]["peak_bf16_flops"] - 2.2 / 2.4 < 1e-5, d["MI325X"]["memory_B"] / 2**30, d["MI325X"]["price_per_h"])'
try 2 'no list of device: give' list device
# measured runs are those of the index of errors
"$M" list devices --json | python3 -c 'import csv, json, sys
of = [r["device"] for r in csv.DictReader(open(sys.argv[1])) if r["table"] != "weight"]
devices = {d["name"]: d["measured_runs"] for d in json.load(sys.stdin)}
assert sum(devices.values()) == len(of) > 1000 and all(of.count(d) == n for d, n in devices.items())' "$ROOT/results/accuracy/trust.csv" || bad=1
exit $bad
