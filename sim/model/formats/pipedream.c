/* pipedream.c - PipeDream's profiles, graph.txt (Narayanan et al., SOSP 2019): measured layers.
 *
 * A node line is "nodeN -- description -- forward_compute_time=MS, backward_compute_time=MS, activation_size=B,
 * parameter_size=B", all for one minibatch in fp32 on one GPU that the file does not name; an edge line is a tab and
 * "nodeA -- nodeB". Nodes named Input hold the time of loading data; they are dropped, as in PipeDream's own optimizer.
 *
 * Our amounts are per sample, so the minibatch must be known. It follows from a fully connected layer (activation_size
 * = 4 bytes x minibatch x out_features) or from an LSTM's second output, its state (4 bytes x minibatch x width); else
 * the option batch=N must give it. device=TYPE is the device type of the times; without it they hold on any type.
 *
 * Sizes are in elements of 4 bytes: use --dtype fp32 with these models. Saved for the backward pass: every output
 * except views of, and in-place updates of, an input. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/formats/lib/file.h"

enum { MAX_BYTES = 1 << 28 };

static const double MAX_MS = 1e12, MAX_B = 1e18, ELEMENT_B = 4;

struct options {
	double batch;
	const char *device;
};

static const struct mq_opt opts[] = {
	MQ_F64(struct options, batch, 0, 1, 1e9, "samples of the profiled minibatch"),
	MQ_STR(struct options, device, "*", "device type on which the times hold; * = any"), MQ_END
};

struct node {
	const char *id, *about;
	uint32_t line, op; /* op: MQ_NONE for dropped inputs */
	double forward_ms, backward_ms, param_B;
	double activation_B; /* all outputs together */
	double second_B;     /* the second output of several, else 0 */
};

struct reader {
	const char *path;
	struct mq_arena *arena;
	struct options options;
	struct mq_model_builder b;
	struct node *node; /* in file order, then sorted by id */
	uint32_t n_nodes, room;
};

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static enum mq_status bad_line(const struct reader *r, uint32_t line, const char *what, struct mq_err *err)
{
	return mq_bad(err,
		      "%s:%u: %s; a line is 'nodeN -- description -- forward_compute_time=MS, "
		      "backward_compute_time=MS, activation_size=B, parameter_size=B' or '<tab>nodeA -- nodeB'",
		      r->path, line, what);
}

/* "key=NUMBER" or "key=[N; N; ...]" inside `text`: the sum, and the second of several. */
static bool read_value(const char *text, const char *key, double max, double *sum, double *second)
{
	const char *at = strstr(text, key);
	double value;
	char *end;

	if (!at)
		return false;
	at += strlen(key);
	bool list = *at == '[';
	*sum = 0;
	for (uint32_t n = 0;; n++) {
		at += list;
		while (list && *at == ' ')
			at++;
		if ((*at < '0' || *at > '9') && *at != '.') /* no sign, no nan, no inf */
			return false;
		value = strtod(at, &end);
		if (end == at || value > max)
			return false;
		*sum += value;
		if (n == 1 && second)
			*second = value;
		at = end;
		if (!list || *at != ';')
			break;
	}
	return list ? *at == ']' : !*at || *at == ',' || *at == ' ';
}

static enum mq_status read_node(struct reader *r, char *text, uint32_t line, struct mq_err *err)
{
	char *about = strstr(text, " -- "), *values = NULL;
	struct node n = { .line = line, .op = MQ_NONE };

	if (about)
		values = strstr(about + 4, " -- forward_compute_time=");
	if (!about || !values || about == text)
		return bad_line(r, line, "not a node", err);
	*about = *values = '\0';
	n.id = text;
	n.about = about + 4;
	values += 4;
	const struct {
		const char *key;
		double max, *value, *second;
	} rows[] = {
		{ "forward_compute_time=", MAX_MS, &n.forward_ms, NULL },
		{ "backward_compute_time=", MAX_MS, &n.backward_ms, NULL },
		{ "activation_size=", MAX_B, &n.activation_B, &n.second_B },
		{ "parameter_size=", MAX_B, &n.param_B, NULL },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!read_value(values, rows[i].key, rows[i].max, rows[i].value, rows[i].second))
			return mq_bad(err, "%s:%u: %s no number from 0 to %g; check the profile", r->path, line,
				      rows[i].key, rows[i].max);
	MQ_PUSH(r->arena, r->node, r->n_nodes, r->room, n);
	return MQ_OK;
}

/* The number behind `key` in a description, or 0. */
static double dimension(const char *about, const char *key)
{
	const char *at = strstr(about, key);

	return at ? strtod(at + strlen(key), NULL) : 0;
}

static double implied_batch(const struct node *n)
{
	double batch = 0, width;

	if (starts(n->about, "Linear(") && (width = dimension(n->about, "out_features=")) >= 1)
		batch = n->activation_B / (ELEMENT_B * width);
	else if (starts(n->about, "LSTM(") && n->second_B > 0 && (width = dimension(n->about, ", ")) >= 1)
		batch = n->second_B / (ELEMENT_B * width);
	return batch >= 1 && batch < 1e9 && batch == (uint32_t)batch ? batch : 0;
}

static enum mq_status find_batch(struct reader *r, struct mq_err *err)
{
	const struct node *by = NULL;
	double found = 0;

