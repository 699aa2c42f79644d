/*
 * score_load.c - a table of runs made ready for the workers, see score_spawn.h.
 */
#include "cmd/score/score_spawn.h"

#include <math.h>
#include <string.h>

static void refuse(struct mq_work_item *item, const char *reason)
{
	item->verdict = MQ_VERDICT_REFUSED;
	item->step_s = item->peak_B = item->limit_B = NAN;
	item->message = reason;
}

static void enqueue(struct mq_work_table *t, struct mq_work_item *item, struct mq_arena *arena)
{
	struct mq_work_group *g = NULL;

	for (uint32_t i = 0; i < t->n_groups && !g; i++)
		if (!strcmp(t->group[i].item[0]->c->platform, item->c->platform) &&
		    t->group[i].item[0]->c->n_devices == item->c->n_devices)
			g = &t->group[i];
	if (!g) {
		struct mq_work_group fresh = { 0 };

		MQ_PUSH(arena, t->group, t->n_groups, t->group_room, fresh);
		g = &t->group[t->n_groups - 1];
	}
	MQ_PUSH(arena, g->item, g->n, g->room, item);
}

void mq_work_group_rows(struct mq_work_table *t, const bool *wanted, struct mq_arena *arena)
{
	t->group = NULL;
	t->n_groups = t->group_room = 0;
	for (uint32_t i = 0; i < t->n; i++)
		if (t->ready[i] && (!wanted || wanted[i]))
			enqueue(t, &t->item[i], arena);
}

enum mq_status mq_work_load(const struct mq_score_options *o, const struct mq_score_tables *tables,
			    struct mq_work_table *t, struct mq_err *err)
{
	t->stem = mq_score_stem(t->path, o->arena);
	MQ_TRY(mq_runs_load(t->path, o->arena, &t->run, &t->n, err));
	t->c = mq_arena_array(o->arena, t->n, struct mq_case);
	t->item = mq_arena_array(o->arena, t->n, struct mq_work_item);
	t->ready = mq_arena_array(o->arena, t->n, bool);
	for (uint32_t i = 0; i < t->n; i++) {
		struct mq_err why = MQ_ERR_INIT;

		t->item[i] = (struct mq_work_item){ .c = &t->c[i] };
		if (o->only && !strstr(t->run[i].id, o->only) && !strstr(t->run[i].model, o->only)) {
			t->item[i].verdict = MQ_N_VERDICTS; /* not asked for */
			continue;
		}
		mq_run_complete(tables, &t->run[i], o->arena);
		t->ready[i] = mq_case_build(tables, o->calib, &t->run[i], o->arena, &t->c[i], &why) ==
			      MQ_OK;
		if (!t->ready[i])
			refuse(&t->item[i], mq_arena_strdup(o->arena, why.text));
	}
	return MQ_OK;
}

bool mq_work_scored(const struct mq_work_table *t, uint32_t i)
{
	return (t->item[i].verdict == MQ_VERDICT_OK || t->item[i].verdict == MQ_VERDICT_OOM) &&
	       t->item[i].step_s > 0 && t->run[i].step_time_s > 0;
}
