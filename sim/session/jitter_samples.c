/* jitter_samples.c - see session.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#include "judge/pool.h"

MQ_COMPARE(by_value, double, MQ_ORDER(*a, *b))

static void sort(struct mq_jitter_samples *d)
{
	double sum = 0;

	memcpy(d->sorted_s, d->step_s, d->n * sizeof(*d->step_s));
	qsort(d->sorted_s, d->n, sizeof(*d->sorted_s), by_value);
	for (uint32_t i = 0; i < d->n; i++)
		sum += d->sorted_s[i];
	d->mean_s = sum / d->n;
	d->p50_s = mq_jitter_quantile(d->sorted_s, d->n, .5);
	d->p90_s = mq_jitter_quantile(d->sorted_s, d->n, .9);
	d->p99_s = mq_jitter_quantile(d->sorted_s, d->n, .99);
}

enum mq_status mq_session_jitter_sample(struct mq_session *s, const struct mq_plan *plan,
					const struct mq_jitter *jitter, bool analytic, struct mq_jitter_samples *d,
					struct mq_err *err)
{
	uint32_t n = jitter->draws;
	struct mq_job *job = mq_arena_array(&s->arena, n, struct mq_job);
	const struct mq_job **jobs = mq_arena_array(&s->arena, n, const struct mq_job *);
	const struct mq_plan **plans = mq_arena_array(&s->arena, n, const struct mq_plan *);
	struct mq_result *result = mq_arena_array(&s->arena, n, struct mq_result);

	for (uint32_t i = 0; i < n; i++) {
		job[i] = *mq_session_job(s);
		job[i].jitter = *jitter;
		job[i].jitter.draw = i;
		job[i].jitter.seed = s->asked->seed;
		job[i].analytic = analytic;
		job[i].times_only = true;
		jobs[i] = &job[i];
		plans[i] = plan;
	}
	MQ_TRY(mq_pool_judge_jobs(s->pool, jobs, plans, n, result, err));
	*d = (struct mq_jitter_samples){ .n = n };
	d->step_s = mq_arena_array(&s->arena, n, double);
	d->sorted_s = mq_arena_array(&s->arena, n, double);
	for (uint32_t i = 0; i < n; i++) {
		d->step_s[i] = result[i].step_time_s;
		if (!(result[i].step_time_s > 0)) {
			d->none = true;
			d->refused = result[i];
			return MQ_OK;
		}
	}
	sort(d);
	return MQ_OK;
}

struct mq_goodput mq_session_goodput(const struct mq_session *s, const struct mq_plan *plan,
				     const struct mq_result *result, const struct mq_failures *failures)
{
	return mq_goodput(failures, mq_plan_degrees(plan).n_devices, result->step_time_s,
			  mq_checkpoint_B(s->model, &s->train, mq_software_master_B(&s->software.software, &s->train),
					  s->software.software.moment_B));
}
