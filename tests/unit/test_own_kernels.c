/*
 * test_own_kernels.c - the GPU's kernels of our own are what NVRTC compiles: for every architecture from Volta on, with
 * the names and arguments that they are loaded and launched with. Needs libnvrtc, not a GPU.
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/toolkit.h"

static const char source[] = "#define NARROW_QUADS 256\n"
#include "kernels.cu.inc"
	;

static void *library_of(struct mq_toolkit *kit)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL };
	void *library = NULL;

	for (int i = 0; names[i] && !library; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
#define NVRTC(result, name, ...) \
	if (library)             \
		*(void **)&kit->name = dlsym(library, #name);
#include "cuda/toolkit.def"
	return library;
}

static void compiles(void **state)
{
	static const char *const archs[] = { "70", "75", "80", "86", "89", "90", "100", "120" };
	static struct mq_toolkit kit;
	int major = 0, minor = 0, compiled = 0;

	if (!library_of(&kit)) {
		print_message("skipped: no libnvrtc\n");
		skip();
	}
	assert_int_equal((int)kit.nvrtcVersion(&major, &minor), 0);
	for (size_t i = 0; i < sizeof(archs) / sizeof(archs[0]); i++) {
		char option[40];
		const char *const options[] = { option };
		nvrtcProgram program;
		size_t size = 0;

		snprintf(option, sizeof(option), "--gpu-architecture=sm_%s", archs[i]);
		assert_int_equal((int)kit.nvrtcCreateProgram(&program, source, "maquette.cu", 0, NULL, NULL), 0);
		int bad = (int)kit.nvrtcCompileProgram(program, 1, options);
		if (bad == 5) { /* an option: older and newer releases lack some architectures */
			kit.nvrtcDestroyProgram(&program);
			continue;
		}
		if (bad) {
			kit.nvrtcGetProgramLogSize(program, &size);
			char *log = calloc(size + 1, 1);
			kit.nvrtcGetProgramLog(program, log);
			fail_msg("sm_%s: %s", archs[i], log);
		}
		assert_int_equal((int)kit.nvrtcGetCUBINSize(program, &size), 0);
		char *cubin = malloc(size);
		assert_int_equal((int)kit.nvrtcGetCUBIN(program, cubin), 0);
		/* Functions are symbols of that ELF file, without a mangled name. */
		static const char *const names[] = { ".text.sweep", ".text.rows", ".text.narrow", ".text.adam",
						     ".text.gather" };
		for (size_t f = 0; f < sizeof(names) / sizeof(names[0]); f++)
			assert_non_null(memmem(cubin, size, names[f], strlen(names[f]) + 1));
		free(cubin);
		kit.nvrtcDestroyProgram(&program);
		compiled++;
	}
	assert_true(compiled >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(compiles) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
