// Functions that round as their name says: four of each, in the order rn, rd, ru, rz.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define FOUR(y, at, name, ...)                                                                                  \
    y[at] = name##_rn(__VA_ARGS__), y[at + 1] = name##_rd(__VA_ARGS__), y[at + 2] = name##_ru(__VA_ARGS__), \
    y[at + 3] = name##_rz(__VA_ARGS__)

#define ARITHMETIC(name, T, prefix, fused)                                     \
    __global__ void name(const T* a, const T* b, const T* c, T* y, int n) {    \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                   \
        if (i >= n) return;                                                    \
        y += 28 * i;                                                           \
        FOUR(y, 0, prefix##add, a[i], b[i]);                                   \
        FOUR(y, 4, prefix##sub, a[i], b[i]);                                   \
        FOUR(y, 8, prefix##mul, a[i], b[i]);                                   \
        FOUR(y, 12, prefix##div, a[i], b[i]);                                  \
        FOUR(y, 16, prefix##rcp, b[i]);                                        \
        FOUR(y, 20, prefix##sqrt, fabs(b[i]));                                 \
        FOUR(y, 24, fused, a[i], b[i], c[i]);                                  \
    }
ARITHMETIC(singles, float, __f, __fmaf)
ARITHMETIC(doubles, double, __d, __fma)

__global__ void narrowed(const double* d, const long long* l, float* y, double* z, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    FOUR((y + 16 * i), 0, __double2float, d[i]);
    FOUR((y + 16 * i), 4, __ll2float, l[i]);
    FOUR((y + 16 * i), 8, __int2float, int(l[i]));
    FOUR((y + 16 * i), 12, __ull2float, (unsigned long long)l[i]);
    FOUR((z + 4 * i), 0, __ll2double, l[i]);
}

#define HALF(name, T, half)                                                               \
    __global__ void name(const float* x, const long long* l, T* y, int* z, int n) {       \
        const int i = blockIdx.x * blockDim.x + threadIdx.x;                              \
        if (i >= n) return;                                                               \
        FOUR((y + 8 * i), 0, __float2##half, x[i]);                                       \
        FOUR((y + 8 * i), 4, __ll2##half, l[i]);                                          \
        FOUR((z + 8 * i), 0, __##half##2int, T(x[i]));                                    \
        FOUR((z + 8 * i), 4, __##half##2short, T(x[i]));                                  \
    }
HALF(halves, __half, half)
HALF(bfloats, __nv_bfloat16, bfloat16)

__global__ void compared(const __half2* a, const __half2* b, unsigned* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y += 8 * i;
    y[0] = __heq2_mask(a[i], b[i]), y[1] = __hltu2_mask(a[i], b[i]), y[2] = __hgt2_mask(a[i], b[i]);
    y[3] = __hneu2_mask(a[i], b[i]), y[4] = __hbgeu2(a[i], b[i]), y[5] = __hequ(a[i].x, b[i].x);
    y[6] = __hleu(a[i].y, b[i].y), y[7] = __half_as_ushort(__hequ2(a[i], b[i]).y);
}

__global__ void special(const double* x, double* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double p[3] = {x[i], 2 * x[i], -2 * x[i]};
    y += 8 * i;
    y[0] = sinpi(x[i]), y[1] = cospi(x[i]), y[2] = erfcx(x[i]), y[3] = cyl_bessel_i0(x[i]), y[4] = cyl_bessel_i1(x[i]);
    y[5] = norm3d(p[0], p[1], p[2]), y[6] = rnorm(3, p), y[7] = norm4df(p[0], p[1], p[2], 4 * p[0]);
}
