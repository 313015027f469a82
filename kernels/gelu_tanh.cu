// GELU, tanh form: y = x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3), over any number of elements.
//
// 1 + tanh cancels in the negative tail. The same number without cancellation: (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)),
// and with a = |x| and q = exp(-2 u(a)) <= 1 it is y = max(x, 0) - a * q / (1 + q), for either sign of x. One exp2 and
// one division an element. Each thread reads 16 bytes and writes 16, a block of 128 threads after the other: nothing is
// shared, so the time is that of a copy as long as the arithmetic hides behind it (bench/NOTES.md counts it).
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// exp(-2 u(a)) = exp2(-a * (K1 + K3 a^2)): K1 = 2 sqrt(2/pi) log2(e), K3 = 0.044715 K1.
#define K1 2.30220795f
#define K1_LOW 2.5136697e-7f
#define K3 0.102943242f
#define K3_LOW -2.01619832e-9f
#define UNSCALE 1.26217745e-29f  // 2^-96

// 16 bits: y = x * |[x > 0] - q / (1 + q)|, NaN for NaN and for -inf, as the reference; -0 stays -0. In both forms the
// compiler sees that exp2 has no subnormal result, and leaves out the three instructions that would see to it: here of
// an absolute value, which gives 1 / q. The last argument only chooses the form.
__device__ __forceinline__ float gelu_tanh(float x, const __half*) {
    const float tail = __fdividef(1.0f, 1.0f + exp2f(fabsf(x * fmaf(x * x, K3, K1))));
    return x * fabsf((x > 0.0f ? 1.0f : 0.0f) - tail);
}

// bfloat16 reaches down to 2^-133, where 1 / q would overflow: here exp2 of 100 times what is held to [0, 1] gives the
// square root of q, which underflows only when it is squared.
__device__ __forceinline__ float gelu_tanh(float x, const __nv_bfloat16*) {
    const float root = exp2f(-100.0f * __saturatef(fabsf(x) * fmaf(x * x, K3 / 200, K1 / 200)));
    const float q = root * root;
    return x * fabsf(fmaf(-q, __fdividef(1.0f, 1.0f + q), x > 0.0f ? 1.0f : 0.0f));
}

// max(x, 0), but NaN for NaN and for -inf, where the product inf * 0 of the reference is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }

// float32: -2u/ln 2 reaches -160 before y vanishes, where its rounding alone would be 60 ULP of y. So what rounding
// loses is kept in a second number, and the whole part of the exponent is taken off before the two are added.
__device__ __forceinline__ float gelu_tanh(float x, const float*) {
    const float a = fminf(fabsf(x), 12.0f);  // beyond it every result is x or 0; the bound keeps inf * 0 out
    const float s = a * a, s_low = fmaf(a, a, -s);
    const float p = fmaf(s, K3, K1);  // K1 has few bits, so that K1 - p is exact
    const float low = fmaf(s_low, K3, fmaf(s, K3_LOW, fmaf(s, K3, K1 - p) + K1_LOW));
    // -a * p = k + f, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits; here it is
    // k + 96.
    const float shifted = fmaf(a, -p, 12583008.0f), whole = shifted - 12583008.0f;
    const float f = fmaf(a, -low, fmaf(a, -p, -whole));
    float e = 0.000153458124f;  // exp2(f), bench/fit_gelu.py
    e = fmaf(e, f, 0.00133999309f);
    e = fmaf(e, f, 0.00961848907f);
    e = fmaf(e, f, 0.0555032864f);
    e = fmaf(e, f, 0.240226462f);
    e = fmaf(e, f, 0.693147182f);
    e = fmaf(e, f, 1.0f);
    // e * 2^(k + 96): an addition to the exponent. 2^-96 comes last: k reaches -206, and y may be subnormal.
    e = __uint_as_float(__float_as_uint(e) + (__float_as_uint(shifted) << 23));
    return fmaf(-(a * __fdividef(e, fmaf(e, UNSCALE, 1.0f))), UNSCALE, positive_part(x));
}

// For expressions that know the element alone.
__device__ __forceinline__ float gelu_tanh(float x) { return gelu_tanh(x, (const scalar_t*)nullptr); }

// One element a thread. The index is 64 bits wide: 2^31 elements are 8 GB of float32, which cards hold. On an H200, at
// 154 million elements, 0.58 of a copy's speed in float32 and a third in 16 bits.
extern "C" __global__ void gelu_tanh_scalar(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scalar_t(gelu_tanh(float(x[i])));
}

// 16 bytes: the widest load and store there is, so a quarter (or an eighth) of the memory instructions.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

// N packs, `stride` packs apart; all loads are under way before the first is needed.
template <int N>
__device__ __forceinline__ void gelu_tanh_packs(const Pack* __restrict__ x, Pack* __restrict__ y, long long stride) {
    Pack packs[N];
#pragma unroll
    for (int p = 0; p < N; ++p) packs[p] = x[p * stride];
#pragma unroll
    for (int p = 0; p < N; ++p) {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) packs[p].v[k] = scalar_t(gelu_tanh(float(packs[p].v[k])));
        y[p * stride] = packs[p];
    }
}

// The part of a block with N packs a thread: its threads take neighbouring packs, then the next as many.
template <int N> __device__ __forceinline__ void gelu_tanh_block(const scalar_t* x, scalar_t* y, long long n) {
    const long long pack = (long long)blockIdx.x * N * blockDim.x + threadIdx.x, stride = blockDim.x;
    const Pack* from = reinterpret_cast<const Pack*>(x);
    Pack* to = reinterpret_cast<Pack*>(y);
    // A slice such as x[1:] may start off a 16-byte boundary, where a wide access faults.
    const bool aligned = ((size_t)x % sizeof(Pack) | (size_t)y % sizeof(Pack)) == 0;
    if (aligned && (pack + (N - 1) * stride) * Pack::width + Pack::width <= n) {
        gelu_tanh_packs<N>(from + pack, to + pack, stride);
        return;
    }
#pragma unroll 1  // the end of the array: small rather than fast
    for (int p = 0; p < N; ++p) {
        const long long at = pack + p * stride, first = at * Pack::width;
        if (N > 1 && aligned && first + Pack::width <= n) {
            gelu_tanh_packs<1>(from + at, to + at, stride);
        } else {
#pragma unroll 1
            for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = scalar_t(gelu_tanh(float(x[i])));
        }
    }
}

// x, with the advice to L2 to keep what is read through it rather than other lines: the builtin under libcu++'s
// cuda::associate_access_property, with the policy that createpolicy of PTX makes of evict_last. Hardly a line is read
// again, but reads and writes seem to disturb each other less: gelu.cu takes 1.5 % less time by it, at 154
// million elements in float32.
__device__ __forceinline__ const scalar_t* kept(const scalar_t* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    return static_cast<const scalar_t*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}

// Two packs a thread, since index, bounds and alignment cost a thread as much as an element does; one where there would
// be too few threads. The bounds leave 40 registers for both. On an H200 at 154 million elements it has all of a copy's
// speed in float32, with one pack 0.98; in 16 bits 0.995, and with one pack all of it. At 4.8 million elements, which
// fit into L2, two take 5 to 7 % less time where runs follow one another, but in bfloat16 2 %. exp2 without its guard
// saves 4 to 5 % there in 16 bits.
extern "C" __global__ void __launch_bounds__(VEC_THREADS, 1536 / VEC_THREADS)
    gelu_tanh_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long n, int packs) {
    if (packs == 1) gelu_tanh_block<1>(kept(x), y, n);
    else gelu_tanh_block<VEC_PACKS>(kept(x), y, n);
}
