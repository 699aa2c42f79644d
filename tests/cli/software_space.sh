. "$ROOT/tests/cli/lib.sh.inc"
# Training software bounds the plans: what it cannot run is invalid with the reason, engines that have nothing
# else are refused, the others propose what it runs; runs_in says who runs a plan, and what is ok exports.
model=llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=1024,vocab=512,seq=2048
ask=(-m $model -p dgx1_v100 --batch 16)
# One plan: a schedule that only the generic software has.
"$M" search "${ask[@]}" -e random --fix schedule=zb-h1 --fix pp=2 --fix dp=4 --evals 4 --top 1 -j 1 -o zb >/dev/null
"$M" simulate "${ask[@]}" -P zb/plan-1.json -o zb/sim >/dev/null || bad=1
try 2 'invalid: megatron-core runs the schedules interleaved or 1f1b, not zb-h1' simulate "${ask[@]}" -P zb/plan-1.json --software megatron-core -o zb/m
try 2 'torchtitan trains in bf16 or fp32, not fp16' simulate "${ask[@]}" -P zb/plan-1.json --software torchtitan -o zb/t
head -n 1 zb/candidates.csv | grep -q ',plan,cp,ep,virtual,sync,runs_in$' || { head -n 1 zb/candidates.csv; bad=1; }
tail -n +2 zb/candidates.csv | grep -qv ',-$' && { echo "zb-h1 runs somewhere:"; cat zb/candidates.csv; bad=1; }
# Usual plans, and those that moves begin at, have the schedule that is asked for; one stage has those of one chunk.
for schedule in zb-h1 zbv; do
	for engine in refine screen; do
		"$M" search "${ask[@]}" -e $engine --fix schedule=$schedule --evals 4 --top 1 -j 1 -o $engine-$schedule >moves.txt || { cat moves.txt; bad=1; }
		grep ',invalid,' $engine-$schedule/candidates.csv && bad=1
	done
done
"$M" search "${ask[@]}" -e refine --fix schedule=gpipe --fix pp=2 --evals 4 --top 1 -j 1 -o moves >moves.txt || { cat moves.txt; bad=1; }
# Data parallelism runs nearly everywhere; the table and the file agree.
"$M" search "${ask[@]}" -e data-parallel --evals 2 --top 1 -j 1 -o dp >dp.txt
grep -q 'plan  *runs in$' dp.txt || { cat dp.txt; bad=1; }
all='ddp deepspeed megatron-core megatron-deepspeed megatron-lm-2021 nanotron'
grep -q "  $all\$" dp.txt || { cat dp.txt; bad=1; }
sed -n 2p dp/candidates.csv | grep -q "$all" || { cat dp/candidates.csv; bad=1; }
# Engines whose plans the software does not run.
try 2 "engine 'ip' proposes plans that are not dp x tp x pp of one kind, which megatron-core does not run; use --software generic" \
	search "${ask[@]}" -e ip --software megatron-core -o no
try 2 "engine 'heft' proposes placements of single ops, which deepspeed does not run" search "${ask[@]}" -e heft --software deepspeed -o no2
try 2 "placements of single ops" search "${ask[@]}" -e random:space=placement --software fsdp -o no3
try 2 "runs no 'resnet50.*another --software" search -m resnet50 -p dgx1_v100 --batch 64 --software megatron-core -o no4
"$M" search "${ask[@]}" -e all --evals 2 -j 1 --software megatron-core -o all >all.txt || bad=1
[ "$(grep -c 'which megatron-core does not run; use' all.txt)" -ge 15 ] || { cat all.txt; bad=1; }
"$M" search "${ask[@]}" -e portfolio --evals 4 -j 1 --software megatron-core -o folio >folio.txt || bad=1
grep -qE '^portfolio: without [a-z]+, .*\bdpl\b.*: each proposes plans that are not' folio.txt || { cat folio.txt; bad=1; }
# A program's plans are held against the software as any others.
cat >one.sh <<'S'
read -r hello; echo "$hello" >hello.json; echo '{"ready": true}'; n=0
while read -r line; do case $line in
*propose*) n=$((n + 1)); case $n in
	1) echo '{"shape": {"dp": 4, "tp": 2, "micro_batches": 4, "sync": "zero3"}}' ;;
	2) echo '{"shape": {"dp": 4, "tp": 2, "micro_batches": 4, "sync": "ps"}}' ;;
	*) echo '{"done": true}' ;; esac ;;
