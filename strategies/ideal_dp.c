/* ideal_dp.c - the best contiguous pipeline by dynamic programming over ideals (Tarnawski, Phanishayee, Devanur,
 * Mahajan, Nina Paravecino, "Efficient algorithms for device placement of DNN graph operators", NeurIPS 2020).
 *
 * Objective: max-load, the time per sample (per micro-batch) of a full pipeline; --objective latency reports the
 * latency of the same pipeline. Method and complexity: see lib/place/ideal.h. Beyond the paper: any number of device
 * types of unequal speed and memory, and stages replicated over several devices (option replicas).
 *
 * For a graph with its own devices (-p model), proposes one plan and prints its value in the file's unit. Otherwise,
 * one plan per number of micro-batches and memory bound, for one micro-batch and for all in flight under 1F1B.
 *
 * Not modelled by the objective: fill and drain, tensor splits, contention. Refuses graphs with more ideals than the
 * option allows. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/engine.h"
#include "lib/place/engine.h"

static const struct mq_opt opts[] = { MQ_U32(struct mq_place_engine, ideals, 60000, 1, 100e6,
					     "refuse graphs with more ideals"),
				      MQ_PLACE_ENGINE_OPTS, MQ_END };

static enum mq_status start(void *state, const struct mq_problem *problem, struct mq_err *err)
{
	return mq_place_engine_start(state, "ideal-dp", false, problem, err);
}

MQ_ENGINE(ideal_dp) = {
	MQ_ENGINE_HEAD("ideal-dp"),
	.summary = "optimal contiguous pipeline by dynamic programming over ideals",
	/* optimal in max-load, among contiguous pipelines */
	MQ_PLACE_ENGINE,
};
