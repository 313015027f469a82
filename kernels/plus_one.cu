// y = x + 1, elementwise: the smallest kernel there is, one element a thread.
//
// Bound by memory: one read, one write. It is here to show the least a kernel costs, at every size.
// scalar_t is float or int (-Dscalar_t=...).
extern "C" __global__ void plus_one(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
