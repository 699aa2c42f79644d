/* engine.h - a search engine: a plug-in that proposes plans and learns their scores.
 *
 * An engine is one file, strategies/NAME.c, that exports one const struct through MQ_ENGINE(NAME). The core owns the
 * loop, the budget, the seeded RNG, the pool of simulations, the cache of duplicate plans, the CSV and the best-so-far;
 * the engine owns only its state, which the core allocates, zeroes and fills from the option table. See
 * strategies/README.md.
 *
 * Order of calls: start, then rounds of { propose x up to `batch`, observe for each in index order }, stop. Nothing
 * that an engine sees depends on -j or, but for left_s, on the clock. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_ENGINE_H
#define MAQUETTE_ENGINE_H

#include "maquette/abi.h"
#include "maquette/arena.h"
#include "maquette/calib.h"
#include "maquette/cluster.h"
#include "maquette/collective.h"
#include "maquette/cost.h"
#include "maquette/model.h"
#include "maquette/opt.h"
#include "maquette/plan.h"
#include "maquette/question.h"
#include "maquette/result.h"
#include "maquette/rng.h"

/* Constraints a user gives with --fix and --max; 0 = free. */
struct mq_limits {
	uint32_t fix_dp, fix_tp, fix_pp, fix_cp, fix_ep, fix_mbs, fix_virtual;
	uint32_t fix_etp, fix_ulysses; /* as in struct mq_shape; etp 0 there counts as tp */
	uint32_t max_dp, max_tp, max_pp, max_devices;
	int fix_pipeline, fix_recompute, fix_sync; /* enum values, -1 = free */
	/* Limits of one step, tested on the judged plan; 0 = none. */
	double max_usd, max_kWh, max_step_s, max_memory_B;
};

/* Features that no plan of an engine has: a constraint on one is refused before the engine starts. */
enum {
	MQ_LACKS_DP = 1 << 0, /* data parallelism */
	MQ_LACKS_TP = 1 << 1, /* tensor parallelism */
	MQ_LACKS_PP = 1 << 2, /* pipeline stages */
	MQ_LACKS_CP = 1 << 3,
	MQ_LACKS_EP = 1 << 4,
	MQ_LACKS_VIRTUAL = 1 << 5, /* several stages per device */
	MQ_LACKS_SPLITS = MQ_LACKS_TP | MQ_LACKS_CP | MQ_LACKS_EP | MQ_LACKS_VIRTUAL,
	MQ_LACKS_ALL = MQ_LACKS_DP | MQ_LACKS_PP | MQ_LACKS_SPLITS, /* placements of whole ops */
	MQ_LACKS_SHAPES = 1 << 6 /* plans of one shape: splits op by op, or stages have their own degrees */
};

/* Bytes that a device holds for one op: the terms of the memory verdict (lowering/footprint.h). */
struct mq_op_memory {
	double parameter_B, gradient_B, optimizer_B; /* the whole step */
	double kept_B;  /* activations of one micro-batch, from forward to backward. A recomputed layer's input counts
			 * with the first op that reads it */
	double again_B; /* recomputed activations, during the backward pass of the op's layer */
};
static inline double mq_op_static_B(const struct mq_op_memory *m)
{
	return m->parameter_B + m->gradient_B + m->optimizer_B;
}

/* Cost queries for engines, provided by costing/ (or by `solve` from tables). All times in seconds, without contention.
 * A function returns false if there is no answer. */
struct mq_costs {
	void *context;
	/* Forward (or backward) time of an op on a device under degrees, for `samples` samples. */
	double (*op_time)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
			  const uint32_t split[MQ_N_DIMS], double samples);
	/* Seconds in which its kernels keep the device busy, without launches: a lower bound for the same work in any
	 * plan, while sums of op_time count launches that other kernels hide. May be NULL. */
	double (*op_busy)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
			  const uint32_t split[MQ_N_DIMS], double samples);
	/* A lower bound of the step time of any plan. May be NULL. */
	double (*least_s)(void *context);
	/* A device's memory for the op if all ops were split so, with dp replicas: see struct mq_op_memory. */
	void (*op_memory)(void *context, uint32_t op, const uint32_t split[MQ_N_DIMS], double samples,
			  enum mq_sync sync, uint32_t dp, enum mq_recompute recompute, struct mq_op_memory *memory);
	/* Does op_memory differ between equal ops (mq_model.like), because only some layers are recomputed? NULL:
	 * no. */
	bool (*memory_by_layer)(void *context, enum mq_recompute recompute);
	/* Time to move an edge's tensor between the layouts of two configs, in the forward and the backward pass. */
	bool (*reshard)(void *context, uint32_t edge, const struct mq_config *from, const struct mq_config *to,
			double samples, double *forward_s, double *backward_s);
	bool (*collective)(void *context, const struct mq_coll_request *request, double *seconds);
	bool (*transfer)(void *context, uint32_t src, uint32_t dst, double bytes, double *seconds);
	/* ---- on whole plans, with screen_context; NULL = not available */
	void *screen_context;
	/* The analytic executor on a whole plan: step time and verdict. Counted and reported. */
	bool (*screen)(void *context, const struct mq_plan *plan, struct mq_result *result);
	/* The same for n plans, whether they fit or not (ask `fits` where it matters), divided among the worker
	 * processes if there are several; a plan without answer has the verdict MQ_N_VERDICTS. */
	void (*screen_times)(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result);
	/* Verdict and memory of a whole plan without its time: much cheaper; not counted. */
	bool (*fits)(void *context, const struct mq_plan *plan, struct mq_result *result);
};

