// Each row in int8 with a scale of its own: scale[r] = max |x[r]| / 127, q[r][c] = x[r][c] / scale[r], rounded to the
// nearest integer (halves to even), over a row-major matrix. NaN or infinity in a row makes its integers 0.
//
// The least traffic is one read of the matrix and one write of a byte an element. The maximum must be known before the
// first result. The entries read a row twice, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/quantized_row.cuh"

struct Int8 {
    static constexpr float largest = 127.0f;
    using Code = signed char;
    __device__ __forceinline__ static Code rounded(float x) { return Code(__float2int_rn(x)); }  // NaN becomes 0
};

// The formula as written: one block a row.
extern "C" __global__ void quantize_int8_plain(const scalar_t* __restrict__ x, signed char* __restrict__ q,
                                               float* __restrict__ scale, long long cols) {
    quantize_plain<Int8>(x, q, scale, cols);
}

// The row stays in registers. It has blockDim.x threads, a power of two: part of a warp, a warp, or the whole block
// (then blockDim.y is 1; else blockDim.y rows share the block), each with up to 32 elements.
extern "C" __global__ void __launch_bounds__(1024)
    quantize_int8_vec(const scalar_t* __restrict__ x, signed char* __restrict__ q, float* __restrict__ scale,
                      long long rows, int cols) {
    quantize_row<Int8, Block>(x, q, scale, rows, cols);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. Not measured, so no
// call takes it yet.
extern "C" __global__ void __launch_bounds__(1024)
    quantize_int8_cluster(const scalar_t* __restrict__ x, signed char* __restrict__ q,
                          float* __restrict__ scale, long long rows, int cols) {
    quantize_row<Int8, Cluster>(x, q, scale, rows, cols);
}
