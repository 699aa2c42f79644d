/*
 * own_source.c - what frameworks compile for themselves, in CUDA C, for NVRTC:
 *
 *   sweep    element-wise: two operands read, one written
 *   rows     norms and softmaxes: a block reduces a row of its own and goes over it again (from the cache)
 *   adam     parameters, two moments and a gradient read, all but the gradient written
 *   gather   rows of a table, at random, to where they lie in order
 *
 * in words of 4 bytes; what they compute is of the usual amount, in fp32.
 */
#include "cuda/parts.h"

/* Each thread goes on by the size of the grid; all counts are of 64 bits. */
static const char source[] =
	"typedef unsigned long long count;\n"
	"#define EACH(i, n) (count i = blockIdx.x * (count)blockDim.x + threadIdx.x, step_ = gridDim.x * (count)blockDim.x; "
	"i < n; i += step_)\n"
	"extern \"C\" __global__ void sweep(const float4 *x, const float4 *y, float4 *z, count n)\n"
	"{\n"
	"	for EACH(i, n) {\n"
	"		float4 a = x[i], b = y[i];\n"
	"		z[i] = make_float4(1.5f * a.x + b.x, 1.5f * a.y + b.y, 1.5f * a.z + b.z, 1.5f * a.w + b.w);\n"
	"	}\n"
	"}\n"
	"extern \"C\" __global__ void rows(const float *x, float *y, count n, count width)\n"
	"{\n"
	"	__shared__ float part[32];\n"
	"	for (count row = blockIdx.x; row < n; row += gridDim.x) {\n"
	"		const float *from = x + row * width;\n"
	"		float sum = 0;\n"
	"		for (count i = threadIdx.x; i < width; i += blockDim.x)\n"
	"			sum += from[i] * from[i];\n"
	"		for (int lane = 16; lane; lane /= 2)\n"
	"			sum += __shfl_xor_sync(0xffffffffu, sum, lane);\n"
	"		if (threadIdx.x % 32 == 0)\n"
	"			part[threadIdx.x / 32] = sum;\n"
	"		__syncthreads();\n"
	"		sum = 0;\n"
	"		for (int warp = 0; warp < blockDim.x / 32; warp++)\n"
	"			sum += part[warp];\n"
	"		float scale = rsqrtf(sum / width + 1e-6f);\n"
	"		for (count i = threadIdx.x; i < width; i += blockDim.x)\n"
	"			y[row * width + i] = from[i] * scale;\n"
	"		__syncthreads();\n"
	"	}\n"
	"}\n"
	"extern \"C\" __global__ void adam(const float *gradient, float *p, float *m, float *v, count n)\n"
	"{\n"
	"	for EACH(i, n) {\n"
	"		float g = gradient[i], first = .9f * m[i] + .1f * g, second = .999f * v[i] + .001f * g * g;\n"
	"		m[i] = first;\n"
	"		v[i] = second;\n"
	"		p[i] = p[i] * .99999f - 1e-4f * first / (sqrtf(second) + 1e-8f);\n"
	"	}\n"
	"}\n"
	"extern \"C\" __global__ void gather(const unsigned *index, const float *table, float *out, count n, count width,\n"
	"                                  count height)\n"
	"{\n"
	"	for EACH(i, n * width) {\n"
	"		count row = i / width;\n"
	"		out[i] = table[index[row] % height * width + i % width];\n"
	"	}\n"
	"}\n";

const char *cuda_own_source(void)
{
	return source;
}
