/* fine_tune.c - see fine_tune.h. Turns a model into one of which a part is trained.
 *
 * A LoRA adapter of a GEMM [m x k][k x n] is two GEMMs, [m x k][k x r] and [m x r][r x n], and a sum. Adapters of parts
 * of a GEMM (queries alone) are one pair per part, of its columns. Tensor parallelism splits them as Megatron's
 * ParallelLinearAdapter: the first as the GEMM itself, the second by columns.
 *
 * Gradients flow back to what is trained and no further: an op has no backward pass if nothing is trained in it or
 * before it. A frozen GEMM computes the gradient of its input alone, so its input is not saved for it.
 *
 * Not modelled: adapters of convolutions, embeddings and the head; DoRA. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/fine_tune.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#include "maquette/opt.h"
#include "base/text.h"

static const struct mq_opt lora_opts[] = {
	MQ_U32(struct mq_tuning, rank, 16, 1, 65536, "columns of the first matrix of an adapter"),
	MQ_U32(struct mq_tuning, alpha, 32, 1, 1000000, "adapters' outputs are scaled by alpha / rank"),
	MQ_F64(struct mq_tuning, dropout, 0, 0, .99, "probability, of what adapters read"),
	MQ_STR(struct mq_tuning, targets, "qkv+proj", "GEMMs with an adapter, '+' between"),
	MQ_CHOICE(struct mq_tuning, base, 0, "dtype|fp8|mxfp8|nvfp4|nf4", "how the layers' frozen matrices are held"),
	MQ_END,
};

enum mq_status mq_tuning_read(const char *what, const char *text, struct mq_arena *arena, struct mq_tuning *tuning,
			      struct mq_err *err)
{
	static const char *const words[] = { "full", "lora", "frozen", NULL };
	size_t n = text ? strcspn(text, ":") : 0;
	const char *word = mq_arena_printf(arena, "%.*s", (int)n, n ? text : "full"), *near;
	const char *rest = n && text[n] ? text + n + 1 : NULL;

	*tuning = (struct mq_tuning){ .kind = MQ_TUNE_FULL };
	mq_opt_defaults(lora_opts, tuning);
	if (!n || (!strcmp(word, "full") && !rest))
		return MQ_OK;
	if (!strcmp(word, "frozen") && rest && *rest) {
		tuning->kind = MQ_TUNE_FROZEN;
		tuning->frozen = mq_arena_strdup(arena, rest);
		return MQ_OK;
	}
	if (!strcmp(word, "lora")) {
		tuning->kind = MQ_TUNE_LORA;
		return mq_opt_parse(lora_opts, tuning, mq_arena_printf(arena, "%s lora", what), rest, arena, err);
	}
	near = mq_nearest(word, words);
	return mq_bad(err, "%s %s: give full, lora[:KEY=VALUE,...] or frozen:PATTERN%s%s%s", what, text,
		      near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- names ------------------------------------------------------------------------------------ */

enum part { WHOLE, QUERIES, KEYS, GATE };

/* Frameworks' names of a layer's GEMMs, and the op and columns here. `op` may be a pattern. */
static const struct target {
	const char *words, *op;
	enum part part;
} targets[] = {
	{ "qkv linear_qkv qkv_proj attention", "qkv", WHOLE },
	{ "proj linear_proj o_proj wo attention", "proj", WHOLE },
	{ "up linear_fc1 mlp", "up", WHOLE },
	{ "down linear_fc2 down_proj w2 mlp", "down", WHOLE },
	{ "q_proj wq", "qkv", QUERIES },
	{ "k_proj wk v_proj wv", "qkv", KEYS },
	{ "gate_proj w1 up_proj w3", "up", GATE },
	{ "all-linear", "*", WHOLE },
	{ NULL, NULL, WHOLE },
};

/* "layer3.norm1" is "norm1". */
static const char *local_name(const struct mq_op *op)
{
	const char *dot = op->layer == MQ_NONE ? NULL : strchr(op->name, '.');

	return dot ? dot + 1 : op->name;
}

static bool may_adapt(const struct mq_op *op)
{
	return op->kind == MQ_OP_GEMM && op->layer != MQ_NONE;
}

static bool feeds_gate(const struct mq_model *m, uint32_t op)
{
	uint32_t first = m->out_first[op];

	return first < m->out_first[op + 1] && m->op[m->edge[first].dst].gated;
}

