/*
 * fuzz.h - a fuzz target is one function, as libFuzzer calls it; replay.c runs it without a fuzzer.
 */
#ifndef MQ_TESTS_FUZZ_H
#define MQ_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Returns 0; crashes, leaks and broken promises are what is looked for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* The same bytes as a file with this suffix; the path is valid until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size, const char *suffix);

#endif
