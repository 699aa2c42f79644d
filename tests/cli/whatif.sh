. "$ROOT/tests/cli/lib.sh.inc"
# A study killed at any moment and continued has the bytes of an undisturbed one; so has one shared by the
# ranks of mpirun, of which only the first prints. A sensitivity is the finite difference of two runs.
cat >s.ini <<INI
model = $tiny
batch = 16
platform.nodes = 1, 2
platform.gpus = 4
platform.gpu = V100-32GB, A100-80GB
engine = expert
evals = 6
scaling = strong
sensitivity = 0.1
INI
"$M" whatif s.ini -o whole -j 2 >whole.txt || echo "whatif fails"
for delay in 0.2 0.6; do
	rm -rf part
	setsid "$M" whatif s.ini -o part -j 2 >/dev/null 2>&1 & pid=$!
	sleep $delay; kill -9 -- -$pid 2>/dev/null; wait $pid 2>/dev/null
	"$M" whatif s.ini -o part -j 1 >/dev/null || echo "does not continue after $delay s"
	for f in whatif sensitivity scaling; do cmp whole/$f.csv part/$f.csv || bad=1; done
done
# One worker of three killed: the others do its point.
rm -rf part; "$M" whatif s.ini -o part -j 3 >/dev/null 2>&1 & pid=$!
for i in $(seq 40); do worker=$(ps -o pid= --ppid $pid 2>/dev/null | head -n 1); [ "$worker" ] && break; sleep 0.02; done
sleep 0.1; kill -9 $worker 2>/dev/null; wait $pid || { echo "dies with a worker"; bad=1; }
for f in whatif sensitivity scaling; do cmp whole/$f.csv part/$f.csv || bad=1; done
[ "$(ls part/points | grep -vc json)" -eq 4 ] || { echo "points done twice or left half: $(ls part/points)"; bad=1; }
for rank in 1 0; do
	OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=$rank "$M" whatif s.ini -o ranks >rank$rank.txt & ranks="${ranks:-} $!"
