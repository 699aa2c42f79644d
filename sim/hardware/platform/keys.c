/* keys.c - the keys of a generated platform as text, and the assumptions behind missing ones.
 * SPDX-License-Identifier: Apache-2.0 */
#include "hardware/platform/spec.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

#define BETWEEN " \t\n,;"

bool mq_platform_spec_is(const char *text)
{
	const char *equals = strchr(text, '=');

	for (const char *c = text; c < equals; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_-" BETWEEN, *c))
			return false;
	return equals && access(text, F_OK) != 0;
}

char *mq_platform_spec_plain(char *text)
{
	char *to = text;

	for (const char *c = text; *c; c++) {
		bool between = strchr(BETWEEN, *c);

		if (!between || (to > text && to[-1] != ' '))
			*to++ = between ? ' ' : *c;
	}
	*to = '\0';
	return text;
}

static bool is_switch(const char *word)
{
	for (const struct mq_opt *o = mq_platform_opts; o->type != MQ_OPT_END; o++)
		if (o->type == MQ_OPT_BOOL && !strcmp(o->name, word))
			return true;
	return false;
}

enum mq_status mq_platform_spec_parse(const char *text, struct mq_platform_spec *spec, struct mq_arena *arena,
				      struct mq_err *err)
{
	char *copy = mq_arena_strdup(arena, text), *save = NULL;
	const char *mix = NULL; /* if the previous key was `gpu` */

	for (char *word = strtok_r(copy, BETWEEN, &save); word; word = strtok_r(NULL, BETWEEN, &save)) {
		char *equals = strchr(word, '=');

		if (!equals && mix && !is_switch(word)) {
			mix = spec->gpu =
				mq_arena_printf(arena, "%s%c%s", mix, mq_gen_is_drivers(mix) ? ' ' : '+', word);
			continue;
		}
		if (!equals && !is_switch(word))
			return mq_bad(err,
				      "platform: '%s': write KEY=VALUE; the keys: `maquette platform generate --help`",
				      word);
		if (equals)
			*equals++ = '\0';
		MQ_TRY(mq_opt_set(mq_platform_opts, spec, "platform", word, equals ? equals : "true", arena, err));
		mix = strcmp(word, "gpu") ? NULL : spec->gpu;
	}
	return MQ_OK;
}

const char *mq_gen_assumed(const struct mq_platform_spec *spec, const struct mq_gen_group *g, const char *text,
			   struct mq_arena *arena)
{
	if (spec->memory_GB <= 0)
		text = mq_arena_printf(arena, "%s; %.4g GB of memory (memory_GB=)", text, g->memory_B / 1e9);
	if (spec->bw_TBps <= 0 && spec->mem_GBps <= 0)
		text = mq_arena_printf(arena, "%s; %.4g TB/s to it (bw_TBps=)", text, g->mem_bw_Bps / 1e12);
	if (spec->nvlink_GBps <= 0)
		text = mq_arena_printf(arena, "%s; no NVLink (nvlink_GBps=)", text);
	if (spec->pcie_GBps <= 0)
		text = mq_arena_printf(arena, "%s; PCIe of %.4g GB/s (pcie_GBps=)", text, g->pcie_GBps);
	if (!spec->nics || !g->port_given)
		text = mq_arena_printf(arena, "%s; %u port%s of %.4g GB/s a machine (nics=, nic_GBps=)", text, g->nics,
				       g->nics == 1 ? "" : "s", g->nic_GBps);
	if (spec->price_per_h < 0)
		text = mq_arena_printf(arena, "%s; no price (price_per_h=)", text);
	return spec->power_W < 0 ? mq_arena_printf(arena, "%s; no power (power_W=)", text) : text;
}

const char *const *mq_platform_spec_types(const struct mq_platform_spec *spec, const struct mq_calib *calib,
					  struct mq_arena *arena)
{
	struct mq_gen *gen = mq_arena_array(arena, 1, struct mq_gen);
	const char **type = mq_arena_array(arena, MQ_GEN_MAX_GROUPS + 1, const char *);
	struct mq_err ignored = MQ_ERR_INIT;
	uint32_t n = 0;

	if (mq_gen_prepare(spec, calib, arena, gen, &ignored) != MQ_OK)
		return type;
	for (uint32_t i = 0; i < gen->n_groups; i++) {
		bool known = false;

		for (uint32_t k = 0; k < n; k++)
			known |= !strcmp(type[k], gen->group[i].type);
		if (!known)
			type[n++] = gen->group[i].type;
	}
	return type;
}

enum mq_status mq_platform_spec_groups(const struct mq_platform_spec *spec, const struct mq_calib *calib, uint32_t most,
				       struct mq_platform_group *group, uint32_t *n, struct mq_arena *arena,
				       struct mq_err *err)
{
	struct mq_gen *gen = mq_arena_array(arena, 1, struct mq_gen);

	MQ_TRY(mq_gen_prepare(spec, calib, arena, gen, err));
	if (gen->n_groups > most)
		return mq_bad(err, "gpu=%s: at most %u kinds of machines", spec->gpu, most);
	for (*n = 0; *n < gen->n_groups; ++*n) {
		const struct mq_gen_group *g = &gen->group[*n];

		group[*n] = (struct mq_platform_group){ g->type, g->nodes, g->gpus };
	}
	return MQ_OK;
}
