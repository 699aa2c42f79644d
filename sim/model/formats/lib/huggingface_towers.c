/* huggingface_towers.c - vision and audio encoders of multimodal configurations ("vision_config", "audio_config"): a
 * row per kind of model. Letters give the widths of projectors: h the encoder's, H that of the patches merged into a
 * token, 5 that of five layers, p "projector_input_dim", t the text model's. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "model/builders/lib/tower.h"
#include "model/formats/lib/huggingface_keys.h"

enum { SIDE = 448 }; /* default pixels of a side for models of any size */

enum style {
	PLAIN, /* layer norms, biases, GELU */
	CLASS, /* and a class token */
	GATED, /* RMS norms, no biases, gated MLP */
	GATED_BIASED,
};

static const struct kind {
	const char *type, *text; /* "model_type"; model_type of its text part, if that has none */
	const char *projector;
	enum style style;
	uint32_t joined; /* merged patches per side, if no key gives them */
} kinds[] = {
#define X(...) { __VA_ARGS__ },
#include "model/formats/lib/huggingface_towers.def"
#undef X
};

static const struct kind *kind_of(const struct mq_json_at *top)
{
	const char *type = json_string_value(json_object_get(top->object, "model_type"));

	for (size_t i = 0; type && i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(type, kinds[i].type))
			return &kinds[i];
	return NULL;
}

const char *mq_hf_text_type(const struct mq_json_at *top)
{
	const struct kind *k = kind_of(top);

	return k ? k->text : NULL;
}

/* The value of the first present key: a number, or the first of an array; without any, unchanged. */
static enum mq_status first_of(const struct mq_json_at *at, const char *const *names, uint32_t *value,
			       struct mq_err *err)
{
	for (; *names; names++) {
		json_t *v = json_object_get(at->object, *names), *first = json_array_get(v, 0);

		if (!v || json_is_null(v))
			continue;
		if (first && json_is_integer(first) && json_integer_value(first) > 0 &&
		    json_integer_value(first) < 1e8) {
			*value = (uint32_t)json_integer_value(first);
			return MQ_OK;
		}
		return mq_json_u32(at, *names, 1, 1e8, value, err);
	}
	return MQ_OK;
}

#define FIRST(at, value, ...) MQ_TRY(first_of(at, (const char *const[]){ __VA_ARGS__, NULL }, value, err))

static enum mq_status read_blocks(const struct mq_json_at *at, enum style style, struct mq_transformer *t,
				  struct mq_err *err)
{
	uint32_t ratio = 4;

	*t = (struct mq_transformer){ .layers = 12, .hidden = 768, .heads = 12, .ffn = 0, .vocab = 1, .fused = true };
	t->gated = style >= GATED;
	t->rms = style >= GATED;
	t->biases = style != GATED;
	FIRST(at, &t->hidden, "embed_dim", "vt_hidden_size", "d_model", "hidden_size");
	FIRST(at, &t->layers, "depth", "vt_num_hidden_layers", "encoder_layers", "num_hidden_layers");
	FIRST(at, &t->heads, "num_heads", "vt_num_attention_heads", "encoder_attention_heads", "num_attention_heads");
	FIRST(at, &ratio, "mlp_ratio");
	t->ffn = ratio < 1000 ? ratio * t->hidden : 0;
	FIRST(at, &t->ffn, "vt_intermediate_size", "encoder_ffn_dim", "intermediate_size");
	FIRST(at, &t->head_dim, "head_dim");
	return MQ_OK;
}

/* A grid of patches: their number, elements of each, rows of the position table. */
static enum mq_status read_patches(const struct mq_json_at *at, const struct kind *k, uint32_t image,
				   struct mq_tower *w, struct mq_err *err)
{
	uint32_t side = strcmp(k->type, "clip") && strncmp(k->type, "siglip", 6) ? SIDE : 224, patch = 14, channels = 3;
	uint32_t frames = 1, rows = 0, high = 0, all = k->style == CLASS;

