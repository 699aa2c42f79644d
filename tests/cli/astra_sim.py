# astra_sim.py DIR: a device computes one node at a time and has one call at a time, receives apart; a message takes latency and bytes.
import heapq, json, re, sys
from chakra import fields, messages
d = sys.argv[1]
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
