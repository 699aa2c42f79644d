/* kernels.cu - CUDA C for NVRTC (kernels_own.c): kernels like those that frameworks compile:
 *
 *   sweep    element-wise: two operands read, one written
 *   rows     norms and softmaxes: a block reduces a row and reads it again (from the cache)
 *   narrow   the same for rows of up to NARROW_QUADS words: a warp holds a row in registers
 *   adam     parameters, two moments and a gradient read, all but the gradient written
 *   gather   random rows of a table to consecutive rows
 *
 * They access words of 16 bytes, like frameworks' kernels: with words of 4 bytes, Adam reached 3.4 and lookups 2.2 of a
 * sweep's 4.2 TB/s on a H200. They compute the usual amount, in fp32. Loops are grid-stride; all counts have 64 bits.
 * SPDX-License-Identifier: Apache-2.0 */
#define HELD (NARROW_QUADS / 32) /* words of a row in each thread of a warp */
typedef unsigned long long count;
#define EACH(i, n) \
	(count i = blockIdx.x * (count)blockDim.x + threadIdx.x, step_ = gridDim.x * (count)blockDim.x; i < n; i += step_)

extern "C" __global__ void sweep(const float4 *x, const float4 *y, float4 *z, count n)
{
	for EACH(i, n) {
		float4 a = x[i], b = y[i];
		z[i] = make_float4(1.5f * a.x + b.x, 1.5f * a.y + b.y, 1.5f * a.z + b.z, 1.5f * a.w + b.w);
	}
}

__device__ float squares(float4 a)
{
	return a.x * a.x + a.y * a.y + a.z * a.z + a.w * a.w;
}

__device__ float4 scaled(float4 a, float s)
{
	return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);
}

__device__ float of_warp(float sum)
{
	for (int lane = 16; lane; lane /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, lane);
	return sum;
}

extern "C" __global__ void rows(const float4 *x, float4 *y, count n, count width)
{
	__shared__ float part[32];
	for (count row = blockIdx.x; row < n; row += gridDim.x) {
		const float4 *from = x + row * width;
		float sum = 0;
		for (count i = threadIdx.x; i < width; i += blockDim.x)
			sum += squares(from[i]);
		sum = of_warp(sum);
		if (threadIdx.x % 32 == 0)
			part[threadIdx.x / 32] = sum;
		__syncthreads();
		sum = 0;
		for (int warp = 0; warp < blockDim.x / 32; warp++)
			sum += part[warp];
		float scale = rsqrtf(sum / (4 * width) + 1e-6f);
		for (count i = threadIdx.x; i < width; i += blockDim.x)
			y[row * width + i] = scaled(from[i], scale);
		__syncthreads();
	}
}

#define EACH_WARP(row, n)                                                         \
	(count row = (blockIdx.x * (count)blockDim.x + threadIdx.x) / 32,         \
	       step_ = gridDim.x * (count)blockDim.x / 32; row < n; row += step_)

extern "C" __global__ void narrow(const float4 *x, float4 *y, count n, count width)
{
	for EACH_WARP(row, n) {
		float4 held[HELD];
		float sum = 0;
#pragma unroll
		for (int i = 0; i < HELD; i++) {
			count at = 32 * i + threadIdx.x % 32;
			held[i] = at < width ? x[row * width + at] : make_float4(0, 0, 0, 0);
		}
#pragma unroll
		for (int i = 0; i < HELD; i++)
			sum += squares(held[i]);
		float scale = rsqrtf(of_warp(sum) / (4 * width) + 1e-6f);
#pragma unroll
		for (int i = 0; i < HELD; i++) {
			count at = 32 * i + threadIdx.x % 32;
			if (at < width)
				y[row * width + at] = scaled(held[i], scale);
		}
	}
}

__device__ void step(float g, float *p, float *m, float *v)
{
	*m = .9f * *m + .1f * g;
	*v = .999f * *v + .001f * g * g;
	*p = *p * .99999f - 1e-4f * *m / (sqrtf(*v) + 1e-8f);
}

extern "C" __global__ void adam(const float4 *gradient, float4 *p, float4 *m, float4 *v, count n)
{
	for EACH(i, n) {
		float4 g = gradient[i], a = p[i], b = m[i], c = v[i];
		step(g.x, &a.x, &b.x, &c.x);
		step(g.y, &a.y, &b.y, &c.y);
		step(g.z, &a.z, &b.z, &c.z);
		step(g.w, &a.w, &b.w, &c.w);
		p[i] = a;
		m[i] = b;
		v[i] = c;
	}
}

extern "C" __global__ void gather(const unsigned *index, const float4 *__restrict__ table, float4 *out, count n,
                                  count width, count height)
{
	for EACH_WARP(row, n) {
		const float4 *from = table + index[row] % height * width;
#pragma unroll 4
		for (count i = threadIdx.x % 32; i < width; i += 32)
			out[row * width + i] = from[i];
	}
}