*stop*) exit ;; esac; done
S
"$M" search "${ask[@]}" --dtype fp32 -e "exec:bash one.sh" -j 1 --software torchtitan -o exec >/dev/null 2>&1
[ "$(tail -n +2 exec/candidates.csv | cut -d, -f4 | tr '\n' ' ')" = "ok invalid " ] || { cat exec/candidates.csv; bad=1; }
grep -q '"software":{"name":"torchtitan"' hello.json || { echo 'the program is not told the software'; bad=1; }
# What is ok under a software exports to it, on mixed machines too.
"$M" platform generate 'gpu=A100-SXM4-40GB*1x4+V100-32GB*1x4@3.125' -o mixed.xml >/dev/null 2>&1
n=0
for s in megatron-core torchtitan deepspeed; do for e in random hybrid; do for p in dgx1_v100 mixed.xml; do
	with=(-m $model -p $p --batch 16 --dtype fp32 --software $s)
	"$M" search "${with[@]}" -e $e --evals 8 --top 5 -j 1 -o "$s-$e" >/dev/null 2>&1
	tail -n +2 "$s-$e/candidates.csv" | grep -q ',invalid,' && { echo "$s $e $p proposes what it does not run"; bad=1; }
	for f in "$s-$e"/plan-*.json; do n=$((n + 1))
		"$M" export "$f" "${with[@]}" --to "${s%-core}" >out.txt 2>err.txt || { cat out.txt; bad=1; }
	done
	"$M" export "$f" -m $model -p $p --batch 16 --dtype fp32 --to "${s%-core}" 2>/dev/null | cmp -s - out.txt || { echo "$s is not the default"; bad=1; }
	rm -rf "$s-$e"
done; done; done
[ $n -ge 50 ] || { echo "only $n plans"; bad=1; }
# Flags are the software's own.
"$M" search "${ask[@]}" -e data-parallel --evals 1 --top 1 -j 1 --software megatron-core -o mc >/dev/null
"$M" export mc/plan-1.json "${ask[@]}" --to megatron >mc.sh
grep -q -- '--overlap-grad-reduce' mc.sh && grep -q -- '--transformer-impl transformer_engine' mc.sh || { cat mc.sh; bad=1; }
"$M" export mc/plan-1.json "${ask[@]}" --to megatron --software megatron-core,overlap_grads=0,bucket_MB=100 >mc.sh
grep -q -- '--overlap-grad-reduce' mc.sh && { cat mc.sh; bad=1; }
grep -q -- '--ddp-bucket-size 25000000' mc.sh || { cat mc.sh; bad=1; }
"$M" export mc/plan-1.json "${ask[@]}" --to deepspeed | grep -q '"reduce_bucket_size": 500000000' || bad=1
try 2 'not the settings of --software fsdp; leave it out \(megatron-core\)' export mc/plan-1.json "${ask[@]}" --to megatron --software fsdp
try 2 'not the settings of --software torchtitan' export mc/plan-1.json "${ask[@]}" --to megatron --software torchtitan
# Ranks that go through a replica's stages first, and ends of their own length, there and back.
printf '%s\n' "--pipeline-model-parallel-size 2" "--tensor-model-parallel-size 2" --use-tp-pp-dp-mapping \
	"--decoder-first-pipeline-num-layers 3" >in.sh
"$M" platform generate 'gpu=V100-SXM2-16GB*2x4' -o two.xml >/dev/null 2>&1
two=(-m $model -p two.xml --batch 16)
"$M" export --import in.sh "${two[@]}" -o a.json >/dev/null || bad=1
"$M" export a.json "${two[@]}" --to megatron -o a.sh || bad=1
grep -q -- '--use-tp-pp-dp-mapping' a.sh && grep -qF '"Et*3|t*5L"' a.sh || { cat a.sh; bad=1; }
"$M" export --import a.sh "${two[@]}" -o b.json >/dev/null; cmp a.json b.json || bad=1
echo --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping --overlap-grad-reduce >in.sh
"$M" export --import in.sh "${two[@]}" -o c.json >/dev/null
try 2 'numbers ranks stage by stage, machine by machine' export c.json "${two[@]}" --dtype fp32 --to torchtitan
try 2 'that does not divide' export --import <(echo --pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 3) "${two[@]}" -o x.json
# A space is data: unknown keys and words are errors with the file's name.
sed 's/"schedules": \["1f1b", "interleaved"\]/"schedules": ["2f2b"]/' "$ROOT/platforms/software/megatron-core.json" >odd.json
try 2 'odd.json: "runs": schedules has no .2f2b' list software ./odd.json
sed 's/"uneven_stages"/"uneven"/' "$ROOT/platforms/software/megatron-core.json" >odd.json
try 2 "'uneven' in \"runs\" is unknown; there are schedules" list software ./odd.json
sed 's/"models": "one-width"/"models": "wide"/' "$ROOT/platforms/software/megatron-core.json" >odd.json
try 2 'any, layers, one-width or llama-like' list software ./odd.json
finish
