// Bias and GELU (erf form) in one pass: y[r][c] = z * Phi(z), z = x[r][c] + bias[c], over a row-major matrix.
//
// Two kernels would read and write the matrix twice; fused, each element is read once and written once, and the bias
// stays in cache. GELU is without erff, as in gelu.cu: Phi(-a), a = |z|, is fitted in relative error and keeps its
// digits in the tail (bench/fit_gelu.py), and z * Phi(z) = max(z, 0) - a * Phi(-a). The sum is taken in float32 and
// never rounded to 16 bits; beyond the range of float32 it is infinite.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// float32: exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E). The fraction of that exponent is counted in 1/UNIT, as in gelu.cu.
#define HALF_LOG2_E 0.721347511f
#define UNIT 1.93115234f
#define HALF_LOG2_E_UNIT 1.39303195f
#define ROUNDER 12582912.0f   // 1.5 * 2^23
#define DOWN 5.42101086e-20f  // 2^-64

// 16 bits: as in gelu.cu. The last argument only chooses the form.
__device__ __forceinline__ float times_phi(float x, float w) {
    const float root = exp2f(-100.0f * __saturatef(w));
    return x * fabsf(fmaf(-root, root, x > 0.0f ? 1.0f : 0.0f));
}

__device__ __forceinline__ float bias_gelu(float x, float bias, const __nv_bfloat16*) {
    const float z = x + bias, a = fabsf(z);
    float w = 1.6326891e-09f;
    w = fmaf(w, a, -9.05027733e-08f);
    w = fmaf(w, a, 2.11409565e-06f);
    w = fmaf(w, a, -2.74390295e-05f);
    w = fmaf(w, a, 0.000222595874f);
    w = fmaf(w, a, 0.00236389274f);
    w = fmaf(w, a, 0.005715081f);
    return times_phi(z, fmaf(w, a, 0.00500369165f));
}

__device__ __forceinline__ float bias_gelu(float x, float bias, const __half*) {
    const float z = x + bias, a = fabsf(z);
    float w = 1.65309007e-06f;
    w = fmaf(w, a, -2.96244343e-05f);
    w = fmaf(w, a, 0.000242837617f);
    w = fmaf(w, a, 0.00231826375f);
    w = fmaf(w, a, 0.00574715575f);
    return times_phi(z, fmaf(w, a, 0.00500048883f));
}

// max(x, 0), but NaN for NaN and for -inf, where the product 0 * inf of the reference is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }

// What z = x + bias has lost by rounding (Knuth's two-sum).
__device__ __forceinline__ float lost(float x, float bias, float z) {
    const float b = z - x;
    return (x - (z - b)) + (bias - b);
}

// float32: as in gelu.cu, but for what the sum has lost. In the tail a relative error of z becomes one of z^2 times as
// much in y, so it goes into the square, and nowhere else: of 6 * 10^9 sums the largest error is 4.4 ULP, with the
// reciprocal up to 1 ULP off. From 16 on it is not needed, and may be NaN.
__device__ __forceinline__ float bias_gelu(float x, float bias, const float*) {
    const float z = x + bias, a = fminf(fabsf(z), 16.0f), d = a + 2.48925781f, r = __fdividef(1.0f, d);
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
    // -z^2 * log2(e)/2 = k + f / UNIT, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low
    // bits. Everything that makes f is exact but for the last two roundings.
    const float s = a * a;
    float s_low = fmaf(a, a, -s);
    if (a < 16.0f) s_low = fmaf(z + z, lost(x, bias, z), s_low);
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
    return fmaf(-v, fmaf(q, e * f, q), positive_part(z));
}

// One element a thread. A grid has at most 65,535 blocks in y, so z has more; gridDim.z need not divide the blocks. On
// an H200, at 8,192 x 4,096, 0.47 of a copy's speed in float32, 0.27 in 16 bits. At 128 x 768, where all threads fit at
// once, it is the fastest form, with blocks of 64 x 6, two on each multiprocessor; with three of 32 x 8 it takes 4 to
// 7 % longer. With a loop down the rows, for which the compiler divides, 1.4 times as long at 8,192 x 4,096.
extern "C" __global__ void bias_gelu_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ bias,
                                           scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    const size_t i = (size_t)row * cols + col;
    y[i] = scalar_t(bias_gelu(float(x[i]), float(bias[col]), x));
}

