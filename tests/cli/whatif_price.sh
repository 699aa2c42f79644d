# What a training costs: time and price of so many tokens, the fewest devices that keep a date and a budget, prices that tie.
. "$ROOT/tests/cli/lib.sh.inc"
study() { printf '%s\n' "model = $tiny" 'batch = 64' 'seq = 64' 'engine = expert' 'evals = 2' 'platform.gpu = H100-SXM-80GB, H200-SXM-141GB' 'platform.nodes = 1, 2' "$@" >s.ini; }
study 'epoch = 1e12 tokens' 'epoch.days = 20'
"$M" whatif s.ini -o o >words 2>err || cat err
python3 - <<'P' || bad=1
import csv, re
rows = list(csv.DictReader(open("o/whatif.csv")))
f = lambda r, k: float(r[k])
for r in rows: # tokens over tokens a second; price of an hour of each device
    assert abs(f(r, "epoch_s") * f(r, "samples_per_s") * 64 / 1e12 - 1) < 1e-5, r
    assert abs(f(r, "usd_per_epoch") / f(r, "epoch_s") * f(r, "step_time_s") / f(r, "usd_per_step") - 1) < 1e-5, r
words = open("words").read()
ties = re.findall(r"break-even price: (.*) costs as much .* at \$([\d.]+) a device and hour, not \$([\d.]+)", words)
cost = lambda r: f(r, "usd_per_step") / f(r, "samples_per_s") / f(r, "step_time_s")
least = min(rows, key=cost)
assert len(ties) == 3, words
for place, tie, price in ties:
    gpu, nodes = re.fullmatch(r"platform.gpu = (\S+), platform.nodes = (\d)", place).groups()
    r = next(r for r in rows if r["platform.gpu"] == gpu and r["platform.nodes"] == nodes)
    assert abs(float(tie) / float(price) - cost(least) / cost(r)) < 2e-3, (place, tie, price)
days = sorted(f(r, "epoch_s") / 86400 for r in rows)
said = re.search(r"an epoch, fewest devices: .*: (\d+) devices, ([\d.e+]+) days", words)
fit = [r for r in rows if f(r, "epoch_s") <= 20 * 86400]
assert bool(said) == bool(fit), (words, days)
if fit: assert int(said[1]) == min(int(r["devices"]) for r in fit), words
P
study 'epoch = 1e12 tokens' 'epoch.days = .001'
"$M" whatif s.ini -o p 2>err | grep '^an epoch' | sed 's|, 80 % within [^,;]*||; s|; no measured run is like it||' || cat err
python3 - <<'P' || bad=1 # what no measured run is like is said to be so, and nothing else
import csv
rows, said = list(csv.DictReader(open("p/whatif.csv"))), [l for l in open("p/answers.txt") if l.startswith("an epoch: platform")]
assert len(said) == len(rows), said
for row, line in zip(rows, said):
    assert ("no measured run is like it" in line) == bool(row["low_80_s"] and not row["like_runs"]), (row, line)
P
printf '%s\n' 'model = alexnet' 'platform.gpu = H100' 'platform.nodes = 1' 'batch = 8' 'engine = data-parallel' 'epoch = 1e9 tokens' >s.ini
"$M" whatif s.ini -o r >said 2>err; grep -q "^no plan: .*: refused: .* have no tokens" said && grep -q '^0,refused,.*alexnet.* have no tokens; give epoch = SAMPLES' r/whatif.csv || { cat err r/whatif.csv; bad=1; }
study 'epoch.usd = 5'
try 2 'epoch.days and epoch.usd need epoch' whatif s.ini -o q
study 'epoch = 3 tokns'
try 2 'give its samples, or its tokens' whatif s.ini -o q
study 'epoch = 1e6' 'epoch.days = -1'
try 2 'epoch.days = -1: give a number above 0' whatif s.ini -o q
study 'gpu = H100, H200'
try 2 "unknown key 'gpu'; did you mean platform.gpu" whatif s.ini -o q
try 2 'cannot read the study again; give a file, not a pipe' whatif <(echo "model = $tiny") -o q
: >s.ini; try 2 's.ini: the study is empty; write lines' whatif s.ini -o q
# Keys that vary together: two points, not four; each software that is listed in one option.
printf '%s\n' "model = $tiny" 'seq = 64' 'engine = data-parallel' 'evals = 1' 'platform.gpu = T4, A100-80GB' 'platform.nodes = 1, 2' 'batch = 16, 32' 'platform.nic_GBps = 5, 25' \
	'together = platform.gpu, platform.nic_GBps; platform.nodes, batch' >s.ini
