. "$ROOT/tests/cli/lib.sh.inc"
# Flags -> plan -> flags is exact, uneven layouts, chunks and switches included; each target refuses what
# it cannot say; the files are what their parsers take.
model=gpt:layers=8,hidden=256,heads=8,vocab=512
ask=(-m $model -p dgx1_v100 --batch 16)
trip() { # FLAGS...: import, export, import again: the same plan and the same flags
	printf '%s \\\n' "$@" >in.sh
	"$M" export --import in.sh "${ask[@]}" -o a.json >/dev/null || { echo "not read: $*"; bad=1; return; }
	"$M" export a.json "${ask[@]}" --to megatron -o a.sh || { echo "not written: $*"; bad=1; return; }
	"$M" export --import a.sh "${ask[@]}" -o b.json >/dev/null || { echo "not read again: $*"; bad=1; }
	cmp a.json b.json || bad=1
	"$M" export b.json "${ask[@]}" --to megatron -o b.sh; cmp a.sh b.sh || bad=1
	for f in "$@"; do grep -qF -- "$f" a.sh || { echo "lost '$f': $(cat a.sh)"; bad=1; }; done
}
trip "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" "--micro-batch-size 1"
trip "--tensor-model-parallel-size 4" --sequence-parallel --use-distributed-optimizer --overlap-grad-reduce
trip "--tensor-model-parallel-size 4" --sequence-parallel --tp-comm-overlap
trip "--pipeline-model-parallel-size 4" '--pipeline-model-parallel-layout "Et*1|t*3|t*3|t*1L"'
trip "--pipeline-model-parallel-size 2" "--num-virtual-stages-per-pipeline-rank 2" "--micro-batch-size 1"
trip "--context-parallel-size 2" "--recompute-granularity selective"
trip "--recompute-granularity full" "--ddp-bucket-size 1000000"
# A bucket counts parameters: 2 bytes each where gradients are summed in bf16.
printf '%s\n' "--ddp-bucket-size 1000000" --bf16 --grad-reduce-in-bf16 --overlap-grad-reduce >in.sh
for t in bf16:2 fp32:4; do
	"$M" export --import in.sh "${ask[@]}" --grad-dtype ${t%:*} -o a.json >/dev/null && grep -q "\"bucket_B\": ${t#*:}000000[.,]" a.json || { grep bucket a.json; bad=1; }
	"$M" export a.json "${ask[@]}" --grad-dtype ${t%:*} --to megatron | grep -q 'ddp-bucket-size 1000000$\|ddp-bucket-size 1000000 ' || bad=1
