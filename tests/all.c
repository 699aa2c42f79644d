/*
 * all.c - every unit test, test of engines and fuzz target in one program, which is linked once; the name that it is
 * started by (build/tests/NAME, a link) says which runs. A target goes through the corpus that is its arguments.
 * SPDX-License-Identifier: Apache-2.0 */
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "fuzz/fuzz.h"

#define TEST(name)   int main_##name(int argc, char **argv);
#define TARGET(name) int input_##name(const uint8_t *data, size_t size);
#include "tests.def"
#undef TEST
#undef TARGET

int main(int argc, char **argv)
{
	const char *name = basename(argv[0]);

#define TEST(test)                \
	if (!strcmp(name, #test)) \
		return main_##test(argc, argv);
#define TARGET(target)              \
	if (!strcmp(name, #target)) \
		return fuzz_replay(input_##target, argc, argv);
#include "tests.def"
	fprintf(stderr, "%s: no such test\n", name);
	return 2;
}
