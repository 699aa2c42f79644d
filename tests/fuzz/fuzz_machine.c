/*
 * fuzz_machine.c - machines to import: what is read becomes a platform file, the rest has a reason. hwloc's
 * XML is not among them: its library crashes on broken files, so the command reads them in a process of
 * their own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include "hardware/platform/import.h"
#include "../unit/libraries.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mq_arena arena = MQ_ARENA_INIT;
	struct mq_calib *calib = bare_calib(&arena);
	struct mq_device_calib *v100 = mq_calib_add_ideal(calib, "V100", 1e14, 1e12, 16e9);
	const struct mq_import_options options = { .type = v100, .calib = calib };
	struct mq_import_report report;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_platform_import(fuzz_file(data, size, ".txt"), &options, "/dev/null", &report, &err) != MQ_OK)
		mq_assert(err.text[0]);
	else
		mq_assert(report.n_devices > 0 && report.type && report.format);
	mq_arena_fini(&arena);
	return 0;
}
