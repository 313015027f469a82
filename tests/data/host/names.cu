// Each function of both 16-bit types once: templates and friends are only compiled where they are used.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <math_constants.h>

#define UNARY 20
template <class T> __device__ void unary(T* y, T x, int n) {
    const T results[UNARY] = {
        hexp(x), hexp2(x), hlog(x), hlog2(x), hlog10(x), hsqrt(x), hrsqrt(x), hrcp(x), hsin(x), hcos(x), htanh(x),
        hfloor(x), hceil(x), htrunc(x), hrint(x), __hneg(x), __habs(x), __hadd(x, T(2)), __hmul_rn(x, x),
        __hfma_relu(x, T(1), T(-1)),
    };
    for (int i = 0; i < UNARY; ++i) y[i * n] = results[i];
}
__global__ void all_unary(scalar_t* y, const scalar_t* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) unary(y + i, x[i], n);
}

template <class T, class T2> __device__ bool pairs_work(T2 p, T2 q) {
    bool good = true;
    good &= __hadd2(p, q) == p + q && __hsub2(p, q) == p - q && __hmul2(p, q) == p * q && __h2div(p, q) == p / q;
    good &= __hmax2(p, q) == T2(__hmax(p.x, q.x), __hmax(p.y, q.y)) && __hneg2(__hneg2(p)) == p;
    good &= __low2float(p) == float(p.x) && __high2float(p) == float(p.y);
    good &= __lowhigh2highlow(p) == T2(p.y, p.x);
    good &= h2exp(p) == T2(hexp(p.x), hexp(p.y)) && __hlt2(p, q).x == T(p.x < q.x);
    p += q, p -= q, p *= q, p /= q;
    return good && p == p;
}

// What kernels commonly write; 1 for each line that holds.
__global__ void idioms(int* ok) {
    int i = 0;
    scalar_t a = 3, b(2.5f), c = scalar_t(0), d{};
    ok[i++] = pairs_work<__half>(__half2(1.5f, -2.0f), __floats2half2_rn(0.5f, 3.0f));
    ok[i++] = pairs_work<__nv_bfloat16>(__nv_bfloat162(1.5f, -2.0f), __floats2bfloat162_rn(0.5f, 3.0f));
    ok[i++] = (a > b ? a : b) == scalar_t(3) && d == c && static_cast<float>(b) == 2.5f && (int)b == 2;
    ok[i++] = fmaxf(a, 4.0f) == 4.0f && a * scalar_t(2) == scalar_t(6) && -b < c && ++c == scalar_t(1) && bool(c);
    half h = __float2half(0.1f);
    __half2 p(1.0f, 2.0f), q(3.0f, 4.0f);
    __nv_bfloat162 r(1.0f, 2.0f), s(3.0f, 4.0f);
    ok[i++] = __lows2half2(p, q) == __half2(1.0f, 3.0f) && __high2half2(p) == __half2(2.0f, 2.0f);
    ok[i++] = __highs2bfloat162(r, s) == __nv_bfloat162(2.0f, 4.0f) && __low2bfloat162(r) == __nv_bfloat162(1.0f, 1.0f);
    nv_bfloat16 g = __float2bfloat16(0.1f);
    ok[i++] = __half_as_ushort(h) == 0x2e66 && __bfloat16_as_ushort(g) == 0x3dcd && __half2int_rn(half(2.5f)) == 2;
    ok[i++] = __hisnan(__float2half(CUDART_NAN_F)) && __hisinf(half(-1e6f)) == -1 && !__hne(half(NAN), half(1));
    ok[i++] = __half_as_ushort(half(NAN)) == 0x7fff && __bfloat16_as_ushort(g * nv_bfloat16(NAN)) == 0x7fff;
    ok[i++] = max(1, 2u) == 2u && min(1.0f, 2.0) == 1.0 && max(NAN, 1.0f) == 1.0f;
    ok[i++] = __float2int_rn(2.5f) == 2 && __float2int_rz(-1e20f) == INT_MIN && __float2int_rd(NAN) == 0;
    ok[i++] = __float2uint_rn(-1.0f) == 0 && __float2uint_rz(1e20f) == UINT_MAX && __float2int_ru(0.1f) == 1;
    ok[i++] = __popc(7u) == 3 && __clz(1) == 31 && __ffs(8) == 4 && __brev(1u) == 0x80000000u && __umulhi(~0u, 2) == 1;
    ok[i++] = rsqrtf(4.0f) == 0.5f && __saturatef(NAN) == 0.0f && normcdff(0.0f) == 0.5f && __expf(0.0f) == 1.0f;
    ok[i++] = cospif(1.0f) == -1.0f && fabsf(sinpif(0.5f) - 1.0f) < 1e-6f && abs(-1.5f) == 1.5f && isinf(CUDART_INF_F);
    float f = 1.0f;
    __half2 both(1.0f, 2.0f);
    unsigned u = 7;
    ok[i++] = atomicAdd(&f, 2) == 1.0f && f == 3.0f && atomicMax(&u, 5) == 7 && atomicExch(&f, 1.0f) == 3.0f;
    ok[i++] = atomicAdd(&both, both) == __half2(1.0f, 2.0f) && both == __half2(2.0f, 4.0f) && atomicAdd(&h, h) != h;
    ok[i++] = atomicCAS(&u, 7, 9) == 7 && u == 9 && atomicInc(&u, 9) == 9 && u == 0 && atomicDec(&u, 5) == 0 && u == 5;
    ok[i++] = sizeof(float3) == 12 && alignof(float4) == 16 && alignof(__half2) == 4 && sizeof(scalar_t) == 2;
    ok[i] = -1;
}
