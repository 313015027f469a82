// y = 3 x, done right with HOW 0, and with the others so that each fails in another way.
#if HOW == 1
#error HOW is 1
#endif

extern "C" __global__ void faulty(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (HOW == 2) *(volatile float*)((i + 1) * 16ULL) = 0;  // not mapped
    if (i < n) y[i] = 3 * x[i];
}
