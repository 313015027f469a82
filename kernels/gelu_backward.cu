// The gradient of GELU (erf form): dx = dy * g(x), g(x) = Phi(x) + x * phi(x), over any number of elements.
//
// erff and an exponential cost too many instructions in 16 bit, and Phi(x) + x * phi(x) cancels: on the left it falls
// like a Gaussian and changes its sign at -A0 = -0.75. Here, with a = |x|, g(-a) = exp(-a^2/2) * (A0 - a) * R(a): the
// sign change is a factor of its own, and R, which stays between 0.39 and 0.67, is fitted in relative error: in float32
// by a polynomial in v = a / (a + C), in 16 bit together with the Gaussian by exp2 of a polynomial
// (bench/fit_gelu.py). So both the tail and the zero keep their digits. On the right g(a) = 1 - g(-a). Two reads and
// one write for each element, 16 bytes of each a thread: the arithmetic has half as much time again as that of gelu to
// hide in. Beyond a = 20 (float16: 7.7) the Gaussian makes even the largest dy vanish.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// float32: exp(-a^2/2) = exp2(-a^2 * HALF_LOG2_E). The fraction of that exponent is counted in 1/UNIT, as in gelu.cu.
#define HALF_LOG2_E 0.721347511f
#define UNIT 1.93115234f
#define HALF_LOG2_E_UNIT 1.39303195f
#define ROUNDER 12582912.0f  // 1.5 * 2^23

// A0 = A0_HIGH + A0_LOW, and A0_HIGH - a is exact where the two are close. In 16 bits A0_LOW is left out: no bfloat16
// is so close to A0 that it would be seen, and of float16 only the nearest, for which it is 0.15 ULP (0.74 in all).
#define A0_HIGH 0.751791537f
#define A0_LOW -1.21144499e-8f

// A factor of g(-a). Where float64 knows g(-a) as 0, inf * g is NaN in the reference, and so it is here; a smaller a
// gives an infinity. And 0 * (A0 - a) makes NaN of an infinite a, as the reference does.
__device__ __forceinline__ float unless_far(float r, float a) { return a > 38.6f ? 0.0f : r; }

// 16 bits: w = -log2(exp(-a^2/2) * R(a)), by a polynomial in a that rises without bound, over 3 * 100 and 2 * 70. So
// exp2 gives a root, since the Gaussian itself underflows where a large dy would bring the product back. Of 100 times
// what is held to [0, 1] the compiler knows that exp2 will not be subnormal, and leaves out the three instructions that
// would see to it. The last argument only chooses the form.
__device__ __forceinline__ float gelu_backward(float dy, float x, const __nv_bfloat16*) {
    const float a = fabsf(x);
    float w = 2.06911441e-12f;
    w = fmaf(w, a, -1.93597777e-10f);
    w = fmaf(w, a, 7.73422304e-09f);
    w = fmaf(w, a, -1.7266575e-07f);
    w = fmaf(w, a, 2.37245604e-06f);
    w = fmaf(w, a, -2.09174068e-05f);
    w = fmaf(w, a, 0.000120763507f);
    w = fmaf(w, a, 0.00193894433f);
    w = fmaf(w, a, 0.00124608749f);
    const float root = unless_far(exp2f(-100.0f * __saturatef(fmaf(w, a, 0.00196365849f))), a);
    const float m = root * (A0_HIGH - a);  // the product with dy takes one root at a time
    return x > 0.0f ? dy * fmaf(-(m * root), root, 1.0f) : ((dy * root) * m) * root;
}

__device__ __forceinline__ float gelu_backward(float dy, float x, const __half*) {
    const float a = fabsf(x);
    float w = 2.4919828e-08f;
    w = fmaf(w, a, -7.57250348e-07f);
    w = fmaf(w, a, 9.80974437e-06f);
    w = fmaf(w, a, -7.18711453e-05f);
    w = fmaf(w, a, 0.000337071018f);
    w = fmaf(w, a, 0.00404794049f);
    w = fmaf(w, a, 0.00272412947f);
    const float root = unless_far(exp2f(-70.0f * __saturatef(fmaf(w, a, 0.0042035263f))), a);
    // No dy is so large that g(-a) would have to be smaller than float32 has it: g(x) = [x > 0] -+ root^2 * (A0 - a).
    const float positive = x > 0.0f ? 1.0f : 0.0f, from = fmaf(positive, -2.0f * A0_HIGH, x + A0_HIGH);
    return dy * fmaf(root * from, root, positive);
}

