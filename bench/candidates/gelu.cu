// GELU, exact (erf) form: y = x * Phi(x) over any number of elements, without erff.
//
// erff costs so many instructions that in 16 bit they, not memory, are the limit (bench/NOTES.md), and x/2 * (1 + erf)
// cancels in the negative tail. Here Phi(-a), a = |x|, is fitted in relative error (bench/fit_gelu.py makes the
// coefficients and prints the error bounds), so the tail keeps its digits, and Phi(a) = 1 - Phi(-a).
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define HALF_LOG2_E 0.721347511f  // exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E)

// x * Phi(x) from Phi(-|x|). NaN for NaN and for -inf, as the reference; x for +inf; -0 stays -0.
__device__ __forceinline__ float times_phi(float x, float tail) {
    return x * fabsf((x > 0.0f ? 1.0f : 0.0f) - tail);
}

// 16 bits: Phi(-a) = exp2(polynomial in a), which falls without bound, so that Phi(-inf) is 0. The last argument only
// chooses the form.
__device__ __forceinline__ float gelu(float x, const __nv_bfloat16*) {
    const float a = fabsf(x);
    float p = -3.26537815e-07f;
    p = fmaf(p, a, 1.81005544e-05f);
    p = fmaf(p, a, -0.00042281911f);
    p = fmaf(p, a, 0.00548780616f);
    p = fmaf(p, a, -0.0445191748f);
    p = fmaf(p, a, -0.472778559f);
    p = fmaf(p, a, -1.14301622f);
    return times_phi(x, exp2f(fmaf(p, a, -1.00073826f)));
}

__device__ __forceinline__ float gelu(float x, const __half*) {
    const float a = fabsf(x);
    float p = -1.03336879e-06f;
    p = fmaf(p, a, 4.94729065e-05f);
    p = fmaf(p, a, -0.00085913029f);
    p = fmaf(p, a, 0.00830167159f);
    p = fmaf(p, a, -0.0536576733f);
    p = fmaf(p, a, -0.458674043f);
    p = fmaf(p, a, -1.15119588f);
    return times_phi(x, exp2f(fmaf(p, a, -0.999997497f)));
}

// max(x, 0), but NaN for NaN and for -inf, where the product 0 * inf of the reference is NaN too; -0 stays -0.
__device__ __forceinline__ float positive_part(float x) { return x > 0.0f ? x : x * 0.0f; }

// float32: Phi(-a) = exp2(...) * q / (a + 2.25), q = polynomial in v = a / (a + 2.25). What is lost by rounding a^2 and
// v is made good by fused multiply-adds, and exp2 is a polynomial, since the hardware's is 2 ULP off by itself.
__device__ __forceinline__ float gelu(float x, const float*) {
    const float a = fminf(fabsf(x), 16.0f), r = __fdividef(1.0f, a + 2.25f);
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
    // -a^2 * log2(e)/2 = k + f, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits;
    // here it is k + 64.
    const float s = a * a, s_low = fmaf(a, a, -s);
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
    return fmaf(-e * (v * q), 5.42101086e-20f, positive_part(x));
}

__device__ __forceinline__ float gelu(float x) { return gelu(x, static_cast<const scalar_t*>(nullptr)); }

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
