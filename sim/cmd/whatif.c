/* whatif.c - `maquette whatif`: searches the points of a study in parallel, one row each.
 *
 * DIR/points/HASH holds the finished row of a point, written atomically; HASH is that of its question, so a changed
 * study reuses the points that are still valid and no others. A process claims a point by locking one byte of
 * DIR/claims: locks vanish with their process, so another worker redoes a lost worker's point, and none is done twice.
 * Worker processes are this program again; under mpirun or Slurm every rank is one (without a coordinator or MPI calls:
 * a waiting MPI call spins a core). The process that finds all rows finished writes whatif.csv in the order of points,
 * so its bytes do not depend on how the work was distributed or interrupted. HASH.json is the point's best plan. A
 * point whose row records the death of a simulator is redone by the next run. SPDX-License-Identifier: Apache-2.0 */
#include "session/pages/page.h"
#include "cmd/cmd.h"
#include "session/session.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "study/study.h"
#include "maquette/spawn.h"
#include "trust/trust.h"

struct options {
	const char *study, *dir;
	uint32_t jobs;
	bool json, dry_run, worker, allow_exec;
};

struct whatif {
	struct mq_arena arena;
	struct mq_study study;
	const struct options *o;
	const char *points, *table; /* a folder; whatif.csv */
	int claims;                 /* file descriptor */
	char **row_path;            /* [n_points] */
	bool *done;                 /* [n_points] row seen on disk */
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg rows[] = {
	ROW(TEXT, "STUDY.ini", study, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "output", dir, "DIR", "folder for whatif.csv and the rows of finished points", .letter = 'o'),
	ROW(INT, "jobs", jobs, "N", "points searched at a time (default: the processors)", .letter = 'j', .min = 1,
	    .max = 4096),
	ROW(FLAG, "json", json, NULL, "print the rows as JSON; text goes to standard error"),
	ROW(FLAG, "dry-run", dry_run, NULL, "print the points and an estimate of the time"),
	ROW(FLAG, "allow-exec", allow_exec, NULL, "allow a study to run programs (engine = exec:PROGRAM)"),
	ROW(FLAG, "worker", worker, NULL, "one of several processes of a study", .flags = MQ_ARG_HIDDEN),
	{ .type = MQ_ARG_END },
};

static const char doc[] =
	"Answers a what-if study: the cross product of its lists and ranges, one search and one row per point. Stopped "
	"at any moment, the same command continues where it was.\vKeys of the file: the long options of `maquette "
	"search`, platform.KEY (options of `maquette platform generate`), hardware changes (link.CLASS.bw, "
	"device.TYPE.flops, rank.N.clock, ...), plan = FILE (judge it, search nothing), scaling = strong|weak with "
	"efficiency = SHARE, epoch = SAMPLES or TOKENS tokens with epoch.days and epoch.usd (limits, for the fewest "
	"devices within them), failures.mtbf_h = HOURS of one device with failures.restart_s, .checkpoint_GBps, "
	".blocking, .interval_s (goodput), jitter.device, .kernel, .stragglers, .slowdown, .draws (quantiles of the "
	"step), sensitivity = STEP, breakeven.target = link.network.bw with breakeven.plan_a and .plan_b, "
	"job.NAME.devices = 0-31 with job.NAME.model, .batch, .engine, .plan, .begin, ... (several jobs at once). "
	"Under mpirun or Slurm the ranks share the points through the output folder.";

/* ---- rows on disk ------------------------------------------------------------------------------------------ */

/* Locks a point, or the tables (MQ_MAX_POINTS); wait: until it is free. */
static bool lock(const struct whatif *w, uint32_t point, short type, bool wait)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = point, .l_len = 1 };
	int failed;

	do
		failed = fcntl(w->claims, wait ? F_SETLKW : F_SETLK, &l);
	while (failed && wait && errno == EINTR);
	return !failed;
}

static bool finished(struct whatif *w, uint32_t point)
{
	if (!w->done[point])
		w->done[point] = !access(w->row_path[point], R_OK);
	return w->done[point];
}

/* Does the row record the death of a simulator? */
static bool crashed(const char *path)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_err absent = MQ_ERR_INIT;
	char *text;
	size_t size;

	return mq_text_read(path, 64, &scratch, &text, &size, &absent) == MQ_OK && size > 1 &&
	       !strcmp(text + size - 2, "\n" MQ_STUDY_CRASHED);
}

