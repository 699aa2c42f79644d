. "$ROOT/tests/cli/lib.sh.inc"
# Eight models, four targets: every setting that is written exists in the framework's definitions (tests/flags), and
# reading it back gives the same plan; what a framework has no setting for is refused by name.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
python3 - <<'P'
import json
def llama(kind, h, l, a, kv, f, v, **more):
    return dict(model_type=kind, hidden_size=h, num_hidden_layers=l, num_attention_heads=a, num_key_value_heads=kv,
                intermediate_size=f, vocab_size=v, max_position_embeddings=8192, rms_norm_eps=1e-6, rope_theta=1e6, **more)
models = {
    "llama3": llama("llama", 4096, 32, 32, 8, 14336, 128256, rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                    high_freq_factor=4.0, original_max_position_embeddings=8192)),
    "qwen3-moe": llama("qwen3_moe", 2048, 48, 32, 4, 6144, 151936, head_dim=128, moe_intermediate_size=768, num_experts=128,
                       num_experts_per_tok=8),
    "mixtral": llama("mixtral", 4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2),
    "deepseek-v3": llama("deepseek_v3", 7168, 61, 128, 128, 18432, 129280, moe_intermediate_size=2048, n_routed_experts=256,
                         n_shared_experts=1, num_experts_per_tok=8, n_group=8, topk_group=4, first_k_dense_replace=3,
                         q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
                         routed_scaling_factor=2.5, rope_scaling=dict(type="yarn", factor=40, mscale=1.0, mscale_all_dim=1.0, beta_fast=32,
                         beta_slow=1, original_max_position_embeddings=4096)),
    "gpt-oss": llama("gpt_oss", 2880, 24, 64, 8, 2880, 201088, head_dim=64, num_local_experts=32, num_experts_per_tok=4,
                     sliding_window=128, attention_bias=True),
    "gemma2": llama("gemma2", 3584, 42, 16, 8, 14336, 256000, head_dim=256, sliding_window=1024),
    "qwen2": llama("qwen2", 3584, 28, 28, 4, 18944, 152064),
    "gpt2": dict(model_type="gpt2", n_embd=1600, n_layer=48, n_head=25, n_positions=2048, vocab_size=50257),
}
for name, config in models.items():
    json.dump(config, open(name + ".json", "w"))
P
cat >check.py <<'P'
# check.py TARGET FILE TABLES: names that the framework does not define, a line each.
import ast, json, sys
target, path, tables = sys.argv[1:]
def table(name):
    lines = [l for l in open(f"{tables}/{name}.txt").read().splitlines() if not l.startswith("#")]
    return lines
if target.startswith("megatron"):
    rows = {l.split(" ")[0]: l.split(" ") for l in table("megatron-lm")}
    words = [w for l in open(path).read().replace("\\\n", " ").splitlines() if not l.startswith("#") for w in l.split()]
    words = words[next(i for i, w in enumerate(words) if w.endswith(".py")):] # torchrun's own come before
    for i, w in enumerate(words):
        if not w.startswith("--"): continue
        if w not in rows: print("no flag", w); continue
        value = words[i + 1].strip('"') if i + 1 < len(words) and not words[i + 1].startswith("--") else None
        if (rows[w][1] == "flag") != (value is None): print("value?", w, value)
        if rows[w][2] and value not in rows[w][2].split(","): print("choice", w, value)
