#include <cuda_fp16.h>
__global__ void adam(scalar_t* p, float* m, float* v, const scalar_t* g, float lr, float b1, float b2,
                     int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = float(g[i]), mi = b1 * m[i] + (1.0f - b1) * gi, vi = b2 * v[i] + (1.0f - b2) * gi * gi;
    m[i] = mi;
    v[i] = vi;
    p[i] = scalar_t(float(p[i]) - lr * mi / (sqrtf(vi) + 1e-8f));
}
