# A plan for ASTRA-sim: its traces, run by the rules of ASTRA-sim's workload layer and analytical network (astra_sim.py, an
# implementation of our own), take what the plan takes here where nothing is in each other's way.
# export_astra_sim_itself.sh asks ASTRA-sim.
. "$ROOT/tests/cli/lib.sh.inc"
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
cp "$ROOT/tests/cli/chakra.py" "$ROOT/tests/cli/astra_sim.py" .
check() {
	grep -qE '^(between machines|inside a machine): .* GB/s, .* us a hop; off by .* at most, ' said || { cat said; return 1; }
	sh -n "$1/run.sh" && python3 astra_sim.py "$1" >/dev/null
}
. "$ROOT/tests/cli/astra_sim.sh.inc"
python3 - <<'P' || bad=1 # files as ASTRA-sim's parsers want them
import json
system, memory = json.load(open("data/system.json")), json.load(open("data/memory.json"))
assert system["all-reduce-implementation"] == ["oneRing", "oneRing"] and memory == {"memory-type": "NO_MEMORY_EXPANSION"}
assert "npus_count: [ 2, 8 ]" in open("data/network.yml").read() and "npus_count: [ 2, 2 ]" in open("host/network.yml").read()
assert json.load(open("data/comm_group.json"))["1"] == list(range(16))
P
# What cannot be said; and predicted traces are no measurement.
try 2 'astra-sim writes a file per device; give a folder' export p.json -m $moe -p 16xH100 --batch 32 --to astra-sim
uneven=(-m $tiny --seq 64 -p 16xH100 --batch 48 -j 1); echo "--micro-batch-size 1" >in.sh
"$M" export --import in.sh "${uneven[@]}" -o p.json >/dev/null || bad=1
sed -i -e 's/"batch": 16/"batch": 12/' -e 's/, 12, 13, 14, 15\]/]/' p.json
try 2 'uses 8 devices of one machine and 4 of another' export p.json "${uneven[@]}" --to astra-sim -o u
"$M" search "${uneven[@]}" -e expert --evals 1 --top 1 -o s >/dev/null
try 2 'predicted these durations; give a trace of a run' validate s --against data/chakra.0.et -o x
finish
