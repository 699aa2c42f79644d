/* names.c - what names and words of a platform mean: their order, a device's kind, a link's class; see impl.h.
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "hardware/platform/impl.h"

/* Order of names in which numbers count as numbers: gpu2 before gpu10. */
static int natural(const char *a, const char *b)
{
	for (;;) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t na, nb;

			a += strspn(a, "0");
			b += strspn(b, "0");
			na = strspn(a, "0123456789");
			nb = strspn(b, "0123456789");
			if (na != nb)
				return na < nb ? -1 : 1;
			int order = strncmp(a, b, na);
			if (order)
				return order;
			a += na;
			b += nb;
		} else if (*a != *b || !*a) {
			return (unsigned char)*a - (unsigned char)*b;
		} else {
			a++;
			b++;
		}
	}
}

int mq_platform_name_order(const char *a, const char *b)
{
	int order = natural(a, b);

	return order ? order : strcmp(a, b);
}

enum mq_device_kind mq_platform_kind(const char *type)
{
	return strncmp(type, "CPU", 3) ? MQ_GPU : MQ_CPU;
}

struct class_word {
	const char *word;
	enum mq_link_class class;
	enum mq_fabric fabric;
};

/* Values of mq_class, and words looked for in a link's name where it has none: longer words first. */
static const struct class_word class_words[] = { { "pcie-switch", MQ_LINK_PCIE_SWITCH, MQ_FABRIC_NONE },
						 { "loopback", MQ_LINK_LOOPBACK, MQ_FABRIC_NONE },
						 { "nvswitch", MQ_LINK_NVSWITCH, MQ_FABRIC_NONE },
						 { "nvlink", MQ_LINK_NVLINK, MQ_FABRIC_NONE },
						 { "socket", MQ_LINK_SOCKET, MQ_FABRIC_NONE },
						 { "pcie", MQ_LINK_PCIE, MQ_FABRIC_NONE },
						 { "nic", MQ_LINK_NIC, MQ_FABRIC_NONE },
						 { "host", MQ_LINK_HOST, MQ_FABRIC_NONE },
						 { "fabric", MQ_LINK_FABRIC, MQ_FABRIC_NONE },
						 { "other", MQ_LINK_OTHER, MQ_FABRIC_NONE },
						 { "ib", MQ_LINK_FABRIC, MQ_FABRIC_IB },
						 { "roce", MQ_LINK_FABRIC, MQ_FABRIC_ROCE },
						 { "eth", MQ_LINK_FABRIC, MQ_FABRIC_ETHERNET },
						 { "efa", MQ_LINK_FABRIC, MQ_FABRIC_EFA },
						 { "omnipath", MQ_LINK_FABRIC, MQ_FABRIC_OMNIPATH },
						 { "tcpxo", MQ_LINK_FABRIC, MQ_FABRIC_TCPXO },
						 { "gib", MQ_LINK_FABRIC, MQ_FABRIC_GIB },
						 { NULL, MQ_LINK_OTHER, MQ_FABRIC_NONE } };

enum mq_status mq_platform_class(struct mq_link *l, const char *text, const char *fabric, enum mq_fabric usual,
				 struct mq_err *err)
{
	const struct class_word *w = class_words;

	while (w->word && (text ? strcmp(w->word, text) != 0 : !strstr(l->name, w->word)))
		w++;
	if (text && !w->word)
		return mq_bad(err,
			      "link '%s': mq_class='%s' is none of nvlink nvswitch pcie pcie-switch "
			      "socket nic fabric ib roce eth efa omnipath host loopback other",
			      l->name, text);
	l->class = w->class;
	l->fabric = w->fabric;
	if (l->class != MQ_LINK_NIC && l->class != MQ_LINK_FABRIC)
		return MQ_OK;
	if (l->fabric == MQ_FABRIC_NONE)
		l->fabric = usual;
	if (fabric) {
		int f = MQ_ENUM_FIND(mq_fabric_name, MQ_N_FABRICS, fabric);

		if (f == MQ_N_FABRICS)
			return mq_bad(err, "link '%s': mq_fabric='%s' is none of ib roce eth efa omnipath", l->name,
				      fabric);
		l->fabric = (enum mq_fabric)f;
	}
	return MQ_OK;
}
