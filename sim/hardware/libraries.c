/* libraries.c - see libraries.h: the tables of platforms/kernels. SPDX-License-Identifier: Apache-2.0 */
#include "hardware/libraries.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/csv.h"
#include "maquette/kernel.h"

MQ_NAMES(mq_attention_library_name, enum mq_attention_library, MQ_N_LIBRARIES, "flash1", "cutlass", "triton1", "flash2",
	 "flash3", "cudnn", "triton", "flash2-paged", "flash3-paged", "triton-paged", "flashinfer", "trtllm-fmha",
	 "trtllm-gen", "flashinfer-trtllm")

MQ_NAMES(mq_experts_type_name, enum mq_experts_type, MQ_N_EXPERTS_TYPES, "16-bit", "fp8", "fp8-block", "mxfp4", "nvfp4")

MQ_NAMES(mq_part_name, enum mq_part, MQ_N_PARTS, "rms-norm", "rms-norm-wide", "add-rms-norm", "layer-norm", "rope",
	 "rope-complex", "gate", "gate-joined", "gelu", "relu-squared", "softmax", "loss", "embedding", "add", "bias",
	 "dropout", "dropout-add", "copy", "scores", "mask", "cast", "batch-norm", "pool", "pool-tap", "depthwise",
	 "channel-scale")

MQ_NAMES(mq_make_name, enum mq_make, MQ_N_MAKES, "eager", "native", "compiled", "fused", "fused-old", "megatron",
	 "apart", "xla", "tensorflow", "autocast", "composite")

struct table {
	struct mq_csv csv;
	uint32_t row;
	struct mq_err *err;
};

static const char *text_of(const struct table *t, const char *column)
{
	return mq_csv_word(&t->csv, t->row, column);
}

static enum mq_status refuse(const struct table *t, const char *column, const char *why)
{
	return mq_bad(t->err, "%s:%u: %s '%s' %s", t->csv.path, t->csv.line[t->row], column, text_of(t, column), why);
}

/* Every row has a source. */
static enum mq_status open_table(struct table *t, const char *path, const char *columns, struct mq_arena *arena)
{
	MQ_TRY(mq_csv_load_of(path, columns, arena, &t->csv, t->err));
	for (t->row = 0; t->row < t->csv.n_rows; t->row++)
		if (!*text_of(t, "source"))
			return refuse(t, "source", "is empty; say where the row is from");
	return MQ_OK;
}

static enum mq_status number(const struct table *t, const char *column, double most, double *value)
{
	return mq_csv_range(&t->csv, t->row, column, 0, 0, most, value, t->err);
}

static const char unknown_word[] = "is unknown; platforms/kernels/README.md has the words";

static enum mq_status word(const struct table *t, const char *column, const char *(*name)(int), int n, int *value)
{
	*value = mq_enum_find(name, n, text_of(t, column));
	return *value < n ? MQ_OK : refuse(t, column, unknown_word);
}

/* The position of the cell among words. */
#define CHOICE(t, column, value, ...) choice(t, column, (const char *const[]){ __VA_ARGS__, NULL }, value)
static enum mq_status choice(const struct table *t, const char *column, const char *const *words, int *value)
{
	for (*value = 0; words[*value]; ++*value)
		if (!strcmp(words[*value], text_of(t, column)))
			return MQ_OK;
	return refuse(t, column, unknown_word);
}

enum numbers { EXPERTS, EXCHANGE, PRODUCTS, PARTS, ATTENTION }; /* the first three: enum mq_library_rows */

#define COLUMN(table, type, column, most, unit, field, positive)                  \
	{                                                                         \
		table, column, most, unit, offsetof(struct type, field), positive \
	}
static const struct column {
	enum numbers table;
	const char *name;
	double most, unit;
	size_t at;
	bool positive;
} columns[] = {
#include "hardware/library_rows.def"
};
#undef COLUMN

/* Stores the numeric cells of the row in the fields that `values` lists. */
static enum mq_status read_numbers(const struct table *t, enum numbers which, void *values)
{
	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++) {
		const struct column *c = &columns[i];
		double *value = (double *)(void *)((char *)values + c->at);

		if (c->table != which)
			continue;
		MQ_TRY(number(t, c->name, c->most, value));
		if (c->positive && !(*value > 0))
			return refuse(t, c->name, "must be positive");
		*value *= c->unit;
	}
	return MQ_OK;
}

static enum mq_status read_generations(struct mq_libraries *l, const char *path, struct mq_arena *arena,
				       struct mq_err *err)
{
	struct table t = { .err = err };

