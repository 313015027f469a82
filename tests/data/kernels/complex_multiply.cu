// y = a b, complex.
#include <cuComplex.h>

__device__ cuFloatComplex times(cuFloatComplex a, cuFloatComplex b) { return cuCmulf(a, b); }
__device__ cuDoubleComplex times(cuDoubleComplex a, cuDoubleComplex b) { return cuCmul(a, b); }

__global__ void complex_multiply(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ y,
                                 long long n) {
    const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = times(a[i], b[i]);
}
