/* train.c - records of searches, and training on them; see net.h. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "lib/plans.h"
#include "tag/net.h"

#define MAGIC "maquette-tag-record"

/* ---- records ------------------------------------------------------------------------------------------------ */

/* The arrays of a record in file order: indices less than `below`, or numbers. */
struct part {
	uint32_t **index, below;
	double **number;
	size_t n;
};

enum { N_PARTS = 8 };

static void list_parts(struct mq_tag_record *r, struct part part[N_PARTS])
{
	struct mq_tag_view *v = &r->view;
	uint32_t nodes = v->n_ops + v->n_devices;
	const struct part parts[N_PARTS] = {
		{ &v->mask, 1u << v->n_devices, NULL, v->n_actions },
		{ &v->src, nodes, NULL, v->n_edges },
		{ &v->dst, nodes, NULL, v->n_edges },
		{ NULL, 0, &v->op.data, (size_t)v->n_ops * MQ_TAG_OP_INPUTS },
		{ NULL, 0, &v->device.data, (size_t)v->n_devices * MQ_TAG_DEVICE_FEATURES },
		{ NULL, 0, &v->edge.data, (size_t)v->n_edges * MQ_TAG_EDGE_INPUTS },
		{ NULL, 0, &v->action.data, (size_t)v->n_actions * MQ_TAG_ACTION_FEATURES },
		{ NULL, 0, &r->target, v->n_actions },
	};

	memcpy(part, parts, sizeof(parts));
}

enum mq_status mq_tag_records_append(const char *path, const struct mq_tag_record *record, uint32_t n,
				     struct mq_err *err)
{
	FILE *f = fopen(path, "a");

	if (!f)
		return mq_bad(err, "%s: cannot write records: %s", path, strerror(errno));
	for (uint32_t i = 0; i < n; i++) {
		struct mq_tag_record r = record[i];
		const struct mq_tag_view *v = &r.view;
		struct part part[N_PARTS];

		list_parts(&r, part);

		fprintf(f, MAGIC " 1 %llu %u %u %u %u %u\n", (unsigned long long)record[i].question, v->n_ops,
			v->n_devices, v->n_actions, v->n_edges, v->next);
		for (const struct part *p = part; p < part + N_PARTS; p++) {
			for (size_t k = 0; k < p->n; k++)
				p->index ? fprintf(f, " %u", (*p->index)[k]) : fprintf(f, " %.6g", (*p->number)[k]);
			fputc('\n', f);
		}
	}
	bool bad = ferror(f) != 0;
	if (fclose(f) || bad)
		return mq_bad(err, "%s: cannot write records: %s", path, strerror(errno));
	return MQ_OK;
}

bool mq_tag_records_probe(const char *path)
{
	char start[sizeof(MAGIC)] = "";
	FILE *f = fopen(path, "r");
	bool good = f && fgets(start, sizeof(start), f) && !strcmp(start, MAGIC);

	if (f)
		fclose(f);
	return good;
}

static bool read_part(FILE *f, struct mq_arena *arena, const struct part *p)
{
	if (p->index)
		*p->index = mq_arena_array(arena, p->n, uint32_t);
	else
		*p->number = mq_arena_array(arena, p->n, double);
	for (size_t i = 0; i < p->n; i++)
		if (p->index ? fscanf(f, "%u", &(*p->index)[i]) != 1 || (*p->index)[i] >= p->below :
			       fscanf(f, "%lf", &(*p->number)[i]) != 1 || !isfinite((*p->number)[i]))
			return false;
	return true;
}

static bool read_record(FILE *f, struct mq_arena *arena, struct mq_tag_record *r)
{
	struct mq_tag_view *v = &r->view;
	unsigned long long question;
	struct part part[N_PARTS];
	double sum = 0;
	enum { MOST = 1000000 };

	if (fscanf(f, " 1 %llu %u %u %u %u %u", &question, &v->n_ops, &v->n_devices, &v->n_actions, &v->n_edges,
		   &v->next) != 6 ||
	    !v->n_ops || v->n_ops > MOST || !v->n_devices || v->n_devices > MQ_TAG_MAX_GROUPS || !v->n_actions ||
	    v->n_actions > MOST || v->n_edges > MOST || v->next >= v->n_ops)
		return false;
	r->question = question;
	v->op = (struct nn_mat){ .rows = v->n_ops, .cols = MQ_TAG_OP_INPUTS };
	v->device = (struct nn_mat){ .rows = v->n_devices, .cols = MQ_TAG_DEVICE_FEATURES };
	v->edge = (struct nn_mat){ .rows = v->n_edges, .cols = MQ_TAG_EDGE_INPUTS };
	v->action = (struct nn_mat){ .rows = v->n_actions, .cols = MQ_TAG_ACTION_FEATURES };
	list_parts(r, part);
	for (uint32_t i = 0; i < N_PARTS; i++)
		if (!read_part(f, arena, &part[i]))
			return false;
	for (uint32_t a = 0; a < v->n_actions; a++)
		sum += r->target[a];
	return fabs(sum - 1) < 1e-3;
}

enum mq_status mq_tag_records_load(const char *path, struct mq_arena *arena, uint32_t *n, struct mq_tag_record **record,
				   struct mq_err *err)
{
	FILE *f = fopen(path, "r");
	char word[sizeof(MAGIC) + 1];
	uint32_t room = 0;
	enum mq_status status = MQ_OK;

