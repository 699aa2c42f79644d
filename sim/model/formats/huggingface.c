/* huggingface.c - models described by a Hugging Face config.json: the families of huggingface.c, T5, ViT, DiT
 * (diffusers), and the text parts of models that also see or hear.
 *
 * max_position_embeddings of newer models is far beyond what they are trained with: without --seq a sequence has 4096
 * tokens, or max_position_embeddings where that is less.
 *
 * Not modelled: further images of a sequence; pairs of samples of different devices (CLIP).
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "maquette/opt.h"
#include "model/formats/lib/huggingface.h"

enum { DEFAULT_SEQ = 4096 };

struct options {
	uint32_t image;
	bool fused_attention, mtp, towers;
};

static const struct mq_opt opts[] = {
	MQ_BOOL(struct options, fused_attention, 1, "attention that never stores its scores (flash)"),
	MQ_BOOL(struct options, towers, 1, "with the towers of images and sounds beside the text"),
	MQ_U32(struct options, image, 0, 1, 1e5, "side of an image in pixels; default: the model's, or 448"),
	MQ_BOOL(struct options, mtp, 0, "with the layers that predict further tokens, where there are any"), MQ_END
};

extern const struct mq_format mq_format_seq2seq, mq_format_vision; /* which build those that are no such stack */

static enum mq_status unknown_family(const struct mq_json_at *at, const char *type, const char *keys,
				     struct mq_arena *arena, struct mq_err *err)
{
	const char *architecture = json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));
	const char *near = type ? mq_nearest(type, mq_hf_types(arena)) : NULL;

	return mq_fail(
		err, MQ_EINPUT,
		"%s: %s%s\"model_type\" is %.60s, not a family that is read%s%.60s%s%.300s; `maquette list models "
		"huggingface` has those that are",
		at->path, at->place, *at->place ? ": " : "",
		type         ? type :
		architecture ? architecture :
			       "missing",
		near ? " (did you mean " : "", near ? near : "", near ? ")" : "",
		*keys ? mq_arena_printf(arena, ", and no Llama: %s may change a layer", keys) : "");
}

/* What is left out or was assumed, for people. */
static const char *note_of(const struct mq_json_at *at, const char *type, bool guessed, uint32_t mtp,
			   struct mq_arena *arena)
{
	const char *keys = guessed ? "" : mq_hf_unused_keys(at->object, arena), *note = "";

	if (guessed)
		note = mq_arena_printf(
			arena,
			"; \"model_type\" %.60s is not known: read as a Llama, whose keys it has and no others "
			"that change a layer",
			type ? type : "(none)");
	if (mtp)
		note = mq_arena_printf(
			arena, "%s; %u layers that predict further tokens are left out (mtp=true has them)", note, mtp);
	if (*keys)
		note = mq_arena_printf(arena, "%s; not used: %s", note, keys);
	return *note ? mq_arena_printf(arena, "%s: %s", at->path, note + 2) : NULL;
}

static enum mq_status read_config(const struct mq_json_at *at, const char *type, bool mtp, struct mq_transformer *t,
				  struct mq_arena *arena, const char **note, struct mq_err *err)
{
	uint32_t positions = 0;
	bool guessed = false;
	const struct mq_hf_family *family = mq_hf_family_of(at, type, &guessed);
	const char *keys = family && !guessed ? "" : mq_hf_unknown_keys(at->object, arena);

	if (!family || *keys)
		return unknown_family(at, type, keys, arena, err);
	MQ_TRY(mq_hf_read(family, at, t, &positions, arena, err));
	t->seq = positions < DEFAULT_SEQ ? positions : DEFAULT_SEQ;
	*note = note_of(at, type, guessed, mtp ? 0 : t->mtp, arena);
	if (!mtp)
		t->mtp = 0;
	return MQ_OK;
}

/* ---- those that another builder makes ------------------------------------------------------------ */

static const char *option(const char *list, const struct mq_json_at *at, const char *key, const char *name,
			  struct mq_arena *arena)
{
	const json_t *v = json_object_get(at->object, key);

	if (!json_is_integer(v))
		return list;
	return mq_arena_printf(arena, "%s%s%s=%lld", list, *list ? "," : "", name, (long long)json_integer_value(v));
}

static enum mq_status build_t5(const struct mq_json_at *at, const struct mq_model_request *request,
			       struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	static const char *const keys[][2] = {
		{ "num_layers", "layers" }, { "num_decoder_layers", "decoder_layers" },
		{ "d_model", "hidden" },    { "num_heads", "heads" },
		{ "d_kv", "head_dim" },     { "d_ff", "ffn" },
		{ "vocab_size", "vocab" },
	};
	const char *list = "", *feed = NULL;
	bool tied = true;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		list = option(list, at, keys[i][0], keys[i][1], arena);
	MQ_TRY(mq_json_text(at, "feed_forward_proj", &feed, err));
	MQ_TRY(mq_json_bool(at, "tie_word_embeddings", &tied, err));
	list = mq_arena_printf(arena, "%s%sgated=%s,tied=%s", list, *list ? "," : "",
			       feed && !strncmp(feed, "gated", 5) ? "true" : "false", tied ? "true" : "false");
	return mq_format_seq2seq.build("t5", list, request, arena, model, err);
}

