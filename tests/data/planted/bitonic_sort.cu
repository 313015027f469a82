// Each row of up to 256 values in rising order: a bitonic network in shared memory.
#include <math_constants.h>
extern "C" __global__ void bitonic_sort(const float* x, float* y, int cols) {
    __shared__ float s[256];
    const int t = threadIdx.x;
    s[t] = t < cols ? x[(size_t)blockIdx.x * cols + t] : CUDART_INF_F;
    for (int size = 2; size <= 256; size *= 2)
        for (int by = size / 2; by > 0; by /= 2) {
            __syncthreads();
            const int other = t ^ by;
            if (other > t) {
                const float a = s[t], b = s[other];
                if (((t & size) == 0) == (a > b)) s[t] = b, s[other] = a;
            }
        }
    __syncthreads();
    if (t < cols) y[(size_t)blockIdx.x * cols + t] = s[t];
}
