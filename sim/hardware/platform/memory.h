/* memory.h - a bound on the memory of libraries that read files, see memory.cpp. SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_PLATFORM_MEMORY_H
#define MQ_HARDWARE_PLATFORM_MEMORY_H

struct mq_memory_limit {
	double soft_B; /* the limit as it was; infinite = none */
};

/* From here on the process may take `more_B` beyond what it has. C++ code that meets the bound ends the process with
 * one line about `path` (borrowed until unbound) and MQ_EINPUT, C code sees malloc fail. */
void mq_memory_limit_set(struct mq_memory_limit *before, const char *path, double more_B);
void mq_memory_limit_restore(const struct mq_memory_limit *before);

#endif
