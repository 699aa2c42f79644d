. "$ROOT/tests/cli/lib.sh.inc"
# A snapshot of memory is what Python's own unpickler reads: the trace reaches what memory.csv says, segments are filled
# without gaps, and `validate --memory` finds nothing off. Snapshots of others are bounded, and nothing of them is run.
ask=(-m llama:layers=2,hidden=256,heads=4,vocab=512,seq=128 -p "gpu=H100 nodes=1 gpus=4" --batch 16 --software megatron-core)
"$M" search "${ask[@]}" -e expert --evals 6 -o s >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot a.pickle -o d >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot b.pickle --snapshot-device n0g0 >/dev/null || bad=1
cmp a.pickle b.pickle || bad=1
python3 - <<'P' || bad=1
import csv, pickle
s = pickle.load(open("a.pickle", "rb"))
m = next(csv.DictReader(open("d/memory.csv")))
live = peak = 0
known = {}
for e in s["device_traces"][0]:
    if e["action"] == "alloc":
        known[e["addr"]] = e["size"]
        live += e["size"]
        peak = max(peak, live)
    elif e["action"] == "free_completed":
        assert known.pop(e["addr"]) == e["size"], e
        live -= e["size"]
reserved = sum(x["total_size"] for x in s["segments"])
assert abs(peak / float(m["allocated_B"]) - 1) < .03, (peak, m)
assert abs(reserved - float(m["reserved_B"])) < 1, (reserved, m)
active = 0
for x in s["segments"]:
    at = x["address"]
    for b in x["blocks"]:
        assert b["address"] == at, x
        at += b["size"]
        if b["state"] == "active_allocated":
            assert known[b["address"]] == b["size"] and len(b["frames"]) == 2, b
            active += b["size"]
    assert at == x["address"] + x["total_size"], x
assert active == live and len(known) == sum(b["state"] != "inactive" for x in s["segments"] for b in x["blocks"])
rows = list(csv.DictReader(open("d/memory_timeline.csv")))
sums = [sum(float(r[c + "_B"]) for c in ("parameter", "gradient", "optimizer", "activation", "buffer")) for r in rows]
assert max(sums) <= peak and float(rows[0]["limit_B"]) == float(m["limit_B"])
for protocol in range(6):
    pickle.dump(s, open("p%d.pickle" % protocol, "wb"), protocol)
class Run:
    def __reduce__(self):
        return (open, ("was_run", "w"))
pickle.dump({"segments": [Run()]}, open("run.pickle", "wb"))
pickle.dump({"segments": [Run()]}, open("run0.pickle", "wb"), 0)
pickle.dump([1, 2], open("list.pickle", "wb"))
pickle.dump({"segments": s["segments"], "device_traces": [[]]}, open("end.pickle", "wb"))
loop = {"segments": [], "device_traces": []}
loop["segments"].append(loop)
pickle.dump(loop, open("loop.pickle", "wb"))
# A process whose parameters were there before the recording, as most are.
first = max(i for i, e in enumerate(s["device_traces"][0]) if e["frames"] and e["frames"][0]["name"] == "weights")
bare = [dict(x, blocks=[dict(b, frames=[]) for b in x["blocks"]]) for x in s["segments"]]
pickle.dump({"segments": bare, "device_traces": [s["device_traces"][0][first + 1:]]}, open("late.pickle", "wb"))
def trace(*frames):
    return [dict(action="alloc", addr=512, size=512, frames=[dict(name=n, filename=f, line=1) for n, f in frames])]
for name, frames in {"optimizer": [("step", "torch/optim/adamw.py")], "forward": [("forward", "model.py"), ("f", "a.py")],
                     "backward": [("torch::autograd::Engine::thread_main", "??")], "other": [("load", "data.py")]}.items():
    pickle.dump({"segments": [], "device_traces": [trace(*frames)]}, open(name + ".pickle", "wb"))
P
"$M" validate s --memory a.pickle -o v
for p in 0 1 2 3 4 5; do "$M" validate s --memory p$p.pickle -o v | cmp - <("$M" validate s --memory a.pickle -o v) || bad=1; done
grep -c . v/memory.csv
"$M" validate s --memory end.pickle -o v | tail -n 1
"$M" validate s --memory late.pickle -o v | sed -n 2,4p
for p in optimizer forward backward other; do "$M" validate s --memory $p.pickle -o v >$p.txt || bad=1; done
for p in optimizer forward backward other; do
	awk -F, '$5 == 512 && $3 !~ /allocated/ { print FILENAME ": " $3 }' <("$M" validate s --memory $p.pickle -o v >/dev/null; cat v/memory.csv) | sed "s/^[^:]*/$p/"
done
try 2 'STACK_GLOBAL: not plain data, and nothing is run' validate s --memory run.pickle
try 2 'GLOBAL: not plain data, and nothing is run' validate s --memory run0.pickle
[ ! -e was_run ] || { echo "a pickle was run"; bad=1; }
try 2 "lacks 'segments'" validate s --memory list.pickle
try 2 'a snapshot of no memory' validate s --memory loop.pickle
head -c 3000 a.pickle >cut.pickle; try 2 'the file ends' validate s --memory cut.pickle
try 2 'more than 512 MB' validate s --memory /dev/zero
try 2 'no device of' simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot c.pickle --snapshot-device none
"$M" search "${ask[@]}" --mode infer -e expert --evals 4 -o i >/dev/null || bad=1
try 2 'only of GPUs in training' simulate "${ask[@]}" --mode infer -P i/plan-1.json --memory-snapshot c.pickle
try 2 'memory-snapshot' simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot s/plan-1.json
try 2 'full|space' simulate "${ask[@]}" -P s/plan-1.json --memory-snapshot /dev/full
# Host memory: 16 bytes of each offloaded parameter, and a verdict of its own where the platform says how much there is.
printf '%s\n' --use-distributed-optimizer --optimizer-cpu-offload >in.sh
"$M" export --import in.sh "${ask[@]}" -o off.json >/dev/null || bad=1
"$M" simulate "${ask[@]}" -P off.json -o o | grep -o 'reserved; .*'
python3 - <<'P' || bad=1
import csv
n = 2 * (4 * 256 * 256 + 3 * 256 * int(256 * 3.5)) # about
host = [float(r["host_B"]) for r in csv.DictReader(open("o/memory.csv"))]
total = sum(host)
summary = next(csv.DictReader(open("o/summary.csv")))
assert abs(total - float(summary["host_memory_B"])) < 1 and summary["host_limit_B"] == "0", summary
parameters = float(next(csv.DictReader(open("o/memory.csv")))["parameter_B"]) / 2
assert abs(total - 16 * parameters) < 1, (total, parameters)
P
small=("${ask[@]}"); small[3]="gpu=H100 nodes=1 gpus=4 host_memory_GB=.01"
try 1 'host memory of machine 0 would have to hold' simulate "${small[@]}" -P off.json
finish
