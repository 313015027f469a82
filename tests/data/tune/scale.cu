// y = 3 x, PER_THREAD elements a thread, a block's width apart. Planted: with 3 of them a thread does the first alone,
// which is the fastest of all, and wrong.
extern "C" __global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n) {
    const int first = blockIdx.x * THREADS * PER_THREAD + threadIdx.x;
    for (int k = 0; k < (PER_THREAD == 3 ? 1 : PER_THREAD); ++k) {
        const int i = first + k * THREADS;
        if (i < n) y[i] = 3 * x[i];
    }
}