	MQ_TRY(open_table(&t, path, "generation,capability,also,older_kernels,source", arena));
	if (!t.csv.n_rows || t.csv.n_rows > MQ_MAX_GENERATIONS)
		return mq_bad(err, "%s: %u generations; give 1 to %d", path, t.csv.n_rows, MQ_MAX_GENERATIONS);
	for (t.row = 0; t.row < t.csv.n_rows; t.row++) {
		struct mq_generation *g = &l->generation[t.row];

		g->name = text_of(&t, "generation");
		MQ_TRY(number(&t, "capability", 1000, &g->capability[0]));
		MQ_TRY(number(&t, "also", 1000, &g->capability[1]));
		MQ_TRY(number(&t, "older_kernels", 1, &g->older_kernels));
		if (!(g->older_kernels > 0))
			return refuse(&t, "older_kernels", "must be positive");
		if (t.row ? g->capability[0] <= g[-1].capability[0] : g->capability[0] > 0)
			return refuse(&t, "capability", "is out of order; the first is 0, the oldest comes first");
		for (uint32_t i = 0; i < t.row; i++)
			if (!strcmp(l->generation[i].name, g->name))
				return refuse(&t, "generation", "is there twice; delete a row");
	}
	l->n_generations = t.csv.n_rows;
	return MQ_OK;
}

/* The row of generations.csv that the cell names. */
static enum mq_status generation(const struct table *t, const struct mq_libraries *l, uint32_t *row)
{
	for (*row = 0; *row < l->n_generations; ++*row)
		if (!strcmp(l->generation[*row].name, text_of(t, "generation")))
			return MQ_OK;
	return refuse(t, "generation", "is not in generations.csv");
}

uint32_t mq_generation_of(const struct mq_libraries *l, double compute_capability)
{
	double most = -1;
	uint32_t own = 0;

	for (uint32_t g = 0; g < l->n_generations; g++)
		for (int i = 0; i < 2; i++) {
			double from = l->generation[g].capability[i];

			if (compute_capability >= from && from > most && (!i || from > 0)) {
				most = from;
				own = g;
			}
		}
	return own;
}

static enum mq_status read_attention(struct mq_libraries *l, const char *path, struct mq_arena *arena,
				     struct mq_err *err)
{
	static const enum mq_attention_library needed[] = { MQ_LIBRARY_CUTLASS, MQ_LIBRARY_FLASH2 };
	struct table t = { .err = err };
	int type, library;

	MQ_TRY(open_table(&t, path,
			  "library,type,generation,forward_64,forward_128,forward_256,backward_64,backward_128,"
			  "backward_256,start_forward,start_backward,tail,source",
			  arena));
	for (t.row = 0; t.row < t.csv.n_rows; t.row++) {
		uint32_t g;

		MQ_TRY(word(&t, "library", (const char *(*)(int))mq_attention_library_name, MQ_N_LIBRARIES, &library));
		MQ_TRY(CHOICE(&t, "type", &type, "16-bit", "fp8", "mxfp8"));
		MQ_TRY(generation(&t, l, &g));
		struct mq_attention_rates *r = &l->attention[type][library][g];
		if (r->start[0] > 0)
			return refuse(&t, "library", "is there twice for this type and generation; delete a row");
		MQ_TRY(read_numbers(&t, ATTENTION, r));
		for (int w = 0; w < MQ_ATTENTION_WIDTHS; w++)
			if (r->start[1] > 0 && !(r->backward[w] > 0))
				return refuse(&t, "start_backward", "needs backward_64, backward_128 and backward_256");
	}
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!(l->attention[MQ_ATTENTION_16_BIT][needed[i]][0].start[0] > 0))
			return mq_bad(err, "%s: no 16-bit row of %s on %s, which others fall back to", path,
				      mq_attention_library_name(needed[i]), l->generation[0].name);
	return MQ_OK;
}

static const char *direction_name(int combine)
{
	return combine ? "combine" : "dispatch";
}

