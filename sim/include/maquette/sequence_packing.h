/* sequence_packing.h - documents packed into sequences: the work of attention, and its imbalance.
 *
 * Documents are concatenated and cut at the ends of sequences; the rest of a document begins the next sequence. Tokens
 * attend to their own document alone, so a sequence of S tokens with documents of l tokens takes sum l^2 / S^2 of the
 * work of an undivided one, causal or not. The documents of a batch are drawn once, from a seed; its sequence (m R + r)
 * b + i is the i-th of micro-batch m on replica r of R. Replicas, micro-batches and, under context parallelism, ranks
 * get unequal work, and wait for the fullest:
 *
 *   ranks        a sequence is cut into 2c parts, of which rank r has the r-th and the r-th from the end; the fullest
 *                rank decides the micro-batch's time. Attention that is not causal: likewise
 *   replicas     if gradients, parameters (ZeRO-2 and 3) or tokens of experts are exchanged in every micro-batch,
 *                the fullest replica decides each micro-batch; else the fullest replica's micro-batches count
 *   stages       P stages of v chunks take the sum of the micro-batches plus (P - 1)/v times the largest (a flow
 *                shop of equal machines)
 *
 * All ranks are given that work, so they stay equal, and folding stays exact.
 *
 * Not modelled: kernels that are less efficient on short documents, software that cuts every document into parts for
 * context parallelism, sorting or balancing of documents, and attention that stores its scores, whose work a mask does
 * not reduce. Model FLOPs and MFU count whole sequences. SPDX-License-Identifier: Apache-2.0 */
#ifndef MAQUETTE_SEQUENCE_PACKING_H
#define MAQUETTE_SEQUENCE_PACKING_H

#include <stdbool.h>
#include <stdint.h>

#include "maquette/arena.h"
#include "maquette/err.h"

/* Zeroes: every sequence is one document. */
struct mq_sequence_packing {
	double mean, sigma;   /* lognormal: mean length, deviation of the logarithm; sigma 0: all of one length */
	uint32_t n;           /* lengths to draw from with equal probability; 0 = by mean and sigma */
	const double *length; /* [n] tokens */
	uint64_t seed;
	/* once bound: */
	double seq;            /* tokens of a sequence; 0 = not bound */
	uint32_t n_sequences;  /* drawn; later sequences repeat them */
	const uint32_t *first; /* [n_sequences + 1] into end */
	const double *end;     /* ends of documents, in tokens from the sequence's start */
	double work;           /* attention's work, mean of the batch or a plan's (mq_question_for); 0 = 1 */
};

/* Was a packing given? */
static inline bool mq_sequence_packing_said(const struct mq_sequence_packing *d)
{
	return d->n || d->mean > 0;
}
/* "1000" (all of one length), "lognormal:1000:1.2" (mean, deviation of the logarithm), "300,2000,120", or a file of
 * lengths (base/quantity.h; it may have just one). MQ_EINPUT: a length under 1 token, a bad number, no such file. */
MQ_API enum mq_status mq_sequence_packing_read(const char *what, const char *text, struct mq_arena *arena,
					       struct mq_sequence_packing *documents, struct mq_err *err);
/* A text from which mq_sequence_packing_read makes the same without a file; "" for zeroes. */
MQ_API const char *mq_sequence_packing_text(const struct mq_sequence_packing *documents, struct mq_arena *arena);
/* Draws the documents of `batch` sequences of `seq` tokens, and sets `work` to their mean. MQ_EINPUT: too many
 * documents. */
MQ_API enum mq_status mq_sequence_packing_bind(struct mq_sequence_packing *documents, double seq, double batch,
					       struct mq_arena *arena, struct mq_err *err);

/* How a plan divides the batch. */
struct mq_sequence_packing_plan {
	uint32_t replicas, ranks, stages, chunks, micro_batches;
	double samples; /* of a replica's micro-batch; a fraction counts as the sequence in which it begins */
	bool meet;      /* replicas synchronise in every micro-batch */
	bool causal;
};
/* Attention's work per micro-batch that represents the plan, relative to undivided sequences. `documents` must be
 * bound. */
MQ_API double mq_sequence_packing_work(const struct mq_sequence_packing *documents,
				       const struct mq_sequence_packing_plan *plan);

#endif