/* A lower bound that an engine has proved, for --proof. */
struct mq_bound {
	const char *quantity; /* "step-time", "max-load", ... */
	double best, bound; /* the engine's best value (NaN = the search's best step time), and the lower bound over the
			     * scope */
	const char *unit;   /* of both */
	const char *scope;  /* plans for which it holds: "placements of whole ops" */
};

/* The question put to an engine. Everything is borrowed for the run. */
struct mq_problem {
	const struct mq_question *q;
	const struct mq_costs *costs;
	const struct mq_limits *limits;
	const struct mq_plan *start; /* --start, or NULL */
	const char *objective;       /* --objective ("step-time", "max-load", "latency", ...) */
	struct mq_rng *rng;          /* this engine's own */
	struct mq_arena *arena;      /* lifetime: the run */
	/* > 0: q is about 1/times of a large cluster of equal machines and of the batch: each plan gets `times` as many
	 * replicas before it is judged, and results are those of the whole cluster. */
	uint32_t times;
	uint64_t evals; /* budget in evaluations; UINT64_MAX = none */
	double seconds; /* budget in seconds; +inf = none */
	/* Poll in long loops: false = stop now. `done` in 0..1 feeds the progress bar (NaN = unknown). */
	bool (*tick)(void *context, double done, const char *what);
	void *tick_context;
	/* Seconds left of the budget (+inf = no limit); pass tick_context. For engines that run other engines and
	 * divide the time among them; may be NULL. */
	double (*left_s)(void *context);
	/* ---- calls to the search; pass `host`, also from an engine that another one runs */
	void *host;
	/* Engine-level lines for the user ("max-load 17.79"); goes to standard output at the end. */
	void (*say)(void *context, const char *line);
	/* Reports a bound; texts are copied. NULL: --proof was not given. */
	void (*bound)(void *context, const struct mq_bound *bound);
	/* Adds a point of the learning curve ("loss", 0.31) at the newest observed proposal to DIR/learning.csv. May be
	 * NULL. */
	void (*note)(void *context, const char *quantity, double value);
};

struct mq_engine {
	uint64_t abi;              /* MQ_ABI: the headers it was compiled with */
	const char *name;          /* file name with '-' for '_' */
	const char *summary;       /* one line */
	const char *paper;         /* citation, or NULL */
	const struct mq_opt *opts; /* may be NULL */
	size_t state_size;
	uint32_t batch; /* proposals before observing; 0 counts as 1 */
	uint32_t lacks; /* MQ_LACKS_...: features that its plans never have */
	bool parts;     /* can search a part of a large cluster (mq_problem.times); needs batch 1 */
	bool proves;    /* reports lower bounds through problem->bound */
	/* Optional: refuses questions that it cannot answer (MQ_EINPUT, MQ_ENODEV), allocates from problem->arena. */
	enum mq_status (*start)(void *state, const struct mq_problem *problem, struct mq_err *err);
	/* Required: fill `plan` (arena: one evaluation) or return MQ_DONE. */
	enum mq_status (*propose)(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				  struct mq_plan *plan, struct mq_err *err);
	/* Optional: the score of a plan proposed earlier. */
	void (*observe)(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
			const struct mq_result *result);
	/* Optional: releases resources outside arenas. */
	void (*stop)(void *state, const struct mq_problem *problem);
	/* Optional: `maquette solve FILE` - solves the engine's own problem from explicit tables and prints through
	 * `say`. `accepts` tells whether a file is such a problem. */
	enum mq_status (*solve)(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err);
	bool (*accepts)(const char *path);
};

/* MQ_EINPUT: --fix asks for a feature in `lacks`. The core calls it with the engine's `lacks`; engines call it for
 * parts of their plans, or for engines that they run. */
MQ_API enum mq_status mq_limits_refuse(const struct mq_limits *limits, const char *engine, uint32_t lacks,
				       struct mq_err *err);

/* MQ_EINPUT: the question's software can run none of the engine's plans (the engine places or splits single ops, the
 * software needs one shape for all). The core calls it before an engine starts. */
MQ_API enum mq_status mq_space_refuse(const struct mq_question *q, const char *engine, uint32_t lacks,
				      struct mq_err *err);

/* Does the plan keep the user's --fix and --max? If not, `message` names the violated one. */
MQ_API bool mq_limits_hold(const struct mq_limits *limits, const struct mq_plan *plan, const struct mq_train *train,
			   char *message, size_t size);

/* Sets a plan's schedule, recomputation, sync and (if mbs is fixed) micro-batches as the user fixed them, so that
 * engines need not handle these. */
MQ_API void mq_limits_apply(const struct mq_limits *limits, struct mq_plan *plan, const struct mq_train *train);

/* Price and energy of a step over the distinct devices of a plan; NaN: a device has no figure. */
MQ_API double mq_step_usd(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s);
MQ_API double mq_step_kWh(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s);

/* Symbol law: strategies/my_engine.c exports mq_engine_my_engine, named "my-engine". */
#define MQ_ENGINE(id)        MQ_API const struct mq_engine mq_engine_##id
#define MQ_ENGINE_HEAD(text) .abi = MQ_ABI, .name = text
/* The option table `opts`, the state type, and the hooks `start` and `propose` of this file. */
#define MQ_ENGINE_OWN(type) .opts = opts, .state_size = sizeof(type), .start = start, .propose = propose

#endif
