/* collectives.c - `score --collectives`: compares the communication model with published timings of collectives and
 * sends.
 *
 * results/README.md has the columns; bytes are those of nccl-tests. The time includes the benchmark: a process that
 * drives G GPUs with one thread launches on one after the other, so a call takes its host at least G (launch +
 * launch_channel x channels), and the GPUs launched first wait for the others: SKEW x G x launch_channel x channels.
 * Processes or threads of one GPU each (nccl-tests -t) launch in parallel.
 *
 * With --left-out each system of a table is predicted without the values fitted to it; siblings of its link classes
 * replace them (mq_calib_leave_out). Constants of the library's model (collectives/tune.c) stay.
 *
 * Refused, with the reason: rows that the table refuses, and a single small size that took much longer than both its
 * neighbours (first use of a connection). SPDX-License-Identifier: Apache-2.0 */
#include "score/score.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "score/fabrics.h"
#include "maquette/collective.h"

#define SKEW        1.4  /* factor on the launch time of the channels, for which the first GPUs wait */
#define SPIKE       1.5  /* factor on both neighbours' times */
#define SPIKE_BYTES 1024 /* up to this size */
#define ALIGNMENT   16.0 /* bytes per access of a copy */
#define SMALL_BYTES 65536.0
#define LARGE_BYTES 4194304.0

enum { CLASS_LARGE, CLASS_MEDIUM, CLASS_SMALL, N_CLASSES };
static const char *const class_names[N_CLASSES] = { ">=4MB", "64kB-4MB", "<64kB" };

struct coll_row {
	const struct mq_csv *csv; /* its row `i` */
	uint32_t i, line, gpus;
	const char *table, *platform, *kind, *system;
	double bytes, measured_s, predicted_s;
	const char *refusal; /* NULL = scored */
	/* The prediction, for score.csv. */
	enum mq_algo algo;
	enum mq_proto proto;
	uint32_t channels;
};

struct coll_rows {
	struct coll_row *row;
	uint32_t n, room;
};

static const char *cell(const struct coll_row *row, const char *column)
{
	return mq_csv_word(row->csv, row->i, column);
}

static enum mq_status positive(const struct coll_row *row, const char *column, double *value, struct mq_err *err)
{
	return mq_csv_range(row->csv, row->i, column, NAN, 1e-6, 1e15, value, err);
}

static enum mq_status read_table(const struct mq_score_options *o, const char *path, struct coll_rows *rows,
				 struct mq_err *err)
{
	static const char needed[] = "gpu gpus collective bytes time_us";
	struct mq_csv *csv = mq_arena_array(o->arena, 1, struct mq_csv);
	const char *lacks;

	MQ_TRY(mq_csv_load(path, o->arena, csv, err));
	if (!mq_csv_has(csv, needed, &lacks))
		return mq_bad(err,
			      "%s: no column '%.*s'; timings of collectives have %s and what results/README.md lists; "
			      "tests/kernel-timings writes them",
			      path, (int)strcspn(lacks, " "), lacks, needed);
	mq_score_unused(csv, "collective bytes time_us refused", mq_fabric_columns);
	for (uint32_t i = 0; i < csv->n_rows; i++) {
		struct coll_row row = { .csv = csv, .i = i, .table = path, .line = csv->line[i] };
		double us, gpus;

		MQ_TRY(positive(&row, "bytes", &row.bytes, err));
		MQ_TRY(positive(&row, "time_us", &us, err));
		MQ_TRY(positive(&row, "gpus", &gpus, err));
		row.measured_s = us * 1e-6;
		row.gpus = (uint32_t)fmin(gpus, 1e6);
		row.kind = cell(&row, "collective");
		row.system = cell(&row, "system");
		MQ_PUSH(o->arena, rows->row, rows->n, rows->room, row);
	}
	return MQ_OK;
}

/* Do two rows of one table have the same system and run? */
static bool same_system(const struct coll_row *a, const struct coll_row *b)
{
	if (a->csv != b->csv)
		return false;
	for (uint32_t c = 0; c < a->csv->n_columns; c++)
		if (mq_text_has_word(mq_fabric_columns, a->csv->header[c]) &&
		    strcmp(mq_csv_text(a->csv, a->i, c), mq_csv_text(b->csv, b->i, c)) != 0)
			return false;
	return !strcmp(cell(a, "note"), cell(b, "note"));
}

static bool is_spike(const struct coll_rows *rows, uint32_t i)
{
	const struct coll_row *r = &rows->row[i];
	bool above = false;

	if (r->bytes > SPIKE_BYTES)
		return false;
	for (int side = -1; side <= 1; side += 2) {
		uint32_t at = i + (uint32_t)side;

		if (at >= rows->n || !same_system(r, &rows->row[at]) || strcmp(r->kind, rows->row[at].kind))
			continue;
		if (r->measured_s < SPIKE * rows->row[at].measured_s)
			return false;
		above = true;
	}
	return above;
}

