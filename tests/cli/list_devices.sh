# Every device type that is shipped, with what it is bought by; one of them alone; as objects.
. "$ROOT/tests/cli/lib.sh.inc"
"$M" list devices >all
for f in "$ROOT"/platforms/calib/*.json; do
	name=$(basename "$f" .json)
	grep -q '"kind": "device"' "$f" || continue
	grep -q "^$name " all || { echo "no $name"; bad=1; }
done
for name in MI325X MI350X GB300 H20-96GB RTX-PRO-6000; do "$M" list devices $name | cut -d';' -f1; done
for name in A5000 "NVIDIA GeForce RTX 4080 SUPER" "Quadro RTX 6000"; do "$M" list devices "$name" | cut -d';' -f1; done
try 2 "device=H10O: no such device type; did you mean 'H100'" list devices H10O
# multiprocessors, cores of each and the clock of its generation give a board's fp32 peak: what a slip in a data sheet breaks
python3 - "$ROOT"/platforms/calib/*.json <<'P' || bad=1
import json, sys
files = {d["name"]: d for d in map(json.load, map(open, sys.argv[1:])) if d.get("kind") == "device"}
def value(d, key):
    own = d["values"].get(key)
    own = own.get("value") if isinstance(own, dict) else own
    return own if own is not None or "inherits" not in d else value(files[d["inherits"]], key)
cores = {37: 192, 60: 64, 70: 64, 75: 64, 80: 64}
GHz = {37: (.8, .9), 52: (1, 1.2), 60: (1.28, 1.5), 61: (1, 1.75), 70: (1.2, 1.65), 75: (1.5, 1.85), 80: (1.4, 1.45), 86: (1.55, 1.87),
       89: (2, 2.65), 90: (1.7, 2.25), 100: (1.55, 2.1), 103: (1.8, 2), 120: (2.4, 2.65)}
for d in files.values():
    generation = value(d, "compute_capability")
    if generation:
        clock = value(d, "peak_fp32_flops") / (2e9 * value(d, "sm_count") * cores.get(generation, 128))
        assert GHz[generation][0] <= clock <= GHz[generation][1], (d["name"], generation, clock)
P
"$M" list devices --json | python3 -c 'import json, sys
d = {x["name"]: x for x in json.load(sys.stdin)}
print(d["MI350X"]["peak_bf16_flops"] / d["MI355X"]["peak_bf16_flops"] - 2.2 / 2.4 < 1e-5, d["MI325X"]["memory_B"] / 2**30, d["MI325X"]["price_per_h"])'
# AMD's machines of eight have a port for each GPU, by a cloud's name of them and by the type alone
for p in 32xMI300X 32xMI325X 32xMI355X '4 x Standard_ND96isr_MI300X_v5' '4 x BM.GPU.MI300X.8'; do
	try 0 'half to half, all at once: 800 GB/s each way' platform show "$p"
done
# their links are named as AMD names them, and calibrated as NVLink
[ "$("$M" platform generate gpu=MI300X nodes=1 | grep -c 'value="xgmi"')" = 28 ] || { echo "no mesh of xGMI"; bad=1; }
try 0 'xgmi as nvlink-sm80' support -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p 8xMI300X --batch 8
try 2 'no list of device: give' list device
# measured runs are those of the index of errors
"$M" list devices --json | python3 -c 'import csv, json, sys
of = [r["device"] for r in csv.DictReader(open(sys.argv[1])) if r["table"] != "weight"]
devices = {d["name"]: d["measured_runs"] for d in json.load(sys.stdin)}
assert sum(devices.values()) == len(of) > 1000 and all(of.count(d) == n for d, n in devices.items())' "$ROOT/results/accuracy/trust.csv" || bad=1
exit $bad
