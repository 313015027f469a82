// Transposition through a padded tile: 32 by 8 threads.
extern "C" __global__ void transpose_pad(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[32][33];
    const int across = blockIdx.x * 32, down = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8)
        if (down + k < rows && across + threadIdx.x < cols)
            tile[k][threadIdx.x] = x[(size_t)(down + k) * cols + across + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        if (across + k < cols && down + threadIdx.x < rows)
            y[(size_t)(across + k) * rows + down + threadIdx.x] = tile[threadIdx.x][k];
}
