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

#include "base/message.h"
#include "base/text.h"
#include "judge/pool.h"

/* HOT_US: the pause of a rank whose last work ended less than HOT_S ago, and of one that waits for screens. */
enum { PAUSE_US = 1000, HOT_US = 100, MOST_MB = 1024 };
static const double HOT_S = 0.2;
/* Seconds that a rank waits for the first one, which may have to read a large platform. */
static const double PATIENCE_S = 60;
/* Seconds that the first one waits at its end for ranks that have not come yet: quick searches end before they do. */
static const double LATE_S = 10;
/* Rank N locks byte HERE + N of `claims` once it has seen the first one. */
static const uint64_t HERE = 1ull << 62;
/* Screens that take less clock time than this are not worth their files. */
static const double QUICK_S = 3e-4;
/* Groups of screens per worker: few, to write few files; several, so that all workers end at about the same time. */
enum { GROUPS = 4 };

/* The kinds of work that ranks share: the suffix of the request's file, and the function that answers it. */
static const struct work {
	const char *suffix;
	enum mq_status (*answer)(struct mq_session *session, const struct mq_plan *const *plan, uint32_t n,
				 struct mq_result *result, struct mq_err *err);
} judging = { "judge", mq_session_judge }, screening = { "screen", mq_session_screen };

struct mq_ranks {
	struct mq_session *session;
	char *dir; /* DIR/ranks */
	int claims;
	uint64_t next;   /* number of the next group; byte 0 of `claims` is the first rank's */
	double until_s;  /* clock time at which judging ends */
	double screen_s; /* clock time of one of this rank's latest screens */
	bool *came;      /* first rank: [n_ranks] */
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
	const char *const suffix[] = { judging.suffix, screening.suffix, "got" };
	char path[4096];

	for (size_t i = 0; i < sizeof(suffix) / sizeof(*suffix); i++) {
		name_of(r, number, suffix[i], path);
		unlink(path);
	}
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
	(*ranks)->came = mq_arena_array(arena, session->n_ranks, bool);
	clear(*ranks);
	lock((*ranks)->claims, 0, F_WRLCK);
	return MQ_OK;
}

/* Notes which other ranks have come; a rank that has may die later. */
static bool all_came(struct mq_ranks *r)
{
	bool all = true;

	for (uint32_t i = 1; i < r->session->n_ranks; i++) {
		r->came[i] = r->came[i] || is_locked(r->claims, HERE + i);
		all &= r->came[i];
	}
	return all;
}

void mq_ranks_close(struct mq_ranks *r)
{
	double end_s = mq_now_s() + LATE_S;
	char path[4096];

	if (!r)
		return;
	while (!all_came(r) && !mq_job_stopped() && mq_now_s() < end_s)
		usleep(PAUSE_US);
	close(r->claims); /* first, so that other ranks answer no more */
	clear(r);
	snprintf(path, sizeof(path), "%s/claims", r->dir);
	unlink(path);
	rmdir(r->dir);
}

void mq_ranks_until(struct mq_ranks *r, double left_s)
{
	r->until_s = mq_now_s() + left_s;
	mq_pool_until(r->session->pool, left_s);
}

/* Plans in groups of `each`; the last may have fewer. */
struct batch {
	const struct work *work;
	const struct mq_plan *const *plan;
	struct mq_result *result;
	uint32_t n, each, n_groups, left;
	bool *done;     /* [n_groups] */
	uint64_t first; /* number of the first group */
};

static uint32_t plans_of(const struct batch *b, uint32_t group)
{
	uint32_t from = group * b->each;

	return b->n - from < b->each ? b->n - from : b->each;
}

static enum mq_status ask(struct mq_ranks *r, const struct batch *b, uint32_t group, struct mq_arena *scratch,
			  struct mq_err *err)
{
	struct mq_arena_mark mark = mq_arena_mark(scratch);
	struct mq_message m = { .arena = scratch };

	for (uint32_t i = 0; i < plans_of(b, group); i++) {
		size_t size;
		const void *bytes = mq_plan_pack(b->plan[group * b->each + i], scratch, &size);

		mq_message_put(&m, &size, sizeof(size));
		mq_message_put(&m, bytes, size);
	}
	enum mq_status status = put(r, b->first + group, b->work->suffix, m.at, m.n, err);
	mq_arena_rewind(scratch, mark);
	return status;
}

static void end_group(struct batch *b, uint32_t group, const struct mq_result *result)
{
	memcpy(&b->result[group * b->each], result, plans_of(b, group) * sizeof(*result));
	b->done[group] = true;
	b->left--;
}

static void take_answers(struct mq_ranks *r, struct batch *b, struct mq_arena *scratch)
{
	for (uint32_t i = 0; i < b->n_groups; i++) {
		size_t size;
		const void *bytes = b->done[i] ? NULL : get(r, b->first + i, "got", scratch, &size);

		if (!bytes || size != plans_of(b, i) * sizeof(*b->result))
			continue;
		remove_files(r, b->first + i);
		end_group(b, i, bytes);
	}
}

