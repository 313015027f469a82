// Dropout with cuRAND's Philox: thread i draws four numbers of subsequence i, for elements 4i to 4i + 3.
#include <curand_kernel.h>

__global__ void philox_dropout(const float* __restrict__ x, float* __restrict__ y, float p, unsigned long long seed,
                               long long n) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (4 * i >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    const float4 u = curand_uniform4(&state);
    const float draws[4] = {u.x, u.y, u.z, u.w};
    for (int k = 0; k < 4 && 4 * i + k < n; ++k) y[4 * i + k] = draws[k] > p ? x[4 * i + k] / (1.0f - p) : 0.0f;
}
