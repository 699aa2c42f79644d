/* memory.cpp - limits the memory of SimGrid and hwloc while they read a file. A few bytes of XML can ask for any number
 * of hosts, ports or routes, and both libraries allocate them all before they read on.
 *
 * The limit is on address space (RLIMIT_AS), beyond what the process has. If SimGrid reaches it, the process prints one
 * line and ends, as on any other error that SimGrid finds in a file.
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>
#include <cstdio>
#include <new>

#include <sys/resource.h>
#include <unistd.h>

extern "C" {
#include "maquette/err.h"
#include "hardware/platform/memory.h"
}

static const char *reading;
static double most_MB;

static void say()
{
	dprintf(STDERR_FILENO,
		"%s: more than %.0f MB are needed to load it: are the numbers of its hosts and links right?\n", reading,
		most_MB);
	_exit(MQ_EINPUT);
}

static double used_B()
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (f && fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void mq_memory_limit_set(struct mq_memory_limit *before, const char *path, double more_B)
{
	struct rlimit limit;
	double most_B = used_B() + more_B;

	before->soft_B = HUGE_VAL;
	if (getrlimit(RLIMIT_AS, &limit))
		return;
	if (limit.rlim_cur != RLIM_INFINITY)
		before->soft_B = static_cast<double>(limit.rlim_cur);
	reading = path;
	most_MB = more_B / 1e6;
	std::set_new_handler(say);
	if (most_B < before->soft_B) {
		limit.rlim_cur = static_cast<rlim_t>(most_B);
		setrlimit(RLIMIT_AS, &limit);
	}
}

void mq_memory_limit_restore(const struct mq_memory_limit *before)
{
	struct rlimit limit;

	std::set_new_handler(nullptr);
	if (getrlimit(RLIMIT_AS, &limit))
		return;
	limit.rlim_cur = std::isfinite(before->soft_B) ? static_cast<rlim_t>(before->soft_B) : RLIM_INFINITY;
	setrlimit(RLIMIT_AS, &limit);
}
