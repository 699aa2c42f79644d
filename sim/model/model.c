/* model.c - building, checking and summing up models: see model.h.
 *
 * mq_model_finish sorts the ops topologically by Kahn's algorithm, lowest ready id first, so that a sorted graph keeps
 * its ids. Parallel edges are one tensor used twice and become one edge. SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "model/format.h"
#include "maquette/kernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

MQ_NAMES(mq_kernel_kind_name, enum mq_kernel_kind, MQ_N_KERNEL_KINDS, "gemm", "conv", "attention", "memory",
	 "embedding", "optimizer", "recurrent", "copy", "timed", "host-update", "scan", "call", "wait")

MQ_NAMES(mq_scaling_name, enum mq_scaling, MQ_N_SCALINGS, "tensor", "token", "block", "mx", "nvfp4")

MQ_NAMES(mq_attention_name, enum mq_attention_kernel, MQ_N_ATTENTIONS, "stored", "eager", "masked-softmax", "xla",
	 "tensorflow", "fused-softmax", "flash1", "triton1", "flash2", "flash3", "te")

MQ_NAMES(mq_model_part_name, enum mq_model_part, MQ_N_MODEL_PARTS, "mamba1", "mamba2", "delta-net", "lightning",
	 "short-conv", "indexer", "tower")
MQ_NAMES(mq_op_kind_name, enum mq_op_kind, MQ_N_OP_KINDS, "input", "embedding", "gemm", "conv", "attention", "bmm",
	 "norm", "softmax", "elementwise", "pool", "reshape", "scan", "recurrent", "router", "dispatch", "combine",
	 "loss", "profiled")

void mq_model_begin(struct mq_model_builder *b, struct mq_arena *arena, const char *name)
{
	*b = (struct mq_model_builder){ .arena = arena };
	b->model = mq_arena_array(arena, 1, struct mq_model);
	b->model->name = mq_arena_strdup(arena, name);
	b->model->unit = "sample";
}

uint32_t mq_model_add(struct mq_model_builder *b, enum mq_op_kind kind, const char *name)
{
	struct mq_model *m = b->model;
	struct mq_op op = {
		.name = mq_arena_strdup(b->arena, name),
		.kind = kind,
		.phase = MQ_FORWARD,
		.mate = MQ_NONE,
		.layer = MQ_NONE,
		.color = MQ_NONE,
		.tied = MQ_NONE,
		.splits = 1u << MQ_DIM_BATCH,
		.extent = { [MQ_DIM_BATCH] = 1 },
	};

	MQ_PUSH(b->arena, m->op, m->n_ops, b->op_room, op);
	return m->n_ops - 1;
}

void mq_model_connect(struct mq_model_builder *b, uint32_t src, uint32_t dst, double elems)
{
	struct mq_model *m = b->model;
	struct mq_edge edge = { .src = src, .dst = dst, .elems = elems };

	mq_assert(src < m->n_ops && dst < m->n_ops);
	MQ_PUSH(b->arena, m->edge, m->n_edges, b->edge_room, edge);
}

/* ---- order ----------------------------------------------------------------------------------- */

MQ_COMPARE(by_src_dst, struct mq_edge, MQ_ORDER(a->src, b->src) ?: MQ_ORDER(a->dst, b->dst))

/* Sorts the edges, merges parallel ones and fills out_first, in_first and in_edge. */
static void index_edges(struct mq_model *m, struct mq_arena *arena)
{
	uint32_t kept = 0;

	if (m->n_edges)
		qsort(m->edge, m->n_edges, sizeof(*m->edge), by_src_dst);
	for (uint32_t i = 0; i < m->n_edges; i++) {
		struct mq_edge *last = kept ? &m->edge[kept - 1] : NULL;
		const struct mq_edge *e = &m->edge[i];

		if (last && last->src == e->src && last->dst == e->dst) {
			if (!(last->elems >= e->elems)) /* keeps a NaN for the check to find */
				last->elems = e->elems;
			last->no_grad = last->no_grad && e->no_grad;
		} else {
			m->edge[kept++] = *e;
		}
	}
	m->n_edges = kept;
	if (!m->edge) /* loops without edges still do arithmetic on the pointer */
		m->edge = mq_arena_array(arena, 1, struct mq_edge);
	m->out_first = mq_arena_array(arena, m->n_ops + 1, uint32_t);
	for (uint32_t i = 0; i < m->n_edges; i++)
		m->out_first[m->edge[i].src + 1]++;
	for (uint32_t i = 0; i < m->n_ops; i++)
		m->out_first[i + 1] += m->out_first[i];
	/* edges are sorted by src: so is each list */
	mq_csr_make(arena, m->n_ops, m->n_edges, &m->edge->dst, NULL, sizeof(*m->edge), &m->in_first, &m->in_edge);
}

