/*
 * complete.c - what a row of measurements leaves to its source, see mq_run_complete.
 */
#include "score/row.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "score/tables.h"

/* "tokens*0.9" counts real tokens by the step time, padded ones by the work. */
static void in_sequences(struct mq_run *r, double *real_share, const char *batch)
{
	const char *times = strchr(batch, '*');

	*real_share = times ? strtod(times + 1, NULL) : 1;
	r->gbs /= r->seq;
	r->mbs /= r->seq;
}

/* "each*128" is the micro-batch of a device, a bare number the batch of all. */
static void put_batch(struct mq_run *r, const char *batch)
{
	if (strncmp(batch, "each*", 5)) {
		r->gbs = strtod(batch, NULL);
		return;
	}
	r->mbs = isnan(r->mbs) ? strtod(batch + 5, NULL) : r->mbs;
	r->gbs = r->mbs * r->gpus;
}

/* Samples or tokens per second, of all devices; 0 where the unit is another. */
static double per_second(const struct mq_run *r, bool *tokens)
{
	static const char *const samples[] = { "seq", "sample", "sentence", "im", NULL };
	double each = strcasestr(r->unit, "/gpu") || strcasestr(r->unit, "per gpu") ? r->gpus : 1;
	bool known = *tokens = !strncasecmp(r->unit, "tok", 3);

	for (const char *const *word = samples; *word; word++)
		known |= !strncasecmp(r->unit, *word, strlen(*word));
	return known && strstr(r->unit, "/s") ? r->value * each : 0;
}

/* "... DGX-2 (16x V100 32GB)" in the locator: the memory of a GPU of which the row gives the type alone; and
 * GPUs per machine where the row has the machine's number instead (the 2 of DGX-2). */
static void read_machine(struct mq_run *r, struct mq_arena *arena)
{
	char type[32], name[32] = "";
	unsigned gpus, GB;

	if (!isnan(r->gpus_per_node))
		snprintf(name, sizeof(name), "DGX-%g", r->gpus_per_node);
	for (const char *p = r->locator; (p = strchr(p, '(')); p++) {
		if (sscanf(p, "(%3ux %31[^ )] %4uGB)", &gpus, type, &GB) != 3 || strncmp(r->gpu, type, strlen(type)))
			continue;
		if (!strcmp(r->gpu, type))
			r->gpu = mq_arena_printf(arena, "%s-%uGB", type, GB);
		if (*name && strstr(r->locator, name) && gpus > r->gpus_per_node)
			r->gpus_per_node = gpus;
	}
}

/* "model TFLOP/s" and the model's own FLOPs. */
static double by_flop(const struct mq_score_tables *tables, const struct mq_run *r, struct mq_arena *arena)
{
	double each = strcasestr(r->unit, "/gpu") ? r->gpus : 1, flop;
	struct mq_err unknown = MQ_ERR_INIT;

	if (strncasecmp(r->metric, "model TFLOP", 11) || strncasecmp(r->unit, "TFLOP", 5) || !(r->value > 0) ||
	    isnan(r->gbs) || isnan(r->gpus) || mq_case_flop(tables, r, arena, &flop, &unknown) != MQ_OK)
		return NAN; /* what is missing is told when the row is judged */
	return r->gbs * flop / (r->value * 1e12 * each);
}

void mq_run_complete(const struct mq_score_tables *tables, struct mq_run *r, struct mq_arena *arena)
{
	struct mq_err unknown = MQ_ERR_INIT;
	struct mq_known_model known;
	double real_share = 1, rate;
	bool tokens;

	mq_run_publish(tables, r, arena);
	read_machine(r, arena);
	if (mq_known_model(tables, r, &known, &unknown) == MQ_OK) {
		if (isnan(r->seq))
			r->seq = mq_given_value(known.given, "seq");
		if (!strncmp(known.batch, "tokens", 6))
			in_sequences(r, &real_share, known.batch);
		else if (*known.batch && isnan(r->gbs))
			put_batch(r, known.batch);
	}
	rate = per_second(r, &tokens);
	if (isnan(r->step_time_s) && rate > 0)
		r->step_time_s = r->gbs * (tokens ? r->seq * real_share : 1) / rate;
	if (isnan(r->step_time_s))
		r->step_time_s = by_flop(tables, r, arena);
}
