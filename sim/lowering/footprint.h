/* footprint.h - memory of one stage on one device: permanent parts, and those of one micro-batch's forward and
 * backward. memory.c sums them over a pipeline's schedule. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_LOWERING_FOOTPRINT_H
#define MQ_LOWERING_FOOTPRINT_H

#include "lowering/program.h"

/* Bytes at one time. */
struct mq_moment {
	double activation_B; /* activations, their gradients, recomputed ones */
	double buffer_B;     /* gathered parameters, gradients before accumulation or in reduction */
};

struct mq_footprint {
	double parameter_B, gradient_B, optimizer_B; /* the whole step */
	double kept_B;                      /* activations of one micro-batch, from its forward to its backward */
	double unit_B;                      /* part of them: of the unit that saves most */
	struct mq_moment forward, backward; /* fullest moment of a pass: what its own micro-batch
						holds at that moment, kept activations included */
	double reduced_B;                   /* gradients reduced among devices without ZeRO-3 */
	double flat_B;     /* all gradients: software with flat copies makes them even for one replica */
	double logits_B;   /* logits of earlier micro-batches, the whole step */
	double boundary_B; /* largest tensor received from another stage */
	double late_B;     /* freed in a forward pass, but reused only after the device has run it */
	double host_B;     /* optimizer state, and gradients in fp32, on the host */
	double away_B;     /* offloaded activations of one micro-batch */
	double step_B;     /* fp32 copies of gradients during the optimizer step */
	double list_B;     /* foreach optimizers: the list of temporaries during the step */
	double fresh_B;    /* new parameters that ZeRO-1 and 2 gather after the step (allgather_flat_copies) */
	double root_B;     /* ZeRO-3: gathered parameters outside the layers, the whole step */
};

/* The same for one op, before the sum. Bytes. */
struct mq_op_use {
	double parameter_B, gradient_B, optimizer_B, step_B, fresh_B; /* as in mq_footprint */
	double reduced_B, flat_B, logits_B, boundary_B, late_B;       /* the same */
	double host_B, list_B;                                        /* the same */
	double kept_B;                                                /* from forward to backward */
	double entry_B;   /* start of its recomputation: a tensor of another unit, shared by its whole unit */
	double again_B;   /* recomputed: from before its backward to after it */
	double formed_B;  /* its weight gradient, if separate before accumulation */
	double waiting_B; /* the same, if it waits for the end of its pass */
	double gathered_B, computed_B, sent_B; /* ZeRO-3: parameters; gradients as computed, as sent */
	double forward_B, backward_B;          /* beyond saved bytes, while it runs */
	double logit_B, loss_B;                /* loss: one byte for each of its logits; its peak */
	double more_loss_B;                    /* the part of loss_B that is not saved */
	/* For the allocator replay alone: */
	double launches[2]; /* kernels, forward and backward */
	/* If hosts agree on each collective (torch_distributed_debug_us), else 0: */
	double busy_s[2], host_s[2]; /* least device time; the host's before and between kernels */
	double output_B;             /* its output */
	double first_entry_B;        /* entry_B at the unit's first op with one, else 0 */
	double scores_B;             /* attention that stores scores: one tensor of them */
	uint32_t op, unit;           /* unit: a layer, or ops outside; from 0 */
	uint32_t shards;             /* number of ranks of the gather of fresh_B */
	bool root;                   /* outside the layers */
	bool away;                   /* its unit's activations are offloaded */
	bool again;                  /* recomputed before its backward */
	bool output_late;            /* its output is freed late, since a collective reads it */
	bool gradient_late;          /* so is the gradient of its input */
	bool spare[7];               /* no padding, see allocator_replay.c */
};

/* Memory of an op outside its own execution: the summands of mq_footprint_of except `boundary_B`, `late_B` and
 * temporaries. For engines, which have no plan yet: with the degrees of the op's config and these samples. Reads only
 * the question, `plan`, and `num` (stages, units) of the lowering. */
struct mq_op_use mq_footprint_of_op(const struct mq_low *low, uint32_t op, uint32_t device, double samples);
/* The footprint of cluster rank `device` in a stage; zero if it has no part in it. use: NULL, or room for all ops of
 * the stage, of which *n are filled, in stage order. Uses the lowering's scratch arena. */
struct mq_footprint mq_footprint_of(struct mq_low *low, uint32_t stage, uint32_t device, struct mq_op_use *use,
				    uint32_t *n);

#endif
