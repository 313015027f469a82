// y = 2 x, by functions with names of C++.
template <int factor, typename T = float> __global__ void scale(T* y, const T* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}

namespace ns {
namespace inner {
__global__ void twice(float* __restrict__ y, const float* __restrict__ x, int n) {
    __shared__ float part[128];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = 2 * part[threadIdx.x];
}
}  // namespace inner
template <int factor = 2> __global__ void times(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
}  // namespace ns

__global__ void add(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i];
}
__global__ void add(float* y, const float* x, float by, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + by;
}

#define MAKE(n)                                                                 \
    extern "C" __global__ void scale_##n(float* y, const float* x, int count) { \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                    \
        if (i < count) y[i] = n * x[i];                                         \
    }
#define MAKE_CPP(n)                                                  \
    __global__ void times_##n(float* y, const float* x, int count) { \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;         \
        if (i < count) y[i] = n * x[i];                              \
    }
MAKE(2)
MAKE(4)
MAKE_CPP(2)

__global__ void plain(float* y, const float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
