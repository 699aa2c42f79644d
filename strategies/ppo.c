/* ppo.c - placement by proximal policy optimization alone, without Post's cross-entropy steps (Gao, Chen, Li, NeurIPS
 * 2018): lib/post.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

MQ_POST_START("ppo", .proximal = true)

MQ_ENGINE(ppo) = {
	MQ_ENGINE_HEAD("ppo"),
	.summary = "placement by proximal policy optimisation alone",
	MQ_POST_ENGINE,
};
