. "$ROOT/tests/cli/lib.sh.inc"
# Training software as an input of every question: what there is, where each value comes from, what is refused; it
# is in every job file, an axis of studies, and a new one is one JSON file.
shipped=$ROOT/platforms/software
# Every file is listed, by name and in words.
"$M" list software >all.txt || bad=1
for f in "$shipped"/*.json; do grep -q "^$(basename "$f" .json) " all.txt || { echo "not listed: $f"; bad=1; }; done
[ "$(wc -l <all.txt)" -eq "$(ls "$shipped"/*.json | wc -l)" ] || { echo "more lines than files"; bad=1; }
# One of them: every field once, each with where it is from; plans it runs.
"$M" list software generic >one.txt || bad=1
sed '/^plans it runs/,$d' one.txt >fields.txt
"$M" list parameters | sed -n '/^### Training software/,$p' | sed -n 's/^| `\([a-z_0-9A-Z]*\)`.*/\1/p' >names.txt
[ "$(wc -l <names.txt)" -gt 40 ] || { echo "few fields: $(cat names.txt)"; bad=1; }
while read -r field; do
	[ "$(grep -cE "^  $field .*(default|documented|counted|fitted \(.*\)): " fields.txt)" -eq 1 ] || { echo "not once: $field"; bad=1; }
done <names.txt
grep -A 1 '^plans it runs' one.txt
try 2 "no training software 'megatron-cor'; did you mean 'megatron-core'" list software megatron-cor
# a trainer without a file says what describes its runs, and that is there
"$M" list software | cut -d' ' -f1 >there
sed -n 's/^X("\([^"]*\)", "\([a-z0-9.-]*\).*/\1 \2/p' "$ROOT"/sim/software/software_other_names.def | while read -r name described; do
	grep -qx "$described" there && ! grep -qx "$name" there || echo "$name: $described"; done
try 2 "no training software 'torchtune': its runs are described by fsdp" list software torchtune
try 2 "no training software 'Alpa': its kernels are not described here" list software Alpa
try 2 'no training software .unheard-of.; there are: amp' list software unheard-of
# The same words everywhere.
ask=(-m $tiny --batch 16 -p dgx1_v100)
for c in "search -e expert --evals 1 -o x" "simulate -P none.json -o x" "diff a.json b.json" "export a.json --to megatron" model; do
	try 2 "no training software 'megatron-cor'; did you mean 'megatron-core'" $c "${ask[@]}" --software megatron-cor; done
try 2 "software generic: software has no 'trafic'; did you mean 'traffic'" search "${ask[@]}" --software generic,trafic=2 -o x
try 2 'traffic=99 is out of range; give 0.1 to 20' search "${ask[@]}" --software generic,traffic=99 -o x
try 2 'attention=flash is not one of stored\|eager\|masked-softmax\|xla' search "${ask[@]}" --software generic,attention=flash -o x
try 2 "'traffic' is not KEY=VALUE" search "${ask[@]}" --software generic,traffic -o x
[ -e x ] && { echo "a refused question leaves a folder"; bad=1; }
# A new one is a file: by its path, and by its name where it lies among the others. What it does not say is its
# parent's; each value says from whom, an option that it is one.
cat >mine.json <<J
{"maquette_software": 1, "inherits": "generic", "about": "made up for a test",
 "traffic": {"value": 5.2, "from": "fitted", "source": "a fit", "rows": "two rows", "interval": [5, 6]},
 "overlap_grads": {"value": 0, "from": "documented", "source": "its manual"},
 "host": {"value": 1, "from": "counted", "source": "its source"}}
J
"$M" list software "mine.json,loss_B=11" | grep -E '^(mine|inherits|  (traffic|overlap_grads|host|loss_B|elementwise_fusion) )'
"$M" list software mine.json | grep '^  bucket_MB ' | grep -o '(generic)$'
"$M" model -m $tiny --batch 1 --dtype fp16 --software mine.json --csv fused.csv >/dev/null &&
	"$M" model -m $tiny --batch 1 --dtype fp16 --software mine.json,attention=stored --csv stored.csv >/dev/null || bad=1
