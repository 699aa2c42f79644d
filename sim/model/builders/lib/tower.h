/* tower.h - vision and audio encoders: patches (or frames) pass through a transformer, neighbours are merged, projected
 * to the width of the text model and written over image tokens of the text.
 *
 * One image (of `side` pixels) or sound per sequence. The encoder's blocks belong to no layer: they are on the first
 * pipeline stage, with the embedding. Not modelled: windowed attention of some blocks (Qwen2.5-VL), image tiles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_TOWER_H
#define MQ_MODEL_BUILDERS_LIB_TOWER_H

#include "model/builders/lib/transformer.h"

enum { MQ_TOWER_WIDTHS = 6 };

struct mq_tower {
	const char *name;                 /* "vision", "audio" */
	struct mq_transformer t;          /* checked; t.seq: patches, t.positions: rows of the position table */
	double stem;                      /* elements of a patch */
	double stem_param;                /* weights of the patch embedding, if more than stem x hidden; else 0 */
	uint32_t joined;                  /* patches merged into one token */
	uint32_t tokens;                  /* of the text that one image or sound overwrites */
	uint32_t widths[MQ_TOWER_WIDTHS]; /* of the projector: input width, then one per GEMM; ended by 0 */
	uint32_t gated;                   /* width of a gated MLP behind them; 0 = none */
	uint32_t projectors; /* number of projectors: one, and those that feed the first layers (DeepStack) */
};

/* Adds the encoder and returns the op that merges it into the embedded text, `stream`. */
uint32_t mq_net_tower(struct mq_net *net, const struct mq_tower *tower, uint32_t stream, double width);

/* Contrastive pairs (CLIP, SigLIP): one vector of `width` per image, from its first token, or (`pooled`) from a learned
 * query that attends to all tokens and an MLP. */
uint32_t mq_net_image_vector(struct mq_net *net, const struct mq_tower *tower, double width, bool pooled);

#endif
