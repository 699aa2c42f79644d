/* model_chains.h - element-wise ops of image networks that run inside the kernels before them.
 *
 * The graph of an image network has every kernel that an eager framework runs. A library's batch norm (cuDNN's, in 16
 * bits and with channels last) takes the activation behind it, and the addition between, into its own kernels; a
 * compiler does so with whole chains. How much less such an op moves is counted here, from what the kernels read and
 * write (XLA's loop and reduction fusions; CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION).
 *
 * Not modelled: chains behind anything but a norm, and what a chain keeps or frees: memory is as without.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_MODEL_CHAINS_H
#define MQ_KERNELS_MODEL_CHAINS_H

#include "maquette/model.h"
#include "maquette/software.h"

/* Do tensors of convolutions lie channels first, in that type? */
MQ_API bool mq_channels_first(const struct mq_model *model, const struct mq_software *software, enum mq_dtype dtype);

/* Elements per sample that op `id` moves less, in one pass, than it counts on its own; negative: more. 0 for ops that
 * are in no chain. In a chain its first input and its result stay in registers (the norm's result was counted).
 * Backward:
 *   an activation   a library's norm keeps a bit an element; a compiler reads what it made again, in each of the
 *                   norm's two kernels, or once behind an addition
 *   an addition     counts three for the two gradients that meet in it: a library's norm writes that of the other
 *                   operand too; where the last GEMM adds its own (`fused_grad_add`), that reads the other alone */
MQ_API double mq_chain_spares(const struct mq_model *model, uint32_t id, const struct mq_software *software,
			      enum mq_dtype dtype, bool backward);

#endif
