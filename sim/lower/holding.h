/*
 * holding.h - what one device holds of one stage: what stays for the whole step, and what comes and goes
 * while one micro-batch passes forward and backward. memory.c adds these up over a pipeline's schedule.
 */
#ifndef MQ_LOWER_HOLDING_H
#define MQ_LOWER_HOLDING_H

#include "lower/program.h"

/* Bytes at one moment. */
struct mq_moment {
	double activation_B; /* activations, their gradients, recomputed ones */
	double buffer_B;     /* gathered parameters, gradients that are formed or reduced */
};

struct mq_holding {
	double parameter_B, gradient_B, optimizer_B; /* the whole step */
	double kept_B;                      /* activations of one micro-batch, from its forward to its backward */
	double unit_B;                      /* part of them: of the layer, or what stands outside, that keeps most */
	struct mq_moment forward, backward; /* fullest moment of a pass: what its own micro-batch
						holds at that moment, kept activations included */
	double reduced_B;                   /* gradients that are reduced among devices without ZeRO-3 */
	double boundary_B;                  /* largest tensor received from another stage */
	double late_B; /* freed in a forward pass, but not for reuse before the device has run it */
	double step_B; /* fp32 copies of gradients, while the optimizer steps */
	double root_B; /* ZeRO-3: gathered parameters outside the layers, the whole step */
};

/* The holding of cluster rank `device` in a stage, nothing where it takes no part in it. Uses the
 * lowering's scratch arena. */
struct mq_holding mq_hold(struct mq_low *low, uint32_t stage, uint32_t device);

#endif
