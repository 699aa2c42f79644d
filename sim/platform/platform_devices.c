/*
 * platform_devices.c - nominal figures of device types, for generated and imported platforms.
 *
 * Sources: NVIDIA's datasheets and architecture white papers of each product (dense peak of FP16 or BF16
 * with tensor cores, FP32 for the GTX 1080 Ti; NVLink and PCIe one direction: half of the figure that
 * datasheets count both ways). nic_GBps is the port that reference designs put beside the device: DGX-1 4 x
 * 100 Gb/s, DGX A100 200, DGX H100 400, DGX B200 400, GB300 800 Gb/s. How fast a device really is stands
 * in its calibration, not here.
 */
#include <string.h>
#include <strings.h>

#include "platform/platform_generate.h"

static const struct mq_device_type types[] = {
	/* name, aliases, tflops, nvlink, pcie, nic, GPUs per nic, nvswitch, nvls, p2p, cpu */
	{ "V100-SXM2-16GB", "V100-16GB", 125, 150, 15.75, 12.5, 2, false, false, true, false },
	{ "V100-SXM2-32GB", "V100-32GB V100", 125, 150, 15.75, 12.5, 2, false, false, true, false },
	{ "V100-SXM3-32GB", "", 125, 150, 15.75, 12.5, 2, true, false, true, false },
	{ "V100-PCIE-16GB", "", 112, 0, 15.75, 12.5, 0, false, false, true, false },
	{ "V100-PCIE-32GB", "", 112, 0, 15.75, 12.5, 0, false, false, true, false },
	{ "T4", "T4-16GB", 65, 0, 15.75, 6.25, 0, false, false, true, false },
	{ "P100", "P100-PCIE-16GB P100-16GB", 18.7, 0, 15.75, 6.25, 0, false, false, true, false },
	{ "1080Ti", "GTX-1080Ti", 11.3, 0, 15.75, 6.25, 0, false, false, true, false },
	{ "RTX-4090", "4090", 165.2, 0, 31.5, 12.5, 0, false, false, false, false },
	{ "RTX-3090", "3090", 71, 0, 31.5, 12.5, 0, false, false, false, false },
	{ "RTX-2080Ti", "2080Ti", 53.8, 0, 15.75, 6.25, 0, false, false, false, false },
	{ "TITAN-RTX", "", 130.5, 0, 15.75, 6.25, 0, false, false, false, false },
	{ "A100-SXM4-40GB", "A100-40GB", 312, 300, 31.5, 25, 1, true, false, true, false },
	{ "A100-SXM4-80GB", "A100-80GB A100", 312, 300, 31.5, 25, 1, true, false, true, false },
	{ "A100-PCIE-80GB", "", 312, 0, 31.5, 25, 0, false, false, true, false },
	{ "A40", "A40-48GB", 149.7, 0, 31.5, 25, 0, false, false, true, false },
	{ "H100-SXM-80GB", "H100-80GB H100 H100-SXM5-80GB", 989, 450, 63, 50, 1, true, true, true, false },
	{ "H100-PCIE-80GB", "", 756, 0, 63, 50, 0, false, false, true, false },
	{ "H100-NVL-94GB", "", 835, 0, 63, 50, 0, false, false, true, false },
	{ "H100-SXM-96GB", "H100-96GB", 989, 450, 63, 50, 1, true, true, true, false },
	{ "H200-SXM-141GB", "H200-141GB H200", 989, 450, 63, 50, 1, true, true, true, false },
	{ "GH200-96GB", "GH200", 989, 450, 63, 25, 1, false, false, true, false },
	{ "B200", "B200-180GB", 2250, 900, 63, 50, 1, true, true, true, false },
	{ "GB200", "", 2500, 900, 63, 50, 1, true, true, true, false },
	{ "GB300", "", 2500, 900, 126, 100, 1, true, true, true, false },
	{ "B300", "", 2250, 900, 126, 100, 1, true, true, true, false },
	{ "L4", "L4-24GB", 121, 0, 31.5, 12.5, 0, false, false, true, false },
	{ "CPU-Xeon-28c", "", 4.3, 0, 62.4, 12.5, 0, false, false, true, true },
	{ "CPU-core", "", 0.144, 0, 70.4, 1.25, 0, false, false, true, true },
	{ .name = NULL },
};

const struct mq_device_type *mq_device_types(void)
{
	return types;
}

static bool listed(const char *list, const char *word)
{
	size_t size = strlen(word);

	while (*list) {
		size_t n = strcspn(list, " ");

		if (n == size && !strncasecmp(list, word, n))
			return true;
		list += n + strspn(list + n, " ");
	}
	return false;
}

const struct mq_device_type *mq_device_type_find(const char *word)
{
	for (const struct mq_device_type *t = types; t->name; t++)
		if (!strcasecmp(t->name, word) || listed(t->aliases, word))
			return t;
	return NULL;
}

enum mq_status mq_device_type_get(const char *word, const struct mq_device_type **type,
				  struct mq_err *err)
{
	const char *names[sizeof(types) / sizeof(*types)];
	char list[420] = "";
	uint32_t n = 0;
	size_t used = 0;

	*type = mq_device_type_find(word);
	if (*type)
		return MQ_OK;
	for (const struct mq_device_type *t = types; t->name; t++) {
		names[n++] = t->name;
		if (used + strlen(t->name) + 2 < sizeof(list))
			used += (size_t)sprintf(list + used, "%s%s", used ? " " : "", t->name);
	}
	names[n] = NULL;
	const char *near = mq_nearest(word, names);
	if (near)
		return mq_fail(err, MQ_EINPUT,
			       "gpu=%s: no such device type; did you mean '%s'? (any other: give tflops=)",
			       word, near);
	return mq_fail(err, MQ_EINPUT, "gpu=%s: no such device type; known: %s", word, list);
}
