// Transpose of a matrix, y[c][r] = x[r][c]: a tile of 32 x 32 goes through shared memory, so that both the reads and the
// writes of a warp are neighbours. A block has 32 x 8 threads, a thread 4 elements. The pitch of 33 puts the
// elements of a column into different banks.
#define TILE 32
#define PITCH 33

__global__ void transpose_static(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int rows, int cols) {
    __shared__ scalar_t tile[TILE][PITCH];
    int col = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += blockDim.y)
        if (col < cols && row + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(size_t)(row + k) * cols + col];
    __syncthreads();
    col = blockIdx.y * TILE + threadIdx.x, row = blockIdx.x * TILE + threadIdx.y;
    for (int k = 0; k < TILE; k += blockDim.y)
        if (col < rows && row + k < cols) y[(size_t)(row + k) * rows + col] = tile[threadIdx.x][threadIdx.y + k];
}

// The same with the tile in dynamic shared memory: TILE * PITCH elements, given at the launch.
__global__ void transpose_dynamic(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int rows, int cols) {
    extern __shared__ scalar_t cells[];
    const int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    for (int k = threadIdx.y; k < TILE; k += blockDim.y)
        if (left + threadIdx.x < cols && top + k < rows)
            cells[k * PITCH + threadIdx.x] = x[(size_t)(top + k) * cols + left + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += blockDim.y)
        if (top + threadIdx.x < rows && left + k < cols)
            y[(size_t)(left + k) * rows + top + threadIdx.x] = cells[threadIdx.x * PITCH + k];
}
