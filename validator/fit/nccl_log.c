/*
 * nccl_log.c - reads the tables that nccl-tests prints.
 *
 * A row is: size count type redop [root] time algbw busbw #wrong time algbw busbw #wrong, times in
 * us, out of place first. The collective is not in old logs: it comes from "Collective test
 * starting: X_perf" or from the file's name (all_reduce_perf.log, alltoall.txt). Ranks are the "#
 * Rank N" lines.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit/fit.h"

struct reader {
	int kind; /* enum mq_coll_kind, MQ_N_COLL_KINDS = sendrecv, -1 = not known */
	uint32_t ranks, n, room;
	struct mq_nccl_row *row;
	struct mq_arena *arena;
};

static int kind_in(const char *text)
{
	/* Longest names first: "reduce" is part of two others. */
	static const struct {
		const char *name;
		int kind;
	} names[] = {
	        {"reduce_scatter", MQ_COLL_REDUCE_SCATTER},
	        {"all_reduce", MQ_COLL_ALL_REDUCE},
	        {"all_gather", MQ_COLL_ALL_GATHER},
	        {"alltoall", MQ_COLL_ALL_TO_ALL},
	        {"broadcast", MQ_COLL_BROADCAST},
	        {"sendrecv", MQ_N_COLL_KINDS},
	        {"reduce", MQ_COLL_REDUCE},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strstr(text, names[i].name))
			return names[i].kind;
	return -1;
}

static void take_comment(struct reader *r, const char *line)
{
	const char *test = strstr(line, "test starting:");

	if (test && kind_in(test) >= 0)
		r->kind = kind_in(test);
	const char *rank = line + 1;
	while (isspace((unsigned char)*rank))
		rank++;
	if (!strncmp(rank, "Rank ", 5))
		r->ranks++;
}

/* The time is the first field with a fraction after the type and reduction names. */
static bool take_row(struct reader *r, char *line)
{
	char *save = NULL, *word = strtok_r(line, " \t\n", &save), *end;
	double bytes = word ? strtod(word, &end) : 0;
	uint32_t field = 0;

	if (!word || *end || !(bytes >= 0))
		return false;
	while ((word = strtok_r(NULL, " \t\n", &save))) {
		double x = strtod(word, &end);

		/* count, type, redop, root (a whole number or "none"), then the time */
		if (++field < 4 || *end || (!strchr(word, '.') && field < 5))
			continue;
		struct mq_nccl_row row = {.bytes = bytes,
		                          .seconds = 1e-6 * x,
		                          .sendrecv = r->kind == MQ_N_COLL_KINDS,
		                          .kind = r->kind == MQ_N_COLL_KINDS
		                                          ? MQ_COLL_ALL_REDUCE
		                                          : (enum mq_coll_kind)r->kind};
		if (bytes > 0 && x > 0)
			MQ_PUSH(r->arena, r->row, r->n, r->room, row);
		return true;
	}
	return false;
}

enum mq_status mq_nccl_log_load(const char *path, struct mq_arena *arena, struct mq_nccl_row **row,
                                uint32_t *n, struct mq_err *err)
{
	const char *base = strrchr(path, '/');
	struct reader r = {.kind = kind_in(base ? base : path), .arena = arena};
	char line[1024];
	FILE *file = fopen(path, "r");

	if (!file)
		return mq_fail(err, MQ_EINPUT, "%s: cannot open the log: %s", path,
		               strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			take_comment(&r, line);
		else if (r.kind >= 0)
			take_row(&r, line);
	}
	fclose(file);
	if (r.kind < 0)
		return mq_fail(err, MQ_EINPUT,
		               "%s: which collective is this? Name the file after it "
		               "(all_reduce_perf.log)",
		               path);
	if (!r.n)
		return mq_fail(err, MQ_EINPUT, "%s: no rows of a nccl-tests table found", path);
	if (!r.ranks)
		return mq_fail(err, MQ_EINPUT,
		               "%s: no '#  Rank' lines: how many ranks was it run with?", path);
	for (uint32_t i = 0; i < r.n; i++)
		r.row[i].ranks = r.ranks;
	*row = r.row;
	*n = r.n;
	return MQ_OK;
}
