/* engine.h - what a search engine is: a plug-in that proposes plans and is told their scores.
 *
 * An engine is one file, strategies/NAME.c, that exports one const struct through MQ_ENGINE(NAME). The core owns the
 * loop, the budget, the seeded RNG, the pool of simulations, the cache of duplicate plans, the CSV and the best-so-far;
 * the engine owns only its state, which the core allocates, zeroes and fills from the option table. See
 * strategies/README.md.
 *
 * Order of calls: start, then rounds of { propose x up to `batch`, observe for each in index order }, stop. Nothing an
 * engine sees depends on -j or on the clock. SPDX-License-Identifier: Apache-2.0 */
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
	uint32_t fix_etp, fix_ulysses; /* as in struct mq_shape; etp of experts that are not dealt out is tp */
	uint32_t max_dp, max_tp, max_pp, max_devices;
	int fix_pipeline, fix_recompute, fix_sync; /* enum values, -1 = free */
	/* Budgets of one step, held against the judgement; 0 = none. */
	double max_usd, max_kWh, max_step_s, max_memory_B;
};

/* What no plan of an engine has: a constraint that asks for it is refused before the engine starts. */
enum {
	MQ_LACKS_DP = 1 << 0, /* data parallelism */
	MQ_LACKS_TP = 1 << 1, /* tensor parallelism */
	MQ_LACKS_PP = 1 << 2, /* pipeline stages */
	MQ_LACKS_CP = 1 << 3,
	MQ_LACKS_EP = 1 << 4,
	MQ_LACKS_VIRTUAL = 1 << 5, /* several stages per device */
	MQ_LACKS_SPLITS = MQ_LACKS_TP | MQ_LACKS_CP | MQ_LACKS_EP | MQ_LACKS_VIRTUAL,
	MQ_LACKS_ALL = MQ_LACKS_DP | MQ_LACKS_PP | MQ_LACKS_SPLITS, /* placements of whole ops */
	MQ_LACKS_SHAPES = 1 << 6 /* plans of one shape: what it proposes is split op by op, or has stages
				    * of degrees of their own */
};

/* What a device holds of one op, bytes: the summands of the memory verdict (lowering/footprint.h). */
struct mq_op_memory {
	double parameter_B, gradient_B, optimizer_B; /* the whole step */
	double kept_B;  /* activations of one micro-batch, from forward to backward. The input of a layer that is
			 * recomputed counts with the first op that reads it */
	double again_B; /* recomputed activations, while the backward pass of the op's layer runs */
};
static inline double mq_op_static_B(const struct mq_op_memory *m)
{
	return m->parameter_B + m->gradient_B + m->optimizer_B;
}

/* Questions an engine may ask about costs; filled by costing/ (or by `solve` from tables). All times in
 * seconds, all without contention. Functions return false where the answer does not exist. */
struct mq_costs {
	void *context;
	/* Forward (or backward) time of an op on a device under degrees, for `samples` samples. */
	double (*op_time)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
			  const uint32_t split[MQ_N_DIMS], double samples);
	/* Seconds that its kernels keep the device busy, launches apart: sums of op_time count launches that
	 * hide behind other kernels; no plan takes less than this for the same work. May be NULL. */
	double (*op_busy)(void *context, uint32_t op, enum mq_phase phase, uint32_t device,
			  const uint32_t split[MQ_N_DIMS], double samples);
	/* A step time that no plan is below, whatever it splits. May be NULL. */
	double (*least_s)(void *context);
	/* What a device holds of the op, were all ops split so among dp replicas: see struct mq_op_memory. */
	void (*op_memory)(void *context, uint32_t op, const uint32_t split[MQ_N_DIMS], double samples,
			  enum mq_sync sync, uint32_t dp, enum mq_recompute recompute, struct mq_op_memory *memory);
	/* Does it differ between ops that are alike (mq_model.like), as only some layers are recomputed? NULL: no. */
	bool (*memory_by_layer)(void *context, enum mq_recompute recompute);
	/* Time to move an edge's tensor between the layouts that two configs imply, forward pass;
	 * the backward pass costs `backward_s`. */
	bool (*reshard)(void *context, uint32_t edge, const struct mq_config *from, const struct mq_config *to,
			double samples, double *forward_s, double *backward_s);
	bool (*collective)(void *context, const struct mq_coll_request *request, double *seconds);
	bool (*transfer)(void *context, uint32_t src, uint32_t dst, double bytes, double *seconds);
	/* ---- on whole plans, with screen_context; NULL where there is no executor for it */
	void *screen_context;
	/* The analytic executor on a whole plan: step time and verdict. Counted and reported. */
	bool (*screen)(void *context, const struct mq_plan *plan, struct mq_result *result);
	/* The same of n plans, shared out among the worker processes where there are several; what has no answer has
	 * the verdict MQ_N_VERDICTS. */
	void (*screen_all)(void *context, const struct mq_plan *const *plan, uint32_t n, struct mq_result *result);
	/* Verdict and memory of a whole plan without its time, much cheaper; not counted. */
	bool (*fits)(void *context, const struct mq_plan *plan, struct mq_result *result);
};