"$M" whatif s.ini -o t >/dev/null 2>err || { cat err; bad=1; }
cut -d, -f1-5 t/whatif.csv
for w in "platform.gpu, seq:platform.gpu has 2 values, seq 1; give as many" "platform.gpu, bath:the study has no key bath" "batch, batch:batch is named twice" \
	"platform.nodes, batch; platform.gpu, platform.nodes:platform.nodes is named twice"; do
	sed -i "s/^together = .*/together = ${w%%:*}/" s.ini
	try 2 "${w#*:}" whatif s.ini -o u
done
# Both kinds of a mixed cluster, or one: the axis and the devices used are columns of their own, prices are numbers.
printf '%s\n' "model = $tiny" 'seq = 64' 'engine = data-parallel' 'evals = 1' 'batch = 16' 'devices = 0-3, 4-7, 0-7' \
	'platform = gpu=A100-SXM4-80GB*1x4@25Gb/s+L40S*1x4@25Gb/s network=eth nics=1' >s.ini
"$M" whatif s.ini -o both >words 2>err || { cat err; bad=1; }
cut -d, -f2,8 both/whatif.csv
[ -z "$(head -n 1 both/whatif.csv | tr , '\n' | sort | uniq -d)" ] || { head -n 1 both/whatif.csv; bad=1; }
grep -c 'break-even price: devices = .* at \$[0-9.]* a device and hour, not \$[0-9.]*$' words
printf '%s\n' "model = $tiny" 'seq = 64' 'engine = data-parallel' 'evals = 1' 'batch = 16' 'platform = dgx_a100' 'software = each' 'fix = dp=8' >s.ini
"$M" whatif s.ini -o v >words 2>err || { cat err; bad=1; }
grep 'break-even' words && bad=1 # the same machines have one price
[ "$(tail -n +2 v/whatif.csv | cut -d, -f2 | sort)" = "$(grep -l "\"listed\": true" "$ROOT"/platforms/software/*.json | sed "s,.*/,,; s/.json//" | sort)" ] || { cut -d, -f2,3 v/whatif.csv; bad=1; }
# A dry run names the points that are refused with the run's own words, the first one too; answers say how many they leave out.
study 'epoch = 1e12 tokens' 'fix = tp=16, tp=1, tp=2'
"$M" whatif s.ini -o d --dry-run >dry 2>err || cat err
grep -o '^4 of 12 points are refused' err; "$M" whatif s.ini -o d >words 2>err || cat err
python3 - <<'P' || bad=1
import csv
dry, rows = list(csv.DictReader(open("dry"))), list(csv.DictReader(open("d/whatif.csv")))
assert [r["refused"] for r in dry] == [r["plan"] * (r["verdict"] == "refused") for r in rows], dry
assert all(d[k] == r[k] for d, r in zip(dry, rows) for k in ("point", "fix", "platform.gpu")) and dry[0]["refused"], dry
words = open("words").read()
assert words.count("an epoch: platform") == 6 and "an epoch: 2 more points are not listed" in words, words
reasons = {r["refused"] for r in dry} - {""}
assert words.count("no plan: ") == len(reasons), words
P
exit $bad
