/*
 * collective_measured.c - communication calls whose cost was measured on the machine itself.
 *
 * t(S) = min over pieces of a + S/b: what a library does that picks the best of a few algorithms and
 * protocols. S counts as in mq_task.bytes. Measured with m ranks; for n others the bytes per edge go as
 * (n-1)/n (rings, all-to-all) and the steps as n-1, so a is scaled by (n-1)/(m-1) and S/b by
 * [(n-1)/n] / [(m-1)/m]; a message has neither.
 */
#include "core/collective_measured.h"

#include <math.h>

bool mq_call_measured(const struct mq_link_calib *link, uint32_t call, uint32_t n, double bytes,
		      double *latency_s, double *busy_s)
{
	double best = INFINITY, m = link ? link->measured_ranks : 0;

	if (!(m >= 2) || n < 2)
		return false;
	double steps = call == MQ_CALL_P2P ? 1 : (n - 1) / (m - 1);
	double volume = call == MQ_CALL_P2P ? 1 : (n - 1.0) / n * m / (m - 1);
	for (int i = 0; i < MQ_CALL_PIECES; i++) {
		double a = link->call_a_s[call][i] * steps, b = link->call_b_Bps[call][i];

		if (!(b > 0) || a + bytes * volume / b >= best)
			continue;
		best = a + bytes * volume / b;
		*latency_s = a;
		*busy_s = bytes * volume / b;
	}
	return isfinite(best);
}
