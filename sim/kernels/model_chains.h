/* model_chains.h - norms and element-wise ops of image networks that are fused into the kernels around them.
 *
 * The graph of an image network has every kernel that an eager framework runs. cuDNN's batch norm (in 16 bits, channels
 * last) fuses the activation behind it and the addition between them; its convolutions can sum up their output for a
 * batch norm, or apply one to their input; a compiler fuses whole chains. This part counts how many elements fusion
 * saves, from what the kernels read and write (XLA's loop and reduction fusions;
 * CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION).
 *
 * Not modelled: chains behind other ops than norms and convolutions; the effect of fusion on memory.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_MODEL_CHAINS_H
#define MQ_KERNELS_MODEL_CHAINS_H

#include "maquette/model.h"
#include "maquette/software.h"

/* Are tensors of convolutions stored channels first, in that type? */
MQ_API bool mq_channels_first(const struct mq_model *model, const struct mq_software *software, enum mq_dtype dtype);

/* Elements per sample that fusion saves op `id` in one pass; negative: it costs more; 0: the op is in no chain. In a
 * chain its first input and its result stay in registers (the norm's result is counted already). Backward:
 *   an activation   cuDNN's norm keeps a bit per element; a compiler rereads the activation's output in each of the
 *                   norm's two kernels, or once behind an addition
 *   an addition     counts three elements for the sum of its two gradients: cuDNN's norm also writes the gradient of
 *                   the other operand; a last GEMM that accumulates (`fused_grad_add`) reads the other one alone */
MQ_API double mq_chain_spares(const struct mq_model *model, uint32_t id, const struct mq_software *software,
			      enum mq_dtype dtype, bool backward);

#endif
