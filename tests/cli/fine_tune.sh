. "$ROOT/tests/cli/lib.sh.inc"
# Fine-tuning as a question: what adapters add, what plans hold, what comes out as PEFT's settings and goes back in.
model=llama:layers=4,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=512
ask=(-m $model -p dgx1_v100 --batch 16 --seq 2048 --dtype fp16)
count() { "$M" model $model "$@" | sed -n 's/^parameters //p'; }
[ $(($(count --train lora:rank=8) - $(count))) -eq $((4 * 8 * (2048 + 4096 + 2048 + 2048))) ] || { echo "adapters: $(count)"; bad=1; }
lora="--train lora:rank=8,targets=q_proj+v_proj"
printf '%s\n' --use-distributed-optimizer >in.sh
step() { # --train WHAT: a step of eight replicas in ms, its memory in GB
	"$M" export --import in.sh "${ask[@]}" "$@" -o p.json >/dev/null && "$M" simulate -P p.json "${ask[@]}" "$@" -o r >r.txt 2>notes || bad=1
	echo "$(sed -n 's/^step time \([0-9.]*\) ms.*/\1/p' r.txt) $(sed -n 's/^memory \([0-9.]*\) GB.*/\1/p' r.txt)"; }
# Less to train is a shorter step in less memory; a base of 4 bits is smaller and slower; the job file says what was asked.
{ step; step $lora; step --train lora:rank=8,targets=q_proj+v_proj,base=nf4; } >steps
awk '{ t[NR] = $1; m[NR] = $2 } END { exit t[2] < t[1] && m[2] < m[1] && t[3] > t[2] && m[3] < m[2] ? 0 : 1 }' steps || { cat steps r.txt; bad=1; }
"$M" search "${ask[@]}" $lora -e hybrid --evals 5 -o s >/dev/null || bad=1
grep -q '^train = lora:rank=8,targets=q_proj+v_proj' s/run.ini || { cat s/run.ini; bad=1; }
grep -q 'MFU' notes || { echo "nobody says what MFU is of: $(cat notes)"; bad=1; }
# DeepSpeed with PEFT, and back; what says LoRA is not read as full training.
"$M" export --import in.sh "${ask[@]}" $lora -o p.json >/dev/null
"$M" export p.json "${ask[@]}" $lora --to deepspeed -o ds || bad=1
grep -q 'LoraConfig(r=8, lora_alpha=32, lora_dropout=0' ds/train.py || { cat ds/train.py; bad=1; }
grep -q 'target_modules=\["q_proj", "v_proj"\]' ds/train.py || bad=1
python3 -m py_compile ds/train.py || bad=1
"$M" export --import ds/ds_config.json "${ask[@]}" $lora -o back.json >/dev/null || bad=1
try 2 'trains adapters of low rank' export --import ds/ds_config.json "${ask[@]}" -o no.json
printf '%s\n' "--finetune --lora-rank 8" >lora.sh
try 2 'trains adapters of low rank' export --import lora.sh "${ask[@]}" -o no.json
try 2 'settings for --train lora' export back.json "${ask[@]}" $lora --to megatron
"$M" export --import in.sh "${ask[@]}" --train lora:rank=8,targets=qkv -o q.json >/dev/null
try 2 'PEFT has no adapters of qkv' export q.json "${ask[@]}" --train lora:rank=8,targets=qkv --to deepspeed -o x
# Megatron-Bridge: its LoRA as its finetune() gets it
"$M" export q.json "${ask[@]}" --train lora:rank=8,targets=qkv,dropout=.1 --to megatron-bridge -o bridge || bad=1
CHECKPOINT=base "$ROOT/tests/flags/run-bridge" bridge >values || bad=1
for v in 'run finetune LlamaForCausalLM' 'recipe fp16_mixed' "lora.target_modules ['linear_qkv']" 'lora.dim 8' 'lora.alpha 32' 'lora.dropout 0.1' \
	'checkpoint.pretrained_checkpoint base' 'model.seq_length 2048' 'ddp.use_distributed_optimizer True'; do
	grep -qxF "$v" values || { echo "no '$v' in:"; cat values; bad=1; }; done
for t in q_proj:'no adapters of q_proj' qkv,base=nf4:'holds the frozen base' qkv,base=fp8:'holds the frozen base'; do
	"$M" export --import in.sh "${ask[@]}" --train "lora:targets=${t%%:*}" -o no.json >/dev/null
	try 2 "Megatron-Bridge.* ${t#*:}" export no.json "${ask[@]}" --train "lora:targets=${t%%:*}" --to megatron-bridge -o no; done
[ ! -e no/train.py ] || { echo "a refusal wrote"; bad=1; }
# torchtitan's converter, and back
titan=(-m llama:layers=4,hidden=1024,heads=16,kv_heads=4,ffn=2816,seq=1024 -p "gpu=A100-SXM4-40GB nodes=1" --batch 16 --software torchtitan)
"$M" search "${titan[@]}" --train lora:rank=8,targets=qkv+proj+w1+w3 --fix dp=8 --evals 1 -j 1 -o titan >/dev/null || bad=1
"$M" export titan/plan-1.json --to torchtitan -o titan.py 2>/dev/null || bad=1
grep -q 'LoRAConverter.Config(rank=8, alpha=32, target_modules=\["wqkv", "wo", "w1", "w3"\]).build().convert(model)' titan.py || { echo "no adapters"; bad=1; }
try 2 'titan.py: trains adapters of low rank' export --import titan.py "${titan[@]}" -o full.json
"$M" export --import titan.py "${titan[@]}" --train lora:rank=8,targets=qkv+proj+w1+w3 -o again.json >/dev/null && cmp titan/plan-1.json again.json || bad=1
for t in q_proj:'no adapters of q_proj' qkv,dropout=.1:'no dropout' qkv,base=nf4:'no frozen base in another type'; do
	try 2 "torchtitan.* ha.* ${t#*:}" export titan/plan-1.json "${titan[@]}" --train "lora:targets=${t%%:*}" --to torchtitan; done
# PEFT's own file.
cat >adapter_config.json <<'J'
{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "lora_dropout": 0.05, "target_modules": ["q_proj", "v_proj"], "use_dora": false}
J
[ "$(count --train adapter_config.json)" = "$(count --train lora:rank=8,targets=q_proj+v_proj)" ] || { echo "adapter_config.json"; bad=1; }
sed 's/"use_dora": false/"use_dora": true/' adapter_config.json >dora.json; try 2 'use_dora is set' model $model --train dora.json
sed 's/LORA/IA3/' adapter_config.json >ia3.json; try 2 "peft_type 'IA3'" model $model --train ia3.json
try 2 "fits no GEMM of a layer" model $model --train lora:targets=c_attn
try 2 "did you mean 'lora'" model $model --train lorra
try 2 'leave --train out' model $model --train lora --graph g.jsonl
# A row that says LoRA and is not asked as such is refused.
cat >runs.csv <<'C'
model,model_spec,gpu,gpus,gbs,seq,step_time_s,train
tiny LoRA,"llama:layers=2,hidden=256,heads=8",H100,8,8,512,1,
tiny LoRA,"llama:layers=2,hidden=256,heads=8",H100,8,8,512,1,"lora:rank=8,targets=qkv"
C
"$M" score runs.csv -o sc >/dev/null; cat sc/refused.csv; cut -d, -f1,2 sc/score.csv
finish
