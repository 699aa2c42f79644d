/* ranks.c - see session.h. SPDX-License-Identifier: Apache-2.0 */
#include "session/session.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "judge/pool.h"

enum { PAUSE_US = 1000, MOST_MB = 1024 };
/* Seconds that a rank waits for the first one, which may have to read a large platform. */
static const double PATIENCE_S = 60;

struct mq_ranks {
	struct mq_session *session;
	char *dir; /* DIR/ranks */
	int claims;
	uint64_t next;  /* number of the next plan; byte 0 of `claims` is the first rank's */
	double until_s; /* clock time at which judging ends */
};

const char *mq_rank_of_many(uint32_t *n)
{
	static const char *const names[][2] = { { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
						{ "SLURM_PROCID", "SLURM_NTASKS" },
						{ "PMI_RANK", "PMI_SIZE" } };

	*n = 1;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *rank = getenv(names[i][0]), *size = getenv(names[i][1]);

		if (!rank)
			continue;
		*n = size ? (uint32_t)strtoul(size, NULL, 10) : 1;
		return rank;
	}
	return NULL;
}

/* ---- the folder --------------------------------------------------------------------------------- */

static bool lock(int claims, uint64_t number, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)number, .l_len = 1 };

	return !fcntl(claims, F_SETLK, &l);
}

/* Does another process hold the lock? */
static bool is_locked(int claims, uint64_t number)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)number, .l_len = 1 };

	return !fcntl(claims, F_GETLK, &l) && l.l_type != F_UNLCK;
}

static void name_of(const struct mq_ranks *r, uint64_t number, const char *suffix, char path[4096])
{
	snprintf(path, 4096, "%s/%llu.%s", r->dir, (unsigned long long)number, suffix);
}

static enum mq_status put(const struct mq_ranks *r, uint64_t number, const char *suffix, const void *bytes, size_t size,
			  struct mq_err *err)
{
	char path[4096];

	name_of(r, number, suffix, path);
	return mq_text_write(path, bytes, size, err);
}

/* The file's bytes; NULL: there is no such file. */
static void *get(const struct mq_ranks *r, uint64_t number, const char *suffix, struct mq_arena *arena, size_t *size)
{
	struct mq_err none = MQ_ERR_INIT;
	char path[4096], *bytes;

	name_of(r, number, suffix, path);
	return mq_bytes_read(path, MOST_MB, arena, &bytes, size, &none) == MQ_OK && *size ? bytes : NULL;
}

static void remove_files(const struct mq_ranks *r, uint64_t number)
{
	char path[4096];

	name_of(r, number, "ask", path);
	unlink(path);
	name_of(r, number, "got", path);
	unlink(path);
}

static enum mq_status open_folder(struct mq_session *session, const char *dir, struct mq_arena *arena,
				  struct mq_ranks **out, struct mq_err *err)
{
	struct mq_ranks *r = mq_arena_array(arena, 1, struct mq_ranks);

	*r = (struct mq_ranks){ .session = session, .next = 1, .until_s = INFINITY };
	r->dir = mq_arena_printf(arena, "%s/ranks", dir);
	MQ_TRY(mq_make_dir(r->dir, err));
	const char *claims = mq_arena_printf(arena, "%s/claims", r->dir);
	r->claims = open(claims, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (r->claims < 0)
		return mq_bad(err, "%s: cannot write: %s", claims, strerror(errno));
	*out = r;
	return MQ_OK;
}

/* Removes files of a killed run. */
static void clear(const struct mq_ranks *r)
{
	DIR *d = opendir(r->dir);
	char path[4096 + 300];

	for (struct dirent *e; d && (e = readdir(d));) {
		snprintf(path, sizeof(path), "%s/%s", r->dir, e->d_name);
		if (*e->d_name != '.' && strcmp(e->d_name, "claims"))
			unlink(path);
	}
	if (d)
		closedir(d);
}

/* ---- the first rank ------------------------------------------------------------------------------ */

enum mq_status mq_ranks_open(struct mq_session *session, const char *dir, struct mq_arena *arena,
			     struct mq_ranks **ranks, struct mq_err *err)
{
	MQ_TRY(open_folder(session, dir, arena, ranks, err));
	clear(*ranks);
	lock((*ranks)->claims, 0, F_WRLCK);
	return MQ_OK;
}

void mq_ranks_close(struct mq_ranks *r)
{
	char path[4096];

	if (!r)
		return;
	clear(r);
	snprintf(path, sizeof(path), "%s/claims", r->dir);
	unlink(path);
	rmdir(r->dir);
	close(r->claims);
}

void mq_ranks_until(struct mq_ranks *r, double left_s)
{
	r->until_s = mq_now_s() + left_s;
	mq_pool_until(r->session->pool, left_s);
}

struct batch {
	const struct mq_plan *const *plan;
	struct mq_result *result;
	bool *done;
	uint32_t n, left;
	uint64_t first; /* number of plan[0] */
};

static void take_answers(struct mq_ranks *r, struct batch *b, struct mq_arena *scratch)
{
	for (uint32_t i = 0; i < b->n; i++) {
		size_t size;
		const void *bytes = b->done[i] ? NULL : get(r, b->first + i, "got", scratch, &size);

		if (!bytes || size != sizeof(*b->result))
			continue;
		memcpy(&b->result[i], bytes, size);
		remove_files(r, b->first + i);
		b->done[i] = true;
		b->left--;
	}
}

/* Judges as many unclaimed plans as there are local workers, from the end, since the other ranks begin at the front. */
static enum mq_status judge_some(struct mq_ranks *r, struct batch *b, bool *any, struct mq_arena *scratch,
				 struct mq_err *err)
{
	uint32_t jobs = r->session->asked->jobs ? r->session->asked->jobs : 1, n = 0;
	const struct mq_plan **plan = mq_arena_array(scratch, jobs, const struct mq_plan *);
	uint32_t *of = mq_arena_array(scratch, jobs, uint32_t);
	struct mq_result *result = mq_arena_array(scratch, jobs, struct mq_result);

