/* model.c - `maquette model MODEL [--csv F] [--graph F]`: prints a model, in total and per op.
 *
 * FLOPs and activations are those of --batch samples (default 1) in elements of --dtype.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "session/session.h"
#include "session/pages/page.h"
#include "model/format.h"
#include "schedule/columns.h"

struct options {
	struct mq_asked asked;
	const char *csv, *graph;
	bool json;
};

#define ROW(kind, name, field, ...) MQ_ARG(kind, name, struct options, field, __VA_ARGS__)
static const struct mq_arg options[] = {
	ROW(TEXT, "MODEL", asked.model, NULL, NULL, .flags = MQ_ARG_POSITIONAL),
	ROW(TEXT, "csv", csv, "FILE", "one row per op"),
	ROW(TEXT, "graph", graph, "FILE", "the graph in JSON lines, which -m takes"),
	ROW(FLAG, "json", json, NULL, "print the totals as JSON"),
	{ .type = MQ_ARG_END },
};

static void put_op(struct mq_csv_writer *w, const struct mq_model *m, uint32_t id, const struct mq_train *train)
{
	const struct mq_op *op = &m->op[id];
	double samples = train->batch, elem_B = samples * mq_dtype_size(train->dtype);
	/* Edges of placement graphs are times, not sizes: see model.h. */
	bool times = m->devices.time_unit_s > 0 && m->devices.bw_Bps == 0;
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char *inputs = "";

	mq_csv_put(w, "%u,%s,%s,%s,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g,%g", id, op->name, mq_op_kind_name(op->kind),
		   mq_phase_name(op->phase), op->layer == MQ_NONE ? (double)NAN : op->layer, op->m, op->n, op->k,
		   op->count, op->flop * samples, train->infer ? 0 : op->flop_bwd * samples, op->param,
		   times ? (double)NAN : op->output * elem_B, op->read * elem_B, op->write * elem_B,
		   op->moved_bwd * elem_B, op->saved * elem_B + op->masks * (1 - elem_B / 2));
	for (uint32_t t = 0; t < m->profile.n_types; t++) {
		size_t at = (size_t)id * m->profile.n_types + t;

		mq_csv_put(w, "%g,%g", m->profile.forward_s[at] * samples,
			   m->profile.backward_s ? m->profile.backward_s[at] * samples : 0);
	}
	MQ_EACH_IN(m, id, e)
		inputs = mq_arena_printf(&scratch, "%s%s%u", inputs, *inputs ? " " : "", e->src);
	mq_csv_row(w, "%s", inputs);
}

static enum mq_status write_csv(const char *path, const struct mq_model *m, const struct mq_train *train,
				struct mq_arena *arena, struct mq_err *err)
{
	const char *header = mq_table[MQ_TABLE_operators].header;
	struct mq_csv_writer w;

	for (uint32_t t = 0; t < m->profile.n_types; t++)
		header = mq_arena_printf(arena, "%s,forward_s[%s],backward_s[%s]", header, m->profile.type[t],
					 m->profile.type[t]);
	header = mq_arena_printf(arena, "%s,inputs", header);
	MQ_TRY(mq_csv_create(&w, path, header, err));
	for (uint32_t i = 0; i < m->n_ops; i++)
		put_op(&w, m, i, train);
	return mq_csv_close(&w, err);
}

/* Amounts in readable units: 8.03 B, 85.6 M, 1.2 T. */
static const char *in_words(double x, const char *const unit[4], char text[24])
{
	int k = x >= 1e12 ? 3 : x >= 1e9 ? 2 : x >= 1e6 ? 1 : 0;

	snprintf(text, 24, "%.4g%s", k ? x / pow(1e3, k + 1) : x, unit[k]);
	return text;
}

static double active_parameters(const struct mq_model *m)
{
	double sum = 0;

	for (uint32_t i = 0; i < m->n_ops; i++)
		sum += mq_op_of_experts(&m->op[i]) && m->experts ? m->op[i].param * m->top_k / m->experts :
								   m->op[i].param;
	return sum;
}

/* The part of the model that an op belongs to: the first entry with a word that is in the op's name. */
static const char *part_of(const struct mq_op *op)
{
	static const struct {
		const char *name, *words;
	} parts[] = {
		{ "vision tower", "vision." },
		{ "audio tower", "audio." },
		{ "further tokens", "mtp" },
		{ "experts", "experts." },
		{ "shared experts", "shared." },
		{ "routers", "router latent.down latent.up" },
		{ "indexers", "index." },
		{ "embedding", "conv1 conv2 patches" },
		{ "modulation", "modulation" },
		{ "linear mixers", "in_proj out_proj conv scan x_proj dt_proj decay_ gate" },
		{ "norms", "norm" },
		{ "attention", "qkv .q .kv latent attention proj" },
		{ "feed-forward", ".up .down" },
		{ "embedding", "embedding position" },
		{ "head", "head" },
	};
	char word[16];
	int n;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		for (const char *c = parts[i].words; sscanf(c, "%15s%n", word, &n) == 1; c += n)
			if (strstr(op->name, word))
				return parts[i].name;
	return "other";
}

