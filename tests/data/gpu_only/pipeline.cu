// y = 2 x: an asynchronous copy by CUDA's primitives.
#include <cuda_pipeline.h>

__global__ void twice(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) __pipeline_memcpy_async(&tile[threadIdx.x], x + i, sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    if (i < n) y[i] = 2 * tile[threadIdx.x];
}