	FIRST(at, &side, "image_size");
	FIRST(at, &patch, "patch_size");
	FIRST(at, &channels, "in_channels", "in_chans", "num_channels");
	FIRST(at, &frames, "temporal_patch_size");
	FIRST(at, &rows, "num_position_embeddings", "position_embedding_size", "num_patches");
	FIRST(at, &high, "pos_emb_height", "init_pos_emb_height");
	if (!rows && high)
		rows = high < 10000 ? high * high : 0;
	if (!rows && json_object_get(at->object, "image_size") && k->style != GATED)
		rows = side / patch * (side / patch) + all;
	if (!strcmp(k->type, "gemma4"))
		rows *= 2; /* one table per axis */
	side = image ? image : side;
	if (side / patch > 10000 || side < patch)
		return mq_bad(err, "%s: %s: an image of %u pixels in patches of %u; give another image=", at->path,
			      at->place, side, patch);
	w->t.seq = side / patch * (side / patch) + all;
	w->t.positions = rows;
	w->stem = (double)patch * patch * channels * frames;
	return MQ_OK;
}

/* Whisper's encoder: two convolutions over the spectrogram, the second with stride 2. */
static enum mq_status read_frames(const struct mq_json_at *at, struct mq_tower *w, struct mq_err *err)
{
	uint32_t bins = 128, frames = 1500;
	double h = w->t.hidden;

	FIRST(at, &bins, "num_mel_bins");
	FIRST(at, &frames, "max_source_positions");
	w->t.seq = w->t.positions = frames;
	w->stem = 3 * h + 6.0 * bins; /* both as GEMMs, the first over twice the frames */
	w->stem_param = 3 * h * (h + bins) + 2 * h;
	return MQ_OK;
}

static enum mq_status read_joined(const struct mq_json_at *top, const struct mq_json_at *at, const struct kind *k,
				  struct mq_tower *w, struct mq_err *err)
{
	static const char *const ratios[] = { "downsample_ratio", "pixel_shuffle_ratio" };
	uint32_t side = k->joined, patches = w->t.seq - (k->style == CLASS);

	FIRST(at, &side, "spatial_merge_size", "merge_kernel_size", "pooling_kernel_size");
	FIRST(top, &side, "spatial_merge_size", "scale_factor", "downsample_factor");
	for (size_t i = 0; i < 2; i++) {
		double ratio = json_number_value(json_object_get((i ? at : top)->object, ratios[i]));

		if (ratio > .01 && ratio < 1)
			side = (uint32_t)round(1 / ratio);
	}
	w->joined = strcmp(w->name, "audio") ? side * side : side;
	if (side > 1000 || patches < w->joined)
		return mq_bad(err, "%s: %s: %u patches are joined, of %u; give a larger image=", at->path, at->place,
			      w->joined, patches);
	w->tokens = patches / w->joined;
	FIRST(top, &w->tokens, "mm_tokens_per_image");
	return MQ_OK;
}

static enum mq_status read_projector(const struct mq_json_at *top, const struct mq_json_at *at, const struct kind *k,
				     uint32_t text, struct mq_tower *w, struct mq_err *err)
{
	uint32_t narrow = 4096, wide = w->t.hidden * (strchr(k->projector, 'H') ? w->joined : 1), glm = 0;
	size_t deep = json_array_size(json_object_get(at->object, "deepstack_visual_indexes"));

	FIRST(at, &narrow, "projector_input_dim");
	FIRST(top, &narrow, "projector_hidden_size");
	const uint32_t width[] = { w->t.hidden, wide, 5 * w->t.hidden, narrow, text };
	for (uint32_t i = 0; k->projector[i]; i++)
		w->widths[i] = width[strcspn("hH5pt", (char[]){ k->projector[i], 0 })];
	w->projectors = 1 + (deep < 100 ? (uint32_t)deep : 0);
	if (strncmp(k->type, "glm4", 4))
		return MQ_OK;
	FIRST(at, &glm, "out_hidden_size"); /* GLM: intermediate_size belongs to the projector */
	w->gated = w->t.ffn;
	w->t.ffn = glm ? glm : text;
	return MQ_OK;
}

