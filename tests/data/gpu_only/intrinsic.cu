// y = 2 x, after a pause, through a complex multiply-add of halves, which the CPU executor lacks.
#include <cuda_fp16.h>
__global__ void twice(const float* x, float* y, int n) {
    __nanosleep(100);
    __half2 two = __hcmadd(__floats2half2_rn(2, 0), __floats2half2_rn(1, 0), __floats2half2_rn(0, 0));
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __low2float(two) * x[i];
}
