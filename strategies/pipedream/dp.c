/* dp.c - see dp.h. SPDX-License-Identifier: Apache-2.0 */
#include "pipedream/dp.h"

#include <math.h>

#include "maquette/types.h"
#include "lib/csr.h"

/* How a value is attained: stage K..J on `replicas` machines after S..K on the others. */
struct split {
	uint32_t from; /* K; MQ_NONE = all one stage */
	uint32_t replicas;
};

struct run {
	const struct mq_pipedream *p;
	struct mq_arena *arena;
	struct mq_ideals ideals;
	double *time, *parameters, *output; /* [n] sums over each ideal; output: bytes that leave it */
	bool *inside;                       /* [n * n] inside[a * n + b]: a is a subset of b */
	double *work;                       /* [n * n] C(S, J) at the current level */
	double *below;                      /* C at the next inner level */
	/* DP table of one start S at one level */
	double *value; /* [n * (machines + 1)] */
	struct split *split;
};

/* Fills the sums over each ideal; its output is that of layers with a consumer outside. */
static void sum_ideals(struct run *r)
{
	const struct mq_pipedream *p = r->p;
	uint32_t n = r->ideals.n, words = r->ideals.words;
	bool *leaves = mq_arena_array(r->arena, p->n_layers, bool);

	for (uint32_t i = 0; i < n; i++) {
		memset(leaves, 0, p->n_layers * sizeof(*leaves));
		for (uint32_t e = 0; e < p->n_edges; e++)
			if (mq_ideals_has(&r->ideals, i, p->src[e]) && !mq_ideals_has(&r->ideals, i, p->dst[e]))
				leaves[p->src[e]] = true;
		for (uint32_t v = 0; v < p->n_layers; v++) {
			if (!mq_ideals_has(&r->ideals, i, v))
				continue;
			r->time[i] += p->layer[v].time;
			r->parameters[i] += p->layer[v].parameters;
			r->output[i] += leaves[v] ? p->layer[v].output : 0;
		}
		for (uint32_t j = i; j < n; j++) {
			bool *inside = &r->inside[(size_t)i * n + j];

			*inside = true;
			for (uint32_t w = 0; w < words && *inside; w++)
				*inside = !(r->ideals.bits[(size_t)i * words + w] &
					    ~r->ideals.bits[(size_t)j * words + w]);
		}
	}
}

/* T(K, J, m) at a level whose machines have `inner` devices each. */
static double stage_time(const struct run *r, const struct mq_pipedream_level *level, uint32_t inner, uint32_t k,
			 uint32_t j, uint32_t m)
{
	if (level == r->p->level && ((r->p->only && m != r->p->only) || (r->p->most && m > r->p->most)))
		return INFINITY;
	double weights = r->parameters[j] - r->parameters[k];
	double sync = 4.0 * (m - 1.0) * weights / (level->bandwidth * m) / inner;

	return (r->work[(size_t)k * r->ideals.n + j] + sync) / m;
}

/* A(start, J, m) for all J and m. */
static void fill_start(struct run *r, uint32_t level, uint32_t start)
{
	const struct mq_pipedream_level *l = &r->p->level[level];
	uint32_t n = r->ideals.n, width = l->machines + 1;
	uint32_t inner = level ? r->p->level[0].machines : 1;

	for (uint32_t j = start + 1; j < n; j++) {
		if (!r->inside[(size_t)start * n + j])
			continue;
		for (uint32_t m = 1; m <= l->machines; m++) {
			double best = stage_time(r, l, inner, start, j, m);
			struct split how = { MQ_NONE, m };

			for (uint32_t k = start + 1; k < j; k++) {
				if (!r->inside[(size_t)start * n + k] || !r->inside[(size_t)k * n + j])
					continue;
				for (uint32_t c = 1; c < m; c++) {
					double time = fmax(r->value[(size_t)k * width + m - c],
							   stage_time(r, l, inner, k, j, c));

					if (r->p->transfers)
						time = fmax(time, 2 * r->output[k] / (l->bandwidth * c));
					if (time < best) {
						best = time;
						how = (struct split){ k, c };
					}
				}
			}
			r->value[(size_t)j * width + m] = best;
			r->split[(size_t)j * width + m] = how;
		}
	}
}

/* C of the outer level: A of the inner level on all its machines, from every start. */
static void fill_level(struct run *r, double *next)
{
	uint32_t n = r->ideals.n, machines = r->p->level[0].machines;

	for (uint32_t s = 0; s < n; s++) {
		fill_start(r, 0, s);
		for (uint32_t j = s + 1; j < n; j++)
			if (r->inside[(size_t)s * n + j])
				next[(size_t)s * n + j] = r->value[(size_t)j * (machines + 1) + machines];
	}
}

