// Five-point stencil with a tile and its halo in shared memory; outside of the grid all is 0.
#define TILE 16
extern "C" __global__ void stencil2d(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[TILE + 2][TILE + 2];
    const int j = blockIdx.x * TILE + threadIdx.x, i = blockIdx.y * TILE + threadIdx.y;
    const int a = threadIdx.y + 1, b = threadIdx.x + 1;
    const bool in = i < rows && j < cols;
    tile[a][b] = in ? x[(size_t)i * cols + j] : 0.f;
    if (threadIdx.y == 0) tile[0][b] = i > 0 && j < cols ? x[(size_t)(i - 1) * cols + j] : 0.f;
    if (threadIdx.y == TILE - 1) tile[TILE + 1][b] = i + 1 < rows && j < cols ? x[(size_t)(i + 1) * cols + j] : 0.f;
    if (threadIdx.x == 0) tile[a][0] = j > 0 && i < rows ? x[(size_t)i * cols + j - 1] : 0.f;
    if (threadIdx.x == TILE - 1) tile[a][TILE + 1] = j + 1 < cols && i < rows ? x[(size_t)i * cols + j + 1] : 0.f;
    __syncthreads();
    if (in) y[(size_t)i * cols + j] = 4 * tile[a][b] - tile[a - 1][b] - tile[a + 1][b] - tile[a][b - 1] - tile[a][b + 1];
}
