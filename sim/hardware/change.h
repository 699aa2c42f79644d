/* change.h - what-if changes to the hardware of a question, applied after platform and calibration are loaded and
 * before their first use.
 *
 * One change is TARGET=NUMBER:
 *   link.CLASS.bw, link.CLASS.latency    factor on every link of a class (nvlink xgmi nvswitch pcie pcie-switch
 *                                        socket nic fabric host loopback other), or of `network` (nic and
 *                                        fabric) or `all`; with its unit (400Gb/s, 2us) the new value itself.
 *                                        The limit of a port stays (port_Bps: TCP sockets)
 *   linkname.NAME.bw, .latency           factor on one link (both directions of a duplex one)
 *   device.TYPE.flops, .mem_bw, .clock, .memory   factor on a device type or `all`; clock = arithmetic and
 *                                        memory bandwidth together, overheads divided by it
 *   device.TYPE.price_per_h              new price in $ an hour
 *   rank.N.clock, rank.N.flops, ...      the same for one device (a straggler)
 *   spread.clock                         standard deviation of a random factor per device: exp(N(0, s))
 *   calib.TYPE.FIELD                     new value of a calibration field of a device type
 *   linkcalib.CLASS.FIELD                new value of a field of a link calibration
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_HARDWARE_CHANGE_H
#define MQ_HARDWARE_CHANGE_H

#include "maquette/calib.h"
#include "maquette/cluster.h"

/* Apply one change. The cluster is bound to the calibration (mq_calib_bind). `seed` drives `spread`.
 * MQ_EINPUT: an unknown target (with the known ones), a factor that is not positive and finite. */
MQ_API enum mq_status mq_change_apply(const char *change, uint64_t seed, struct mq_cluster *cluster,
				      struct mq_calib *calib, struct mq_err *err);

#endif