static enum mq_status read_rows(struct mq_libraries *l, enum mq_library_rows which, const char *dir,
				struct mq_arena *arena, struct mq_err *err)
{
	static const struct {
		const char *file, *kind, *columns;
		const char *(*name)(int);
		int n;
	} layouts[MQ_N_ROWS] = {
		{ "experts", "type", "library,type,generation,share,tile,bw_share,fixed_us,passes,remote,source",
		  (const char *(*)(int))mq_experts_type_name, MQ_N_EXPERTS_TYPES },
		{ "exchange", "direction",
		  "library,direction,generation,each,fixed_us,fixed_nodes,token_ns,sm_GBps,link_share,net_share,"
		  "net_sm_GBps,source",
		  direction_name, 2 },
		{ "products", "scaling", "library,scaling,generation,share,column,cast_B,cast_work,row_ns,casts,source",
		  (const char *(*)(int))mq_scaling_name, MQ_N_SCALINGS },
	};
	const char *path = mq_arena_printf(arena, "%s/%s.csv", dir, layouts[which].file);
	struct table t = { .err = err };

	MQ_TRY(open_table(&t, path, layouts[which].columns, arena));
	struct mq_library_row *list = mq_arena_array(arena, t.csv.n_rows, struct mq_library_row);
	for (t.row = 0; t.row < t.csv.n_rows; t.row++) {
		struct mq_library_row *row = &list[t.row];

		row->library = text_of(&t, "library");
		MQ_TRY(generation(&t, l, &row->generation));
		MQ_TRY(word(&t, layouts[which].kind, layouts[which].name, layouts[which].n, &row->kind));
		MQ_TRY(read_numbers(&t, (enum numbers)which, &row->experts));
		if (which == MQ_ROWS_EXCHANGE && !(row->exchange.each > 0) &&
		    !(row->exchange.multiprocessor_Bps > 0 && row->exchange.net_multiprocessor_Bps > 0))
			return refuse(&t, "sm_GBps", "is no speed: it and net_sm_GBps must be positive");
	}
	l->row[which] = list;
	l->n_rows[which] = t.csv.n_rows;
	return MQ_OK;
}

const struct mq_library_row *mq_library_row(const struct mq_libraries *l, enum mq_library_rows rows,
					    const char *library, int kind, double compute_capability)
{
	const struct mq_library_row *best = NULL;
	uint32_t own = mq_generation_of(l, compute_capability);

	for (const struct mq_library_row *k = l->row[rows]; k < l->row[rows] + l->n_rows[rows]; k++) {
		bool older = k->generation <= own;

		if (k->kind != kind || strcmp(k->library, library) != 0)
			continue;
		if (!best || (older ? best->generation > own || k->generation > best->generation :
				      best->generation > own && k->generation < best->generation))
			best = k;
	}
	return best;
}

static enum mq_status read_pass(const struct table *t, struct mq_part_pass *p)
{
	static const struct {
		const char *column;
		size_t at;
	} bytes[] = { { "calls", offsetof(struct mq_part_pass, calls) },
		      { "held", offsetof(struct mq_part_pass, held) },
		      { "alone", offsetof(struct mq_part_pass, alone) },
		      { "blocked", offsetof(struct mq_part_pass, blocked) },
		      { "done", offsetof(struct mq_part_pass, done) } };
	double value;
	int per, cast;

	MQ_TRY(read_numbers(t, PARTS, p));
	for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
		MQ_TRY(number(t, bytes[i].column, 255, &value));
		if (value != floor(value))
			return refuse(t, bytes[i].column, "is not a whole number");
		*((uint8_t *)p + bytes[i].at) = (uint8_t)value;
	}
	MQ_TRY(CHOICE(t, "per", &per, "", "weight", "row", "looked"));
	MQ_TRY(CHOICE(t, "cast", &cast, "", "16-bit", "bf16"));
	p->per = (uint8_t)per;
	p->cast = (uint8_t)cast;
	return p->moved > 0 || p->moved_B > 0 || p->serial_s > 0 ? MQ_OK : refuse(t, "moved", "moves nothing");
}

