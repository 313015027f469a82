// Matrix product in tiles of 16.
#define TILE 16
extern "C" __global__ void matmul_tiled(const float* a, const float* b, float* y, int m, int n, int k) {
    __shared__ float s[TILE][TILE], t[TILE][TILE];
    const int i = blockIdx.y * TILE + threadIdx.y, j = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int p = 0; p < k; p += TILE) {
        s[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.x < k ? a[(size_t)i * k + p + threadIdx.x] : 0.f;
        t[threadIdx.y][threadIdx.x] = p + threadIdx.y < k && j < n ? b[(size_t)(p + threadIdx.y) * n + j] : 0.f;
        __syncthreads();
        for (int q = 0; q < TILE; ++q) sum += s[threadIdx.y][q] * t[q][threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n) y[(size_t)i * n + j] = sum;
}
