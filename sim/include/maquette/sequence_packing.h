/* sequence_packing.h - documents packed into sequences: what is left of attention's work, and who has most of it.
 *
 * Documents follow one another and are cut where a sequence ends; what is left begins the next. Tokens attend to their
 * own document alone, so that a sequence of S tokens with documents of l tokens takes sum l^2 / S^2 of the work of a
 * whole one, causal or not. The documents of a batch are drawn once, from a seed; its sequence (m R + r) b + i is the
 * i-th of micro-batch m on replica r of R. Replicas, micro-batches and, under context parallelism, ranks have more or
 * less of it, and others wait:
 *
 *   ranks        a sequence is cut into 2c parts, of which rank r has the r-th and the r-th from the end; the
 *                micro-batch takes what the fullest rank has. Attention that is not causal: likewise
 *   replicas     where gradients or parameters are exchanged in every micro-batch (ZeRO-2 and 3), or tokens with
 *                experts, each micro-batch takes what the fullest replica has; else the fullest replica's
 *                micro-batches count
 *   stages       P stages of v chunks take the sum of their micro-batches and (P - 1)/v times the largest (a flow
 *                shop of equal machines)
 *
 * All ranks are given that much: they stay alike, and folding stays exact.
 *
 * Not modelled: kernels that are less efficient on short documents, software that cuts every document into parts for
 * context parallelism, sorting or balancing of documents, and attention that stores its scores, which a mask spares
 * nothing. Model FLOPs and MFU count whole sequences. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SEQUENCE_PACKING_H
#define MAQUETTE_SEQUENCE_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Zeroes: every sequence is one document. */
struct mq_sequence_packing {
	double mean, sigma;   /* lognormal: mean length, deviation of the logarithm; sigma 0: all of one length */
	uint32_t n;           /* lengths to draw from, each as likely as the others; 0 = by mean and sigma */
	const double *length; /* [n] tokens */
	uint64_t seed;
	/* once bound: */
	double seq;            /* tokens of a sequence; 0 = not bound */
	uint32_t n_sequences;  /* drawn; later ones repeat them */
	const uint32_t *first; /* [n_sequences + 1] into end */
	const double *end;     /* where documents end, tokens from the sequence's begin */
	double work;           /* of attention / that of whole sequences: the batch's mean, or a plan's
				  * (mq_question_for); 0 = 1 */
};

/* Is anything said? */
static inline bool mq_sequence_packing_said(const struct mq_sequence_packing *d)
{
	return d->n || d->mean > 0;
}
/* "1000" (all of one length), "lognormal:1000:1.2" (mean, deviation of the logarithm), "300,2000,120" or a file of
 * lengths (base/numbers.h; in a file one is enough). MQ_EINPUT: a length under 1 token, a bad number, no such file. */
MQ_API enum mq_status mq_sequence_packing_read(const char *what, const char *text, struct mq_arena *arena,
					       struct mq_sequence_packing *documents, struct mq_err *err);
/* What mq_sequence_packing_read makes the same of, without a file; "" where nothing is said. */
MQ_API const char *mq_sequence_packing_text(const struct mq_sequence_packing *documents, struct mq_arena *arena);
/* Draws the documents of a batch of so many sequences of `seq` tokens, and fills `work` with their mean. MQ_EINPUT:
 * more than can be held. */
MQ_API enum mq_status mq_sequence_packing_bind(struct mq_sequence_packing *documents, double seq, double batch,
					       struct mq_arena *arena, struct mq_err *err);

/* Who shares the batch. */
struct mq_sequence_packing_plan {
	uint32_t replicas, ranks, stages, chunks, micro_batches;
	double samples; /* of a replica's micro-batch; fractions count as the sequence they begin in */
	bool meet;      /* replicas meet in every micro-batch */
	bool causal;
};
/* Work of attention per micro-batch that stands for all of a plan / that of whole sequences. Bound. */
MQ_API double mq_sequence_packing_work(const struct mq_sequence_packing *documents,
				       const struct mq_sequence_packing_plan *plan);

#endif