/* Columns of the GEMM that a target names; 0: none. */
static double columns_of(const struct mq_model *m, uint32_t op, enum part part)
{
	double head = m->head_dim, n = m->op[op].n;

	switch (part) {
	case QUERIES:
		return n == (m->heads + 2.0 * m->kv_heads) * head ? m->heads * head : 0;
	case KEYS:
		return n == (m->heads + 2.0 * m->kv_heads) * head ? m->kv_heads * head : 0;
	case GATE:
		return feeds_gate(m, op) ? n / 2 : 0;
	case WHOLE:
		break;
	}
	return n;
}

/* Columns of the op that this word gives an adapter; 0: none. */
static double meant_by(const struct mq_model *m, uint32_t op, const char *word)
{
	const char *name = local_name(&m->op[op]);
	bool known = false;

	if (!may_adapt(&m->op[op]))
		return 0;
	for (const struct target *t = targets; t->words; t++) {
		if (!mq_text_has_word(t->words, word))
			continue;
		known = true;
		if (!fnmatch(t->op, name, 0))
			return columns_of(m, op, t->part);
	}
	return !known && !fnmatch(word, name, 0) ? m->op[op].n : 0;
}

static enum mq_status fits_nothing(const struct mq_model *m, const char *word, bool gemms, struct mq_arena *arena,
				   struct mq_err *err)
{
	const char *list = "", *name;

	for (uint32_t op = 0; op < m->n_ops && strlen(list) < 300; op++) {
		name = local_name(&m->op[op]);
		if ((gemms ? may_adapt(&m->op[op]) : m->op[op].param > 0) &&
		    !strstr(mq_arena_printf(arena, " %s ", list), mq_arena_printf(arena, " %s ", name)))
			list = mq_arena_printf(arena, "%s%s%s", list, *list ? " " : "", name);
	}
	return mq_bad(err, "--train: '%s' fits no %s of model '%s'; it has: %s", word, gemms ? "GEMM of a layer" : "op",
		      m->name, list);
}

/* ---- adapters --------------------------------------------------------------------------------- */

struct adapting {
	const struct mq_tuning *tuning;
	const struct mq_model *from;
	struct mq_arena *arena;
	struct mq_model_builder b;
	uint32_t *base, *out; /* [ops of `from`] the op's copy, and the op that its consumers read */
};

static uint32_t add_like(struct adapting *a, const struct mq_op *like, const char *name, enum mq_adapter adapter)
{
	uint32_t id = mq_model_add(&a->b, like->kind, name);
	struct mq_op *op = &a->b.model->op[id];

	name = op->name;
	*op = *like;
	op->name = name;
	op->adapter = (uint8_t)adapter;
	return id;
}

/* Scales a GEMM's amounts to depth k and n columns, trained. */
static void resize(struct mq_op *op, double k, double n)
{
	double cols = n / op->n, depth = k / op->k, matrices = op->count > 0 ? op->count : 1;
	double biases = op->param > op->k * op->n * matrices ? op->flop - op->flop / (1 + 1 / (2 * op->k)) : 0;

	op->flop = (op->flop - biases) * cols * depth;
	op->flop_bwd = 2 * op->flop;
	op->read *= depth;
	op->write *= cols;
	op->output *= cols;
	op->moved_bwd = 2 * (op->read + op->write);
	op->param = k * n * matrices;
	op->k = k;
	op->n = n;
	op->saved = op->saved_selective = op->masks = 0;
	op->frozen = MQ_TRAINED;
}

static void inputs_of(struct adapting *a, uint32_t from, uint32_t to)
{
	MQ_EACH_IN(a->from, from, e) {
		mq_model_connect(&a->b, a->out[e->src], to, e->elems);
		a->b.model->edge[a->b.model->n_edges - 1].no_grad = e->no_grad;
	}
}

/* Adds the two GEMMs of an adapter of `columns` columns; returns the second. */
static uint32_t add_pair(struct adapting *a, uint32_t from, double columns, const char *suffix)
{
	const struct mq_op *like = &a->from->op[from];
	double rank = a->tuning->rank;
	uint32_t in = add_like(a, like, mq_arena_printf(a->arena, "%s.lora%s_a", like->name, suffix), MQ_ADAPTER_IN);
	struct mq_op *op = &a->b.model->op[in];

	resize(op, like->k, rank);
	op->dropout = a->tuning->dropout > 0;
	op->extent[MQ_DIM_OUT] = rank;
	op->saved = op->output; /* the input of the second */
	double hidden = op->output;
	inputs_of(a, from, in);
	uint32_t out = add_like(a, like, mq_arena_printf(a->arena, "%s.lora%s_b", like->name, suffix), MQ_ADAPTER_OUT);
	op = &a->b.model->op[out];
	resize(op, rank, columns);
	op->read = hidden;
	op->extent[MQ_DIM_OUT] = columns;
	op->extent[MQ_DIM_IN] = 0;
	op->splits &= ~(1u << MQ_DIM_IN);
	mq_model_connect(&a->b, in, out, hidden);
	return out;
}

