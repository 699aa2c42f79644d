. "$ROOT/tests/cli/lib.sh.inc"
# Hugging Face configurations of published models: parameters as published (the models' cards and index files), within
# what the reader's head says it leaves out.
command -v python3 >/dev/null || { echo "skip: no python3"; exit 77; }
python3 "$ROOT/tests/cli/model_families.py" "$M" || bad=1
# The window, the layers without it, and squared error are in the work: twice the sequence is less than four times the
# attention where it has a window.
flop() { "$M" model "$1" --seq "$2" --csv ops.csv >/dev/null && awk -F, 'NR>1 && $2=="layer0.attention"{print $10}' ops.csv; }
short=$(flop gemma2-9b.json 4096); sed 's/"gemma2"/"gemma2", "sliding_window": 4096/' gemma2-9b.json >w.json; long=$(flop w.json 8192)
echo "a layer with a window of 4096: $(awk "BEGIN{print $long / $short}") times the work of 4096 tokens at 8192" # 4 (1/2 (2 - 1/2)) = 3
echo '{"model_type": "newer", "d_model": 5}' >newer.json; try 2 '"model_type" is newer, not a family that is read, and no Llama: d_model may change a layer' model newer.json
# An activation that no Llama has, towers beside models of other builders, true for a number.
llama='"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 64, "vocab_size": 99, "rms_norm_eps": 1e-6'
echo "{\"model_type\": \"chat\", \"hidden_size\": 32, $llama, \"hidden_act\": \"relu2\"}" >newer.json
try 2 'no Llama: hidden_act may change a layer' model newer.json
sed -i 's/relu2/silu/' newer.json; "$M" model newer.json 2>/dev/null | sed -n 2p
echo "{\"model_type\": \"llama\", \"hidden_size\": true, $llama}" >newer.json; try 2 '"hidden_size" is true; give a whole number' model newer.json
echo '{"model_type": "florence2", "text_config": {"model_type": "bart"}, "vision_config": {"depths": [1, 1]}}' >newer.json
try 2 'the vision_config of "florence2" is not read; towers=false leaves it out' model newer.json
"$M" model newer.json:towers=false | sed -n 2p
# Megatron-LM: flags of models that are not built, and names that flags had before.
gpt='python pretrain.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 128'
for more in '--img-h 336' '--experimental-attention-variant dsa' '--model-provider llava_vlm'; do
	echo "$gpt $more" >m.sh; try 2 "m.sh: ${more%% *}.*such models are not read" model m.sh; done
for more in '--use-rotary-position-embeddings' '--position-embedding-type rope'; do echo "$gpt $more" >m.sh; "$M" model m.sh | sed -n 2p; done
for name in override layer; do echo "$gpt --hybrid-$name-pattern M* --mamba-num-heads 8" >m.sh; "$M" model m.sh | sed -n 2p; done
# The same model in Megatron's log, in NeMo's file and as flags; a log has the defaults of other models, too.
cat >llama.log <<'L'
[rank0]: ------------------------ arguments ------------------------
  add_bias_linear ................................. False
  attention_backend ............................... AttnBackend.auto
  attention_dropout ............................... 0.0
  bert_binary_head ................................ True
  ffn_hidden_size ................................. 96
  global_batch_size ............................... 8
  group_query_attention ........................... True
  hidden_dropout .................................. 0.0
  hidden_size ..................................... 32
  hybrid_mlp_ratio ................................ 0.0
  img_h ........................................... 224
  moe_layer_freq .................................. [0, 1, 1]
  moe_router_topk ................................. 2
  normalization ................................... RMSNorm
  num_attention_heads ............................. 4
  num_experts ..................................... 4
[rank0]:   num_layers ...................................... 3
  num_query_groups ................................ 2
  padded_vocab_size ............................... 128
  position_embedding_type ......................... rope
  seq_length ...................................... 64
  spec ............................................ None
  swiglu .......................................... True
  untie_embeddings_and_output_weights ............. True
  vocab_size ...................................... 100
L
cat >llama.yaml <<'Y'
model:
  encoder_seq_length: 64
  num_layers: 3 # of both kinds
  hidden_size: 32
  ffn_hidden_size: 96
  num_attention_heads: 4
  num_query_groups: 2
  num_moe_experts: 4
  moe_router_topk: 2
  moe_layer_freq:
  - 0
  - 1
  - 1
  bias: false
  activation: 'fast-swiglu'
  normalization: rmsnorm
  position_embedding_type: rope
  share_embeddings_and_output_weights: false
  hidden_dropout: 0.0
  attention_dropout: 0.0
data:
  seq_length: 2048
Y
for file in llama.log llama.yaml:vocab=128; do "$M" model $file | sed -n '1,6p' | cksum; done
# The same in one line, with a reference; broken YAML is named by its line.
cat >flow.yaml <<'Y'
model: {encoder_seq_length: 64, num_layers: 3, hidden_size: 32, ffn_hidden_size: "${multiply:3,${.hidden_size}}", "num_attention_heads": 4,
 num_query_groups: 2, num_moe_experts: 4, moe_router_topk: 2, moe_layer_freq: [0, 1, 1], bias: false, activation: fast-swiglu, tags: [], none: {},
 normalization: rmsnorm, position_embedding_type: rope, share_embeddings_and_output_weights: false, hidden_dropout: 0.0, attention_dropout: 0.0}
Y
for file in llama flow; do "$M" model $file.yaml:vocab=128 >$file.out || bad=1; done; cmp llama.out flow.out
printf 'model: {num_layers: [3\n' >broken.yaml; try 2 'broken.yaml:2: broken YAML' model broken.yaml
sed -i 's/^data:/  mm_cfg: {}\n  hidden_size: 64/' llama.yaml; try 2 'hidden-size=32 and --hidden-size=64: give the settings of one model' model llama.yaml
sed -i '/mm_cfg/d; s/  hidden_size: 64/  img_h: 224/' llama.yaml; try 2 "img_h: 224: only stacks of GPT's blocks are read of settings" model llama.yaml
# No number where one must be, a decoder unlike its encoder, layers of more widths than one; attention to all sides.
echo "{\"model_type\": \"llama\", \"hidden_size\": \"auto\", $llama}" >newer.json; try 2 '"hidden_size" is a text; give a whole number' model newer.json
echo '{"model_type": "bart", "encoder_ffn_dim": 64, "decoder_ffn_dim": 32}' >newer.json; try 2 '"decoder_ffn_dim" gives ffn=32, another key ffn=64: such layers are not modelled' model newer.json
echo "{\"model_type\": \"gemma4_text\", \"hidden_size\": 32, $llama, \"per_layer_config\": {\"0\": {\"intermediate_size\": 9}}}" >newer.json
try 2 '"per_layer_config": only wider heads of full attention are read' model newer.json
echo "{\"model_type\": \"gemma3_text\", \"hidden_size\": 32, $llama, \"layer_types\": \"full_attention\"}" >newer.json
try 2 '"layer_types" is not as long as there are layers' model newer.json
for causal in true false; do
	echo "{\"model_type\": \"qwen2\", \"hidden_size\": 32, $llama, \"is_causal\": $causal}" >newer.json
	"$M" model newer.json --graph graph.jsonl >/dev/null; grep -c '"causal": *true' graph.jsonl; done
echo "{\"model_type\": \"bailing_moe\", \"hidden_size\": 32, $llama, \"num_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 9, \"use_bias\": true}" >newer.json
"$M" model newer.json 2>&1 >/dev/null | grep -o 'not used: use_bias'
finish
