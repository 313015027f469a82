// Sum of each row by a block of BLOCK threads: a template, as libraries write it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace rows {

template <int BLOCK>
__device__ float block_sum(float value) {
    __shared__ float shared[BLOCK / 32];
#pragma unroll
    for (int mask = 16; mask > 0; mask >>= 1) value += __shfl_xor_sync(0xffffffff, value, mask);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
#pragma unroll
    for (int w = 0; w < BLOCK / 32; w++) value += shared[w];
    return value;
}

template <int BLOCK, typename T>
__global__ void __launch_bounds__(BLOCK) row_sum(const T* __restrict__ x, T* __restrict__ y, int cols) {
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += BLOCK) sum += float(x[(long long)blockIdx.x * cols + c]);
    sum = block_sum<BLOCK>(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = T(sum);
}

}  // namespace rows