/* A binary heap of op ids, least first. */
struct heap {
	uint32_t *id;
	uint32_t n;
};

static void heap_push(struct heap *h, uint32_t id)
{
	uint32_t i = h->n++;

	for (; i && h->id[(i - 1) / 2] > id; i = (i - 1) / 2)
		h->id[i] = h->id[(i - 1) / 2];
	h->id[i] = id;
}

static uint32_t heap_pop(struct heap *h)
{
	uint32_t least = h->id[0], last = h->id[--h->n], i = 0;

	for (uint32_t child; (child = 2 * i + 1) < h->n; i = child) {
		if (child + 1 < h->n && h->id[child + 1] < h->id[child])
			child++;
		if (h->id[child] >= last)
			break;
		h->id[i] = h->id[child];
	}
	h->id[i] = last;
	return least;
}

/* Finds a cycle: walks back through blocked ops until one repeats. blocked: number of missing inputs. */
static enum mq_status report_cycle(const struct mq_model *m, const uint32_t *blocked, struct mq_arena *arena,
				   struct mq_err *err)
{
	uint8_t *seen = mq_arena_array(arena, m->n_ops, uint8_t);
	uint32_t op = 0;

	while (!blocked[op])
		op++;
	while (!seen[op]) {
		seen[op] = 1;
		MQ_EACH_IN(m, op, e)
			if (blocked[e->src]) {
				op = e->src;
				break;
			}
	}
	return mq_bad(err, "model '%s': op '%s' is on a cycle; a model must be a graph without cycles", m->name,
		      m->op[op].name);
}

static void renumber_profile(struct mq_model *m, const uint32_t *order, struct mq_arena *arena)
{
	double **table[] = { &m->profile.forward_s, &m->profile.backward_s, &m->profile.memory_B };
	const uint32_t width[] = { m->profile.n_types, m->profile.n_types, 1 };

	for (size_t t = 0; t < sizeof(table) / sizeof(*table); t++) {
		uint32_t n = width[t];

		if (!n || !*table[t])
			continue;
		double *sorted = mq_arena_array(arena, (size_t)m->n_ops * n, double);
		for (uint32_t i = 0; i < m->n_ops; i++)
			memcpy(&sorted[(size_t)i * n], &(*table[t])[(size_t)order[i] * n], n * sizeof(double));
		*table[t] = sorted;
	}
}

/* order[new id] = old id. Also renumbers profile tables that are already filled. */
static void renumber(struct mq_model *m, const uint32_t *order, struct mq_arena *arena)
{
	uint32_t *id_of = mq_arena_array(arena, m->n_ops, uint32_t);
	struct mq_op *sorted = mq_arena_array(arena, m->n_ops, struct mq_op);

	for (uint32_t i = 0; i < m->n_ops; i++)
		id_of[order[i]] = i;
	for (uint32_t i = 0; i < m->n_ops; i++) {
		sorted[i] = m->op[order[i]];
		if (sorted[i].mate < m->n_ops)
			sorted[i].mate = id_of[sorted[i].mate];
		if (sorted[i].tied < m->n_ops)
			sorted[i].tied = id_of[sorted[i].tied];
	}
	m->op = sorted;
	for (uint32_t i = 0; i < m->n_edges; i++) {
		m->edge[i].src = id_of[m->edge[i].src];
		m->edge[i].dst = id_of[m->edge[i].dst];
	}
	renumber_profile(m, order, arena);
}

static enum mq_status sort_ops(struct mq_model *m, struct mq_arena *arena, struct mq_err *err)
{
	uint32_t *blocked = mq_arena_array(arena, m->n_ops, uint32_t);
	uint32_t *order = mq_arena_array(arena, m->n_ops, uint32_t);
	struct heap ready = { .id = mq_arena_array(arena, m->n_ops, uint32_t) };
	uint32_t done = 0;
	bool same = true;

