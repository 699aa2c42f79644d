/* coscheduled_message.c - messages that take jobs to a worker, which lowers them, and bring the scores back. Both
 * sides are the same program on one machine. SPDX-License-Identifier: Apache-2.0 */
#include "base/message.h"
#include "judge/job.h"
#include "judge/coscheduled.h"

struct ask_head {
	uint32_t n_jobs, steps;
};
struct job_head {
	double start_s;
	size_t size;
};

void *mq_coscheduled_pack_ask(const struct mq_coscheduled_job *job, uint32_t n, uint32_t steps, struct mq_arena *arena,
			      size_t *size)
{
	struct mq_message m = { .arena = arena };
	const struct ask_head head = { n, steps };

	mq_message_put(&m, &head, sizeof(head));
	for (uint32_t j = 0; j < n; j++) {
		struct job_head one = { .start_s = job[j].start_s };
		const void *packed = mq_job_pack(job[j].job, job[j].plan, arena, &one.size);

		mq_message_put(&m, &one, sizeof(one));
		mq_message_put(&m, packed, one.size);
	}
	*size = m.n;
	return m.at;
}

static enum mq_status cut_short(struct mq_err *err)
{
	return mq_fail(err, MQ_EBUG, "jobs together: a message cut short");
}

struct lowered_job {
	struct mq_job job;
	struct mq_question q;
	struct mq_plan plan;
	double start_s;
};

static enum mq_status take_job(struct mq_message *m, const struct mq_judge *judge, struct lowered_job *j,
			       struct mq_err *err)
{
	const struct job_head *head = mq_message_take(m, sizeof(*head));
	const void *packed = head ? mq_message_take(m, head->size) : NULL;
	struct mq_job_parts parts;
	uint32_t *rank, n;

	if (!packed)
		return cut_short(err);
	j->start_s = head->start_s;
	MQ_TRY(mq_job_parts(packed, head->size, &parts, err));
	MQ_TRY(mq_job_unpack(&parts, m->arena, &j->job, err));
	MQ_TRY(mq_job_question(&j->job, m->arena, &j->q, err));
	MQ_TRY(mq_cluster_ranks(judge->q->cluster, j->job.asked.devices, m->arena, &rank, &n, err));
	struct mq_cluster *part;
	MQ_TRY(mq_cluster_part(judge->q->cluster, rank, n, m->arena, &part, err));
	j->q.cluster = part;
	j->q.calib = judge->q->calib;
	return mq_plan_unpack(parts.plan, parts.plan_size, m->arena, &j->plan, err);
}

/* Lowers one step of a job in ranks of the whole cluster. score->verdict is not OK: no step is made. */
static enum mq_status lower(const struct mq_judge *judge, const struct lowered_job *j, struct mq_arena *arena,
			    struct mq_coscheduled_step *step, struct mq_coscheduled_score *score, struct mq_err *err)
{
	const struct mq_lower_request ask = { .q = &j->q, .plan = &j->plan };
	struct mq_lowered low;

	MQ_TRY(mq_lower(&ask, arena, &low, err));
	score->verdict = low.verdict;
	memcpy(score->message, low.message, sizeof(score->message));
	if (low.verdict != MQ_VERDICT_OK)
		return MQ_OK;
	for (uint32_t d = 0; d < low.schedule->n_devices; d++)
		low.schedule->device[d] = j->q.cluster->rank[low.schedule->device[d]];
	*step = (struct mq_coscheduled_step){ low.schedule, j->start_s };
	return MQ_OK;
}

struct answer_head {
	uint32_t n_jobs, n_links;
};

static void *pack_answer(const struct mq_coscheduled *t, struct mq_arena *arena, size_t *size)
{
	struct mq_message m = { .arena = arena };
	const struct answer_head head = { t->n_jobs, t->n_links };

	mq_message_put(&m, &head, sizeof(head));
	mq_message_put(&m, t->job, t->n_jobs * sizeof(*t->job));
	mq_message_put(&m, t->link, t->n_links * sizeof(*t->link));
	mq_message_put(&m, t->link_B, (size_t)t->n_links * t->n_jobs * sizeof(*t->link_B));
	*size = m.n;
	return m.at;
}

enum mq_status mq_coscheduled_answer(const struct mq_judge *judge, const void *ask, size_t ask_size,
				     struct mq_arena *arena, void **answer, size_t *size, struct mq_err *err)
{
	struct mq_message m = { arena, (char *)(uintptr_t)ask, 0, ask_size };
	const struct ask_head *head = mq_message_take(&m, sizeof(*head));
	struct mq_exec_request request = { .cluster = judge->q->cluster,
					   .calib = judge->q->calib,
					   .timeout_s = judge->timeout_s,
					   .interference = judge->interference };
	struct mq_coscheduled t;
	bool all = true;

	if (!head || !head->n_jobs)
		return cut_short(err);
	struct mq_coscheduled_score *score = mq_arena_array(arena, head->n_jobs, struct mq_coscheduled_score);
	struct mq_coscheduled_step *step = mq_arena_array(arena, head->n_jobs, struct mq_coscheduled_step);
	struct lowered_job *job = mq_arena_array(arena, head->n_jobs, struct lowered_job);
	for (uint32_t j = 0; j < head->n_jobs; j++) {
		MQ_TRY(take_job(&m, judge, &job[j], err));
		MQ_TRY(lower(judge, &job[j], arena, &step[j], &score[j], err));
		all = all && score[j].verdict == MQ_VERDICT_OK;
	}
	if (all)
		MQ_TRY(mq_coscheduled_run(&request, judge->execute, step, head->n_jobs, head->steps, arena, &t, err));
	else
		t = (struct mq_coscheduled){ .n_jobs = head->n_jobs, .job = score };
	*answer = pack_answer(&t, arena, size);
	return MQ_OK;
}

enum mq_status mq_coscheduled_unpack(const void *answer, size_t size, struct mq_arena *arena,
				     struct mq_coscheduled *out, struct mq_err *err)
{
	struct mq_message m = { arena, (char *)(uintptr_t)answer, 0, size };
	const struct answer_head *head = mq_message_take(&m, sizeof(*head));

	if (!head)
		return cut_short(err);
	out->n_jobs = head->n_jobs;
	out->n_links = head->n_links;
	out->job = mq_message_take(&m, head->n_jobs * sizeof(*out->job));
	out->link = mq_message_take(&m, head->n_links * sizeof(*out->link));
	out->link_B = mq_message_take(&m, (size_t)head->n_links * head->n_jobs * sizeof(*out->link_B));
	return out->job && out->link && out->link_B ? MQ_OK : cut_short(err);
}
