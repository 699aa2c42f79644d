/* names.c - see names.h. SPDX-License-Identifier: Apache-2.0 */
#include "model/formats/lib/names.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/paths.h"
#include "base/text.h"

enum { MOST_NEAR = 4 };

json_t *mq_models_file(const char *name, struct mq_arena *arena)
{
	struct mq_err none;
	const char *dir;
	json_t *json = NULL;

	if (mq_find_dir("platforms/models", arena, &dir, &none) == MQ_OK &&
	    mq_json_load(mq_arena_printf(arena, "%s/%s", dir, name), false, arena, &json, &none) == MQ_OK)
		return json;
	return NULL;
}

const char **mq_hf_shipped(struct mq_arena *arena)
{
	const char **names = NULL, *name;
	json_auto_t *hub = mq_models_file("hub.json", arena);
	uint32_t n = 0, room = 0;
	json_t *entry;

	json_object_foreach(hub, name, entry)
		MQ_PUSH(arena, names, n, room, mq_arena_strdup(arena, name));
	MQ_PUSH(arena, names, n, room, NULL);
	return names;
}

/* A name's letters, digits and points in lower case (1.3b is not 13b), without suffixes that change nothing. */
static const char *letters(const char *name, struct mq_arena *arena)
{
	static const char neutral[] = "hf base it instruct chat pt v0.1 v1.0 uncased bf16";
	char *copy = mq_arena_strdup(arena, name), *dash;
	size_t n = 0;

	for (char *c = copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	while ((dash = strrchr(copy, '-')) && mq_text_has_word(neutral, dash + 1))
		*dash = '\0';
	for (const char *c = copy; *c; c++)
		if (isalnum((unsigned char)*c) || *c == '.')
			copy[n++] = *c;
	copy[n] = '\0';
	return copy;
}

/* The next word of a name, "llama", "3", "70b" of llama3-70b; an empty one at the end. */
static const char *next_word(const char **name, struct mq_arena *arena)
{
	while (**name && !isalnum((unsigned char)**name))
		++*name;
	const char *from = *name;
	while (isalpha((unsigned char)**name))
		++*name;
	if (*name == from) { /* a number with its unit */
		while (isdigit((unsigned char)**name))
			++*name;
		while (isalpha((unsigned char)**name))
			++*name;
	}
	return mq_arena_printf(arena, "%.*s", (int)(*name - from), from);
}

static uint32_t words_shared(const char *name, const char *other, struct mq_arena *arena)
{
	uint32_t n = 0;

	for (const char *word = next_word(&name, arena); *word; word = next_word(&name, arena)) {
		const char *rest = other, *of = next_word(&rest, arena);

		while (*of && strcasecmp(of, word))
			of = next_word(&rest, arena);
		n += *of != '\0';
	}
	return n;
}

struct search {
	struct mq_arena *arena;
	const char *name, *same, *near;
	uint32_t shared, n_near; /* shared words of the nearest names; number of them */
};

static void look_at(struct search *s, const char *said, const char *spec)
{
	uint32_t shared = words_shared(s->name, said, s->arena);

	if (!strcmp(letters(s->name, s->arena), letters(said, s->arena)))
		s->same = s->same ? s->same : spec;
	if (shared < 2 || shared < s->shared)
		return;
	if (shared > s->shared)
		s->near = "", s->n_near = 0;
	if (strstr(s->near, spec)) /* another name of the same model */
		return;
	s->shared = shared;
	if (++s->n_near <= MOST_NEAR)
		s->near = s->n_near == 1 ? spec : mq_arena_printf(s->arena, "%s, %s", s->near, spec);
}

const char *mq_model_named(const char *name, const char *const *known, struct mq_arena *arena, const char **near)
{
	json_auto_t *sizes = mq_models_file("sizes.json", arena), *names = mq_models_file("names.json", arena);
	struct search s = { .arena = arena, .name = name, .near = "" };
	const char *family, *size;
	json_t *of, *value;

	json_object_foreach(names, family, value)
		look_at(&s, family, mq_arena_printf(arena, "%s", json_string_value(value)));
	for (const char *const *shipped = mq_hf_shipped(arena); shipped && *shipped; shipped++)
		look_at(&s, strchr(*shipped, '/') ? strchr(*shipped, '/') + 1 : *shipped, *shipped);
	json_object_foreach(sizes, family, of)
		json_object_foreach(of, size, value)
			look_at(&s, mq_arena_printf(arena, "%s-%s", family, size),
				mq_arena_printf(arena, "%s:size=%s", family, size));
	for (; *known; known++)
		look_at(&s, *known, *known);
	*near = s.near;
	return s.same;
}
