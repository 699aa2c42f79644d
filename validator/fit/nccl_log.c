/* nccl_log.c - reads tables of nccl-tests (and rccl-tests) as found in logs: with prefixes of launchers and log
 * collectors before each line, without the '#', of 2018 or of today, several tests in one file.
 *
 * A table begins with the line that names its columns: size count type [redop] [root] time algbw busbw [#wrong], and
 * the last three or four again, in place; columns of single iterations (-I) and a timestamp may come between. A row is
 * recognised by its type after two integers. A row that does not fit its table's columns, or whose bandwidths do not
 * follow from its size and time, is an error that names the line. All other lines are ignored. Files of -J, or of
 * rccl-tests' -Z json, have the same as JSON.
 *
 * The collective comes from "Collective test starting: X_perf", from a command line that names X_perf, or, for a single
 * table, from the file's name; without any of these from the columns redop and root and the bus bandwidth's factor,
 * which distinguish all_reduce, reduce_scatter and reduce from all others. Ranks are the "Rank N ... on HOST" lines;
 * without any, n follows from the factor, 2(n - 1)/n of an all-reduce, (n - 1)/n of gathers, if its digits allow one n.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/text.h"
#include "fit/fit.h"
#include "maquette/json_file.h"
#include "trace/trace.h"

enum { MAX_WORDS = 64, MAX_NAME = 256, MAX_HOSTS = 4096, UNKNOWN = -1, NOT_FITTED = -2 };

struct columns {
	bool root, redop, wrong;
	uint32_t after; /* number of words after the type, without redop and root */
};

struct reader {
	const char *path;
	struct mq_err *err;
	struct mq_arena *arena;
	int kind, named; /* of the current table; of the file's name: mq_coll_kind, MQ_N_COLL_KINDS = sendrecv */
	bool in_table, fresh_kind, speaks; /* speaks: it has lines of NCCL_DEBUG */
	bool reduces, rooted;              /* have rows of this table a redop, a root? */
	struct columns columns;
	uint32_t line, tables, ranks, n_hosts, first_row; /* first_row: of this table */
	const char *host[MAX_HOSTS];
	uint32_t n, room;
	struct mq_nccl_row *row;
};

static enum mq_status wrong(const struct reader *r, const char *what)
{
	return mq_bad(r->err, "%s:%u: %s", r->path, r->line, what);
}

/* The only collective named in a program's or a file's name: "all_reduce_perf", "AllReduce-8gpus". */
static int kind_in(const char *text, size_t length)
{
	/* Names that are part of others come last. */
	static const struct {
		const char *name;
		int kind;
	} names[] = {
		{ "reducescatter", MQ_COLL_REDUCE_SCATTER },
		{ "allreduce", MQ_COLL_ALL_REDUCE },
		{ "allgather", MQ_COLL_ALL_GATHER },
		{ "alltoallv", NOT_FITTED },
		{ "hypercube", NOT_FITTED },
		{ "scatter", NOT_FITTED },
		{ "gather", NOT_FITTED },
		{ "alltoall", MQ_COLL_ALL_TO_ALL },
		{ "broadcast", MQ_COLL_BROADCAST },
		{ "sendrecv", MQ_N_COLL_KINDS },
		{ "reduce", MQ_COLL_REDUCE },
	};
	char letters[MAX_NAME], *at;
	size_t n = 0;
	int kind = UNKNOWN;

	for (size_t i = 0; i < length && n + 1 < sizeof(letters); i++)
		if (isalpha((unsigned char)text[i]))
			letters[n++] = (char)tolower((unsigned char)text[i]);
	letters[n] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		while ((at = strstr(letters, names[i].name))) {
			if (kind != UNKNOWN && kind != names[i].kind)
				return UNKNOWN;
			kind = names[i].kind;
			memset(at, ' ', strlen(names[i].name));
		}
	return kind;
}

/* ---- words ----------------------------------------------------------------------------------- */

static uint32_t split(char *line, char **word)
{
	char *save = NULL;
	uint32_t n = 0;

	for (char *w = strtok_r(line, " \t\n", &save); w && n < MAX_WORDS; w = strtok_r(NULL, " \t\n", &save))
		word[n++] = w;
	return n;
}

