// y = x + 1, elementwise: the smallest kernel there is.
//
// Bound by memory: one read and one write. It shows the least that a kernel costs, at every size.
// scalar_t is float or int (-Dscalar_t=...).
#include "common/pack.cuh"

// One element a thread.
extern "C" __global__ void plus_one_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}

// 16 bytes a thread: a quarter of the threads and of the memory instructions for the same bytes.
extern "C" __global__ void plus_one_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    const bool aligned = aligned16(x, y);
    if (aligned && first + Pack::width <= n) {
        Pack pack = *reinterpret_cast<const Pack*>(x + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) pack.v[k] += 1;
        *reinterpret_cast<Pack*>(y + first) = pack;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = x[i] + 1;
    }
}
