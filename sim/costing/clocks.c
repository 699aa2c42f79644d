/* clocks.c - see costing.h.
 *
 * The passes of a micro-batch take about as long as the window over which a board averages its power, so one clock fits
 * the whole step except the ends of a pipeline, where a device waits for longer. The optimizer draws less and leaves
 * power to the passes within that window: nine plans replayed on a H100 (results/validate_h100/settled.csv) are 2.1 %
 * off with it and 3.3 % with the passes alone. A folded rank has the tasks of its representative and so its clock.
 *
 * Boards of one type differ, and a job waits for its slowest. The slowest board's distance from the mean grows with
 * their number as the expected maximum of normal deviates (Blom 1958), cut at three sigma: who runs a cluster replaces
 * boards beyond. Boards vary by 8 % in clusters of hundreds as in one of 27,648 (Sinha et al. 2022, Not All GPUs Are
 * Created Equal); without the cut, predictions of published runs get slower the more GPUs they have.
 *
 * Not modelled: collectives that the passes wait for, neither their idle time nor their power.
 * SPDX-License-Identifier: Apache-2.0 */
#include "costing/costing.h"

#include <math.h>
#include <string.h>

#define FLEET  8  /* number of devices of mq_link_calib.fleet */
#define SORTED 3. /* sigma */

struct clocks {
	const struct mq_low *low;
	struct mq_draw *of_work; /* [works of the schedule], of the device type asked for last; known where set */
	bool *known;
	uint32_t type;
	struct mq_draw *passes, *after; /* [schedule devices] of the passes of a step, of what follows them */
};

static const struct mq_draw *draw_of(struct clocks *c, uint32_t work, uint32_t device)
{
	const struct mq_schedule *s = c->low->prog.schedule;
	uint32_t type = c->low->q.cluster->device[s->device[device]].calib;

	if (type != c->type)
		memset(c->known, 0, s->n_works * sizeof(*c->known));
	c->type = type;
	if (!c->known[work]) {
		c->of_work[work] = (struct mq_draw){ 0 };
		mq_power_add(&c->low->q.calib->device[type], &s->work[work], 1, &c->of_work[work]);
		c->known[work] = true;
	}
	return &c->of_work[work];
}

static void add_template(struct clocks *c, const struct mq_template *t, double times, struct mq_draw *drawn)
{
	for (uint32_t i = 0; i < t->n_tasks && times > 0; i++) {
		const struct mq_task *task = &t->task[i].task;

		if (task->kind == MQ_TASK_COMPUTE)
			mq_draw_add(&drawn[task->device], draw_of(c, task->work, task->device), times);
	}
}

/* Expected maximum of n standard normal deviates, at most SORTED; the quantile by Abramowitz and Stegun 26.2.23. */
static double largest_of(double n)
{
	double beyond = .5 * erfc(SORTED / sqrt(2)), tail = beyond + (1 - 2 * beyond) * .625 / (n + .25);
	double t = sqrt(-2 * log(tail));

	return n < 2 ? 0 :
		       t - (2.515517 + t * (.802853 + t * .010328)) /
				       (1 + t * (1.432788 + t * (.189269 + t * .001308)));
}

double mq_clocks_of(const struct mq_question *q, uint32_t device, uint32_t n_devices, const struct mq_draw *draw)
{
	const struct mq_device *at = &q->cluster->device[device];
	const struct mq_device_calib *d = &q->calib->device[at->calib];
	const struct mq_link_calib *link =
		mq_calib_link_for(q->calib, d->nvlink_Bps > 0 ? "nvlink" : "pcie", d->compute_capability);
	double lost = d->kind == MQ_GPU && link ? 1 - link->fleet : 0;

	return mq_power_clock(d, at->power_W, draw) * (1 - fmin(lost * largest_of(n_devices) / largest_of(FLEET), .5));
}

void mq_clocks_apply(struct mq_low *low)
{
	struct mq_schedule *s = low->prog.schedule;
	struct mq_arena_mark mark = mq_arena_mark(&low->scratch);
	double n = low->plan->micro_batches; /* how often a micro-batch's passes run in a step */
	double times[MQ_N_PASSES] = {
		[MQ_PASS_F] = n, [MQ_PASS_B_LAST] = 1, [MQ_PASS_W] = n - 1, [MQ_PASS_W_LAST] = 1
	};
	struct clocks c = { .low = low,
			    .of_work = mq_arena_array(&low->scratch, s->n_works + 1, struct mq_draw),
			    .known = mq_arena_array(&low->scratch, s->n_works + 1, bool),
			    .type = MQ_NONE,
			    .passes = mq_arena_array(&low->scratch, s->n_devices, struct mq_draw),
			    .after = mq_arena_array(&low->scratch, s->n_devices, struct mq_draw) };

	for (uint32_t i = 0; i < low->num.n_stages * MQ_N_PASSES; i++) {
		times[MQ_PASS_B_FIRST] = fmin(low->prog.firsts[i / MQ_N_PASSES], n - 1);
		times[MQ_PASS_B] = n - 1 - times[MQ_PASS_B_FIRST];
		times[MQ_PASS_REDUCE] = low->prog.firsts[i / MQ_N_PASSES] > 0;
		const struct mq_template *t = &low->prog.pass[mq_low_template(low, i / MQ_N_PASSES, i % MQ_N_PASSES)];

		add_template(&c, t, times[i % MQ_N_PASSES], c.passes);
		add_template(&c, t, i % MQ_N_PASSES == MQ_PASS_POST, c.after);
	}
	s->clock = mq_arena_array(low->arena, s->n_devices, double);
	for (uint32_t d = 0; d < s->n_devices; d++) {
		const struct mq_device *at = &low->q.cluster->device[s->device[d]];
		double mean_s = low->q.calib->device[at->calib].power_s;
		double after_s = c.after[d].clocked_s + c.after[d].other_s + c.after[d].wait_s;

		if (after_s > 0)
			mq_draw_add(&c.passes[d], &c.after[d], fmin(1, mean_s / after_s));
		s->clock[d] = mq_clocks_of(&low->q, s->device[d], low->out->n_devices, &c.passes[d]);
	}
	mq_arena_rewind(&low->scratch, mark);
}
