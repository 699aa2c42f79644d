/* experts.h - uneven loads of the experts of a mixture, and their cost to a device.
 *
 * A router sends more tokens to some experts than to others. Every all-to-all synchronises an expert-parallel group, so
 * all ranks wait for the one whose experts have most tokens. Every rank is given that load: its GEMMs, activations,
 * permutation copies and received tokens are `load` times the mean, in time and in memory. So ranks stay equal, and
 * folding stays exact.
 *
 *   stated    tokens of the fullest rank / mean, at any degree; at most the degree (one rank has all)
 *   counted   tokens of each expert (a histogram, in any unit). Rank r of ep has experts r E/ep .. (r + 1) E/ep - 1,
 *             as frameworks place them
 *
 * With a capacity c an expert takes at most c times the mean and drops the rest; padded, each multiplies exactly that
 * many rows (Lepikhin et al., GShard, 2020; Megatron core's --moe-expert-capacity-factor and
 * --moe-pad-expert-input-to-capacity).
 *
 * Not modelled: loads that differ from layer to layer or change from step to step, the shorter work of ranks with less
 * (they wait), and copies of busy experts. Model FLOPs and MFU count every token that a router chose, dropped ones too.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_EXPERTS_H
#define MAQUETTE_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Zeroes: equal loads, nothing dropped. */
struct mq_expert_load {
	double stated;        /* >= 1; 0 = not stated */
	double capacity;      /* most tokens of an expert / mean; 0 = unlimited */
	bool pad;             /* each expert multiplies `capacity` rows */
	uint32_t n;           /* experts of the histogram; 0 = none */
	const double *tokens; /* [n] that visit each, in any unit */
};

/* Tokens of the fullest rank of an expert-parallel group of `ep` / the mean of its ranks before any are dropped. ep 1:
 * one device has all experts. 1 for zeroes. */
MQ_API double mq_expert_load(const struct mq_expert_load *load, double ep);

/* "1.3" (stated), "5,3,1,1" (a histogram), or a file with a number for each expert, separated by blanks, commas
 * or line breaks ('#' begins a comment). `what` names the option in messages. MQ_EINPUT: a stated load under 1,
 * a negative number, nothing but zeroes, no such file. */
MQ_API enum mq_status mq_expert_load_read(const char *what, const char *text, struct mq_arena *arena,
					  struct mq_expert_load *load, struct mq_err *err);
/* A text from which mq_expert_load_read makes the same load without a file; "" for zeroes. */
MQ_API const char *mq_expert_load_text(const struct mq_expert_load *load, struct mq_arena *arena);

#endif
