/*
 * mock_nvrtc.c - NVRTC and the driver's part that loads and starts what it compiled: see mock.h. A "compiled" program is
 * its source; a kernel exists if the source declares it, and is given its arguments as it declares them. The kernels
 * known by name here are those of validator/cuda/kernels_own.c: what they read and write has to lie in device memory.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock.h"

struct program {
	char *text;
	int compiled;
};
static char arch[32];
static struct function {
	const char *name;
	int pointers, counts;
} functions[] = { { "sweep", 3, 1 }, { "rows", 2, 2 }, { "narrow", 2, 2 }, { "adam", 4, 1 }, { "gather", 3, 3 } };
enum { SWEEP, ROWS, NARROW, ADAM, GATHER };
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };
static char image[1 << 16];

MOCK_API nvrtcResult nvrtcVersion(int *major, int *minor)
{
	*major = 13;
	*minor = 0;
	return (nvrtcResult)0;
}

MOCK_API nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n_headers,
					const char *const *headers, const char *const *names)
{
	struct program *p = calloc(1, sizeof(*p));

	p->text = strdup(source);
	*program = (nvrtcProgram)(void *)p;
	return (nvrtcResult)0;
}

/* MOCK_FAIL=compile: as for a GPU that it does not know. */
MOCK_API nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n_options, const char *const *options)
{
	const char *fail = getenv("MOCK_FAIL");

	if (fail && !strcmp(fail, "compile"))
		return (nvrtcResult)5;
	if (n_options != 1 || sscanf(options[0], "--gpu-architecture=%31s", arch) != 1 || strncmp(arch, "sm_", 3))
		return (nvrtcResult)5;
	((struct program *)(void *)program)->compiled = 1;
	return (nvrtcResult)0;
}

MOCK_API nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
	*size = sizeof("invalid value for --gpu-architecture\n");
	return (nvrtcResult)0;
}

MOCK_API nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
	strcpy(log, "invalid value for --gpu-architecture\n");
	return (nvrtcResult)0;
}

MOCK_API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
	const struct program *p = (void *)program;

	*size = strlen(p->text) + 1;
	return (nvrtcResult)(p->compiled ? 0 : 1);
}

MOCK_API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
	strcpy(cubin, ((struct program *)(void *)program)->text);
	return (nvrtcResult)0;
}

MOCK_API nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
	free(((struct program *)(void *)*program)->text);
	free(*program);
	return (nvrtcResult)0;
}

/* ---- the driver ------------------------------------------------------------------------------ */

MOCK_API CUresult cuModuleLoadData(CUmodule *module, const void *data)
{
	snprintf(image, sizeof(image), "%s", (const char *)data);
	*module = (CUmodule)(void *)image;
	return (CUresult)0;
}

/* Of the declaration's arguments, how many are pointers and how many counts. */
static int declares(const char *name, int *pointers, int *counts)
{
	char pattern[64];

	snprintf(pattern, sizeof(pattern), "extern \"C\" __global__ void %s(", name);
	const char *from = strstr(image, pattern), *end = from ? strchr(from + strlen(pattern), ')') : NULL;
	*pointers = *counts = 0;
	for (const char *p = from ? from + strlen(pattern) : NULL; p && p < end; p++) {
		*pointers += *p == '*';
		*counts += !strncmp(p, "count ", 6);
	}
	return end != NULL;
}

MOCK_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	int pointers, counts;

	for (size_t i = 0; i < N_FUNCTIONS; i++)
		if (!strcmp(functions[i].name, name) && declares(name, &pointers, &counts) &&
		    pointers == functions[i].pointers && counts == functions[i].counts) {
			*function = (CUfunction)(void *)&functions[i];
			return (CUresult)0;
		}
	return (CUresult)500; /* not found */
}

static void last(cudaStream_t stream, double bytes, double share)
{
	double seconds = bytes / (MOCK_MEM_BPS * MOCK_SWEEP_SHARE * share) + MOCK_LAUNCH_S;

	mock_enqueue(stream, (struct mock_op){ .kind = MOCK_WORK, .seconds = seconds });
}

MOCK_API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
				 unsigned int block_x, unsigned int block_y, unsigned int block_z,
				 unsigned int shared_B, cudaStream_t stream, void **arguments, void **extra)
{
	const struct function *f = (void *)function;
	const void *at[4] = { NULL };
	double n[3] = { 0 };

	if (!grid_x || grid_y != 1 || grid_z != 1 || block_x != 256 || block_y != 1 || block_z != 1 || shared_B ||
	    extra)
		return (CUresult)1;
	for (int i = 0; i < f->pointers; i++)
		at[i] = *(void *const *)arguments[i];
	for (int i = 0; i < f->counts; i++)
		n[i] = (double)*(const unsigned long long *)arguments[f->pointers + i];
	mock_log(stream, "own %s %.0f %.0f", f->name, n[0], n[1]);
	switch (f - functions) {
	case SWEEP:
		for (int i = 0; i < 3; i++)
			mock_extent(at[i], 16 * n[0], "operand of sweep");
		last(stream, 48 * n[0], 1);
		break;
	case ROWS:
	case NARROW:
		if ((f == &functions[NARROW]) != (n[1] <= 256))
			mock_wrong("a row that a warp cannot hold, or one that it can");
		for (int i = 0; i < 2; i++)
			mock_extent(at[i], 16 * n[0] * n[1], "operand of rows");
		last(stream, 32 * n[0] * n[1], 1);
		break;
	case ADAM:
		for (int i = 0; i < 4; i++)
			mock_extent(at[i], 16 * n[0], "operand of adam");
		for (int i = 0; i < 4; i++)
			for (int j = 0; j < i; j++)
				if (at[i] == at[j])
					mock_wrong("two states of adam are one");
		last(stream, 112 * n[0], MOCK_ADAM_SHARE);
		break;
	default:
		mock_extent(at[0], 4 * n[0], "index of gather");
		mock_extent(at[1], 16 * n[1] * n[2], "table of gather");
		mock_extent(at[2], 16 * n[0] * n[1], "rows of gather");
		last(stream, 32 * n[0] * n[1], 1);
	}
	return (CUresult)0;
}
