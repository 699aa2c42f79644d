/* libraries.c - opens NVIDIA's libraries by name at run time; an error names a missing one.
 *
 * If the loader does not find them, CONDA_PREFIX and VIRTUAL_ENV are searched, where conda and Python's wheels
 * (nvidia-*-cu12, -cu13) put them.
 *
 * MAQUETTE_CUDART, _CUBLAS, _CUBLASLT, _CUDNN, _NVRTC, _CUDA (the driver), _NCCL and _NVML name other files: another
 * version, or the mocks of the tests. cuBLAS takes most of a second to open, so it is opened only when needed, and
 * cublasLt, cuDNN and NVRTC only by schedules that have kernels for them. SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/parts.h"

enum { NCCL_OLDEST = 21400 };

/* Opens a library of a conda environment or of Python's wheels. */
static void *open_below(const char *prefix, const char *name)
{
	void *library = NULL;

	for (int i = 0; prefix && i < 2 && !library; i++) {
		char pattern[4096];
		glob_t found = { 0 };

		snprintf(pattern, sizeof(pattern), i ? "%s/lib/python3*/site-packages/nvidia/*/lib/%s" : "%s/lib/%s",
			 prefix, name);
		if (!glob(pattern, 0, NULL, &found))
			library = dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_LOCAL);
		globfree(&found);
	}
	return library;
}

static void *open_named(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		library = open_below(getenv("CONDA_PREFIX"), name);
	return library ? library : open_below(getenv("VIRTUAL_ENV"), name);
}

/* Is the CUDA runtime newer than the driver? It opens then, but all calls fail. */
static bool is_too_new(void *library)
{
	cudaError_t (*count)(int *) = NULL;
	void *found = dlsym(library, "cudaGetDeviceCount");
	int n = 0;

	memcpy(&count, &found, sizeof(found));
	return count && count(&n) == cudaErrorInsufficientDriver;
}

/* Opens the first library found; of CUDA runtimes the first that the driver supports, else the newest. */
static void *open_one(const char *variable, const char *const *names)
{
	const char *given = getenv(variable);
	void *first = NULL;

	if (given && *given)
		return dlopen(given, RTLD_NOW | RTLD_LOCAL);
	for (; *names; names++) {
		void *library = open_named(*names);
		bool fits = library && !is_too_new(library);

		if (library && first)
			dlclose(fits ? first : library);
		if (fits)
			return library;
		first = first ? first : library;
	}
	return first;
}

static enum mq_status take(void *library, const char *what, const char *name, void *pointer, struct mq_err *err)
{
	void *found = dlsym(library, name);

	if (!found)
		return mq_fail(err, MQ_ENODEV, "%s has no function %s: another version is needed", what, name);
	memcpy(pointer, &found, sizeof(found));
	return MQ_OK;
}

