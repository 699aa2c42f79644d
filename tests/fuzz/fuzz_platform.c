/* fuzz_platform.c - platform files: SimGrid reads them, properties and links become a cluster.
 * SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include "hardware/platform/platform.h"

static void load(const char *path)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_cluster *cluster;
	struct mq_err err = MQ_ERR_INIT;

	mq_platform_start("fuzz");
	enum mq_status status = mq_platform_load(path, &arena, &cluster, &err);
	fuzz_refused(status, &err);
	if (status == MQ_OK)
		mq_assert(cluster->n_devices > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_child(load, fuzz_file(data, size, ".xml"), "libsimgrid");
	return 0;
}
