/*
 * fuzz.h - a fuzz target is one function, as libFuzzer calls it; replay.c runs it without a fuzzer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MQ_TESTS_FUZZ_H
#define MQ_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "maquette/err.h"

/* Returns 0; crashes, leaks and broken promises are what is looked for. */
typedef int fuzz_target(const uint8_t *data, size_t size);
fuzz_target LLVMFuzzerTestOneInput;
/* Runs a target over the files and folders that are the arguments, and mutations of them (replay.c): 0, or 1 for none. */
int fuzz_replay(fuzz_target *target, int argc, char **argv);
/* The same bytes as a file with this name, or with this suffix; another call with the same name overwrites it. */
const char *fuzz_file(const uint8_t *data, size_t size, const char *name);
/* A folder of this process's own, where such files are too. */
const char *fuzz_folder(void);

/* What every reader promises: it is done, or one line says why it is not. */
static inline void fuzz_refused(enum mq_status status, const struct mq_err *err)
{
	mq_assert(status == MQ_OK || (status != MQ_EBUG && *err->text && !strchr(err->text, '\n')));
}

#endif