#define TAKE(result, name, ...) MQ_TRY(take(library, what, #name, &kit->name, err));
#define MAY_TAKE(result, name, ...)          \
	if ((found = dlsym(library, #name))) \
		memcpy(&kit->name, &found, sizeof(found));

enum mq_status cuda_open_runtime(struct mq_toolkit *kit, struct mq_err *err)
{
	static const char *const names[] = { "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so",
					     NULL };
	const char *what = "the CUDA runtime";
	void *library = open_one("MAQUETTE_CUDART", names);

	if (!library)
		return mq_fail(err, MQ_ENODEV,
			       "no CUDA runtime (libcudart.so.13, .12 or .11.0): install the CUDA toolkit, or set "
			       "MAQUETTE_CUDART to the library's path");
#define CUDART TAKE
#include "cuda/toolkit.def"
	return MQ_OK;
}

static const char *const versions[] = { ".13, .12 or .11", ".12 or .11", ".11" };

/* Of names by falling CUDA versions 13, 12, 11, the number newer than the runtime: these need a newer driver, too. */
static int too_new(const struct mq_toolkit *kit, int *major)
{
	int version = 0;

	if (kit->cudaRuntimeGetVersion(&version) != cudaSuccess || !version)
		version = 13000;
	*major = version / 1000;
	return version < 12000 ? 2 : version < 13000 ? 1 : 0;
}

enum mq_status cuda_open_blas(struct mq_toolkit *kit, struct mq_err *err)
{
	/* Never plain libcublas.so, which may be of any version. */
	static const char *const names[] = { "libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL };
	const char *what = "cuBLAS";
	int major, skip = too_new(kit, &major);
	void *library = open_one("MAQUETTE_CUBLAS", names + skip), *found;

	if (!library)
		return mq_fail(
			err, MQ_ENODEV,
			"no cuBLAS (libcublas.so%s) for CUDA %d's runtime: install it, or set MAQUETTE_CUBLAS to the library's "
			"path",
			versions[skip], major);
#define CUBLAS TAKE
#include "cuda/toolkit.def"
	MAY_TAKE(, cublasGemmGroupedBatchedEx)
	return MQ_OK;
}

enum mq_status cuda_open_lt(struct mq_toolkit *kit, struct mq_err *err)
{
	static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", NULL };
	const char *what = "cublasLt";
	int major, skip = too_new(kit, &major);
	void *library = open_one("MAQUETTE_CUBLASLT", names + skip);

	if (!library)
		return mq_fail(
			err, MQ_ENODEV,
			"the plan multiplies in fp8, and there is no cublasLt (libcublasLt.so%s): install it, set "
			"MAQUETTE_CUBLASLT to the library's path, or replay plans in bf16",
			versions[skip]);
#define CUBLASLT TAKE
#include "cuda/toolkit.def"
	return MQ_OK;
}

enum mq_status cuda_open_dnn(struct mq_toolkit *kit, struct mq_err *err)
{
	static const char *const names[] = { "libcudnn.so.9", "libcudnn.so.8", NULL };
	const char *what = "cuDNN";
	void *library = open_one("MAQUETTE_CUDNN", names);

	if (!library)
		return mq_fail(
			err, MQ_ENODEV,
			"the plan has convolutions or fused attention, and there is no cuDNN (libcudnn.so.9 or .8): install it, set "
			"MAQUETTE_CUDNN to its path, or to off: then GEMMs stand for them, and nothing is fitted "
			"to these");
#define CUDNN TAKE
#include "cuda/toolkit.def"
	return MQ_OK;
}

bool cuda_is_off(const char *variable)
{
	const char *given = getenv(variable);

	return given && !strcmp(given, "off");
}

bool cuda_open_nvrtc(struct mq_toolkit *kit)
{
	static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", NULL };
	static const char *const driver_names[] = { "libcuda.so.1", NULL };
	const char *what = "NVRTC";
	struct mq_err ignored, *err = &ignored;
	int major, skip = too_new(kit, &major);

	if (cuda_is_off("MAQUETTE_NVRTC"))
		return false;
	void *library = open_one("MAQUETTE_NVRTC", names + skip);
	void *driver = library ? open_one("MAQUETTE_CUDA", driver_names) : NULL;
	if (!driver)
		return false;
#define HAVE(result, name, ...)                                   \
	if (take(library, what, #name, &kit->name, err) != MQ_OK) \
		return false;
#define NVRTC HAVE
#include "cuda/toolkit.def"
	library = driver;
#define DRIVER HAVE
#include "cuda/toolkit.def"
	return true;
}

enum mq_status cuda_open_nccl(struct mq_toolkit *kit, struct mq_err *err)
{
	static const char *const names[] = { "libnccl.so.2", "libnccl.so", NULL };
	const char *what = "NCCL";
	void *library = open_one("MAQUETTE_NCCL", names);
	int version = 0;

	if (!library)
		return mq_fail(err, MQ_ENODEV,
			       "no NCCL (libnccl.so.2): install it, or set MAQUETTE_NCCL to the library's path");
	MQ_TRY(take(library, what, "ncclGetVersion", &kit->ncclGetVersion, err));
	if (kit->ncclGetVersion(&version) != ncclSuccess || version < NCCL_OLDEST)
		return mq_fail(err, MQ_ENODEV, "NCCL %d.%d.%d is too old: 2.14 or newer is needed", version / 10000,
			       version / 100 % 100, version % 100);
#define NCCL TAKE
#include "cuda/toolkit.def"
	return MQ_OK;
}

void cuda_open_nvml(struct mq_toolkit *kit)
{
	static const char *const names[] = { "libnvidia-ml.so.1", NULL };
	void *library = open_one("MAQUETTE_NVML", names), *found;

	if (!library)
		return;
#define NVML MAY_TAKE
#include "cuda/toolkit.def"
	/* Set only if all functions that every driver has were found. */
	if (!(kit->nvmlDeviceGetHandleByIndex_v2 && kit->nvmlDeviceGetName && kit->nvmlDeviceGetClockInfo &&
	      kit->nvmlDeviceGetTemperature && kit->nvmlDeviceGetPowerUsage &&
	      kit->nvmlDeviceGetCurrentClocksThrottleReasons))
		kit->nvmlInit_v2 = NULL;
}

bool cuda_is_mig(const struct mq_toolkit *kit, void *nvml)
{
	unsigned int current = 0, pending = 0;

	return nvml && kit->nvmlDeviceGetMigMode && !kit->nvmlDeviceGetMigMode(nvml, &current, &pending) && current;
}

enum mq_status cuda_count(const struct mq_toolkit *kit, int *count, struct mq_err *err)
{
	*count = 0; /* a failing call does not set it */
	int error = (int)kit->cudaGetDeviceCount(count);

	const char *why =
		error == cudaErrorStubLibrary ?
			"the driver found is the toolkit's stub (take its stubs folder out of the library path)" :
		error == cudaErrorInsufficientDriver ? "the NVIDIA driver is missing or older than the CUDA runtime" :
		error == cudaErrorNoDevice           ? "the driver sees none (is CUDA_VISIBLE_DEVICES set?)" :
		error == cudaSuccess && *count < 1   ? "the driver counts none" :
						       NULL;
	if (why)
		return mq_fail(err, MQ_ENODEV, "no GPU: %s", why);
	return error == cudaSuccess ? MQ_OK :
				      mq_fail(err, MQ_ENODEV, "no GPU: %s (error %d)",
					      kit->cudaGetErrorString((cudaError_t)error), error);
}