/* Answers as many unclaimed groups as there are local workers, from the end, since other ranks begin at the front. */
static enum mq_status answer_some(struct mq_ranks *r, struct batch *b, bool *any, struct mq_arena *scratch,
				  struct mq_err *err)
{
	uint32_t jobs = r->session->asked->jobs, n_groups = 0, n = 0;
	const struct mq_plan **plan = mq_arena_array(scratch, jobs * b->each, const struct mq_plan *);
	struct mq_result *result = mq_arena_array(scratch, jobs * b->each, struct mq_result), *from = result;
	uint32_t *of = mq_arena_array(scratch, jobs, uint32_t);
	double begin_s = mq_now_s();

	for (uint32_t i = b->n_groups; i-- > 0 && n_groups < jobs;) {
		size_t size;

		if (b->done[i] || !lock(r->claims, b->first + i, F_WRLCK))
			continue;
		if (get(r, b->first + i, "got", scratch, &size)) { /* answered meanwhile */
			lock(r->claims, b->first + i, F_UNLCK);
			continue;
		}
		for (uint32_t k = 0; k < plans_of(b, i); k++)
			plan[n++] = b->plan[i * b->each + k];
		of[n_groups++] = i;
	}
	*any = n > 0;
	enum mq_status status = n ? b->work->answer(r->session, plan, n, result, err) : MQ_OK;

	if (n && b->work == &screening)
		r->screen_s = (mq_now_s() - begin_s) / n;
	for (uint32_t i = 0; i < n_groups; from += plans_of(b, of[i++])) {
		remove_files(r, b->first + of[i]);
		lock(r->claims, b->first + of[i], F_UNLCK);
		end_group(b, of[i], from);
	}
	return status;
}

static void give_up(struct mq_ranks *r, struct batch *b)
{
	for (uint32_t i = 0; i < b->n_groups; i++) {
		if (b->done[i])
			continue;
		remove_files(r, b->first + i);
		for (uint32_t k = 0; k < plans_of(b, i); k++)
			b->result[i * b->each + k] = mq_result_none(MQ_N_VERDICTS);
	}
	b->left = 0;
}

static enum mq_status share(struct mq_ranks *r, struct batch *b, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	enum mq_status status = MQ_OK;

	b->n_groups = b->left = (b->n + b->each - 1) / b->each;
	b->done = mq_arena_array(&scratch, b->n_groups, bool);
	b->first = r->next;
	r->next += b->n_groups;
	(void)all_came(r);
	for (uint32_t i = 0; i < b->n_groups && b->n_groups > 1 && status == MQ_OK; i++) /* a single one stays here */
		status = ask(r, b, i, &scratch, err);
	while (b->left && status == MQ_OK) {
		struct mq_arena_mark mark = mq_arena_mark(&scratch);
		bool any = false;

		take_answers(r, b, &scratch);
		if (mq_now_s() >= r->until_s || mq_job_stopped())
			give_up(r, b);
		else
			status = answer_some(r, b, &any, &scratch, err);
		if (b->left && !any)
			usleep(b->work == &screening ? HOT_US : PAUSE_US);
		mq_arena_rewind(&scratch, mark);
	}
	return status;
}

enum mq_status mq_ranks_judge(struct mq_ranks *r, const struct mq_plan *const *plan, uint32_t n,
			      struct mq_result *result, struct mq_err *err)
{
	struct batch b = { .work = &judging, .plan = plan, .result = result, .n = n, .each = 1 };

	return share(r, &b, err);
}

enum mq_status mq_ranks_screen(struct mq_ranks *r, const struct mq_plan *const *plan, uint32_t n,
			       struct mq_result *result, struct mq_err *err)
{
	uint32_t workers = r->session->n_ranks * r->session->asked->jobs;
	struct batch b = { .work = &screening, .plan = plan, .result = result, .n = n, .each = n / (GROUPS * workers) };
	double begin_s = mq_now_s();

	b.each = b.each ? b.each : 1;
	r->until_s = INFINITY; /* that of earlier judgements */
	if (r->screen_s >= QUICK_S)
		return share(r, &b, err);
	MQ_TRY(mq_session_screen(r->session, plan, n, result, err));
	r->screen_s = (mq_now_s() - begin_s) / n;
	return MQ_OK;
}

/* ---- the others ----------------------------------------------------------------------------------- */

struct claim {
	uint64_t number;
	const struct work *work;
	uint32_t n; /* plans of the group */
};

/* Plans of claimed groups. */
struct asked {
	const struct mq_plan **plan;
	uint32_t n, room;
};

