// GELU, exact (erf) form: y = x * Phi(x) over any number of elements, without erff.
//
// erff costs so many instructions that in 16 bit they, not memory, are the limit (bench/NOTES.md), and x/2 * (1 + erf)
// cancels in the negative tail. Here Phi(-a), a = |x|, is fitted in relative error (bench/fit_gelu.py makes the
// coefficients and prints the error bounds), so the tail keeps its digits, and Phi(a) = 1 - Phi(-a).
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// float32: exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E). The fraction of that exponent is counted in 1/UNIT: UNIT is such
// that HALF_LOG2_E * UNIT is a float but for 5e-13 of it, and has so few bits that its product with a whole number is
// exact.
#define HALF_LOG2_E 0.721347511f
#define UNIT 1.93115234f
#define HALF_LOG2_E_UNIT 1.39303195f
#define ROUNDER 12582912.0f   // 1.5 * 2^23
#define DOWN 5.42101086e-20f  // 2^-64

// x * Phi(x) from w: Phi(-|x|) = exp2(-100 w)^2. NaN for NaN and for -inf, as the reference; x for +inf; -0 stays -0.
// Of 100 times what is held to [0, 1] the compiler knows that exp2 will not be subnormal, and leaves out the three
// instructions that would see to it. Where w is 1 the square vanishes, as Phi does there.
__device__ __forceinline__ float times_phi(float x, float w) {
    const float root = exp2f(-100.0f * __saturatef(w));
    return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));
}

// 16 bits: w = -log2(Phi(-a)) / 200, a polynomial in a that rises without bound. The last argument only chooses the
// form.
__device__ __forceinline__ float gelu(float x, const __nv_bfloat16*) {
    const float a = fabsf(x);
    float w = 1.6326891e-09f;
    w = fmaf(w, a, -9.05027733e-08f);
    w = fmaf(w, a, 2.11409565e-06f);
    w = fmaf(w, a, -2.74390295e-05f);
    w = fmaf(w, a, 0.000222595874f);
    w = fmaf(w, a, 0.00236389274f);
    w = fmaf(w, a, 0.005715081f);
    return times_phi(x, fmaf(w, a, 0.00500369165f));
}

__device__ __forceinline__ float gelu(float x, const __half*) {
    const float a = fabsf(x);
    float w = 1.65309007e-06f;
    w = fmaf(w, a, -2.96244343e-05f);
    w = fmaf(w, a, 0.000242837617f);
    w = fmaf(w, a, 0.00231826375f);
    w = fmaf(w, a, 0.00574715575f);
    return times_phi(x, fmaf(w, a, 0.00500048883f));
}

// max(x, 0), but NaN for NaN and for -inf, where the product 0 * inf of the reference is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }

// float32: Phi(-a) = exp(-a^2/2) * q / (a + C), C = 2.49, q = polynomial in v = a / (a + C). The hardware's reciprocal,
// up to 1 ULP off, is made good by a step of Newton's in v, and what rounding a^2 loses by fused multiply-adds.
__device__ __forceinline__ float gelu(float x, const float*) {
    const float a = fminf(fabsf(x), 16.0f), d = a + 2.48925781f, r = __fdividef(1.0f, d);
    float v = a * r;
    v = fmaf(r, fmaf(-v, d, a), v);
    float q = DOWN * -0.0803089514f;
    q = fmaf(q, v, DOWN * 0.285141498f);
    q = fmaf(q, v, DOWN * -0.325884044f);
    q = fmaf(q, v, DOWN * 0.146930367f);
    q = fmaf(q, v, DOWN * -0.151115358f);
    q = fmaf(q, v, DOWN * 0.0612850487f);
    q = fmaf(q, v, DOWN * 0.288774222f);
    q = fmaf(q, v, DOWN * 0.156872556f);
    q = fmaf(q, v, DOWN * -1.22738206f);
    q = fmaf(q, v, DOWN * 1.24462891f);
    // -a^2 * log2(e)/2 = k + f / UNIT, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low
    // bits. Everything that makes f is exact but for the last two roundings.
    const float s = a * a, s_low = fmaf(a, a, -s);
    const float shifted = fmaf(s, -HALF_LOG2_E, ROUNDER), whole = fmaf(shifted, UNIT, -ROUNDER * UNIT);
    const float f = fmaf(s_low, -HALF_LOG2_E_UNIT, fmaf(s, -HALF_LOG2_E_UNIT, -whole));
    float e = 3.0157621e-06f;  // (exp2(f / UNIT) - 1) / f, since a sum that begins with 1 would be rounded once more
    e = fmaf(e, f, 4.99486232e-05f);
    e = fmaf(e, f, 0.000691506662f);
    e = fmaf(e, f, 0.007706651f);
    e = fmaf(e, f, 0.0644151345f);
    e = fmaf(e, f, 0.358929336f);
    // q is small by 2^-64, since the power of two is 2^(k + 64): k reaches -185, and only the product may be subnormal.
    q *= __uint_as_float((__float_as_uint(shifted) << 23) + 0x5F800000u);
    return fmaf(-v, fmaf(q, e * f, q), positive_part(x));
}

