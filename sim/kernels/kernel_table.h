/* kernel_table.h - the memory-bound parts of a layer, implementation by implementation, kernel by kernel.
 *
 * A part (a norm, rotary positions, a gate, a loss ...) has implementations: eager (a kernel for each operation of the
 * source), apart (where eager is less than that), composite (a formula that a model has in place of the library's),
 * native (a kernel of the framework's library), fused (one written for it, as in Triton), compiled, megatron, xla,
 * tensorflow (op by op). Each is the list of its kernels in both passes (platforms/kernels/parts.csv): time, launches,
 * what is kept for the backward pass and the peak of temporaries follow from that one list.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_KERNELS_KERNEL_TABLE_H
#define MQ_KERNELS_KERNEL_TABLE_H

#include <stdbool.h>

#include "maquette/calib.h"
#include "maquette/types.h"
#include "hardware/libraries.h"

/* NULL: nobody has counted that implementation. */
MQ_API const struct mq_part_kernels *mq_part_kernels(const struct mq_libraries *libraries, enum mq_part part,
						     enum mq_make make);

/* A part as it is called. */
struct mq_part_call {
	double elements, width, weights; /* width of a row; weights: elements of the table it looks up */
	enum mq_dtype dtype;
	bool owns_gradient; /* backward: the gradient that comes in is freed once it is done with */
};
/* Sum over the passes of a list. */
struct mq_part_cost {
	double bytes;          /* read and written */
	double launches, held; /* kernels; what the host's Python takes beside, in launches */
	double time_s;         /* device */
	double peak_B, left_B; /* most allocated at once, and at the end, beside what was there before */
};
MQ_API struct mq_part_cost mq_part_cost(const struct mq_device_calib *device, const struct mq_part_pass *passes,
					const struct mq_part_call *call);
/* Per element, whatever the device: of kernels that memory limits, that instructions may limit, and of these what a
 * block for each channel does. */
struct mq_part_bytes {
	double bytes, work, launches;
};
struct mq_part_sum {
	struct mq_part_bytes streamed, worked, blocked;
};
MQ_API struct mq_part_sum mq_part_sum(const struct mq_part_pass *passes, enum mq_dtype dtype);
/* Instructions per element, of a part that is in the table. */
MQ_API double mq_part_work(const struct mq_libraries *libraries, enum mq_part part, enum mq_make make, bool backward);
/* Integer instructions per second: half the fp32 lanes where the SM has 128 of those; infinite where
 * the device has no fp32 peak. */
MQ_API double mq_device_int_rate(const struct mq_device_calib *device);

#endif