static enum mq_status count_crashes(const struct whatif *w, struct mq_err *err)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->study.n_points; i++)
		n += crashed(w->row_path[i]);
	if (!n)
		return MQ_OK;
	return mq_fail(err, MQ_ETIME,
		       "%u of %u points lack plans: their simulator died twice; run again with "
		       "fewer -j, they are done anew",
		       n, w->study.n_points);
}

enum { N_TABLES = 5 };
struct table {
	const char *name, *header;
	char letter; /* the first letter of the table's lines in a point's file; '\0': the table is the first line */
	bool asked;
};

/* Copies the lines of one point for a table, with the point as first cell, since files of points do not know their
 * place in the study. False: no row. */
static bool copy_lines(const struct table *t, const char *path, uint32_t point, FILE *out)
{
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(path, "r");

	for (uint32_t n = 0; f && getline(&line, &room, f) > 0; n++) {
		bool first = n == 0;

		line[strcspn(line, "\n")] = '\0';
		if (t->letter ? !first && *line == t->letter : first)
			fprintf(out, "%u%s\n", point, t->letter ? line + 1 : line);
	}
	free(line);
	return f && !fclose(f);
}

static enum mq_status assemble_table(struct whatif *w, const struct table *t, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *out = mq_words_open(&memory);
	bool whole = true;

	fprintf(out, "%s\n", t->header);
	for (uint32_t p = 0; p < w->study.n_points && whole; p++)
		whole = !finished(w, p) || copy_lines(t, w->row_path[p], p, out);
	fclose(out);
	return whole ? mq_text_write(mq_arena_printf(&w->arena, "%s/%s", w->o->dir, t->name), memory.text, memory.size,
				     err) :
		       mq_fail(err, MQ_ETIME, "%s: a row is gone: another process removes it; run again", w->points);
}

/* Writes the tables from the files of finished points. */
static enum mq_status assemble(struct whatif *w, struct mq_err *err)
{
	const struct table table[N_TABLES] = {
		{ "whatif.csv", mq_study_header(&w->study, &w->arena), '\0', true },
		{ "sensitivity.csv", mq_table[MQ_TABLE_sensitivity].header, 'S', w->study.sensitivity > 0 },
		{ "breakeven.csv", mq_table[MQ_TABLE_breakeven].header, 'B', w->study.breakeven_target != NULL },
		{ "jobs.csv", mq_table[MQ_TABLE_jobs].header, 'J', w->study.n_jobs > 0 },
		{ "job_links.csv", mq_table[MQ_TABLE_job_links].header, 'L', w->study.n_jobs > 0 },
	};

	for (int i = 0; i < N_TABLES; i++)
		if (table[i].asked)
			MQ_TRY(assemble_table(w, &table[i], err));
	return MQ_OK;
}

/* The job file beside the tables: `plot` reads it. */
static enum mq_status keep_study(struct whatif *w, struct mq_err *err)
{
	char *text;
	size_t size;

	MQ_TRY(mq_text_read(w->o->study, 64, &w->arena, &text, &size, err));
	if (!size)
		return mq_bad(err, "%s: %s", w->o->study,
			      w->study.n_axes ? "cannot read the study again; give a file, not a pipe" :
						"the study is empty; write lines KEY = VALUE (results/guides/keys.md)");
	return mq_text_write(mq_arena_printf(&w->arena, "%s/study.ini", w->o->dir), text, size, err);
}

/* Answers in words: printed, and written beside the tables. */
static enum mq_status answer(struct whatif *w, struct mq_err *err)
{
	MQ_FREED struct mq_words memory = { NULL, 0 };
	FILE *words = mq_words_open(&memory);
	enum mq_status status = mq_study_answers(&w->study, w->o->dir, words, err);

	fclose(words);
	MQ_TRY(status);
	MQ_TRY(mq_text_write(mq_arena_printf(&w->arena, "%s/answers.txt", w->o->dir), memory.text, memory.size, err));
	fputs(memory.text, stdout);
	return MQ_OK;
}