	for (uint32_t i = 0; i < r->n_nodes && !r->options.batch; i++) {
		double batch = implied_batch(&r->node[i]);

		if (batch && found && batch != found)
			return mq_bad(err,
				      "%s: line %u implies a minibatch of %.9g, line %u one of %.9g; say %s:batch=N",
				      r->path, by->line, found, r->node[i].line, batch, r->path);
		if (batch && !found) {
			found = batch;
			by = &r->node[i];
		}
	}
	if (!r->options.batch)
		r->options.batch = found;
	if (!r->options.batch)
		return mq_bad(err, "%s: no layer tells the minibatch of the profile; say %s:batch=N", r->path, r->path);
	return MQ_OK;
}

/* Views own no memory; in-place layers overwrite their input. */
static bool is_view(const char *about)
{
	static const char *const views[] = { "View(", "Size(", "__getitem__(", "hidden", "ReLU(inplace" };

	for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++)
		if (starts(about, views[i]))
			return true;
	return false;
}

static void add_ops(struct reader *r)
{
	struct mq_profile *p = &r->b.model->profile;
	double batch = r->options.batch;

	p->n_types = 1;
	p->type = mq_arena_array(r->arena, 1, const char *);
	p->type[0] = r->options.device;
	p->forward_s = mq_arena_array(r->arena, r->n_nodes, double);
	p->backward_s = mq_arena_array(r->arena, r->n_nodes, double);
	for (uint32_t i = 0; i < r->n_nodes; i++) {
		struct node *n = &r->node[i];

		if (starts(n->about, "Input"))
			continue;
		n->op = mq_model_add(
			&r->b, MQ_OP_PROFILED,
			mq_arena_printf(r->arena, "%s.%.*s", n->id, (int)strcspn(n->about, "( "), n->about));
		struct mq_op *op = &r->b.model->op[n->op];
		op->param = n->param_B / ELEMENT_B;
		op->output = n->activation_B / ELEMENT_B / batch;
		op->saved = is_view(n->about) ? 0 : op->output;
		op->kernels = 1;
		p->forward_s[n->op] = n->forward_ms * 1e-3 / batch;
		p->backward_s[n->op] = n->backward_ms * 1e-3 / batch;
	}
}

MQ_COMPARE(by_id, struct node, strcmp(a->id, b->id))

static enum mq_status read_edge(struct reader *r, char *text, uint32_t line, struct mq_err *err)
{
	char *dash = strstr(text, " -- ");

	if (!dash)
		return bad_line(r, line, "not an edge", err);
	*dash = '\0';
	const struct node wanted[2] = { { .id = text }, { .id = dash + 4 } };
	const struct node *end[2];
	for (int i = 0; i < 2; i++) {
		end[i] = bsearch(&wanted[i], r->node, r->n_nodes, sizeof(*r->node), by_id);
		if (!end[i])
			return mq_bad(err, "%s:%u: no node is called '%s'", r->path, line, wanted[i].id);
	}
	if (end[0]->op == MQ_NONE || end[1]->op == MQ_NONE)
		return MQ_OK;
	bool item = starts(end[1]->about, "__getitem__("); /* takes one of several outputs */
	const struct mq_op *op = &r->b.model->op[end[item]->op];
	mq_model_connect(&r->b, end[0]->op, end[1]->op, op->output);
	return MQ_OK;
}

/* Calls `read` on every line that is (or is not) an edge. */
static enum mq_status each_line(struct reader *r, const char *text, bool edges, struct mq_err *err)
{
	char *line = mq_arena_strdup(r->arena, text);

	for (uint32_t number = 1; line; number++) {
		char *next = strchr(line, '\n');

		if (next)
			*next++ = '\0';
		size_t n = strlen(line);
		if (n && line[n - 1] == '\r')
			line[--n] = '\0';
		if (n && (*line == '\t') == edges)
			MQ_TRY(edges ? read_edge(r, line + 1, number, err) : read_node(r, line, number, err));
		line = next;
	}
	return MQ_OK;
}

static enum mq_status load(const char *path, const struct mq_model_request *request, struct mq_arena *arena,
			   struct mq_model **model, struct mq_err *err)
{
	struct reader r = { .path = path, .arena = arena };
	struct mq_bytes bytes;

	mq_opt_defaults(opts, &r.options);
	MQ_TRY(mq_opt_parse(opts, &r.options, path, mq_file_options(path, request), arena, err));
	MQ_TRY(mq_file_read(path, MAX_BYTES, arena, &bytes, err));
	if (strlen(bytes.data) != bytes.size)
		return mq_bad(err, "%s: byte %zu is zero; the file must be text", path, strlen(bytes.data));
	mq_model_begin(&r.b, arena, mq_file_stem(path, arena));
	MQ_TRY(each_line(&r, bytes.data, false, err));
	MQ_TRY(find_batch(&r, err));
	add_ops(&r);
	if (r.n_nodes)
		qsort(r.node, r.n_nodes, sizeof(*r.node), by_id);
	for (uint32_t i = 1; i < r.n_nodes; i++)
		if (!strcmp(r.node[i - 1].id, r.node[i].id))
			return mq_bad(err, "%s: two nodes are called '%s'; names must differ", path, r.node[i].id);
	MQ_TRY(each_line(&r, bytes.data, true, err));
	return mq_model_finish(&r.b, model, err) == MQ_OK ? MQ_OK : mq_wrap(err, "%s", path);
}

static bool probe(const char *path, const char *head, size_t size)
{
	return strstr(head, "forward_compute_time=") != NULL;
}

const struct mq_format mq_format_pipedream = {
	.name = "pipedream",
	.summary = "PipeDream graph.txt (FILE[:batch=N,device=TYPE])",
	.probe = probe,
	.load = load,
};
