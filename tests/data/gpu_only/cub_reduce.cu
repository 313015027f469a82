// y = 2 x, and a block sum by CUB that nobody reads.
#include <cub/cub.cuh>

__global__ void twice(const float* x, float* y, int n) {
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage room;
    int i = blockIdx.x * 256 + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    float sum = Reduce(room).Sum(v);
    if (i < n) y[i] = 2 * v + 0 * sum;
}