/* Figures and report; without gnuplot the report notes that it has no figures. */
static enum mq_status report(struct whatif *w, struct mq_err *err)
{
	struct mq_err why = MQ_ERR_INIT;
	struct mq_point point;
	struct mq_csv csv;
	uint32_t n;
	enum mq_status drawn = mq_study_figures(&w->study, w->o->dir, w->o->dir, &n, &why);

	if (drawn == MQ_ENODEV)
		fprintf(stderr, "no figures: %s\n", why.text);
	else if (drawn != MQ_OK)
		return mq_fail(err, drawn, "%s", why.text);
	MQ_TRY(mq_csv_load(w->table, &w->arena, &csv, err));
	uint32_t best = mq_study_fastest(&csv);
	for (uint32_t r = 0; best == MQ_NONE && w->study.n_jobs && r < csv.n_rows; r++)
		if (!strcmp(mq_csv_word(&csv, r, "verdict"), "ok"))
			best = r;
	if (best == MQ_NONE) {
		MQ_TRY(mq_study_report(&w->study, w->o->dir, NULL, NULL, err));
		printf("%s/report.html\n", w->o->dir);
		return MQ_OK;
	}
	MQ_TRY(mq_study_point(&w->study, best, &w->arena, &point, err));
	MQ_TRY(mq_study_report(&w->study, w->o->dir, &point, mq_arena_printf(&w->arena, "%s.json", w->row_path[best]),
			       err));
	printf("%s/report.html\n", w->o->dir);
	return MQ_OK;
}

/* ---- points -------------------------------------------------------------------------------------------------- */

static enum mq_status prepare(struct whatif *w, struct mq_err *err)
{
	uint32_t n;

	MQ_TRY(mq_study_load(w->o->study, w->o->allow_exec, &w->arena, &w->study, err));
	MQ_TRY(mq_study_bind(&w->study, err));
	n = w->study.n_points;
	w->points = mq_arena_printf(&w->arena, "%s/points", w->o->dir);
	w->table = mq_arena_printf(&w->arena, "%s/whatif.csv", w->o->dir);
	MQ_TRY(mq_make_dir(w->points, err));
	const char *claims = mq_arena_printf(&w->arena, "%s/claims", w->o->dir);
	w->claims = open(claims, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (w->claims < 0)
		return mq_bad(err, "%s: cannot write: %s", claims, strerror(errno));
	w->row_path = mq_arena_array(&w->arena, n, char *);
	w->done = mq_arena_array(&w->arena, n, bool);
	return MQ_OK;
}

/* Reads every point's question, so that errors in keys and values show before the search. */
static enum mq_status list_points(struct whatif *w, struct mq_err *err)
{
	for (uint32_t i = 0; i < w->study.n_points; i++) {
		struct mq_arena scratch = MQ_ARENA_INIT;
		struct mq_point point;
		enum mq_status status = mq_study_point(&w->study, i, &scratch, &point, err);

		if (status == MQ_OK)
			w->row_path[i] =
				mq_arena_printf(&w->arena, "%s/%016llx", w->points, (unsigned long long)point.hash);
		mq_arena_fini(&scratch);
		if (status != MQ_OK)
			return mq_wrap(err, "%s: point %u", w->o->study, i);
	}
	return MQ_OK;
}

static enum mq_status do_point(struct whatif *w, uint32_t index, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct mq_point point;
	const char *row = NULL;
	enum mq_status status = mq_study_point(&w->study, index, &scratch, &point, err);

	if (status == MQ_OK)
		status = mq_study_run(&w->study, &point, mq_arena_printf(&scratch, "%s.json", w->row_path[index]),
				      &scratch, &row, err);
	if (mq_job_stopped()) /* amid the search: no row */
		return MQ_OK;
	if (status == MQ_OK) /* without the first cell, the point's place in the study */
		status = mq_text_write(w->row_path[index], strchr(row, ','), strlen(strchr(row, ',')), err);
	return status;
}

/* Claims and searches points until all are finished, here or elsewhere, or the job is stopped. */
static enum mq_status work(struct whatif *w, struct mq_err *err)
{
	for (;;) {
		uint32_t n_done = 0, did = 0;

		for (uint32_t i = 0; i < w->study.n_points; i++) {
			bool there = finished(w, i);

			if (!there && !mq_job_stopped() && lock(w, i, F_WRLCK, false)) {
				there = finished(w, i);
				enum mq_status status = there ? MQ_OK : do_point(w, i, err);

				lock(w, i, F_UNLCK, false);
				MQ_TRY(status);
				did += !there;
			}
			n_done += finished(w, i);
			if (isatty(2) && !w->o->worker)
				fprintf(stderr, "\r%u of %u points", n_done, w->study.n_points);
		}
		if (n_done == w->study.n_points || mq_job_stopped())
			return MQ_OK;
		if (!did) /* others have claimed the rest: wait until they finish or end */
			usleep(50000);
	}
}

/* ---- processes ------------------------------------------------------------------------------------------------ */

static uint32_t start_workers(struct whatif *w, pid_t *pid)
{
	struct mq_argv argv = { .arena = &w->arena };
	uint32_t n = 0;

	mq_argv_add(&argv, "maquette");
	mq_argv_add(&argv, "whatif");
	mq_argv_add(&argv, "%s", w->o->study);
	mq_argv_add(&argv, "--output=%s", w->o->dir);
	mq_argv_add(&argv, "--jobs=1");
	mq_argv_add(&argv, "--worker");
	if (w->o->allow_exec)
		mq_argv_add(&argv, "--allow-exec");
	const struct mq_spawn self = { .path = "/proc/self/exe", .argv = mq_argv_end(&argv), .on_death = SIGKILL };
	for (uint32_t i = 1; i < w->o->jobs; i++)
		n += !mq_spawn(&self, &pid[n]);
	return n;
}

/* Results of another study are not overwritten. A study that was changed shares points with what is there. */
static enum mq_status check_folder(struct whatif *w, struct mq_err *err)
{
	const char *kept = mq_arena_printf(&w->arena, "%s/study.ini", w->o->dir);
	char *here, *there;
	size_t n, m;

