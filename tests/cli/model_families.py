import json, subprocess, sys
def read(name, config):
    json.dump(config, open(name + ".json", "w"))
    out = subprocess.run([sys.argv[1], "model", name + ".json"], capture_output=True, text=True)
    if out.returncode: print(name, out.stderr); return 0
    if out.stderr: print(out.stderr.strip())
    return int(out.stdout.split("parameters ")[1].split()[0])
def llama(kind, h, l, a, kv, f, v, **more):
    return dict(model_type=kind, hidden_size=h, num_hidden_layers=l, num_attention_heads=a, num_key_value_heads=kv,
                intermediate_size=f, vocab_size=v, max_position_embeddings=4096, **more)
T = 1e-4
rows = [
    ("gemma2-9b", 9241705984, 0, llama("gemma2", 3584, 42, 16, 8, 14336, 256000, head_dim=256)),
    ("gemma3-4b-text", 3880263168, T, dict(model_type="gemma3", text_config=dict(model_type="gemma3_text", hidden_size=2560,
        intermediate_size=10240, num_hidden_layers=34, sliding_window=1024), vision_config={})),
    ("phi3-mini", 3821079552, 0, llama("phi3", 3072, 32, 32, 32, 8192, 32064, sliding_window=2047)),
    ("phi4", 14659507200, 0, llama("phi3", 5120, 40, 40, 10, 17920, 100352)),
    ("qwen1.5-moe", 14315784192, T, llama("qwen2_moe", 2048, 24, 16, 16, 5632, 151936, moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632, num_experts=60, num_experts_per_tok=4)),
    ("gpt-oss-20b", 20914757184, T, llama("gpt_oss", 2880, 24, 64, 8, 2880, 201088, head_dim=64, num_local_experts=32,
        num_experts_per_tok=4, attention_bias=True)),
    ("llama4-maverick-text", 400711848960, 0, dict(model_type="llama4", text_config=llama("llama4_text", 5120, 48, 40, 8, 8192,
        202048, head_dim=128, intermediate_size_mlp=16384, num_local_experts=128, num_experts_per_tok=1,
        interleave_moe_layer_step=2))),
    ("olmo2-7b", 7298617344, T, llama("olmo2", 4096, 32, 32, 32, 11008, 100352)),
    ("glm4.5-air", 106852251264, T, llama("glm4_moe", 4096, 46, 96, 8, 10944, 151552, head_dim=128, moe_intermediate_size=1408,
        n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1, attention_bias=True)),
    ("mamba-codestral", 7285403648, 0, dict(model_type="mamba2", hidden_size=4096, num_hidden_layers=64, num_heads=128,
        head_dim=64, n_groups=8, state_size=128, vocab_size=32768)),
    ("gpt-neox-20b", 20554567680, 0, dict(model_type="gpt_neox", hidden_size=6144, num_hidden_layers=44,
        num_attention_heads=64, intermediate_size=24576, vocab_size=50432, max_position_embeddings=2048)),
    ("opt-6.7b", 6658473984, 0, dict(model_type="opt", hidden_size=4096, num_hidden_layers=32, num_attention_heads=32,
        ffn_dim=16384, vocab_size=50272, max_position_embeddings=2048)),
    ("t5-v1.1-large", 783150080, 0, dict(model_type="t5", d_model=1024, num_layers=24, num_heads=16, d_kv=64, d_ff=2816,
        vocab_size=32128, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    ("vit-base", 86567656, 0, dict(model_type="vit", hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, image_size=224, patch_size=16, num_channels=3)),
    # without the table of positions, 256 x 1152, which is not trained
    ("dit-xl-2", 675129632 - 294912, 0, dict(_class_name="DiTTransformer2DModel", num_layers=28, num_attention_heads=16,
        attention_head_dim=72, sample_size=32, patch_size=2, in_channels=4, num_embeds_ada_norm=1000)),
    # counted by transformers 5.17 on its meta device
    ("hunyuan-3", 295033528320, 0, llama("hy_v3", 4096, 80, 64, 8, 13312, 120832, head_dim=128, num_experts=192, num_shared_experts=1,
        num_experts_per_tok=8, moe_intermediate_size=1536, mlp_layer_types=["dense"] + ["sparse"] * 79)),
    ("a.x-k1", 518983052288, T, llama("axk1", 7168, 61, 64, 64, 18432, 163840, moe_intermediate_size=2048, n_routed_experts=192,
        n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=1, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128)),
    ("hyperclova-x", 6738677760, 0, llama("hyperclovax", 4096, 32, 32, 32, 11008, 32000, use_post_norm=True)),
    ("hyperclova-x-pre", 6738415616, 0, llama("hyperclovax", 4096, 32, 32, 32, 11008, 32000, use_post_norm=False)),
    ("vaultgemma", 2614222080, 0, llama("vaultgemma", 2304, 26, 8, 4, 9216, 256000, head_dim=256)),
    ("mellum", 12149923072, 0, llama("mellum", 2304, 28, 32, 4, 7168, 98304, head_dim=128, moe_intermediate_size=896,
        num_local_experts=64, num_experts_per_tok=8)),
    ("eurobert-610m", 755625600, 0, llama("eurobert", 1152, 26, 18, 6, 4096, 128256)),
    ("olmo-hybrid", 7430870688, T, llama("olmo_hybrid", 3840, 32, 30, 30, 11008, 100352, linear_num_key_heads=30,
        linear_num_value_heads=30, linear_key_head_dim=96, linear_value_head_dim=192, linear_conv_kernel_dim=4)),
    ("gemma4-as-transformers-5-writes-it", 30697345280, 0, llama("gemma4_text", 5376, 60, 32, 16, 21504, 262144, head_dim=256,
        sliding_window=1024, attention_k_eq_v=True, layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 10,
        per_layer_config={"%02d" % i: dict(head_dim=512, num_key_value_heads=4) for i in range(5, 60, 6)})),
    ("bloom-560m", 559214592, 0, dict(model_type="bloom", hidden_size=1024, n_layer=24, n_head=16, vocab_size=250880)),
    ("t5-by-its-defaults", 60506624, 0, dict(model_type="t5")),
    ("bart-by-its-defaults", 406291456, 0, dict(model_type="bart")),
    ("nllb-600m", 615073792, T, dict(model_type="m2m_100", d_model=1024, encoder_layers=12, decoder_layers=12,
        encoder_attention_heads=16, encoder_ffn_dim=4096, decoder_ffn_dim=4096, vocab_size=256206)),
    ("lightonocr", 1005647872, T, dict(model_type="lighton_ocr", text_config=dict(llama("qwen3", 1024, 28, 16, 8, 3072, 151936,
        head_dim=128)), tie_word_embeddings=True, spatial_merge_size=2, vision_config=dict(model_type="pixtral", hidden_size=1024,
        num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, image_size=448, patch_size=14))),
    ("unheard-of", 1498482688, 0, llama("newfangled", 2048, 16, 32, 8, 8192, 128256, rms_norm_eps=1e-5)),
]
bad = 0
for name, want, off, config in rows:
    got = read(name, config)
    if abs(got - want) > off * want: print(name, got, "parameters, published", want); bad = 1
sys.exit(bad)
