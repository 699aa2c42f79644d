/* reinforce.c - placement by REINFORCE with a running mean as baseline, which Post is compared with (Gao, Chen, Li,
 * NeurIPS 2018): lib/post.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

MQ_POST_START("reinforce", .reinforce = true)

MQ_ENGINE(reinforce) = {
	MQ_ENGINE_HEAD("reinforce"),
	.summary = "placement by plain policy gradient",
	MQ_POST_ENGINE,
};
