/*
 * kernel_table.c - see kernel_table.h. The kernels of the parts, and what a list of them takes.
 *
 * A kernel takes the longer of its memory traffic at the device's share of bandwidth and its instructions
 * at the device's rate of integer instructions, and a launch. Most are limited by memory. Those that are
 * not compute an address for every element: PyTorch's TensorIterator over operands that are transposed,
 * sliced or broadcast, and where it casts up as it loads, which it does word by word (STRIDED); its look-up of
 * rows (64-bit divisions), kernels that read half-words one by one. How many instructions that takes was read off timings, and is the same on A100, H100 and A40
 * (swiglu of halves 46 on H100, rotary 46 on A100, a cast to fp32 48, a mask added or filled in 46
 * and a softmax over 1,024 37 on H200; batch norms, pools and biases of convolutions as below on H100; index_select
 * 125, 123 and 110).
 *
 * Not modelled: what stays in the L2 from one kernel to the next; the choice of block sizes.
 */
#include "kernels/kernel_table.h"

#include <math.h>
#include <stddef.h>

#define STRIDED .work = 46
#define ROW(n)                                                \
	{                                                     \
		.per = MQ_PER_ROW, .moved_B = 8, .calls = (n) \
	}

static const struct mq_part_kernels table[] = {
{ MQ_PART_RMS, MQ_MAKE_EAGER, "LlamaRMSNorm in transformers; derivatives.yaml of PyTorch",
  .forward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, STRIDED },     /* to fp32, kept */
	{ .moved_B = 8, .made_B = 4 },                                     /* pow */
	{ .moved_B = 4, .freed_B = 4 },                                    /* mean */
	ROW(2),                                                            /* + eps, rsqrt */
	{ .moved_B = 8, .made_B = 4, STRIDED },                            /* times rsqrt */
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },  /* to 16 bit, kept */
	{ .moved = 2, .made = 1, STRIDED },                                /* times weight */
  }, .backward = {
	{ .moved = 2, .made = 1, STRIDED },                                /* dy w */
	{ .moved = 3, .made = 1 }, { .moved = 1, .freed = 1 },             /* dw: dy h, its sum */
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .freed = 1, STRIDED }, /* to fp32 */
	{ .moved_B = 8, .made_B = 4, STRIDED },                            /* times rsqrt */
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 4, .freed_B = 8 },    /* drsqrt: times x, its sum */
	ROW(3),                                                            /* of rsqrt */
	{ .moved_B = 4, .made_B = 4, STRIDED },                            /* of mean */
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .moved_B = 12, .made_B = 4, .freed_B = 8 },                      /* of pow */
	{ .moved_B = 12, .freed_B = 4 },                                   /* sum of both ways to x */
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },  /* to 16 bit */
  } },
{ MQ_PART_RMS_WIDE, MQ_MAKE_EAGER, "the same; types promoted",
  .forward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, STRIDED },
	{ .moved_B = 8, .made_B = 4 },
	{ .moved_B = 4, .freed_B = 4 },
	ROW(2),
	{ .moved_B = 8, .made_B = 4, STRIDED },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },
	{ .moved = 1, .moved_B = 4, .made_B = 4, .work = 92 },             /* loads of two types */
  }, .backward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, STRIDED },     /* dy to fp32 */
	{ .moved_B = 8, .made_B = 4, STRIDED },                            /* dy w */
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },  /* of h's type */
	{ .moved = 1, .moved_B = 8, .made_B = 4, .work = 92 },             /* dw: dy h */
	{ .moved_B = 4, .freed_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .freed = 1, STRIDED },
	{ .moved_B = 8, .made_B = 4, STRIDED },
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 4, .freed_B = 8 },
	ROW(3),
	{ .moved_B = 4, .made_B = 4, STRIDED },
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .moved_B = 12, .made_B = 4, .freed_B = 8 },
	{ .moved_B = 12, .freed_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },
  } },
{ MQ_PART_RMS, MQ_MAKE_FUSED, "Liger rms_norm since 0.3: x in, y out; dy, x in, dx over dy, dw summed by SM",
  .forward = { { .moved = 2, .made = 1, .held = 23 } },
  .backward = { { .moved = 3, .held = 30 }, ROW(2) } },
{ MQ_PART_RMS, MQ_MAKE_FUSED_OLD, "Liger rms_norm until 0.2: a dw of fp32 for every row, then its sum",
  .forward = { { .moved = 2, .made = 1, .held = 23 } },
  .backward = { { .moved = 3, .moved_B = 4, .made_B = 4, .held = 30 }, { .moved_B = 4, .freed_B = 4 } } },
{ MQ_PART_RMS, MQ_MAKE_APART, "apex MixedFusedRMSNorm over x.float(), as InternEvo has it; kernels as of its FusedLayerNorm",
  .forward = { { .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4 }, { .moved = 1, .moved_B = 4, .made = 1 } },
  .backward = {
	{ .moved = 1, .moved_B = 4 }, ROW(1), { .moved = 1, .moved_B = 8, .made_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 8 },
  } },
{ MQ_PART_RMS, MQ_MAKE_NATIVE, "torch.nn.RMSNorm since 2.8: layer_norm_kernel.cu: statistics, then again the row",
  .forward = { { .moved = 3, .made = 1 } },
  .backward = { { .moved = 5, .made = 1 }, { .moved = 2 } } },
{ MQ_PART_RMS, MQ_MAKE_COMPILED, "vLLM rms_norm: a block a row, a half-word at a time",
  .forward = { { .moved = 2, .again = 1, .made = 1, .work = 58 } },
  .backward = { { .moved = 3, .made = 1 } } },
{ MQ_PART_RMS, MQ_MAKE_MEGATRON, "WrappedTorchNorm returns torch.nn.RMSNorm",
  .forward = { { .moved = 3, .made = 1 } },
  .backward = { { .moved = 5, .made = 1 }, { .moved = 2 } } },
{ MQ_PART_ADD_RMS, MQ_MAKE_EAGER, "x + residual in fp32, LlamaRMSNorm, residual cast back",
  .forward = {
	{ .cast = 1, .moved = 2, .moved_B = 8, .made_B = 8, .calls = 2, STRIDED },
	{ .moved_B = 12, .made_B = 4 },
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 4, .freed_B = 4 },
	ROW(2),
	{ .moved_B = 8, .made_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },
	{ .moved = 2, .made = 1 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1 },
  }, .backward = {
	{ .moved = 2, .made = 1 },
	{ .moved = 3, .made = 1 }, { .moved = 1, .freed = 1 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .freed = 1, STRIDED },
	{ .moved_B = 8, .made_B = 4 },
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 4, .freed_B = 8 },
	ROW(3),
	{ .moved_B = 4, .made_B = 4 },
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .moved_B = 12, .made_B = 4, .freed_B = 8 },
	{ .moved_B = 12, .freed_B = 4 },
	{ .cast = 1, .moved = 2, .moved_B = 8, .made = 2, .freed_B = 4, .calls = 2 },
  } },
{ MQ_PART_ADD_RMS, MQ_MAKE_FUSED, "Liger fused_add_rms_norm: x, residual in, sum, y out; dy, sum, dsum in, dx out",
  .forward = { { .moved = 4, .made = 2, .held = 23 } },
  .backward = { { .moved = 1, .made = 1 }, { .moved = 4, .freed = 1, .held = 30 }, ROW(2) } },
{ MQ_PART_LAYER_NORM, MQ_MAKE_NATIVE, "layer_norm_kernel.cu: as of RMSNorm; gradients of weights by a kernel of their own",
  .forward = { { .moved = 3, .made = 1 } },
  .backward = { { .moved = 5, .made = 1 }, { .moved = 2 } } },
{ MQ_PART_LAYER_NORM, MQ_MAKE_XLA, "fp32: fusions for mean, variance, result (and its cast); sums by columns, two by rows, result",
  .forward = { { .moved_B = 4 }, { .moved_B = 4 }, { .moved_B = 8, .made_B = 4 }, { .cast = 1, .moved = 1, .made = 1 } },
  .backward = { { .moved_B = 8 }, { .moved_B = 8 }, { .moved_B = 8 }, { .moved_B = 12, .made_B = 4 } } },
{ MQ_PART_LAYER_NORM, MQ_MAKE_TENSORFLOW, "nn.moments, nn.batch_normalization of Keras, op by op in fp32, and their gradients",
  .forward = {
	{ .moved_B = 4 }, { .moved_B = 8, .made_B = 4 }, { .moved_B = 4, .freed_B = 4 }, /* mean, squared difference, its mean */
	ROW(2), { .moved_B = 4, .made_B = 4 },                             /* rsqrt; times gamma: as large as x */
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 8, .made_B = 4 },     /* x times it; mean times it */
	{ .moved_B = 8 }, { .moved_B = 12, .freed_B = 4 },                 /* beta minus it; sum */
  }, .backward = {
	{ .moved_B = 4 }, { .moved_B = 8, .made_B = 4 },                   /* of beta; negative */
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 4 },                  /* of mean: times inv, its sum */
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 12, .made_B = 4 },     /* of inv: times mean, times x */
	{ .moved_B = 12, .freed_B = 8 }, { .moved_B = 8, .made_B = 4 }, { .moved_B = 8 }, /* their sum; of gamma, of rsqrt: sums */
	{ .moved_B = 12, .made_B = 4 }, ROW(4),                            /* of x by x inv */
	{ .moved_B = 12, .made_B = 4 }, { .moved_B = 4 },                  /* of the squared difference */
	{ .moved_B = 4, .made_B = 4 }, { .moved_B = 16, .freed_B = 12 },   /* of mean; sum of the ways */
  } },
{ MQ_PART_LAYER_NORM, MQ_MAKE_APART, "apex FusedLayerNorm: cuComputePartGradGammaBeta, cuComputeGradGammaBeta, cuComputeGradInput",
  .forward = { { .moved = 2, .made = 1 } },
  .backward = { { .moved = 2 }, ROW(1), { .moved = 3, .made = 1 } } },
{ MQ_PART_LAYER_NORM, MQ_MAKE_FUSED, "Liger layer_norm; backward a program per SM, row after row",
  .forward = { { .moved = 2, .made = 1, .held = 23 } },
  .backward = { { .moved = 3, .made = 1, .work = 125, .held = 22 }, ROW(3) } },
{ MQ_PART_ROPE, MQ_MAKE_EAGER, "apply_rotary_pos_emb, rotate_half in transformers; on transposed views",
  .forward = {
	{ .moved = 2, .made = 1, STRIDED, .calls = 2 },                    /* times cos; of Q and of K */
	{ .moved = 1, .made = .5, .work = 23, .calls = 2 },               /* negated half */
	{ .moved = 2, .made = 1, .freed = .5, STRIDED, .calls = 2 },      /* joined */
	{ .moved = 2, .made = 1, .freed = 1, STRIDED, .calls = 2 },        /* times sin */
	{ .moved = 3, .made = 1, .freed = 2, STRIDED, .calls = 2 },        /* sum */
  }, .backward = {
	{ .moved = 2, .made = 1, STRIDED, .calls = 2 },                    /* dy sin */
	{ .moved = 1, .made = .5, .work = 23, .calls = 2 },                /* a half, negated */
	{ .moved = 1, .made = 1, .calls = 2 }, { .moved = 1, .work = 23, .freed = .5, .calls = 2 }, /* amid zeros */
	{ .moved = 1, .made = 1, .calls = 2 }, { .moved = 1, .work = 23, .freed = 1, .calls = 2 }, /* the other */
	{ .moved = 3, .calls = 2, .freed = 1 },                            /* their sum */
	{ .moved = 2, .made = 1, STRIDED, .calls = 2 },                    /* dy cos */
	{ .moved = 3, .calls = 2, .freed = 1 },
  } },
{ MQ_PART_ROPE, MQ_MAKE_FUSED, "Liger rope: in place",
  .forward = { { .moved = 2, .held = 23 } }, .backward = { { .moved = 2, .held = 38 } } },
{ MQ_PART_ROPE, MQ_MAKE_NATIVE, "vLLM rotary_embedding: in place, a half-word at a time",
  .forward = { { .moved = 2, .work = 44 } }, .backward = { { .moved = 2, .work = 44 } } },
{ MQ_PART_ROPE_COMPLEX, MQ_MAKE_EAGER, "apply_rotary_emb of Llama 4: fp32, product of complex numbers",
  .forward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .calls = 2, STRIDED },
	{ .moved_B = 8, .made_B = 4, .work = 92, .calls = 2 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 8, .calls = 2 },
  }, .backward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .calls = 2, STRIDED },
	{ .moved_B = 8, .made_B = 4, .freed_B = 4, .work = 92, .calls = 2 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4, .calls = 2 },
  } },
{ MQ_PART_ROPE_COMPLEX, MQ_MAKE_FUSED, "Liger llama4_rope: in place, every second element at a time",
  .forward = { { .moved = 2, .work = 40, .held = 30 } }, .backward = { { .moved = 2, .work = 40, .held = 38 } } },
{ MQ_PART_GATE, MQ_MAKE_EAGER, "act(gate) * up",
  .forward = { { .moved = 2, .made = 1 }, { .moved = 3, .made = 1 } },
  .backward = { { .moved = 3, .made = 1 }, { .moved = 3, .made = 1, .done = 1 },
	{ .moved = 3, .made = 1, .freed = 1 } } },
{ MQ_PART_GATE, MQ_MAKE_FUSED, "Liger swiglu, geglu: gradients over gate and up",
  .forward = { { .moved = 3, .made = 1, .held = 8 } }, .backward = { { .moved = 5, .held = 9 } } },
{ MQ_PART_GATE_JOINED, MQ_MAKE_EAGER, "F.silu(a) * b of torch.chunk(y, 2)",
  .forward = { { .moved = 2, .made = 1, STRIDED }, { .moved = 3, .made = 1, STRIDED } },
  .backward = { { .moved = 2, .made = 1, STRIDED }, { .moved = 2, .made = 1, .freed = 1, STRIDED },
	{ .moved = 3, .made = 1, .freed = 1, STRIDED }, { .moved = 4, .made = 2, .freed = 2, .work = 92 } } },
{ MQ_PART_GATE_JOINED, MQ_MAKE_FUSED, "Liger swiglu over halves of one tensor",
  .forward = { { .moved = 3, .made = 1, .held = 8 } },
  .backward = { { .moved = 1, .made = 1 }, { .moved = 5, .made = 2, .freed = 1, .held = 9 } } },
{ MQ_PART_GATE_JOINED, MQ_MAKE_MEGATRON, "bias_swiglu_impl, compiled: the join of both gradients asks for each element which",
  .forward = { { .moved = 3, .made = 1, .work = 52 } },
  .backward = { { .moved = 5, .made = 2, .work = 250 } } },
{ MQ_PART_GATE_JOINED, MQ_MAKE_NATIVE, "vLLM silu_and_mul: a half-word at a time",
  .forward = { { .moved = 3, .made = 1, .work = 54 } },
  .backward = { { .moved = 5, .made = 2 } } },
{ MQ_PART_GELU, MQ_MAKE_FUSED, "F.gelu, bias_gelu of Megatron-LM",
  .forward = { { .moved = 2, .made = 1 } }, .backward = { { .moved = 3, .made = 1 } } },
{ MQ_PART_GELU, MQ_MAKE_APART, "x / 2 (1 + erf(x / sqrt 2)) op by op; erf_backward: square, minus, exponential, two products",
  .forward = {
	{ .moved = 2, .made = 1 }, { .moved = 2, .made = 1 }, { .moved = 2, .made = 1, .freed = 1 },
	{ .moved = 2, .made = 1 }, { .moved = 3, .made = 1 },
  }, .backward = {
	{ .moved = 3, .made = 1 }, { .moved = 3, .made = 1 }, { .moved = 2 },
	{ .moved = 2, .made = 1 }, { .moved = 2 }, { .moved = 2 }, { .moved = 2 }, { .moved = 3, .freed = 1 },
	{ .moved = 2 }, { .moved = 3, .freed = 2 },
  } },
{ MQ_PART_GELU, MQ_MAKE_COMPOSITE, "NewGELUActivation of transformers: x / 2 (1 + tanh(c (x + d x^3))), op by op",
  .forward = {
	{ .moved = 2, .made = 1 },                                         /* half */
	{ .moved = 2, .made = 1 }, { .moved = 2, .made = 1, .freed = 1 }, { .moved = 3, .made = 1, .freed = 1 },
	{ .moved = 2, .made = 1, .freed = 1 }, { .moved = 2, .made = 1, .freed = 1 }, /* c, tanh */
	{ .moved = 2, .made = 1 }, { .moved = 3, .made = 1 },              /* 1 +, product */
  }, .backward = {
	{ .moved = 3, .made = 1 }, { .moved = 3, .made = 1 }, { .moved = 2 }, /* both factors, half */
	{ .moved = 3, .freed = 1 }, { .moved = 2 }, { .moved = 2, .made = 1 }, /* tanh, c, d */
	{ .moved = 2, .made = 1 }, { .moved = 2 }, { .moved = 3, .freed = 1 }, /* x^3: x^2, times 3, times it */
	{ .moved = 3, .freed = 1 }, { .moved = 3, .freed = 1 },            /* sums of the three ways to x */
  } },
{ MQ_PART_GELU, MQ_MAKE_XLA, "one fusion each way between casts; tanh, which XLA does not compute twice, in fp32",
  .forward = { { .moved = 2, .moved_B = 4, .made = 1, .made_B = 4 } },
  .backward = { { .moved = 3, .moved_B = 4, .made = 1, .freed_B = 4 } } },
{ MQ_PART_GELU, MQ_MAKE_TENSORFLOW, "x (1 + tanh(c (x + d x^3))) / 2 and its gradient, op by op",
  .forward = {
	{ .moved = 2, .made = 1, .calls = 1 }, { .moved = 2, .made = 1 }, { .moved = 3, .freed = 1 }, /* x^3, times d, + x */
	{ .moved = 2 }, { .moved = 2, .made = 1 },                         /* times c, tanh */
	{ .moved = 2, .made = 1 }, { .moved = 2 }, { .moved = 3, .made = 1 }, /* 1 +, half, times x */
  }, .backward = {
	{ .moved = 3, .made = 1 }, { .moved = 3, .made = 1 }, { .moved = 2 }, /* both factors' gradients, half */
	{ .moved = 3 }, { .moved = 2, .made = 1 }, { .moved = 2 },         /* of tanh, times c, times d */
	{ .moved = 2, .made = 1 }, { .moved = 3 }, { .moved = 2 },         /* of x^3: x^2, times it, times 3 */
	{ .moved = 4, .freed = 3 },                                        /* sum of the ways to x */
  } },
{ MQ_PART_RELU_SQUARED, MQ_MAKE_EAGER, "relu, pow; pow_backward, threshold_backward",
  .forward = { { .moved = 2, .made = 1 }, { .moved = 2, .made = 1 } },
  .backward = { { .moved = 2, .made = 1 }, { .moved = 2, .made = 1, .freed = 1 },
	{ .moved = 3, .made = 1, .freed = 1 }, { .moved = 3, .made = 1, .freed = 1 } } },
{ MQ_PART_RELU_SQUARED, MQ_MAKE_FUSED, "Liger relu_squared",
  .forward = { { .moved = 2, .made = 1, .held = 8 } }, .backward = { { .moved = 3, .made = 1, .held = 9 } } },
{ MQ_PART_SOFTMAX, MQ_MAKE_NATIVE, "SoftMax.cu: most, sum, result: three times over a row that shared memory does not hold",
  .forward = { { .moved = 2, .again = 2, .made = 1 } },
  .backward = { { .moved = 3, .again = 2, .made = 1 } } },
{ MQ_PART_SOFTMAX, MQ_MAKE_FUSED, "Liger softmax: a row in registers",
  .forward = { { .moved = 2, .made = 1, .held = 23 } }, .backward = { { .moved = 3, .made = 1, .held = 40 } } },
{ MQ_PART_LOSS, MQ_MAKE_EAGER, "cross_entropy: log_softmax, nll_loss (one block over all rows), and back",
  .forward = { { .moved = 2, .again = 2, .made = 1 }, { .per = MQ_PER_ROW, .serial_s = 22e-9 } },
  .backward = { { .moved = 1, .made = 1 }, { .moved = 3, .again = 2, .made = 1 } } },
{ MQ_PART_LOSS, MQ_MAKE_FUSED, "Liger cross_entropy: gradients over the logits in the forward pass",
  .forward = { { .moved = 2, .again = 1, .alone = 1, .held = 23 }, ROW(4) },
  .backward = { ROW(2) } },
{ MQ_PART_LOSS, MQ_MAKE_MEGATRON, "vocab_parallel_cross_entropy, eager: fp32 copy, most, difference, exponential, sum, quotient",
  .forward = {
	{ .moved = 1, .moved_B = 4, .made_B = 4 }, { .moved_B = 4 }, { .moved_B = 8, STRIDED },
	ROW(6), { .moved_B = 8 }, { .moved_B = 4 }, { .moved_B = 8, STRIDED },
  }, .backward = { ROW(4), { .moved_B = 8, STRIDED }, { .moved = 1, .moved_B = 4, .made = 1 } } },
{ MQ_PART_LOSS, MQ_MAKE_COMPILED, "fused_vocab_parallel_cross_entropy: the same, steps compiled one by one",
  .forward = {
	{ .moved = 1, .moved_B = 4, .made_B = 4 }, { .moved_B = 4 },
	{ .moved_B = 12, .made_B = 4 }, ROW(4), { .moved_B = 8, .freed_B = 4 },
  }, .backward = { ROW(2), { .moved_B = 8, .made_B = 4 }, { .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 } } },
{ MQ_PART_LOSS, MQ_MAKE_FUSED_OLD, "Liger vocab_parallel_cross_entropy: exponentials in fp32 are kept",
  .forward = { { .moved = 1, .moved_B = 4, .again = 1, .alone = 1, .made_B = 4, .held = 23 }, ROW(4) },
  .backward = { { .moved = 1, .moved_B = 4, .made = 1, .work = 78, .held = 40 } } },
{ MQ_PART_EMBEDDING, MQ_MAKE_EAGER, "F.embedding: index_select; embedding_dense_backward: zeros, sorted indices, sums by row",
  .forward = { { .moved = 1, .looked = 1, .made = 1, .work = 123 } },
  .backward = { { .per = MQ_PER_WEIGHT, .moved = 1, .made = 1 }, { .per = MQ_PER_ROW, .moved_B = 64, .calls = 6 },
	{ .moved = 1, .work = 90 }, { .per = MQ_PER_LOOKED, .moved = 2, .work = 125 } } },
{ MQ_PART_EMBEDDING, MQ_MAKE_COMPILED, "inductor: a gather; zeros and atomic additions",
  .forward = { { .moved = 1, .looked = 1, .made = 1, .held = 23 } },
  .backward = { { .per = MQ_PER_WEIGHT, .moved = 1, .made = 1 }, { .moved = 1, .work = 90, .held = 40 } } },
{ MQ_PART_EMBEDDING, MQ_MAKE_FUSED, "Liger embedding: a gather; zeros and atomic additions in tiles",
  .forward = { { .moved = 1, .looked = 1, .made = 1, .held = 23 } },
  .backward = { { .per = MQ_PER_WEIGHT, .moved = 1, .made = 1 }, { .moved = 1, .work = 280, .held = 40 } } },
{ MQ_PART_ADD, MQ_MAKE_EAGER, "a + b; the gradient goes both ways as it is",
  .forward = { { .moved = 3, .made = 1 } }, .backward = { { 0 } } },
{ MQ_PART_ADD, MQ_MAKE_FUSED, "what the op counts: the sum of the gradients of both ways too",
  .forward = { { .moved = 3, .made = 1 } }, .backward = { { .moved = 3 } } },
{ MQ_PART_ADD, MQ_MAKE_AUTOCAST, "16 bits and an fp32 stream; back the branch's part is cast, both ways are summed in fp32",
  .forward = { { .moved = 1, .moved_B = 8, .made_B = 4 } },
  .backward = { { .cast = 1, .moved = 1, .moved_B = 4, .made = 1 }, { .moved_B = 12 } } },
{ MQ_PART_CAST, MQ_MAKE_AUTOCAST, "to 16 bits, of a product's operand; the gradient to fp32",
  .forward = { { .moved = 1, .moved_B = 4, .made = 1 } },
  .backward = { { .moved = 1, .moved_B = 4, .made_B = 4, STRIDED } } },
{ MQ_PART_BIAS, MQ_MAKE_EAGER, "addmm adds it; backward grad_output.sum(0)",
  .forward = { { 0 } }, .backward = { { .moved = 1 } } },
{ MQ_PART_BIAS, MQ_MAKE_NATIVE, "of a convolution: output.add_(bias), one for all pixels; backward sums over images and pixels",
  .forward = { { .moved = 2, STRIDED } }, .backward = { { .moved = 1, .work = 28 } } },
{ MQ_PART_BIAS, MQ_MAKE_APART, "x + bias behind the product (skip_bias_add of Megatron-LM); backward grad_output.sum(0)",
  .forward = { { .moved = 2 } }, .backward = { { .moved = 1 } } },
{ MQ_PART_BIAS, MQ_MAKE_XLA, "in the fusion behind the product; backward a sum of columns",
  .forward = { { 0 } }, .backward = { { .moved = 1 } } },
{ MQ_PART_BIAS, MQ_MAKE_TENSORFLOW, "BiasAdd, BiasAddGrad",
  .forward = { { .moved = 2 } }, .backward = { { .moved = 1 } } },
{ MQ_PART_DROPOUT, MQ_MAKE_FUSED, "fused_dropout_kernel, masked_scale",
  .forward = { { .moved = 2, .moved_B = 1, .made = 1, .made_B = 1 } },
  .backward = { { .moved = 2, .moved_B = 1, .made = 1, .freed_B = 1 } } },
{ MQ_PART_DROPOUT, MQ_MAKE_XLA, "random bits by a kernel of their own (RngBitGenerator), and the rest",
  .forward = { { .moved_B = 4 }, { .moved = 2, .moved_B = 5, .made = 1, .made_B = 1 } },
  .backward = { { .moved = 2, .moved_B = 1, .made = 1, .freed_B = 1 } } },
{ MQ_PART_DROPOUT, MQ_MAKE_TENSORFLOW, "random_uniform, greater_equal, scale, cast, product; back two products",
  .forward = { { .moved_B = 4, .made_B = 4 }, { .moved_B = 5, .made_B = 1, .freed_B = 4 }, { .moved = 2, .made = 1 },
	{ .moved = 1, .moved_B = 1, .made = 1, .freed_B = 1 }, { .moved = 3, .made = 1, .freed = 1 } },
  .backward = { { .moved = 3, .made = 1 }, { .moved = 2, .made = 1, .freed = 2 } } },
{ MQ_PART_DROPOUT_ADD, MQ_MAKE_XLA, "the same; the residual stream is fp32, as the norm behind it",
  .forward = { { .moved_B = 4 }, { .moved = 1, .moved_B = 13, .made_B = 5 } },
  .backward = { { .moved = 1, .moved_B = 5, .made = 1, .freed_B = 1 } } },
{ MQ_PART_DROPOUT_ADD, MQ_MAKE_TENSORFLOW, "dropout as above, and a sum",
  .forward = { { .moved_B = 4, .made_B = 4 }, { .moved_B = 5, .made_B = 1, .freed_B = 4 }, { .moved = 2, .made = 1 },
	{ .moved = 1, .moved_B = 1, .made = 1, .freed_B = 1 }, { .moved = 3, .made = 1, .freed = 1 },
	{ .moved = 3, .made = 1, .freed = 1 } },
  .backward = { { .moved = 3, .made = 1 }, { .moved = 2, .made = 1, .freed = 2 } } },
{ MQ_PART_DROPOUT_ADD, MQ_MAKE_EAGER, "F.dropout: fused_dropout_kernel, its mask of a byte; x + residual; back masked_scale",
  .forward = { { .moved = 2, .moved_B = 1, .made = 1, .made_B = 1 }, { .moved = 3, .made = 1, .freed = 1 } },
  .backward = { { .moved = 2, .moved_B = 1, .made = 1, .freed_B = 1 } } },
{ MQ_PART_DROPOUT_ADD, MQ_MAKE_AUTOCAST, "the same in 16 bits, and a sum as above, whose gradients' sum the op counts in 16",
  .forward = { { .moved = 2, .moved_B = 1, .made = 1, .made_B = 1 }, { .moved = 1, .moved_B = 8, .made_B = 4, .freed = 1 } },
  .backward = { { .cast = 1, .moved = 1, .moved_B = 4, .made = 1 },
	{ .moved = 2, .moved_B = 1 + 6, .made = 1, .freed_B = 1 } } },  /* the sum: 12, of which 6 are counted */
{ MQ_PART_DROPOUT_ADD, MQ_MAKE_FUSED, "bias_dropout_add of Megatron-LM",
  .forward = { { .moved = 3, .moved_B = 1, .made = 1, .made_B = 1 } },
  .backward = { { .moved = 2, .moved_B = 1, .made = 1, .freed_B = 1 } } },
{ MQ_PART_COPY, MQ_MAKE_NATIVE, "contiguous() of a transposed view",
  .forward = { { .moved = 2, .made = 1, STRIDED } }, .backward = { { .moved = 2, .made = 1, STRIDED } } },
{ MQ_PART_COPY, MQ_MAKE_EAGER, "a copy",
  .forward = { { .moved = 2, .made = 1 } }, .backward = { { .moved = 2, .made = 1 } } },
{ MQ_PART_BATCH_NORM, MQ_MAKE_NATIVE, "Normalization.cuh, channels last: Welford's statistics, these updated, result; sums, result",
  .forward = { { .moved = 1, .work = 55 }, ROW(1), { .moved = 2, .made = 1 } },
  .backward = { { .moved = 2, .work = 39 }, { .moved = 3, .made = 1 } } },
{ MQ_PART_BATCH_NORM, MQ_MAKE_APART, "the same, channels first: statistics and the whole gradient by a block for each channel",
  .forward = { { .moved = 1, .work = 29, .blocked = 1 }, ROW(1), { .moved = 2, .made = 1, .work = 53 } },
  .backward = { { .moved = 5, .made = 1, .work = 70, .blocked = 1 } } },
{ MQ_PART_POOL, MQ_MAKE_NATIVE, "DilatedMaxPool2d.cu, AveragePool2d.cu: addresses; back, the windows that an element is in are looked for",
  .forward = { { .moved = 1, .work = 27 } }, .backward = { { .moved = 1, .work = 110 } } },
{ MQ_PART_POOL_TAP, MQ_MAKE_NATIVE, "the same for each element of each window: bytes are the part's above",
  .forward = { { .moved = 1, .work = 20 } }, .backward = { { .moved = 1, .work = 40 } } },
{ MQ_PART_SCORES, MQ_MAKE_EAGER, "cast, query-key scale, mask, softmax in fp32, cast back (FusedScaleMaskSoftmax without its kernel)",
  .forward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, .freed = 1, STRIDED },
	{ .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .moved_B = 8, STRIDED }, /* the mask is one for all heads */
	{ .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1 },                /* softmax's output is kept in fp32 */
  }, .backward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, STRIDED },
	{ .moved_B = 12, .made_B = 4, .freed_B = 8 },
	{ .moved_B = 8, .made_B = 4 }, { .moved_B = 8, .freed_B = 4, STRIDED }, /* masked_fill clones, then fills */
	{ .moved_B = 8, .made_B = 4, .freed_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1, .freed_B = 4 },
  } },
{ MQ_PART_SCORES, MQ_MAKE_NATIVE, "scores times a scale, softmax in the type of training: exponentials, shuffles",
  .forward = { { .moved = 2, .made = 1 }, { .moved = 2, .made = 1, .freed = 1, .work = 37 } },
  .backward = { { .moved = 3, .made = 1 }, { .moved = 2, .made = 1, .freed = 1 } } },
{ MQ_PART_SCORES, MQ_MAKE_AUTOCAST, "the same under torch.autocast: softmax to fp32, cast for the product; fp16 is read as it is, bf16 cast first",
  .forward = {
	{ .moved = 2, .made = 1 },
	{ .cast = MQ_CAST_BF16, .moved_B = 8, .made_B = 4, .freed = 1, STRIDED }, /* to fp32 6; softmax reads 2 more */
	{ .moved = 1, .moved_B = 4, .made_B = 4 },
	{ .cast = 1, .moved = 1, .moved_B = 4, .made = 1 },
  }, .backward = {
	{ .cast = 1, .moved = 1, .moved_B = 4, .made_B = 4, STRIDED },
	{ .moved = 1, .moved_B = 8, .made = 1, .freed_B = 4 },
	{ .cast = MQ_CAST_BF16, .moved_B = 8 },                            /* written in fp32 2, to bf16 6 */
	{ .moved = 2, .made = 1, .freed = 1 },
  } },
{ MQ_PART_DROPOUT, MQ_MAKE_AUTOCAST, "of that softmax: in fp32",
  .forward = { { .moved_B = 9, .made_B = 5 } }, .backward = { { .moved_B = 9, .made_B = 4, .freed_B = 5 } } },
{ MQ_PART_MASK, MQ_MAKE_EAGER, "masked_fill by one mask for all heads: a clone, filled; of the gradient too",
  .forward = { { .moved = 2, .made = 1 }, { .moved = 2, .freed = 1, STRIDED } },
  .backward = { { .moved = 2, .made = 1 }, { .moved = 2, .freed = 1, STRIDED } } },
{ MQ_PART_MASK, MQ_MAKE_NATIVE, "scores + a mask, one for all heads",
  .forward = { { .moved = 2, .made = 1, .freed = 1, STRIDED } }, .backward = { { 0 } } },
{ MQ_PART_SCORES, MQ_MAKE_APART, "the product scales; mask in place, softmax (forward_torch_softmax of Megatron-LM where nothing is cast)",
  .forward = { { .moved = 2, STRIDED }, { .moved = 2, .made = 1 } }, /* the mask is one for all heads */
  /* The mask was put in place into a view: autograd's CopySlices copies the gradient, clones it, and copies what comes
   * of masked_fill, which is a clone and a fill in place. */
  .backward = {
	{ .moved = 3, .made = 1 }, { .moved = 2, .made = 1 }, { .moved = 2, .made = 1 },
	{ .moved = 2, .made = 1 }, { .moved = 2, STRIDED }, { .moved = 2, .freed = 3 },
  } },
{ MQ_PART_SCORES, MQ_MAKE_XLA, "scale and mask with the most; exponentials' sum; quotient. Back: a sum, the result",
  .forward = { { .moved = 1 }, { .moved = 1 }, { .moved = 2, .made = 1 } },
  .backward = { { .moved = 2 }, { .moved = 3, .made = 1 } } },
{ MQ_PART_SCORES, MQ_MAKE_TENSORFLOW, "scale, mask, softmax; back product, sum, difference, product; scale",
  .forward = { { .moved = 2, .made = 1 }, { .moved = 2, .made = 1, .freed = 1 }, { .moved = 2, .made = 1, .freed = 1 } },
  .backward = { { .moved = 3, .made = 1 }, { .moved = 1 }, { .moved = 2 }, { .moved = 3, .made = 1, .freed = 1 },
	{ .moved = 2, .made = 1, .freed = 1 } } },
{ MQ_PART_SCORES, MQ_MAKE_FUSED, "scaled_masked_softmax of Megatron-LM and Apex",
  .forward = { { .moved = 2, .made = 1 } }, .backward = { { .moved = 3, .made = 1 } } },
};

