// Dropout with Philox, four numbers at a time, and the mask that the backward pass needs.
#include <curand_kernel.h>

__global__ void dropout_forward(float* y, bool* mask, const float* x, float p, unsigned long long seed, int n) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    curandStatePhilox4_32_10_t state;
    curand_init(seed, thread, 0, &state);
    const float scale = 1.0f / (1.0f - p);
    for (int i = 4 * thread; i < n; i += 4 * gridDim.x * blockDim.x) {
        const float4 u = curand_uniform4(&state);
        const float draws[4] = {u.x, u.y, u.z, u.w};
        for (int j = 0; j < 4 && i + j < n; j++) {
            const bool keep = draws[j] > p;
            mask[i + j] = keep;
            y[i + j] = keep ? x[i + j] * scale : 0.0f;
        }
    }
}
