/*
 * fuzz_machine.c - machines to import: what is read becomes a platform file, the rest has a reason. hwloc's
 * XML is not among them: its library crashes on broken files, so the command reads them in a process of
 * their own.
 */
#include "fuzz.h"

#include "platform/platform_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mq_import_options options = { .gpu = "V100-16GB" };
	struct mq_import_report report;
	struct mq_err err = MQ_ERR_INIT;

	if (mq_platform_import(fuzz_file(data, size, ".txt"), &options, "/dev/null", &report, &err) != MQ_OK)
		mq_assert(err.text[0]);
	else
		mq_assert(report.n_devices > 0 && report.type && report.format);
	return 0;
}
