/* generic.c - collectives where NCCL does not run: CPU nodes, ideal links of class "other".
 *
 * The textbook model (Thakur, Rabenseifner, Gropp, 2005): every step costs the latency of the slowest route plus the
 * software latency of that link class (p2p_latency_s); a ring moves 2S(n-1)/n bytes in 2(n-1) steps, a double binary
 * tree 2S bytes in 2 log2(n) steps. Links alone limit the bandwidth: flows are not capped. With links of class "other"
 * and no calibration for it, a ring all-reduce of S bytes takes 2(n-1)(S/n/bw + lat), lat = the route's latency.
 *
 * Not modelled: the many special algorithms of MPI libraries. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "collectives/impl.h"

struct mq_coll_cost mq_generic_cost(const struct mq_tune *t, enum mq_algo algo)
{
	double steps, moved, n = t->n;

	switch (t->kind) {
	case MQ_COLL_ALL_REDUCE:
		steps = algo == MQ_ALGO_TREE ? 2 * ceil(log2(n)) : 2 * (n - 1);
		moved = algo == MQ_ALGO_TREE ? 2 : 2 * (n - 1) / n;
		break;
	case MQ_COLL_BROADCAST:
	case MQ_COLL_REDUCE:
		steps = n - 1;
		moved = 1;
		break;
	default:
		steps = n - 1;
		moved = (n - 1) / n;
	}
	return (struct mq_coll_cost){
		.latency_s = steps * t->topo->step_s,
		.bw_Bps = t->topo->slow_Bps / moved,
		.channels = 1,
	};
}

enum mq_status mq_generic_choose(const struct mq_tune *t, enum mq_algo *algo, struct mq_err *err)
{
	struct mq_coll_cost ring = mq_generic_cost(t, MQ_ALGO_RING);
	struct mq_coll_cost tree = mq_generic_cost(t, MQ_ALGO_TREE);

	if (*algo == MQ_ALGO_RING || (*algo == MQ_ALGO_TREE && t->kind == MQ_COLL_ALL_REDUCE))
		return MQ_OK;
	if (*algo != MQ_ALGO_AUTO)
		return mq_bad(err,
			      "%s cannot use algorithm %s: these devices and links are not "
			      "ones that NCCL drives (link classes nvlink, pcie, nic, ...; a calibration "
			      "with compute_capability); use auto or ring",
			      mq_coll_name(t->kind), mq_algo_name(*algo));
	*algo = MQ_ALGO_RING;
	if (t->kind == MQ_COLL_ALL_REDUCE &&
	    tree.latency_s + t->bytes / tree.bw_Bps < ring.latency_s + t->bytes / ring.bw_Bps)
		*algo = MQ_ALGO_TREE;
	return MQ_OK;
}
