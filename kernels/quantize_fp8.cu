// Each row in fp8 (e4m3) with a scale of its own: scale[r] = max |x[r]| / 448, q[r][c] = x[r][c] / scale[r], over a
// row-major matrix. 448 is the largest number of e4m3.
//
// The least traffic is one read of the matrix and one write of a byte an element. The maximum must be known before the
// first result. The entries read a row twice, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include "common/quantized_row.cuh"

struct E4m3 {
    static constexpr float largest = 448.0f;
    using Code = __nv_fp8_storage_t;
    __device__ __forceinline__ static Code rounded(float x) { return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3); }
};

// The formula as written: one block a row.
extern "C" __global__ void quantize_fp8_plain(const scalar_t* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
                                              float* __restrict__ scale, long long cols) {
    quantize_plain<E4m3>(x, &q->__x, scale, cols);
}

// The row stays in registers. It has blockDim.x threads, a power of two: part of a warp, a warp, or the whole block
// (then blockDim.y is 1; else blockDim.y rows share the block), each with up to 32 elements.
extern "C" __global__ void __launch_bounds__(1024)
    quantize_fp8_vec(const scalar_t* __restrict__ x, __nv_fp8_e4m3* __restrict__ q, float* __restrict__ scale,
                     long long rows, int cols) {
    quantize_row<E4m3, Block>(x, &q->__x, scale, rows, cols);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. Not measured, so no
// call takes it yet.
extern "C" __global__ void __launch_bounds__(1024)
    quantize_fp8_cluster(const scalar_t* __restrict__ x, __nv_fp8_e4m3* __restrict__ q,
                         float* __restrict__ scale, long long rows, int cols) {
    quantize_row<E4m3, Cluster>(x, &q->__x, scale, rows, cols);
}
