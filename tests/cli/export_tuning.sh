# What files of fine-tuning say of optimizers and frozen weights, Ulysses, and LLaMA-Factory's second kind of file; flags
# that a file assigns for others to source.
. "$ROOT/tests/cli/lib.sh.inc"
ask=(-m llama:layers=32,hidden=1024,heads=16,kv_heads=16,ffn=2816,vocab=32000,seq=2048 -p "gpu=H100-SXM-80GB nodes=1" -j 1)
read_it() { echo "== $1"; "$M" export --import "$@" "${ask[@]}" -o p.json 2>&1 | grep -v '^not read' || echo "exit code $?"; }
for more in 'optimizer: adamw_torch_fused' 'optimizer: paged_adamw_8bit' 'optimizer: adamw_torch_4bit' 'optim: lion_8bit' \
	'load_in_8bit: true' 'load_in_8bit: false' 'dp_shard_size: 4'; do
	printf 'base_model: x\nmicro_batch_size: 2\n%s\n' "$more" >one.yml; echo "$more"; read_it one.yml
done
printf 'base_model: x\nmicro_batch_size: 2\noptimizer: adamw_8bit\n' >one.yml
read_it one.yml --software fsdp,moment_B=1
for more in 'use_galore: true' 'mixture_of_depths: convert' 'pure_bf16: true' 'quantization_bit: 8' 'quantization_bit: 4'; do
	printf 'model_name_or_path: x\nfinetuning_type: full\nper_device_train_batch_size: 2\n%s\n' "$more" >two.yaml; echo "$more"; read_it two.yaml
done
printf 'model_name_or_path: x\nfinetuning_type: full\nper_device_train_batch_size: 2\n# quantization_bit: 4\n  # load_in_4bit: true\n#lora_rank: 8\n' >three.yaml; read_it three.yaml
printf '{"model_name_or_path": "x", "finetuning_type": "full", "per_device_train_batch_size": 2, "quantization_bit": 4}\n' >two.json; read_it two.json
v1() { printf 'model: x\nmodel_class: llm\n%s\nmicro_batch_size: 2\ncutoff_len: 2048\nbf16: true\n' "$1" >v1.yaml; echo "$1"; read_it v1.yaml; }
v1 'dist_config: {name: fsdp2, dcp_path: null}'
v1 'dist_config: {name: fsdp2}
global_batch_size: 64
cp_size: 2
enable_activation_checkpointing: false'
v1 'dist_config: {name: deepspeed, config_file: a.json}'
v1 'dist_config: {name: fsdpturbo}'
v1 'dist_config: {name: fsdp2}
peft_config: {name: freeze}'
v1 'dist_config: {name: fsdp2}
optim_config: {name: muon}'
nanotron() { printf 'model: {dtype: bfloat16}\noptimizer: {zero_stage: %s, accumulate_grad_in_fp32: true}\nparallelism: {dp: %s, tp: 2, pp: 2, pp_engine: %s, tp_mode: REDUCE_SCATTER, recompute_layer: true}\ntokens: {micro_batch_size: 2, batch_accumulation_per_replica: 8, sequence_length: 2048}\n' "$@" >nanotron.yaml; echo "$*"; read_it nanotron.yaml --software nanotron; }
nanotron 1 2 1f1b; nanotron 0 2 afab; nanotron 1 4 1f1b
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 3}\nnum_processes: 8\nparallelism_config: {parallelism_config_dp_shard_size: 4, parallelism_config_cp_size: 1, parallelism_config_sp_size: 2, parallelism_config_sp_backend: deepspeed}\n' >ulysses.yaml
read_it ulysses.yaml --batch 32
printf '[training]\nmax_context_length = 2048\nnum_tokens_per_microbatch_per_dp_rank = 4096\n[parallelism]\ndata_parallel_shard_degree = -1\n' >tokens.toml
read_it tokens.toml --batch 32
echo '--expert-model-parallel-size 4 --micro-batch-size 1' >dense.sh; read_it dense.sh --batch 32

printf 'Q_LORA_RANK=1536\nKV_LORA_RANK=512\npretrain_gpt.py --tensor-model-parallel-size 2 --micro-batch-size 1\n' >latent.sh; read_it latent.sh --batch 32
echo 'LORA_RANK=8; pretrain_gpt.py --tensor-model-parallel-size 2 --micro-batch-size 1' >adapters.sh; read_it adapters.sh --batch 32

# Tokens of a tokenizer, and the embedding padded for them.
echo "pretrain_gpt.py --num-layers 32 --hidden-size 1024 --num-attention-heads 16 --ffn-hidden-size 2816 --swiglu --normalization RMSNorm --use-rotary-position-embeddings --position-embedding-type rope --disable-bias-linear --untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --vocab-size 31990" >vocab.sh
read_it vocab.sh --batch 32; sed -i 's/31990/31800/' vocab.sh; read_it vocab.sh --batch 32

# Flags in an array or a string that nothing runs; a state-space layer's defaults; a spec that is somebody's own.
flags='--num-layers 4 --hidden-size 256 --num-attention-heads 8 --vocab-size 1024 --swiglu --seq-length 128 --max-position-embeddings 128'
count() { "$M" model "$@" 2>&1 | grep -E '^(parameters|maquette)'; }
echo "pretrain_gpt.py $flags" >run.sh; echo "N=4; MODEL_ARGS=(${flags/layers 4/layers \$N})" >array.sh; printf 'MODEL_ARGS=" \\\n  %s \\\n"\n' "$flags" >string.sh
for f in run array string; do count $f.sh; done
echo "MODEL_ARGS=(${flags/--seq-length 128/})" >short.sh; count short.sh; count short.sh --seq 128
echo "A=(${flags/--num-layers 4/--hybrid-layer-pattern M-M*})" >defaults.sh
echo "A=(${flags/--num-layers 4/--hybrid-layer-pattern M-M*} --mamba-num-heads 8 --mamba-head-dim 64 --mamba-num-groups 8 --mamba-state-dim 128)" >stated.sh
count defaults.sh; count stated.sh
echo "pretrain_gpt.py $flags --spec my.layers get_spec" >spec.sh; count spec.sh
echo "pretrain_gpt.py $flags --spec local" >spec.sh; count spec.sh
exit ${bad:-0}
