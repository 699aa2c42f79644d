. "$ROOT/tests/cli/lib.sh.inc"
# report.html of a search: one file that fetches nothing, a row per plan, a point per plan that fits, nothing of what
# was asked unescaped; and the same result as JSON.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
mkdir 'a<b>&"c'; printf '{"model_type":"gpt2","n_embd":256,"n_layer":4,"n_head":4,"n_positions":512,"vocab_size":1000}' >'a<b>&"c/m.json'
"$M" search -m 'a<b>&"c/m.json' -p dgx1_v100 --batch 16 -e data-parallel,random --evals 8 --top 4 -j 1 --json -o s >s.json || bad=1
python3 - <<'P' || bad=1
import csv, json, math, re
from html.parser import HTMLParser
class Page(HTMLParser):
    def __init__(self):
        super().__init__(); self.open = []; self.words = ""
    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        for key in ("src", "href"): assert key not in a, (tag, a)
        if tag not in ("meta", "br"): self.open.append(tag)
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag
    def handle_data(self, data): self.words += data
text = open("s/report.html").read()
page = Page(); page.feed(text); assert not page.open, page.open
rows = list(csv.DictReader(open("s/candidates.csv")))
plans = json.load(open("s.json"))["plans"]
plot = json.loads(re.search(r'<figure class="plot"><script type="application/json">(.*?)</script>', text, re.S)[1])
page.points = len(plot["points"]); page.labelled = sum(p[2] is not None for p in plot["points"])
page.rows = re.search(r'<table class="sorts" id="plans">.*?</table>', text, re.S)[0].count("<tr>")
fit = sum(r["verdict"] in ("ok", "tight") for r in rows)
print(len(plans), "plans,", page.rows - 1, "rows;", fit, "that fit,", page.points, "points;", page.labelled, "labelled")
assert page.rows - 1 == len(plans) == 4 and page.points == fit and page.labelled >= 4
assert math.isclose(plot["limit"], plans[0]["memory_limit_B"] / 1e9) and 'id="tasks"' in text and 'id="memory_parts"' in text
assert "<b>" not in text and 'a<b>&"c' in page.words, "escaping"
assert not re.search(r"\b(nan|inf)\b", text[:text.rindex("<script>")]), "nan or inf"
for p in plans:
    assert p["step_time_s"] > 0 and p["devices"] == 8 or p["devices"] < 8, p
    row = next(r for r in rows if r["plan_hash"] == p["plan_hash"])
    assert math.isclose(float(row["step_time_s"]), p["step_time_s"]) and row["plan"] == p["plan"] and int(row["virtual"]) == p["virtual"]
    assert 0 <= p["like"] < len(rows)
assert [p["step_time_s"] for p in plans] == sorted(p["step_time_s"] for p in plans)
# The best plan of each software is the fastest of those that name it.
able = {}
for r in rows:
    for name in r["runs_in"].split() if r["verdict"] in ("ok", "tight") else []:
        able[name] = min(float(r["step_time_s"]), able.get(name, math.inf))