const char *mq_part_name(enum mq_part part)
{
	static const char *const names[] = {
		"rms-norm",  "rms-norm-wide", "add-rms-norm", "layer-norm",   "rope",        "rope-complex",
		"gate",      "gate-joined",   "gelu",         "relu-squared", "softmax",     "loss",
		"embedding", "add",           "bias",         "dropout",      "dropout-add", "copy",
		"scores",    "mask",          "cast",         "batch-norm",   "pool",        "pool-tap",
	};

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_PARTS, "one name per part");
	return (unsigned)part < MQ_N_PARTS ? names[part] : "?";
}

const char *mq_make_name(enum mq_make make)
{
	static const char *const names[] = { "eager", "native", "compiled",   "fused",    "fused-old", "megatron",
					     "apart", "xla",    "tensorflow", "autocast", "composite" };

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_MAKES, "one name per make");
	return (unsigned)make < MQ_N_MAKES ? names[make] : "?";
}

const struct mq_part_kernels *mq_part_kernels(enum mq_part part, enum mq_make make)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].part == part && table[i].make == make)
			return &table[i];
	return NULL;
}

double mq_device_int_rate(const struct mq_device_calib *d)
{
	bool wide = d->compute_capability > 80; /* 128 lanes for fp32, 64 for integers */

	if (!(d->peak_flops[MQ_FP32] > 0)) /* abstract devices: memory alone limits them */
		return (double)INFINITY;
	return d->peak_flops[MQ_FP32] / (wide ? 4 : 2);
}