/* Reads the encoder under `key`, if there is one. */
static enum mq_status read_tower(const struct mq_json_at *top, const char *key, const struct kind *k, uint32_t text,
				 uint32_t image, bool fused, struct mq_tower *w, struct mq_err *err)
{
	const struct mq_json_at at = { top->path, key, json_object_get(top->object, key) };
	const char *type = json_string_value(json_object_get(at.object, "model_type"));
	struct kind is = *k;

	if (type && !strcmp(type, "pixtral"))
		is.style = GATED;
	else if (type && !strncmp(type, "siglip", 6))
		is.style = PLAIN;
	*w = (struct mq_tower){ .name = *key == 'a' ? "audio" : "vision" };
	MQ_TRY(read_blocks(&at, is.style, &w->t, err));
	w->t.fused = fused;
	MQ_TRY(*key == 'a' ? read_frames(&at, w, err) : read_patches(&at, &is, image, w, err));
	MQ_TRY(read_joined(top, &at, &is, w, err));
	MQ_TRY(read_projector(top, &at, &is, text, w, err));
	uint32_t rows = w->t.positions;
	w->t.positions = 0;
	MQ_TRY(mq_transformer_check(&w->t, top->path, err));
	w->t.positions = rows;
	return MQ_OK;
}

/* Another object that may be a part of the model: an encoder, a Q-former, a projector. */
static enum mq_status refuse_others(const struct mq_json_at *top, struct mq_err *err)
{
	static const char known[] =
		"text_config llm_config language_config vision_config audio_config quantization_config compression_config "
		"generation_config attn_config ffn_config linear_attn_config task_specific_config per_layer_config";
	json_t *object = (json_t *)(uintptr_t)top->object, *value;
	const char *key;

	json_object_foreach(object, key, value) {
		size_t n = strlen(key);

		if (n >= 7 && !strcmp(key + n - 7, "_config") && json_object_size(value) &&
		    !mq_text_has_word(known, key))
			return mq_bad(
				err,
				"%s: what \"%.60s\" describes is not read; towers=false leaves it out, and reads the "
				"text alone",
				top->path, key);
	}
	return MQ_OK;
}

enum mq_status mq_hf_towers(const struct mq_json_at *top, uint32_t image, struct mq_transformer *t,
			    struct mq_arena *arena, struct mq_err *err)
{
	static const char *const keys[] = { "vision_config", "audio_config" };
	const struct mq_tower **towers = mq_arena_alloc(arena, 3 * sizeof(*towers));
	const struct kind *k = kind_of(top);
	size_t n = 0;

	MQ_TRY(refuse_others(top, err));
	for (size_t i = 0; i < 2; i++) {
		const char *type = json_string_value(json_object_get(top->object, "model_type"));

		if (!json_object_size(json_object_get(top->object, keys[i])))
			continue;
		if (!k || (i && strcmp(k->type, "qwen2_audio")))
			return mq_bad(
				err,
				"%s: the %s of \"%.60s\" is not read; towers=false leaves it out, and reads the text alone",
				top->path, keys[i], type ? type : "(no model_type)");
		struct mq_tower *w = mq_arena_alloc(arena, sizeof(*w));
		MQ_TRY(read_tower(top, keys[i], k, t->hidden, image, t->fused, w, err));
		if (!t->contrast && w->tokens >= (t->seq ? t->seq : 1))
			return mq_bad(
				err,
				"%s: an image makes %u of a sequence's %u tokens; give a smaller image=, or a longer --seq",
				top->path, w->tokens, t->seq);
		towers[n++] = w;
	}
	t->towers = n ? towers : NULL;
	return MQ_OK;
}
