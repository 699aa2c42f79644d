/*
 * shipped.h - the calibrations that are shipped, for unit tests. Comes behind cmocka.h.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_SHIPPED_H
#define MQ_TESTS_SHIPPED_H

#include "maquette/calib.h"

static inline struct mq_calib *shipped_calib(struct mq_arena *arena)
{
	struct mq_calib *calib = mq_calib_new(arena);
	struct mq_err err = MQ_ERR_INIT;

	if (mq_calib_load_dir(calib, "platforms/calib", &err) != MQ_OK)
		fail_msg("%s (run from the project's root)", err.text);
	return calib;
}

#endif
