#define RADIUS 4
__constant__ float coef[2 * RADIUS + 1];
// 1-D stencil, zero outside
__global__ void stencil(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int k = -RADIUS; k <= RADIUS; ++k)
        if (i + k >= 0 && i + k < n) s += coef[k + RADIUS] * x[i + k];
    y[i] = s;
}