able.pop("-", None)
best = {s["software"]: s for s in json.load(open("s.json"))["software"]}
assert {n: s["step_time_s"] for n, s in best.items()} == able and able, (best, able)
assert all(s["rank"] is None or plans[s["rank"] - 1]["plan_hash"] == s["plan_hash"] for s in best.values())
P
# A budget in what is not known is not kept, and says so.
try 1 'what a step costs is not known: --max cost needs price_per_h' search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p 'gpu=MI300X nodes=1' --batch 8 -e data-parallel --evals 1 -j 1 --max cost=1 -o unknown
# What is asked of the best plan is said: devices left idle, the objective's own column.
"$M" search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 1 -e data-parallel --evals 2 -j 1 -o idle | grep -A 1 '^$' | grep 'left idle' || bad=1
"$M" search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 -e data-parallel --evals 2 -j 1 --objective cost -o cost >cost.txt; grep -q '^rank  *cost ' cost.txt || { cat cost.txt; bad=1; }
"$M" search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p 'gpu=MI300X nodes=1' --batch 8 -e data-parallel --evals 2 -j 1 --objective cost -o free >free.txt; grep 'no price of MI300X is known' free.txt || { cat free.txt; bad=1; }
grep -q 'V100-SXM2-16GB: 3.06 $/h (AWS .*read 20' cost.txt || { echo "a price without source or date"; bad=1; }
"$M" search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 -e data-parallel --evals 2 -j 1 --objective cost --change 'device.V100-SXM2-16GB.price_per_h=$30.6' -o dear >dear.txt
[ "$(awk '$1 == 1 {print 0 + substr($2, 2); exit}' dear.txt)" = "$(awk '$1 == 1 {print 10 * substr($2, 2); exit}' cost.txt)" ] || { head -3 dear.txt cost.txt; bad=1; }
grep -qE '\$ ?nan|\$ ?inf' cost.txt free.txt && bad=1
# A plan is not compared with one that reads like it.
"$M" search -m gpt:layers=6,hidden=128,heads=2,vocab=512 -p cloud_v100_t4 --batch 32 -e hybrid --evals 12 -j 1 -o alike >alike.txt
first=$(awk -F '  +' '$2 == 1 {print $(NF - 1); exit}' alike.txt); grep -q "^   1 .*$first" alike.txt || { echo "no first plan: $first"; bad=1; }
grep 'why plan 1 wins' alike.txt | grep -F "best, $first:" && bad=1
# Latency is the time that the simulator gives, whatever an engine's own objective measures (bytes cut, a micro-batch's load).
"$M" search -m gpt:layers=4,hidden=256,heads=4,vocab=1000 -p cpu_gpu_ws --mode infer --batch 4 --objective latency -e metis,automap,dpl,data-parallel --evals 4 \
	-j 1 --json -o late 2>/dev/null | python3 -c 'import json, sys; p = json.load(sys.stdin)["plans"]; s = [x["step_time_s"] for x in p]
