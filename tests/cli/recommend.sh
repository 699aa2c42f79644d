. "$ROOT/tests/cli/lib.sh.inc"
# The fewest machines of each device type that train so many tokens in time, and their price: as a study of all counts says.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
ask=(-m "$tiny" --seq 64 --batch 64 -e data-parallel --evals 2)
printf '%s\n' "model = $tiny" 'seq = 64' 'batch = 64' 'engine = data-parallel' 'evals = 2' 'epoch = 1e11 tokens' \
	'platform.gpu = T4:gpus=1, X1:tflops=500 gpus=1 price_per_h=3' 'platform.nodes = 1, 2, 3, 4, 5, 6, 7, 8' >all.ini
"$M" whatif all.ini -o all >/dev/null 2>&1 || bad=1
cat >check.py <<'P'
import csv, sys
f = lambda r, k: float(r[k] or "nan")
every = list(csv.DictReader(open("all/whatif.csv"))); said = {r["platform.gpu"]: r for r in csv.DictReader(open(sys.argv[1] + "/recommend.csv"))}
days, most = float(sys.argv[2]), float(sys.argv[3])
for gpu in {r["platform.gpu"] for r in every}:
    does = [r for r in every if r["platform.gpu"] == gpu and f(r, "epoch_s") <= 86400 * days]
    least = min(does, key=lambda r: int(r["platform.nodes"]), default=None)
    assert (gpu in said) == bool(least), (gpu, least, said)
    if least:
        for k in ("platform.nodes", "devices", "plan", "step_time_s", "usd_per_epoch", "assumed"): assert said[gpu][k] == least[k], (gpu, k, said[gpu], least)
tried = list(csv.DictReader(open(sys.argv[1] + "/tried.csv")))
print(len(said), "of 2 types do,", len(tried), "points tried:", " ".join(r["platform.nodes"] for r in tried))
P
python3 - <<'P' >days || bad=1
import csv
t4 = sorted(float(r["epoch_s"]) / 86400 for r in csv.DictReader(open("all/whatif.csv")) if r["platform.gpu"].startswith("T4"))
print(t4[2] * 1.01, t4[0] * 1.0001) # what three machines do of them, and the most
P
read -r three most <days
gpus='T4:gpus=1, X1:tflops=500 gpus=1 price_per_h=3'
for d in $three $most; do
	"$M" recommend "${ask[@]}" --gpu "$gpus" --target "days=$d tokens=1e11" -o r >said.txt 2>&1 || { cat said.txt; bad=1; }
	python3 check.py r $d inf || bad=1
	grep -q '^fewest devices: .*; least money: ' said.txt && grep -q '^X1:.*; assumed: X1: ' said.txt &&
		grep -q '^T4:.*; nearest of the others: [0-9]* machines take' said.txt || { cat said.txt; bad=1; }
	rm -r r
