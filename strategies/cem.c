/* cem.c - placement by cross-entropy steps alone, without Post's policy steps (Gao, Chen, Li, NeurIPS 2018):
 * lib/post.h. SPDX-License-Identifier: Apache-2.0 */
#include "lib/post.h"

MQ_POST_START("cem", .cross_entropy = true)

MQ_ENGINE(cem) = {
	MQ_ENGINE_HEAD("cem"),
	.summary = "placement by cross-entropy minimisation alone",
	MQ_POST_ENGINE,
};
