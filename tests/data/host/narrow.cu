// scalar_t is __half or __nv_bfloat16, given on the command line. Three operands come from all bit patterns.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

#define ELEMENT                                                      \
    const int i = blockIdx.x * blockDim.x + threadIdx.x;             \
    if (i >= n) return

__global__ void widen(float* y, const scalar_t* x, int n) { ELEMENT; y[i] = float(x[i]); }
__global__ void narrow(scalar_t* y, const float* x, int n) { ELEMENT; y[i] = scalar_t(x[i]); }
__global__ void from_double(scalar_t* y, const double* x, int n) { ELEMENT; y[i] = scalar_t(x[i]); }

__global__ void arithmetic(scalar_t* y, const scalar_t* a, const scalar_t* b, int n) {
    ELEMENT;
    y[0 * n + i] = a[i] + b[i];
    y[1 * n + i] = __hsub(a[i], b[i]);
    y[2 * n + i] = a[i] * b[i];
    y[3 * n + i] = a[i] / b[i];
    y[4 * n + i] = -a[i];
    scalar_t sum = a[i];
    sum += b[i];
    y[5 * n + i] = sum;
    y[6 * n + i] = __hmax(a[i], b[i]);
}
__global__ void compare(int* y, const scalar_t* a, const scalar_t* b, int n) {
    ELEMENT;
    y[i] = (a[i] < b[i]) | (a[i] <= b[i]) << 1 | (a[i] == b[i]) << 2 | (a[i] != b[i]) << 3 | __hgt(a[i], b[i]) << 4;
}
__global__ void multiply_add(scalar_t* y, const scalar_t* a, const scalar_t* b, const scalar_t* c, int n) {
    ELEMENT;
    y[i] = __hfma(a[i], b[i], c[i]);
}
__global__ void by_value(float* y, scalar_t x) { y[0] = x; }

// Two at a time, through the names that only one of the types has.
__global__ void half_pairs(__half2* y, const __half2* x, int n) {
    ELEMENT;
    float2 f = __half22float2(x[i]);
    y[i] = __hfma2(__floats2half2_rn(f.y, f.x), __halves2half2(__float2half(2.0f), __float2half_rn(0.5f)), x[i]);
}
__global__ void bfloat16_pairs(__nv_bfloat162* y, const __nv_bfloat162* x, int n) {
    ELEMENT;
    float2 f = __bfloat1622float2(x[i]);
    y[i] = __float22bfloat162_rn(make_float2(f.y + __low2float(x[i]), f.x * __high2float(x[i])));
}