static bool is_number(const char *word, double *x)
{
	char *end;

	*x = strtod(word, &end);
	return *word && !*end && isfinite(*x) && (isdigit((unsigned char)*word) || *word == '-' || *word == '.');
}

static bool is_whole(const char *word, double *x)
{
	size_t n = strspn(word, "0123456789");

	*x = n ? strtod(word, NULL) : 0;
	return n && !word[n];
}

/* Skips a prefix joined to a number: "<stdout>:1048576". */
static const char *unglued(const char *word)
{
	const char *from = word;

	for (const char *p = word; *p; p++)
		if (*p == ':' || *p == '>' || *p == ']' || *p == '|' || *p == ')')
			from = p + 1;
	return from;
}

/* Index of a row's type among its words; MAX_WORDS: no row. */
static uint32_t find_type(char *const *word, uint32_t n, double *bytes, double *count)
{
	for (uint32_t i = 2; i < n; i++)
		if (mq_trace_type(word[i], strlen(word[i]), NULL) > 0 && is_whole(word[i - 1], count) &&
		    is_whole(unglued(word[i - 2]), bytes))
			return i;
	return MAX_WORDS;
}

/* ---- lines around tables --------------------------------------------------------------- */

static enum mq_status end_table(struct reader *r);

static bool is_wrong(const char *word)
{
	return !strcmp(word, "#wrong") || !strcmp(word, "wrong") || !strcmp(word, "error");
}

static enum mq_status check_kind(struct reader *r)
{
	if (r->kind == NOT_FITTED)
		return wrong(
			r,
			"scatter, gather, hypercube and alltoallv are not fitted: leave their tables out (all_reduce, "
			"all_gather, reduce_scatter, alltoall, broadcast, reduce and sendrecv are)");
	if (r->kind == UNKNOWN)
		return wrong(r, "which collective is this table of? Its columns do not tell: name the file after it "
				"(all_gather_perf.log), a file for each table, or keep the line of the command");
	return MQ_OK;
}

static enum mq_status take_header(struct reader *r, char *const *word, uint32_t n)
{
	uint32_t at = 0, last;

	while (at < n && strcmp(word[at], "size"))
		at++;
	struct columns c = { 0 };
	for (last = at + 1; last < n && strcmp(word[last], "time") && strcmp(word[last], "cputime"); last++) {
		c.redop |= !strcmp(word[last], "redop");
		c.root |= !strcmp(word[last], "root");
	}
	if (last < n && *word[last] == 'c')
		return wrong(r, "times of the processor (-C) are not those of the collective: run it without -C");
	if (last + 3 > n || strcmp(word[last + 1], "algbw") || strcmp(word[last + 2], "busbw"))
		return wrong(
			r,
			"columns of a table that this does not know: size count type [redop] [root] time algbw busbw "
			"[#wrong] are read");
	c.wrong = last + 3 < n && is_wrong(word[last + 3]);
	for (uint32_t i = last; i < n; i++) {
		if (!strcmp(word[i], "timestamp"))
			c.after++; /* a date and a time */
		else if (!is_wrong(word[i]) && strcmp(word[i], "time") && strcmp(word[i], "algbw") &&
			 strcmp(word[i], "busbw") && strncmp(word[i], "i_", 2))
			return wrong(
				r, "columns of a table that this does not know: time algbw busbw [#wrong] out of place "
				   "and in place are read, i_... of -I and a timestamp passed over");
	}
	c.after += n - last;
	MQ_TRY(end_table(r));
	r->columns = c;
	r->in_table = true;
	r->reduces = r->rooted = false;
	r->first_row = r->n;
	if (!r->fresh_kind)
		r->kind = r->tables ? UNKNOWN : r->named; /* of two tables, one is unknown */
	r->tables++;
	r->fresh_kind = false;
	return r->kind == UNKNOWN ? MQ_OK : check_kind(r); /* later, from the rows */
}

static void add_host(struct reader *r, const char *host)
{
	uint32_t i = 0;

	while (i < r->n_hosts && strcmp(r->host[i], host))
		i++;
	if (i == r->n_hosts && i < MAX_HOSTS)
		r->host[r->n_hosts++] = mq_arena_strdup(r->arena, host);
}

static enum mq_status take_rank(struct reader *r, char *const *word, uint32_t n, uint32_t at)
{
	double rank;
	uint32_t on = at + 2;

