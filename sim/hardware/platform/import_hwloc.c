/* import_hwloc.c - hwloc's XML (`lstopo machine.xml`): GPUs by PCI class and vendor, their model if hwloc had its CUDA
 * or NVML back-end, PCIe speed and bridges, NVLink bandwidths if the file has them. The devices of a machine without
 * GPUs are its cores. SPDX-License-Identifier: Apache-2.0 */
#include <hwloc.h>

#include "hardware/platform/machine.h"
#include "hardware/platform/memory.h"

static const double MOST_B = 256e6; /* what hwloc may take for a file of at most 16 MB */

static const struct mq_device_calib *type_of_model(const struct mq_calib *calib, const char *text)
{
	return text ? mq_calib_type_in(calib, text, true) : NULL;
}

/* What the object and its operating-system devices say it is. */
static const struct mq_device_calib *model_of(const struct mq_calib *calib, hwloc_obj_t pci)
{
	const struct mq_device_calib *type = type_of_model(calib, pci->name);

	if (!type)
		type = type_of_model(calib, hwloc_obj_get_info_by_name(pci, "PCIDevice"));
	for (hwloc_obj_t child = pci->io_first_child; child && !type; child = child->next_sibling)
		type = type_of_model(calib, hwloc_obj_get_info_by_name(child, "GPUModel"));
	return type;
}

static bool is_gpu(hwloc_obj_t pci)
{
	unsigned vendor = pci->attr->pcidev.vendor_id, class = pci->attr->pcidev.class_id;

	return (class >> 8) == 0x03 && (vendor == 0x10de || vendor == 0x1002);
}

static uint32_t socket_of(hwloc_topology_t topology, hwloc_obj_t object)
{
	hwloc_obj_t normal = hwloc_get_non_io_ancestor_obj(topology, object);
	hwloc_obj_t package = normal;

	while (package && package->type != HWLOC_OBJ_PACKAGE)
		package = package->parent;
	if (!package && normal && normal->cpuset)
		package = hwloc_get_next_obj_covering_cpuset_by_type(topology, normal->cpuset, HWLOC_OBJ_PACKAGE, NULL);
	return package ? package->logical_index : 0;
}

static uint32_t gpus_below(hwloc_obj_t object)
{
	uint32_t n = object->type == HWLOC_OBJ_PCI_DEVICE && is_gpu(object);

	for (hwloc_obj_t child = object->io_first_child; child; child = child->next_sibling)
		n += gpus_below(child);
	return n;
}

/* The innermost bridge, except host bridges, with more than one GPU below. */
static uint32_t switch_of(hwloc_obj_t pci)
{
	for (hwloc_obj_t up = pci->parent; up && up->type == HWLOC_OBJ_BRIDGE; up = up->parent)
		if (up->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI && gpus_below(up) > 1)
			return (uint32_t)up->gp_index;
	return MQ_NONE;
}

static enum mq_status add_gpu(hwloc_topology_t topology, hwloc_obj_t pci, const char *path,
			      const struct mq_device_calib *type, struct mq_machine *m, struct mq_err *err)
{
	const struct mq_device_calib *own = type ? type : model_of(m->calib, pci);

	if (!own)
		return mq_bad(err, "%s: the GPU at %04x:%02x:%02x.%x is of no known model ('%s'); give --gpu TYPE",
			      path, pci->attr->pcidev.domain, pci->attr->pcidev.bus, pci->attr->pcidev.dev,
			      pci->attr->pcidev.func, pci->name ? pci->name : "");
	if (m->n_devices == MQ_MACHINE_MAX)
		return mq_bad(err, "%s: more than %d GPUs", path, MQ_MACHINE_MAX);
	/* an idle link may have lowered its speed: use it only from gen 3 x8 on */
	double GBps = (double)pci->attr->pcidev.linkspeed;
	m->device[m->n_devices++] = (struct mq_machine_device){
		.type = own,
		.pcie_switch = switch_of(pci),
		.socket = socket_of(topology, pci),
		.pcie_GBps = GBps >= 7.5 ? GBps : 0,
	};
	return MQ_OK;
}

static uint32_t device_at(hwloc_topology_t topology, const struct mq_machine *m, hwloc_obj_t object)
{
	uint32_t n = 0;

	while (object && object->type != HWLOC_OBJ_PCI_DEVICE)
		object = object->parent;
	for (hwloc_obj_t pci = NULL; object && (pci = hwloc_get_next_pcidev(topology, pci));)
		if (is_gpu(pci)) {
			if (pci == object)
				return n < m->n_devices ? n : MQ_NONE;
			n++;
		}
	return MQ_NONE;
}