static void add_stage(struct run *r, uint32_t k, uint32_t j, uint32_t inner, uint32_t outer,
		      struct mq_pipedream_result *out)
{
	struct mq_pipedream_stage *stage = &out->stage[out->n_stages++];

	*stage = (struct mq_pipedream_stage){ .inner = inner,
					      .outer = outer,
					      .layer = mq_arena_array(r->arena, r->p->n_layers, uint32_t) };
	for (uint32_t v = 0; v < r->p->n_layers; v++)
		if (mq_ideals_has(&r->ideals, j, v) && !mq_ideals_has(&r->ideals, k, v))
			stage->layer[stage->n_layers++] = v;
}

/* Adds the stages of S..J on all machines of the level, last first; `copies`: replicas on the level above. */
static void unfold(struct run *r, uint32_t level, uint32_t start, uint32_t end, uint32_t copies,
		   struct mq_pipedream_result *out)
{
	uint32_t machines = r->p->level[level].machines, m = machines, n_parts = 0;
	struct part {
		uint32_t from, to, replicas;
	} *part = mq_arena_array(r->arena, r->ideals.n, struct part);

	fill_start(r, level, start);
	while (end != start) {
		struct split how = r->split[(size_t)end * (machines + 1) + m];
		uint32_t from = how.from == MQ_NONE ? start : how.from;

		part[n_parts++] = (struct part){ from, end, how.replicas };
		m -= how.replicas;
		end = from;
	}
	bool one = r->p->n_levels == 1;

	for (uint32_t i = 0; i < n_parts && level == 0; i++)
		add_stage(r, part[i].from, part[i].to, one ? 1 : part[i].replicas, one ? part[i].replicas : copies,
			  out);
	if (level == 0)
		return;
	double *outer_work = r->work;

	r->work = r->below;
	for (uint32_t i = 0; i < n_parts; i++)
		unfold(r, 0, part[i].from, part[i].to, part[i].replicas, out);
	r->work = outer_work;
}

static void prepare(struct run *r)
{
	uint32_t n = r->ideals.n, most = 0;

	for (uint32_t l = 0; l < r->p->n_levels; l++)
		most = r->p->level[l].machines > most ? r->p->level[l].machines : most;
	r->time = mq_arena_array(r->arena, n, double);
	r->parameters = mq_arena_array(r->arena, n, double);
	r->output = mq_arena_array(r->arena, n, double);
	r->inside = mq_arena_array(r->arena, (size_t)n * n, bool);
	r->work = mq_arena_array(r->arena, (size_t)n * n, double);
	r->value = mq_arena_array(r->arena, (size_t)n * (most + 1), double);
	r->split = mq_arena_array(r->arena, (size_t)n * (most + 1), struct split);
	sum_ideals(r);
	for (uint32_t s = 0; s < n; s++)
		for (uint32_t j = s + 1; j < n; j++)
			if (r->inside[(size_t)s * n + j])
				r->work[(size_t)s * n + j] = r->time[j] - r->time[s];
}

/* Time of one stage on all devices, with the gradient sync of both levels. */
static double data_parallel(const struct run *r, const double *flat)
{
	uint32_t n = r->ideals.n;
	double time = flat[n - 1];
	uint32_t inner = 1;

	for (uint32_t l = 0; l < r->p->n_levels; l++) {
		uint32_t m = r->p->level[l].machines;

		time = (time + 4.0 * (m - 1.0) * r->parameters[n - 1] / (r->p->level[l].bandwidth * m) / inner) / m;
		inner = m;
	}
	return time;
}

enum mq_status mq_pipedream_solve(const struct mq_pipedream *p, struct mq_arena *arena,
				  struct mq_pipedream_result *result, struct mq_err *err)
{
	struct run r = { .p = p, .arena = arena };
	uint32_t last = p->n_levels - 1;

	*result = (struct mq_pipedream_result){ 0 };
	mq_assert(p->n_levels >= 1 && p->n_levels <= MQ_PIPEDREAM_MAX_LEVELS);
	MQ_TRY(mq_ideals_of_edges(p->n_layers, p->n_edges, p->src, p->dst, sizeof(*p->src),
				  p->max_ideals ? p->max_ideals : 3000, arena, &r.ideals, err));
	prepare(&r);
	uint32_t n = r.ideals.n;

	result->data_parallel = data_parallel(&r, r.work);
	if (p->n_levels == 2) {
		double *next = mq_arena_array(arena, (size_t)n * n, double);

		fill_level(&r, next);
		r.below = r.work;
		r.work = next;
	}
	fill_start(&r, last, 0);
	result->time = r.value[(size_t)(n - 1) * (p->level[last].machines + 1) + p->level[last].machines];
	result->stage = mq_arena_array(arena, n, struct mq_pipedream_stage);
	unfold(&r, last, 0, n - 1, 1, result);
	MQ_REVERSE(result->stage, result->n_stages)
	return MQ_OK;
}
