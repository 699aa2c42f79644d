/*
 * export.h - a plan as a launcher's settings: what the targets can say, and why they refuse.
 *
 * A launcher that has one degree of each kind for all stages can say exactly the plans that
 * mq_plan_from_shape can build on devices 0, 1, 2, ...: so a plan is read back into a shape, built again
 * and compared by hash. Nothing is exported that would run as another plan.
 */
#ifndef MQ_CMD_EXPORT_EXPORT_H
#define MQ_CMD_EXPORT_EXPORT_H

#include <stdio.h>

#include "cmd/common.h"
#include "core/plan.h"

struct mq_export {
	const struct mq_model *model;
	const struct mq_cluster *cluster;
	const struct mq_train *train;
	const struct mq_plan *plan;
	struct mq_arena *arena;
	const char *dir;        /* folder for targets that write several files */
};

/* One pipeline stage (model chunk). */
struct mq_export_stage {
	uint32_t layers, first_device, n_devices, dp, tp, cp, ep;
	const char *type;       /* device type, NULL = mixed inside the stage */
	uint8_t sync, recompute;
};

/* The stages of a plan, in order; MQ_EINPUT: one that no launcher can say (devices of a stage not
 * consecutive, uneven shares, configs of one stage on different devices, ...). */
enum mq_status mq_export_stages(const struct mq_export *e, struct mq_export_stage **stage, uint32_t *n,
				struct mq_err *err) MQ_MUST_CHECK;

/* MQ_EINPUT: layers of several widths (hidden 0), which a target with one width for all cannot say. */
enum mq_status mq_export_one_width(const struct mq_export *e, const char *target,
				   struct mq_err *err) MQ_MUST_CHECK;
/* The shape that builds exactly this plan. MQ_EINPUT: there is none, and what differs first. */
enum mq_status mq_export_shape(const struct mq_export *e, struct mq_shape *shape,
			       struct mq_err *err) MQ_MUST_CHECK;
/* Builds a shape's plan with the switches that a shape does not hold taken from `like`. */
enum mq_status mq_export_build(const struct mq_export *e, const struct mq_shape *shape,
			       const struct mq_plan *like, struct mq_plan *plan,
			       struct mq_err *err) MQ_MUST_CHECK;
/* Samples of a micro-batch on one data-parallel rank; MQ_EINPUT where that is no whole number. */
enum mq_status mq_export_micro_batch(const struct mq_export *e, uint32_t dp, uint32_t *samples,
				     struct mq_err *err) MQ_MUST_CHECK;

/* Targets. MQ_EINPUT: the reason why the target cannot say this plan. */
enum mq_status mq_export_megatron(const struct mq_export *e, FILE *file, struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_export_deepspeed(const struct mq_export *e, FILE *file, struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_export_torchtitan(const struct mq_export *e, FILE *file,
				    struct mq_err *err) MQ_MUST_CHECK;
enum mq_status mq_export_flagscale(const struct mq_export *e, FILE *file, struct mq_err *err) MQ_MUST_CHECK;
/* One execution trace per device of a schedule: DIR/chakra.RANK.et (protobuf, schema of MLCommons Chakra). */
struct mq_schedule;
enum mq_status mq_export_chakra(const struct mq_schedule *schedule, const char *dir,
				struct mq_err *err) MQ_MUST_CHECK;

/* Megatron-Core flags -> plan. `text` is a command line or a script's flags, quotes and backslashes at line
 * ends included. Flags that say nothing about the plan are skipped and named in `skipped`. */
enum mq_status mq_import_megatron(const struct mq_export *e, const char *text, struct mq_plan *plan,
				  const char **skipped, struct mq_err *err) MQ_MUST_CHECK;

#endif
