/* names.c - the meaning of names and words in a platform: a device's kind, a link's class; see impl.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "hardware/platform/impl.h"

enum mq_device_kind mq_platform_kind(const char *type)
{
	return strncmp(type, "CPU", 3) ? MQ_GPU : MQ_CPU;
}

static bool is_called(const struct mq_link *l, const char *text, const char *word)
{
	return text ? !strcmp(text, word) : strstr(l->name, word) != NULL;
}

/* Words for classes and networks: values of mq_class, or searched in a link's name without mq_class. */
enum mq_status mq_platform_class(struct mq_link *l, const char *text, const char *fabric, enum mq_fabric usual,
				 struct mq_err *err)
{
	static const uint8_t order[] = {
		MQ_LINK_PCIE_SWITCH, MQ_LINK_LOOPBACK, MQ_LINK_NVSWITCH, MQ_LINK_NVLINK, MQ_LINK_XGMI, MQ_LINK_SOCKET,
		MQ_LINK_PCIE,        MQ_LINK_NIC,      MQ_LINK_HOST,     MQ_LINK_FABRIC, MQ_LINK_OTHER
	}; /* longer words first */
	size_t n = sizeof(order), k = 0;
	uint32_t net = MQ_FABRIC_NONE;

	while (k < n && !is_called(l, text, mq_link_class_name((enum mq_link_class)order[k])))
		k++;
	if (k == n)
		for (net = MQ_FABRIC_IB;
		     net < MQ_N_FABRICS && !is_called(l, text, mq_fabric_name((enum mq_fabric)net));)
			net++;
	l->class = k < n ? (enum mq_link_class)order[k] : net < MQ_N_FABRICS ? MQ_LINK_FABRIC : MQ_LINK_OTHER;
	l->fabric = net < MQ_N_FABRICS ? (enum mq_fabric)net : MQ_FABRIC_NONE;
	if (text && net == MQ_N_FABRICS)
		return mq_bad(err,
			      "link '%s': mq_class='%s' is none of nvlink xgmi nvswitch pcie pcie-switch "
			      "socket nic fabric ib roce eth efa omnipath tcpxo gib tcpx host loopback other",
			      l->name, text);
	if (l->class != MQ_LINK_NIC && l->class != MQ_LINK_FABRIC)
		return MQ_OK;
	if (l->fabric == MQ_FABRIC_NONE)
		l->fabric = usual;
	if (fabric) {
		int f = MQ_ENUM_FIND(mq_fabric_name, MQ_N_FABRICS, fabric);

		if (f == MQ_N_FABRICS)
			return mq_bad(err,
				      "link '%s': mq_fabric='%s' is none of ib roce eth efa omnipath tcpxo gib tcpx",
				      l->name, fabric);
		l->fabric = (enum mq_fabric)f;
	}
	return MQ_OK;
}
