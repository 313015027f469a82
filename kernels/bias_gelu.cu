// Bias and GELU (erf form) in one pass: y[r][c] = z * Phi(z), z = x[r][c] + bias[c], over a row-major matrix.
//
// Two kernels would read and write the matrix twice. Fused, each element is read once and written once, and the bias
// stays in cache. z is float32 and is never rounded to 16 bits; where the sum leaves the range of float32 it is
// infinite. GELU is that of gelu.cu, without erff (common/phi.cuh).
// Threads lie in x along a row and in y down the rows; the fast entry gives a thread one pack of columns in several
// rows. scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/pack.cuh"
#include "common/phi.cuh"
#include "common/positive_part.cuh"

// 16 bits. The last argument only chooses the form.
template <class T> __device__ __forceinline__ float bias_gelu(float x, float bias, const T* form) {
    const float z = x + bias;
    return times_phi(z, phi_exponent(fabsf(z), form));
}

// What z = x + bias loses by rounding (Knuth's two-sum).
__device__ __forceinline__ float lost(float x, float bias, float z) {
    const float b = z - x;
    return (x - (z - b)) + (bias - b);
}

// float32: as in gelu.cu, plus a correction for what the sum loses. In the tail a relative error of z grows to z^2
// times itself in y, so the correction is added to the square. Elsewhere it is left out: the largest error over 6 *
// 10^9 sums is 4.4 ULP, with the reciprocal up to 1 ULP off. From |z| = 16 on the correction is not needed, and may be
// NaN.
__device__ __forceinline__ float bias_gelu(float x, float bias, const float*) {
    const float z = x + bias, a = fminf(fabsf(z), 16.0f), v = fraction_of(a, PHI_C), q = phi_quotient(v), s = a * a;
    float s_low = fmaf(a, a, -s);
    if (a < 16.0f) s_low = fmaf(z + z, lost(x, bias, z), s_low);
    return fmaf(-v, times_gaussian(q, s, s_low), positive_part(z));
}

// One element a thread. A grid has at most 65,535 blocks in y, so tall matrices use z too; the last blocks may lie
// beyond the matrix.
// On an H200 at 8,192 x 4,096: 0.47 of a copy's speed in float32, 0.27 in 16 bits. A loop down the rows in place of z
// makes the compiler divide, and takes 1.4 times as long.
// Fastest entry where all threads fit on the card at once: at 128 x 768 with blocks of 64 x 6, two on each
// multiprocessor; blocks of 32 x 8, three on each, take 4 to 7 % longer.
extern "C" __global__ void bias_gelu_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ bias,
                                           scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    const size_t i = (size_t)row * cols + col;
    y[i] = scalar_t(bias_gelu(float(x[i]), float(bias[col]), x));
}

constexpr int MOST = VEC_ELEMENTS / Pack::width;  // rows of a thread, at most

// N packs of a thread, one in each of N rows: packs first, first + stride, ... of a matrix with `stride` packs in a
// row. All have the same columns of the bias. 32-bit pack numbers save 3 of 50 instructions an element in float32.
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

// `each` rows a thread, so that the bias is read once for all of them: MOST rows where the matrix is large, one where
// MOST would leave too few threads. `tall` is the number of rows, or 0 where 32 bits cannot count the packs. On an H200
// at 8,192 x 4,096, in shares of a copy's speed: float32 0.90 with two rows, 0.94 with four, 0.93 with eight; bfloat16
// 0.93 with one row, 0.97 with two, 0.96 with four, 0.93 with eight. A loop over further rows, or 64-bit indices, were
// 2 % slower in 16 bits. 9 of 47 instructions an element in float32 are the correction of the sum. Two kinds of rows go
// element by element, neighbouring threads on neighbouring columns: all rows where they start off a 16-byte boundary
// (cols is no multiple of the pack, or a slice such as x[1:]), and the last rows where fewer than `each` are left.
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
