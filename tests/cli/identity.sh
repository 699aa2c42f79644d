. "$ROOT/tests/cli/lib.sh.inc"
# One road from a question to its answer: the step time that `score` predicts of a row is that of `run` of the job
# it writes, and of `simulate` with the options in it, to the last digit. Rows of each kind, made up; the published
# ones are `make identity`.
cat >rows.csv <<'CSV'
row_id,model,layers,hidden,ffn,heads,kv_heads,seq,vocab,gpu,gpus,gpus_per_node,inter_link,precision,tp,pp,vp,dp,cp,ep,mbs,gbs,zero,schedule,recompute,stage_layers,placement,step_time_s,status,software,software_options,platform
gpt,GPT,8,512,,8,,512,50257,A100-80GB,16,8,,bf16,2,2,,4,,,1,32,,,,,,1,ok,megatron-core,,
stored,GPT,8,512,,8,,512,50257,V100-32GB,8,8,,fp16,2,1,,4,,,1,32,,,full,,,1,ok,megatron-lm-2021,,
llama,LLAMA2-x,4,512,1376,8,4,1024,32000,H100,16,8,400 Gb/s per node,bf16,1,1,,8,2,,1,16,FSDP,,selective,,,1,ok,torchtitan,,
hsdp,MPT-x,4,2048,,16,,2048,50368,A100-80GB,32,8,,bf16,1,1,,32,,,1,64,HSDP 4x8,,,,,1,ok,fsdp,,
moe,"moe:layers=4,hidden=256,heads=8,ffn=128,vocab=1024,experts=8,top_k=2",,,,,,256,,H100,16,8,,bf16,1,2,,8,,4,1,64,,,,,,1,ok,generic,overlap_experts=1,
resnet,PyTorch/Classification/ConvNets/resnet50v1.5,,,,,,,,V100-16GB,8,8,,fp16,1,1,,8,,,64,512,,,,,,1,ok,nvidia-convnets,,
mixed,GPT,8,512,,8,,512,50257,12x V100 + 4x T4,16,4,10 Gb/s,fp16,1,4,,4,,,2,32,,,,3/2/2/1,,1,ok,deepspeed-pipeline,,
placed,GPT,4,512,,8,,512,50257,mixed,8,4,,fp16,2,2,,2,,,1,8,,,,,V100xTP2|T4xTP2 ; T4xTP2|V100xTP2,1,ok,generic,,
chunks,GPT,16,512,,8,,512,50257,A100-80GB,64,8,,bf16,2,4,2,8,,,1,64,ZeRO-1,interleaved,selective,,,1,ok,megatron-core,selective=layers,
large,GPT,16,512,,8,,512,50257,A100-80GB,256,8,,bf16,2,4,,32,,,1,256,ZeRO-1,,,,,1,ok,megatron-core,,
fp8,GPT,4,1024,,8,,512,51200,H100,8,8,,fp8,2,1,,4,,,1,16,,,,,,1,ok,megatron-core,overlap_tp=1,
mxfp8,GPT,4,1024,,8,,512,51200,B200,8,8,,MXFP8,1,1,,8,,,1,16,,,,,,1,ok,nemo,,
fits,GPT,24,4096,,32,,2048,51200,V100-16GB,4,4,,fp16,1,1,,4,,,1,16,,,,,,1,ok,ddp,,
named,GPT,8,512,,8,,512,50257,A100-80GB,16,8,,bf16,2,2,,4,,,1,32,,,,,,1,ok,generic,,dgx_a100_ib
keys,GPT,8,512,,8,,512,50257,A100-80GB,16,8,,bf16,2,2,,4,,,1,32,,gpipe,,,,1,ok,generic,traffic=2;bucket_MB=10,gpu=A100-SXM4-80GB nodes=2 gpus=8 nics=1 nic_GBps=12.5
CSV
MAQUETTE=$M "$ROOT/tests/identity.sh" at rows.csv || { cat at/rows.err; cut -d, -f1,2,3 at/rows/score.csv; bad=1; }
cut -d, -f1,2 at/rows/score.csv
cat at/rows/refused.csv
# The same with another executor, with values in place of the shipped ones, and whatever the number of workers.
for more in "--executor analytic" "--set A100*.gemm_eff=0.7 --set software:fsdp.traffic=2" "-j 1"; do
	rm -rf o j; set -f; "$M" score rows.csv --only hsdp $more --write-jobs j -o o >/dev/null || bad=1; set +f
	"$M" run j/hsdp.ini -o r >/dev/null || bad=1
	[ "$(sed -n 2p o/score.csv | cut -d, -f3)" = "$(sed -n 2p r/summary.csv | cut -d, -f1)" ] || { echo "differs with $more"; bad=1; }
	sed -n 2p o/score.csv | cut -d, -f3 >>differ; rm -rf r
done
[ "$(sort -u differ | wc -l)" -eq 3 ] || { echo "these change nothing: $(cat differ)"; bad=1; }
# A plan past its memory that ran all the same: its time and its files are there, and the verdict is the exit code.
try 1 'oom: .* needs' run at/rows.jobs/fits.ini -o past
ls past | tr '\n' ' '; echo
"$M" run at/rows.jobs/fits.ini -o past 2>/dev/null | grep -c '^step time'
# Without a folder the result is printed, and nothing is written.
grep -v '^output' at/rows.jobs/gpt.ini >print.ini; before=$(ls | wc -l)
"$M" run print.ini >printed.txt || bad=1
"$M" run at/rows.jobs/gpt.ini -o again | grep -v '^timeline.csv' >kept.txt || bad=1 # what its files hold is said
cmp printed.txt kept.txt || bad=1
[ "$(ls | wc -l)" -eq $((before + 3)) ] || { echo "more than printed.txt, kept.txt and again"; bad=1; }
finish
