# A plan for ASTRA-sim: its traces, run by the rules of ASTRA-sim's workload layer and analytical network (run.py, an implementation of
# our own), take what the plan takes here where nothing is in each other's way. export_astra_sim_itself.sh asks
# ASTRA-sim.
. "$ROOT/tests/cli/lib.sh.inc"
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
cat >run.py <<'P'
# run.py DIR: a device computes one node at a time and has one call at a time, receives apart; a message takes latency and bytes.
import glob, heapq, json, re, struct, sys
d = sys.argv[1]
def varint(b, i):
    v = s = 0
    while True:
        v |= (b[i] & 127) << s; s += 7; i += 1
        if b[i - 1] < 128: return v, i
def fields(b):
    i = 0
    while i < len(b):
        k, i = varint(b, i)
        if k & 7 == 0: v, i = varint(b, i)
        else: n, i = varint(b, i); v = b[i:i + n]; i += n
        yield k >> 3, v
def messages(path):
    b = open(path, "rb").read(); i = 0
    while i < len(b):
        n, i = varint(b, i); yield list(fields(b[i:i + n])); i += n
net = {l.split(":")[0]: [x for x in re.findall(r"[\w.+-]+", l.split(":")[1].split("#")[0])] for l in open(d + "/network.yml") if l[0] != "#"}
dims = [int(x) for x in net["npus_count"]]; bw = [float(x) * 2**30 for x in net["bandwidth"]]; lat = [float(x) * 1e-9 for x in net["latency"]]
groups = {int(k): v for k, v in json.load(open(d + "/comm_group.json")).items()}
def hop(a, b, size):
    w = 0 if a % dims[0] != b % dims[0] else 1
    return lat[w] + size / bw[w]
def call(kind, size, g):
    n = len(g); part = size if kind == 2 else size / n
    assert part == int(part) and part >= 1, (kind, size, n)
    ring = max(hop(a, b, part) for a, b in zip(g, g[1:] + g[:1]))
    if kind == 6: return max(sum(hop(a, b, part) for b in g if b != a) for a in g)
    return {0: 2, 2: 1, 7: 1}[kind] * (n - 1) * ring
nodes, n = {}, dims[0] * dims[1]
for r in range(n):
    head, *rest = messages(f"{d}/chakra.{r}.et")
    assert dict(head)[1] == b"1.0.0" and b"predicted, not measured" in dict(head)[2]
    for f in rest:
        attr = {}
        for k, v in f:
            if k == 10:
                x = dict(fields(v)); key = next(q for q in x if q != 1); attr[x[1].decode()] = x[key] if isinstance(x[key], int) else x[key].decode()
        one = dict((k, v) for k, v in f if k not in (4, 5, 10))
        nodes[r, one[1]] = dict(kind=one[3], us=one.get(7, 0), deps=[v for k, v in f if k in (4, 5)], **attr)
missing = {k: len(set(v["deps"])) for k, v in nodes.items()}
after = {}
for (r, i), v in nodes.items():
    for dep in set(v["deps"]): after.setdefault((r, dep), []).append((r, i))
ready = {r: [] for r in range(n)}; busy = {}; end = 0.0; events = []; meets = {}; order = {}; arrived = {}; waiting = {}; count = 0
def free(k): heapq.heappush(ready[k[0]], k[1])
for k, m in missing.items():
    if not m: free(k)
def done(t, k):
    heapq.heappush(events, (t, k[0], k[1]))
def unit(v): return None if v["kind"] == 6 else "host" if v.get("is_cpu_op") else "comp" if v["kind"] == 4 else "comm"
def start(r, t):
    held = []
    while ready[r]:
        i = heapq.heappop(ready[r]); v = nodes[r, i]; u = unit(v)
        if u and busy.get((r, u)): held.append(i); continue
        if u: busy[r, u] = True
        if v["kind"] == 4: done(t + v["us"] * 1e-6, (r, i))
        elif v["kind"] == 7:
            g = groups[int(v["pg_name"])]; c = order.get((r, v["pg_name"]), 0); order[r, v["pg_name"]] = c + 1
            m = meets.setdefault((v["pg_name"], c), []); m.append((r, i)); assert r in g
            if len(m) == len(g):
                for k in m: done(t + call(v["comm_type"], v["comm_size"], g), k)
        else:
            key = v["comm_src"], v["comm_dst"], v["comm_tag"], v["comm_size"]
            c = order.get((v["kind"],) + key, 0); order[(v["kind"],) + key] = c + 1
            if v["kind"] == 5:
                at = t + hop(key[0], key[1], key[3]); done(at, (r, i)); arrived[key, c] = at
                if (key, c) in waiting: done(at, waiting.pop((key, c)))
            elif (key, c) in arrived: done(max(t, arrived[key, c]), (r, i))
            else: waiting[key, c] = (r, i)
    for i in held: heapq.heappush(ready[r], i)
for r in range(n): start(r, 0.0)
while events:
    t, r, i = heapq.heappop(events); end = t; count += 1
    if unit(nodes[r, i]): busy[r, unit(nodes[r, i])] = False
    for k in after.get((r, i), []):
        missing[k] -= 1
        if not missing[k]: free(k)
    start(r, t)
assert count == len(nodes), f"{count} of {len(nodes)} nodes ran"
alone, simulated = (float(x) for x in re.search(r"Maquette ([\d.e+-]+) s .*way, ([\d.e+-]+) s", open(d + "/run.sh").read()).groups())
print(end, alone, simulated)
assert abs(end / alone - 1) < .03, f"{100 * (end / alone - 1):+.2f} %"
P
check() {
	grep -qE '^(between machines|inside a machine): .* GB/s, .* us a hop; off by .* at most, ' said || { cat said; return 1; }
	sh -n "$1/run.sh" && python3 run.py "$1" >/dev/null
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
