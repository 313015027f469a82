// y = 2 x, in a file that includes an algorithm of CUB that the host launches.
#include <cub/device/device_reduce.cuh>

__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
