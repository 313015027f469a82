// Convolution of each row with 7 weights, zeros outside: tile and halo in shared memory.
#define RADIUS 3
#define TILE 128
extern "C" __global__ void conv1d(const float* x, const float* w, float* y, int n) {
    __shared__ float s[TILE + 2 * RADIUS];
    const size_t row = (size_t)blockIdx.y * n;
    const int first = blockIdx.x * TILE - RADIUS;
    for (int k = threadIdx.x; k < TILE + 2 * RADIUS; k += TILE) {
        const int j = first + k;
        s[k] = j >= 0 && j < n ? x[row + j] : 0.f;
    }
    __syncthreads();
    const int j = blockIdx.x * TILE + threadIdx.x;
    if (j >= n) return;
    float sum = 0;
    for (int k = 0; k <= 2 * RADIUS; ++k) sum = fmaf(w[k], s[threadIdx.x + k], sum);
    y[row + j] = sum;
}
