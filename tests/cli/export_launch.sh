# Launch settings of others as plans: each program's keys, and what is none.
. "$ROOT/tests/cli/lib.sh.inc"
ask=(-m llama:layers=32,hidden=1024,heads=16,kv_heads=16,ffn=2816,vocab=32000,seq=2048 -p "gpu=H100-SXM-80GB nodes=4" -j 1)
read_it() { echo "== $1"; "$M" export --import "$@" "${ask[@]}" -o p.json 2>&1 || echo "exit code $?"; }
cat >nemo.yaml <<'Y'
trainer: {devices: 8, num_nodes: 4, precision: bf16-mixed}
model:
  mcore_gpt: true
  micro_batch_size: 1
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: ${.num_stages}
  num_stages: 2
  virtual_pipeline_model_parallel_size: null
  sequence_parallel: true
  encoder_seq_length: 2048
  activations_checkpoint_granularity: selective
  fp8: hybrid
  optim: {name: distributed_fused_adam, lr: 1e-4}
Y
read_it nemo.yaml
"$M" export p.json "${ask[@]}" --batch 128 --dtype bf16 --to flagscale -o flagscale.yaml && cp p.json nemo.json
read_it flagscale.yaml --batch 128
cmp p.json nemo.json || echo "FlagScale's file is another plan"
sed -i 's/enable_hetero: False/enable_hetero: True/' flagscale.yaml
read_it flagscale.yaml --batch 128
cat >titan.toml <<'Y'
[job]
description = "Llama 3" # as published
[training]
local_batch_size = 4
seq_len = 2048
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
[activation_checkpoint]
mode = "full"  # ["none", "selective", "full"]
Y
read_it titan.toml --batch 32
try 2 '^maquette export: -m is missing' export --import titan.toml --batch 32 -p 32xH100 -o none.json
echo 'torchrun --nproc_per_node 8 --nnodes 4 -m torchtitan.train --parallelism.tensor_parallel_degree=2 --parallelism.data_parallel_shard_degree 16 --training.local_batch_size 2' >override.sh
read_it override.sh --batch 32
cat >accelerate.yaml <<'Y'
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: false, fsdp_activation_checkpointing: true}
mixed_precision: bf16
num_machines: 4
num_processes: 32
Y
read_it accelerate.yaml --batch 64
sed 's/fsdp_version: 2, fsdp_reshard_after_forward: false/fsdp_sharding_strategy: HYBRID_SHARD/' accelerate.yaml >hybrid.yaml
read_it hybrid.yaml --batch 64
sed 's/fsdp_version: 2, fsdp_reshard_after_forward: false/fsdp_sharding_strategy: SOME/' accelerate.yaml >odd.yaml
read_it odd.yaml --batch 64
cat >axolotl.yml <<'Y'
base_model: NousResearch/Meta-Llama-3-8B
datasets: [{path: a, type: b}]
sequence_len: 2048
micro_batch_size: 2
gradient_accumulation_steps: 4
gradient_checkpointing: true
fsdp: [full_shard, auto_wrap]
bf16: auto
Y
read_it axolotl.yml --batch 256
echo 'deepspeed: deepspeed_configs/zero3.json' >>axolotl.yml
read_it axolotl.yml --batch 256
mkdir deepspeed_configs recipes; sed /^fsdp/d axolotl.yml >recipes/axolotl.yml # the file lies below a folder around the recipe
echo '{"zero_optimization": {"stage": 2, "overlap_comm": true, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": "auto"}, "train_batch_size": 256}' >deepspeed_configs/zero3.json
read_it recipes/axolotl.yml --batch 256 --software deepspeed
sed -i 's/overlap_comm/zero_quantized_weights/' deepspeed_configs/zero3.json; read_it recipes/axolotl.yml --batch 256 --software deepspeed
echo '{"deepspeed": "deepspeed_configs/zero3.json"}' >deepspeed_configs/zero3.json; read_it recipes/axolotl.yml --batch 256 --software deepspeed
cat >heredoc.sh <<'S'
TP=2
sbatch --job-name x <<EOF
#!/bin/bash
#SBATCH --nodes=4
torchrun --nnodes \$SLURM_NNODES --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --micro-batch-size 2
EOF
S
read_it heredoc.sh --batch 256
printf 'base_config: base.yml\nmodel_name: llama3-8b\nper_device_batch_size: 12\nici_fsdp_parallelism: 8\n' >maxtext.yml; read_it maxtext.yml --batch 96
echo 'python3 -m maxtext.train configs/base.yml model_name=llama3-8b per_device_batch_size=2 dcn_fsdp_parallelism=4' >maxtext.sh; read_it maxtext.sh --batch 64
cat >factory.yaml <<'Y'
model_name_or_path: meta-llama/Meta-Llama-3-8B
finetuning_type: lora
per_device_train_batch_size: 1
Y
read_it factory.yaml --batch 32
sed -i 's/lora/full/' factory.yaml
read_it factory.yaml --batch 32
echo '{"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": "auto"}}' >ds.json
read_it ds.json --batch 64
# Batches that a launch says by its parts; keys of DeepSpeed that are read, are left to the question or say nothing.
echo '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8, "zero_quantized_weights": true}, "gradient_clipping": 1.0}' >parts.json
read_it parts.json --dtype fp16
echo '{"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}}' >whole.json
read_it whole.json
read_it ds.json
sed 's/"zero_optimization"/"train_batch_size": "auto", &/; s/"train_micro_batch_size_per_gpu": 2/"train_micro_batch_size_per_gpu": "auto"/' parts.json >auto.json
read_it auto.json
# A recipe's own class says what its keys do not; numbers as YAML and OmegaConf have them.
cat >class.yaml <<'Y'
model: {config: {_target_: nemo.collections.llm.gpt.model.llama.Llama3Config8B, num_layers: 32, hidden_size: 1_024, num_attention_heads: 16, ffn_hidden_size: 2816}}
trainer: {devices: 8, num_nodes: 4, plugins: {precision: bf16-mixed, fp8: hybrid, fp8_param_gather: true}}
strategy: {tensor_model_parallel_size: 2, sequence_parallel: true}
data: {micro_batch_size: 1, global_batch_size: 1_28}
optim: {overlap_grad_sync: true}
Y
read_it class.yaml --gemm-dtype fp8
sed 's/hidden_size: 2816/hidden_size: "${multiply:4, ${.hidden_size}}"/' class.yaml >product.yaml
read_it product.yaml
sed 's/hidden_size: 2816/hidden_size: "${multiply:${.hidden_size}, 2}"/' class.yaml >product.yaml
read_it product.yaml
sed 's/hidden_size: 2816/hidden_size: "${multiply:4, ${.width}}"/' class.yaml >product.yaml
read_it product.yaml
sed 's/num_attention_heads: 16/&, num_query_groups: 4/' class.yaml >groups.yaml
read_it groups.yaml
# as the launcher composes them: references from its root, lower-case names
sed 's/num_attention_heads: 16/&, normalization: rmsnorm/; s/model_parallel_size: 2/model_parallel_size: "${training.trainer.num_nodes}"/' class.yaml >root.yaml
read_it root.yaml
# torchtitan's file behind its script, sharded by default; layers that are recomputed one in so many.
printf '[training]\r\nlocal_batch_size = 2\r\n[parallelism]\r\ntensor_parallel_degree = 4\r\n[model]\r\nconverters = ["float8"]\r\n' >conf.toml
printf 'CONFIG_FILE=${CONFIG_FILE:-"./conf.toml"}\ntorchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ${CONFIG_FILE} --parallelism.tensor_parallel_degree 2 --parallelism.context_parallel_degree=2\n' >titan.sh
read_it titan.sh
"$M" simulate -P p.json "${ask[@]}" --batch 16 --software torchtitan >/dev/null || echo "not as torchtitan runs it"
sed -i 's/conf.toml/none.toml/' titan.sh; read_it titan.sh
printf '[training]\nlocal_batch_size = 2\nglobal_batch_size = -1\n[parallelism]\ndata_parallel_replicate_degree = 4\nenable_sequence_parallel = true\n' >copies.toml
read_it copies.toml
sed -i 's/= true/= false/' copies.toml; read_it copies.toml
printf '[training]\nlocal_batch_size = 2\n[parallelism]\ndata_parallel_shard_degree = -1\n[activation_checkpoint]\nmode = "selective"\nselective_ac_option = "2"\n' >every.toml
read_it every.toml
# Hugging Face's Trainer, whose arguments are words of a command line; a base of 4 bits.
echo 'accelerate launch --num_processes 32 --mixed_precision bf16 run.py --model_name_or_path x --per_device_train_batch_size=1 --gradient_accumulation_steps 16 --gradient_checkpointing --fsdp "full_shard auto_wrap"' >trainer.sh
read_it trainer.sh
echo 'torchrun --nproc-per-node gpu run.py --model-name-or-path x --per-device-train-batch-size 2 --bf16' >trainer.sh
read_it trainer.sh
printf 'base_model: x\nadapter: qlora\nload_in_4bit: true\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n' >qlora.yml
read_it qlora.yml --train lora
read_it qlora.yml --train qlora:rank=32
# A script that describes its model needs no other.
echo 'torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128 --vocab-size 1024 --micro-batch-size 1 --global-batch-size 16 --bf16 --fp8-format hybrid --fp8-param-gather' >own.sh
"$M" export --import own.sh -p 8xH100 -o p.json
"$M" search -m own.sh -p 8xH100 -e data-parallel --evals 1 -o own 2>&1 >own.txt | grep batch; grep '^batch' own/run.ini
# Machines that the script does not say are the platform's; devices that a plan leaves are named.
sed 's/--nproc_per_node 8/--nproc_per_node 8 --nnodes $SLURM_NNODES/' own.sh >slurm.sh
"$M" export --import slurm.sh -p 16xH100 -o p.json
"$M" export --import own.sh -p 16xH100 -o p.json
# no plans
printf 'milk\n2 eggs\n' >list.txt; read_it list.txt --batch 32
printf 'a: {b: 1}\nc: [1, 2]\n' >other.yaml; read_it other.yaml --batch 32
printf 'a: [1\n' >broken.yaml; read_it broken.yaml --batch 32
echo '{"name": "x", "version": 1}' >package.json; read_it package.json --batch 32
printf 'P="--tensor-model-parallel-size 2"\n[ -e /x ] && P="--tensor-model-parallel-size 4"\ntorchrun pretrain_gpt.py --micro-batch-size 1 $P\n' >doubt.sh
# What a model's file says and the settings do not is named in their head.
"$M" search -m openai/gpt-oss-20b --seq 1024 --batch 64 -p 64xH100 --software megatron-core -e expert --evals 1 -j 1 -o oss >/dev/null 2>&1 || bad=1
"$M" export oss/plan-1.json --to megatron 2>/dev/null | grep -xE "# (YaRN's factor and lengths are those of GPT-OSS|scale and bias of the router's scores are not set).*" || bad=1
"$M" search -m deepseek-ai/DeepSeek-V3 --seq 1024 --batch 512 -p 512xH200 --software megatron-core -e expert --evals 1 -j 1 -o v3 >/dev/null 2>&1 || bad=1
"$M" export v3/plan-1.json --to megatron 2>/dev/null | grep '^# not in these settings, of the model: ' || bad=1
read_it doubt.sh --batch 32
# Values that a key's readers do not know are named with the key; what trains or keeps a part elsewhere is refused.
for more in 'gradient_checkpointing: offload' 'fsdp: full_shard auto_wrap offload' 'fsdp: [shard_grad_op, offload]' 'fp8: true' \
	'fsdp: no_shard' 'unfrozen_parameters: [head]' 'expert_parallel_size: two' 'recompute_granularity: full'; do
	printf 'base_model: x\nmicro_batch_size: 2\n%s\n' "$more" >one.yml; read_it one.yml