done
trip "--recompute-granularity full" "--recompute-method block" "--recompute-num-layers 3"
grep -q '"recompute_num_layers": 3' a.json && grep -q 'method block --recompute-num-layers 3' a.sh || bad=1
# a number of recomputed layers is said of a plan that recomputes
for r in full:1 none:0; do
	sed "s/\"recompute\": \"full\"/\"recompute\": \"${r%:*}\"/" a.json >r.json
	[ "$("$M" simulate -P r.json "${ask[@]}" 2>/dev/null | grep -c '^dp .*, of 3 layers')" = ${r#*:} ] || { echo "recompute ${r%:*}"; bad=1; }
done
trip "--recompute-granularity full" "--recompute-method uniform" "--recompute-num-layers 4"
grep -q '"recompute_method": "uniform"' a.json && grep -q 'method uniform --recompute-num-layers 4' a.sh || bad=1
trip "--tensor-model-parallel-size 2" "--cpu-offloading-num-layers 3"
"$M" simulate -P a.json "${ask[@]}" -o away >away.txt; grep -q 'offload 3 layers' away.txt || { cat away.txt; bad=1; }
awk -F, '$4 == "copy" { s += $8 } END { exit s > 0 ? 0 : 1 }' away/timeline.csv || { echo "nothing is copied"; bad=1; }
grep -q '"offload_layers": 3' a.json || { echo "a.json does not say offload_layers"; bad=1; }
sed 's/"offload_layers": 3/"offload_layers": 8/' a.json >all.json
try 2 'fewer layers than the model.s 8: set offload_layers 7' export all.json "${ask[@]}" --to megatron
# Other spellings of the same layout.
plan() { printf '%s\n' --pipeline-model-parallel-size 4 "$@" >in.sh
	"$M" export --import in.sh "${ask[@]}" -o "$out" >/dev/null || bad=1; }
out=l1.json plan --pipeline-model-parallel-layout '"Et*2|(tt|)*2,t*2L"'
out=l2.json plan --pipeline-model-parallel-layout='"Ett|tt|tt|ttL"'
out=l3.json plan
cmp l1.json l2.json || bad=1; cmp l1.json l3.json || bad=1
# The embedding and the loss counted as layers: eight layers in ten chunks leave the ends without one.
t=$(printf '|t*1%.0s' 1 2 3 4 5 6 7 8)
trip "--pipeline-model-parallel-size 2" "--pipeline-model-parallel-layout \"E$t|L\"" "--micro-batch-size 1"
out=l4.json plan --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout "\"E$t|L\""
out=l5.json plan --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank=5 \
	--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split
cmp l4.json l5.json || bad=1
wrong() { printf '%s\n' "$2" >in.sh; try 2 "$1" export --import in.sh "${ask[@]}" -o x.json; }
wrong 'no multiple of tp 3' "--tensor-model-parallel-size 3"
wrong 'whole number' "--tensor-model-parallel-size two"
wrong 'has 8' "--num-layers 9 --micro-batch-size 1"
wrong 'batch is 16' "--global-batch-size 32"
wrong 'begin with E' '--pipeline-model-parallel-layout "t*8L"'
wrong "not one of E t m L" '--pipeline-model-parallel-layout "Ex*8L"'
wrong 'full or selective' "--recompute-granularity some"
wrong 'block or uniform' "--recompute-granularity full --recompute-method some"
wrong "'some' is none" "--recompute-granularity selective --recompute-modules core_attn some"
wrong 'recompute_ops=norm1.norm2.up.activation.down' \
	"--recompute-granularity selective --recompute-modules layernorm mlp --tensor-model-parallel-size 2"
modules=(--software "megatron-core,selective=named,recompute_ops=norm1|norm2|up|activation|down")
"$M" export --import in.sh "${ask[@]}" "${modules[@]}" -o x.json >/dev/null || bad=1
"$M" export x.json "${ask[@]}" "${modules[@]}" --to megatron | grep -q 'recompute-modules layernorm mlp' || bad=1
wrong 'add up to 9|add up to more' '--pipeline-model-parallel-layout "Et*9L"'
wrong 'no multiple of 2 stages' "--pipeline-model-parallel-size 2 --account-for-loss-in-pipeline-split"
# Targets. A plan of data and pipeline parallelism suits them all.
printf '%s\n' --pipeline-model-parallel-size 2 --overlap-grad-reduce >in.sh
"$M" export --import in.sh "${ask[@]}" -o pp.json >/dev/null
"$M" export pp.json "${ask[@]}" --to deepspeed -o ds && python3 - <<'P' || bad=1
import json
d = json.load(open("ds/ds_config.json"))
assert d["train_batch_size"] == d["train_micro_batch_size_per_gpu"] * d["gradient_accumulation_steps"] * 4, d
assert d["pipeline"]["stages"] == 2 and d["zero_optimization"]["stage"] == 0, d
assert [l for l in open("ds/hostfile") if l[0] != "#"] == ["node0 slots=8\n"]
P
like=(-m llama:layers=8,hidden=256,heads=8,kv_heads=8,ffn=512,vocab=512,seq=2048 -p dgx1_v100 --batch 16 --dtype bf16)
"$M" export --import in.sh "${like[@]}" -o pl.json >/dev/null
try 2 'trains in fp32 under tensor or pipeline' export pl.json "${like[@]}" --to torchtitan
sed -i -e 's/"allreduce"/"zero3"/' -e '/"overlap_grads"/d' pl.json
"$M" export pl.json "${like[@]}" --to torchtitan -o t.py && python3 - <<'P' || bad=1
import ast
calls = {ast.unparse(n.func): {k.arg: ast.literal_eval(k.value) for k in n.keywords} for n in ast.walk(ast.parse(open("t.py").read()))
         if isinstance(n, ast.Call) and ast.unparse(n.func) in ("ParallelismConfig", "TrainingConfig")}
p, t = calls["ParallelismConfig"], calls["TrainingConfig"]
assert p["data_parallel_shard_degree"] * p["pipeline_parallel_degree"] == 8, p
assert p["fsdp_reshard_after_forward"] == "default", p # gathered once a step
assert [len(x) for x in p["module_fqns_per_model_part"]] == [5, 6], p
assert t["global_batch_size"] == 16 and t["seq_len"] == 2048 and t["mixed_precision_param"] == "bfloat16", t
assert t["local_batch_size"] * 4 == 16 and t["local_batch_size"] % p["pipeline_parallel_microbatch_size"] == 0, (p, t)
P
# A schedule of several stages for each rank has two of them where no parts are named; without a pipeline there is none.
sed -e 's/="1F1B"/="ZBVZeroBubble"/' -e '/module_fqns_per_model_part=\[/,/^        \],$/d' t.py >zbv.py
"$M" export --import zbv.py "${like[@]}" -o zbv.json | grep -q 'zbv x2' || { echo "ZBVZeroBubble without parts"; bad=1; }
sed -e 's/\(pipeline_parallel_degree\)=2/\1=1/' -e 's/\(data_parallel_shard_degree\)=4/\1=8/' -e 's/\(local_batch_size\)=[0-9]*/\1=2/' zbv.py >one.py
"$M" export --import one.py "${like[@]}" -o one.json | grep -q 'pp 1, 1 micro-batch.*1f1b' || { echo "a schedule without a pipeline"; bad=1; }
sed 's/"schedule": "1f1b"/"schedule": "interleaved"/' pl.json >single.json
"$M" export single.json "${like[@]}" --to torchtitan -o single.py && grep -q '="1F1B"' single.py || { echo "one stage interleaved"; bad=1; }
# ZeRO++ is DeepSpeed's, asked for as options of the software.
printf '%s\n' --micro-batch-size 1 >in.sh; "$M" export --import in.sh "${like[@]}" -o dp.json >/dev/null
sed -e 's/"allreduce"/"zero3"/' -e '/"overlap_grads"/d' dp.json >z3.json
"$M" export z3.json "${like[@]}" --software deepspeed,zero_quantized_weights_B=1,zero_quantized_gradients_B=0.5,zero_hpz_partition_size=4 --to deepspeed | grep -q '"zero_quantized_weights": true, "zero_quantized_gradients": true, "zero_hpz_partition_size": 4' || { echo "no ZeRO++"; bad=1; }
try 2 'gathers weights in 1 byte' export z3.json "${like[@]}" --software deepspeed,zero_quantized_weights_B=0.7 --to deepspeed
"$M" export pp.json "${ask[@]}" --to flagscale -o f.yaml; grep -q 'hetero_process_meshes: \[1, 1, 1, 4, 2\]' f.yaml || { cat f.yaml; bad=1; }
cp "$ROOT/tests/cli/chakra.py" .
"$M" export pp.json "${ask[@]}" --to chakra -o et && python3 - <<'P' || bad=1
# Every task of the schedule is a node, once, dependencies before it.
import glob, json
from chakra import messages
tasks = [json.loads(l) for l in open("et/schedule.jsonl")][1:]
nodes = {}
for path in glob.glob("et/chakra.*.et"):
    head, *rest = messages(path)
    assert head[0][1] == b"1.0.0"
    for f in rest:
        d = dict(f); assert d[1] not in nodes, d[1]
        for dep in [v for k, v in f if k in (4, 5)]: assert dep in nodes, (d[1], dep)
        nodes[d[1]] = d
assert len(nodes) == len(tasks) > 0, (len(nodes), len(tasks))
kinds = {"send": 5, "recv": 6, "collective": 7}
for t in tasks: assert nodes[t["id"]][3] == kinds.get(t["kind"], 4), t
P
printf '%s\n' --tensor-model-parallel-size 2 >in.sh; "$M" export --import in.sh "${ask[@]}" -o tp.json >/dev/null
try 2 'keeps the vocabulary whole under tensor parallelism' export tp.json "${ask[@]}" --to deepspeed
"$M" export --import in.sh "${like[@]}" -o tl.json >/dev/null
try 2 'along the sequence' export tl.json "${like[@]}" --to torchtitan
printf '%s\n' --tensor-model-parallel-size 2 --sequence-parallel --tp-comm-overlap >in.sh
"$M" export --import in.sh "${ask[@]}" --dtype bf16 -o async.json >/dev/null
"$M" export --import in.sh "${like[@]}" -o asyncl.json >/dev/null
try 2 'by zero3 or zero2 beside tensor' export asyncl.json "${like[@]}" --to torchtitan
sed -e 's/"allreduce"/"zero3"/' -e '/"overlap_grads"/d' asyncl.json >async3.json # FSDP overlaps by itself
"$M" export async3.json "${like[@]}" --to torchtitan -o t.py && grep -q 'enable_async_tensor_parallel=True' t.py || bad=1
try 2 'RMS norms, rotary positions' export pp.json "${ask[@]}" --dtype bf16 --to torchtitan
try 2 'overlap_tp is not exported' export async.json "${ask[@]}" --dtype bf16 --to flagscale
sed -e '/"overlap_tp"/d' -e 's/"offload_layers": 0/"offload_layers": 3/' async.json >away.json
try 2 'offload_layers 3 is not exported; megatron has it' export away.json "${ask[@]}" --dtype bf16 --to flagscale
try 2 'bf16 or fp32, not fp16' export pl.json "${like[@]}" --dtype fp16 --to torchtitan
sed 's/"allreduce"/"zero3"/' tp.json >z3.json; try 2 'syncs gradients by zero1 or allreduce .*, not zero3' export z3.json "${ask[@]}" --to megatron
gan=$ROOT/tests/corpus/graph/transgan_export.jsonl
"$M" search -m $gan -p dgx1_v100 --batch 16 -e data-parallel --evals 2 -j 1 -o gan >/dev/null
try 2 'are not of one width; try another --software$' export gan/plan-1.json -m $gan -p dgx1_v100 --batch 16 --to megatron
try 2 'are not of one width' export gan/plan-1.json -m $gan -p dgx1_v100 --batch 16 --to flagscale
try 2 'give one of megatron megatron-fsdp' export tp.json "${ask[@]}" --to horovod
try 2 'cannot open' export --import none.sh "${ask[@]}" -o x.json
# Megatron-Bridge: what its configuration holds where the program begins to train, each field one of its classes'.
h100=(-p "gpu=H100-SXM-80GB nodes=2" --batch 32 --seq 2048)
bridge() { # FLAGS -- QUESTION -- VALUES
	local flags=() question=("${h100[@]}")
	while [ "$1" != -- ]; do flags+=("$1"); shift; done; shift
	while [ "$1" != -- ]; do question+=("$1"); shift; done; shift
	printf '%s \\\n' "${flags[@]}" >in.sh; rm -rf bridge
	"$M" export --import in.sh "${question[@]}" -o a.json >/dev/null && "$M" export a.json "${question[@]}" --to megatron-bridge -o bridge &&
		"$ROOT/tests/flags/run-bridge" bridge >values || { echo "not written: ${flags[*]}"; bad=1; }
	for v in "$@"; do grep -qxF -- "$v" values || { echo "no '$v' in:"; cat values; bad=1; }; done
}
llama=llama:layers=8,hidden=1024,heads=16,kv_heads=8,ffn=2816,vocab=32000
bridge --use-distributed-optimizer "--tensor-model-parallel-size 2" --sequence-parallel "--pipeline-model-parallel-size 2" --tp-comm-overlap \
	"--num-virtual-stages-per-pipeline-rank 2" "--context-parallel-size 2" "--cp-comm-type a2a" --overlap-grad-reduce --overlap-param-gather \
	--defer-embedding-wgrad-compute "--wgrad-deferral-limit 3" \
	-- -m $llama --dtype bf16 --software nemo,defer_embedding_wgrad_compute=1,wgrad_deferral_limit=3 -- 'run pretrain LlamaForCausalLM' \
	'comm_overlap.defer_embedding_wgrad_compute True' 'comm_overlap.wgrad_deferral_limit 3' 'recipe bf16_mixed' 'model.tensor_model_parallel_size 2' \
	'model.pipeline_model_parallel_size 2' 'model.virtual_pipeline_model_parallel_size 2' 'model.context_parallel_size 2' 'model.cp_comm_type a2a' \
	'model.sequence_parallel True' 'train.global_batch_size 32' 'train.micro_batch_size 1' 'model.seq_length 2048' 'ddp.bucket_size 100000000' \
	'ddp.use_distributed_optimizer True' 'optimizer.use_distributed_optimizer True' 'ddp.overlap_grad_reduce True' 'comm_overlap.tp_comm_overlap True' \
	'comm_overlap.overlap_param_gather True' 'optimizer.overlap_param_gather_with_optimizer_step True' 'mixed_precision.grad_reduce_in_fp32 False'
"$M" export --import in.sh "${h100[@]}" -m $llama --dtype bf16 --software nemo -o a.json |
	grep -q 'give --software nemo,defer_embedding_wgrad_compute=1,wgrad_deferral_limit=3$' || bad=1
"$M" export a.json "${h100[@]}" -m $llama --dtype bf16 --software nemo,defer_embedding_wgrad_compute=1,wgrad_deferral_limit=3 --to megatron >a.sh || bad=1
grep -q -- '--defer-embedding-wgrad-compute --wgrad-deferral-limit 3 \\' a.sh || { echo "nothing is deferred"; bad=1; }
grep -q -- '--cp-comm-type a2a \\' a.sh || { echo "nemo is no Megatron-LM any more"; bad=1; }
bridge --use-distributed-optimizer "--pipeline-model-parallel-size 4" '--pipeline-model-parallel-layout "Et*1|t*3|t*3|t*1L"' --use-tp-pp-dp-mapping \
	"--recompute-granularity full" "--recompute-method block" "--recompute-num-layers 1" "--num-distributed-optimizer-instances 2" "--optimizer sgd" \
	-- -m $llama --dtype bf16 --gemm-dtype mxfp8 --grad-dtype fp32 --optimizer momentum -- 'model.pipeline_model_parallel_layout Et*1|t*3|t*3|t*1L' \
	'dist.use_tp_pp_dp_mapping True' 'model.recompute_granularity full' 'model.recompute_method block' 'model.recompute_num_layers 1' \
	'ddp.num_distributed_optimizer_instances 2' 'optimizer.optimizer sgd' 'optimizer.sgd_momentum 0.9' 'recipe bf16_with_mxfp8_mixed' \
	'mixed_precision.first_last_layers_bf16 False' 'mixed_precision.grad_reduce_in_fp32 True' 'mixed_precision.reuse_grad_buf_for_mxfp8_param_ag True' 'ddp.grad_reduce_in_fp32 True'
bridge --use-distributed-optimizer "--expert-model-parallel-size 8" "--tensor-model-parallel-size 2" --sequence-parallel "--expert-tensor-parallel-size 1" \
	-- -m Qwen/Qwen3-30B-A3B --dtype bf16 --gemm-dtype fp8 --software megatron-bridge-26.06,num_layers_at_end_in_bf16=2 -- 'run pretrain Qwen3MoeForCausalLM' \
	'recipe bf16_with_fp8_current_scaling_mixed' 'mixed_precision.first_last_layers_bf16 True' \
	'mixed_precision.num_layers_at_start_in_bf16 0' 'mixed_precision.num_layers_at_end_in_bf16 2' 'mixed_precision.fp8_param_gather True' \
	'model.expert_model_parallel_size 8' 'model.expert_tensor_parallel_size 1' 'model.moe_flex_dispatcher_backend hybridep' \
	'model.cuda_graph_impl full_iteration' 'rng.te_rng_tracker True' 'model.use_transformer_engine_op_fuser True'
# layers that stay in bf16: back from what Megatron-LM is told; where that is all of them, the run is one in bf16
kept=(-m $llama --dtype bf16 --gemm-dtype fp8 --software nemo,num_layers_at_start_in_bf16=1,num_layers_at_end_in_bf16=2)
printf '%s\n' "--tensor-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer --bf16 --fp8-format hybrid --first-last-layers-bf16" \
	"--num-layers-at-end-in-bf16 2" >in.sh
"$M" export --import in.sh "${h100[@]}" "${kept[@]}" -o a.json | grep -q 'give.*bf16=' && { echo "layers in bf16 are not understood"; bad=1; }
"$M" export --import in.sh "${h100[@]}" "${kept[@]:0:6}" --software nemo -o a.json |
	grep -q 'give.* --software nemo,num_layers_at_start_in_bf16=1,num_layers_at_end_in_bf16=2' || bad=1
"$M" export a.json "${h100[@]}" "${kept[@]}" --to megatron |
	grep -q -- '--first-last-layers-bf16 --num-layers-at-start-in-bf16 1 --num-layers-at-end-in-bf16 2 \\' || bad=1
for q in "mxfp8 --software nemo,num_layers_at_start_in_bf16=8" "fp8 --software nemo,fp8_attention=1,num_layers_at_end_in_bf16=9" "dtype --software nemo"; do
	"$M" simulate --plan a.json "${h100[@]}" "${kept[@]:0:4}" --gemm-dtype $q -o kept >kept.txt 2>&1 || bad=1
	{ grep -o '^step time [^,]*' kept.txt; cat kept/memory.csv; } | cksum; done | sort -u | wc -l
try 2 "bf16_ops 'qkv.proj', mxfp8_ops ''.* file of --te-precision" export a.json "${h100[@]}" "${kept[@]:0:6}" --software "nemo,bf16_ops=qkv|proj" --to megatron
printf '%s\n' --use-distributed-optimizer >in.sh
try 2 '\-\-optimizer none: these are settings of training' export a.json "${h100[@]}" "${kept[@]:0:6}" --software nemo --optimizer none --to megatron
refused() { # WHY QUESTION...
	local why=$1; shift
	"$M" export --import in.sh "${h100[@]}" "$@" -o a.json >/dev/null || bad=1
	try 2 "$why" export a.json "${h100[@]}" "$@" --to megatron-bridge
}
refused "no bridge for model .* a gpt2" -m gpt:layers=8,hidden=1024,heads=16 --dtype bf16
refused "no recipe of mixed precision of fp32" -m $llama --dtype fp32
refused "cuda_graph_scope 'qkv'" -m $llama --dtype bf16 --software nemo,cuda_graph_scope=qkv
refused "not the settings of --software megatron-core" -m $llama --dtype bf16 --software megatron-core
printf '%s\n' "--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params" >in.sh
refused "is Megatron-FSDP's" -m $llama --dtype bf16 --software nemo
# which flags of Megatron-LM say
"$M" export a.json "${h100[@]}" -m $llama --dtype bf16 --software nemo --to megatron | grep -q 'strategy optim_grads_params' || bad=1
finish
