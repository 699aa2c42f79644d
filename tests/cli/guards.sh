. "$ROOT/tests/cli/lib.sh.inc"
# Inputs without an end, numbers without sense, outputs that are inputs: one line, nothing lost, memory bounded.
ulimit -v 4000000
question=(-m $tiny -p dgx1_v100 --batch 8)
"$M" search "${question[@]}" -e data-parallel --evals 2 -o p >/dev/null || echo "search fails"
cp p/plan-1.json plan.json
try 2 'zero bytes' platform import /dev/zero -o x.xml
try 2 'zero bytes' run /dev/zero
try 2 'zero bytes' simulate "${question[@]}" -p /dev/zero -P plan.json -o s
yes '<topology>' | head -c 20000000 >long.xml
try 2 'more than 16 MB' platform import long.xml -o x.xml
cat >many.xml <<'X'
<?xml version='1.0'?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<cluster id="c" prefix="g" suffix="" radical="1,5-9,10-9999999" speed="1Tf" bw="1GBps" lat="0s"/></platform>
X
try 2 'have 9999996 hosts; at most 200000' platform check many.xml
try 2 'have 9999996 hosts' simulate "${question[@]}" -p many.xml -P plan.json -o s
{ echo '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1"><zone id="z" routing="Full">'
seq -f '<host id="h%.0f" speed="1f"/>' 28000
echo '<link id="l" bandwidth="1GBps" latency="0s"/><route src="h1" dst="h2"><link_ctn id="l"/></route></zone></platform>'; } >square.xml # 800 kB
try 2 'square.xml: more than [0-9]* MB are needed to load it' platform check square.xml
try 2 'square.xml: more than [0-9]* MB are needed to load it' simulate "${question[@]}" -p square.xml -P plan.json -o s
(ulimit -v 1500000; try 0 '' platform import "$ROOT/tests/corpus/hwloc/huge.xml" -o x.xml) # one number in it is a set of 4e9 bits

# A trace that unpacks to far more than any does.
{ printf '{"traceEvents":['; yes '{"ph":"X","cat":"kernel","ts":1,"name":"k"},' | head -n 1000000; printf '{}]}'; } | gzip >bomb.json.gz
try 2 'bomb.json.gz: unpacks to more than 100 times its size' calibrate --from bomb.json.gz --type X -o x.json

# Tables without an end or of nothing but rows; numbers in them that no machine has.
for table in "score" "score --gemm" "score --collectives" "fit --free ib.bw_share"; do
	try 2 'zero bytes' $table /dev/zero -o s
done
try 2 'no engine knows this kind of file' solve /dev/zero
try 2 '/dev/zero: .*zero bytes' simulate "${question[@]}" -P /dev/zero -o s
try 2 '/dev/zero: .*zero bytes' simulate "${question[@]}" --calib /dev/zero -P plan.json -o s
{ printf 'row_id,model,gpu,gpus,gbs%0*d\n' 300000 0 | tr 0 ,; yes a | head -n 200000; } >wide.csv # 800 kB
try 2 'wide.csv: 300005 columns; at most 4096' score wide.csv -o s
{ printf 'row_id,model,gpu,gpus,gbs%0*d\n' 4000 0 | tr 0 ,; yes a | head -n 200000; } >long.csv
try 2 'long.csv: 200000 rows; at most 20000' score long.csv -o s
row() { printf 'row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,mbs,gbs,step_time_s\n%s\n' "x,GPT,2,64,2,64,512,A100-80GB,$1" >row.csv; try 0 "$2" score row.csv -o s; }
row 4294967296,8,fp16,1,1,1,16,1 '4.29497e\+09 GPUs are more than'
row 8,4294967296,fp16,1,1,1,16,1 'gpus_per_node 4.29497e\+09 is no whole number from 1 to 1048576'
row 8,8,fp16,1,1e9,1,16,1 'pp 1e\+09 is no whole number'
row 8,8,fp16,1.5,1,1,16,1 'tp 1.5 is no whole number'