for f in fused stored; do awk -F, -v f=$f '/attention/ { print f, $17; exit }' $f.csv; done # bytes kept of a layer
"$M" search "${ask[@]}" -e expert --evals 4 -o generic >/dev/null || bad=1
"$M" search "${ask[@]}" -e expert --evals 4 --software mine.json -o mine >/dev/null || bad=1
grep -h '^software' generic/run.ini mine/run.ini
"$M" simulate "${ask[@]}" -P generic/plan-1.json >g.txt || bad=1
"$M" simulate "${ask[@]}" -P generic/plan-1.json --software ./mine.json,traffic=1,overlap_grads=1 >same.txt || bad=1
answer() { grep -v -E '^(trust: |       )' "$1"; } # the nearest measured runs are those of the software by its name
diff <(answer g.txt) <(answer same.txt) || bad=1
"$M" simulate "${ask[@]}" -P generic/plan-1.json --software mine.json -o slow >slow.txt || bad=1
cmp -s g.txt slow.txt && { echo "traffic and overlap change nothing"; bad=1; }
# The job file asks the same again, with the software in it.
"$M" run slow/run.ini -o again >again.txt || bad=1
diff <(answer slow.txt) <(answer again.txt) && cmp slow/summary.csv again/summary.csv || bad=1
# Among the others: the program finds what lies in the folder of its own platforms, loops of inheritance too.
mkdir -p tree/build; cp -r "$ROOT/platforms" tree/platforms; cp "$M" tree/build/maquette; cp mine.json tree/platforms/software
tree/build/maquette list software | grep >/dev/null '^mine ' || { echo "a new file is not found"; bad=1; }
tree/build/maquette simulate "${ask[@]}" -P generic/plan-1.json --software mine >tree.txt 2>/dev/null
diff <(answer tree.txt) <(answer slow.txt) || bad=1
for pair in a:b b:c c:a; do
	printf '{"maquette_software": 1, "about": "x", "inherits": "%s"}' "${pair#*:}" >"tree/platforms/software/${pair%:*}.json"; done
M=tree/build/maquette try 2 "a.json: inherits 'b': .*c.json: inherits 'a', which inherits it: a loop" list software a
# A changed file is another question: a search's old rows do not stand.
"$M" search "${ask[@]}" -e expert --evals 4 --software mine.json -o mine | head -n 1
sed -i 's/"value": 5.2/"value": 5.3/' mine.json
try 2 'mine: its plans were judged with another model, platform, calibration, software or program' \
	search "${ask[@]}" -e expert --evals 4 --software mine.json -o mine
# Terms of a difference, settings: under the software that is asked for.
"$M" diff generic/plan-1.json mine/plan-1.json "${ask[@]}" --software megatron-core >/dev/null || bad=1
for s in generic megatron-core,overlap_grads=0,bucket_MB=80; do
	"$M" export generic/plan-1.json "${ask[@]}" --to megatron --software $s | grep -oE -- '--(overlap-grad-reduce|ddp-bucket-size [0-9]+)' | tr '\n' ' '
	echo "with $s"; done
# An axis of a study, with options of its own; rows are what simulate says.
cat >s.ini <<INI
model = $tiny
batch = 16
platform = dgx1_v100
software = generic, megatron-core,traffic=2; deepspeed
plan = generic/plan-1.json
INI
"$M" whatif s.ini -o study >/dev/null || bad=1
python3 - <<'P' || bad=1
import csv
for r in csv.DictReader(open("study/whatif.csv")): print(r["point"], r["software"], r["verdict"])
P
for s in generic megatron-core,traffic=2 deepspeed; do
	rm -rf one; "$M" simulate "${ask[@]}" -P generic/plan-1.json --software $s -o one >/dev/null
	tail -n 1 one/summary.csv | cut -d, -f1; done >want.txt
python3 -c 'import csv
for r in csv.DictReader(open("study/whatif.csv")): print(r["step_time_s"])' | cmp - want.txt || bad=1
# Tables of runs: a column, any field as a column, or an option for rows that name none.
cat >runs.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,mbs,gbs,step_time_s,software,software_options,traffic
a,GPT,4,512,8,512,8192,A100-80GB,8,8,bf16,1,1,1,16,1,,,
b,GPT,4,512,8,512,8192,A100-80GB,8,8,bf16,1,1,1,16,1,fsdp,norm=eager,4
CSV
"$M" score runs.csv -j 1 -o s1 >/dev/null && "$M" score runs.csv -j 1 --software megatron-core,host=1 -o s2 >/dev/null || bad=1
python3 - <<'P' || bad=1
import csv
for d in "s1", "s2":
    for r in csv.DictReader(open(d + "/score.csv")): print(d, r["row_id"], r["verdict"], r["software"])
P
try 2 "no training software 'deespeed'; did you mean 'deepspeed'" score runs.csv --software deespeed -o s3
finish
