. "$ROOT/tests/cli/lib.sh.inc"
# Machines and batches as people say them: the same question, to the byte, as with keys and samples.
ask=(-m $tiny,seq=64 -e expert --evals 2 -j 2)
same() { # A B: two platforms
	rm -rf a b
	"$M" search "${ask[@]}" --batch 64 -p "$1" -o a >/dev/null && "$M" search "${ask[@]}" --batch 64 -p "$2" -o b >/dev/null &&
		cmp a/candidates.csv b/candidates.csv || { echo "'$1' is not '$2'"; bad=1; }
}
same 64xH100 'gpu=H100 nodes=8'
same '16 x A100-80GB network=roce gpus=4' 'gpu=A100-80GB nodes=4 gpus=4 network=roce'
same '4xV100-32GB' 'gpu=V100-32GB nodes=1 gpus=4'
same '16xNVIDIA H100 80GB HBM3 nics=4' 'gpu=H100 nodes=2 nics=4'
same '2 x p5.48xlarge' 'gpu=H100 nodes=2 gpus=8 nic_GBps=50 network=efa'
same '2x p4d.24xlarge' 'gpu=A100-SXM4-40GB nodes=2 gpus=8 nics=4 nic_GBps=12.5 network=efa'
grep -qx 'platform = gpu=A100-SXM4-40GB gpus=8 nics=4 nic_GBps=12.5 network=efa nodes=2' a/run.ini || { cat a/run.ini; bad=1; }
same '16xGB200' 'gpu=GB200 nodes=4 gpus=4 fabric=nvl72'
same 'gpu=GH200 nodes=2' 'gpu=GH200 nodes=2 gpus=4'
try 0 'ok: 512 devices on 8 machines' platform check 512xGB200
try 0 'ok: 144 devices on 2 machines' platform check 144xGB300
# types, lengths and QLoRA by their usual names
alike() { # A B: options of one question
	rm -rf a b
	"$M" search -m $tiny -p 8xB200 --batch 16 -e expert --evals 2 -o a $1 >/dev/null 2>&1 && "$M" search -m $tiny -p 8xB200 --batch 16 -e expert --evals 2 -o b $2 >/dev/null 2>&1 &&
		cmp a/candidates.csv b/candidates.csv || { echo "'$1' is not '$2'"; bad=1; }
}
alike '--dtype bfloat16 --grad-dtype float32' '--dtype bf16 --grad-dtype fp32'
alike '--dtype BF16 --grad-dtype Float32' '--dtype bf16 --grad-dtype fp32'
alike '--dtype nvfp4' '--gemm-dtype fp4'
alike '--dtype fp16 --gemm-dtype nvfp4' '--dtype fp16 --gemm-dtype fp4'
alike '--dtype mxfp8 --seq 1K' '--gemm-dtype mxfp8 --seq 1024'
alike '--train qlora:rank=8' '--train lora:base=nf4,rank=8'
try 2 '\-\-seq 1.5k: give a whole number' search -m $tiny -p 8xB200 --batch 16 --seq 1.5k -o c
try 2 '\-\-train qlorax: give full, lora' search -m $tiny -p 8xB200 --batch 16 --train qlorax -o c
try 2 '100 GPUs of GB200 are no multiple of domain=72' platform check 100xGB200
try 2 'domain=1 is out of range; give 2 to 1024' platform check '8xGB200 domain=1'
same gpu=p3.8xlarge 'gpu=V100-SXM2-16GB gpus=4 nic_GBps=1.25 network=eth'
try 0 'ok: 64 devices on 8 machines' platform check 64xH100
try 2 '12 devices are no machines of 8; add gpus=N' platform check 12xH100
try 2 "no machine 'p9.48xlarge'" platform check '8 x p9.48xlarge'
same '2 x ND H100 v5' '2 x Standard_ND96isr_H100_v5'
same '2 x ND A100 v4' '2 x Standard_ND96asr_v4'
same '2 x ndm-a100-v4' '2 x Standard_ND96amsr_A100_v4'
same '2xDGX-H200' 'gpu=H200 nodes=2 gpus=8 nic_GBps=50 network=ib'
try 2 "'NC A100 v4': which one. Standard_NC96ads_A100_v4, Standard_NC24ads" platform check '2 x NC A100 v4'
try 2 "no machine '. .'" platform check '2 x . .'
try 2 "no platform '-1xH100'" platform check -- -1xH100
try 2 "no such device type; did you mean" platform check 8xH10O
try 2 "no platform 'x64'" platform check x64
try 2 "no option '8xgpus'; did you mean 'gpus'" platform check 8xgpus=4
# each machine of the list is a platform, and of the device that its name means elsewhere
tail -n +2 "$ROOT/platforms/machines.csv" | cut -d, -f1 | while read -r name; do
	"$M" platform generate gpu="$name" -o one.xml >/dev/null && type=$(grep -o 'mq_type" value="[^"]*"' one.xml | head -n 1 | cut -d'"' -f3) &&
		"$M" platform show "2 x $name" | grep -q "^$type " || echo "$name"
done >wrong.txt
[ ! -s wrong.txt ] || { echo "no platforms, or of another device:"; cat wrong.txt; bad=1; }

tokens() { # TOKENS SAMPLES
	rm -rf a b
	"$M" search "${ask[@]}" --tokens-per-batch "$1" -p dgx1_v100 -o a >/dev/null &&
		"$M" search "${ask[@]}" --batch "$2" -p dgx1_v100 -o b >/dev/null && cmp a/candidates.csv b/candidates.csv &&
		grep -qx "batch = $2" a/run.ini || { echo "$1 tokens are not $2 samples"; bad=1; }
}
tokens 4096 64
tokens 4k 64    # 4000 / 64 is no whole number
tokens 8Ki 128
tokens 0.016M 250
try 2 'a multiple of the 64 of a sample' search "${ask[@]}" --tokens-per-batch 4097 -p dgx1_v100 -o n
try 2 'a multiple of the 64 of a sample' search "${ask[@]}" --tokens-per-batch many -p dgx1_v100 -o n
try 2 '.--batch says it too; leave one out' search "${ask[@]}" --tokens-per-batch 4k --batch 8 -p dgx1_v100 -o n
try 2 'have no tokens; give --batch' search -m resnet50 -e expert --tokens-per-batch 4k -p dgx1_v100 -o n
finish
