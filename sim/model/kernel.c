/* kernel.c - names of kernels and of implementations of attention, see kernel.h. SPDX-License-Identifier: Apache-2.0 */
#include "maquette/kernel.h"

MQ_NAMES(mq_kernel_kind_name, enum mq_kernel_kind, MQ_N_KERNEL_KINDS, "gemm", "conv", "attention", "memory",
	 "embedding", "optimizer", "recurrent", "copy", "timed", "host-update", "scan", "call", "wait")

MQ_NAMES(mq_scaling_name, enum mq_scaling, MQ_N_SCALINGS, "tensor", "token", "block", "mx", "nvfp4")

MQ_NAMES(mq_attention_name, enum mq_attention_kernel, MQ_N_ATTENTIONS, "stored", "eager", "masked-softmax", "xla",
	 "tensorflow", "fused-softmax", "flash1", "triton1", "flash2", "flash3", "te")