// float32: what is lost by rounding a^2 and v is made good, and exp2 is a polynomial, since the hardware's is 2 ULP
// off.
__device__ __forceinline__ float gelu_backward(float dy, float x, const float*) {
    const float a = fminf(fabsf(x), 20.0f), d = a + 3.6953125f, t = __fdividef(1.0f, d);
    float v = a * t;
    v = fmaf(t, fmaf(-v, d, a), v);
    float r = 0.00915652327f;
    r = fmaf(r, v, -0.0245953873f);
    r = fmaf(r, v, -0.00479900325f);
    r = fmaf(r, v, 0.0654761344f);
    r = fmaf(r, v, 0.0272465497f);
    r = fmaf(r, v, -0.365244716f);
    r = fmaf(r, v, 0.679417789f);
    r = fmaf(r, v, -0.652788103f);
    r = unless_far(fmaf(r, v, 0.665077984f), fabsf(x));
    // -a^2 * log2(e)/2 = k + f / UNIT, k whole: adding 1.5 * 2^23 rounds to a whole number, which is then in the low
    // bits. Everything that makes f is exact but for the last two roundings.
    const float s = a * a, s_low = fmaf(a, a, -s);
    const float shifted = fmaf(s, -HALF_LOG2_E, ROUNDER), whole = fmaf(shifted, UNIT, -ROUNDER * UNIT);
    const float f = fmaf(s_low, -HALF_LOG2_E_UNIT, fmaf(s, -HALF_LOG2_E_UNIT, -whole));
    float e = 3.0157621e-06f;  // (exp2(f / UNIT) - 1) / f
    e = fmaf(e, f, 4.99486232e-05f);
    e = fmaf(e, f, 0.000691506662f);
    e = fmaf(e, f, 0.007706651f);
    e = fmaf(e, f, 0.0644151345f);
    e = fmaf(e, f, 0.358929336f) * f;
    // (A0 - a) * r * (1 + e), with what the sum and A0 have lost: near -1.8 each rounding would be seen.
    const float high = fmaf(r, e, r), low = fmaf(r, e, r - high), from = A0_HIGH - fabsf(x);
    const float g = fmaf(high, from, fmaf(high, A0_LOW, low * from));
    // Times 2^k in four steps, of which dy takes one in between: k reaches -289, and dy may be large or small.
    const int k = __float_as_int(shifted) - 0x4B400000, quarter = k >> 2;
    const float step = __int_as_float((quarter + 127) << 23), rest = __int_as_float((k - 3 * quarter + 127) << 23);
    const float m = g * rest, two = step * step;
    return x > 0.0f ? dy * fmaf(-(m * step), two, 1.0f) : ((dy * step) * m) * two;
}

// For expressions that know the elements alone.
__device__ __forceinline__ float gelu_backward(float dy, float x) {
    return gelu_backward(dy, x, (const scalar_t*)nullptr);
}

// One element a thread. On an H200, at 154 million elements, three quarters of a copy's speed in float32 and less than
// half in 16 bits.
extern "C" __global__ void gelu_backward_scalar(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                                scalar_t* __restrict__ dx, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = scalar_t(gelu_backward(float(dy[i]), float(x[i])));
}

// 16 bytes of each array a thread. The compiler takes 30 to 32 registers, so that all 64 warps fit; with bounds that
// gave it more it had both loads under way before the first is used, and was 4 % slower for the warps that this cost.
// In 16 bits exp2 without its guard, with what came with it, saves 12 % (float16) and 4 % (bfloat16) at 4.8 million
// elements, where all is in L2, and 2 % in bfloat16 at 154 million.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

extern "C" __global__ void gelu_backward_vec(const scalar_t* __restrict__ dy, const scalar_t* __restrict__ x,
                                             scalar_t* __restrict__ dx, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    const bool aligned = (((size_t)dy | (size_t)x | (size_t)dx) % sizeof(Pack)) == 0;
    if (aligned && first + Pack::width <= n) {
        const Pack from = *reinterpret_cast<const Pack*>(dy + first);
        Pack pack = *reinterpret_cast<const Pack*>(x + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k)
            pack.v[k] = scalar_t(gelu_backward(float(from.v[k]), float(pack.v[k])));
        *reinterpret_cast<Pack*>(dx + first) = pack;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i)
            dx[i] = scalar_t(gelu_backward(float(dy[i]), float(x[i])));
    }
}
