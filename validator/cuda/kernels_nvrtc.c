/*
 * kernels_nvrtc.c - what frameworks compile for themselves, in CUDA C, for NVRTC:
 *
 *   sweep    element-wise: two operands read, one written
 *   rows     norms and softmaxes: a block reduces a row of its own and goes over it again (from the cache)
 *   narrow   the same for rows of up to CUDA_NARROW_QUADS: a warp holds a row of its own in registers
 *   adam     parameters, two moments and a gradient read, all but the gradient written
 *   gather   rows of a table, at random, to where they lie in order
 *
 * in words of 16 bytes, as what they stand for is written: by the word of 4 bytes, Adam had 3.4 and lookups 2.2 of
 * the 4.2 TB/s that a sweep reaches on a H200. What they compute is of the usual amount, in fp32.
 */
#include "cuda/parts.h"

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
#define QUADS    TEXT(CUDA_NARROW_QUADS)

/* Each thread goes on by the size of the grid; all counts are of 64 bits. */
static const char source[] =
	"#define HELD (" QUADS " / 32) /* words of a row in each thread of a warp */\n"
	"typedef unsigned long long count;\n"
	"#define EACH(i, n) (count i = blockIdx.x * (count)blockDim.x + threadIdx.x, step_ = gridDim.x * "
	"(count)blockDim.x; "
	"i < n; i += step_)\n"
	"extern \"C\" __global__ void sweep(const float4 *x, const float4 *y, float4 *z, count n)\n"
	"{\n"
	"	for EACH(i, n) {\n"
	"		float4 a = x[i], b = y[i];\n"
	"		z[i] = make_float4(1.5f * a.x + b.x, 1.5f * a.y + b.y, 1.5f * a.z + b.z, 1.5f * a.w + b.w);\n"
	"	}\n"
	"}\n"
	"__device__ float squares(float4 a)\n"
	"{\n"
	"	return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;\n"
	"}\n"
	"__device__ float4 scaled(float4 a, float s)\n"
	"{\n"
	"	return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);\n"
	"}\n"
	"__device__ float of_warp(float sum)\n"
	"{\n"
	"	for (int lane = 16; lane; lane /= 2)\n"
	"		sum += __shfl_xor_sync(0xffffffffu, sum, lane);\n"
	"	return sum;\n"
	"}\n"
	"extern \"C\" __global__ void rows(const float4 *x, float4 *y, count n, count width)\n"
	"{\n"
	"	__shared__ float part[32];\n"
	"	for (count row = blockIdx.x; row < n; row += gridDim.x) {\n"
	"		const float4 *from = x + row * width;\n"
	"		float sum = 0;\n"
	"		for (count i = threadIdx.x; i < width; i += blockDim.x)\n"
	"			sum += squares(from[i]);\n"
	"		sum = of_warp(sum);\n"
	"		if (threadIdx.x % 32 == 0)\n"
	"			part[threadIdx.x / 32] = sum;\n"
	"		__syncthreads();\n"
	"		sum = 0;\n"
	"		for (int warp = 0; warp < blockDim.x / 32; warp++)\n"
	"			sum += part[warp];\n"
	"		float scale = rsqrtf(sum / (4 * width) + 1e-6f);\n"
	"		for (count i = threadIdx.x; i < width; i += blockDim.x)\n"
	"			y[row * width + i] = scaled(from[i], scale);\n"
	"		__syncthreads();\n"
	"	}\n"
	"}\n"
	"#define EACH_WARP(row, n) (count row = (blockIdx.x * (count)blockDim.x + threadIdx.x) / 32, "
	"step_ = gridDim.x * (count)blockDim.x / 32; row < n; row += step_)\n"
	"extern \"C\" __global__ void narrow(const float4 *x, float4 *y, count n, count width)\n"
	"{\n"
	"	for EACH_WARP(row, n) {\n"
	"		float4 held[HELD];\n"
	"		float sum = 0;\n"
	"#pragma unroll\n"
	"		for (int i = 0; i < HELD; i++) {\n"
	"			count at = 32 * i + threadIdx.x % 32;\n"
	"			held[i] = at < width ? x[row * width + at] : make_float4(0, 0, 0, 0);\n"
	"		}\n"
	"#pragma unroll\n"
	"		for (int i = 0; i < HELD; i++)\n"
	"			sum += squares(held[i]);\n"
	"		float scale = rsqrtf(of_warp(sum) / (4 * width) + 1e-6f);\n"
	"#pragma unroll\n"
	"		for (int i = 0; i < HELD; i++) {\n"
	"			count at = 32 * i + threadIdx.x % 32;\n"
	"			if (at < width)\n"
	"				y[row * width + at] = scaled(held[i], scale);\n"
	"		}\n"
	"	}\n"
	"}\n"
	"__device__ void step(float g, float *p, float *m, float *v)\n"
	"{\n"
	"	*m = .9f * *m + .1f * g;\n"
	"	*v = .999f * *v + .001f * g * g;\n"
	"	*p = *p * .99999f - 1e-4f * *m / (sqrtf(*v) + 1e-8f);\n"
	"}\n"
	"extern \"C\" __global__ void adam(const float4 *gradient, float4 *p, float4 *m, float4 *v, count n)\n"
	"{\n"
	"	for EACH(i, n) {\n"
	"		float4 g = gradient[i], a = p[i], b = m[i], c = v[i];\n"
	"		step(g.x, &a.x, &b.x, &c.x);\n"
	"		step(g.y, &a.y, &b.y, &c.y);\n"
	"		step(g.z, &a.z, &b.z, &c.z);\n"
	"		step(g.w, &a.w, &b.w, &c.w);\n"
	"		p[i] = a;\n"
	"		m[i] = b;\n"
	"		v[i] = c;\n"
	"	}\n"
	"}\n"
	"extern \"C\" __global__ void gather(const unsigned *index, const float4 *__restrict__ table, float4 *out, "
	"count n, "
	"count width,\n"
	"                                  count height)\n"
	"{\n"
	"	for EACH_WARP(row, n) {\n"
	"		const float4 *from = table + index[row] % height * width;\n"
	"#pragma unroll 4\n"
	"		for (count i = threadIdx.x % 32; i < width; i += 32)\n"
	"			out[row * width + i] = from[i];\n"
	"	}\n"
	"}\n";

const char *cuda_own_source(void)
{
	return source;
}
