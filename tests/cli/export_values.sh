# What a model's file says and costs nothing, the stretch of its positions and the scale of its router, is written as each
# framework's own option, or refused by name.
. "$ROOT/tests/cli/lib.sh.inc"
llama() { # ROPE_SCALING
	cat <<J
{"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "max_position_embeddings": 8192, "num_attention_heads": 4,
 "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "vocab_size": 1024, "rope_scaling": {$1}}
J
}
yarn='"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings"'
latent() { # ROPE_SCALING, further keys
	cat <<J
{"model_type": "deepseek_v3", "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128, "num_hidden_layers": 2,
 "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "kv_lora_rank": 64,
 "q_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 16, "n_group": 4,
 "topk_group": 2, "num_experts_per_tok": 4, "n_shared_experts": 1, "vocab_size": 1024, "rope_theta": 10000.0,
 "max_position_embeddings": 4096, $2 "rope_scaling": {$1}}
J
}
wavelengths='"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192'
llama "\"rope_type\": \"llama3\", $wavelengths" >llama3.json
llama "\"rope_type\": \"llama3\", ${wavelengths/1.0/2.0}" >other.json
llama '"rope_type": "linear", "factor": 4.0' >linear.json
llama '"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "truncate": false' >yarn.json
llama '"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]' >longrope.json
latent "$yarn: 4096, \"mscale\": 1.0, \"mscale_all_dim\": 1.0" '"routed_scaling_factor": 2.5,' >deepseek.json
latent "$yarn: 4096" >unscaled.json
llama '"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "attention_factor": 1.5' >factor.json
llama '"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "attention_factor": 1.138629436' >usual.json
latent "$yarn: 8192, \"mscale\": 1.0, \"mscale_all_dim\": 1.0" >length.json
latent '"rope_type": "default"' >plain.json
echo --micro-batch-size 1 >in.sh
for m in llama3 other linear yarn longrope deepseek unscaled factor usual length plain; do
	q=(-m $m.json --seq 512 --batch 8 --dtype bf16 -p "gpu=H100-SXM-80GB nodes=1" -j 1)
	"$M" export --import in.sh "${q[@]}" -o p.json >/dev/null || bad=1
	sed -e 's/"allreduce"/"zero3"/' -e '/"overlap_grads"/d' p.json >z.json
	rm -rf ds
	"$M" export p.json "${q[@]}" --to megatron -o m.sh 2>&1 | cut -d: -f3- | sed "s/^/$m: /"
	[ -s m.sh ] && grep -oE -- '--(rope|rotary-s|use-rope|yarn|no-yarn|mscale|moe-router-topk-s)[^\\]*' m.sh | sed "s/^/$m: /"
	"$M" export z.json "${q[@]}" --to torchtitan -o t.py 2>&1 | cut -d: -f3- | sed "s/^/$m: /"
	[ -s t.py ] && grep -oE '^route_scale.*|, scaling=.*|mscale=.*' t.py | sed "s/^/$m: /"
	"$M" export z.json "${q[@]}" --to deepspeed -o ds >/dev/null 2>err || cut -d: -f3- err | sed "s/^/$m: /"
	[ ! -f ds/config.json ] || python3 - $m.json <<'P' || bad=1
import json, sys
given, said = json.load(open(sys.argv[1])), json.load(open("ds/config.json"))
rope = {("rope_type" if k == "type" else k): v for k, v in given["rope_scaling"].items()}
if rope.get("attention_factor", 0) < 1.2: rope.pop("attention_factor", 0) # what factor makes is not said
got = said.get("rope_scaling", {"rope_type": "default"})
assert rope == got and said.get("routed_scaling_factor") == given.get("routed_scaling_factor"), (rope, got)
P
	rm -f m.sh t.py
done
exit $bad
