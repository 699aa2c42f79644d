. "$ROOT/tests/cli/lib.sh.inc"
# Two pipelines send their activations through one port. Of it a transfer gets the calibrated share, so
# together they take longer than alone, which is all that the analytic executor sees.
cat >runs.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,dp,mbs,gbs,step_time_s,status,platform
two,GPT,2,1024,16,1024,1024,T4,4,2,fp16,1,2,2,8,16,1,ok,gpu=T4 nodes=2 gpus=2 pcie_GBps=15.75 nics=1 nic_GBps=12.5 network=eth
CSV
step() { "$M" score runs.csv --executor "$1" -j 1 -o "$1" >/dev/null && cut -d, -f3 "$1/score.csv" | tail -n 1; }
awk -v shared="$(step simgrid)" -v alone="$(step analytic)" 'BEGIN {
	if (!(shared > 1.07 * alone))
		printf "%s s where two share the port, %s s where nothing is shared\n", shared, alone
}' | grep . && bad=1
# What is set of a software is not set of its children, and a type that no row runs on changes nothing: said.
"$M" score runs.csv --executor analytic --software megatron-core --set software:generic.traffic=2 --set 'A100*.gemm_eff=0.5' \
	--set software:megatron-core.host=2 --set T4.gemm_eff=0.5 --set ib.bw_share=0.5 -o set | grep -e --set
# Memory as the row has measured it: tensors of the first rank are less than all that the fullest device holds, a word
# that nobody knows is refused, and verdicts near the limit say so.
cat >mem.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,dp,mbs,gbs,step_time_s,status,max_mem_gb,memory_basis,memory_rank,zero
whole,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,,,none
first,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,allocated,first,none
odd,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,guessed,,none
near,GPT,4,1024,16,1024,1024,T4,1,1,fp16,1,1,1,77,77,1,ok,10,,,none
CSV
"$M" score mem.csv --executor analytic --software generic -j 1 -o mem | grep refused
cut -d, -f1,2,6 mem/score.csv
cut -d, -f1-3,11- mem/memory.csv
# A table of one's own: no row_id, models as -m takes them (a file beside the table too), and what is not said of
# micro-batches assumed and told.
mkdir own; printf '{"model_type":"gpt2","n_embd":256,"n_layer":4,"n_head":4,"n_positions":512,"vocab_size":1000}' >own/m.json
cat >own/runs.csv <<'CSV'
model,gpu,gpus,gbs,step_time_s,pp
m.json,T4,4,16,1,1
"gpt:layers=4,hidden=256,heads=4,vocab=1000,seq=512",T4,4,16,1,1
own/m.json,T4,4,16,1,2
none.json,T4,4,16,1,1
CSV
"$M" score own/runs.csv --executor analytic --software megatron-core -j 1 -o own/out | grep -E 'refused|assumed:' | cut -c1-150
cut -d, -f1,2 own/out/score.csv; [ "$(sed -n 2p own/out/score.csv | cut -d, -f3)" = "$(sed -n 3p own/out/score.csv | cut -d, -f3)" ] || { cat own/out/score.csv; bad=1; }
# A cell of several kinds is as many machines, and keys that are all defaults are a platform. A row that runs forward alone
# costs less. Columns beside a builder are read, and contradict it only aloud; a column that nobody reads is told by near name.
cat >kinds.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,platform,mode,precision,pp,mbs,gbs,step_time_s,stage_layer
mixed,GPT,4,256,4,128,1000,V100-16GB:12;T4:4,16,4,,,fp16,4,1,64,1,
none,GPT,4,256,4,128,1000,V100-16GB:16;T4:0,16,4,,,fp16,4,1,64,1,
train,"gpt:tied=false",4,256,4,128,1000,H100,8,8,gpus=8 nodes=1,,bf16,1,1,64,1,
infer,"gpt:tied=false",4,256,4,128,1000,H100,8,8,gpus=8 nodes=1,infer,bf16,1,1,64,1,
other,"gpt:layers=3",4,256,4,128,1000,H100,8,8,gpus=8 nodes=1,,bf16,1,1,64,1,
word,GPT,4,256,4,128,1000,H100,8,8,gpus=8 nodes=1,trian,bf16,1,1,64,1,
CSV
"$M" score kinds.csv --executor analytic --software generic -j 1 --write-jobs kinds-jobs -o kinds | tail -n +3 | cut -c1-150
cut -d, -f1,2,8,10 kinds/score.csv
grep -h '^mode =' kinds-jobs/infer.ini; "$M" run kinds-jobs/infer.ini -o kinds-run >/dev/null || bad=1
awk -F, '$1 == "train" { t = $3 } $1 == "infer" { if (!($3 > 0 && $3 < t)) print "infer " $3 " s, train " t " s" }' kinds/score.csv | grep . && bad=1
sed 1s/,gpus,/,gpsu,/ kinds.csv >named.csv; "$M" score named.csv -o named; echo "exit $?"
# A published table: rows are equal to the runs of their own jobs.
(head -n 1 "$ROOT/results/published/torchtitan_a100_h100_h200.csv"; sed -n 2,3p "$ROOT/results/published/torchtitan_a100_h100_h200.csv") >tt.csv
"$M" score tt.csv -j 1 --write-jobs tt-jobs -o tt >/dev/null || bad=1
for row in $(awk -F, 'NR > 1 { print $1 ":" $3 }' tt/score.csv); do
	rm -rf tt-run; "$M" run "tt-jobs/${row%%:*}.ini" -o tt-run >/dev/null || bad=1
	grep -q "^${row##*:}," tt-run/summary.csv || { echo "${row%%:*}: score ${row##*:}, run another"; bad=1; }
done
# Names of models of one's own: a card that names no builder is refused with its line.
mkdir tables; cp -r "$ROOT"/platforms/*.csv "$ROOT/platforms/software" "$ROOT/platforms/calib" "$ROOT/platforms/kernels" tables
sed -i '2i GPT,gtp:layers=2,mine' tables/models.csv
"$M" score runs.csv --executor analytic --platforms tables -o tables/out | grep refused
finish
