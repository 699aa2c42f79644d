/* kernel.c - names of kernels and of implementations of attention, see kernel.h. */
#include "maquette/kernel.h"

const char *mq_kernel_kind_name(enum mq_kernel_kind kind)
{
	static const char *const names[] = {
		"gemm", "conv",  "attention",   "memory", "embedding", "optimizer", "recurrent",
		"copy", "timed", "host-update", "scan",   "call",      "wait",
	};

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_KERNEL_KINDS, "one name per kind");
	return (unsigned)kind < MQ_N_KERNEL_KINDS ? names[kind] : "?";
}

const char *mq_attention_name(enum mq_attention_kernel attention)
{
	static const char *const names[] = { "stored", "eager",      "masked-softmax",
					     "xla",    "tensorflow", "fused-softmax",
					     "flash1", "triton1",    "flash2",
					     "flash3", "te" };

	_Static_assert(sizeof(names) / sizeof(*names) == MQ_N_ATTENTIONS, "one name per implementation");
	return (unsigned)attention < MQ_N_ATTENTIONS ? names[attention] : "?";
}
