. "$ROOT/tests/cli/lib.sh.inc"
# Two pipelines send their activations through one port. Of it a transfer gets the calibrated share, so
# together they take longer than alone, which is all that the analytic executor sees.
cat >runs.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,dp,mbs,gbs,step_time_s,status
two,GPT,2,1024,16,1024,1024,T4,4,2,fp16,1,2,2,8,16,1,ok
CSV
step() { "$M" score runs.csv --executor "$1" -j 1 -o "$1" >/dev/null && cut -d, -f3 "$1/score.csv" | tail -n 1; }
awk -v shared="$(step simgrid)" -v alone="$(step analytic)" 'BEGIN {
	if (!(shared > 1.07 * alone))
		printf "%s s where two share the port, %s s where nothing is shared\n", shared, alone
}' | grep . && bad=1
# What is set of a software is not set of its children, and a type that no row runs on changes nothing: said.
"$M" score runs.csv --executor analytic --software megatron-core --set software:generic.traffic=2 --set 'A100*.sustained=0.5' \
	--set software:megatron-core.host=2 --set T4.sustained=0.5 --set ib.bw_share=0.5 -o set | grep -e --set
# Memory as the row has measured it: tensors of the first rank are less than all that the fullest device holds, a word
# that nobody knows is refused, and verdicts near the limit say so.
cat >mem.csv <<'CSV'
row_id,model,layers,hidden,heads,seq,vocab,gpu,gpus,gpus_per_node,precision,tp,pp,dp,mbs,gbs,step_time_s,status,max_mem_gb,mem_basis,zero
whole,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,,none
first,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,first allocated,none
odd,GPT,4,1024,16,1024,1024,T4,2,2,fp16,1,2,1,8,16,1,ok,10,guessed,none
near,GPT,4,1024,16,1024,1024,T4,1,1,fp16,1,1,1,83,83,1,ok,10,,none
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
"$M" score own/runs.csv --executor analytic --software megatron-core -j 1 -o own/out | grep -E 'refused|assumed:' | cut -c1-110
cut -d, -f1,2 own/out/score.csv; [ "$(sed -n 2p own/out/score.csv | cut -d, -f3)" = "$(sed -n 3p own/out/score.csv | cut -d, -f3)" ] || { cat own/out/score.csv; bad=1; }
# Tables of one's own that put into rows what rows do not have are refused with their line.
mkdir tables; cp -r "$ROOT"/platforms/*.csv "$ROOT/platforms/software" "$ROOT/platforms/calib" tables
echo '*,,,,,,,,,,,heads,,,' >>tables/overlay.csv
"$M" score runs.csv --executor analytic --platforms tables -o tables/out; echo "exit $?"
sed -i '$s/heads/colour=red/' tables/overlay.csv
"$M" score runs.csv --executor analytic --platforms tables -o tables/out; echo "exit $?"
finish