	for (uint32_t i = b->n; i-- > 0 && n < jobs;) {
		size_t size;

		if (b->done[i] || !lock(r->claims, b->first + i, F_WRLCK))
			continue;
		if (get(r, b->first + i, "got", scratch, &size)) { /* answered meanwhile */
			lock(r->claims, b->first + i, F_UNLCK);
			continue;
		}
		plan[n] = b->plan[i];
		of[n++] = i;
	}
	*any = n > 0;
	enum mq_status status = n ? mq_session_judge(r->session, plan, n, result, err) : MQ_OK;

	for (uint32_t i = 0; i < n; i++) {
		remove_files(r, b->first + of[i]);
		lock(r->claims, b->first + of[i], F_UNLCK);
		b->result[of[i]] = result[i];
		b->done[of[i]] = true;
		b->left--;
	}
	return status;
}

static void give_up(struct mq_ranks *r, struct batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->done[i])
			continue;
		remove_files(r, b->first + i);
		b->result[i] = (struct mq_result){ .verdict = MQ_N_VERDICTS };
	}
	b->left = 0;
}

enum mq_status mq_ranks_judge(struct mq_ranks *r, const struct mq_plan *const *plan, uint32_t n,
			      struct mq_result *result, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct batch b = { .plan = plan, .result = result, .n = n, .left = n, .first = r->next };
	enum mq_status status = MQ_OK;

	b.done = mq_arena_array(&scratch, n, bool);
	r->next += n;
	for (uint32_t i = 0; i < n && n > 1 && status == MQ_OK; i++) { /* a single plan is judged here */
		size_t size;
		const void *bytes = mq_plan_pack(plan[i], &scratch, &size);

		status = put(r, b.first + i, "ask", bytes, size, err);
	}
	while (b.left && status == MQ_OK) {
		struct mq_arena_mark mark = mq_arena_mark(&scratch);
		bool any = false;

		take_answers(r, &b, &scratch);
		if (mq_now_s() >= r->until_s)
			give_up(r, &b);
		else
			status = judge_some(r, &b, &any, &scratch, err);
		if (b.left && !any)
			usleep(PAUSE_US);
		mq_arena_rewind(&scratch, mark);
	}
	return status;
}

/* ---- the others ----------------------------------------------------------------------------------- */

static enum mq_status judge_one(struct mq_ranks *r, uint64_t number, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	enum mq_status status = MQ_OK;
	struct mq_result result;
	struct mq_plan plan;
	size_t size;
	const void *bytes = get(r, number, "ask", &scratch, &size);

	if (bytes && !get(r, number, "got", &scratch, &(size_t){ 0 })) {
		const struct mq_plan *list[] = { &plan };

		status = mq_plan_unpack(bytes, size, &scratch, &plan, err);
		if (status == MQ_OK)
			status = mq_session_judge(r->session, list, 1, &result, err);
		if (status == MQ_OK)
			status = put(r, number, "got", &result, sizeof(result), err);
	}
	return status;
}

/* Locks and returns the lowest plan number that is asked for and not claimed; 0 = none. */
static uint64_t claim_one(struct mq_ranks *r)
{
	DIR *d = opendir(r->dir);
	uint64_t least = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		char *end, path[4096];
		uint64_t number = strtoull(e->d_name, &end, 10);

		if (!number || strcmp(end, ".ask") || (least && number > least) || is_locked(r->claims, number))
			continue;
		name_of(r, number, "got", path);
		if (access(path, F_OK))
			least = number;
	}
	if (d)
		closedir(d);
	return least && lock(r->claims, least, F_WRLCK) ? least : 0;
}

enum mq_status mq_ranks_serve(struct mq_session *session, const char *dir, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	double begin_s = mq_now_s();
	struct mq_ranks *r = NULL;
	enum mq_status status;
	bool seen = false;

	MQ_TRY(mq_make_dir(dir, err));
	status = open_folder(session, dir, &arena, &r, err);
	while (status == MQ_OK) {
		bool alive = is_locked(r->claims, 0);
		uint64_t number = alive ? claim_one(r) : 0;

		seen |= alive;
		if (number) {
			status = judge_one(r, number, err);
			lock(r->claims, number, F_UNLCK);
		} else if (!alive && (seen || mq_now_s() - begin_s > PATIENCE_S)) {
			break;
		} else {
			usleep(PAUSE_US);
		}
	}
	if (status == MQ_OK && !seen)
		status = mq_fail(err, MQ_ETIME, "%s: the first rank did not come within %g s", r->dir, PATIENCE_S);
	if (r)
		close(r->claims);
	return status;
}