assert len(s) > 2 and s == sorted(s) and s == [x["objective"] for x in p], p' || bad=1
try 2 "no engine 'hybrd'; did you mean 'hybrid'" list engines hybrd
try 2 "no model 'lama'; did you mean 'llama'" list models lama
# A simulated plan's page: a timeline of the whole step, memory of every device, links; a plan from standard input.
"$M" simulate -m 'a<b>&"c/m.json' -p dgx1_v100 --batch 16 -P - -o one <s/plan-1.json >one.txt || bad=1
"$M" simulate -m 'a<b>&"c/m.json' -p dgx1_v100 --batch 16 -P s/plan-1.json | cmp - one.txt || bad=1
python3 - <<'P' || bad=1
import csv, html, json, math, re
text = open("one/report.html").read()
part = lambda name: json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)[1])
devices = {r["device"] for r in csv.DictReader(open("one/timeline.csv"))}
last = max(float(r["finish_s"]) for r in csv.DictReader(open("one/timeline.csv")))
drawn = part("tasks")
ends = [start + length for band, lane, start, length, kind, op in drawn["tasks"]]
assert abs(max(ends) / last - 1) < 1e-5 and abs(drawn["end"] / last - 1) < 1e-8, max(ends) # drawn to the end of the step
assert set(drawn["bands"]) == devices and len(drawn["tasks"]) == sum(1 for _ in open("one/timeline.csv")) - 1
assert {drawn["kinds"][t[4]] for t in drawn["tasks"]} == {r["kind"] for r in csv.DictReader(open("one/timeline.csv"))}
memory = list(csv.DictReader(open("one/memory.csv")))
shown = part("memory_parts")
assert [d[0] for d in shown["devices"]] == [m["device"] for m in memory] and len(memory) == 8 and len(shown["parts"]) == 7
assert all(math.isclose(sum(d[2]), float(m["peak_B"]), rel_tol=1e-6) and d[1] == float(m["limit_B"]) for d, m in zip(shown["devices"], memory))
links = [r for r in csv.DictReader(open("one/links.csv"))]
rows = re.findall(r'<tr><td>[^<]*</td><td class="n" data-v="(\d+)">', re.search(r'<table class="sorts" id="links">.*?</table>', text, re.S)[0])
kinds = {(r["class"], r["bandwidth_Bps"], r["bytes"]) for r in links if float(r["utilisation"]) > 0}
assert len(rows) == len(kinds) and sum(map(int, rows)) == sum(float(r["utilisation"]) > 0 for r in links), (rows, kinds) # equal links are one row
assert html.unescape(re.search(r'<pre id="words">(.*?)</pre>', text, re.S)[1]) == open("one.txt").read()
assert not re.search(r"\bnan\b", text[:text.rindex("<script>")]) and "<b>" not in text
P
# Stages stand in their order, each with the operator that it begins with.
"$M" search -m gpt:layers=4,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 16 -e expert --evals 1 --fix pp=2 --fix schedule=interleaved -j 1 -o stages >/dev/null || bad=1
sed -n '/id="stages"/,/<\/table>/p' stages/report.html | grep -o '^<tr><td class="n" data-v="[0-9]*">[0-9]*</td><td>[^<]*</td><td>[^<]*' | sed 's/<[^>]*>/ /g'
# Every command that prints a table prints it for programs too: JSON alone on standard output.
cat >own.csv <<'CSV'
model,gpu,gpus,gbs,step_time_s,mbs
"gpt:layers=2,hidden=64,heads=2,vocab=512,seq=64",T4,4,16,.001,4
"gpt:layers=2,hidden=64,heads=2,vocab=128256,seq=64",T4,4,32,.002,4
CSV
printf 'model = gpt:layers=2,hidden=64,heads=2,vocab=512\nbatch = 8, 16\nplatform = dgx1_v100\nengine = expert\nevals = 2\n' >study.ini
json() { "$M" "$@" 2>/dev/null | python3 -c 'import json, sys; json.load(sys.stdin, parse_constant=lambda c: sys.exit("nan"))' || { echo "no JSON: $*"; bad=1; }; }
json list engines --json; json list engines mcmc --json; json list models --json; json list software --json; json list platforms --json
json model resnet50 --json; json platform show dgx1_v100 --json; json whatif study.ini -o study --json
json diff -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 cost/plan-1.json cost/plan-2.json --json
json simulate -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 -P cost/plan-1.json --json
json score own.csv --executor analytic --software ddp -j 1 -o own --json
json fit own.csv --executor analytic --software ddp -j 1 --free software:ddp.host --rounds 1 --draws 20 -o fitted --json
[ "$(grep -c '^\[.*measured' own/report.html)" = 2 ] || { echo "the score's page has not its 2 points"; bad=1; }
grep -q '>128256</td>' own/report.html || { echo "the score's page rounds whole numbers"; bad=1; }
# -h and help COMMAND.
"$M" search -h >h1.txt || bad=1; "$M" help search >h2.txt || bad=1; "$M" search --help | cmp - h1.txt || bad=1; cmp h1.txt h2.txt || bad=1
# What is left open: the batch is asked for in training, the type is what the devices train in today.
tiny=gpt:layers=2,hidden=64,heads=2,vocab=512
try 2 '--batch is missing: give the sequences of a step' search -m $tiny -p dgx_a100 -e data-parallel --evals 1 -o open
"$M" search -m $tiny -p dgx_a100 --mode infer -e data-parallel --evals 1 -o infer >/dev/null || bad=1
for p in dgx_a100:bf16 dgx1_v100:fp16 cloud_v100_t4:fp16 cpu_node:fp32 'gpu=MI300X:bf16' 'gpu=H100+T4:fp16'; do
	"$M" search -m $tiny -p "${p%:*}" --batch 8 -e data-parallel --evals 1 -o "t-${p#*=}" >/dev/null 2>&1
	grep -qx "dtype = ${p#*:}" "t-${p#*=}/run.ini" || { echo "$p: $(grep dtype "t-${p#*=}/run.ini")"; bad=1; }
done
# What another command wrote is left as it is.
"$M" simulate -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 -P cost/plan-1.json -o sim >/dev/null; cp -r sim before
try 2 'choose another -o' search -m gpt:layers=2,hidden=64,heads=2,vocab=512 -p dgx1_v100 --batch 8 -e data-parallel --evals 2 -o sim
diff -r sim before || bad=1
finish
