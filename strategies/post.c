/* post.c - placement by cross-entropy steps with proximal policy optimization between them (Gao, Chen, Li, "Post:
 * Device Placement with Cross-Entropy Minimization and Proximal Policy Optimization", NeurIPS 2018): lib/post.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

MQ_POST_START("post", .cross_entropy = true, .proximal = true)

MQ_ENGINE(post) = {
	MQ_ENGINE_HEAD("post"),
	.summary = "cross-entropy and proximal policy steps over placements (Post)",
	MQ_POST_ENGINE,
};