/* A lower bound that an engine has shown, for --proof. */
struct mq_bound {
	const char *quantity; /* "step-time", "max-load", ... */
	double best, bound;   /* the engine's best value (NaN = the search's best step time), and
					 what no plan of the scope is below */
	const char *unit;     /* of both */
	const char *scope;    /* for which plans it holds: "placements of whole ops" */
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
	/* 0, or q is about a part of a large cluster of equal machines, with its part of the batch: plans are made so
	 * many times as large before they are judged, and results are those of all of it. */
	uint32_t times;
	uint64_t evals; /* budget in evaluations; UINT64_MAX = none */
	double seconds; /* budget in seconds; +inf = none */
	/* Poll in long loops: false = stop now. `done` in 0..1 feeds the progress bar (NaN = unknown). */
	bool (*tick)(void *context, double done, const char *what);
	void *tick_context;
	/* Seconds left of the budget, with tick_context; +inf = none. For engines that divide their time among
	 * others; may be NULL. */
	double (*left_s)(void *context);
	/* ---- what it tells, with host: the search, also where one engine runs another */
	void *host;
	/* Engine-level lines for the user ("max-load 17.79"); goes to standard output at the end. */
	void (*say)(void *context, const char *line);
	/* Takes a bound; texts are copied. NULL: nobody asked (--proof). */
	void (*bound)(void *context, const struct mq_bound *bound);
	/* A point of the learning curve ("loss", 0.31), at the proposal observed last; goes to
	 * DIR/learning.csv. May be NULL. */
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
	bool heuristic; /* does not promise the optimum on tiny cases */
	uint32_t lacks; /* MQ_LACKS_...: what its plans never have */
	bool parts;     /* takes a part for a large cluster (mq_problem.times); it has a batch of one */
	bool proves;    /* shows lower bounds where problem->bound asks for them */
	/* Optional: refuse (MQ_EINPUT, MQ_ENODEV) what it cannot do, allocate from problem->arena. */
	enum mq_status (*start)(void *state, const struct mq_problem *problem, struct mq_err *err);
	/* Required: fill `plan` (arena: one evaluation) or return MQ_DONE. */
	enum mq_status (*propose)(void *state, const struct mq_problem *problem, struct mq_arena *arena,
				  struct mq_plan *plan, struct mq_err *err);
	/* Optional: the score of a plan proposed earlier. */
	void (*observe)(void *state, const struct mq_problem *problem, const struct mq_plan *plan,
			const struct mq_result *result);
	/* Optional: release what is not in an arena. */
	void (*stop)(void *state, const struct mq_problem *problem);
	/* Optional: `maquette solve FILE` - an own problem from explicit tables; prints through say.
	 * `accepts` looks at the parsed file's top level. */
	enum mq_status (*solve)(void *state, const char *path, const struct mq_problem *problem, struct mq_err *err);
	bool (*accepts)(const char *path);
};

/* MQ_EINPUT where --fix asks for a degree that the engine's plans never have: for engines that hold only
 * some of their answers so, or that run others. The core calls it with `lacks`. */
MQ_API enum mq_status mq_limits_refuse(const struct mq_limits *limits, const char *engine, uint32_t lacks,
				       struct mq_err *err);

/* MQ_EINPUT where the question's software runs none of the plans that an engine has: those of engines that
 * place or split single ops, where it runs one shape for all. The core calls it before an engine starts. */
MQ_API enum mq_status mq_space_refuse(const struct mq_question *q, const char *engine, uint32_t lacks,
				      struct mq_err *err);

/* Does the plan keep the user's --fix and --max? Else says which is broken. */
MQ_API bool mq_limits_hold(const struct mq_limits *limits, const struct mq_plan *plan, const struct mq_train *train,
			   char *message, size_t size);

/* Writes what the user fixed into what does not change the shape of a plan: schedule, recompute, sync, and
 * micro-batches where mbs is fixed. So an engine need not know them. */
MQ_API void mq_limits_apply(const struct mq_limits *limits, struct mq_plan *plan, const struct mq_train *train);

/* Price and energy of a step over the distinct devices of a plan; NaN where a device has no figure. */
MQ_API double mq_step_usd(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s);
MQ_API double mq_step_kWh(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s);

/* Symbol law: strategies/my_engine.c exports mq_engine_my_engine, named "my-engine". */
#define MQ_ENGINE(id)        MQ_API const struct mq_engine mq_engine_##id
#define MQ_ENGINE_HEAD(text) .abi = MQ_ABI, .name = text
/* The options of this file, its state, and its hooks of these names. */
#define MQ_ENGINE_OWN(type) .opts = opts, .state_size = sizeof(type), .start = start, .propose = propose

#endif