/* Parts with parameters, in the order of their first ops. */
static void print_parts(const struct mq_model *m, const char *const count[4], struct mq_arena *arena)
{
	const char **names = mq_arena_array(arena, m->n_ops, const char *);
	double *sums = mq_arena_array(arena, m->n_ops, double);
	uint32_t n = 0, j;
	char text[24];

	for (uint32_t i = 0; i < m->n_ops; i++) {
		const char *part = part_of(&m->op[i]);

		if (m->op[i].param <= 0)
			continue;
		for (j = 0; j < n && strcmp(names[j], part); j++)
			;
		n += j == n;
		names[j] = part;
		sums[j] += m->op[i].param;
	}
	for (j = 0; j < n; j++)
		printf("%s%s %s", j ? ", " : "parts: ", names[j], in_words(sums[j], count, text));
	putchar('\n');
}

static void print_words(const struct mq_model *m, const struct mq_train *train, struct mq_arena *arena)
{
	static const char *const count[4] = { "", " M", " B", " T" }, *const flop[4] = { " ", " M", " G", " T" };
	struct mq_model_totals t = mq_model_totals(m);
	char a[24], b[24];

	printf("in words: %s parameters", in_words(t.parameters, count, a));
	if (m->experts)
		printf(", %s of them active", in_words(active_parameters(m), count, b));
	if (m->n_layers)
		printf(", %u layers", m->n_layers);
	printf(", %sFLOP forward for %.0f %s%s", in_words(t.forward_flop * train->batch, flop, b), train->batch,
	       m->unit, train->batch > 1 ? "s" : "");
	if (m->tokens_per_sample > 0)
		printf(" of %.0f tokens", m->tokens_per_sample);
	putchar('\n');
	if (m->n_layers && m->hidden)
		print_parts(m, count, arena);
}

static void print_totals(const struct mq_model *m, const struct mq_train *train, bool json)
{
	struct mq_model_totals t = mq_model_totals(m);
	const struct {
		const char *key;
		double value;
		bool line; /* else print_words prints it */
	} rows[] = {
		{ "ops", m->n_ops, true },
		{ "layers", m->n_layers, false },
		{ "parameters", t.parameters, true },
		{ "active_parameters", active_parameters(m), m->experts },
		{ "batch", train->batch, false },
		{ "tokens_per_sample", m->tokens_per_sample, false },
		{ "forward_flop", t.forward_flop * train->batch, true },
		{ "backward_flop", train->infer ? 0 : t.backward_flop * train->batch, true },
		{ "activation_B", t.activation_elems * train->batch * mq_dtype_size(train->dtype), true },
	};
	const size_t n = sizeof(rows) / sizeof(*rows);

	for (size_t i = 0; i < n && !json; i++)
		if (rows[i].line)
			printf("%s %.15g\n", rows[i].key, rows[i].value);
	if (!json)
		return;
	mq_json_put_after(stdout, "{\"model\": ", m->name);
	mq_json_add_text(stdout, "sample", m->unit);
	for (size_t i = 0; i < n; i++)
		printf(", \"%s\": %.15g", rows[i].key, rows[i].value);
	puts("}");
}

static enum mq_status run(int argc, char **argv, struct mq_err *err)
{
	struct options o = { .csv = NULL };
	MQ_SCOPED struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_software_record software;
	struct mq_model *model = NULL;
	const struct mq_args args = {
		.table = { { mq_question_args, &o.asked }, { options, &o } },
		.args_doc = "MODEL",
		.doc = "Reads a model and prints its totals for --batch samples (default 1), a line each: ops, "
		       "parameters (and of models with experts active_parameters), forward_flop, backward_flop, "
		       "activation_B; then in words, and the parameters of each part.",
	};

	mq_asked_init(&o.asked);
	MQ_TRY(mq_args_parse(&args, argc, argv, err));
	if (!o.asked.model)
		return mq_bad(err, "no model given; use maquette model MODEL");
	if (o.graph && o.asked.train.tuning)
		return mq_bad(err, "--graph writes whole models; leave --train out and give it with the graph");
	const struct mq_model_request request = {
		.spec = o.asked.model, .train = &o.asked.train, .seq = o.asked.seq, .software = &software.software
	};
	MQ_TRY(mq_software_open(o.asked.software, &arena, &software, err));
	MQ_TRY(mq_model_load(&request, &arena, &model, err));
	if (o.csv)
		MQ_TRY(write_csv(o.csv, model, &o.asked.train, &arena, err));
	if (o.graph)
		MQ_TRY(mq_graph_write(&request, o.graph, err));
	if (model->note)
		fprintf(stderr, "note: %s\n", model->note);
	print_totals(model, &o.asked.train, o.json);
	if (!o.json)
		print_words(model, &o.asked.train, &arena);
	return MQ_OK;
}

MQ_DEFINE_COMMAND(model, "a model's ops, parameters, FLOPs and bytes, in total and per op");
