. "$ROOT/tests/cli/lib.sh.inc"
# Engines that learn: killed at any moment, the same command comes to the same plans and the same learning
# curve; training writes weights that a search can start from; where nothing fits they make room or say why.
export OPENBLAS_NUM_THREADS=1
args=(-m $tiny --batch 16 -p cloud_v100_t4 --evals 160 --seed 7
	-e post:samples=16,every=8 -e hsdag:width=16 -e tag -e automap:width=16,replay_batch=8)
"$M" search "${args[@]}" -j 2 -o whole >/dev/null || echo "search fails"
for curve in post,.*,entropy hsdag,.*,clusters tag,.*,cross_entropy_nats automap,.*,td_loss; do
	grep -q "^$curve," whole/learning.csv || echo "no learning curve $curve"
done
for delay in 0.1 0.4 0.8; do
	rm -rf part
	setsid "$M" search "${args[@]}" -j 2 -o part >/dev/null 2>&1 & pid=$!
	sleep $delay; kill -9 -- -$pid 2>/dev/null; wait $pid 2>/dev/null
	"$M" search "${args[@]}" -j 1 -o part >/dev/null || echo "does not resume after $delay s"
	for f in candidates.csv learning.csv plan-1.json; do cmp whole/$f part/$f || bad=1; done
done
"$M" search -m $tiny --batch 16 -p cloud_v100_t4 --evals 160 -e tag:gnn=false,records=rec -o uniform >/dev/null || bad=1
"$M" solve rec -e tag:save=w,epochs=2 >said || echo "training fails"
grep -c '^epoch .* on questions kept apart$' said
"$M" search -m $tiny --batch 16 -p cloud_v100_t4 --evals 20 -e tag:weights=w -o warm >/dev/null || echo "weights are of no use"
sed -i 's/maquette-tag-record 1 /maquette-tag-record 2 /' rec
try 2 'record 0 is broken or of another version' solve rec -e tag:save=w
try 2 'weights=none starts without training' search -m $tiny --batch 16 -p cloud_v100_t4 -e tag:width=16 -o x
try 2 'cannot write /nowhere/w' search -m $tiny --batch 16 -p cloud_v100_t4 -e tag:save=/nowhere/w -o x
# A question of which no placement of the whole batch fits: all find room by accumulation.
for e in cem hsdag tag; do
	"$M" search -m llama:size=8b,layers=12 --seq 4096 --batch 128 --dtype bf16 -p hgx_h100_ib_2 --evals 40 -e $e -o "big-$e" |
		grep -o "^$e: .* does not fit" || echo "$e says nothing"
	[ -s "big-$e/plan-1.json" ] || echo "$e leaves no plan"
done
# Where only model parallelism fits, and only with fewer samples at once than devices, tag leaves out what they do not go into.
"$M" search -m gpt:layers=24,hidden=2048,heads=16 --batch 64 -p cloud_v100_t4 --evals 4 -e tag -o few >/dev/null || echo "tag finds no plan"
# And one where not even that helps: it says so.
try 2 'places whole ops: with 8 micro-batches' search -m llama:size=70b --seq 4096 --batch 8 --dtype fp16 -p dgx1_v100 --evals 10 -e cem -o none
finish
