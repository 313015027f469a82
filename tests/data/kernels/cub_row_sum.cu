// Sum and softmax denominator of each row by CUB: y[r] = sum exp(x[r] - max x[r]). A block a row.
#include <cub/cub.cuh>

constexpr int THREADS = 128;

__global__ void cub_row_sum(const float* __restrict__ x, float* __restrict__ y, int cols) {
    using BlockReduce = cub::BlockReduce<float, THREADS>;
    __shared__ typename BlockReduce::TempStorage temp;
    __shared__ float shared_max;

    const float* row = x + static_cast<size_t>(blockIdx.x) * cols;
    float largest = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += THREADS) largest = fmaxf(largest, row[c]);
    largest = BlockReduce(temp).Reduce(largest, [](float a, float b) { return fmaxf(a, b); });
    if (threadIdx.x == 0) shared_max = largest;
    __syncthreads();  // temp is used again, and shared_max is there

    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) sum += expf(row[c] - shared_max);
    sum = BlockReduce(temp).Sum(sum);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
