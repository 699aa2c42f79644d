/* kernel_table.h - the kernels of each implementation of the memory-bound parts of a layer.
 *
 * A part (a norm, rotary positions, a gate, a loss ...) has implementations: eager (one kernel per operation of the
 * source), apart (where eager is less than that), composite (a formula in the model in place of the library's),
 * native (a kernel of the framework's library), fused (a kernel written for it, as in Triton), compiled, megatron, xla,
 * tensorflow (op by op). platforms/kernels/parts.csv lists the kernels of each in both passes: time, launches, saved
 * activations and the peak of temporaries follow from that one list.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_KERNEL_TABLE_H
#define MQ_KERNELS_KERNEL_TABLE_H

#include <stdbool.h>

#include "maquette/calib.h"
#include "maquette/types.h"
#include "hardware/libraries.h"

/* NULL: the table lacks that implementation. */
MQ_API const struct mq_part_kernels *mq_part_kernels(const struct mq_libraries *libraries, enum mq_part part,
						     enum mq_make make);

/* The arguments of one call of a part. */
struct mq_part_call {
	double elements, width, weights; /* elements in all, of a row, of the table that the part looks up */
	enum mq_dtype dtype;
	bool owns_gradient; /* backward: the incoming gradient is freed after its last use */
};
/* Cost of a list of kernels. */
struct mq_part_cost {
	double bytes;          /* read and written */
	double launches, held; /* kernels launched; further host time of Python, in units of a launch */
	double time_s;         /* device */
	double peak_B, left_B; /* allocated at most, and at the end, beyond what was before */
};
MQ_API struct mq_part_cost mq_part_cost(const struct mq_device_calib *device, const struct mq_part_pass *passes,
					const struct mq_part_call *call);
/* Per element, on any device: of kernels limited by memory (streamed), of kernels that instructions may limit (worked),
 * and of the latter those with one thread block per channel (blocked). */
struct mq_part_bytes {
	double bytes, work, launches;
};
struct mq_part_sum {
	struct mq_part_bytes streamed, worked, blocked;
};
MQ_API struct mq_part_sum mq_part_sum(const struct mq_part_pass *passes, enum mq_dtype dtype);
/* Instructions per element of a part; the table must have it. */
MQ_API double mq_part_work(const struct mq_libraries *libraries, enum mq_part part, enum mq_make make, bool backward);
/* Integer instructions per second: half the fp32 lanes if the SM has 128 of those; infinite if the device has
 * no fp32 peak. */
MQ_API double mq_device_int_rate(const struct mq_device_calib *device);

#endif