	if (access(kept, F_OK))
		return MQ_OK;
	for (uint32_t i = 0; i < w->study.n_points; i++)
		if (!access(w->row_path[i], F_OK))
			return MQ_OK;
	MQ_TRY(mq_text_read(w->o->study, 64, &w->arena, &here, &n, err));
	MQ_TRY(mq_text_read(kept, 64, &w->arena, &there, &m, err));
	if (n == m && !memcmp(here, there, n))
		return MQ_OK;
	return mq_bad(err,
		      "%s: the folder has the results of another study, which shares no point with this one; choose "
		      "another -o, or remove it",
		      kept);
}

static enum mq_status run_study(struct whatif *w, struct mq_err *err)
{
	pid_t *pid = mq_arena_array(&w->arena, w->o->jobs, pid_t);
	uint32_t n = 0, n_done = 0;

	MQ_TRY(list_points(w, err));
	if (!w->o->worker)
		MQ_TRY(check_folder(w, err));
	/* What a simulator died of in an earlier run is no answer. */
	for (uint32_t i = 0; i < w->study.n_points && !w->o->worker; i++)
		if (crashed(w->row_path[i]) && lock(w, i, F_WRLCK, false)) {
			unlink(w->row_path[i]);
			lock(w, i, F_UNLCK, false);
		}
	if (!w->o->worker && w->study.n_points > 1)
		n = start_workers(w, pid);
	mq_job_stops(w->o->worker ? NULL : MQ_JOB_RESUMES);
	enum mq_status status = work(w, err);
	for (uint32_t i = 0; i < n; i++) {
		if (mq_job_stopped())
			kill(pid[i], SIGTERM);
		mq_wait(pid[i]);
	}
	if (isatty(2) && !w->o->worker)
		fputc('\n', stderr);
	MQ_TRY(status);
	if (w->o->worker)
		return MQ_OK;
	lock(w, MQ_MAX_POINTS, F_WRLCK, true); /* to the end, since answers and report are read from them */
	MQ_TRY(assemble(w, err));
	MQ_TRY(keep_study(w, err));
	for (uint32_t i = 0; i < w->study.n_points; i++)
		n_done += w->done[i];
	printf(n_done < w->study.n_points ? "%s: %u of %u points\n" : "%s: %u points\n", w->table, n_done,
	       w->study.n_points);
	if (n_done < w->study.n_points)
		return MQ_OK;
	MQ_TRY(answer(w, err));
	MQ_TRY(report(w, err));
	return count_crashes(w, err);
}

/* Seconds that a search of this point with so many evaluations takes. */
static enum mq_status time_search(struct whatif *w, struct mq_point point, double evals, double *seconds,
				  struct mq_err *err)
{
	double begin = mq_now_s();
	const char *row;