/* Reads a group's plans; none if it was answered meanwhile. */
static enum mq_status read_group(struct mq_ranks *r, struct claim *claim, struct mq_arena *arena, struct asked *asked,
				 struct mq_err *err)
{
	struct mq_message m = { .arena = arena };
	size_t size;

	m.at = get(r, claim->number, claim->work->suffix, arena, &m.room);
	claim->n = 0;
	if (!m.at || get(r, claim->number, "got", arena, &size))
		return MQ_OK;
	for (const size_t *n; (n = mq_message_take(&m, sizeof(*n)));) {
		struct mq_plan *plan = mq_arena_array(arena, 1, struct mq_plan);
		const void *bytes = mq_message_take(&m, *n);

		if (!bytes)
			return mq_fail(err, MQ_EBUG, "a group of plans cut short");
		MQ_TRY(mq_plan_unpack(bytes, *n, arena, plan, err));
		MQ_PUSH(arena, asked->plan, asked->n, asked->room, plan);
		claim->n++;
	}
	return MQ_OK;
}

/* Answers groups claimed for one kind of work, unless the first rank has ended meanwhile. */
static enum mq_status answer(struct mq_ranks *r, struct claim *claim, uint32_t n, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	struct asked asked = { .n = 0 };

	for (uint32_t i = 0; i < n; i++)
		MQ_TRY(read_group(r, &claim[i], &scratch, &asked, err));
	struct mq_result *result = mq_arena_array(&scratch, asked.n, struct mq_result);
	if (asked.n)
		MQ_TRY(claim->work->answer(r->session, asked.plan, asked.n, result, err));
	for (uint32_t i = 0; i < n; result += claim[i++].n)
		if (claim[i].n && is_locked(r->claims, 0))
			MQ_TRY(put(r, claim[i].number, "got", result, claim[i].n * sizeof(*result), err));
	return MQ_OK;
}

/* Finds and locks the unclaimed group of the lowest number above `after`, of this kind of work (NULL: any). False:
 * none, or another rank was faster. */
static bool claim_one(struct mq_ranks *r, uint64_t after, const struct work *only, struct claim *claim)
{
	DIR *d = opendir(r->dir);

	claim->number = 0;
	for (struct dirent *e; d && (e = readdir(d));) {
		char *end, path[4096];
		uint64_t number = strtoull(e->d_name, &end, 10);
		const struct work *work = *end != '.'                        ? NULL :
					  !strcmp(end + 1, judging.suffix)   ? &judging :
					  !strcmp(end + 1, screening.suffix) ? &screening :
									       NULL;

		if (number <= after || !work || (only && work != only) || (claim->number && number > claim->number) ||
		    is_locked(r->claims, number))
			continue;
		name_of(r, number, "got", path);
		if (access(path, F_OK))
			*claim = (struct claim){ number, work, 0 };
	}
	if (d)
		closedir(d);
	return claim->number && lock(r->claims, claim->number, F_WRLCK);
}

/* Claims and answers as many groups of one kind of work as there are local workers. */
static enum mq_status serve(struct mq_ranks *r, struct claim *claim, bool *any, struct mq_err *err)
{
	uint32_t n = 0;

	while (n < r->session->asked->jobs &&
	       claim_one(r, n ? claim[n - 1].number : 0, n ? claim->work : NULL, &claim[n]))
		n++;
	*any = n > 0;
	enum mq_status status = n ? answer(r, claim, n, err) : MQ_OK;

	for (uint32_t i = 0; i < n; i++)
		lock(r->claims, claim[i].number, F_UNLCK);
	return status;
}

enum mq_status mq_ranks_serve(struct mq_session *session, const char *dir, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	double begin_s = mq_now_s(), worked_s = -INFINITY;
	struct claim *claim = mq_arena_array(&arena, session->asked->jobs, struct claim);
	struct mq_ranks *r = NULL;
	enum mq_status status;
	bool seen = false;
	uint32_t n;

	MQ_TRY(mq_make_dir(dir, err));
	status = open_folder(session, dir, &arena, &r, err);
	while (status == MQ_OK) {
		bool alive = is_locked(r->claims, 0), any = false;

		if (alive && !seen)
			lock(r->claims, HERE + strtoull(mq_rank_of_many(&n), NULL, 10), F_WRLCK);
		seen |= alive;
		if (alive)
			status = serve(r, claim, &any, err);
		else if (seen || mq_now_s() - begin_s > PATIENCE_S)
			break;
		/* without the first rank nobody waits for this answer, and its folder may be gone */
		if (status != MQ_OK && !is_locked(r->claims, 0))
			status = MQ_OK;
		if (any)
			worked_s = mq_now_s();
		else
			usleep(mq_now_s() - worked_s < HOT_S ? HOT_US : PAUSE_US);
	}
	if (status == MQ_OK && !seen)
		status = mq_fail(err, MQ_ETIME, "%s: the first rank did not come within %g s", r->dir, PATIENCE_S);
	if (r)
		close(r->claims);
	return status;
}
