/* huggingface_write.c - a stack of blocks as a config.json: writes it with the keys of each family in turn, reads it
 * back, and takes the first family that gives the same description. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "model/formats/lib/huggingface_keys.h"

static json_t *value_of(const struct mq_hf_key *k, const struct mq_hf_config *c)
{
	const void *from = (const char *)c + k->offset;

	switch (k->type) {
	case MQ_HF_FLAG:
		return json_boolean(*(const bool *)from);
	case MQ_HF_RATE:
		return json_real(c->t.dropout ? .1 : 0);
	case MQ_HF_REAL:
		return *(const double *)from > 0 ? json_real(*(const double *)from) : NULL;
	default: /* fields with a minimum above 0 are left out when 0 */
		return *(const uint32_t *)from >= k->min ? json_integer(*(const uint32_t *)from) : NULL;
	}
}

/* Is this the only key of the family that fills its field? */
static bool is_only(const struct mq_hf_family *f, const struct mq_hf_key *key)
{
	for (const struct mq_hf_key *k = f->keys; k->name; k++)
		if (k != key && k->offset == key->offset && k->type != MQ_HF_RATE && k->reads & f->dialects)
			return false;
	return key->type == MQ_HF_NUMBER || key->type == MQ_HF_FLAG;
}

/* Is it a key of few families whose value is not their default? */
static bool is_told(const struct mq_hf_family *f, const struct mq_hf_key *k, const struct mq_hf_config *c)
{
	size_t size = k->type == MQ_HF_FLAG ? sizeof(bool) : sizeof(uint32_t);

	return !k->writes && k->reads & f->dialects && is_only(f, k) &&
	       memcmp((const char *)c + k->offset, (const char *)&f->start + k->offset, size);
}

static json_t *words_of(const char *letters)
{
	json_t *list = json_array();

	for (; *letters; letters++)
		json_array_append_new(list, json_string(mq_hf_layer_word(*letters)));
	return list;
}

static json_t *config_of(const struct mq_hf_family *f, const struct mq_transformer *t)
{
	const struct mq_hf_config c = mq_hf_unsettle(f, t);
	uint32_t dialects = f->dialects | (f->dialects & NEMOTRON && t->experts ? NEMOTRON_MOE : 0);
	json_t *o = json_object();

	json_object_set_new(o, "model_type", json_string(f->model_type));
	for (const struct mq_hf_key *k = f->keys; k->name; k++)
		if (k->writes & dialects || is_told(f, k, &c))
			json_object_set_new(o, k->name, value_of(k, &c));
	if (t->pattern && f->dialects & NEMOTRON)
		json_object_set_new(o, "hybrid_override_pattern", json_string(t->pattern));
	if (t->mixers)
		json_object_set_new(o, "layer_types", words_of(t->mixers));
	if (t->feeds)
		json_object_set_new(o, "mlp_layer_types", words_of(t->feeds));
	if ((!t->rope.kind && !f->start.t.yarn) || (t->rope.kind && mq_text_has_word("longrope su", t->rope.kind)))
		return o; /* longrope has lists of factors, which the description lacks */
	json_t *rope = json_pack("{s:s}", "rope_type", t->rope.kind ? t->rope.kind : "default");
	for (const struct mq_hf_key *k = f->keys; k->name; k++)
		if (k->reads == SCALING)
			json_object_set_new(rope, k->name, value_of(k, &c));
	if (t->rope.unrounded)
		json_object_set_new(rope, "truncate", json_false());
	json_object_set_new(o, "rope_scaling", rope);
	return o;
}

/* Number of fields that differ in the description read back; `text` names the first. */
static uint32_t read_back(const struct mq_hf_family *f, const json_t *config, const struct mq_transformer *t,
			  char text[160])
{
	const struct mq_json_at at = { .path = "config.json", .place = "", .object = config };
	struct mq_transformer said = { .fused = t->fused, .seq = t->seq };
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_err err = { .text = "" };
	uint32_t positions = 0, n = 0;
	char values[96];

	if (mq_hf_read(f, &at, &said, &positions, &arena, &err) != MQ_OK)
		return UINT32_MAX;
	said.seq = t->seq;
	if (mq_transformer_check(&said, "config.json", &err) != MQ_OK)
		return UINT32_MAX;
	const char *field = mq_transformer_compare(t, &said, &n, values);
	if (field)
		snprintf(text, 160, "its %s (the model's and the family's: %s)", field, values);
	return n;
}

enum mq_status mq_hf_write(const struct mq_transformer *t, FILE *file, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const struct mq_hf_family *families;
	const char *nearest = "none";
	uint32_t least = UINT32_MAX;
	char why[160] = "";

	MQ_TRY(mq_hf_families(&arena, &families, err));
	for (const struct mq_hf_family *f = families; f->model_type && least; f++) {
		json_t *config = config_of(f, t);
		char text[160] = "";
		uint32_t n = read_back(f, config, t, text);

		if (n < least) {
			least = n;
			nearest = f->model_type;
			memcpy(why, text, sizeof(why));
		}
		if (!n) {
			json_dumpf(config, file, JSON_INDENT(2));
			fputc('\n', file);
		}
		json_decref(config);
	}
	if (!least)
		return MQ_OK;
	return mq_bad(err, "no family of Hugging Face's library has all of the model; the nearest is %s: %s", nearest,
		      why);
}