/* What a kernel reads twice comes from the caches while two rows per SM (or one alone), those in flight, fit
 * in half of an L2 of 40 to 50 MB; there it costs a third. */
static double again_share(const struct mq_pass *p, const struct mq_part_call *call, double size_B)
{
	return call->width * size_B >= (p->alone ? 192e3 : 96e3) ? 1 : 1. / 3;
}

static bool does_nothing(const struct mq_pass *p)
{
	return !(p->moved > 0 || p->moved_B > 0 || p->serial_s > 0);
}

static bool not_cast(const struct mq_pass *p, enum mq_dtype dtype)
{
	return p->cast && (mq_dtype_size(dtype) >= 4 || (p->cast == MQ_CAST_BF16 && dtype != MQ_BF16));
}

static double count_of(const struct mq_pass *p, const struct mq_part_call *call)
{
	switch ((enum mq_per)p->per) {
	case MQ_PER_WEIGHT:
		return call->weights;
	case MQ_PER_ROW:
		return call->elements / call->width;
	case MQ_PER_LOOKED:
		return fmin(call->elements, call->weights);
	case MQ_PER_ELEMENT:
		break;
	}
	return call->elements;
}

struct mq_part_sum mq_part_sum(const struct mq_pass *pass, enum mq_dtype dtype)
{
	double size_B = mq_dtype_size(dtype);
	struct mq_part_sum sum = { 0 };

