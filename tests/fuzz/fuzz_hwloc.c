/* fuzz_hwloc.c - hwloc's XML as a machine to import. SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include "hardware/platform/import.h"
#include "../unit/libraries.h"

static struct mq_import_options options;

static void import(const char *path)
{
	struct mq_import_report report;
	struct mq_err err = MQ_ERR_INIT;
	enum mq_status status = mq_platform_import(path, &options, "/dev/null", &report, &err);

	fuzz_refused(status, &err);
	if (status == MQ_OK)
		mq_assert(report.n_devices > 0 && report.type && report.format);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct mq_arena lasting = MQ_ARENA_INIT;

	if (!options.calib) {
		struct mq_calib *calib = bare_calib(&lasting);

		options.type = mq_calib_add_ideal(calib, "V100", 1e14, 1e12, 16e9);
		options.calib = calib;
	}
	fuzz_child(import, fuzz_file(data, size, ".xml"), "libhwloc");
	return 0;
}
