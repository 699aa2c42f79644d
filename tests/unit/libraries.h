/*
 * libraries.h - a set of calibrations without devices or links, with what libraries do, for tests that make their own.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_LIBRARIES_H
#define MQ_TESTS_LIBRARIES_H

#include <stdio.h>
#include <stdlib.h>

#include "maquette/calib.h"
#include "hardware/libraries.h"

static inline struct mq_calib *bare_calib(struct mq_arena *a)
{
	struct mq_calib *calib = mq_calib_new(a);
	struct mq_err err = MQ_ERR_INIT;

	if (mq_libraries_load(calib->libraries, "platforms/calib", a, &err) != MQ_OK) {
		fprintf(stderr, "%s (run from the project's root)\n", err.text);
		abort();
	}
	return calib;
}

/* The same for as long as the test runs: for questions about kernels alone. */
static inline const struct mq_calib *library_calib(void)
{
	static struct mq_arena lasting = MQ_ARENA_INIT;
	static const struct mq_calib *calib;

	if (!calib)
		calib = bare_calib(&lasting);
	return calib;
}

#endif