/* The time that the benchmark prints if a call takes the devices device_s. */
static double printed_time(const struct mq_fabric_spec *spec, const struct mq_calib *calib, uint32_t channels,
			   double device_s)
{
	const struct mq_device_calib *device = mq_calib_device(calib, spec->type);
	const char *class = spec->inside == MQ_INSIDE_HOST ? "host" :
			    spec->inside == MQ_INSIDE_PCIE ? "pcie" :
							     "nvlink";
	const struct mq_link_calib *link = mq_calib_link_for(calib, class, device->compute_capability);
	double gpus = spec->per_thread, per_channel;

	if (!link)
		return device_s;
	per_channel = gpus * link->launch_channel_s * channels;
	return fmax(gpus * link->launch_s + per_channel, device_s + (gpus > 1 ? SKEW * per_channel : 0));
}

static enum mq_status predict_send(const struct mq_cluster *cluster, const struct mq_calib *calib, struct coll_row *row,
				   double *device_s, struct mq_err *err)
{
	*device_s = 0;
	for (uint32_t i = 0; i < cluster->n_devices; i++) {
		double latency_s, rate_Bps, alone_s;

		MQ_TRY(mq_p2p_expand(cluster, calib, i, (i + 1) % cluster->n_devices, row->bytes, &latency_s, &rate_Bps,
				     &alone_s, err));
		*device_s = fmax(*device_s, alone_s);
	}
	return MQ_OK;
}

static enum mq_status predict_collective(const struct mq_cluster *cluster, const struct mq_calib *calib,
					 const struct mq_fabric_spec *spec, struct coll_row *row, double *device_s,
					 struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	int kind = MQ_ENUM_FIND(mq_coll_name, MQ_N_COLL_KINDS, row->kind);
	struct mq_coll_flows flows = { .n_flows = 0 };
	struct mq_coll_request request = {
		.n = cluster->n_devices,
		.bytes = row->bytes,
		.dtype = MQ_FP32,
		.algo = spec->algo,
		.proto = spec->proto,
		.misaligned = fmod(row->bytes / cluster->n_devices, ALIGNMENT) > 0,
	};
	uint32_t *rank;
	enum mq_status status;

	if (kind >= MQ_N_COLL_KINDS)
		return mq_bad(err,
			      "collective '%s' is not one of all_reduce all_gather "
			      "reduce_scatter broadcast reduce alltoall sendrecv",
			      row->kind);
	rank = mq_arena_count(&scratch, cluster->n_devices);
	request.kind = (enum mq_coll_kind)kind;
	request.rank = rank;
	status = mq_collective_expand(cluster, calib, &request, &scratch, &flows, err);
	*device_s = flows.alone_s;
	row->algo = flows.algo;
	row->proto = flows.proto;
	row->channels = flows.channels;
	return status;
}

/* The system of a row, reused while the next row has the same. */
struct system {
	const struct coll_row *row;
	struct mq_fabric_spec spec;
	struct mq_cluster *cluster;
};

static enum mq_status predict(const struct mq_score_options *o, struct system *system, struct coll_row *row,
			      struct mq_err *err)
{
	struct mq_left_out what = { mq_score_stem(row->table, o->arena), row->system };
	struct mq_calib calib = o->left_out ? *mq_calib_leave_out(o->calib, &what, o->arena) : *o->calib;
	double device_s = 0;

	if (!system->cluster || !same_system(row, system->row)) {
		system->cluster = NULL;
		MQ_TRY(mq_fabric_read(row->csv, row->i, &calib, &system->spec, err));
		MQ_TRY(mq_fabric_build(&system->spec, &calib, o->arena, &system->cluster, err));
		system->row = row;
	}
	row->platform = system->cluster->name;
	calib.nccl_version = system->spec.nccl_version;
	if (!strcmp(row->kind, "sendrecv"))
		MQ_TRY(predict_send(system->cluster, &calib, row, &device_s, err));
	else
		MQ_TRY(predict_collective(system->cluster, &calib, &system->spec, row, &device_s, err));
	row->predicted_s = printed_time(&system->spec, &calib, row->channels, device_s);
	return MQ_OK;
}

static void predict_all(const struct mq_score_options *o, struct coll_rows *rows)
{
	struct system system = { .cluster = NULL };

	for (uint32_t i = 0; i < rows->n; i++) {
		struct coll_row *row = &rows->row[i];
		struct mq_err err = MQ_ERR_INIT;

		if (*cell(row, "refused"))
			row->refusal = cell(row, "refused");
		else if (is_spike(rows, i))
			row->refusal = "one small size far above its neighbours: a connection's first use";
		else if (predict(o, &system, row, &err) != MQ_OK)
			row->refusal = mq_arena_strdup(o->arena, err.text);
	}
}

static enum mq_status write_rows(const struct mq_score_options *o, const struct coll_rows *rows, struct mq_err *err)
{
	struct mq_csv_writer w;