	if (!is_whole(word[at + 1], &rank))
		return MQ_OK;
	while (on < n && strcmp(word[on], "on"))
		on++;
	if (on + 1 >= n)
		return MQ_OK; /* NCCL's own lines name ranks, too */
	if (r->in_table)      /* of the next test */
		MQ_TRY(end_table(r));
	if (rank == 0 && r->ranks)
		return wrong(r,
			     "a second rank 0 of the same test: several runs of their own are mixed here (nccl-tests "
			     "built without MPI=1, or a part that was logged twice)");
	if (rank != r->ranks)
		return wrong(r, "the ranks before this one are not all there: were lines lost?");
	r->ranks++;
	add_host(r, word[on + 1]);
	return MQ_OK;
}

/* Reads "Collective test starting: X_perf", and command lines; "concluded" lines repeat it. */
static enum mq_status take_name(struct reader *r, const char *line)
{
	const char *end = strstr(line, "_perf"), *from = end;

	while (from && from > line && !isspace((unsigned char)from[-1]) && from[-1] != '/')
		from--;
	int kind = from ? kind_in(from, (size_t)(end - from)) : UNKNOWN;
	if (kind == UNKNOWN || strstr(line, "concluded"))
		return MQ_OK;
	MQ_TRY(end_table(r));
	r->kind = kind;
	r->fresh_kind = true;
	return MQ_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Half a unit of the last digit printed, of "120.50" or "1.7e+07". */
static double half_digit(const char *word)
{
	const char *point = strchr(word, '.'), *e = strchr(word, 'e');
	double digits = point ? (double)strspn(point + 1, "0123456789") : 0;

	return .5 * pow(10, (e ? strtod(e + 1, NULL) : 0) - digits);
}

/* Does bytes / time equal algbw, within the printed digits? */
static bool adds_up(double bytes, const char *const t[3])
{
	double time = strtod(t[0], NULL), algbw = strtod(t[1], NULL);
	double low = 1e-3 * bytes / (time + half_digit(t[0])),
	       high = 1e-3 * bytes / fmax(time - half_digit(t[0]), 1e-9);

	return low <= algbw + 1.02 * half_digit(t[1]) && high >= algbw - 1.02 * half_digit(t[1]);
}

/* `off`: half the last digits of busbw and algbw. */
static void add_row(struct reader *r, double bytes, double time_us, double algbw, double busbw, const double off[2])
{
	const struct mq_nccl_row row = {
		.bytes = bytes,
		.seconds = 1e-6 * time_us,
		.line = r->line,
		.factor = algbw > 0 ? busbw / algbw : (double)NAN,
		.factor_off = algbw > 0 ? (off[0] + busbw / algbw * off[1]) / algbw : (double)INFINITY,
	};

	MQ_PUSH(r->arena, r->row, r->n, r->room, row);
}

static enum mq_status take_row(struct reader *r, char *const *word, uint32_t n, uint32_t type, double bytes,
			       double count)
{
	uint32_t at = type + 1;
	double x, time, algbw, busbw;

	if (!r->in_table)
		return wrong(r, "a row without the line that names its columns before it");
	if (r->columns.redop && at < n && !is_number(word[at], &x) && strcasecmp(word[at], "n/a"))
		r->reduces |= strcmp(word[at++], "none") != 0;
	uint32_t left = n - at;
	if (r->columns.root && left == r->columns.after + 1) {
		r->rooted |= *word[at++] != '-';
		left--;
	}
	if (left != r->columns.after)
		return wrong(r, "a row with other columns than its table's: were two lines mixed, or one cut?");
	if (!is_number(word[at], &time) || !is_number(word[at + 1], &algbw) || !is_number(word[at + 2], &busbw))
		return wrong(r, "time, algbw and busbw of this row are not numbers");
	if (count > 0 && fmod(bytes, count * mq_trace_type(word[type], strlen(word[type]), NULL)) > 0)
		return wrong(r, "the size is no multiple of the elements of its type");
	const char *const timed[3] = { word[at], word[at + 1], word[at + 2] };
	if (bytes > 0 && !(time > 0))
		return wrong(r, "a time that is not above 0");
	if (!adds_up(bytes, timed))
		return wrong(r, "size over time is not the algbw of this row: were columns lost?");
	if (r->columns.wrong && is_number(word[at + 3], &x) && x > (strchr(word[at + 3], 'e') ? 1e-2 : 0))
		return wrong(r, "this run got wrong results (#wrong): its times mean nothing");
	double off[2] = { half_digit(word[at + 2]), half_digit(word[at + 1]) };
	if (bytes > 0)
		add_row(r, bytes, time, algbw, busbw, off);
	return MQ_OK;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static double factor_of(int kind, double n)
{
	if (kind == MQ_N_COLL_KINDS || kind == MQ_COLL_BROADCAST || kind == MQ_COLL_REDUCE)
		return 1;
	return (kind == MQ_COLL_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

/* The row whose digits determine busbw / algbw best. */
static const struct mq_nccl_row *sharpest(const struct reader *r)
{
	const struct mq_nccl_row *best = &r->row[r->first_row];

	for (uint32_t i = r->first_row; i < r->n; i++)
		best = r->row[i].factor_off < best->factor_off ? &r->row[i] : best;
	return best;
}

enum { MOST_RANKS = 65536 };

static enum mq_status find_ranks(struct reader *r)
{
	const struct mq_nccl_row *row = sharpest(r);
	uint32_t found = 0, answers = 0;

	r->line = row->line;
	for (uint32_t n = 2; n <= MOST_RANKS; n++)
		if (fabs(factor_of(r->kind, n) - row->factor) <= 1.02 * row->factor_off) {
			found = found ? found : n;
			answers++;
		}
	if (answers != 1)
		return wrong(r,
			     "no 'Rank N ... on HOST' lines, and busbw over algbw does not tell how many ranks there "
			     "were: keep those lines");
	r->ranks = found;
	return MQ_OK;
}

/* Infers an unnamed collective from the columns and busbw. */
static enum mq_status find_kind(struct reader *r)
{
	const struct mq_nccl_row *row = sharpest(r);
	double off = 1.02 * row->factor_off;

	r->line = row->line;
	if (r->kind == UNKNOWN && r->reduces && r->rooted)
		r->kind = MQ_COLL_REDUCE;
	else if (r->kind == UNKNOWN && r->reduces && row->factor > 1 + off)
		r->kind = MQ_COLL_ALL_REDUCE;
	else if (r->kind == UNKNOWN && r->reduces && row->factor < 1 - off)
		r->kind = MQ_COLL_REDUCE_SCATTER;
	return check_kind(r);
}

/* Do redop and busbw fit this collective on these ranks? Gathers of 2018 printed algbw twice. */
static enum mq_status check_table(struct reader *r)
{
	const struct mq_nccl_row *row = sharpest(r);
	double off = 1.02 * row->factor_off, want = factor_of(r->kind, r->ranks);
	const char *name = r->kind == MQ_N_COLL_KINDS ? "sendrecv" : mq_coll_name((enum mq_coll_kind)r->kind);
	bool sums = r->kind == MQ_COLL_ALL_REDUCE || r->kind == MQ_COLL_REDUCE_SCATTER || r->kind == MQ_COLL_REDUCE;

	r->line = row->line;
	if (r->columns.redop && r->kind != MQ_N_COLL_KINDS && sums != r->reduces)
		return mq_bad(r->err, "%s:%u: redop says that this is no %s: is the table of another collective?",
			      r->path, r->line, name);
	if (!isfinite(row->factor_off) || fabs(row->factor - want) <= off ||
	    (r->kind != MQ_COLL_ALL_REDUCE && fabs(row->factor - 1) <= off))
		return MQ_OK;
	return mq_bad(
		r->err,
		"%s:%u: busbw is %.3f of algbw, %s of %u ranks has %.3f: is the table of another collective, or of "
		"other ranks?",
		r->path, r->line, row->factor, name, r->ranks, want);
}

static enum mq_status end_table(struct reader *r)
{
	uint32_t line = r->line;

	if (!r->in_table)
		return MQ_OK;
	r->in_table = false;
	if (r->n == r->first_row)
		return wrong(r, "a table without rows ends here");
	if (r->ranks == 1)
		return wrong(r, "a table of one rank ends here: nothing was sent; were the lines of other ranks lost?");
	MQ_TRY(find_kind(r));
	if (!r->ranks)
		MQ_TRY(find_ranks(r));
	MQ_TRY(check_table(r));
	r->line = line;
	for (uint32_t i = r->first_row; i < r->n; i++) {
		r->row[i].sendrecv = r->kind == MQ_N_COLL_KINDS;
		r->row[i].kind = r->row[i].sendrecv ? MQ_COLL_ALL_REDUCE : (enum mq_coll_kind)r->kind;
		r->row[i].ranks = r->ranks;
		r->row[i].nodes = r->n_hosts;
	}
	r->ranks = r->n_hosts = 0;
	return MQ_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool names_columns(char *const *word, uint32_t n)
{
	bool size = false, time = false, bandwidth = false;

	for (uint32_t i = 0; i < n; i++) {
		size |= !strncmp(word[i], "size", 4); /* "size(B)" of other programs is refused later */
		time |= size && (!strncmp(word[i], "time", 4) || !strcmp(word[i], "cputime"));
		bandwidth |= time && !strncmp(word[i], "algbw", 5);
	}
	return bandwidth;
}

static enum mq_status take_line(struct reader *r, char *line)
{
	char *word[MAX_WORDS];
	double bytes, count;

	mq_text_strip_controls(line);
	if (strstr(line, "NCCL INFO") || strstr(line, "NCCL WARN")) {
		r->speaks = true;
		return MQ_OK;
	}
	MQ_TRY(take_name(r, line));
	uint32_t n = split(line, word), type;
	if (names_columns(word, n))
		return take_header(r, word, n);
	for (uint32_t i = 0; i + 1 < n; i++)
		if (!strcmp(word[i], "Rank") || !strcmp(word[i], "#Rank"))
			return take_rank(r, word, n, i);
	type = find_type(word, n, &bytes, &count);
	return type < MAX_WORDS ? take_row(r, word, n, type, bytes, count) : MQ_OK;
}

/* ---- JSON (-J) --------------------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Reads a result. `run`: the object of its times; `alg_bw`, `bus_bw`: the program's names of these keys. */
static enum mq_status take_result(struct reader *r, const json_t *result, const json_t *run, const char *alg_bw,
				  const char *bus_bw)
{
	const double off[2] = { 1e-6, 1e-6 }; /* six digits are printed */
	double bytes = number_of(result, "size"), time = number_of(run, "time"), algbw = number_of(run, alg_bw);
	double busbw = number_of(run, bus_bw);

	if (json_object_get(run, "cpu_time"))
		return wrong(r, "times of the processor (-C) are not those of the collective: run it without -C");
	if (!(bytes >= 0 && bytes <= 1e15) || !(time >= 0 && time <= 1e12) || !(algbw >= 0) || !(busbw >= 0))
		return wrong(r, "a result without numbers in size, time, algorithm and bus bandwidth");
	if (number_of(run, "nwrong") > 0)
		return wrong(r, "this run got wrong results (nwrong): its times mean nothing");
	if (bytes > 0 && fabs(algbw * time - 1e-3 * bytes) > 1e-2 * 1e-3 * bytes + 1e-6 * (time + algbw))
		return wrong(r, "size over time is not the algorithm bandwidth of this result");
	if (bytes > 0)
		add_row(r, bytes, time, algbw, busbw, off);
	return MQ_OK;
}

/* Reads the devices: a process lists its first one, the others follow. */
static enum mq_status take_devices(struct reader *r, const json_t *config)
{
	const json_t *devices = json_object_get(config, "devices"), *device;
	double each = number_of(config, "nthreads") * number_of(config, "ngpus"), last = -1, rank;
	size_t i;

	json_array_foreach(devices, i, device) {
		const char *host = json_string_value(json_object_get(device, "hostname"));

		rank = number_of(device, "rank");
		last = rank > last ? rank : last;
		if (host)
			add_host(r, host);
	}
	if (!(each >= 1 && each <= MOST_RANKS) || !(last >= 0 && last <= MOST_RANKS))
		return wrong(r, "\"config\" does not say how many ranks there were");
	r->ranks = (uint32_t)(json_array_size(devices) > last ? last + 1 : last + each);
	return MQ_OK;
}

/* rccl-tests' -Z json: a list of results, in and out of place, each with the name of the collective and its ranks. */
static enum mq_status take_list(struct reader *r, const json_t *root)
{
	const json_t *first = json_array_get(root, 0), *result;
	const char *name = json_string_value(json_object_get(first, "name"));
	double ranks = number_of(first, "ranks"), nodes = number_of(first, "nodes");
	size_t i;

	r->kind = name ? kind_in(name, strlen(name)) : r->named;
	MQ_TRY(check_kind(r));
	if (!(ranks >= 1 && ranks <= MOST_RANKS) || !(nodes >= 1 && nodes <= ranks))
		return wrong(r, "\"ranks\" and \"nodes\" do not say how many there were");
	r->ranks = (uint32_t)ranks;
	r->n_hosts = (uint32_t)nodes;
	json_array_foreach(root, i, result) {
		const char *bad = json_string_value(json_object_get(result, "wrong"));

		r->line = (uint32_t)i + 1;
		if (!json_equal(json_object_get(first, "name"), json_object_get(result, "name")) ||
		    number_of(result, "ranks") != ranks)
			return wrong(r, "a result of another collective or of other ranks: a file for each");
		if (number_of(result, "wrong") > 0 || (bad && strtod(bad, NULL) > 0))
			return wrong(r, "this run got wrong results (wrong): its times mean nothing");
		if (number_of(result, "inPlace") == 0)
			MQ_TRY(take_result(r, result, result, "algBw", "busBw"));
	}
	return MQ_OK;
}

static enum mq_status take_json(struct reader *r, const json_t *root)
{
	const char *program = json_string_value(json_array_get(json_object_get(root, "args"), 0));
	const json_t *result, *results = json_object_get(root, "results");
	size_t i;

	r->in_table = true;
	if (json_is_array(root))
		return take_list(r, root);
	if (!json_is_array(results))
		return mq_bad(r->err, "%s: no \"results\": no JSON of nccl-tests (-J)", r->path);
	r->kind = program ? kind_in(basename(program), strlen(basename(program))) : UNKNOWN;
	r->kind = r->kind == UNKNOWN ? r->named : r->kind;
	MQ_TRY(check_kind(r));
	MQ_TRY(take_devices(r, json_object_get(root, "config")));
	json_array_foreach(results, i, result) {
		const json_t *run = json_object_get(result, "out_of_place");

		r->line = (uint32_t)i + 1;
		MQ_TRY(take_result(r, result, json_is_object(run) ? run : json_object_get(result, "in_place"), "alg_bw",
				   "bus_bw"));
	}
	return MQ_OK;
}

static enum mq_status read_lines(struct reader *r, FILE *file)
{
	char *line = NULL;
	size_t size = 0;
	enum mq_status status = MQ_OK;

	while (status == MQ_OK && getline(&line, &size, file) >= 0) {
		r->line++;
		status = take_line(r, line);
	}
	free(line);
	return status;
}

enum mq_status mq_nccl_log_load(const char *path, struct mq_arena *arena, struct mq_nccl_row **row, uint32_t *n,
				struct mq_err *err)
{
	const char *base = basename(path);
	struct reader *r = mq_arena_array(arena, 1, struct reader);
	FILE *file = fopen(path, "r");
	json_auto_t *root = NULL;

	if (!file)
		return mq_bad(err, "%s: cannot open the log: %s", path, strerror(errno));
	*r = (struct reader){ .path = path, .err = err, .arena = arena };
	r->named = r->kind = kind_in(base, strlen(base));
	char head[64] = "";
	bool json = fread(head, 1, sizeof(head) - 1, file) && (*head == '{' || strstr(head, "\"numCycle\""));
	rewind(file);
	enum mq_status status = json ? mq_json_file_load(path, &root, err) : read_lines(r, file);
	fclose(file);
	MQ_TRY(status);
	if (json)
		MQ_TRY(take_json(r, root));
	MQ_TRY(end_table(r));
	if (!r->n)
		return mq_bad(err, "%s: no rows of a nccl-tests table found%s", path,
			      r->speaks ? ": what NCCL_DEBUG prints tells which links are used, not how long a call "
					  "takes; give the table that all_reduce_perf prints" :
					  "");
	*row = r->row;
	*n = r->n;
	return MQ_OK;
}
