#include <cuda_bf16.h>
#define KERNEL extern "C" __global__ void
#define ACTIVATION(NAME, F)                                                              \
    __global__ void NAME##_and_mul(__nv_bfloat16* out, const __nv_bfloat16* x, int d) {   \
        out[threadIdx.x] = F(x[threadIdx.x]);                                            \
    }
#define TWICE(x) ((x) + (x))
ACTIVATION(twice, TWICE)
ACTIVATION(plain, )
KERNEL halved(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x] / 2; }
