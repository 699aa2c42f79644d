/* memory.h - a limit on the memory of libraries that read files, see memory.cpp. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_MEMORY_H
#define MQ_HARDWARE_PLATFORM_MEMORY_H

struct mq_memory_limit {
	double soft_B; /* the previous limit; infinite = none */
};

/* From now on the process may allocate `more_B` more. C++ code that reaches the limit ends the process with one line
 * about `path` (borrowed until the limit is lifted) and MQ_EINPUT; in C, malloc fails. */
void mq_memory_limit_set(struct mq_memory_limit *before, const char *path, double more_B);
void mq_memory_limit_restore(const struct mq_memory_limit *before);

#endif
