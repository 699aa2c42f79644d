/* huggingface.c - models described by a Hugging Face config.json: families of one stack of blocks (lib/huggingface.c),
 * models of other builders (T5, ViT, diffusers' DiT), and multimodal models by their text part and encoders.
 *
 * Newer models' max_position_embeddings far exceeds their training length: without --seq a sequence has 4096 tokens, or
 * max_position_embeddings if that is less.
 *
 * Not modelled: several images per sequence; contrastive pairs across devices (CLIP).
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "base/csv.h"
#include "base/paths.h"
#include "base/text.h"
#include "model/formats/lib/huggingface.h"
#include "model/formats/lib/names.h"

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

static enum mq_status unknown_family(const struct mq_hf_family *families, const struct mq_json_at *at, const char *type,
				     const char *keys, struct mq_arena *arena, struct mq_err *err)
{
	const char *architecture = json_string_value(json_array_get(json_object_get(at->object, "architectures"), 0));
	const char *class = json_string_value(json_object_get(at->object, "_class_name"));
	const char *near = type && strlen(type) < 60 ? mq_nearest(type, mq_hf_types(families, arena)) : NULL;

	return mq_bad(
		err,
		"%s: %s%s\"model_type\" is %.60s, not a family that is read%s%.60s%s%.300s; `maquette list models "
		"huggingface` has those that are",
		at->path, at->place, *at->place ? ": " : "",
		type         ? type :
		architecture ? architecture :
		class        ? class :
			       "missing",
		near ? " (did you mean " : "", near ? near : "", near ? ")" : "",
		*keys ? mq_arena_printf(arena, ", and no Llama: %s may change a layer", keys) : "");
}

/* Notes to the user: what is left out or assumed. */
static const char *note_of(const struct mq_hf_family *family, const struct mq_json_at *at, const char *type,
			   bool guessed, uint32_t mtp, struct mq_arena *arena)
{
	const char *keys = guessed ? "" : mq_hf_unread_keys(family, false, at->object, arena), *note = "";

	if (guessed)
		note = mq_arena_printf(
			arena,
			"; \"model_type\" %.60s is not known: read as a Llama, whose keys it has and no others "
			"that change a layer",
			type ? type : "(none)");
	if (mtp)
		note = mq_arena_printf(arena, "%s; %u layer%s left out (mtp=true has %s)", note, mtp,
				       mtp > 1 ? "s that predict further tokens are" :
						 " that predicts further tokens is",
				       mtp > 1 ? "them" : "it");
	if (*keys)
		note = mq_arena_printf(arena, "%s; not used: %s", note, keys);
	return *note ? mq_arena_printf(arena, "%s: %s", at->path, note + 2) : NULL;
}

static enum mq_status read_config(const struct mq_json_at *at, const char *type, bool mtp, struct mq_transformer *t,
				  struct mq_arena *arena, const char **note, struct mq_err *err)
{
	uint32_t positions = 0;
	bool guessed = false;
	const struct mq_hf_family *families;

	MQ_TRY(mq_hf_families(arena, &families, err));
	const struct mq_hf_family *family = mq_hf_family_of(families, at, type, &guessed);
	const char *keys = family && !guessed ? "" : mq_hf_unread_keys(families, true, at->object, arena);

	if (!family || *keys)
		return unknown_family(families, at, type, keys, arena, err);
	MQ_TRY(mq_hf_read(family, at, t, &positions, arena, err));
	t->seq = positions && positions < DEFAULT_SEQ ? positions : DEFAULT_SEQ;
	*note = note_of(family, at, type, guessed, mtp ? 0 : t->mtp, arena);
	if (!mtp)
		t->mtp = 0;
	return MQ_OK;
}

/* ---- models of other builders -------------------------------------------------------------------- */

