/*
 * words.c - what a row says in words of sharding, schedule and recomputation: see mq_case_words in row.h.
 *
 * Not read: what a software's name or its options say better (ZeRO++, partitions of a hierarchy).
 */
#include "score/row.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mq_case_assume(struct mq_case *c, struct mq_arena *arena, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	c->guess = c->guess ? mq_arena_printf(arena, "%s, %s", c->guess, text) : mq_arena_strdup(arena, text);
}

/* Is one of the words, separated by blanks, the first of the cell? */
static bool begins(const char *cell, const char *words)
{
	size_t n = strcspn(cell, " ,;(/");

	while (*words) {
		size_t k = strcspn(words, " ");

		if (k == n && !strncasecmp(cell, words, n))
			return true;
		words += k + (words[k] == ' ');
	}
	return false;
}

static bool yes(const char *cell)
{
	return begins(cell, "yes true on 1 all enabled");
}

static bool no(const char *cell)
{
	return begins(cell, "no none false off 0 disabled without");
}

/* N of "ZeRO-N", "ZeRO N", "zeroN", "ZeRO stage N", "stage N" or a bare "N"; -1 = none of these. */
static int zero_stage(const char *cell)
{
	static const char *const before[] = { "zero", "stage" };
	const char *at = cell;

	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		const char *word = strcasestr(at, before[i]);

		if (word)
			at = word + strlen(before[i]) + strspn(word + strlen(before[i]), " -_");
	}
	if (at == cell && cell[strcspn(cell, " ")])
		return -1; /* a number among other words */
	return *at >= '0' && *at <= '3' && !isdigit((unsigned char)at[1]) ? *at - '0' : -1;
}

/* Ranks that parameters are sharded over where that is not all that hold the same: "ZeRO-1 within 8 GPUs";
 * hybrid shards ("HSDP 4x8": 4 copies of 8 shards), by default those of a machine; "FSDP 8" on more
 * replicas than 8. 0 = all. */
static uint32_t sharding_group(const struct mq_case *c)
{
	const char *z = c->run->zero, *within = strstr(z, "within ");
	const char *number = z + strcspn(z, "0123456789"), *times = strchr(number, 'x');
	bool hybrid = mq_explicit(z, "hsdp") || mq_explicit(z, "hybrid");
	uint32_t group = 0, ranks = c->shape.dp * c->shape.cp;

	if (within)
		return (uint32_t)strtoul(within + 7, NULL, 10);
	if (times && strtoul(times + 1, NULL, 10) > 0)
		group = (uint32_t)strtoul(times + 1, NULL, 10);
	else if (hybrid && !*number && c->part[0].per_node > c->shape.tp)
		group = c->part[0].per_node / c->shape.tp;
	else if (mq_explicit(z, "fsdp") || hybrid)
		group = *number ? (uint32_t)strtoul(number, NULL, 10) : 0;
	/* "FSDP2 64" is the second FSDP */
	if (mq_explicit(z, "fsdp2") && *number && !times)
		group = (uint32_t)strtoul(number + 1, NULL, 10);
	return group < c->shape.dp && group > 1 && ranks % group == 0 ? group : 0;
}

/* The sync of a cell; MQ_N_SYNCS = not understood. */
static unsigned sync_in(const char *z)
{
	static const unsigned of_stage[] = { MQ_SYNC_ALLREDUCE, MQ_SYNC_ZERO1, MQ_SYNC_ZERO2, MQ_SYNC_ZERO3 };

	if (zero_stage(z) >= 0)
		return of_stage[zero_stage(z)];
	if (mq_explicit(z, "zero-infinity"))
		return MQ_SYNC_ZERO3;
	if (mq_explicit(z, "shard_grad_op") || mq_explicit(z, "zero-offload"))
		return MQ_SYNC_ZERO2;
	if (mq_explicit(z, "fsdp") || mq_explicit(z, "hsdp") || mq_explicit(z, "hybrid") ||
	    mq_explicit(z, "full_shard"))
		return MQ_SYNC_ZERO3;
	if (mq_explicit(z, "distributed optimizer"))
		return MQ_SYNC_ZERO1;
	if (no(z) || begins(z, "ddp allreduce all-reduce"))
		return MQ_SYNC_ALLREDUCE;
	return MQ_N_SYNCS;
}

