/* transformer.h - the description of a transformer that built-in builders and file readers share.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_TRANSFORMER_H
#define MQ_MODEL_BUILDERS_LIB_TRANSFORMER_H

#include "model/builders/lib/mixers.h"

struct mq_tower;

/* Scaling of rotary embeddings for longer contexts. 0 = not known. */
struct mq_rope {
	const char *kind; /* "yarn", "llama3", "linear", ...; NULL = no scaling */
	double factor;
	uint32_t length;           /* context length before scaling, tokens */
	double fast, slow;         /* YaRN's beta_fast, beta_slow: no scaling above so many rotations, full below */
	double mscale, mscale_all; /* YaRN of DeepSeek: mscale, mscale_all_dim */
	double attention;          /* YaRN: attention factor, if it does not follow from `factor` */
	bool unrounded;            /* YaRN: the range between both is not truncated to integers */
	double low, high;          /* Llama 3: low_freq_factor, high_freq_factor */
};

struct mq_transformer {
	const char *name;
	uint32_t layers;
	uint32_t hidden, heads, kv_heads, head_dim; /* kv_heads, head_dim 0: heads, hidden / heads */
	uint32_t ffn;                               /* 0 = 4 hidden */
	uint32_t vocab, seq;
	uint32_t positions;                  /* learned position table; 0 = none */
	uint32_t token_types;                /* rows of BERT's segment table */
	uint32_t relative;                   /* rows of the table of relative positions, per head (T5) */
	uint32_t experts, top_k;             /* 0 = dense */
	uint32_t capacity;                   /* tokens of a sample that an expert takes; 0 = all that choose it */
	uint32_t expert_groups, group_limit; /* see mq_model */
	uint32_t shared_ffn;                 /* width of the shared experts, which every token visits */
	uint32_t dense_layers;               /* first layers without experts */
	uint32_t dense_ffn;                  /* their MLP width; 0 = ffn */
	/* Latent attention (DeepSeek): ranks of the compressed Q and of K and V; the latter 0 = not
	 * latent. A head's Q and K are nope_dim + rope_dim wide, its V value_dim. */
	uint32_t q_rank, kv_rank, nope_dim, rope_dim;
	uint32_t value_dim; /* without latent attention: 0 = head_dim */
	/* Hybrid stacks: a letter per layer, each layer with one norm and one residual: M Mamba-2,
	 * * attention, - feed-forward, E experts. NULL = every layer is attention and feed-forward. */
	const char *pattern;
	/* Stacks of layers with two parts each that differ between layers: a letter per layer, NULL = all equal.
	 * mixers, the parts that mix tokens: * attention, W attention within `window`, I latent attention with its own
	 * indexer, M Mamba, H Mamba in parallel with attention, D delta-net, L lightning attention, C short
	 * convolution, . none. feeds, the parts after them: - feed-forward, E experts, . none. */
	const char *mixers, *feeds;
	struct mq_mamba mamba;
	struct mq_linear linear; /* D, L, C */
	/* Sparse attention (DeepSeek-V3.2): index_heads narrow heads score all keys, a query sees index_keys. */
	uint32_t index_heads, index_dim, index_keys;
	uint32_t local_heads, local_kv_heads, local_head_dim, local_value_dim; /* of layers W; 0 = as elsewhere */
	uint32_t latent; /* width of tokens in the all-to-all to experts; 0 = hidden */
	/* Multi-token prediction (DeepSeek-V3): so many times more a block (of a hybrid stack:
	 * attention and experts) with norms, a projection of stream and embedding, the head and a loss. */
	uint32_t mtp;
	bool mtp_shared;                  /* all of them share one set of weights */
	uint32_t predictions;             /* BERT: masked tokens in the head; 0 = 15 % of seq */
	bool biases, qkv_bias, proj_bias; /* qkv_bias, proj_bias: without biases elsewhere */
	bool qk_norm;                     /* RMS norms on each head's Q and K */
	bool gated, relu, rms;
	bool clamp;          /* experts clamp the activation's input (GPT-OSS) */
	uint32_t window;     /* sliding window of most layers, keys; 0 = none */
	uint32_t full_every; /* every n-th layer sees all keys; 0 = none does */
	uint32_t moe_every;  /* every n-th layer has experts; 0 = all behind dense_layers */
	bool tied;           /* the head shares the embedding's parameters */
	bool headless;       /* no GEMM with the vocabulary: the loss is over the last norm's width */
	bool causal, fused, rotary, dropout;
	bool undropped;      /* no dropout of attention probabilities, even with dropout elsewhere */
	bool post_norm;      /* norm after the residual (BERT) */
	bool output_norms;   /* norms of the outputs of attention and MLP (Gemma 2, OLMo 2) */
	bool no_input_norms; /* no norms of their inputs (OLMo 2) */
	bool parallel;       /* attention and MLP both read the residual stream, in parallel (GPT-NeoX) */
	bool one_norm;       /* parallel, with one norm for both (GPT-J, Falcon, Command R) */
	bool output_gate;    /* attention output times a gate as wide as Q (Qwen3-Next) */
	bool shared_kv;      /* full attention uses K as V (Gemma 4) */
	bool chunked;        /* chunked attention: no query sees beyond its chunk (Llama 4) */
	bool embedding_norm; /* norm after the embedding (BLOOM, ModernBERT) */
	/* gelu to norm_eps: for exports alone; only rope_part and yarn have an effect on costs. */
	bool gelu;           /* GeGLU instead of SwiGLU */
	bool squared;        /* the ReLU is squared */
	bool softcap;        /* tanh soft caps on scores and logits */
	bool sigmoid_router; /* router with sigmoids and a bias for balance */
	double router_scale; /* factor on the routing weights; 0 = not known */
	double rope_theta;   /* base of rotary embeddings; 0 = not known */
	double rope_part;    /* share of a head's width with rotary embedding; 0 = all */
	bool yarn;           /* YaRN with a concentration factor, which scales Q and K */
	struct mq_rope rope;
	double norm_eps; /* 0 = not known */
	const struct mq_tower *const
		*towers;     /* vision and audio encoders, NULL-terminated; or NULL (builders/lib/tower.h) */
	uint32_t contrast;   /* width of contrastive embeddings (CLIP); 0 = language modelling */
	bool pretrain_heads; /* BERT: pooler, masked-language and next-sentence heads */
	bool span_head;      /* instead: a head for the start and end of an answer (SQuAD) */
};

