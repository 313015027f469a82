// Bias and GELU (erf form) in one pass: y[r][c] = z * Phi(z), z = x[r][c] + bias[c], over a row-major matrix.
//
// Two kernels would read and write the matrix twice; fused, each element is read once and written once, and the bias
// stays in cache. GELU is without erff, as in gelu.cu: Phi(-a), a = |z|, is fitted in relative error and keeps its
// digits in the tail (bench/fit_gelu.py), and z * Phi(z) = max(z, 0) - a * Phi(-a). The sum is taken in float32 and
// never rounded to 16 bits; beyond the range of float32 it is infinite.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define HALF_LOG2_E 0.721347511f  // exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E)

// 16 bits: as in gelu.cu. The last argument only chooses the form.
__device__ __forceinline__ float times_phi(float x, float tail) {
    return x * fabsf((x > 0.0f ? 1.0f : 0.0f) - tail);
}

__device__ __forceinline__ float bias_gelu(float x, float bias, const __nv_bfloat16*) {
    const float z = x + bias, a = fabsf(z);
    float p = -3.26537815e-07f;
    p = fmaf(p, a, 1.81005544e-05f);
    p = fmaf(p, a, -0.00042281911f);
    p = fmaf(p, a, 0.00548780616f);
    p = fmaf(p, a, -0.0445191748f);
    p = fmaf(p, a, -0.472778559f);
    p = fmaf(p, a, -1.14301622f);
    return times_phi(z, exp2f(fmaf(p, a, -1.00073826f)));
}

__device__ __forceinline__ float bias_gelu(float x, float bias, const __half*) {
    const float z = x + bias, a = fabsf(z);
    float p = -1.03336879e-06f;
    p = fmaf(p, a, 4.94729065e-05f);
    p = fmaf(p, a, -0.00085913029f);
    p = fmaf(p, a, 0.00830167159f);
    p = fmaf(p, a, -0.0536576733f);
    p = fmaf(p, a, -0.458674043f);
    p = fmaf(p, a, -1.15119588f);
    return times_phi(z, exp2f(fmaf(p, a, -0.999997497f)));
}

// max(x, 0), but NaN for NaN and for -inf, where the product 0 * inf of the reference is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }

// What z^2 = (x + bias)^2 loses because z is rounded (Knuth's two-sum says by how much), added to `low`; nothing where
// the Gaussian of z is 0 anyway, or z is not finite.
__device__ __forceinline__ float restored(float low, float x, float bias, float z) {
    const float b = z - x, lost = (x - (z - b)) + (bias - b);
    return fabsf(z) < 16.0f ? fmaf(z + z, lost, low) : low;
}

// float32: as in gelu.cu. In the tail a relative error of z becomes one of z^2 times as much in y, so what the sum has
// lost goes into the square.
__device__ __forceinline__ float bias_gelu(float x, float bias, const float*) {
    const float z = x + bias, a = fminf(fabsf(z), 16.0f), r = __fdividef(1.0f, a + 2.25f);
    float v = a * r;
    v = fmaf(r, fmaf(-v, 2.25f, fmaf(-v, a, a)), v);
    float q = -0.0929561481f;
    q = fmaf(q, v, 0.355873495f);
    q = fmaf(q, v, -0.498314828f);
    q = fmaf(q, v, 0.359529138f);
    q = fmaf(q, v, -0.233235255f);
    q = fmaf(q, v, 0.0494752228f);
    q = fmaf(q, v, 0.0928239152f);
    q = fmaf(q, v, 0.20209156f);
    q = fmaf(q, v, -0.0667027906f);
    q = fmaf(q, v, -0.894643784f);
    q = fmaf(q, v, 1.125f);
    // -z^2 * log2(e)/2 = k + f, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits;
    // here it is k + 64.
    const float s = a * a, s_low = restored(fmaf(a, a, -s), x, bias, z);
    const float shifted = fmaf(s, -HALF_LOG2_E, 12582976.0f), whole = shifted - 12582976.0f;
    const float f = fmaf(s_low, -HALF_LOG2_E, fmaf(s, -9.62981494e-9f, fmaf(s, -HALF_LOG2_E, -whole)));
    float e = 0.000153458124f;
    e = fmaf(e, f, 0.00133999309f);
    e = fmaf(e, f, 0.00961848907f);
    e = fmaf(e, f, 0.0555032864f);
    e = fmaf(e, f, 0.240226462f);
    e = fmaf(e, f, 0.693147182f);
    e = fmaf(e, f, 1.0f);
    // e * 2^(k + 64): an addition to the exponent. 2^-64 comes last: k reaches -185, and y may be subnormal.
    e = __uint_as_float(__float_as_uint(e) + (__float_as_uint(shifted) << 23));
    return fmaf(-e * (v * q), 5.42101086e-20f, positive_part(z));
}

// One element a thread, in a grid of blocks of 32 x 8. A grid has at most 65,535 blocks in y, so threads step down the
// rows.
extern "C" __global__ void bias_gelu_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ bias,
                                           scalar_t* __restrict__ y, long long rows, long long cols) {
    const long long col = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    const float b = float(bias[col]);
    const long long step = (long long)gridDim.y * blockDim.y;
    for (long long row = (long long)blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += step)
        y[row * cols + col] = scalar_t(bias_gelu(float(x[row * cols + col]), b, x));
}

// 16 bytes a thread and row, ROWS rows: the bias is read once for all of them, and their loads are under way together.
// A warp covers 512 neighbouring bytes of a row. Where rows do not begin at 16-byte boundaries (cols is not a multiple
// of the pack, or a slice such as x[1:]) the same threads take the same columns one by one, a warp side by side.
#define ROWS 4

struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

extern "C" __global__ void bias_gelu_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ bias,
                                         scalar_t* __restrict__ y, long long rows, long long cols) {
    const bool aligned = (((size_t)x | (size_t)bias | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0;
    const long long left = (long long)blockIdx.x * blockDim.x * Pack::width, step = (long long)gridDim.y * blockDim.y;
    const long long first = left + (aligned ? threadIdx.x * Pack::width : threadIdx.x);
    if (first >= cols) return;
    for (long long top = (long long)blockIdx.y * blockDim.y + threadIdx.y; top < rows; top += step * ROWS) {
        if (aligned) {
            const Pack b = *reinterpret_cast<const Pack*>(bias + first);
            Pack pack[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (const long long row = top + r * step; row < rows)
                    pack[r] = *reinterpret_cast<const Pack*>(x + row * cols + first);
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                if (top + r * step >= rows) break;
#pragma unroll
                for (int k = 0; k < Pack::width; ++k)
                    pack[r].v[k] = scalar_t(bias_gelu(float(pack[r].v[k]), float(b.v[k]), x));
                *reinterpret_cast<Pack*>(y + (top + r * step) * cols + first) = pack[r];
            }
        } else {
            for (long long row = top; row < rows && row < top + ROWS * step; row += step)
                for (long long col = first; col < cols && col < left + blockDim.x * Pack::width; col += blockDim.x)
                    y[row * cols + col] = scalar_t(bias_gelu(float(x[row * cols + col]), float(bias[col]), x));
        }
    }
}
