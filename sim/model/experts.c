/* experts.c - see experts.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/experts.h"

#include <math.h>

#include "base/quantity.h"

enum { MAX_EXPERTS = 100000 };

static double total(const struct mq_expert_load *l)
{
	double sum = 0;

	for (uint32_t e = 0; e < l->n; e++)
		sum += l->tokens[e];
	return sum;
}

/* Load of the fullest rank over the mean, each expert up to its capacity; rank r of `ep` has experts from r n
 * / ep on. */
static double counted(const struct mq_expert_load *l, double ep)
{
	double mean = total(l) / l->n, most = 0, each = l->n / ep;

	for (double r = 0; r < ep; r++) {
		double sum = 0;

		for (double e = floor(r * each); e < floor((r + 1) * each); e++) {
			double load = l->tokens[(uint32_t)e] / mean;

			sum += l->capacity > 0 ? fmin(load, l->capacity) : load;
		}
		most = fmax(most, sum / each);
	}
	return most;
}

double mq_expert_load(const struct mq_expert_load *l, double ep)
{
	double load = 1;

	if (l->pad)
		return l->capacity;
	if (l->n)
		return counted(l, fmax(ep, 1));
	if (l->stated > 0)
		load = fmin(l->stated, fmax(ep, 1));
	return l->capacity > 0 ? fmin(load, l->capacity) : load;
}

enum mq_status mq_expert_load_read(const char *what, const char *text, struct mq_arena *arena,
				   struct mq_expert_load *load, struct mq_err *err)
{
	double *number;
	uint32_t n;

	MQ_TRY(mq_numbers_read(what, text, MAX_EXPERTS, arena, &number, &n, err));
	load->stated = 0;
	load->n = 0;
	load->tokens = NULL;
	if (n == 1 && !(number[0] >= 1))
		return mq_bad(err,
			      "%s %s: the fullest rank has no fewer tokens than the mean; give a number "
			      "of 1 or more, or tokens of each expert",
			      what, text);
	if (n == 1) {
		load->stated = number[0];
		return MQ_OK;
	}
	load->n = n;
	load->tokens = number;
	if (!(total(load) > 0))
		return mq_bad(err, "%s %s: no expert has a token", what, text);
	return MQ_OK;
}

const char *mq_expert_load_text(const struct mq_expert_load *l, struct mq_arena *arena)
{
	if (l->n)
		return mq_numbers_text(l->tokens, l->n, arena);
	return l->stated > 0 ? mq_numbers_text(&l->stated, 1, arena) : "";
}