static enum mq_status build_vision(const struct mq_json_at *at, const char *name,
				   const struct mq_model_request *request, struct mq_arena *arena,
				   struct mq_model **model, struct mq_err *err)
{
	static const char *const keys[][2] = {
		{ "num_hidden_layers", "layers" },
		{ "hidden_size", "hidden" },
		{ "num_attention_heads", "heads" },
		{ "intermediate_size", "ffn" },
		{ "image_size", "image" },
		{ "patch_size", "patch" },
		{ "num_channels", "channels" },
		{ "num_labels", "classes" },
		/* diffusers */
		{ "num_layers", "layers" },
		{ "attention_head_dim", "head_dim" },
		{ "sample_size", "image" },
		{ "in_channels", "channels" },
		{ "num_embeds_ada_norm", "classes" },
	};
	const char *list = "";

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		list = option(list, at, keys[i][0], keys[i][1], arena);
	return mq_format_vision.build(name, list, request, arena, model, err);
}

/* The text part of a configuration that has several; the configuration itself where it is that. */
static struct mq_json_at text_part(const struct mq_json_at *at)
{
	static const char *const keys[] = { "text_config", "llm_config", "language_config" };
	struct mq_json_at part = *at;

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (json_is_object(json_object_get(at->object, keys[i]))) {
			part.object = json_object_get(at->object, keys[i]);
			part.place = keys[i];
			return part;
		}
	return part;
}

/* What the text part leaves to the whole: is the head tied, how wide are vectors that are paired? */
static enum mq_status read_whole(const struct mq_json_at *top, struct mq_transformer *t, struct mq_err *err)
{
	MQ_TRY(mq_json_bool(top, "tie_word_embeddings", &t->tied, err));
	if (!t->contrast)
		return MQ_OK;
	return mq_json_u32(top, "projection_dim", 1, 1e8, &t->contrast, err);
}

static enum mq_status build_stack(const struct mq_json_at *top, const char *type, const struct options *o,
				  struct mq_transformer *t, const struct mq_model_request *request,
				  struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const struct mq_json_at at = text_part(top);
	const char *note = NULL;

	MQ_TRY(read_config(&at, type ? type : mq_hf_text_type(top), o->mtp, t, arena, &note, err));
	MQ_TRY(read_whole(top, t, err));
	if (type)
		t->name = mq_arena_strdup(arena, type);
	if (request->seq && !t->contrast)
		t->seq = request->seq;
	t->fused = mq_model_fuses(request, o->fused_attention);
	if (o->towers)
		MQ_TRY(mq_hf_towers(top, o->image, t, arena, err));
	else
		t->contrast = 0;
	if (t->contrast && !t->towers)
		return mq_fail(err, MQ_EINPUT, "%s: texts are paired with images; \"vision_config\" is missing",
			       at.path);
	MQ_TRY(mq_transformer_build(t, at.path, request, arena, model, err));
	if (t->towers)
		note = mq_arena_printf(arena, "%s%sone image%s of a sequence goes through the tower%s",
				       note ? note : at.path, note ? "; " : ": ",
				       json_object_get(top->object, "audio_config") ? " or sound" : "",
				       t->contrast ? "; only pairs of a device's own samples are compared" : "");
	(*model)->note = note;
	return MQ_OK;
}

static enum mq_status build(const struct mq_json_at *top, const struct options *o, struct mq_transformer *t,
			    const struct mq_model_request *request, struct mq_arena *arena, struct mq_model **model,
			    struct mq_err *err)
{
	const struct mq_json_at at = text_part(top);
	const char *type, *class;

	MQ_TRY(mq_json_text(&at, "model_type", &type, err));
	MQ_TRY(mq_json_text(&at, "_class_name", &class, err));
	if (type && (!strcmp(type, "t5") || !strcmp(type, "mt5")))
		return build_t5(&at, request, arena, model, err);
	if (type && !strcmp(type, "vit"))
		return build_vision(&at, "vit", request, arena, model, err);
	if ((type && !strcmp(type, "dit")) || (class && !strncmp(class, "DiT", 3)))
		return build_vision(&at, "dit", request, arena, model, err);
	return build_stack(top, type, o, t, request, arena, model, err);
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct mq_transformer t = { .name = mq_file_stem(path, arena) };
	struct options o;
	json_t *json;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, path, mq_file_options(path, request), arena, err));
	MQ_TRY(mq_json_load(path, true, arena, &json, err));
	const struct mq_json_at at = { .path = path, .place = "", .object = json };
	enum mq_status status = build(&at, &o, &t, request, arena, model, err);
	json_decref(json);
	return status;
}

static bool probe(const char *path, const char *head, size_t size)
{
	static const char *const keys[] = { "\"model_type\"", "\"architectures\"", "\"hidden_size\"", "\"n_embd\"",
					    "\"_class_name\"" };
	const char *slash = strrchr(path, '/');

	if (*head != '{')
		return false;
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (strstr(head, keys[i]))
			return true;
	return !strcmp(slash ? slash + 1 : path, "config.json");
}

const struct mq_format mq_format_huggingface = {
	.name = "huggingface",
	.summary = "Hugging Face config.json (FILE[:fused_attention=false,towers=false,image=N,mtp=true])",
	.opts = opts,
	.probe = probe,
	.load = load,
};