	for (uint32_t i = 0; i < m->n_ops; i++) {
		blocked[i] = m->in_first[i + 1] - m->in_first[i];
		if (!blocked[i])
			heap_push(&ready, i);
	}
	while (ready.n) {
		uint32_t op = heap_pop(&ready);

		same = same && op == done;
		order[done++] = op;
		MQ_EACH_OUT(m, op, e)
			if (!--blocked[e->dst])
				heap_push(&ready, e->dst);
	}
	if (done < m->n_ops)
		return report_cycle(m, blocked, arena, err);
	if (!same) {
		renumber(m, order, arena);
		index_edges(m, arena);
	}
	return MQ_OK;
}

enum mq_status mq_model_finish(struct mq_model_builder *b, struct mq_model **model, struct mq_err *err)
{
	struct mq_model *m = b->model;

	if (!m->n_ops)
		return mq_bad(err, "model '%s' has no ops; give at least one", m->name);
	index_edges(m, b->arena);
	MQ_TRY(sort_ops(m, b->arena, err));
	for (uint32_t op = 0; op < m->n_ops; op++)
		m->volumes |= m->op[op].volume;
	MQ_TRY(mq_model_check(m, err));
	mq_model_find_alike(m, b->arena);
	*model = m;
	return MQ_OK;
}

/* ---- check ----------------------------------------------------------------------------------- */

/* clang-format off */
#define AMOUNT(field) { #field, offsetof(struct mq_op, field) }
const struct mq_op_amount mq_op_amounts[] = {
	AMOUNT(m), AMOUNT(n), AMOUNT(k), AMOUNT(count), AMOUNT(flop), AMOUNT(flop_bwd), AMOUNT(read), AMOUNT(write),
	AMOUNT(moved_bwd), AMOUNT(fixed_bwd), AMOUNT(param), AMOUNT(output), AMOUNT(saved), AMOUNT(saved_selective),
	AMOUNT(masks), AMOUNT(winograd), AMOUNT(window), AMOUNT(host_flop), AMOUNT(halo), AMOUNT(kernels),
	AMOUNT(rotated), { NULL, 0 }
};
/* clang-format on */

static enum mq_status check_amounts(const struct mq_model *m, const struct mq_op *op, struct mq_err *err)
{
	for (const struct mq_op_amount *a = mq_op_amounts; a->name; a++) {
		double value = *(const double *)((const char *)op + a->offset);

		if (!isfinite(value) || value < 0)
			return mq_bad(err, "model '%s': op '%s' has %s = %g; it must be finite and not negative",
				      m->name, op->name, a->name, value);
	}
	if (op->saved_selective > op->saved)
		return mq_bad(err, "model '%s': op '%s' can free %g saved elements but keeps only %g", m->name,
			      op->name, op->saved_selective, op->saved);
	for (int d = 0; d < MQ_N_DIMS; d++) {
		bool may = op->splits >> d & 1;

		if (!isfinite(op->extent[d]) || op->extent[d] < 0 || (may && op->extent[d] < 1))
			return mq_bad(err, "model '%s': op '%s' has extent %g along '%s'; it must be %s", m->name,
				      op->name, op->extent[d], mq_dim_name(d),
				      may ? "at least 1 to be split" : "finite and not negative");
	}
	return MQ_OK;
}

static enum mq_status check_links(const struct mq_model *m, uint32_t id, struct mq_err *err)
{
	const struct mq_op *op = &m->op[id];

	if (op->mate != MQ_NONE &&
	    (op->mate >= m->n_ops || m->op[op->mate].mate != id || m->op[op->mate].phase == op->phase))
		return mq_bad(err,
			      "model '%s': op '%s' has a mate that is not its counterpart; "
			      "forward and backward ops name each other",
			      m->name, op->name);
	if (op->tied != MQ_NONE &&
	    (op->tied >= m->n_ops || op->tied == id || m->op[op->tied].tied != MQ_NONE || op->param != 0))
		return mq_bad(err,
			      "model '%s': op '%s' is tied to an op that does not own parameters, "
			      "or has some of its own",
			      m->name, op->name);
	if (op->layer != MQ_NONE && op->layer >= m->n_layers)
		return mq_bad(err, "model '%s': op '%s' is in layer %u of %u", m->name, op->name, op->layer,
			      m->n_layers);
	if ((unsigned)op->kind >= MQ_N_OP_KINDS || op->phase > MQ_BACKWARD || op->splits >> MQ_N_DIMS)
		return mq_bad(err, "model '%s': op '%s' has an unknown kind, phase or dimension", m->name, op->name);
	return MQ_OK;
}

