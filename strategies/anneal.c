/* anneal.c - simulated annealing with GSL's siman (Kirkpatrick, Gelatt, Vecchi, Science 1983) over the usual plans, or
 * over placements for graphs of profiled ops.
 *
 * GSL calls back for energies, so it cannot wait for the search loop: the walk uses screened step time (counted and
 * reported) or, for placements, the max-load of lib/place/place.h; the best states of the walk are then proposed, best
 * first, and simulated. A move goes to the plan that differs in the fewest choices among 64 random ones, or moves one
 * op group to a random device. Plans that do not fit have ten times the energy of the first that does.
 *
 * link: gsl
 * SPDX-License-Identifier: Apache-2.0 */
#include <gsl/gsl_siman.h>
#include <math.h>

#include "maquette/engine.h"
#include "lib/place/model.h"
#include "lib/placements.h"
#include "lib/plans.h"
#include "lib/shapes.h"

enum { KEEP = 16 };

struct anneal {
	uint32_t tries, proposals; /* options */
	double t_initial, t_min;
	const struct mq_problem *problem;
	bool place;
	/* shapes */
	struct shape_space space;
	struct shape_list list;
	double scale; /* seconds (or load) of energy 1: the first feasible state */
	/* placements */
	struct mq_place_model model;
	struct mq_units units;
	struct mq_placement devices; /* one stage per device */
	/* the best states */
	uint32_t n_best, next, size;
	double energy[KEEP];
	uint32_t *best[KEEP];
	struct mq_arena scratch;
	bool stopped;
};

static const struct mq_opt opts[] = { MQ_U32(struct anneal, tries, 400, 1, 1e7, "states that the walk visits, about"),
				      MQ_U32(struct anneal, proposals, 8, 1, KEEP, "best states proposed"),
				      MQ_F64(struct anneal, t_initial, 0.3, 1e-9, 1e9,
					     "first temperature; energy 1 = the start"),
				      MQ_F64(struct anneal, t_min, 0.003, 1e-12, 1e9, "last temperature"), MQ_END };

/* One state: the index of a point, or a device per unit. GSL copies states as bytes, so each starts with a pointer to
 * the engine. */
struct walk_state {
	struct anneal *owner;
	uint32_t value[];
};

static size_t state_bytes(const struct anneal *s)
{
	return sizeof(struct walk_state) + s->size * sizeof(uint32_t);
}

/* ---- energies ----------------------------------------------------------------------------------- */

static double shape_energy(struct anneal *s, uint32_t index)
{
	struct mq_arena_mark mark = mq_arena_mark(&s->scratch);
	struct mq_plan plan;
	struct mq_err ignored = MQ_ERR_INIT;
	bool made = shapes_plan(&s->space, &s->list.point[index], &s->scratch, &plan, &ignored) == MQ_OK;
	double time_s = made ? mq_screen(s->problem, &plan) : (double)INFINITY;

	mq_arena_rewind(&s->scratch, mark);
	if (isfinite(time_s) && s->scale <= 0)
		s->scale = time_s;
	return isfinite(time_s) ? time_s / s->scale : 10;
}

static double place_energy(struct anneal *s, const uint32_t *device)
{
	const struct mq_place *p = &s->model.place;
	struct mq_arena_mark mark = mq_arena_mark(&s->scratch);
	struct mq_placement placement = mq_placement_empty(p, &s->scratch);

	mq_placement_fill(&s->units, p->n_nodes, device, &s->scratch, &placement);
	mq_placement_loads(p, &placement, &s->scratch);
	mq_arena_rewind(&s->scratch, mark);
	if (isfinite(placement.max_load) && s->scale <= 0)
		s->scale = placement.max_load;
	return isfinite(placement.max_load) ? placement.max_load / s->scale : 10;
}

static void remember(struct anneal *s, double energy, const uint32_t *value)
{
	uint32_t at;

	for (uint32_t i = 0; i < s->n_best; i++)
		if (!memcmp(s->best[i], value, s->size * sizeof(*value)))
			return;
	if (s->n_best == s->proposals && energy >= s->energy[s->n_best - 1])
		return;
	if (s->n_best < s->proposals)
		s->best[s->n_best++] = mq_arena_array(s->problem->arena, s->size, uint32_t);
	at = s->n_best - 1;
	uint32_t *room = s->best[at];

	for (; at > 0 && s->energy[at - 1] > energy; at--) {
		s->energy[at] = s->energy[at - 1];
		s->best[at] = s->best[at - 1];
	}
	s->energy[at] = energy;
	s->best[at] = memcpy(room, value, s->size * sizeof(*value));
}

static double energy_of(void *walk)
{
	struct walk_state *w = walk;
	struct anneal *s = w->owner;

	if (!s->stopped && !mq_tick(s->problem, (double)NAN, "annealing"))
		s->stopped = true;
	if (s->stopped) /* GSL cannot be interrupted: makes the rest of the walk free */
		return 10;
	double energy = s->place ? place_energy(s, w->value) : shape_energy(s, w->value[0]);

	if (energy < 10)
		remember(s, energy, w->value);
	return energy;
}

/* ---- moves -------------------------------------------------------------------------------------- */

/* The number of choices in which two points differ. */
static uint32_t difference(const struct shape_point *a, const struct shape_point *b)
{
	return (a->set != b->set) + (a->dp != b->dp || a->tp != b->tp || a->pp != b->pp) + (a->cp != b->cp) +
	       (a->ep != b->ep) + (a->etp != b->etp) + (a->ulysses != b->ulysses) +
	       (a->virtual != b->virtual || a->pipeline != b->pipeline) + (a->micro_batches != b->micro_batches) +
	       (a->sync != b->sync) + (a->recompute != b->recompute) + (a->sequence_parallel != b->sequence_parallel) +
	       (a->balanced != b->balanced) + (a->replica_major != b->replica_major);
}

