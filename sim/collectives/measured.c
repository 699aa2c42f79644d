/* measured.c - cost of communication calls that were measured on the machine itself.
 *
 * A call of S bytes (counted as in mq_task.bytes) takes t(S): known at S = 8, 64, ... 8^9 bytes, linear between these,
 * constant below and with the last slope above. So each factor of 8 has a latency and a bandwidth of its own, which
 * follow a library through its algorithms and protocols. Measured with m ranks; with n, steps grow as n-1 and bytes per
 * edge as (n-1)/n (rings, all-to-all): the time of the smallest call is scaled by (n-1)/(m-1), the rest by [(n-1)/n] /
 * [(m-1)/m]; a send is not scaled. SPDX-License-Identifier: Apache-2.0 */
#include "collectives/measured.h"

#include <math.h>

/* t(S); times that a fit left decreasing are read as their running maximum. */
static double time_at(const double *knot, double bytes)
{
	double size = 8, before = knot[0];
	int k = 1;

	if (bytes <= size)
		return before;
	for (; k < MQ_CALL_KNOTS - 1 && bytes > 8 * size; k++, size *= 8)
		before = fmax(before, knot[k]);
	double after = fmax(before, knot[k]);
	return before + (after - before) * (bytes - size) / (7 * size);
}

bool mq_call_measured(const struct mq_link_calib *link, uint32_t call, uint32_t n, double bytes, double *latency_s,
		      double *busy_s)
{
	double m = link ? link->measured_ranks : 0;

	if (!(m >= 2) || n < 2 || !(link->call_s[call][0] > 0))
		return false;
	double steps = call == MQ_CALL_P2P ? 1 : (n - 1) / (m - 1);
	double volume = call == MQ_CALL_P2P ? 1 : (n - 1.0) / n * m / (m - 1);
	*latency_s = link->call_s[call][0] * steps;
	*busy_s = (time_at(link->call_s[call], bytes) - link->call_s[call][0]) * volume;
	return true;
}
