# What Megatron-LM's validate_args and TransformerConfig refuse is not written: hardware queues, fp8 weights without their
# masters, experts with biases over tensor-parallel ranks; stages of a hybrid pattern are its pipes.
. "$ROOT/tests/cli/lib.sh.inc"
llama=(-m llama:layers=8,hidden=1024,heads=16,kv_heads=16,ffn=2816,vocab=32000,seq=2048 --batch 64 -j 1)
made() { # NAME FLAGS -- OPTIONS: the plan of flags, its settings
	local name=$1 flags=$2; shift 3
	echo "$flags" >"$name.in"
	"$M" export --import "$name.in" "$@" -o "$name.json" >said 2>&1 || { echo "$name: $(tail -n 1 said)"; return 1; }
	"$M" export "$name.json" "$@" --to "${to:-megatron}" -o "$name.sh" >said 2>&1 || { echo "$name: $(tail -n 1 said)"; return 1; }
}
queues() { echo "$1: $(grep -oE 'CUDA_DEVICE_MAX_CONNECTIONS=[0-9]*' "$1.sh" || echo any)"; }
H="gpu=H100-SXM-80GB nodes=1" B="gpu=B200 nodes=1" tp='--tensor-model-parallel-size 2 --micro-batch-size 1 --sequence-parallel'
core=(--software megatron-core)
made whole "--micro-batch-size 1" -- "${llama[@]}" "${core[@]}" -p "$H" && queues whole
made tensor "$tp" -- "${llama[@]}" "${core[@]}" -p "$H" && queues tensor
made context "--context-parallel-size 2 --micro-batch-size 1" -- "${llama[@]}" "${core[@]}" -p "$H" && queues context
made blackwell "$tp" -- "${llama[@]}" "${core[@]}" -p "$B" && queues blackwell
to=megatron-fsdp made sharded "$tp --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params" -- "${llama[@]}" \
	--software megatron-fsdp -p "$H" && queues sharded
made experts "$tp --expert-model-parallel-size 4 --use-distributed-optimizer --overlap-moe-expert-parallel-comm" -- \
	-m moe:layers=4,hidden=512,heads=8,ffn=1024,experts=8,top_k=2,vocab=32000,seq=2048 --batch 64 -j 1 "${core[@]}" -p "$H" && queues experts

fp8=(--gemm-dtype fp8 --software megatron-core,fp8_params=1 -p "$H")
made masters "$tp --use-distributed-optimizer" -- "${llama[@]}" "${fp8[@]}"
made one "--tensor-model-parallel-size 8 --sequence-parallel --micro-batch-size 1" -- "${llama[@]}" "${fp8[@]}" &&
	grep -cE -- '--use-distributed-optimizer|--fp8-param-gather' one.sh
made none "$tp" -- "${llama[@]}" "${fp8[@]}"
made away "$tp --use-distributed-optimizer --optimizer-cpu-offload --use-precision-aware-optimizer" -- "${llama[@]}" "${fp8[@]}"
oss=(-m openai/gpt-oss-20b --batch 64 --seq 4096 -j 1 "${core[@]}" -p "$H")
made split "$tp --expert-model-parallel-size 4" -- "${oss[@]}"
made dealt "$tp --expert-model-parallel-size 4 --expert-tensor-parallel-size 1" -- "${oss[@]}"

# Options of the software are flags too, or refused.
moe=(-m moe:layers=4,hidden=512,heads=8,ffn=1024,experts=8,top_k=2,vocab=32000,seq=2048 --batch 64 -j 1 -p "$H")
made flex "--expert-model-parallel-size 4 --micro-batch-size 1 --use-distributed-optimizer" -- "${moe[@]}" --software megatron-core,deepep=1 &&
	grep -oE -- '--moe-(token-dispatcher-type|flex)[^\\]*' flex.sh && cp flex.sh flex.in && "$M" export --import flex.in "${moe[@]}" --software megatron-core -o x.json | grep -v '^not read'
echo '--expert-model-parallel-size 4 --micro-batch-size 1 --moe-token-dispatcher-type flex' >default.in
"$M" export --import default.in "${moe[@]}" --software megatron-core -o x.json | grep deepep
made ends "--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather" -- \
	"${llama[@]}" --software megatron-core,overlap_param_gather_with_optimizer_step=1 -p "$H" && grep -oE -- '--overlap-param-gather-with.*torch' ends.sh
made graphs "--micro-batch-size 1" -- "${llama[@]}" --software 'megatron-core,cuda_graph_scope=*' -p "$H"
made scores "--micro-batch-size 1" -- "${llama[@]}" --gemm-dtype fp8 --software megatron-core,fp8_attention=1 -p "$H"
to=deepspeed made sgd "--micro-batch-size 1 --zero-stage 1" -- "${llama[@]}" --software deepspeed --optimizer momentum -p "$H" && grep untested sgd.sh/ds_config.json

hybrid=(-m nemotron-h:size=8b --batch 64 --seq 4096 -j 1 "${core[@]}" -p "$H")
pipes='--pipeline-model-parallel-size 2 --micro-batch-size 1 --hybrid-layer-pattern "M-M-M-M*-M-|M-M-M-M*-M-M-M-M-M*|-M-M-M-M-|M*-M-M-M-M-M-"'
made piped "$pipes" -- "${hybrid[@]}" && grep -oE -- '--hybrid-layer-pattern [^ ]*' piped.sh
[ ! -f piped.sh ] || ! grep -E -- '--(num-virtual|pipeline-model-parallel-layout)' piped.sh
cp piped.sh again.in && "$M" export --import again.in "${hybrid[@]}" -o again.json >/dev/null 2>&1 && cmp piped.json again.json || bad=1
echo "${pipes/-pattern /-pattern=}" >equals.in && "$M" export --import equals.in "${hybrid[@]}" -o equals.json >/dev/null 2>&1 && cmp piped.json equals.json || bad=1
made odd "${pipes/|/}" -- "${hybrid[@]}"
exit ${bad:-0}
