/* calib_names.c - device types by the names that users, tables and drivers give them: see calib.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "maquette/calib.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "maquette/opt.h"

static bool listed(const char *const *list, const char *word)
{
	for (; list && *list; list++)
		if (!strcasecmp(*list, word))
			return true;
	return false;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c);
}

/* Are letters and digits the same, ignoring separators and case? */
static bool same_letters(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (*a && !is_word(*a))
			a++;
		while (*b && !is_word(*b))
			b++;
		if (!*a || tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return !*a && !*b;
	}
}

/* A driver's name without vendor and brand: "NVIDIA GeForce RTX 4090" is an RTX 4090. */
static const char *without_maker(const char *word)
{
	static const char *const makers[] = { "NVIDIA", "AMD", "Tesla", "GeForce", "Quadro", "Instinct" };

	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		size_t n = strlen(makers[i]);

		if (!strncasecmp(word, makers[i], n) && word[n] && !is_word(word[n]))
			word += n + 1;
	}
	return word;
}

static bool reported(const struct mq_device_calib *d, const char *word)
{
	bool same = same_letters(d->name, word);

	for (const char *const *a = d->reported; a && *a; a++)
		same |= same_letters(*a, word);
	for (const char *const *a = d->alias; a && *a; a++)
		same |= same_letters(*a, word);
	return same;
}

const struct mq_device_calib *mq_calib_type(const struct mq_calib *calib, const char *word)
{
	for (uint32_t i = 0; i < calib->n_devices; i++)
		if (!strcasecmp(calib->device[i].name, word))
			return &calib->device[i];
	for (uint32_t i = 0; i < calib->n_devices; i++)
		if (listed(calib->device[i].alias, word))
			return &calib->device[i];
	for (uint32_t i = 0; i < calib->n_devices; i++) /* as nvidia-smi and torch.cuda.get_device_name print it */
		if (reported(&calib->device[i], word) || reported(&calib->device[i], without_maker(word)))
			return &calib->device[i];
	return NULL;
}

enum mq_status mq_calib_type_get(const struct mq_calib *calib, const char *option, const char *word,
				 const struct mq_device_calib **type, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	const char **names = NULL;
	uint32_t n = 0, room = 0;

	*type = mq_calib_type(calib, word);
	if (*type)
		return MQ_OK;
	for (uint32_t i = 0; i < calib->n_devices; i++) {
		MQ_PUSH(&arena, names, n, room, calib->device[i].name);
		for (const char *const *a = calib->device[i].alias; a && *a; a++)
			MQ_PUSH(&arena, names, n, room, *a);
	}
	MQ_PUSH(&arena, names, n, room, NULL);
	const char *near = mq_nearest(word, names);
	const char *known =
		mq_arena_printf(&arena, near ? "did you mean '%s'?" : "`maquette list devices` has all", near);

	return mq_bad(err, "%s=%s: no such device type; %s%s", option, word, known,
		      strcmp(option, "gpu") ? "" : " (any other: give tflops=)");
}

enum mq_status mq_calib_type_ask(const struct mq_calib *calib, const char *option, const char *word, struct mq_err *err)
{
	char list[256] = "";
	size_t used = 0, n = strlen(word);
	bool several = false;

	for (uint32_t i = 0; i < calib->n_devices; i++) {
		const struct mq_device_calib *d = &calib->device[i];

		several |= listed(d->asks, word);
		if (!strncasecmp(d->name, word, n) && d->name[n] == '-' && used + strlen(d->name) + 3 < sizeof(list))
			used += (size_t)sprintf(list + used, "%s%s", used ? ", " : "", d->name);
	}
	return several ? mq_bad(err, "%s=%s: which one? %s", option, word, list) : MQ_OK;
}

/* Length of `name` in letters and digits if `text` begins with it as a whole word; else 0. */
static uint32_t length_at(const char *text, const char *name)
{
	uint32_t n = 0;

	for (; *name; name++) {
		if (!is_word(*name))
			continue;
		while (n && *text && !is_word(*text))
			text++;
		if (tolower((unsigned char)*text++) != tolower((unsigned char)*name))
			return 0;
		n++;
	}
	return is_word(*text) ? 0 : n;
}

struct best {
	const struct mq_device_calib *type;
	uint32_t length;
	const char *at;
};

static void look_for(const char *text, const char *name, const struct mq_device_calib *type, struct best *best)
{
	for (const char *at = text; *at; at++) {
		uint32_t n = is_word(*at) && (at == text || !is_word(at[-1])) ? length_at(at, name) : 0;

		if (n > best->length || (n && n == best->length && at < best->at))
			*best = (struct best){ type, n, at };
	}
}

const struct mq_device_calib *mq_calib_type_in(const struct mq_calib *calib, const char *text, bool reported)
{
	struct best best = { .type = NULL };

	for (uint32_t i = 0; i < calib->n_devices; i++)
		look_for(text, calib->device[i].name, &calib->device[i], &best);
	for (uint32_t i = 0; i < calib->n_devices; i++) {
		const struct mq_device_calib *d = &calib->device[i];

		for (const char *const *a = reported ? d->reported : d->alias; a && *a; a++)
			look_for(text, *a, d, &best);
	}
	return best.type;
}