// 16 bytes of a row: the widest load and store there is.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};
constexpr int MOST = VEC_ELEMENTS / Pack::width;  // rows that a thread has at most

// Packs first, first + stride, ... of a matrix whose rows are `stride` packs long: one in each of N rows, with the same
// columns of the bias. They are counted in 32 bits, which saves 3 of 50 instructions an element in float32.
template <int N>
__device__ __forceinline__ void packs_below(const scalar_t* __restrict__ x, const Pack& bias,
                                            scalar_t* __restrict__ y, unsigned first, unsigned stride) {
    Pack packs[N];
#pragma unroll
    for (int r = 0; r < N; ++r) packs[r] = reinterpret_cast<const Pack*>(x)[first + r * stride];
#pragma unroll
    for (int r = 0; r < N; ++r) {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k)
            packs[r].v[k] = scalar_t(bias_gelu(float(packs[r].v[k]), float(bias.v[k]), bias.v));
        reinterpret_cast<Pack*>(y)[first + r * stride] = packs[r];
    }
}

// x, with the advice to L2 to keep what is read through it rather than other lines: the builtin under libcu++'s
// cuda::associate_access_property, with the policy that createpolicy of PTX makes of evict_last. Hardly a line is read
// again, but reads and writes seem to disturb each other less: at 32,768 x 4,096 it saves 0.9 % of the time
// in float32, and 1.7 % in bfloat16.
__device__ __forceinline__ const scalar_t* kept(const scalar_t* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    return static_cast<const scalar_t*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}

// `each` rows a thread, so that the bias is read once for all of them: MOST where the matrix is large, one where there
// would be too few threads. At 8,192 x 4,096 two rows a thread are 0.90 of a copy's speed in float32, four 0.94, eight
// 0.93; in bfloat16 one is 0.93, two 0.97, four 0.96 and eight 0.93. A loop over further rows, and 64 bits for indices,
// were 2 % slower in 16 bits. Of 47 instructions an element in float32, 9 make good what the sum loses.
// A grid has at most 65,535 blocks in y, too few for tall matrices: z has more. Where rows do not begin at 16-byte
// boundaries (cols is not a multiple of the pack, or a slice such as x[1:]) the same threads take the same columns one
// by one, a warp side by side; and so they take the last rows, where `each` are not left. `tall` is the number of rows,
// or 0 if 32 bits cannot count the packs.
extern "C" __global__ void __launch_bounds__(VEC_THREADS, 2048 / VEC_THREADS)
    bias_gelu_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ bias,
                  scalar_t* __restrict__ y, long long rows, long long cols, unsigned tall, unsigned each) {
    const unsigned stride = (unsigned)((unsigned long long)cols / Pack::width);
    const unsigned pack = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned top = ((blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;
    const bool aligned = (((size_t)x | (size_t)bias | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0;
    if (aligned && top < tall && each <= tall - top) {
        if (pack >= stride) return;
        const Pack b = reinterpret_cast<const Pack*>(bias)[pack];
        if (each == 1) packs_below<1>(kept(x), b, y, top * stride + pack, stride);
        else packs_below<MOST>(kept(x), b, y, top * stride + pack, stride);
        return;
    }
    const long long above = (((long long)blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y) * each;
    const long long left = (long long)blockIdx.x * blockDim.x * Pack::width, right = left + blockDim.x * Pack::width;
    for (long long row = above; row < rows && row < above + each; ++row)
        for (long long col = left + threadIdx.x; col < cols && col < right; col += blockDim.x)
            y[row * cols + col] = scalar_t(bias_gelu(float(x[row * cols + col]), float(bias[col]), x));
}