elif target == "torchtitan":
    rows = {l.split(": ")[0]: set(l.split(": ")[1].split()) for l in table("torchtitan")}
    trainer, seen = rows["Trainer.Config"], 0
    for node in ast.walk(ast.parse(open(path).read())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            fields = rows.get(name) or (rows["Decoder.Config"] if name.endswith("Model.Config") else
                rows["TransformerBlock.Config"] if name.endswith("Block.Config") else rows["RoPE.Config"] if "RoPE." in name else None)
            if fields is None: continue
            seen += 1
            for k in node.keywords:
                if k.arg not in fields and not (k.arg == "param_init" and name.endswith(".Config")) and k.arg != "model_compile_enabled":
                    print("no field", name, k.arg)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("config."):
            if ast.unparse(node.targets[0]).split(".")[1] not in trainer: print("no part", ast.unparse(node.targets[0]))
    if seen < 10: print("only", seen, "calls were recognised")
else:
    rows = {l.split(": ")[0]: set(l.split(": ")[1].split()) for l in table("deepspeed")}
    d = json.load(open(path))
    for k in d:
        if k not in rows["top"]: print("no key", k)
    for part in ("zero_optimization", "tensor_parallel", "pipeline"):
        for k in d.get(part, {}):
            if k not in rows[part]: print("no key", part, k)
    for k in d["zero_optimization"].get("offload_optimizer", {}):
        if k not in rows["offload_optimizer"]: print("no key offload_optimizer", k)
P
one() { # SOFTWARE TARGET MODEL
	local gpu=H100-SXM-80GB nodes=8 batch=256 q out in
	[ "$3" = deepseek-v3 ] && nodes=128 batch=512
	# without expert parallelism ZeRO-3 gathers all 256 experts of a layer: 119 GB on a device
	[ "$2$3" = deepspeeddeepseek-v3 ] && gpu=H200-SXM-141GB
	q=(-m "$3.json" --seq 2048 --batch $batch --dtype bf16 -p "gpu=$gpu nodes=$nodes" -j 1)
	rm -rf o x; mkdir x; out=x/out; in=$out; [ "$2" = deepspeed ] && { out=x; in=x/ds_config.json; }
	"$M" search "${q[@]}" --software "$1" -e expert --evals 1 --top 1 -o o >/dev/null 2>err ||
		{ echo "$2 $3: $(tail -n 1 err | cut -d: -f2-)"; return; }
	"$M" export o/plan-1.json "${q[@]}" --to "$2" -o $out >/dev/null 2>err || { echo "$2 $3: $(tail -n 1 err | cut -d: -f3-)"; return; }
	python3 check.py "$2" $in "$ROOT/tests/flags" || bad=1
	"$M" export --import $in "${q[@]}" --software "$1" -o back.json >/dev/null 2>err || { cat err; bad=1; return; }
	cmp o/plan-1.json back.json && echo "$2 $3: the same plan" || bad=1
	# the model too: as a model of its own, and not as another
	case $2 in
	megatron*) "$M" model $in >a; "$M" model "$3.json" --seq 2048 >b; cmp a b || bad=1 ;;
	deepspeed) "$M" model x/config.json --seq 2048 >a; "$M" model "$3.json" --seq 2048 >b; cmp a b || bad=1 ;;
	esac
}
for m in llama3 qwen3-moe mixtral deepseek-v3 gpt-oss gemma2 qwen2 gpt2; do
	one megatron-core megatron $m; one megatron-fsdp megatron-fsdp $m; one torchtitan torchtitan $m; one deepspeed deepspeed $m
done
# A script with names of its own, and one of another model.
cat >names.sh <<'S'
#!/bin/bash
GPUS_PER_NODE=8   # a comment with --tensor-model-parallel-size 3
NNODES=${NNODES:-8}; TP=4
MODEL_ARGS=(
	--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 14336 --vocab-size 128256
	--group-query-attention --num-query-groups 8 --seq-length 2048 --max-position-embeddings 8192
	--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear
	--attention-dropout 0.0 --hidden-dropout 0.0 --untie-embeddings-and-output-weights
)
PARALLEL="--tensor-model-parallel-size $TP --pipeline-model-parallel-size 2 \
	--sequence-parallel"
torchrun --nproc-per-node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py "${MODEL_ARGS[@]}" $PARALLEL \
	--micro-batch-size 1 --global-batch-size "256"
S
q=(-m llama3.json --seq 2048 --batch 256 --dtype bf16 -p "gpu=H100-SXM-80GB nodes=8" -j 1)
"$M" export --import names.sh "${q[@]}" -o names.json || bad=1
sed -i 's/--num-query-groups 8/--num-query-groups 4/' names.sh
try 2 'another model than -m: kv_heads is 8 and 4' export --import names.sh "${q[@]}" -o x.json
printf '%s\n' '--tensor-model-parallel-size $SIZE' >names.sh
try 2 'size \$SIZE: give a whole number' export --import names.sh "${q[@]}" -o x.json
finish
