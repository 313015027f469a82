// GELU, exact (erf) form: y = x * Phi(x) = x/2 * (1 + erf(x / sqrt(2))), over any number of elements.
//
// Each element is read once and written once. In float32 the arithmetic hides behind that, and what decides the speed
// is how many bytes a thread has in flight, so the entries differ only there. In 16 bit there are half the bytes and as
// many instructions: erff, not memory, is then the limit (bench/NOTES.md).
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float gelu(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
}

// One element a thread. The index is 64 bits wide: 2^31 elements are 8 GB of float32, which cards hold.
extern "C" __global__ void gelu_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(gelu(float(x[i])));
}

// 16 bytes a thread: the widest load and store there is, so a quarter (or an eighth) of the memory instructions.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

extern "C" __global__ void gelu_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    // A slice such as x[1:] may start off a 16-byte boundary, where a wide access faults.
    const bool aligned = ((size_t)x % sizeof(Pack) | (size_t)y % sizeof(Pack)) == 0;
    if (aligned && first + Pack::width <= n) {
        Pack pack = *reinterpret_cast<const Pack*>(x + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) pack.v[k] = scalar_t(gelu(float(pack.v[k])));
        *reinterpret_cast<Pack*>(y + first) = pack;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = scalar_t(gelu(float(x[i])));
    }
}
