/* tower.h - what makes the tokens that stand for an image or a sound: patches (or frames) through a transformer of their
 * own, joined side by side, projected to the width of the text, and put in place of some of the text's tokens.
 *
 * One image (of `side` pixels) or sound per sequence. Its blocks are part of no layer: they lie with the embedding on
 * the first pipeline stage. Not modelled: windows of some blocks (Qwen2.5-VL), tiles.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_MODEL_BUILDERS_LIB_TOWER_H
#define MQ_MODEL_BUILDERS_LIB_TOWER_H

#include "model/builders/lib/transformer.h"

enum { MQ_TOWER_WIDTHS = 6 };

struct mq_tower {
	const char *name;        /* "vision", "audio" */
	struct mq_transformer t; /* checked; t.seq: patches, t.positions: rows of their table */
	double stem;             /* elements that a patch is made of */
	double stem_param; /* weights of what makes it, where they are more than stem x hidden; 0 = they are not */
	uint32_t joined;   /* patches that become one token */
	uint32_t tokens;   /* of the text that they make */
	uint32_t widths[MQ_TOWER_WIDTHS]; /* of the projector's GEMMs, from the first one's input on; 0 ends them */
	uint32_t gated;                   /* width of a gated part behind them; 0 = none */
	uint32_t projectors;              /* so many: one, and those that feed the first layers (DeepStack) */
};

/* Adds the tower and returns the op that joins it with the embedded text, `stream`. */
uint32_t mq_net_tower(struct mq_net *net, const struct mq_tower *tower, uint32_t stream, double width);

/* Contrastive pairs (CLIP, SigLIP): one vector of `width` for the image, from its first token, or (`pooled`) from a query
 * that attends to all and a feed-forward part. */
uint32_t mq_net_image_vector(struct mq_net *net, const struct mq_tower *tower, double width, bool pooled);

#endif