/* NVLink bandwidths between GPUs, and to NVSwitches if the file has them, in MB/s; the diagonal is no link. If the file
 * lacks the switches, rows through them have equal values everywhere. */
static void read_nvlinks(hwloc_topology_t topology, struct mq_machine *m)
{
	struct hwloc_distances_s *distances;
	unsigned n = 1;

	if (hwloc_distances_get_by_name(topology, "NVLinkBandwidth", &n, &distances, 0) || !n)
		return;
	for (unsigned i = 0; i < distances->nbobjs; i++) {
		double sum = 0;
		uint32_t a = device_at(topology, m, distances->objs[i]);

		for (unsigned j = 0; j < distances->nbobjs; j++) {
			double GBps = (double)distances->values[i * distances->nbobjs + j] / 1000;
			uint32_t b = device_at(topology, m, distances->objs[j]);
			const char *subtype = distances->objs[j]->subtype;

			if (a != MQ_NONE && subtype && !strcmp(subtype, "NVSwitch") && GBps > 0) {
				m->nvlink_GBps[a][a] += GBps;
				m->nvswitch = true;
			}
			if (a == MQ_NONE || b == MQ_NONE || a == b || GBps <= 0)
				continue;
			m->nvlink_GBps[a][b] = GBps;
			sum += GBps;
		}
		if (a != MQ_NONE && sum > 1.5 * m->device[a].type->nvlink_Bps / 1e9 && m->device[a].type->nvswitch > 0)
			m->nvswitch = true;
	}
	for (uint32_t a = 0; m->nvswitch && a < m->n_devices; a++)
		if (!(m->nvlink_GBps[a][a] > 0))
			m->nvlink_GBps[a][a] = m->device[a].type->nvlink_Bps / 1e9;
	hwloc_distances_release(topology, distances);
}

/* No GPU: one device per core; memory in equal parts. */
static void take_cores(hwloc_topology_t topology, const struct mq_device_calib *type, struct mq_machine *m)
{
	int n = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
	double memory = (double)hwloc_get_root_obj(topology)->total_memory;

	for (int i = 0; i < n && i < MQ_MACHINE_MAX; i++)
		m->device[m->n_devices++] = (struct mq_machine_device){
			.type = type,
			.pcie_switch = MQ_NONE,
			.socket = socket_of(topology, hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i)),
		};
	if (m->n_devices && memory >= 1e9 * m->n_devices)
		m->memory_B = memory / n;
}

static enum mq_status read_topology(hwloc_topology_t topology, const char *path, const struct mq_device_calib *type,
				    struct mq_machine *m, struct mq_err *err)
{
	for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(topology, pci));) {
		if (is_gpu(pci))
			MQ_TRY(add_gpu(topology, pci, path, type, m, err));
		m->n_nics += (pci->attr->pcidev.class_id >> 8) == 0x02;
	}
	if (m->n_devices) {
		read_nvlinks(topology, m);
	} else {
		if (!type || type->kind != MQ_CPU)
			MQ_TRY(mq_calib_type_get(m->calib, "gpu", "CPU-core", &type, err));
		take_cores(topology, type, m);
	}
	if (!m->n_devices)
		return mq_bad(err, "%s: hwloc's topology has neither GPUs nor cores", path);
	m->format = "hwloc";
	return MQ_OK;
}

enum mq_status mq_machine_read_hwloc(const char *path, const struct mq_device_calib *type, struct mq_machine *machine,
				     struct mq_err *err)
{
	hwloc_topology_t topology;
	struct mq_memory_limit limit;
	enum mq_status status;

	if (hwloc_topology_init(&topology))
		return mq_bad(err, "hwloc cannot start");
	hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL);
	if (path) /* one large number in the file can make a bit set of that size */
		mq_memory_limit_set(&limit, path, MOST_B);
	bool bad = (path && hwloc_topology_set_xml(topology, path)) || hwloc_topology_load(topology);
	if (path)
		mq_memory_limit_restore(&limit);
	if (bad)
		status = mq_bad(err, "%s: hwloc cannot read it; is it cut, or has it numbers that no machine has?",
				path ? path : "this machine");
	else
		status = read_topology(topology, path ? path : "this machine", type, machine, err);
	hwloc_topology_destroy(topology);
	return status;
}
