// Root mean square norm of each row.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

__device__ float block_sum(float v) {
    __shared__ float part[32];
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0.0f;
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    return v;
}

// One block per row.
__global__ void rmsnorm(const scalar_t* __restrict__ x, const scalar_t* __restrict__ weight,
                        scalar_t* __restrict__ y, int cols, float eps) {
    const scalar_t* row = x + (size_t)blockIdx.x * cols;
    scalar_t* out = y + (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        float v = float(row[i]);
        sum += v * v;
    }
    float scale = rsqrtf(block_sum(sum) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        out[i] = scalar_t(float(row[i]) * scale * float(weight[i]));
}