done
for more in 'finetuning_type: oft' 'disable_gradient_checkpointing: true' 'disable_gradient_checkpointing: null' 'tensor_model_parallel_size: 2'; do
	grep -v "^${more%%:*}" factory.yaml >two.yaml; echo "$more" >>two.yaml; read_it two.yaml
done
printf 'batch_size: 2\ngradient_accumulation_steps: 8\nenable_activation_checkpointing: True\nfsdp_cpu_offload: False\ndtype: bf16\ntokenizer: {max_seq_len: 2048}\n' >tune.yaml
read_it tune.yaml
sed 's/load: False/load: True/' tune.yaml >two.yaml; read_it two.yaml
for zero in true '"yes"'; do echo '{"zero_optimization": '$zero', "train_micro_batch_size_per_gpu": 1}' >two.json; read_it two.json; done
echo 'torchrun pretrain_gpt.py --micro-batch-size 1 --global-batch-size 32 --use-torch-fsdp2 --checkpoint-activations' >two.sh; read_it two.sh
# GPT-NeoX's, which look like DeepSpeed's and have more; comments and numbers are YAML's.
printf '{\n  # all of them\n  "pipe_parallel_size": 2,\n  "model_parallel_size": 4, "num_layers": 32, "seq_length": 2048,\n  "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8, "checkpoint_activations": true,\n  "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}, "lr": 6e-4,\n}\n' >neox.yml
read_it neox.yml
sed 's/_parallel_size": 2/_parallel_size": 0/' neox.yml >two.yml; read_it two.yml
# Megatron's flags as keys of YAML.
printf 'ENV_VARS: {A: 1}\nMODEL_ARGS:\n  --num-layers: 4 # few\n  --hidden-size: 256\n  --num-attention-heads: 8\n  --seq-length: 128\n  --max-position-embeddings: 128\n  --vocab-size: 1024\n  --swiglu: false\n  --bf16: true\n  --micro-batch-size: 1\n  --global-batch-size: "16"\n  --recompute-granularity: selective\n  --recompute-modules: [core_attn]\n' >flags.yaml
"$M" export --import flags.yaml -m flags.yaml -p 8xH100 -o p.json
"$M" model flags.yaml >a; "$M" model own.sh >b; cmp a b || bad=1