/* Adds the op that sums the outputs of GEMM and adapters. */
static uint32_t add_sum(struct adapting *a, uint32_t from)
{
	const struct mq_op *like = &a->from->op[from];
	uint32_t id = mq_model_add(&a->b, MQ_OP_ELEMENTWISE, mq_arena_printf(a->arena, "%s.lora_sum", like->name));
	struct mq_op *op = &a->b.model->op[id];

	op->layer = like->layer;
	op->splits = like->splits & ~(1u << MQ_DIM_IN | 1u << MQ_DIM_HEAD);
	memcpy(op->extent, like->extent, sizeof(op->extent));
	op->extent[MQ_DIM_IN] = op->extent[MQ_DIM_HEAD] = 0;
	op->output = like->output;
	op->adapter = MQ_ADAPTER_SUM;
	mq_model_connect(&a->b, a->base[from], id, like->output);
	return id;
}

static void adapt_op(struct adapting *a, uint32_t from, bool *used)
{
	const char *rest = a->tuning->targets, *word;
	uint32_t out[MQ_N_DIMS * 4], n = 0, w = 0;
	double columns, sum = 0;

	for (; (word = mq_text_next(&rest, "+", a->arena)); w++) {
		if (!((columns = meant_by(a->from, from, word)) > 0) || n == sizeof(out) / sizeof(*out))
			continue;
		used[w] = true;
		bool whole = columns == a->from->op[from].n;
		if (n && whole) /* "all-linear+qkv" adapts qkv once */
			continue;
		out[n++] = add_pair(a, from, columns, whole ? "" : mq_arena_printf(a->arena, ".%s", word));
		sum += columns / a->from->op[from].n;
	}
	if (!n)
		return;
	uint32_t id = a->out[from] = add_sum(a, from);
	struct mq_op *op = &a->b.model->op[id];
	op->flop = op->write = sum * op->output;
	op->read = 2 * op->write;
	op->kernels = n;
	for (uint32_t i = 0; i < n; i++)
		mq_model_connect(&a->b, out[i], id, a->b.model->op[out[i]].output);
}

static void copy_op(struct adapting *a, uint32_t from)
{
	const struct mq_op *like = &a->from->op[from];
	uint32_t id = a->base[from] = a->out[from] = add_like(a, like, like->name, MQ_NO_ADAPTER);
	struct mq_op *op = &a->b.model->op[id];
	bool matrix = like->kind == MQ_OP_GEMM && like->layer != MQ_NONE;

	op->frozen = (uint8_t)(matrix ? 1 + a->tuning->base : MQ_FROZEN_AS_DTYPE);
	if (op->tied != MQ_NONE)
		op->tied = a->base[op->tied];
	inputs_of(a, from, id);
}

static enum mq_status add_adapters(const struct mq_tuning *tuning, struct mq_arena *arena, struct mq_model **model,
				   struct mq_err *err)
{
	enum { MOST_WORDS = 64 };
	struct adapting a = { .tuning = tuning, .from = *model, .arena = arena };
	const char *rest = tuning->targets, *word;
	bool used[MOST_WORDS] = { false };
	uint32_t w = 0;

	while (mq_text_next(&rest, "+", arena))
		w++;
	if (!w || w > MOST_WORDS)
		return mq_bad(err, "--train lora: targets=%s: give 1 to %d, '+' between", tuning->targets, MOST_WORDS);
	mq_model_begin(&a.b, arena, (*model)->name);
	struct mq_model own = **model;
	own.n_ops = own.n_edges = 0;
	own.op = NULL;
	own.edge = NULL;
	*a.b.model = own;
	a.base = mq_arena_array(arena, (*model)->n_ops, uint32_t);
	a.out = mq_arena_array(arena, (*model)->n_ops, uint32_t);
	for (uint32_t op = 0; op < a.from->n_ops; op++) {
		copy_op(&a, op);
		adapt_op(&a, op, used);
	}
	rest = tuning->targets;
	for (w = 0; (word = mq_text_next(&rest, "+", arena)); w++)
		if (!used[w])
			return fits_nothing(a.from, word, true, arena, err);
	return mq_model_finish(&a.b, model, err);
}

/* ---- the rest of the backward pass ------------------------------------------------------------- */