	MQ_TRY(mq_csv_create(&w, mq_arena_printf(o->arena, "%s/score.csv", o->out),
			     "row_id,verdict,predicted_s,measured_s,error,predicted_mem_GB,measured_mem_GB,platform,"
			     "collective,gpus,bytes,algo,proto,channels",
			     err));
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct coll_row *r = &rows->row[i];
		const char *why = r->refusal;

		mq_csv_row(&w, "%s,%s,%g,%g,%g,,,%s,%s,%u,%g,%s,%s,%u",
			   mq_arena_printf(o->arena, "%s:%u", mq_score_stem(r->table, o->arena), r->line),
			   mq_verdict_name(why ? MQ_VERDICT_REFUSED : MQ_VERDICT_OK),
			   why ? (double)NAN : r->predicted_s, r->measured_s,
			   why ? (double)NAN : r->predicted_s / r->measured_s - 1, why ? why : r->platform, r->kind,
			   r->gpus, r->bytes, why ? "" : mq_algo_name(r->algo), why ? "" : mq_proto_name(r->proto),
			   r->channels);
	}
	return mq_csv_close(&w, err);
}

/* Rows of one table (NULL: all), of one system (NULL: all) and size class (N_CLASSES: all). */
static struct mq_score_line line_of(const struct mq_score_options *o, const struct coll_rows *rows, const char *table,
				    const char *system, int class)
{
	double *error = mq_arena_array(o->arena, rows->n, double);
	struct mq_score_line line = { .kind = o->left_out ? "system left out: collectives" : "collectives",
				      .spearman = NAN,
				      .regret = NAN };
	uint32_t n = 0;

	line.table = mq_arena_printf(o->arena, "%s%s%s",
				     system ? system :
				     table  ? mq_score_stem(table, o->arena) :
					      "all",
				     class < N_CLASSES ? " " : "", class < N_CLASSES ? class_names[class] : "");
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct coll_row *r = &rows->row[i];
		int own = r->bytes >= LARGE_BYTES ? CLASS_LARGE : r->bytes >= SMALL_BYTES ? CLASS_MEDIUM : CLASS_SMALL;

		if ((table && strcmp(table, r->table)) || (system && strcmp(system, r->system)) ||
		    (class < N_CLASSES && own != class))
			continue;
		if (r->refusal)
			line.refused++;
		else
			error[n++] = r->predicted_s / r->measured_s - 1;
	}
	line.stats = mq_errors_of(error, n, o->arena);
	return line;
}

/* Prints each reason once per table, with its number of rows. */
static void print_refusals(const struct coll_rows *rows, struct mq_arena *arena)
{
	const char **why = mq_arena_array(arena, rows->n, const char *);

	for (uint32_t i = 0; i < rows->n; i++)
		if (rows->row[i].refusal)
			why[i] = mq_arena_printf(arena, "%s: %s", rows->row[i].table, rows->row[i].refusal);
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct coll_row *r = &rows->row[i];
		uint32_t n = mq_score_same(why, rows->n, i);

		if (n)
			printf("%s: %u rows refused, first in line %u: %s\n", r->table, n, r->line, r->refusal);
	}
}

/* Prints the errors of each system's large sizes. */
static void put_systems(const struct mq_score_options *o, const struct coll_rows *rows, struct mq_csv_writer *w)
{
	for (uint32_t i = 0; i < rows->n; i++) {
		const struct coll_row *r = &rows->row[i];
		bool first = true;

		for (uint32_t k = 0; k < i && first; k++)
			first = strcmp(rows->row[k].table, r->table) || strcmp(rows->row[k].system, r->system);
		struct mq_score_line line = line_of(o, rows, r->table, r->system, CLASS_LARGE);
		if (first && line.stats.n)
			mq_score_put_line(w, &line, NULL);
	}
}

static enum mq_status write_summary(const struct mq_score_options *o, const struct coll_rows *rows,
				    const char *const *files, struct mq_err *err)
{
	struct mq_csv_writer w;
	bool last = false;

	MQ_TRY(mq_score_open_summary(o, &w, err));
	for (; !last; files++) {
		last = !*files;
		for (int class = 0; class <= N_CLASSES; class ++) {
			struct mq_score_line line = line_of(o, rows, *files, NULL, class);

			if (line.stats.n || line.refused)
				mq_score_put_line(&w, &line, NULL);
		}
	}
	if (o->left_out)
		put_systems(o, rows, &w);
	print_refusals(rows, o->arena);
	return mq_csv_close(&w, err);
}

enum mq_status mq_score_collectives(const struct mq_score_options *o, double *mean, struct mq_err *err)
{
	struct coll_rows rows = { .n = 0 };
	const char **files;

	MQ_TRY(mq_score_files(o->input, o->arena, &files, err));
	for (const char **file = files; *file; file++)
		MQ_TRY(read_table(o, *file, &rows, err));
	predict_all(o, &rows);
	MQ_TRY(write_rows(o, &rows, err));
	MQ_TRY(write_summary(o, &rows, files, err));
	*mean = line_of(o, &rows, NULL, NULL, N_CLASSES).stats.mean;
	return MQ_OK;
}
