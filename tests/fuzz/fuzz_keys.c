/*
 * fuzz_keys.c - texts of the command line: keys of a platform (-p KEY=VALUE,...), a change of the hardware
 * (--change), options of a software (--software NAME,KEY=VALUE).
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "hardware/change.h"
#include "maquette/software.h"
#include "hardware/platform/generate.h"
#include "../unit/libraries.h"

enum { MOST_MACHINES = 512 }; /* platforms of a quarter million devices are sound, and slow to write */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mq_arena lasting = MQ_ARENA_INIT;
	static struct mq_calib *shipped;
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_software software = *mq_software_plain();
	struct mq_cluster *cluster = mq_cluster_flat(&arena, 4, "ideal", 1e12, 1e9, 1e9, 1e-6);
	struct mq_platform_spec spec;
	struct mq_err err = MQ_ERR_INIT;
	char *text = mq_arena_alloc(&arena, size + 1);

	if (!shipped) {
		shipped = mq_calib_new(&lasting);
		mq_assert(mq_calib_load_dir(shipped, "platforms/calib", &err) == MQ_OK);
	}
	if (size)
		memcpy(text, data, size);
	mq_platform_spec_init(&spec);
	enum mq_status status = mq_platform_spec_parse(text, &spec, &arena, &err);
	fuzz_refused(status, &err);
	if (status == MQ_OK && spec.nodes <= MOST_MACHINES && spec.gpus <= MOST_MACHINES &&
	    !strchr(spec.gpu ? spec.gpu : "", '*'))
		fuzz_refused(mq_platform_generate(&spec, shipped, NULL, "/dev/null", &err), &err);
	mq_calib_add_ideal(calib, "ideal", 1e12, 1e12, 1e9);
	mq_assert(mq_calib_bind(calib, cluster, &err) == MQ_OK);
	fuzz_refused(mq_change_apply(text, 1, cluster, calib, &err), &err);
	fuzz_refused(mq_software_set(&software, "--software", text, &arena, &err), &err);
	mq_arena_fini(&arena);
	return 0;
}