static uint32_t neighbour(const struct anneal *s, const gsl_rng *rng, uint32_t from)
{
	uint32_t to = from;

	/* the nearest of 64 random points */
	for (uint32_t i = 0, least = UINT32_MAX; i < 64; i++) {
		uint32_t drawn = (uint32_t)gsl_rng_uniform_int(rng, s->list.n);
		uint32_t far = difference(&s->list.point[from], &s->list.point[drawn]);

		if (drawn != from && far < least)
			least = far, to = drawn;
	}
	return to;
}

static void step(const gsl_rng *rng, void *walk, double size)
{
	struct walk_state *w = walk;
	struct anneal *s = w->owner;

	if (s->place)
		w->value[gsl_rng_uniform_int(rng, s->size)] = (uint32_t)gsl_rng_uniform_int(rng, s->devices.n_stages);
	else
		w->value[0] = neighbour(s, rng, w->value[0]);
}

static double distance(void *left, void *right)
{
	return memcmp(left, right, state_bytes(((struct walk_state *)left)->owner)) ? 1 : 0;
}

/* GSL's random generator wraps our seeded one. */
static void rng_set(void *state, unsigned long seed)
{
}

static unsigned long rng_get(void *state)
{
	struct mq_rng **rng = state;

	return (unsigned long)(mq_rng_next(*rng) >> 32);
}

static double rng_double(void *state)
{
	struct mq_rng **rng = state;

	return mq_rng_unit(*rng);
}

/* ---- hooks -------------------------------------------------------------------------------------- */

static enum mq_status set_up(struct anneal *s, const struct mq_problem *problem, struct mq_err *err)
{
	if (!s->place) {
		MQ_TRY(shapes_init(&s->space, problem, err));
		s->space.zero = true;
		shapes_list(&s->space, NULL, NULL, 200000, &s->list);
		s->list.n = s->list.n < 200000 ? s->list.n : 200000;
		if (!s->list.n || !problem->costs->screen)
			return mq_bad(
				err,
				"engine 'anneal': no plan of the usual shapes divides a batch of %g over these devices",
				problem->q->train->batch);
		s->size = 1;
		return MQ_OK;
	}
	MQ_TRY(mq_place_from_problem(problem, 1, 1, problem->arena, &s->model, err));
	MQ_TRY(mq_units_make(&s->model.place, MQ_UNITS_COLORS, problem->arena, &s->units, err));
	s->devices = mq_placement_empty(&s->model.place, problem->arena);
	s->size = s->units.n;
	return MQ_OK;
}

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	struct anneal *s = state;
	gsl_rng_type type = { .name = "maquette",
			      .max = UINT32_MAX,
			      .min = 0,
			      .size = sizeof(struct mq_rng *),
			      .set = rng_set,
			      .get = rng_get,
			      .get_double = rng_double };

	s->problem = problem;
	s->place = placements_natural(problem);
	if (s->place)
		MQ_TRY(mq_space_refuse(problem->q, "anneal", MQ_LACKS_ALL, err));
	MQ_TRY(set_up(s, problem, err));
	/* the cooling factor that spends the tries between the two temperatures */
	gsl_siman_params_t params = {
		.n_tries = 1, .iters_fixed_T = 4, .step_size = 1, .k = 1, .t_initial = s->t_initial, .t_min = s->t_min
	};
	double rounds = fmax(2, s->tries * (s->place ? 10.0 : 1.0) / 4);

	params.mu_t = pow(s->t_initial / s->t_min, 1 / rounds);
	gsl_rng *rng = gsl_rng_alloc(&type);
	struct walk_state *walk = mq_arena_alloc(problem->arena, state_bytes(s));

	*(struct mq_rng **)gsl_rng_state(rng) = problem->rng;
	walk->owner = s;
	gsl_siman_solve(rng, walk, energy_of, step, distance, NULL, NULL, NULL, NULL, state_bytes(s), params);
	gsl_rng_free(rng);
	mq_arena_fini(&s->scratch);
	if (!s->n_best)
		return mq_fail(err, MQ_ENOPLAN, "engine 'anneal': no plan that fits in %u tries: raise tries=N",
			       s->tries);
	return MQ_OK;
}

static enum mq_status propose(void *state, const struct mq_problem *problem, struct mq_arena *arena,
			      struct mq_plan *plan, struct mq_err *err)
{
	struct anneal *s = state;
	const uint32_t *value;

	if (s->next == s->n_best)
		return MQ_DONE;
	value = s->best[s->next];
	if (s->place) {
		uint32_t *device_of = mq_arena_array(arena, problem->q->model->n_ops, uint32_t);

		for (uint32_t op = 0; op < problem->q->model->n_ops; op++) {
			const struct mq_place_stage *at = &s->devices.stage[value[s->units.of_node[op]]];

			device_of[op] = s->model.rank[at->type][at->device];
		}
		mq_plan_from_placement(device_of, problem->q->model, arena, plan);
		plan->engine_unit = s->model.unit;
	} else {
		MQ_TRY(shapes_plan(&s->space, &s->list.point[value[0]], arena, plan, err));
		plan->engine_unit = "s per step, analytic";
	}
	plan->engine_objective = s->energy[s->next++] * s->scale;
	return MQ_OK;
}

MQ_ENGINE(anneal) = {
	MQ_ENGINE_HEAD("anneal"),
	.summary = "simulated annealing (GSL) over usual plans or placements, screened analytically",
	.paper = "Kirkpatrick, Gelatt, Vecchi, Science 1983",
	MQ_ENGINE_OWN(struct anneal),
};
