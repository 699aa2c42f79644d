/* search.c - `maquette search`: the main job. Engines propose plans, SimGrid judges them; prints the ranking and writes
 * it to the output folder. SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <stdlib.h>

#include "session/session.h"
#include "session/search_run.h"

struct options {
	struct mq_asked asked;
	struct mq_search_options search;
	const char *dir;
	bool json;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	{ .type = MQ_ARG_GROUP, .name = "Output:" },
	ROW(TEXT, "output", dir, "DIR", "folder for candidates.csv, plan-1.json, ..., report.html, run.ini",
	    .letter = 'o'),
	ROW(FLAG, "json", json, NULL, "print the result as JSON"),
	{ .type = MQ_ARG_END },
};

static enum mq_status write_job(const struct options *o, const struct mq_session *session, double wall_s,
				struct mq_err *err)
{
	FILE *file;

	MQ_TRY(mq_job_begin(o->dir, "search", &file, err));
	mq_asked_print(session->asked, file);
	mq_args_print(mq_search_args, &o->search, 0, file);
	return mq_job_end(file, o->dir, wall_s, err);
}

/* The lines of the job file that results depend on. */
static char *question_of(const struct options *o, const struct mq_session *session)
{
	char *text;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	mq_assert(file);
	mq_asked_print(session->asked, file);
	mq_args_print(mq_search_args, &o->search, MQ_ARG_EFFORT, file);
	fclose(file);
	return text;
}

static enum mq_status run_session(const struct options *o, struct mq_session *session, bool resumes, struct mq_err *err)
{
	struct mq_search_outcome outcome;
	double begin = mq_now_s();

	if (!resumes) /* else it is kept until there is more to say */
		MQ_TRY(write_job(o, session, 0, err));
	MQ_TRY(mq_search_session(session, &o->search, o->dir, &outcome, err));
	for (uint32_t i = 0; i < outcome.n_best; i++)
		MQ_TRY(mq_plan_save(outcome.best[i].plan, session->model, session->cluster,
				    mq_arena_printf(&session->arena, "%s/plan-%u.json", o->dir, i + 1), err));
	(o->json ? mq_search_json : mq_search_print)(session, &outcome, stdout);
	if (o->search.proof) {
		mq_proof_print(&outcome, o->json ? stderr : stdout);
		MQ_TRY(mq_proof_write(&outcome, o->dir, err));
		MQ_TRY(mq_proof_check(&outcome, err));
	}
	MQ_TRY(write_job(o, session, mq_now_s() - begin, err));
	MQ_TRY(mq_search_page(session, &outcome, o->dir, err));
	if (outcome.crashed)
		return mq_fail(err, MQ_ETIME,
			       "%llu of %llu plans have no result: their simulator died twice (verdict crash in "
			       "%s/candidates.csv); run again with fewer -j, they are tried anew",
			       (unsigned long long)outcome.crashed, (unsigned long long)outcome.proposals, o->dir);
	if (!outcome.n_best)
		return mq_fail(err, MQ_ENOPLAN, "no feasible plan among %llu tried",
			       (unsigned long long)outcome.proposals);
	return MQ_OK;
}

static enum mq_status claim_and_run(const struct options *o, struct mq_session *session, struct mq_err *err)
{
	struct mq_claim claim;

	MQ_TRY(mq_make_dir(o->dir, err));
	char *question = question_of(o, session);
	enum mq_status status = mq_job_claim(o->dir, "search", question, &claim, err);
	free(question);
	MQ_TRY(status);
	mq_job_stops(MQ_JOB_RESUMES);
	if (session->n_ranks > 1)
		status = mq_ranks_open(session, o->dir, &session->arena, &session->ranks, err);
	if (status == MQ_OK)
		status = run_session(o, session, claim.resumes, err);
	mq_ranks_close(session->ranks);
	mq_job_release(&claim);
	return status;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct options o = { .dir = NULL };
	struct mq_session session;
	const struct mq_args args = {
		.table = { { mq_question_args, &o.asked }, { mq_search_args, &o.search }, { rows, &o } },
		.doc = "Searches for the plan with the least step time: engines propose, the simulator judges. "
		       "Stopped at any moment, the same command continues where it was. Under mpirun or Slurm the "
		       "first rank searches and all of them simulate.",
	};

	mq_asked_init(&o.asked);
	mq_args_defaults(mq_search_args, &o.search);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	mq_search_options_settle(&o.search);
	if (!o.dir)
		return mq_bad(err, "-o is missing: give a folder for the results");
	mq_asked_limit_simulation(&o.asked);
	MQ_TRY(mq_session_open(&session, &o.asked, NULL, err));
	/* Under mpirun the first rank searches; the others simulate for it and print nothing. */
	const char *rank = mq_rank_of_many(&session.n_ranks);
	bool others = rank && session.n_ranks > 1 && strcmp(rank, "0") != 0;
	if (!others)
		mq_session_note(&session, stderr);
	enum mq_status status = others ? mq_ranks_serve(&session, o.dir, err) : claim_and_run(&o, &session, err);
	mq_session_close(&session);
	mq_job_end_stopped();
	return status;
}

MQ_DEFINE_COMMAND(search, "search for the best plan (the main job)");