	*n = 0;
	*record = NULL;
	if (!f)
		return mq_bad(err, "%s: cannot open the records: %s", path, strerror(errno));
	while (status == MQ_OK && fscanf(f, "%20s", word) == 1) {
		struct mq_tag_record r = { 0 };

		if (strcmp(word, MAGIC) || !read_record(f, arena, &r))
			status = mq_bad(err, "%s: record %u is broken or of another version; make the records again",
					path, *n);
		else
			MQ_PUSH(arena, *record, *n, room, r);
	}
	fclose(f);
	if (status == MQ_OK && !*n)
		return mq_bad(err, "%s: holds no records", path);
	return status;
}

/* ---- training ------------------------------------------------------------------------------------------------ */

/* KL divergence from the target (0 = reproduced); if learn > 0, adds learn x its gradient. */
static double divergence(struct mq_tag_net *net, const struct mq_tag_record *r, struct mq_arena *pass, double learn)
{
	struct nn_tape t;
	struct nn_mat target = nn_mat_new(pass, 1, r->view.n_actions);
	double own = 0;

	for (uint32_t a = 0; a < r->view.n_actions; a++) {
		target.data[a] = -r->target[a];
		own += r->target[a] > 0 ? r->target[a] * log(r->target[a]) : 0;
	}
	nn_tape_begin(&t, pass);
	struct nn_var loss = nn_sum(&t, nn_mul(&t, mq_tag_net_run(net, &t, &r->view), nn_constant(&t, target)));
	if (learn > 0)
		nn_backward(&t, nn_scale(&t, loss, learn));
	double value = nn_value(&t, loss)->data[0] + own;
	nn_forget(pass);
	return value;
}

struct course {
	struct mq_tag_net *net;
	const struct mq_tag_training *how;
	const struct mq_problem *problem;
	const struct mq_tag_record *record;
	uint32_t n, *order;
	struct nn_adam adam;
};

/* One epoch; the mean divergence on training and held-out records. False: the time is over. */
static bool run_epoch(struct course *c, uint32_t epoch, double *learnt, double *apart)
{
	MQ_SCOPED struct mq_arena pass = MQ_ARENA_INIT;
	uint32_t n[2] = { 0, 0 }, since = 0;
	double sum[2] = { 0, 0 };

	c->adam.rate = c->how->rate * pow(0.1, (double)epoch / c->how->epochs);
	MQ_SHUFFLE(c->problem->rng, c->order, c->n)
	for (uint32_t i = 0; i < c->n; i++) {
		const struct mq_tag_record *r = &c->record[c->order[i]];
		bool test = mq_hash(MQ_HASH_INIT, &r->question, sizeof(r->question)) % 10 == 0; /* held out */

		if (!mq_tick(c->problem, (epoch + (double)i / c->n) / c->how->epochs, "training"))
			return false;
		sum[test] += divergence(c->net, r, &pass, test ? 0 : 1.0 / c->how->batch);
		n[test]++;
		if (!test && ++since == c->how->batch) {
			nn_adam_step(&c->adam, &c->net->params);
			since = 0;
		}
	}
	nn_clear_grads(&c->net->params);
	*learnt = sum[0] / fmax(n[0], 1);
	*apart = n[1] ? sum[1] / n[1] : *learnt;
	return true;
}

enum mq_status mq_tag_net_train(struct mq_tag_net *net, const struct mq_tag_training *how, const struct mq_problem *p,
				const struct mq_tag_record *record, uint32_t n, struct mq_err *err)
{
	struct course c = { .net = net, .how = how, .problem = p, .record = record, .n = n };
	struct nn_params *params = &net->params;
	double **best = mq_arena_array(p->arena, params->n, double *), least = INFINITY;
	uint32_t best_epoch = 0;

	if (!n)
		return mq_bad(err, "engine 'tag': no records to train on");
	nn_adam_init(&c.adam, how->rate, 0.6);
	c.order = mq_arena_count(p->arena, n);
	for (uint32_t i = 0; i < params->n; i++)
		best[i] = mq_arena_array(p->arena, params->param[i]->value.rows * params->param[i]->value.cols, double);
	for (uint32_t epoch = 0; epoch < how->epochs; epoch++) {
		double learnt, apart;

		if (!run_epoch(&c, epoch, &learnt, &apart))
			break;
		mq_say(p, "epoch %u: divergence %.4f nats on what it learns, %.4f on questions kept apart", epoch + 1,
		       learnt, apart);
		if (apart >= least)
			continue;
		least = apart;
		best_epoch = epoch + 1;
		for (uint32_t i = 0; i < params->n; i++)
			memcpy(best[i], params->param[i]->value.data,
			       (size_t)params->param[i]->value.rows * params->param[i]->value.cols * sizeof(double));
	}
	for (uint32_t i = 0; best_epoch && i < params->n; i++)
		memcpy(params->param[i]->value.data, best[i],
		       (size_t)params->param[i]->value.rows * params->param[i]->value.cols * sizeof(double));
	mq_say(p, "kept the weights of epoch %u: divergence %.4f nats on questions kept apart", best_epoch, least);
	return MQ_OK;
}