	point.search.evals = (uint64_t)evals;
	MQ_TRY(mq_study_run(&w->study, &point, NULL, &w->arena, &row, err));
	*seconds = mq_now_s() - begin;
	return MQ_OK;
}

enum { MOST_OPENED = 1000 };

/* Estimates the time of the study: opens every point, searches the first valid one with few plans, and extrapolates. */
static enum mq_status dry_run(struct whatif *w, struct mq_err *err)
{
	struct mq_csv_writer csv = { .file = stdout, .path = "-" };
	struct mq_point point, first = { 0 };
	uint32_t n_refused = 0, n = w->study.n_points;
	double few, more;
	char text[32];

	MQ_TRY(list_points(w, err));
	mq_study_put_head(&csv, &w->study, NULL);
	mq_csv_row(&csv, "%s", "refused");
	for (uint32_t i = 0; i < n; i++) {
		MQ_TRY(mq_study_point(&w->study, i, &w->arena, &point, err));
		const char *why = i < MOST_OPENED ? mq_study_refused(&w->study, &point, &w->arena) : NULL;

		mq_study_put_head(&csv, &w->study, &point);
		mq_csv_put_text(&csv, why ? why : "");
		mq_csv_end(&csv);
		n_refused += why != NULL;
		if (!why && !first.value)
			first = point;
	}
	fflush(stdout);
	if (n_refused)
		fprintf(stderr, "%u of %u points are refused: the last column says why\n", n_refused, n);
	if (n > MOST_OPENED)
		fprintf(stderr, "whether the points after the first %u are refused was not looked at\n", MOST_OPENED);
	if (!first.value)
		return MQ_OK;
	double evals = (double)first.search.evals, some = fmin(evals, 4), many = fmin(evals, 12);
	MQ_TRY(time_search(w, first, some, &few, err));
	MQ_TRY(time_search(w, first, many, &more, err));
	double all = few + fmax(more - few, 0) / fmax(many - some, 1) * (evals - some);
	all = fmin(all, first.search.seconds);
	fprintf(stderr, "%u points; about %s with %u at a time, if all are like the first\n", n - n_refused,
		mq_text_s(all * (n - n_refused) / w->o->jobs, text), w->o->jobs);
	return MQ_OK;
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct options o = { .jobs = cpus > 0 ? (uint32_t)cpus : 1 };
	struct whatif w = { .o = &o, .claims = -1 };
	const struct mq_args args = { .table = { { rows, &o } }, .args_doc = "STUDY.ini", .doc = doc };

	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!o.study)
		return mq_bad(err, "give a study: maquette whatif STUDY.ini -o DIR");
	if (!o.dir)
		return mq_bad(err, "-o is missing: give a folder for the results");
	/* A rank of several only does its share; the first writes and prints. */
	uint32_t many;
	const char *rank = mq_rank_of_many(&many);
	if (rank) {
		o.jobs = 1;
		o.worker |= strcmp(rank, "0") != 0;
	}
	if (rank && o.worker && o.dry_run)
		return MQ_OK;
	static const struct mq_shown_table shown[] = {
		{ "whatif.csv", "Points", NULL },
		{ "sensitivity.csv", "Sensitivity", NULL },
		{ "scaling.csv", "Scaling", NULL },
		{ "pareto.csv", "Time against cost", NULL },
		{ NULL, NULL, NULL },
	};
	int saved = mq_json_begin(o.json && !o.worker);
	enum mq_status status = prepare(&w, err);
	if (status == MQ_OK && !o.worker && !mq_trust_path(&w.arena))
		fputs(mq_trust_missing, stderr);
	if (status == MQ_OK)
		status = o.dry_run ? dry_run(&w, err) : run_study(&w, err);
	if (w.claims >= 0)
		close(w.claims);
	mq_json_done(saved, o.dir, shown);
	mq_arena_fini(&w.arena);
	mq_job_end_stopped();
	return status;
}

MQ_DEFINE_COMMAND(whatif, "a what-if study: one row per point");