/* Is it a "model_type" in the list, or a diffusers class that begins with a word of it? */
static bool is_type(const char *list, const char *type, const char *class, struct mq_arena *arena)
{
	const char *word;

	while ((word = mq_text_next(&list, " ", arena)))
		if ((type && !strcmp(type, word)) || (class && !strncmp(class, word, strlen(word))))
			return true;
	return false;
}

/* A row's option from the configuration. A text sets a flag if it begins with the option's name ("gated-gelu"). */
static enum mq_status read_option(const struct mq_json_at *at, const struct mq_csv *rows, uint32_t i,
				  struct mq_arena *arena, const char **value, struct mq_err *err)
{
	const char *key = mq_csv_word(rows, i, "key"), *is = mq_csv_word(rows, i, "is"), *text;
	const char *option = mq_csv_word(rows, i, "option");
	const json_t *v = json_object_get(at->object, key);
	bool yes = false;

	*value = mq_csv_word(rows, i, "absent");
	if (!v || json_is_null(v))
		return MQ_OK;
	if (!strcmp(is, "number")) {
		double number = 0;

		MQ_TRY(mq_json_number(at, key, &(struct mq_json_range){ .max = 1e8, .whole = true }, &number, err));
		*value = mq_arena_printf(arena, "%.0f", number);
		return MQ_OK;
	}
	if (!strcmp(is, "flag")) {
		MQ_TRY(mq_json_bool(at, key, &yes, err));
	} else {
		MQ_TRY(mq_json_text(at, key, &text, err));
		yes = !strncmp(text, option, strlen(option));
	}
	*value = yes ? "true" : "false";
	return MQ_OK;
}

/* Two keys of one option (both sides of an encoder and decoder) must agree. */
static enum mq_status add_option(const struct mq_json_at *at, const struct mq_csv *rows, uint32_t i, const char *value,
				 struct mq_arena *arena, const char **list, struct mq_err *err)
{
	const char *option = mq_csv_word(rows, i, "option"), *word, *rest = *list;
	const char *pair = mq_arena_printf(arena, "%s=%s", option, value);

	while ((word = mq_text_next(&rest, ",", arena))) {
		if (!strcmp(word, pair))
			return MQ_OK;
		if (!strncmp(word, pair, strlen(option) + 1))
			return mq_bad(err, "%s: \"%s\" gives %s, another key %s: such layers are not modelled",
				      at->path, mq_csv_word(rows, i, "key"), pair, word);
	}
	*list = mq_arena_printf(arena, "%s%s%s", *list, **list ? "," : "", pair);
	return MQ_OK;
}

/* Builds by the rows of huggingface_builders.csv; *model is NULL if none has the type. */
static enum mq_status build_other(const struct mq_json_at *at, const char *type, const char *class,
				  const struct mq_model_request *request, struct mq_arena *arena,
				  struct mq_model **model, struct mq_err *err)
{
	const char *dir, *name = NULL, *list = "";
	struct mq_csv rows;

	const struct mq_hf_family *families;
	*model = NULL;
	MQ_TRY(mq_hf_families(arena, &families, err));
	MQ_TRY(mq_find_dir("platforms/models", arena, &dir, err));
	MQ_TRY(mq_csv_load_of(mq_arena_printf(arena, "%s/huggingface_builders.csv", dir),
			      "types,model,key,is,option,absent", arena, &rows, err));
	for (uint32_t i = 0; i < rows.n_rows; i++) {
		const char *value;

		if (!is_type(mq_csv_word(&rows, i, "types"), type, class, arena))
			continue;
		name = mq_csv_word(&rows, i, "model");
		MQ_TRY(read_option(at, &rows, i, arena, &value, err));
		if (*value)
			MQ_TRY(add_option(at, &rows, i, value, arena, &list, err));
	}
	if (!name)
		return MQ_OK;
	const struct mq_builder *builder = mq_builder_find(name);
	MQ_TRY(mq_hf_refuse_parts(families, at, err));
	return builder ? builder->build(name, list, request, arena, model, err) :
			 mq_bad(err, "%s/huggingface_builders.csv: no builder makes '%s'", dir, name);
}

