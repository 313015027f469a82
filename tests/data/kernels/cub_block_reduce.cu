// Mean of each row by CUB's block reduction.
#include <cub/block/block_reduce.cuh>

template <int BLOCK_THREADS>
__device__ void mean_of_row(const float* row, float* mean, int cols) {
    using BlockReduce = cub::BlockReduce<float, BLOCK_THREADS>;
    __shared__ typename BlockReduce::TempStorage temp_storage;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += BLOCK_THREADS) sum += row[c];
    sum = BlockReduce(temp_storage).Sum(sum);
    if (threadIdx.x == 0) *mean = sum / cols;
}

__global__ void row_means(const float* x, float* y, int cols) {
    mean_of_row<128>(x + (size_t)blockIdx.x * cols, y + blockIdx.x, cols);
}
