/* mip.c - see mip.h. Files live in a temporary folder under $TMPDIR, removed afterwards.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lib/mip.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "maquette/spawn.h"
#include "maquette/types.h"

uint32_t mq_mip_column(struct mq_mip *m, double cost, double lower, double upper, bool integer)
{
	struct mq_mip_column column = { cost, lower, upper, integer };

	MQ_PUSH(m->arena, m->column, m->n_columns, m->column_room, column);
	return m->n_columns - 1;
}

uint32_t mq_mip_row(struct mq_mip *m, char sense, double rhs)
{
	struct mq_mip_row row = { sense, rhs };

	MQ_PUSH(m->arena, m->row, m->n_rows, m->row_room, row);
	return m->n_rows - 1;
}

void mq_mip_add(struct mq_mip *m, uint32_t row, uint32_t column, double value)
{
	struct mq_mip_entry entry = { row, column, value };

	if (value != 0)
		MQ_PUSH(m->arena, m->entry, m->n_entries, m->entry_room, entry);
}

uint32_t mq_mip_row_of(struct mq_mip *m, char sense, double rhs, size_t n, const struct mq_mip_term *term)
{
	uint32_t row = mq_mip_row(m, sense, rhs);

	for (size_t i = 0; i < n; i++)
		mq_mip_add(m, row, term[i].column, term[i].value);
	return row;
}

/* ---- files -------------------------------------------------------------------------------------- */

enum file { PROBLEM, START, SOLUTION, LOG, N_FILES };

struct job {
	char *dir;
	const char *file[N_FILES];
};

static enum mq_status make_job(struct job *job, struct mq_arena *arena, struct mq_err *err)
{
	static const char *const name[] = { "problem.mps", "start.txt", "solution.txt", "log.txt" };
	const char *tmp = getenv("TMPDIR");

	job->dir = mq_arena_printf(arena, "%s/maquette-ip-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(job->dir))
		return mq_bad(err,
			      "%s: cannot make a folder for the integer program: set TMPDIR to one that can be written",
			      job->dir);
	for (int i = 0; i < N_FILES; i++)
		job->file[i] = mq_arena_printf(arena, "%s/%s", job->dir, name[i]);
	return MQ_OK;
}

static void remove_job(const struct job *job)
{
	for (int i = 0; i < N_FILES; i++)
		remove(job->file[i]);
	remove(job->dir);
}

static void write_columns(const struct mq_mip *m, FILE *f, struct mq_arena *arena)
{
	uint32_t *first = mq_arena_none(arena, m->n_columns);
	uint32_t *next = mq_arena_array(arena, m->n_entries, uint32_t);
	bool marked = false;

	for (uint32_t e = m->n_entries; e-- > 0;) {
		next[e] = first[m->entry[e].column];
		first[m->entry[e].column] = e;
	}
	fputs("COLUMNS\n", f);
	for (uint32_t c = 0; c < m->n_columns; c++) {
		if (m->column[c].integer != marked) {
			marked = !marked;
			fprintf(f, "    M%u 'MARKER' '%s'\n", c, marked ? "INTORG" : "INTEND");
		}
		if (m->column[c].cost != 0 || first[c] == MQ_NONE)
			fprintf(f, "    C%u COST %.17g\n", c, m->column[c].cost);
		for (uint32_t e = first[c]; e != MQ_NONE; e = next[e]) {
			double value = m->entry[e].value;

			/* Terms of a row are added together, so repeated ones are adjacent. */
			while (next[e] != MQ_NONE && m->entry[next[e]].row == m->entry[e].row) {
				e = next[e];
				value += m->entry[e].value;
			}
			if (value != 0)
				fprintf(f, "    C%u R%u %.17g\n", c, m->entry[e].row, value);
		}
	}
	if (marked)
		fprintf(f, "    M%u 'MARKER' 'INTEND'\n", m->n_columns);
}

static enum mq_status write_problem(const struct mq_mip *m, const char *path, struct mq_arena *arena,
				    struct mq_err *err)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return mq_bad(err, "%s: cannot be written", path);
	fputs("NAME maquette\nROWS\n N COST\n", f);
	for (uint32_t r = 0; r < m->n_rows; r++)
		fprintf(f, " %c R%u\n", m->row[r].sense, r);
	write_columns(m, f, arena);
	fputs("RHS\n", f);
	for (uint32_t r = 0; r < m->n_rows; r++)
		if (m->row[r].rhs != 0)
			fprintf(f, "    RHS R%u %.17g\n", r, m->row[r].rhs);
	fputs("BOUNDS\n", f);
	for (uint32_t c = 0; c < m->n_columns; c++) {
		const struct mq_mip_column *column = &m->column[c];

		if (column->lower == column->upper) {
			fprintf(f, " FX BND C%u %.17g\n", c, column->lower);
			continue;
		}
		if (column->lower != 0)
			fprintf(f, " LO BND C%u %.17g\n", c, column->lower);
		if (isfinite(column->upper))
			fprintf(f, " UP BND C%u %.17g\n", c, column->upper);
	}
	fputs("ENDATA\n", f);
	if (fclose(f) != 0)
		return mq_bad(err, "%s: cannot be written (disk full?)", path);
	return MQ_OK;
}

