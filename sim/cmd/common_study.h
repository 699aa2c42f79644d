/*
 * common_study.h - a what-if study: a job file whose keys may have several values, and the points of their
 * cross product.
 *
 * Keys are the long options of `search` (model, batch, engine, ...), platform.KEY (options of `platform
 * generate`), changes of the hardware (link.CLASS.bw, device.TYPE.flops, rank.N.clock, spread.clock,
 * calib.TYPE.FIELD: core/change.h) and the study's own (below). Values in a list (separated by commas; in
 * `model`, where commas are part of a name, by comma and blank or by semicolons) and ranges become axes:
 *
 *	platform.nodes = 1, 2, 4        batch = 32..512*2       link.network.bw = 0.5..2+0.5
 *
 * `engine` is never an axis: its list is one search with several engines. The first key varies slowest.
 */
#ifndef MQ_CMD_COMMON_STUDY_H
#define MQ_CMD_COMMON_STUDY_H

#include "cmd/common_search.h"

struct mq_axis {
	const char *key;
	uint32_t n;
	const char **value;
};

struct mq_study {
	struct mq_arena *arena;      /* borrowed */
	const char *path;            /* of the job file */
	uint32_t n_axes, axis_room;
	struct mq_axis *axis;        /* single values too: n = 1 */
	uint32_t n_points;
	/* the study's own keys */
	double efficiency;           /* scaling: report where it falls under this share; 0 = no scaling */
	bool weak;                   /* scaling = weak: batch grows with the devices */
	double sensitivity;          /* relative step of the sensitivities; 0 = none */
};

enum { MQ_MAX_POINTS = 1000000, MQ_MAX_AXIS = 10000 };

/* MQ_EINPUT: file, line, value and remedy. */
enum mq_status mq_study_load(const char *path, struct mq_arena *arena, struct mq_study *study,
			     struct mq_err *err) MQ_MUST_CHECK;

/* One point: its value on each axis, and the question it asks. `platform_dir` receives generated
 * platforms. The question lives in the arena; MQ_EINPUT names the point's values. */
struct mq_point {
	uint32_t index;
	const char **value;          /* [n_axes] */
	uint64_t hash;               /* of the question, for resuming */
	struct mq_question question;
	struct mq_search_options search;
};
enum mq_status mq_study_point(const struct mq_study *study, uint32_t index, const char *platform_dir,
			      struct mq_arena *arena, struct mq_point *point,
			      struct mq_err *err) MQ_MUST_CHECK;

/* The header of whatif.csv: point, the axes with more than one value, the columns of a row. */
const char *mq_study_header(const struct mq_study *study, struct mq_arena *arena);

/* Searches one point and writes its row (without newline) to `row`. A point that has no feasible plan, or
 * that cannot be asked (its platform cannot be built, say), is a row too. MQ_EINPUT only where a row
 * cannot be made at all. */
enum mq_status mq_study_run(const struct mq_study *study, const struct mq_point *point,
			    struct mq_arena *arena, const char **row, struct mq_err *err) MQ_MUST_CHECK;

/* Cost of one step in $ and kWh over the devices of a plan; NaN where a price or a power is not known. */
double mq_step_price(const struct mq_cluster *cluster, const struct mq_plan *plan, double step_time_s);
double mq_step_energy_kWh(const struct mq_cluster *cluster, const struct mq_plan *plan,
			  double step_time_s);

#endif
