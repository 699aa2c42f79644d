/* constraints.c - --fix and --max: constraints on plans. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <string.h>

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct mq_limits, field, NULL, NULL, __VA_ARGS__)
#define DEGREE(name, field)         ROW(INT, name, field, .min = 1, .max = UINT32_MAX - 1)
#define NAMED(name, field, of, n)   ROW(WORD, name, field, MQ_ARG_NAMES(of, n))
#define BUDGET(name, field, ...)    ROW(F64, name, field, .min = 1e-12, .max = 1e12, __VA_ARGS__)

static const struct mq_arg fix_rows[] = {
	DEGREE("dp", fix_dp),
	DEGREE("tp", fix_tp),
	DEGREE("pp", fix_pp),
	DEGREE("cp", fix_cp),
	DEGREE("ep", fix_ep),
	DEGREE("etp", fix_etp),
	DEGREE("ulysses", fix_ulysses),
	DEGREE("mbs", fix_mbs),
	DEGREE("virtual", fix_virtual),
	NAMED("schedule", fix_pipeline, mq_pipeline_name, MQ_N_PIPELINES),
	NAMED("recompute", fix_recompute, mq_recompute_name, MQ_N_RECOMPUTES),
	NAMED("sync", fix_sync, mq_sync_name, MQ_N_SYNCS),
	{ .type = MQ_ARG_END },
};
static const struct mq_arg max_rows[] = {
	DEGREE("dp", max_dp),
	DEGREE("tp", max_tp),
	DEGREE("pp", max_pp),
	DEGREE("devices", max_devices),
	BUDGET("cost", max_usd, .unit = "$"),
	BUDGET("energy", max_kWh, .unit = "kWh"),
	BUDGET("step-time", max_step_s, .unit = "s"),
	BUDGET("memory", max_memory_B, .unit = "GB", .scale = 1e9),
	{ .type = MQ_ARG_END },
};

static enum mq_status read_limits(const char *option, const struct mq_arg *rows, const struct mq_list *list,
				  struct mq_limits *limits, struct mq_err *err)
{
	char prefix[16], names[128] = "", key[16], value[64];
	uint32_t seen = 0; /* a bit per row */
	size_t used = 0;
	int n;

	snprintf(prefix, sizeof(prefix), "--%s ", option);
	for (uint32_t i = 0; i < list->n; i++) /* each may hold several, separated by blanks */
		for (const char *c = list->item[i]; *(c += strspn(c, " ")) || c == list->item[i]; c += n) {
			bool pair = sscanf(c, "%15[^= ]=%63[^ ]%n", key, value, &n) == 2;
			const struct mq_arg *row = pair ? mq_arg_find(rows, key) : NULL;
			if (row && seen >> (row - rows) & 1)
				return mq_bad(err, "%s%s: it is given twice; leave one out", prefix, key);
			if (row) {
				seen |= 1u << (row - rows);
				MQ_TRY(mq_arg_set(row, limits, prefix, value, err));
				continue;
			}
			for (row = rows; row->type != MQ_ARG_END; row++)
				used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", row->name);
			return mq_bad(err, "%s%s: give KEY=VALUE with KEY one of%s", prefix, list->item[i], names);
		}
	return MQ_OK;
}

enum mq_status mq_asked_limits(const struct mq_asked *asked, struct mq_limits *limits, struct mq_err *err)
{
	*limits = (struct mq_limits){ .fix_pipeline = -1, .fix_recompute = -1, .fix_sync = -1 };
	MQ_TRY(read_limits("fix", fix_rows, &asked->fix, limits, err));
	return read_limits("max", max_rows, &asked->max, limits, err);
}
