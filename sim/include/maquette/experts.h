/* experts.h - how unevenly tokens visit the experts of a mixture, and what that asks of a device.
 *
 * A router sends more tokens to some experts than to others. The ranks of an expert-parallel group meet in every
 * all-to-all, so all of them wait for the one whose experts have most tokens: its load stands for that of every rank.
 * Its GEMMs, its activations, the copies it permutes and what it receives are `load` times the mean, in time and in
 * memory; ranks stay alike, and folding stays exact.
 *
 *   stated    the fullest rank's tokens over the mean, at any degree; no more than the degree, which is all of them
 *   counted   tokens of each expert (a histogram, in any unit). Rank r of ep has experts r E/ep .. (r + 1) E/ep - 1,
 *             as the frameworks deal them out
 *
 * With a capacity c an expert takes c times the mean of all and drops the rest; padded, each multiplies so many rows,
 * whether it has them or not (Lepikhin et al., GShard, 2020; Megatron core's --moe-expert-capacity-factor and
 * --moe-pad-expert-input-to-capacity).
 *
 * Not modelled: loads that differ from layer to layer or change from step to step, ranks with less (they wait), and
 * copies of busy experts. Model FLOPs and MFU count every token that a router chose, dropped ones too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_EXPERTS_H
#define MAQUETTE_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Zeroes: all experts alike, nothing dropped. */
struct mq_expert_load {
	double stated;        /* >= 1; 0 = not stated */
	double capacity;      /* tokens an expert takes / the mean; 0 = all that come */
	bool pad;             /* each expert multiplies `capacity` rows */
	uint32_t n;           /* experts of the histogram; 0 = none */
	const double *tokens; /* [n] that visit each, in any unit */
};

/* Tokens of the fullest rank of an expert-parallel group of `ep` / the mean of its ranks before any is dropped.
 * ep 1: what one device does for all experts. 1 for zeroes. */
MQ_API double mq_expert_load(const struct mq_expert_load *load, double ep);

/* "1.3" (stated), "5,3,1,1" (a histogram), or a file with a number for each expert, separated by blanks, commas
 * or line breaks ('#' begins a comment). `what` names the option in messages. MQ_EINPUT: a stated load under 1,
 * a negative number, nothing but zeroes, no such file. */
MQ_API enum mq_status mq_expert_load_read(const char *what, const char *text, struct mq_arena *arena,
					  struct mq_expert_load *load, struct mq_err *err);
/* What mq_expert_load_read makes the same of, without a file; "" where nothing is said. */
MQ_API const char *mq_expert_load_text(const struct mq_expert_load *load, struct mq_arena *arena);

#endif
