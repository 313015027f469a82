#include <curand_kernel.h>
// Dropout: each element is kept with probability 1 - p and scaled by 1 / (1 - p).
__global__ void dropout(const float* x, float* y, float p, unsigned long long seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, i, 0, &state);
    y[i] = curand_uniform(&state) > p ? x[i] / (1.0f - p) : 0.0f;
}