done
# The same as a rate; a budget that nothing keeps; JSON has the rows.
rate=$(python3 -c "print(1e11 / $three)")
"$M" recommend "${ask[@]}" --gpu "$gpus" --target "tokens/day=$rate" --json -o j >j.json 2>words || bad=1
python3 -c 'import json; d = json.load(open("j.json")); assert len(d["recommend"]) == 2 and d["recommend"][0]["trust"] is not None, d' || bad=1
grep -q 'tokens a day, 80 % within' words || { cat words; bad=1; }
try 1 'no device type keeps .* within the budget' recommend "${ask[@]}" --gpu T4 --target "days=$three tokens=1e11" --budget .0001 -o b
try 1 '^T4: no: .*at most 512; give leaf= or pod=' recommend "${ask[@]}" --gpu T4 --target "days=.0001 tokens=1e15" --simulation-time 1 -o n
# where more are no faster, not all counts up to 4,096 are searched
try 1 '^T4:gpus=1: no: 4 machines take .* days, the next 4 counts tried no less' recommend "${ask[@]}" --gpu T4:gpus=1 --target tokens/day=1e12 -o more
[ "$(wc -l <more/tried.csv)" = 7 ] || { cat more/tried.csv; bad=1; }
# what cannot be asked
try 2 'all/whatif.csv: results of another command; choose another -o' recommend "${ask[@]}" --gpu T4 --target tokens/day=1e9 -o all
try 2 'give tokens/day=N, or both of days=N tokens=N' recommend "${ask[@]}" --gpu T4 --target tokens=1e9 -o q
try 2 "'tokns=3': write tokens/day=N" recommend "${ask[@]}" --gpu T4 --target tokns=3 -o q
try 2 'gpu=T5: no such device type' recommend "${ask[@]}" --gpu T5 --target tokens/day=1e9 -o q
try 2 'q/study.ini: lists are for --gpu alone' recommend "${ask[@]}" --gpu T4 --change device.T4.price_per_h=1,2 --target tokens/day=1e9 -o q
try 2 'compares the devices of --gpu' recommend "${ask[@]}" -p dgx1_v100 --gpu T4 --target tokens/day=1e9 -o q
try 2 '^maquette recommend: --gpu is missing' recommend "${ask[@]}" --target tokens/day=1e9 -o q
try 2 '^maquette recommend: --gpu is missing' recommend "${ask[@]}" --gpu ' ' --target tokens/day=1e9 -o q
[ -s n/report.html ] && grep -q 'All that was tried' n/report.html || { echo "no page where there is no answer"; bad=1; }
# --fix and --change are kept, in the study too: its point is the same
"$M" recommend -m "$tiny" --seq 64 --batch 64 --gpu T4:gpus=2 --target "tokens/day=1e6" --fix tp=2 --fix dp=1 --change device.T4.price_per_h=1 -o f >said.txt 2>&1 || { cat said.txt; bad=1; }
grep -q 'at \$1 a device and hour; dp 1 tp 2' said.txt || { cat said.txt; bad=1; }
grep -qx 'fix = tp=2 dp=1' f/study.ini || { cat f/study.ini; bad=1; }
sed -i 's/^platform.nodes = .*/platform.nodes = 1/' f/study.ini
"$M" whatif f/study.ini -o w >/dev/null || bad=1
python3 -c 'import csv; a, b = (next(csv.DictReader(open(f))) for f in ("f/tried.csv", "w/whatif.csv")); assert a["plan"] == b["plan"] and a["step_time_s"] == b["step_time_s"], (a, b)' || bad=1
# The engine that recommend asks leaves less than half of equal machines idle where their number divides no batch, and more are never slower.
printf '%s\n' 'model = llama:layers=4,hidden=256,heads=8,vocab=1000' 'seq = 128' 'batch = 512' 'engine = expert' 'evals = 4' \
	'platform.gpu = H100-SXM-80GB' 'platform.nodes = 3, 5, 7, 9, 11, 13, 16' >odd.ini
"$M" whatif odd.ini -o odd >/dev/null 2>&1 || bad=1
python3 - <<'P' || bad=1
import csv
rows = list(csv.DictReader(open("odd/whatif.csv")))
for r, more in zip(rows, rows[1:] + rows[-1:]):
    assert int(r["devices"]) > 4 * int(r["platform.nodes"]), r
    assert float(more["samples_per_s"]) > .99 * float(r["samples_per_s"]), (r, more)
P
# Nor where the batch has no sample for each: replicas of FSDP leave the others idle.
printf '%s\n' 'model = llama:size=8b' 'seq = 4096' 'batch = 16' 'software = fsdp' 'engine = expert' 'evals = 8' \
	'platform.gpu = H100-SXM-80GB' 'platform.nodes = 2, 4' >few.ini
"$M" whatif few.ini -o few >/dev/null 2>&1 || bad=1
python3 -c 'import csv; r = list(csv.DictReader(open("few/whatif.csv"))); assert {x["devices"] for x in r} == {"16"} and {x["dp"] for x in r} == {"16"}, r' || bad=1
python3 -c 'import csv; assert next(csv.DictReader(open("f/tried.csv")))["engine"] == "portfolio"' || bad=1
# Of four NVLink domains of 72, the 256 devices that degrees divide.
"$M" search -m llama:layers=16,hidden=1024,heads=16 --seq 512 --batch 256 -p 'gpu=GB200 fabric=nvl72 gpus=4 nodes=72' --software megatron-core --fix pp=8 --fix tp=4 \
	-e expert --evals 1 -o racks >said.txt 2>&1 && grep -q 'plan 1 uses 256 of 288 devices' said.txt || { cat said.txt; bad=1; }
# Seven machines, whose number divides no batch of eight, would do were they as fast as eight: said, with a remedy.
"$M" recommend -m llama:layers=2,hidden=2048,heads=16,vocab=1000 --seq 8192 --batch 8 -e data-parallel --evals 2 --gpu 'H100:gpus=1 nic_GBps=100' \
	--target 'days=0.75 tokens=1e11' -o odder | grep -q 'nearest of the others: .* by worse plans per device: --evals 8 may find better$' || bad=1
finish