done
for pid in $ranks; do wait $pid || { echo "a rank fails"; bad=1; }; done
[ ! -s rank1.txt ] || { echo "the second rank prints"; bad=1; }
sed 's/^ranks/whole/' rank0.txt | cmp - whole.txt || bad=1
cmp whole/whatif.csv ranks/whatif.csv || bad=1
# The row of link.nvlink.bw at 1.1, asked again as a question of its own.
row=$(grep '^0,link.nvlink.bw,1.1,' whole/sensitivity.csv)
base=$(awk -F, 'NR == 2 { print $5 }' whole/whatif.csv)
for p in whole/points/*.json; do
	cat >one.ini <<INI
model = $tiny
batch = 16
platform.nodes = 1
platform.gpus = 4
platform.gpu = V100-32GB
plan = $p
link.nvlink.bw = 1, 1.1
INI
	rm -rf one; "$M" whatif one.ini -o one >/dev/null
	awk -F, -v row="$row" -v base="$base" 'NR == 2 { a = $4 } NR == 3 { b = $4; split(row, r, ",")
		if (a == base && r[4] == b && (b / a - 1) / 0.1 - r[5] < 1e-6 && r[5] - (b / a - 1) / 0.1 < 1e-6) found = 1 }
		END { exit !found }' one/whatif.csv && found=1
done
[ "${found:-}" ] || { echo "sensitivity differs from two runs of its own"; bad=1; }
# The report is one well-formed file: tags closed, nothing fetched, figures, tables and timeline inside.
python3 - <<'P' || bad=1
import csv, json, re
from html.parser import HTMLParser
from urllib.parse import unquote
text = open("whole/report.html").read()
class Reader(HTMLParser):
    def __init__(self):
        super().__init__(); self.open = []; self.refs = set(); self.ids = {}; self.count = {}; self.data = ""
    def handle_starttag(self, tag, attrs):
        a = dict(attrs); self.count[tag] = self.count.get(tag, 0) + 1
        assert not (a.get("src") or a.get("href", "#")).startswith("http"), (tag, a)
        if tag in ("script", "link"): assert "src" not in a and "href" not in a, (tag, a)
        if tag == "img": assert a["src"].startswith("data:image/svg+xml,") and "</svg>" in unquote(a["src"]), a["src"][:60]
        if "id" in a:
            assert a["id"] not in self.ids, a["id"]
            self.ids[a["id"]] = tag
        for k in ("href", "xlink:href"):
            if a.get(k, "").startswith("#"): self.refs.add(a[k][1:])
        for v in a.values(): self.refs.update(re.findall(r"url\(#([^)]*)\)", v or ""))
        if tag not in ("meta", "br", "img"): self.open.append(tag)
        self.keep = a.get("id") == "tasks"
    def handle_startendtag(self, tag, attrs): pass
    def handle_endtag(self, tag): assert self.open.pop() == tag, (tag, self.open[-3:])
    def handle_data(self, data):
        if self.open and self.open[-1] == "script" and self.keep: self.data += data
r = Reader(); r.feed(text); r.close()
assert not r.open, r.open
assert r.refs <= set(r.ids), r.refs - set(r.ids)
for id in "question answers figures topology best provenance tables assumptions command timeline".split(): assert id in r.ids, id
assert r.count["img"] + text.count('<figure class="plot"') == text.count("<figure") >= 4, r.count
d = json.loads(r.data)
assert d["tasks"] and len(d["bands"]) >= 1 and d["end"] > 0
assert all(0 <= t[0] < len(d["bands"]) and t[2] >= 0 and t[2] + t[3] <= d["end"] * (1 + 1e-5) for t in d["tasks"])
rows = list(csv.DictReader(open("whole/whatif.csv")))
best = max((x for x in rows if x["verdict"] == "ok"), key=lambda x: float(x["samples_per_s"]))
assert abs(d["end"] / float(best["step_time_s"]) - 1) < 1e-3, (d["end"], best["step_time_s"])
assert "maquette whatif s.ini -o whole" in text and best["plan_hash"] in text
P
# Opened in a browser, where there is one: the script drew the timeline, and nothing was thrown.
for browser in chromium chromium-browser google-chrome; do
	command -v $browser >/dev/null || continue
	timeout 60 $browser --headless --no-sandbox --disable-gpu --enable-logging=stderr --user-data-dir="$PWD/chrome" \
		--virtual-time-budget=3000 --dump-dom "file://$PWD/whole/report.html" >dom.html 2>said.txt
	grep -q '<canvas id="timeline"[^>]* height="[0-9]' dom.html || { echo "the timeline was not drawn"; bad=1; }
	! grep -iE 'uncaught|SyntaxError|TypeError' said.txt || bad=1
	break
done
echo 'scaling = sideways' >bad.ini; try 2 'strong or weak' whatif bad.ini -o x
echo 'colour = red' >bad.ini; try 2 'colour' whatif bad.ini -o x
printf 'model = %s\nbatch = 8\nplatform = dgx1_v100\ne = expert\n' "$tiny" >bad.ini; try 2 'bad.ini: point 0: option --e is the beginning of' whatif bad.ini -o x
try 2 'give a study' whatif -o x
try 2 '-o is missing' whatif s.ini
# A buying question: what has no price is fastest all the same, and named; a price settles it.
printf '%s\n' 'model = gpt:layers=2,hidden=256,heads=4' 'batch = 16' 'platform.gpu = A100-SXM4-80GB, B300' 'platform.nodes = 1' 'platform.gpus = 2' \
	'engine = expert' 'evals = 2' 'objective = cost' >buy.ini
"$M" whatif buy.ini -o buy | grep -E '^(fastest|cheapest|no price)' | sed 's/[0-9.]* samples/N samples/; s/\$[0-9.e-]*/$N/; s/; no measured run is like it//'
echo 'device.B300.price_per_h = 0.1' >>buy.ini
"$M" whatif buy.ini -o buy2 | grep -E '^(fastest|cheapest|no price)' | sed 's/[0-9.]* samples/N samples/; s/\$[0-9.e-]*/$N/; s/; no measured run is like it//'
# The figure of the prices has all points, or it is one of times.
grep -q '"y":\["step time"' buy/report.html && grep -q '"y":\["price of a million tokens"' buy2/report.html || { echo "another figure"; bad=1; }
# Devices are counted where the study names machines alone, and what was asked of failures is said, over TCP as well.
printf '%s\n' 'model = gpt:layers=2,hidden=256,heads=4' 'batch = 64' 'platform.gpu = A100-SXM4-80GB' 'platform.nodes = 1, 2' 'platform.network = eth' 'engine = expert' \
	'evals = 2' 'scaling = weak' 'efficiency = 0.01' 'failures.mtbf_h = 5000' 'jitter.device = 0.01' 'jitter.draws = 4' >scale.ini
"$M" whatif scale.ini -o scale | grep -E '^(scaling|failures|jitter|assumed)' | sed -E 's/[0-9.]+ (%|min|s|ms|us)( |,|$)/N \1\2/g'
cut -d, -f3 scale/scaling.csv
finish