	for (int i = 0; i < MQ_PASSES && !does_nothing(&pass[i]); i++) {
		const struct mq_pass *p = &pass[i];

		if (not_cast(p, dtype))
			continue;
		struct mq_part_bytes *part = p->blocked ? &sum.blocked : p->work > 0 ? &sum.worked : &sum.streamed;
		part->launches += p->calls ? p->calls : 1;
		if (p->per != MQ_PER_ELEMENT)
			continue;
		part->work += p->work;
		part->bytes += p->moved * size_B + p->moved_B;
	}
	return sum;
}

double mq_part_work(enum mq_part part, enum mq_make make, bool backward)
{
	const struct mq_part_kernels *kernels = mq_part_kernels(part, make);
	struct mq_part_sum sum = mq_part_sum(backward ? kernels->backward : kernels->forward, MQ_FP32);

	return sum.worked.work;
}

struct mq_part_cost mq_part_cost(const struct mq_device_calib *d, const struct mq_pass *pass,
				 const struct mq_part_call *call)
{
	double size_B = mq_dtype_size(call->dtype);
	struct mq_part_cost sum = { 0 };

	for (int i = 0; i < MQ_PASSES && !does_nothing(&pass[i]); i++) {
		const struct mq_pass *p = &pass[i];
		double n = count_of(p, call);
		double again = p->again > 0 ? p->again * again_share(p, call, size_B) : 0;
		double bytes = n * ((p->moved + again) * size_B + p->moved_B);
		bytes += fmin(n, call->weights) * p->looked * size_B;
		double calls = p->calls ? p->calls : 1;

		if (not_cast(p, call->dtype))
			continue;
		sum.bytes += bytes;
		sum.launches += calls;
		sum.held += p->held;
		sum.time_s +=
			fmax(bytes / (d->mem_bw_Bps * d->elementwise_bw_share), n * p->work / mq_device_int_rate(d)) +
			calls * d->launch_s + n * p->serial_s;
		sum.left_B += n * (p->made * size_B + p->made_B);
		sum.peak_B = fmax(sum.peak_B, sum.left_B);
		sum.left_B -= n * (p->freed * size_B + p->freed_B);
		if (p->done && call->owns_gradient)
			sum.left_B -= n * size_B;
	}
	return sum;
}