row 8,8,fp16,1,1,1e-300,16,1 'micro-batches; at most 16777216'
printf 'model = %s\nlink.network.bw = 5..2+0.5\n' "$tiny" >empty.ini
try 2 'empty.ini: link.network.bw = 5..2.0.5 has no value' whatif empty.ini -o w0

for out in plan.json ./plan.json "$PWD/plan.json"; do
	try 2 'would overwrite plan.json' export plan.json "${question[@]}" --to megatron -o "$out"
	try 2 'would overwrite plan.json' simulate "${question[@]}" -P plan.json -o s --trace "$out"
	try 2 'would overwrite plan.json' simulate "${question[@]}" -P plan.json -o s --schedule "$out"
done
try 2 'both t.json' simulate "${question[@]}" -P plan.json -o s --schedule t.json --trace t.json
cmp plan.json p/plan-1.json || bad=1
cp "$ROOT/tests/corpus/hwloc/two.xml" machine.xml
try 2 'would overwrite machine.xml' platform import machine.xml -o ./machine.xml
cmp "$ROOT/tests/corpus/hwloc/two.xml" machine.xml || bad=1
sed 's/fp16/fp32/g' "$ROOT/tests/corpus/schedule/pipeline.jsonl" >s.jsonl; cp s.jsonl before.jsonl
"$REPLAY" --local 4 --oversubscribe s.jsonl -o "$PWD/s.jsonl" 2>&1 | grep -q 'would overwrite the schedule s.jsonl' || bad=1
"$REPLAY" --dry-run /dev/zero 2>&1 | grep -q 'not a regular file' || bad=1
cmp s.jsonl before.jsonl || bad=1

flags() { echo "$1" >flags.sh; try 2 "$2" export --import flags.sh "${question[@]}" -o i.json; }
flags '--tensor-model-parallel-size 2 --context-parallel-size 2147483648' 'no multiple of tp 2 x pp 1 x cp 2147483648'
flags '--tensor-model-parallel-size 65536 --pipeline-model-parallel-size 65536' 'no multiple of tp 65536'
flags '--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2147483648' 'no multiple of 4294967296'
flags '--nnodes 65536 --nproc-per-node 65536' 'more than there can be'
flags "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*18446744073709551615|L'" 'needs a number'
flags "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'E$(printf %0*d 60000 0 | tr 0 '(')'" 'in each other'
flags '--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 4294967295 --decoder-last-pipeline-num-layers 3' 'does not divide'
flags '--num-distributed-optimizer-instances 4294967295' 'do not divide dp x cp = 8'

printf '#!/bin/sh\nexec sleep 30\n' >slow.sh; chmod +x slow.sh
try 4 'no answer to request 1 when its share of --seconds was used' search "${question[@]}" -e exec:./slow.sh --seconds 0.3 -o t

# An edited answer is no answer; a killed study leaves no half files once it is done.
sed -i '0,/,ok,/s/,ok,[^,]*,/,ok,1e-09,/' p/evaluations.csv
try 2 'evaluations.csv:[0-9]*: the row does not match its check sum' search "${question[@]}" -e data-parallel --evals 2 -o p
printf 'model = %s\nbatch = 16\nplatform.nodes = 1, 2\nplatform.gpus = 4\nplatform.gpu = V100-32GB\nengine = expert\nevals = 2\n' "$tiny" >s.ini
"$M" whatif s.ini -o w -j 1 >/dev/null || echo "whatif fails"
for f in w/points/*; do case $f in *.json) ;; *) mv "$f" "$f.half" ;; esac; done
cp w/whatif.csv before.csv; mv w/whatif.csv w/whatif.csv.half
"$M" whatif s.ini -o w -j 2 >/dev/null || echo "whatif does not go on"
cmp before.csv w/whatif.csv || bad=1
[ -z "$(find w -name '*.half')" ] || { echo "left: $(find w -name '*.half')"; bad=1; }
finish
