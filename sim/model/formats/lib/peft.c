/* peft.c - reads adapter_config.json of Hugging Face's PEFT. Keys are those of its LoraConfig; keys not read here do
 * not change the computation. MQ_EINPUT: another adapter than LoRA, or one with more than rank, alpha, dropout and
 * target modules (DoRA, ranks per module, fully trained modules). SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/formats/lib/json.h"

/* The modules' names joined by '+'; a single text is a pattern ("all-linear"). */
static enum mq_status targets_of(const char *path, const json_t *list, struct mq_arena *arena, const char **targets,
				 struct mq_err *err)
{
	*targets = json_is_string(list) ? mq_arena_strdup(arena, json_string_value(list)) : "";
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		if (!word)
			return mq_bad(err, "%s: target_modules[%zu] is no text", path, i);
		*targets = mq_arena_printf(arena, "%s%s%s", *targets, i ? "+" : "", word);
	}
	if (!**targets)
		return mq_bad(err, "%s: no target_modules; name the modules with an adapter", path);
	return MQ_OK;
}

/* Keys that select another kind of adapter when set. */
static enum mq_status check_plain(const char *path, const json_t *top, struct mq_err *err)
{
	static const char *const others[] = { "use_dora",          "rank_pattern",
					      "alpha_pattern",     "modules_to_save",
					      "layer_replication", "layers_to_transform",
					      "megatron_config",   NULL };

	for (const char *const *key = others; *key; key++) {
		const json_t *v = json_object_get(top, *key);
		bool none = !v || json_is_null(v) || json_is_false(v) || (json_is_object(v) && !json_object_size(v)) ||
			    (json_is_array(v) && !json_array_size(v));

		if (!none)
			return mq_bad(err, "%s: %s is set, which is not modelled; leave it out", path, *key);
	}
	return MQ_OK;
}

static enum mq_status read_object(const char *path, const json_t *top, struct mq_arena *arena, const char **text,
				  struct mq_err *err)
{
	const struct mq_json_at at = { .path = path, .place = "", .object = top };
	const char *kind = NULL, *targets;
	uint32_t rank = 8, alpha = 8;
	double dropout = 0;

	MQ_TRY(mq_json_text(&at, "peft_type", &kind, err));
	if (!kind || strcmp(kind, "LORA") != 0)
		return mq_bad(err, "%s: peft_type '%s' is not LORA; nothing else is modelled", path, kind ? kind : "");
	MQ_TRY(check_plain(path, top, err));
	MQ_TRY(mq_json_u32(&at, "r", 1, 65536, &rank, err));
	MQ_TRY(mq_json_u32(&at, "lora_alpha", 1, 1e6, &alpha, err));
	MQ_TRY(mq_json_number(&at, "lora_dropout", &(struct mq_json_range){ .min = 0, .max = .99 }, &dropout, err));
	MQ_TRY(targets_of(path, json_object_get(top, "target_modules"), arena, &targets, err));
	*text = mq_arena_printf(arena, "lora:rank=%u,alpha=%u,dropout=%.9g,targets=%s", rank, alpha, dropout, targets);
	return MQ_OK;
}

enum mq_status mq_tuning_resolve(const char **text, struct mq_arena *arena, struct mq_err *err)
{
	size_t n = *text ? strlen(*text) : 0;
	json_auto_t *top = NULL;

	if (n >= 5 && !strncmp(*text, "qlora", 5) && (!(*text)[5] || (*text)[5] == ':')) {
		*text = mq_arena_printf(arena, "lora:base=nf4%s%s", (*text)[5] ? "," : "",
					*text + 5 + ((*text)[5] == ':'));
		return MQ_OK;
	}
	if (n < 5 || strcmp(*text + n - 5, ".json") != 0)
		return MQ_OK;
	MQ_TRY(mq_json_load(*text, true, arena, &top, err));
	return read_object(*text, top, arena, text, err);
}