static bool has_trained(const struct mq_model *m, const struct mq_op *op)
{
	return op->frozen == MQ_TRAINED && (op->param > 0 || (op->tied != MQ_NONE && m->op[op->tied].param > 0));
}

static bool has_weights(const struct mq_op *op)
{
	return op->kind == MQ_OP_GEMM || op->kind == MQ_OP_CONV || op->kind == MQ_OP_ROUTER;
}

/* Does any consumer of the op's output need it in the backward pass? Frozen weights do not, nor does an adapter that
 * saves the output of its dropout. */
static bool needed_again(const struct mq_model *m, uint32_t op)
{
	MQ_EACH_OUT(m, op, e) {
		const struct mq_op *to = &m->op[e->dst];
		bool own_copy = to->adapter == MQ_ADAPTER_IN && to->dropout;

		if (!has_weights(to) || (to->frozen == MQ_TRAINED && !own_copy))
			return true;
	}
	return false;
}

static void settle_op(struct mq_model *m, uint32_t id, bool reached, bool input)
{
	struct mq_op *op = &m->op[id];

	if (!reached) {
		op->frozen = op->frozen == MQ_TRAINED ? MQ_FROZEN_AS_DTYPE : op->frozen;
		op->flop_bwd = op->moved_bwd = op->fixed_bwd = 0;
		op->saved = needed_again(m, id) ? fmin(op->saved, op->output) : 0;
		op->saved_selective = op->masks = 0;
		return;
	}
	if (!(op->param > 0) && op->tied == MQ_NONE)
		op->frozen = MQ_TRAINED;
	if (op->frozen != MQ_TRAINED)
		op->fixed_bwd = 0;
	if (has_weights(op) && (op->frozen != MQ_TRAINED || !input) && op->flop_bwd > 0) {
		op->flop_bwd = input || op->frozen == MQ_TRAINED ? op->flop : 0;
		op->moved_bwd /= 2;
	}
	bool keeps_output = op->kind == MQ_OP_NORM || (op->kind == MQ_OP_ELEMENTWISE && (op->gelu || op->gated));
	if (keeps_output && op->saved > op->output && !needed_again(m, id))
		op->saved -= op->output;
}

/* Removes the backward pass of ops with nothing trained in or before them, and the unneeded part of the others'. False:
 * nothing is trained. */
static bool settle(struct mq_model *m, struct mq_arena *arena)
{
	bool *reached = mq_arena_array(arena, m->n_ops, bool), any = false;

	for (uint32_t op = 0; op < m->n_ops; op++) {
		bool input = false;

		MQ_EACH_IN(m, op, e) {
			e->no_grad |= !reached[e->src];
			input |= !e->no_grad;
		}
		reached[op] = input || has_trained(m, &m->op[op]);
		any |= has_trained(m, &m->op[op]);
		settle_op(m, op, reached[op], input);
	}
	return any;
}

static enum mq_status freeze(const char *patterns, struct mq_arena *arena, struct mq_model *m, struct mq_err *err)
{
	const char *word;

	while ((word = mq_text_next(&patterns, "+", arena))) {
		bool used = false;

		for (uint32_t op = 0; op < m->n_ops; op++)
			if (!fnmatch(word, m->op[op].name, 0) || !fnmatch(word, local_name(&m->op[op]), 0)) {
				used |= m->op[op].param > 0;
				m->op[op].frozen = MQ_FROZEN_AS_DTYPE;
			}
		if (!used)
			return fits_nothing(m, word, false, arena, err);
	}
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].tied != MQ_NONE)
			m->op[op].frozen = m->op[m->op[op].tied].frozen;
	return MQ_OK;
}

enum mq_status mq_tuning_apply(const struct mq_tuning *tuning, struct mq_arena *arena, struct mq_model **model,
			       struct mq_err *err)
{
	struct mq_model *m = *model;

	if (tuning->kind == MQ_TUNE_FULL)
		return MQ_OK;
	for (uint32_t op = 0; op < m->n_ops; op++)
		if (m->op[op].phase == MQ_BACKWARD || m->op[op].kind == MQ_OP_PROFILED)
			return mq_bad(
				err,
				"--train: model '%s' brings its backward pass or measured times, of which no part "
				"can be left out; give a model of shapes",
				m->name);
	if (tuning->kind == MQ_TUNE_LORA)
		MQ_TRY(add_adapters(tuning, arena, model, err));
	else
		MQ_TRY(freeze(tuning->frozen, arena, m, err));
	if (!settle(*model, arena))
		return mq_bad(err, "--train: nothing is left to train of model '%s'; freeze less", (*model)->name);
	return MQ_OK;
}
