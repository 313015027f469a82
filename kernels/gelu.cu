// GELU, exact (erf) form: y = x * Phi(x), elementwise, without erff.
//
// erff takes so many instructions that in 16 bits they are the limit, not memory (bench/NOTES.md), and x/2 * (1 + erf)
// cancels in the negative tail. common/phi.cuh has a fit of Phi(-|x|) with a bounded relative error instead, so the
// tail keeps its digits: y = max(x, 0) - |x| * Phi(-|x|).
// A thread computes one element, or packs of 16 bytes. No data is shared, so the limit is the speed of a copy. scalar_t
// is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/map.cuh"
#include "common/phi.cuh"
#include "common/positive_part.cuh"

// 16 bits. The last argument only chooses the form.
template <class T> __device__ __forceinline__ float gelu(float x, const T* form) {
    return times_phi(x, phi_exponent(fabsf(x), form));
}

// float32: a * Phi(-a) = v * q * exp(-a^2/2). A fused multiply-add recovers what rounding a^2 loses. Beyond a = 14.2
// the product underflows, so 16 stands for every larger a.
__device__ __forceinline__ float gelu(float x, const float*) {
    const float a = fminf(fabsf(x), 16.0f), v = fraction_of(a, PHI_C), q = phi_quotient(v), s = a * a;
    return fmaf(-v, times_gaussian(q, s, fmaf(a, a, -s)), positive_part(x));
}

__device__ __forceinline__ float gelu(float x) { return gelu(x, static_cast<const scalar_t*>(nullptr)); }

// One element a thread. The index has 64 bits: 2^31 elements are 8 GB of float32, which cards hold.
// On an H200 at 154 million elements: 0.58 of a copy's speed in float32, a third in 16 bits; the number of threads and
// memory instructions is the limit.
// Fastest entry where all threads fit on the card at once, with few blocks and equally many on each multiprocessor: at
// 150,528 elements two blocks of 576 threads take 8 % less time than four or five of 256 in back-to-back runs, and 5 %
// less than gelu_vec (8 to 10 % in a graph).
extern "C" __global__ void gelu_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(gelu(float(x[i])));
}

// VEC_PACKS packs a thread, in 32 registers, so that all 2,048 threads of a multiprocessor fit. Index, bounds and
// alignment cost a thread as much as one element does; two packs share that cost, and two loads in flight hide more
// latency. On an H200 at 154 million elements: 0.99 of a copy's speed; 0.94 with one pack in float32; 0.73 with erff in
// 16 bits.
extern "C" __global__ void __launch_bounds__(VEC_THREADS, 2048 / VEC_THREADS)
    gelu_full(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    map_block<gelu, VEC_PACKS>(kept(x), y, n);
}

// As gelu_full, with registers for both packs at once; one pack where two would leave too few threads (packs == 1). On
// an H200 at 4.8 million elements, which fit in L2: in float32 3 % less time than gelu_full cold, 3 % more back to
// back; with one pack 1 % more cold, 4 to 6 % more back to back. exp2f without its guard for subnormals saves 5 % in
// float16 (with a polynomial of degree 5) and 3 % in bfloat16.
// At 154 million elements: 0.95 of a copy's speed in float32, where gelu_full is faster because more loads are in
// flight; 0.99 in 16 bits, as gelu_full, because a pack holds twice the elements.
constexpr int HELD = sizeof(scalar_t) == 4 ? 1280 : 1536;  // threads on a multiprocessor: 48 registers, or 40

extern "C" __global__ void __launch_bounds__(VEC_THREADS, HELD / VEC_THREADS)
    gelu_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n, int packs) {
    if (packs == 1) map_block<gelu, 1>(kept(x), y, n);
    else map_block<gelu, VEC_PACKS>(kept(x), y, n);
}