/* A value of those that are 0 where they are not known. */
static inline double mq_told(double value, double otherwise)
{
	return value > 0 ? value : otherwise;
}

/* MQ_EINPUT with one line that names `what` ("model gpt", or a file) and the wrong dimension. */
enum mq_status mq_transformer_check(struct mq_transformer *t, const char *what, struct mq_err *err);
/* The first field in which two checked descriptions differ, NULL: none; `text` gets both values. Fields that the first
 * does not know (rope_theta, norm_eps) and fields that no layer uses do not count. */
const char *mq_transformer_differs(const struct mq_transformer *a, const struct mq_transformer *b, char text[96]);
/* The same; *n: number of fields that differ. */
const char *mq_transformer_compare(const struct mq_transformer *a, const struct mq_transformer *b, uint32_t *n,
				   char text[96]);

/* A member of a structure by name; type: n uint32_t, d double, b bool, c char, s text. */
struct mq_field {
	const char *name;
	size_t offset;
	char type;
};
/* clang-format off */
#define MQ_FIELD(type, field) { #field, offsetof(type, field), MQ_FIELD_TYPE(((type *)0)->field) }
#define MQ_FIELD_TYPE(field)  _Generic(field, uint32_t: 'n', double: 'd', bool: 'b', char: 'c', default: 's')
/* clang-format on */
const struct mq_field *mq_field_find(const struct mq_field *fields, size_t n, const char *name);
/* The fields of a description except name and towers. */
const struct mq_field *mq_transformer_fields(size_t *n);

/* A stack of blocks with embedding, head and (in training) loss. Fills defaults, checks, builds. */
enum mq_status mq_transformer_build(struct mq_transformer *t, const char *what, const struct mq_model_request *request,
				    struct mq_arena *arena, struct mq_model **model, struct mq_err *err);

/* Parts, for models of several stacks; `t` is checked. Each returns its last op. */

/* t->layers blocks, whose layers are numbered from `first` (MQ_NONE: they belong to no layer). */
uint32_t mq_transformer_blocks(struct mq_net *net, const struct mq_transformer *t, uint32_t first, uint32_t stream);
/* One block; with a `letter` of a pattern, one part between a norm and a residual. */
uint32_t mq_transformer_layer(struct mq_net *net, const struct mq_transformer *t, char letter, uint32_t stream);
/* Half a block: norm, token mixer or (`feeds`) MLP, and residual; names of norm and residual end with `index`. */
uint32_t mq_transformer_part(struct mq_net *net, const struct mq_transformer *t, uint32_t stream, bool feeds,
			     const char *index);
/* The GEMM with the vocabulary, tied to `embedding` if t says so. */
uint32_t mq_transformer_head(struct mq_net *net, const struct mq_transformer *t, uint32_t input, uint32_t embedding);
/* Fills the fields of the model that reports and shape rules read; layers: all blocks. */
void mq_transformer_describe(struct mq_model *model, const struct mq_transformer *t, uint32_t layers);

#endif
