// No thread needs another: flat mode. Includes and extern "C" as in a file written for nvcc.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include "device_launch_parameters.h"
#include <math_constants.h>

template <typename T> __device__ __forceinline__ T square_of(T x) { return x * x; }

__constant__ float polynomial[3] = {1.0f, -2.0f, 0.5f};

extern "C" {

__global__ void plus_one(float* __restrict__ y, const float* __restrict__ x, int64_t n) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = __ldg(&x[i]) + 1.0f;
}

__global__ void add_2d(float* out, const float* a, const float* b, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    __stcs(&out[row * cols + col], __ldcs(&a[row * cols + col]) + b[row * cols + col]);
}

__global__ void __launch_bounds__(256) square(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = square_of(x[i]);
}

__launch_bounds__(128, 2) __global__ void evaluate(float* y, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = polynomial[0] + x[i] * (polynomial[1] + x[i] * polynomial[2]);
}

// One float4 per step, then the tail: a grid-stride loop.
__global__ void gelu_vec(float* __restrict__ y, const float* __restrict__ x, int n) {
    const int start = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
    auto gelu = [](float v) { return 0.5f * v * (1.0f + erff(v * CUDART_SQRT_HALF_F)); };
    for (int i = start; i < n / 4; i += stride) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));
    }
    for (int i = n / 4 * 4 + start; i < n; i += stride) y[i] = gelu(x[i]);
}

__global__ void histogram(int* counts, const int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counts[x[i] % 8], 1);
}

__global__ void where(int* out) {
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] += block * 10000 + thread;
}

}  // extern "C"

// __global__ void not_an_entry(int n);
#if 0
__global__ void switched_off(int n) { asm("trap;"); }
#endif
template <typename T> __global__ void generic(T* y) { y[threadIdx.x] = T(1); }
