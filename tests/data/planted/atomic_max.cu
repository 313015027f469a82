// The largest value of each row: a block of 256 columns finds its own, and one atomic joins it to the row's. As integers
// positive floats are in their order, and negative ones, -0 among them, in the reverse order.
#include <math_constants.h>
__device__ void join(float* at, float v) {
    if (!signbit(v)) atomicMax((int*)at, __float_as_int(v));
    else atomicMin((unsigned*)at, __float_as_uint(v));
}
extern "C" __global__ void atomic_max(const float* x, float* y, int cols) {
    __shared__ float part[256];
    const int t = threadIdx.x, j = blockIdx.x * 256 + t;
    part[t] = j < cols ? x[(size_t)blockIdx.y * cols + j] : -CUDART_INF_F;
    __syncthreads();
    for (int by = 128; by > 0; by /= 2) {
        if (t < by) part[t] = fmaxf(part[t], part[t + by]);
        __syncthreads();
    }
    if (t == 0) join(y + blockIdx.y, part[0]);
}