static enum mq_status check_names(const struct mq_model *m, struct mq_err *err)
{
	MQ_SCOPED struct mq_arena scratch = MQ_ARENA_INIT;
	const char **name = mq_arena_array(&scratch, m->n_ops, const char *);
	const char *twice = NULL;

	for (uint32_t i = 0; i < m->n_ops; i++)
		name[i] = m->op[i].name ? m->op[i].name : "";
	qsort(name, m->n_ops, sizeof(*name), mq_by_text);
	for (uint32_t i = 1; i < m->n_ops && !twice; i++)
		if (!strcmp(name[i - 1], name[i]))
			twice = name[i];
	bool empty = !*name[0];
	if (empty)
		return mq_bad(err, "model '%s': an op has no name", m->name);
	if (twice)
		return mq_bad(err, "model '%s': two ops are called '%s'; names must be unique", m->name, twice);
	return MQ_OK;
}

static enum mq_status check_edges(const struct mq_model *m, struct mq_err *err)
{
	for (uint32_t i = 0; i < m->n_edges; i++) {
		const struct mq_edge *e = &m->edge[i];

		if (e->src >= e->dst || e->dst >= m->n_ops)
			return mq_bad(err,
				      "model '%s': edge %u joins op %u to op %u of %u; edges must lead to later ops",
				      m->name, i, e->src, e->dst, m->n_ops);
		if (!isfinite(e->elems) || e->elems < 0)
			return mq_bad(err,
				      "model '%s': the tensor from '%s' to '%s' has %g elements; "
				      "the size must be finite and not negative",
				      m->name, m->op[e->src].name, m->op[e->dst].name, e->elems);
		if (i < m->out_first[e->src] || i >= m->out_first[e->src + 1] || (i && by_src_dst(e - 1, e) >= 0))
			return mq_bad(err, "model '%s': edge %u is out of order in the edge list", m->name, i);
	}
	return MQ_OK;
}

static enum mq_status check_profile(const struct mq_model *m, struct mq_err *err)
{
	const struct mq_profile *p = &m->profile;

	for (size_t i = 0; i < (size_t)m->n_ops * p->n_types; i++) {
		double f = p->forward_s[i], b = p->backward_s ? p->backward_s[i] : 0;

		if (isnan(f) || f < 0 || isnan(b) || b < 0)
			return mq_bad(err,
				      "model '%s': op '%s' has a measured time of %g on '%s'; "
				      "times must not be negative",
				      m->name, m->op[i / p->n_types].name, isnan(f) || f < 0 ? f : b,
				      p->type[i % p->n_types]);
	}
	for (uint32_t i = 0; p->memory_B && i < m->n_ops; i++)
		if (!isfinite(p->memory_B[i]) || p->memory_B[i] < 0)
			return mq_bad(err,
				      "model '%s': op '%s' holds %g bytes; the size must be finite and not negative",
				      m->name, m->op[i].name, p->memory_B[i]);
	return MQ_OK;
}

enum mq_status mq_model_check(const struct mq_model *m, struct mq_err *err)
{
	if (!m->n_ops)
		return mq_bad(err, "model '%s' has no ops", m->name);
	MQ_TRY(check_names(m, err));
	for (uint32_t i = 0; i < m->n_ops; i++) {
		MQ_TRY(check_amounts(m, &m->op[i], err));
		MQ_TRY(check_links(m, i, err));
	}
	MQ_TRY(check_edges(m, err));
	return check_profile(m, err);
}

struct mq_model_totals mq_model_totals(const struct mq_model *model)
{
	const struct mq_model_devices *d = &model->devices;
	bool times = (d->n_accelerators || d->n_cpus) && d->bw_Bps == 0; /* no sizes: model.h */
	struct mq_model_totals t = { 0 };

	for (uint32_t i = 0; i < model->n_ops; i++) {
		const struct mq_op *op = &model->op[i];

		t.parameters += op->param;
		if (op->phase == MQ_FORWARD)
			t.forward_flop += op->flop;
		t.backward_flop += op->phase == MQ_FORWARD ? op->flop_bwd : op->flop;
		t.activation_elems += times ? 0 : op->output;
	}
	return t;
}

struct mq_conv_image mq_conv_image_part(const struct mq_op *op, double strips)
{
	struct mq_conv_image i = op->image;
	double out = i.out_h / strips, in = i.h / strips;

	if (op->kind != MQ_OP_CONV || op->volume || out != floor(out) || in != floor(in))
		return (struct mq_conv_image){ 0 };
	i.out_h = (uint16_t)out;
	i.h = (uint16_t)in;
	return i;
}
