// fp8_t is __nv_fp8_e4m3 or __nv_fp8_e5m2; PAIR and FOUR hold two and four of them; KIND tells the functions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__global__ void widen(float* y, double* d, __half* h, __nv_bfloat16* b, int* i, bool* t, const fp8_t* x) {
    const int k = threadIdx.x;
    y[k] = float(x[k]), d[k] = double(x[k]), h[k] = __half(x[k]), b[k] = __nv_bfloat16(x[k]), i[k] = int(x[k]);
    t[k] = bool(x[k]);
}
__global__ void narrow(fp8_t* y, const float* x, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = fp8_t(x[i]);
}
__global__ void from_double(unsigned char* saturated, unsigned char* not_saturated, const double* x, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    saturated[i] = __nv_cvt_double_to_fp8(x[i], __NV_SATFINITE, KIND);
    not_saturated[i] = __nv_cvt_double_to_fp8(x[i], __NV_NOSAT, KIND);
}
__global__ void from_16_bits(fp8_t* y, fp8_t* z, unsigned char* raw, const __half* h, const __nv_bfloat16* b) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = fp8_t(h[i]), z[i] = fp8_t(b[i]);
    raw[i] = __nv_cvt_halfraw_to_fp8(__half_raw(h[i]), __NV_NOSAT, KIND);
}
__global__ void several(PAIR* p, FOUR* q, float2* f2, float4* f4, const float4* x) {
    const int i = threadIdx.x;
    p[i] = PAIR(make_float2(x[i].x, x[i].y)), q[i] = FOUR(x[i]);
    f2[i] = float2(p[i]), f4[i] = float4(q[i]);
    const __half2 h = __half2(__nv_cvt_fp8x2_to_halfraw2(p[i].__x, KIND));
    if (float(h.x) != f2[i].x || float(h.y) != f2[i].y) __trap();
    if (__nv_cvt_float2_to_fp8x2(f2[i], __NV_SATFINITE, KIND) != p[i].__x) __trap();
}
