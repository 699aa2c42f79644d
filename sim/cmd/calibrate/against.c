/* against.c - see against.h. Compares measured times with measured times, without fit or model.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/calibrate/against.h"

#include <stdio.h>
#include <string.h>

#include "cmd/validate/dir.h"
#include "fit/fit.h"

static const double LIMIT = .05; /* SuperBench's usual variance rule */

struct probe {
	const char *schedule, *kind;
	uint32_t device; /* MQ_NONE: several */
	double *ratio;
	uint32_t n, room, n_weak;
};

struct against {
	struct mq_arena *arena;
	struct probe *probe;
	uint32_t n, room;
};

static struct probe *probe_of(struct against *a, const char *schedule, const struct mq_task *t)
{
	bool alone = t->kind == MQ_TASK_COMPUTE || t->kind == MQ_TASK_COPY;
	const char *kind = t->kind == MQ_TASK_COLLECTIVE ? mq_coll_name((enum mq_coll_kind)t->coll) :
							   mq_task_kind_name((enum mq_task_kind)t->kind);
	uint32_t device = alone ? t->device : MQ_NONE;

	for (uint32_t i = 0; i < a->n; i++)
		if (!strcmp(a->probe[i].schedule, schedule) && !strcmp(a->probe[i].kind, kind) &&
		    a->probe[i].device == device)
			return &a->probe[i];
	MQ_PUSH(a->arena, a->probe, a->n, a->room,
		((struct probe){ .schedule = schedule, .kind = kind, .device = device }));
	return &a->probe[a->n - 1];
}

static enum mq_status join(struct against *a, const char *name, const struct mq_measured *now,
			   const struct mq_measured *then, struct mq_err *err)
{
	struct mq_observations x = { 0 }, y = { 0 };

	MQ_TRY(mq_measured_calls(now, a->arena, &x, err));
	MQ_TRY(mq_measured_calls(then, a->arena, &y, err));
	bool same = x.n == y.n;
	for (uint32_t i = 0; i < x.n && same; i++) {
		const struct mq_task *t = &now->schedule->task[x.call[i].task],
				     *u = &then->schedule->task[y.call[i].task];

		same = x.call[i].task == y.call[i].task && t->kind == u->kind && t->device == u->device &&
		       t->bytes == u->bytes;
	}
	if (!same)
		return mq_bad(err,
			      "--against: probe %s has other calls than the baseline's; measure with the same "
			      "--devices, --seed and version",
			      name);
	for (uint32_t i = 0; i < x.n; i++) {
		const struct mq_observed *o = &x.call[i], *before = &y.call[i];
		struct probe *p = probe_of(a, name, &now->schedule->task[o->task]);

		p->n_weak += o->weak || before->weak;
		if (o->time.median > 0 && before->time.median > 0)
			MQ_PUSH(a->arena, p->ratio, p->n, p->room, o->time.median / before->time.median);
	}
	return MQ_OK;
}

/* Returns whether it fails. */
static bool print_probe(struct probe *p)
{
	char where[16] = "all";
	double change = mq_median_of(p->ratio, p->n).median - 1; /* sorts */
	bool fails = change > LIMIT, warns = change < -LIMIT || 2 * p->n_weak > p->n;

	if (p->device != MQ_NONE)
		snprintf(where, sizeof(where), "%u", p->device);
	printf("%-10s %-16s %6s %6u %+8.1f %+8.1f  %s\n", p->schedule, p->kind, where, p->n, 100 * change,
	       100 * (p->ratio[p->n - 1] - 1),
	       fails ? "fail" :
	       warns ? 2 * p->n_weak > p->n ? "warn: few clean samples" : "warn: faster than the baseline" :
		       "pass");
	return fails;
}

/* NULL: not measured there. */
static const struct mq_measured *probed(const struct mq_samples *s, const char *name)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (!strcmp(s->name[i], name) && s->measured[i].n_samples)
			return &s->measured[i];
	return NULL;
}

/* What one level measures and another does not. */
static void say_alone(const struct mq_samples *one, const struct mq_samples *other, const char *in, const char *lacks)
{
	for (uint32_t i = 0; i < one->n; i++)
		if (probed(one, one->name[i]) && !probed(other, one->name[i]))
			printf("%-10s not compared: in %s, not in %s\n", one->name[i], in, lacks);
}

enum mq_status mq_probes_against(const char *samples, const char *baseline, struct mq_arena *arena, struct mq_err *err)
{
	struct against a = { .arena = arena };
	struct mq_samples now, then;
	uint32_t failed = 0;

	MQ_TRY(mq_samples_load(samples, arena, &now, err));
	MQ_TRY(mq_samples_load(baseline, arena, &then, err));
	for (uint32_t i = 0; i < now.n; i++) {
		const struct mq_measured *m = probed(&then, now.name[i]);

		if (m && now.measured[i].n_samples)
			MQ_TRY(join(&a, now.name[i], &now.measured[i], m, err));
	}
	if (!a.n)
		return mq_bad(err, "--against: %s and %s have no probe in common", samples, baseline);
	printf("%-10s %-16s %6s %6s %8s %8s  against %s\n", "probe", "calls", "device", "number", "slower %", "worst %",
	       baseline);
	for (uint32_t i = 0; i < a.n; i++)
		failed += a.probe[i].n && print_probe(&a.probe[i]);
	say_alone(&now, &then, samples, baseline);
	say_alone(&then, &now, baseline, samples);
	if (failed)
		return mq_fail(err, MQ_ETHRESHOLD, "%u of %u probes are slower than the baseline by more than %g %%",
			       failed, a.n, 100 * LIMIT);
	return MQ_OK;
}