static enum mq_status sync_of(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	const char *z = c->run->zero;
	unsigned sync = *z ? sync_in(z) : c->software.software.sync;

	if (mq_explicit(z, "nvme") || mq_explicit(z, "infinity"))
		return mq_fail(err, MQ_EINPUT, "zero '%s': parameters on disks are not modelled", z);
	if (sync == MQ_N_SYNCS) {
		sync = c->software.software.sync;
		mq_case_assume(c, arena, "zero '%s' not understood: as its software does", z);
	}
	c->shape.sync = (uint8_t)sync;
	c->offload_optimizer = mq_explicit(z, "offload");
	c->zero_group = sharding_group(c);
	if (c->shape.dp * c->shape.cp == 1)
		c->shape.sync = MQ_SYNC_ALLREDUCE;
	return MQ_OK;
}

static enum mq_status schedule_of(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	const char *s = c->run->schedule;
	bool interleaved = mq_explicit(s, "interleaved");

	if (interleaved && isnan(c->run->vp) && c->shape.pp > 1 && c->software.software.chunks)
		c->shape.virtual = c->software.software.chunks;
	c->shape.pipeline = c->shape.virtual > 1 ? MQ_PIPE_INTERLEAVED : MQ_PIPE_1F1B;
	if (mq_explicit(s, "gpipe"))
		c->shape.pipeline = MQ_PIPE_GPIPE;
	else if (mq_explicit(s, "zbv") || mq_explicit(s, "zb-v"))
		c->shape.pipeline = MQ_PIPE_ZBV;
	else if (mq_explicit(s, "dualpipev") || mq_explicit(s, "dualpipe-v"))
		c->shape.pipeline = MQ_PIPE_DUALPIPE_V;
	else if (mq_explicit(s, "zb") || mq_explicit(s, "zero bubble"))
		c->shape.pipeline = MQ_PIPE_ZB_H1;
	else if (interleaved && c->shape.virtual == 1 && c->shape.pp > 1 && isnan(c->run->vp))
		return mq_fail(err, MQ_EINPUT, "interleaved schedule without the number of chunks");
	else if (*s && !no(s) && !interleaved && !mq_explicit(s, "1f1b") && c->shape.pp > 1)
		mq_case_assume(c, arena, "schedule '%s' not understood: %s", s,
			       mq_pipeline_name((enum mq_pipeline)c->shape.pipeline));
	if (c->shape.pp > 1 && c->shape.virtual == 1)
		c->shape.virtual = mq_pipeline_kind((enum mq_pipeline)c->shape.pipeline)->least_chunks;
	return MQ_OK;
}

static void recompute_of(struct mq_case *c, struct mq_arena *arena)
{
	const char *r = c->run->recompute;

	c->shape.recompute = (uint8_t)c->software.software.recompute;
	if (mq_explicit(r, "full") || yes(r))
		c->shape.recompute = MQ_RECOMPUTE_FULL;
	else if (mq_explicit(r, "selective"))
		c->shape.recompute = MQ_RECOMPUTE_SELECTIVE;
	else if (mq_explicit(r, "none") || no(r))
		c->shape.recompute = MQ_RECOMPUTE_NONE;
	else if (*r)
		mq_case_assume(c, arena, "recompute '%s' not understood: as its software does", r);
}

enum mq_status mq_case_words(struct mq_case *c, struct mq_arena *arena, struct mq_err *err)
{
	MQ_TRY(schedule_of(c, arena, err));
	recompute_of(c, arena);
	return sync_of(c, arena, err);
}
