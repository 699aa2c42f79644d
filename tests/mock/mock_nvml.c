/*
 * mock_nvml.c - a machine's GPUs as NVML tells of them: see mock.h. MOCK_DEVICES of them, four to a
 * CPU socket, two below each PCIe switch, PCIe 5 x16, and what MOCK_LINKS says: "nvswitch"
 * (default) 18 NVLinks each to switches, "pairs" 4 NVLinks between neighbours, "none".
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock.h"

enum { FAILED = 999, SINGLE = 10, HOSTBRIDGE = 30, SYSTEM = 50 };

static int count(void)
{
	const char *text = getenv("MOCK_DEVICES");

	return text ? atoi(text) : 2;
}

static int index_of(void *device)
{
	return (int)(uintptr_t)device - 1;
}

static int links_are(const char *what)
{
	const char *text = getenv("MOCK_LINKS");

	return !strcmp(text ? text : "nvswitch", what);
}

MOCK_API int nvmlInit_v2(void);
MOCK_API int nvmlInit_v2(void)
{
	return 0;
}

MOCK_API int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device);
MOCK_API int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **device)
{
	*device = (void *)(uintptr_t)(i + 1);
	return (int)i < count() ? 0 : FAILED;
}

MOCK_API int nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device);
MOCK_API int nvmlDeviceGetHandleByPciBusId_v2(const char *busid, void **device)
{
	unsigned int domain, bus;

	if (sscanf(busid, "%x:%x", &domain, &bus) != 2 || bus < 16)
		return FAILED;
	return nvmlDeviceGetHandleByIndex_v2(bus - 16, device);
}

MOCK_API int nvmlDeviceGetName(void *device, char *name, unsigned int size);
MOCK_API int nvmlDeviceGetName(void *device, char *name, unsigned int size)
{
	const char *text = getenv("MOCK_GPU");

	snprintf(name, size, "%s", text ? text : "NVIDIA Mock-GPU");
	return 0;
}

MOCK_API int nvmlDeviceGetClockInfo(void *device, int type, unsigned int *MHz);
MOCK_API int nvmlDeviceGetClockInfo(void *device, int type, unsigned int *MHz)
{
	*MHz = 1980;
	return 0;
}

MOCK_API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius);
MOCK_API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius)
{
	*celsius = 41;
	return 0;
}

MOCK_API int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts);
MOCK_API int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts)
{
	*milliwatts = 123400;
	return 0;
}

MOCK_API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons);
MOCK_API int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
	const char *text = getenv("MOCK_THROTTLE");

	*reasons = text ? strtoull(text, NULL, 0) : 0;
	return 0;
}

MOCK_API int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation);
MOCK_API int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation)
{
	*generation = 5;
	return 0;
}

MOCK_API int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *width);
MOCK_API int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *width)
{
	*width = 16;
	return 0;
}

MOCK_API int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level);
MOCK_API int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level)
{
	int i = index_of(a), j = index_of(b);

	*level = i / 2 == j / 2 ? SINGLE : i / 4 == j / 4 ? HOSTBRIDGE : SYSTEM;
	return 0;
}

MOCK_API int nvmlDeviceGetNvLinkState(void *device, unsigned int link, int *active);
MOCK_API int nvmlDeviceGetNvLinkState(void *device, unsigned int link, int *active)
{
	int neighbour = index_of(device) ^ 1;

	*active = links_are("nvswitch") ? link < 18 : links_are("pairs") && link < 4 && neighbour < count();
	return 0;
}

MOCK_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct mq_nvml_pci *pci);
MOCK_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned int link, struct mq_nvml_pci *pci)
{
	int bus = links_are("nvswitch") ? 0xe0 + (int)link % 4 : 16 + (index_of(device) ^ 1);

	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus);
	return 0;
}

MOCK_API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, int *type);
MOCK_API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, int *type)
{
	*type = links_are("nvswitch") ? MQ_NVLINK_SWITCH : 0;
	return 0;
}

MOCK_API int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending);
MOCK_API int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending)
{
	*current = *pending = getenv("MOCK_MIG") != NULL;
	return 0;
}