__device__ __forceinline__ float gelu(float x) { return gelu(x, static_cast<const scalar_t*>(nullptr)); }

// One element a thread. The index is 64 bits wide: 2^31 elements are 8 GB of float32, which cards hold. On an H200, at
// 154 million elements, 0.58 of a copy's speed in float32 and a third in 16 bits: threads and their accesses are the
// limit. Where all threads fit at once it is the fastest form, with few blocks, and as many on each multiprocessor: at
// 150,528 elements two of 576 threads take 8 % less time than four or five of 256 where runs follow one another, and 5
// % less than gelu_vec (8 to 10 % in a graph).
extern "C" __global__ void gelu_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(gelu(float(x[i])));
}

// 16 bytes a thread: the widest load and store there is, so a quarter (or an eighth) of the memory instructions.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

// N packs, `stride` packs apart; all loads are under way before the first is needed.
template <int N>
__device__ __forceinline__ void gelu_packs(const Pack* __restrict__ x, Pack* __restrict__ y, long long stride) {
    Pack packs[N];
#pragma unroll
    for (int p = 0; p < N; ++p) packs[p] = x[p * stride];
#pragma unroll
    for (int p = 0; p < N; ++p) {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) packs[p].v[k] = scalar_t(gelu(float(packs[p].v[k])));
        y[p * stride] = packs[p];
    }
}

// The part of a block with N packs a thread: its threads take neighbouring packs, then the next as many.
template <int N> __device__ __forceinline__ void gelu_block(const scalar_t* x, scalar_t* y, long long n) {
    const long long pack = (long long)blockIdx.x * N * blockDim.x + threadIdx.x, stride = blockDim.x;
    const Pack* from = reinterpret_cast<const Pack*>(x);
    Pack* to = reinterpret_cast<Pack*>(y);
    // A slice such as x[1:] may start off a 16-byte boundary, where a wide access faults.
    const bool aligned = ((size_t)x % sizeof(Pack) | (size_t)y % sizeof(Pack)) == 0;
    if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {
        gelu_packs<N>(from + pack, to + pack, stride);
        return;
    }
#pragma unroll 1  // the end of the array: small rather than fast
    for (int p = 0; p < N; ++p) {
        const long long at = pack + p * stride, first = at * Pack::width;
        if (N > 1 && aligned && first + Pack::width <= n) {
            gelu_packs<1>(from + at, to + at, stride);
        } else {
#pragma unroll 1
            for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = scalar_t(gelu(float(x[i])));
        }
    }
}

// x, with the advice to L2 to keep what is read through it rather than other lines: the builtin under libcu++'s
// cuda::associate_access_property, with the policy that createpolicy of PTX makes of evict_last. Hardly a line is read
// again, but reads and writes seem to disturb each other less: at 154 million elements in float32 it saves 1.5 %
// of the time, as it does of a copy's, which has it too; where all fits into L2 nothing changes.
__device__ __forceinline__ const scalar_t* kept(const scalar_t* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    return static_cast<const scalar_t*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}

// Two packs a thread, since index, bounds and alignment cost a thread as much as an element does, and with two loads
// under way a multiprocessor waits less; with 32 registers, so that all threads fit. On an H200 at 154 million elements
// 0.99 of a copy's speed, with one pack 0.94 in float32; in 16 bits, with erff in place of the forms above, 0.73.
extern "C" __global__ void __launch_bounds__(VEC_THREADS, 2048 / VEC_THREADS)
    gelu_full(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    gelu_block<VEC_PACKS>(kept(x), y, n);
}

// The same with registers for both packs at once, and one pack where there would be too few threads. At 4.8 million
// elements, all of which fit into L2, it takes 3 % less time cold than gelu_full in float32, and 3 % more where runs
// follow one another; one pack takes 1 % more cold, and 4 to 6 % more otherwise. exp2 without its guard saves 5 % there
// in float16 (with a degree of 5) and 3 % in bfloat16. Beyond L2, where it counts how much is under way, float32 is for
// gelu_full (0.95 of a copy's speed here); in 16 bits, where a pack brings twice the elements, both have 0.99.
constexpr int HELD = sizeof(scalar_t) == 4 ? 1280 : 1536;  // threads on a multiprocessor: 48 registers, or 40

extern "C" __global__ void __launch_bounds__(VEC_THREADS, HELD / VEC_THREADS)
    gelu_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n, int packs) {
    if (packs == 1) gelu_block<1>(kept(x), y, n);
    else gelu_block<VEC_PACKS>(kept(x), y, n);
}
