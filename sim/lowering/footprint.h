/* footprint.h - what one device holds of one stage: what stays for the whole step, and what comes and goes while one
 * micro-batch passes forward and backward. memory.c adds these up over a pipeline's schedule.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_FOOTPRINT_H
#define MQ_LOWERING_FOOTPRINT_H

#include "lowering/program.h"

/* Bytes at one moment. */
struct mq_moment {
	double activation_B; /* activations, their gradients, recomputed ones */
	double buffer_B;     /* gathered parameters, gradients that are formed or reduced */
};

struct mq_footprint {
	double parameter_B, gradient_B, optimizer_B; /* the whole step */
	double kept_B;                      /* activations of one micro-batch, from its forward to its backward */
	double unit_B;                      /* part of them: of the layer, or what stands outside, that keeps most */
	struct mq_moment forward, backward; /* fullest moment of a pass: what its own micro-batch
						holds at that moment, kept activations included */
	double reduced_B;                   /* gradients that are reduced among devices without ZeRO-3 */
	double flat_B;     /* all of them: who reduces through a flat copy makes it for one replica too */
	double logits_B;   /* of micro-batches before, the whole step */
	double boundary_B; /* largest tensor received from another stage */
	double late_B;     /* freed in a forward pass, but not for reuse before the device has run it */
	double host_B;     /* optimizer state, and gradients in fp32, on the host */
	double away_B;     /* activations of one micro-batch that wait on the host */
	double step_B;     /* fp32 copies of gradients, while the optimizer steps */
	double list_B;     /* its list of all parameters meanwhile, a tensor for each (foreach) */
	double fresh_B;    /* new parameters that ZeRO-1 and 2 gather behind the step (allgather_flat_copies) */
	double root_B;     /* ZeRO-3: gathered parameters outside the layers, the whole step */
};

/* What one op takes: the same figures before they are added up. Bytes. */
struct mq_op_use {
	double parameter_B, gradient_B, optimizer_B, step_B, fresh_B; /* as in mq_footprint */
	double reduced_B, flat_B, logits_B, boundary_B, late_B;       /* the same */
	double host_B, list_B;                                        /* the same */
	double kept_B;                                                /* from forward to backward */
	double entry_B; /* what it starts from when it runs again: a tensor of another unit, which all of its unit share */
	double again_B;                        /* more, from before its backward to behind it */
	double formed_B;                       /* its weight gradient, where it is formed apart before it is added */
	double waiting_B;                      /* the same, where it waits for the end of its pass */
	double gathered_B, computed_B, sent_B; /* ZeRO-3: parameters; gradients as computed, as sent */
	double forward_B, backward_B;          /* beyond what is kept, while it runs */
	double logit_B, loss_B; /* loss: one byte for each logit it sees; all that it ever holds of them */
	double more_loss_B;     /* of loss_B, what it does not keep */
	/* Filled for the allocator replay alone: */
	double launches[2]; /* kernels, forward and backward */
	double busy_s[2];   /* where all ranks' hosts agree on each collective (torch_distributed_debug_us), else 0: */
	double host_s[2];   /* the least that the device takes; what the host takes before and between kernels */
	double output_B;    /* its output */
	double first_entry_B; /* entry_B at the first op of the unit that has one, 0 at the others */
	double scores_B;      /* attention that stores its scores: one tensor of these */
	uint32_t op, unit;    /* unit: a layer, or what stands outside; counted from 0 */
	uint32_t shards;      /* ranks that fresh_B is gathered from */
	bool root;            /* outside the layers */
	bool away;            /* its unit's activations wait on the host */
	bool again;           /* it is run again before its backward */
	bool output_late;     /* its output is freed late, as a collective reads it */
	bool gradient_late;   /* so is the gradient of its input */
	bool spare[7];        /* no padding, see allocator_replay.c */
};

/* What a device holds of an op before it runs and behind it: the summands of mq_footprint_of but for `boundary_B`,
 * `late_B` and what lies there only meanwhile. For engines, which have no plan yet: under the degrees of the op's
 * config, of these samples. Only the question, `plan`, and `num` (stages, units) of the lowering are read. */
struct mq_op_use mq_footprint_of_op(const struct mq_low *low, uint32_t op, uint32_t device, double samples);
/* The footprint of cluster rank `device` in a stage, nothing where it takes no part in it. `use`: NULL, or room for all
 * ops of the stage, of which *n are filled, in the stage's order. Uses the lowering's scratch arena. */
struct mq_footprint mq_footprint_of(struct mq_low *low, uint32_t stage, uint32_t device, struct mq_op_use *use,
				    uint32_t *n);

#endif