/* Parts that models need with any software. */
static enum mq_status check_needed(const struct mq_libraries *l, const char *path, struct mq_err *err)
{
	static const struct {
		enum mq_part part;
		enum mq_make make;
	} needed[] = {
		{ MQ_PART_BATCH_NORM, MQ_MAKE_APART },     { MQ_PART_BATCH_NORM, MQ_MAKE_NATIVE },
		{ MQ_PART_POOL, MQ_MAKE_NATIVE },          { MQ_PART_POOL_TAP, MQ_MAKE_NATIVE },
		{ MQ_PART_DEPTHWISE, MQ_MAKE_NATIVE },     { MQ_PART_DEPTHWISE, MQ_MAKE_FUSED },
		{ MQ_PART_DEPTHWISE, MQ_MAKE_FUSED_OLD },  { MQ_PART_DEPTHWISE, MQ_MAKE_TENSORFLOW },
		{ MQ_PART_DEPTHWISE, MQ_MAKE_XLA },        { MQ_PART_CHANNEL_SCALE, MQ_MAKE_APART },
		{ MQ_PART_CHANNEL_SCALE, MQ_MAKE_NATIVE }, { MQ_PART_ADD, MQ_MAKE_AUTOCAST },
		{ MQ_PART_DROPOUT_ADD, MQ_MAKE_AUTOCAST }, { MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE },
		{ MQ_PART_GELU, MQ_MAKE_COMPOSITE },       { MQ_PART_CAST, MQ_MAKE_AUTOCAST },
		{ MQ_PART_SCORES, MQ_MAKE_EAGER },         { MQ_PART_SCORES, MQ_MAKE_NATIVE },
		{ MQ_PART_SCORES, MQ_MAKE_APART },         { MQ_PART_SCORES, MQ_MAKE_XLA },
		{ MQ_PART_SCORES, MQ_MAKE_TENSORFLOW },    { MQ_PART_SCORES, MQ_MAKE_AUTOCAST },
		{ MQ_PART_MASK, MQ_MAKE_EAGER },           { MQ_PART_MASK, MQ_MAKE_NATIVE },
		{ MQ_PART_BIAS, MQ_MAKE_NATIVE },          { MQ_PART_BIAS, MQ_MAKE_APART },
		{ MQ_PART_COPY, MQ_MAKE_NATIVE },          { MQ_PART_ROPE, MQ_MAKE_EAGER },
		{ MQ_PART_ROPE_COMPLEX, MQ_MAKE_EAGER },
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!l->part[needed[i].part][needed[i].make])
			return mq_bad(err, "%s: no rows of %s %s, which models need; restore them", path,
				      mq_part_name(needed[i].part), mq_make_name(needed[i].make));
	return MQ_OK;
}

static enum mq_status read_parts(struct mq_libraries *l, const char *path, struct mq_arena *arena, struct mq_err *err)
{
	struct table t = { .err = err };
	uint8_t passes[MQ_N_PARTS][MQ_N_MAKES][2] = { 0 };
	int part, make, backward;
	double pass;

	MQ_TRY(open_table(&t, path,
			  "part,make,direction,pass,moved,moved_B,made,made_B,freed,freed_B,looked,again,work,serial_s,"
			  "per,cast,calls,held,alone,blocked,done,note,source",
			  arena));
	for (t.row = 0; t.row < t.csv.n_rows; t.row++) {
		MQ_TRY(word(&t, "part", (const char *(*)(int))mq_part_name, MQ_N_PARTS, &part));
		MQ_TRY(word(&t, "make", (const char *(*)(int))mq_make_name, MQ_N_MAKES, &make));
		MQ_TRY(CHOICE(&t, "direction", &backward, "forward", "backward"));
		MQ_TRY(number(&t, "pass", MQ_PASSES, &pass));
		if (pass != ++passes[part][make][backward])
			return refuse(&t, "pass", "is there twice or out of order; number the rows of a list 1, 2, 3");
		/* Rows of a list arrive one by one, so the list is still written to. */
		struct mq_part_kernels *list = (struct mq_part_kernels *)(uintptr_t)l->part[part][make];
		if (!list)
			l->part[part][make] = list = mq_arena_array(arena, 1, struct mq_part_kernels);
		list->part = (enum mq_part)part;
		list->make = (enum mq_make)make;
		list->source = text_of(&t, "source");
		MQ_TRY(read_pass(&t, &(backward ? list->backward : list->forward)[(int)pass - 1]));
	}
	return check_needed(l, path, err);
}

enum mq_status mq_libraries_load(struct mq_libraries *l, const char *calib_dir, struct mq_arena *arena,
				 struct mq_err *err)
{
	const char *dir = mq_arena_printf(arena, "%.*skernels", (int)(basename(calib_dir) - calib_dir), calib_dir);

	*l = (struct mq_libraries){ .n_generations = 0 };
	MQ_TRY(mq_libraries_load_nccl(&l->nccl, mq_arena_printf(arena, "%s/nccl.json", calib_dir), err));
	MQ_TRY(read_generations(l, mq_arena_printf(arena, "%s/generations.csv", dir), arena, err));
	MQ_TRY(read_attention(l, mq_arena_printf(arena, "%s/attention.csv", dir), arena, err));
	for (enum mq_library_rows i = 0; i < MQ_N_ROWS; i++)
		MQ_TRY(read_rows(l, i, dir, arena, err));
	return read_parts(l, mq_arena_printf(arena, "%s/parts.csv", dir), arena, err);
}