/* The format of cbc's own solution files: index, name, value, reduced cost. */
static enum mq_status write_start(const struct mq_mip *m, const double *start, const char *path, struct mq_err *err)
{
	FILE *f = fopen(path, "w");

	if (!f)
		return mq_bad(err, "%s: cannot be written", path);
	fputs("Start - objective value 0\n", f);
	for (uint32_t c = 0; c < m->n_columns; c++)
		if (m->column[c].integer)
			fprintf(f, "%u C%u %.17g 0\n", c, c, start[c]);
	if (fclose(f) != 0)
		return mq_bad(err, "%s: cannot be written (disk full?)", path);
	return MQ_OK;
}

/* ---- running cbc -------------------------------------------------------------------------------- */

static enum mq_status spawn_cbc(const struct mq_mip_options *o, const struct job *job, pid_t *pid, struct mq_err *err)
{
	char seconds[32], gap[32];
	const char *argv[24] = { "cbc", job->file[PROBLEM] };
	uint32_t n = 2;
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int log = open(job->file[LOG], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	snprintf(seconds, sizeof(seconds), "%.3f", o->seconds);
	snprintf(gap, sizeof(gap), "%.9g", o->gap);
	if (isfinite(o->seconds)) {
		argv[n++] = "-timeMode";
		argv[n++] = "elapsed";
		argv[n++] = "-seconds";
		argv[n++] = seconds;
	}
	argv[n++] = "-ratioGap";
	argv[n++] = gap;
	argv[n++] = "-allowableGap";
	argv[n++] = "0";
	if (o->start) {
		/* With a start solution, cbc 2.10's preprocessing may cut off the optimum (observed). */
		argv[n++] = "-preprocess";
		argv[n++] = "off";
		argv[n++] = "-mipstart";
		argv[n++] = job->file[START];
	}
	argv[n++] = "-solve";
	argv[n++] = "-solution";
	argv[n++] = job->file[SOLUTION];
	argv[n] = NULL;
	char *args[24];

	for (uint32_t i = 0; i <= n; i++) /* exec's type lacks const; the strings are not changed */
		memcpy(&args[i], &argv[i], sizeof(args[i]));
	const struct mq_spawn cbc = { .path = "cbc",
				      .argv = args,
				      .on_death = SIGKILL,
				      .n_fds = 3,
				      .fd = { { nothing, 0 }, { log, 1 }, { log, 2 } } };
	int failed = nothing < 0 || log < 0 ? errno : mq_spawn(&cbc, pid);

	if (nothing >= 0)
		close(nothing);
	if (log >= 0)
		close(log);
	if (failed)
		return mq_fail(err, MQ_ENODEV, "program 'cbc' cannot be run (%s): install the package coinor-cbc",
			       strerror(failed));
	return MQ_OK;
}

/* Waits, polling tick; true if cbc ended by itself with status 0. The LP at the root ignores cbc's time limit: at 1.5
 * times the limit plus 5 s, cbc is killed. */
static bool wait_cbc(const struct mq_mip_options *o, pid_t pid, bool *stopped)
{
	double most_s = 1.5 * o->seconds + 5, waited_s = 0;
	int status = 0;

	*stopped = false;
	for (uint32_t round = 0;; round++) {
		/* Short problems end in milliseconds, long ones are polled every 50 ms. */
		struct timespec nap = { 0, round < 100 ? 500000 : 50000000 };
		pid_t done = waitpid(pid, &status, WNOHANG);

		if (done == pid)
			break;
		if (done < 0 && errno != EINTR)
			return false;
		bool late = waited_s > most_s;

		if (!*stopped && round >= 100 &&
		    (late || (o->tick && !o->tick(o->tick_context, (double)NAN, "integer program")))) {
			kill(pid, late ? SIGKILL : SIGTERM);
			*stopped = true;
		}
		nanosleep(&nap, NULL);
		waited_s += (double)nap.tv_sec + 1e-9 * (double)nap.tv_nsec;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void read_bound(const char *path, double *bound)
{
	char line[512];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f)) {
		double value;
		const char *text = strstr(line, "Lower bound:");

		if (text && sscanf(text, "Lower bound: %lf", &value) == 1)
			*bound = fmax(*bound, value);
		text = strstr(line, "best possible ");
		if (text && sscanf(text, "best possible %lf", &value) == 1 && fabs(value) < 1e49)
			*bound = fmax(*bound, value);
	}
	if (f)
		fclose(f);
}

/* False: cbc wrote no answer. */
static bool read_solution(const struct mq_mip *m, const char *path, struct mq_arena *arena,
			  struct mq_mip_result *result)
{
	char line[512];
	FILE *f = fopen(path, "r");
	bool none;

