/* groups.c - see groups.h. SPDX-License-Identifier: Apache-2.0 */
#include "score/groups.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char mq_score_groups_header[] = "table,model,gpu,gpus,batch,rows,spearman,regret,ranked_first,"
				      "ranked_first_measured_s,best,best_measured_s";

static double measured_s(const struct mq_judged_table *t, uint32_t row)
{
	return t->run[row].step_time_s;
}

/* The group of the rows in `row` [n], n >= 1. */
static struct mq_score_group judge(const struct mq_judged_table *t, const uint32_t *row, uint32_t n,
				   struct mq_arena *arena)
{
	struct mq_score_group g = { .n = n, .regret = NAN, .first = row[0], .best = row[0] };
	double *predicted = mq_arena_array(arena, n, double), *measured = mq_arena_array(arena, n, double);

	for (uint32_t i = 0; i < n; i++) {
		predicted[i] = t->step_s[row[i]];
		measured[i] = measured_s(t, row[i]);
		if (predicted[i] < t->step_s[g.first])
			g.first = row[i];
		if (measured[i] < measured_s(t, g.best))
			g.best = row[i];
	}
	g.spearman = mq_spearman(predicted, measured, n, arena);
	if (n >= 2)
		g.regret = mq_regret(predicted, measured, n);
	return g;
}

static double mean_of(const struct mq_score_groups *s, bool regret)
{
	double sum = 0, weight = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		double value = regret ? s->group[i].regret : s->group[i].spearman;

		if (isnan(value))
			continue;
		sum += value * s->group[i].n;
		weight += s->group[i].n;
	}
	return weight > 0 ? sum / weight : (double)NAN;
}

struct mq_score_groups mq_score_groups(const struct mq_judged_table *t, struct mq_arena *arena)
{
	struct mq_score_groups s = { .table = t, .group = mq_arena_array(arena, t->n, struct mq_score_group) };
	const char **key = mq_arena_array(arena, t->n, const char *);
	uint32_t *row = mq_arena_array(arena, t->n, uint32_t);

	for (uint32_t i = 0; i < t->n; i++)
		key[i] = mq_table_scored(t, i) ? mq_run_group(&t->c[i], arena) : NULL;
	for (uint32_t i = 0; i < t->n; i++) {
		const char *mine = key[i];
		uint32_t n = 0;

		for (uint32_t k = i; k < t->n && mine; k++)
			if (key[k] && !strcmp(key[k], mine)) {
				row[n++] = k;
				key[k] = NULL;
			}
		if (n)
			s.group[s.n++] = judge(t, row, n, arena);
	}
	s.spearman = mean_of(&s, false);
	s.regret = mean_of(&s, true);
	return s;
}

void mq_score_put_groups(const struct mq_score_groups *s, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct mq_score_group *g = &s->group[i];
		const struct mq_run *r = &s->table->run[g->first];

		if (g->n > 1)
			mq_csv_row(w, "%s,%s,%s,%g,%g,%u,%g,%g,%s,%g,%s,%g", s->table->stem, r->model, r->gpu, r->gpus,
				   r->gbs, g->n, g->spearman, g->regret, r->id, measured_s(s->table, g->first),
				   s->table->run[g->best].id, measured_s(s->table, g->best));
	}
}

void mq_score_print_groups(const struct mq_score_groups *s)
{
	for (uint32_t i = 0; i < s->n; i++) {
		const struct mq_score_group *g = &s->group[i];
		const struct mq_run *r = &s->table->run[g->first];

		if (isnan(g->spearman))
			continue;
		printf("  plans of %s on %.0f %s, batch %.0f: %u rows, rank %.2f, regret %.3f (ranked first %s: "
		       "%.4g s; best %s: %.4g s)\n",
		       r->model, r->gpus, r->gpu, r->gbs, g->n, g->spearman, g->regret, r->id,
		       measured_s(s->table, g->first), s->table->run[g->best].id, measured_s(s->table, g->best));
	}
}
