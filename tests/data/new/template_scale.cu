#include <cuda_fp16.h>
template <typename T, int BLOCK>
__global__ void scale_kernel(const T* x, T* y, float alpha, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = T(float(x[i]) * alpha);
}
template __global__ void scale_kernel<float, 128>(const float*, float*, float, int);
template __global__ void scale_kernel<__half, 128>(const __half*, __half*, float, int);
template __global__ void scale_kernel<float, 512>(const float*, float*, float, int);