	result->verdict = MQ_MIP_UNKNOWN;
	if (!f)
		return false;
	if (!fgets(line, sizeof(line), f)) {
		fclose(f);
		return false;
	}
	none = strstr(line, "no integer solution") || strstr(line, "Unbounded");
	if (!strncmp(line, "Optimal", 7))
		result->verdict = MQ_MIP_OPTIMAL;
	else if (!strncmp(line, "Infeasible", 10) || !strncmp(line, "Integer infeasible", 18))
		result->verdict = MQ_MIP_INFEASIBLE;
	else if (!none)
		result->verdict = MQ_MIP_FEASIBLE;
	const char *text = strstr(line, "objective value");

	if (result->verdict <= MQ_MIP_FEASIBLE && text &&
	    sscanf(text, "objective value %lf", &result->objective) == 1) {
		result->value = mq_arena_array(arena, m->n_columns, double);
		while (fgets(line, sizeof(line), f)) {
			const char *at = line + strspn(line, " *");
			uint32_t index, column;
			double value;

			if (sscanf(at, "%u C%u %lf", &index, &column, &value) == 3 && column < m->n_columns)
				result->value[column] = value;
		}
	}
	fclose(f);
	return true;
}

static enum mq_status run_cbc(const struct mq_mip *m, const struct mq_mip_options *o, const struct job *job,
			      struct mq_arena *arena, struct mq_mip_result *result, struct mq_err *err)
{
	pid_t pid;
	bool stopped;

	MQ_TRY(write_problem(m, job->file[PROBLEM], arena, err));
	if (o->start)
		MQ_TRY(write_start(m, o->start, job->file[START], err));
	MQ_TRY(spawn_cbc(o, job, &pid, err));
	bool fine = wait_cbc(o, pid, &stopped);

	if (!fine && !stopped)
		return mq_fail(err, MQ_ETIME, "program 'cbc' died on an integer program of %u columns and %u rows",
			       m->n_columns, m->n_rows);
	if (!read_solution(m, job->file[SOLUTION], arena, result) && !stopped)
		return mq_fail(err, MQ_ETIME,
			       "program 'cbc' gave no answer to an integer program of %u columns and %u rows",
			       m->n_columns, m->n_rows);
	read_bound(job->file[LOG], &result->bound);
	if (result->verdict == MQ_MIP_OPTIMAL && o->gap <= 0)
		result->bound = result->objective;
	return MQ_OK;
}

enum mq_status mq_mip_solve(const struct mq_mip *m, const struct mq_mip_options *o, struct mq_arena *arena,
			    struct mq_mip_result *result, struct mq_err *err)
{
	struct job job = { 0 };

	*result = (struct mq_mip_result){ MQ_MIP_UNKNOWN, NAN, -INFINITY, NULL };
	MQ_TRY(make_job(&job, arena, err));
	enum mq_status status = run_cbc(m, o, &job, arena, result, err);

	remove_job(&job);
	return status;
}
