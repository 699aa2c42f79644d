. "$ROOT/tests/cli/lib.sh.inc"
# Data that is not even: what is asked for comes through to run.ini and back, and what cannot be is refused.
moe="moe:layers=2,hidden=64,heads=2,kv_heads=2,ffn=64,experts=4,vocab=512"
on="-p dgx1_v100 --batch 8"
"$M" search -m $moe $on -e hybrid --evals 4 --fix ep=4 --fix dp=4 -o s >/dev/null || echo "search fails"
printf '5 3\n2 2 # tokens of each expert\n' >load.txt
"$M" simulate -m $moe $on --expert-load load.txt --expert-capacity 1.5 -P s/plan-1.json -o a >/dev/null || echo "a fails"
"$M" run a/run.ini >b.txt || echo "a/run.ini fails"
"$M" simulate -m $moe $on --expert-load 5,3,2,2 --expert-capacity 1.5 -P s/plan-1.json -o c >/dev/null || echo "c fails"
cmp a/summary.csv c/summary.csv
"$M" simulate -m $moe $on --expert-capacity 2 --expert-pad -P s/plan-1.json -o d >/dev/null || echo "d fails"
cmp -s a/summary.csv d/summary.csv && echo "padding to 2 changes nothing"
printf 'model = %s\nplatform = dgx1_v100\nbatch = 8\nplan = s/plan-1.json\nexpert-load = 1, 1.25, load.txt\n' "$moe" >study.ini
"$M" whatif study.ini -o study >/dev/null || echo "whatif fails"
awk -F, 'NR == 1 || $3 != "\"ok\"" && $3 != "ok" { print $1, $2, $3 }' study/whatif.csv
awk -F, 'NR > 2 && !($4 > last) { print "no slower with more" } { last = $4 }' study/whatif.csv
# Documents: one seed, one answer; shorter ones take less; run.ini brings them back.
llama="-m llama:layers=2,hidden=256,heads=4,kv_heads=4,vocab=512 --seq 2048 $on"
"$M" search $llama -e data-parallel --evals 1 -o l >/dev/null || echo "search fails"
for d in 2048 lognormal:300:1 512; do # 2048, 300 e, 512
	"$M" simulate $llama --sequence-packing $d -P l/plan-1.json -o l-$d >l-$d.txt || echo "$d fails"
	awk -F, 'NR > 1 { print $1 }' l-$d/summary.csv
done | awk 'NR > 1 && !($1 < last) { print "no faster with shorter documents" } { last = $1 }'
"$M" simulate $llama -P l/plan-1.json >whole.txt; cmp whole.txt l-2048.txt
"$M" run l-lognormal:300:1/run.ini >again.txt || echo "run.ini fails"
diff again.txt l-lognormal:300:1.txt
"$M" simulate $llama --sequence-packing lognormal:300:1 --seed 2 -P l/plan-1.json | cmp -s - again.txt && echo "another seed draws the same"
# A head as heavy as several layers has the last stage to itself.
head="-m gpt:layers=6,hidden=512,heads=8,vocab=200000,seq=1024 -p dgx1_v100 --batch 32"
"$M" search $head --software megatron-core --fix pp=4 --fix tp=1 --fix dp=2 -e refine --evals 20 -o h >/dev/null || echo "search fails"
"$M" export h/plan-1.json $head --to megatron | grep -q 'layout "E.*|L"' || echo "the last stage has layers"
try 2 'lognormal:MEAN:SIGMA' simulate $llama --sequence-packing lognormal:1 -P l/plan-1.json
try 2 'has no sequences' search -m resnet50 $on --sequence-packing 100 -o e
try 2 'has 4 in a layer' simulate -m $moe $on --expert-load 1,2,3 -P s/plan-1.json -o e
try 2 "has no experts" search -m $tiny $on --expert-load 1.5 -o e
try 2 'give --expert-capacity too' search -m $moe $on --expert-pad -o e
try 2 'no fewer tokens than the mean' search -m $moe $on --expert-load 0.5 -o e
try 2 "load.bad:2: 'x' is no number" search -m $moe $on --expert-load "$(printf '1\nx\n' >load.bad; echo load.bad)" -o e
try 2 "torchtitan has no setting for experts' capacity" search -m $moe -p hgx_h100_ib --batch 8 --software torchtitan --expert-capacity 2 -o e
finish
