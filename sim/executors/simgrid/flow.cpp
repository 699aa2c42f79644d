/* flow.cpp - see flow.h. SPDX-License-Identifier: Apache-2.0 */
#include "executors/simgrid/flow.h"

#include <cmath>
#include <vector>

#include <simgrid/s4u/Actor.hpp>
#include <simgrid/s4u/Comm.hpp>
#include <simgrid/s4u/Mailbox.hpp>

namespace sg4 = simgrid::s4u;

static char payload; /* a message must carry a pointer; it is never read */

void mq_flow_start(sg_mailbox_t mailbox, double bytes, double rate_Bps)
{
	sg4::CommPtr comm = mailbox->put_init(&payload, 0);

	comm->set_remaining(bytes); /* put_init itself takes whole bytes only */
	if (std::isfinite(rate_Bps))
		comm->set_rate(rate_Bps);
	comm->detach();
}

void mq_flow_receive(const sg_mailbox_t *mailbox, uint32_t n)
{
	void *received = nullptr;
	size_t size = sizeof(received);

	if (n > 1) { /* a flow starts when both ends have called, so call for all at once */
		std::vector<sg4::CommPtr> comm(n);
		std::vector<void *> to(n);

		for (uint32_t i = 0; i < n; i++)
			comm[i] = mailbox[i]->get_async<void>(reinterpret_cast<void **>(&to[i]));
		for (uint32_t i = 0; i < n; i++)
			comm[i]->wait();
		return;
	}
	/* One call into the kernel, where Mailbox::get needs two. */
	sg4::Comm::recv(sg4::Actor::self()->get_impl(), *mailbox, &received, &size, nullptr, nullptr, nullptr, -1.0,
			-1.0);
}

void mq_flow_clear(sg_mailbox_t mailbox)
{
	mailbox->clear();
}