/* The text part of a multimodal configuration; else the configuration itself. */
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

static enum mq_status build_stack(const struct mq_json_at *top, const char *type, const struct options *o,
				  struct mq_transformer *t, const struct mq_model_request *request,
				  struct mq_arena *arena, struct mq_model **model, struct mq_err *err)
{
	const struct mq_json_at at = text_part(top);
	const char *note = NULL;

	MQ_TRY(read_config(&at, type ? type : mq_hf_text_type(top), o->mtp, t, arena, &note, err));
	/* The whole configuration says whether the head is tied and how wide contrastive embeddings are. */
	MQ_TRY(mq_json_bool(top, "tie_word_embeddings", &t->tied, err));
	if (t->contrast)
		MQ_TRY(mq_json_u32(top, "projection_dim", 1, 1e8, &t->contrast, err));
	if (type && !strchr(t->name, '/')) /* an ORG/NAME is the better name */
		t->name = mq_arena_strdup(arena, type);
	if (request->seq && !t->contrast)
		t->seq = request->seq;
	t->fused = mq_model_fuses(request, o->fused_attention);
	if (o->towers)
		MQ_TRY(mq_hf_towers(top, o->image, t, arena, err));
	else
		t->contrast = 0;
	if (t->contrast && !t->towers)
		return mq_bad(err, "%s: texts are paired with images; \"vision_config\" is missing", at.path);
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
	MQ_TRY(build_other(&at, type, class, request, arena, model, err));
	if (!*model)
		return build_stack(top, type, o, t, request, arena, model, err);
	return o->towers ? mq_hf_towers(top, o->image, t, arena, err) : MQ_OK; /* refuses encoders */
}

/* path: the specification without its options. */
static enum mq_status load_object(const char *name, const char *path, const json_t *object,
				  const struct mq_model_request *request, struct mq_arena *arena,
				  struct mq_model **model, struct mq_err *err)
{
	const json_t *thinker = json_object_get(object, "thinker_config"); /* Qwen Omni: the model that is trained */
	const struct mq_json_at at = { path, "", json_is_object(thinker) ? thinker : object };
	struct mq_transformer t = { .name = name };
	struct options o;

	mq_opt_defaults(opts, &o);
	MQ_TRY(mq_opt_parse(opts, &o, path, mq_file_options(path, request), arena, err));
	return build(&at, &o, &t, request, arena, model, err);
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	json_auto_t *json = NULL;

	MQ_TRY(mq_json_load(path, true, arena, &json, err));
	return load_object(mq_file_stem(path, arena), path, json, request, arena, model, err);
}

/* ---- shipped configurations ---------------------------------------------------------------------- */

enum mq_status mq_hf_load_shipped(const struct mq_model_request *request, struct mq_arena *arena,
				  struct mq_model **model, struct mq_err *err)
{
	const char *name = mq_arena_printf(arena, "%.*s", (int)strcspn(request->spec, ":"), request->spec), *key;
	json_auto_t *hub = mq_models_file("hub.json", arena);
	json_t *entry;

	*model = NULL;
	json_object_foreach(hub, key, entry)
		if (!strcasecmp(key, name)) /* the hub ignores case too */
			return load_object(key, name, json_object_get(entry, "config"), request, arena, model, err);
	return MQ_OK;
}

static bool probe(const char *path, const char *head, size_t size)
{
	static const char *const keys[] = { "\"model_type\"", "\"architectures\"", "\"hidden_size\"",
					    "\"n_embd\"",     "\"_class_name\"",   NULL };

	return mq_file_has(head, keys) || (*head == '{' && !strcmp(basename(path), "config.json"));
}

const struct mq_format mq_format_huggingface = {
	.name = "huggingface",
	.summary = "Hugging Face config.json (FILE[:fused_attention=false,towers=false,image=N,mtp=true])",
	.probe = probe,
	.load = load,
};
