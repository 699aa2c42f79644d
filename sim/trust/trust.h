/* trust.h - how far to trust a predicted step: the published runs that are like a question, and what their errors say.
 *
 * The index, results/accuracy/trust.csv, has a row for every published run that was predicted: what its error may
 * depend on, and the error of the prediction with the run's source left out of every fitted value.
 *   point.c     a question and its prediction as such a row
 *   index.c     reading the index
 *   interval.c  neighbours, intervals, P(faster)
 *   words.c     the line and the JSON object that commands print SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TRUST_TRUST_H
#define MQ_TRUST_TRUST_H

#include "base/csv.h"
#include "maquette/question.h"
#include "maquette/result.h"

/* What errors may depend on: a column of the index each. */
#define MQ_TRUST_WORDS(F)                            \
	F(device, "device type of the first device") \
	F(family, "its generation")                  \
	F(software, "training software")             \
	F(parent, "the software that it inherits")   \
	F(kind, "dense, mixture, images, other")     \
	F(precision, "operands of GEMMs")            \
	F(network, "network between machines, or none")
#define MQ_TRUST_NUMBERS(F)                                            \
	F(gpus, "devices of the plan")                                 \
	F(nodes, "their machines")                                     \
	F(kinds, "device types")                                       \
	F(work, "tokens, or images, of a step per device")             \
	F(params, "parameters of the model")                           \
	F(tp, "tensor parallelism")                                    \
	F(tp_nodes, "machines that a tensor-parallel group spans")     \
	F(pp, "pipeline stages")                                       \
	F(cp, "context parallelism")                                   \
	F(ep, "expert parallelism")                                    \
	F(dp, "data parallelism")                                      \
	F(recompute, "0 none, 1 selective, 2 full")                    \
	F(sync, "0 all-reduce, else the stage of ZeRO")                \
	F(comm_share, "predicted exposed communication over the step") \
	F(bubble_share, "predicted bubble over the step")              \
	F(mfu, "predicted share of the peak")                          \
	F(step_s, "predicted step")

#define MQ_MEMBER(name, about) MQ_TRUST_##name,
enum mq_trust_word { MQ_TRUST_WORDS(MQ_MEMBER) MQ_N_TRUST_WORDS };
enum mq_trust_number { MQ_TRUST_NUMBERS(MQ_MEMBER) MQ_N_TRUST_NUMBERS };
#undef MQ_MEMBER

struct mq_trust_point {
	const char *word[MQ_N_TRUST_WORDS]; /* borrowed */
	double number[MQ_N_TRUST_NUMBERS];  /* NaN = not known */
};

/* A question with a plan and its result. */
struct mq_trust_view {
	const struct mq_model *model;
	const struct mq_train *train;
	const struct mq_software_record *software;
	const struct mq_plan *plan;
	const struct mq_result *result;
	const struct mq_device_calib *device; /* of the plan's first device; NULL = no calibration */
	const char *network;                  /* "none" on one machine */
	uint32_t per_node, nodes, kinds;      /* devices of a machine; machines and device types of the plan */
};
void mq_trust_point_of(const struct mq_trust_view *view, struct mq_trust_point *point);

/* Header of a table of points, and its cells. */
extern const char mq_trust_header[];
void mq_trust_put(struct mq_csv_writer *w, const struct mq_trust_point *point);

#endif
