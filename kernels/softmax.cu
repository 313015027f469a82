// Softmax of each row, y[r][c] = exp(x[r][c] - max of row r) / sum of the row's exponentials, over a row-major matrix.
//
// The least traffic is one read and one write of the matrix. The time depends on how often a row is read: the maximum
// is needed before the sum, and the sum before the first result. The entries read a row three times, twice, and once.
// No exponent is above 0, so nothing overflows. A row of -inf gives NaN.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/reduce.cuh"
#include "common/row.cuh"

// `value` of all threads of a row, combined: within a warp by shuffles, between warps through shared memory. The
// threads of a row lie in x: one warp, or the whole block (then blockDim.y is 1). Every thread gets the result.
template <float combine(float, float)> __device__ __forceinline__ float over_row(float value, float* partial) {
    value = over_lanes<combine>(value, 32);
    if (blockDim.x <= 32) return value;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    __syncthreads();  // all threads have read the previous result
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = partial[lane < warps ? lane : 0];
    if (lane >= warps && combine == total) value = 0.0f;
    return over_lanes<combine>(value, 32);
}

// The formula as written: one block a row, which is read for the maximum, for the sum and for the result. On an H200 at
// 8,192 x 4,096: half of a copy's speed in float32, a quarter in 16 bits; L2 and instructions are the limit.
extern "C" __global__ void softmax_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long cols) {
    __shared__ float partial[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) top = fmaxf(top, float(x[c]));
    top = over_row<largest>(top, partial);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(float(x[c]) - top);
    sum = over_row<total>(sum, partial);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) / sum);
}

// The largest value so far, and the sum of the exponentials in units of exp(top). One pass computes both (Milakov and
// Gimelshein 2018), since a sum for one maximum can be rescaled to any other.
struct Running {
    float top = -INFINITY, sum = 0.0f;

    __device__ __forceinline__ void add(float v) {
        if (v > top) sum = fmaf(sum, expf(top - v), 1.0f), top = v;  // expf(-inf) is 0
        else if (v != -INFINITY) sum += expf(v - top);               // NaN takes this branch and stays
    }
    // The sum in units of exp(to), where to >= top.
    __device__ __forceinline__ float in_units_of(float to) const { return sum == 0.0f ? 0.0f : sum * expf(top - to); }
};

// The sum of a row of -inf is 0, and 0/0 of the definition is NaN.
__device__ __forceinline__ float inverse(float sum) { return sum == 0.0f ? NAN : 1.0f / sum; }

// Maximum and sum in one pass: the row is read twice. Only a tenth faster, since the number of exponentials is the same.
extern "C" __global__ void softmax_online(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long cols) {
    __shared__ float partial[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    Running mine;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) mine.add(float(x[c]));
    const float top = over_row<largest>(mine.top, partial);
    const float scale = inverse(over_row<total>(mine.in_units_of(top), partial));
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) * scale);
}

// The row stays in registers and is read once. It has blockDim.x threads, a power of two: part of a warp, a warp, or
// the whole block (then blockDim.y is 1; else blockDim.y rows share the block). A thread keeps up to HELD elements, the
// most that 64 registers allow, which is 1,024 threads on a multiprocessor; 128 bytes of float32 each fill the memory
// pipe. What a longer row has beyond HELD elements a thread is read twice.
// On an H200 at 8,192 x 4,096: 0.98 of a copy's speed in float32, 0.95 in 16 bits. With one barrier instead of four,
// and as many threads as a row has work for, rows of 128 columns went from 0.38 and 0.19 to 0.98 and 0.89. Rows of
// 65,536 columns are read one and a half times: three quarters.
#define HELD 32

template <int width, int packs>
__device__ __forceinline__ void write(scalar_t* row, int at, int cols, const float* v, float scale) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        const int first = place<width>(at + p);
        PackOf<width> pack;
#pragma unroll
        for (int k = 0; k < width; ++k) pack.v[k] = scalar_t(v[p * width + k] * scale);
        if (first < cols) *reinterpret_cast<PackOf<width>*>(row + first) = pack;
    }
}

// exp(d). In 16 bits the error of the product, 2^-20 at most, disappears in the last rounding: 5 instructions instead
// of 8.
__device__ __forceinline__ float power(float d) { return sizeof(scalar_t) == 4 ? expf(d) : exp2f(d * 1.44269504f); }

template <int n> __device__ __forceinline__ float largest_of(const float* v) {
    float top = v[0];
#pragma unroll
    for (int i = 1; i < n; ++i) top = fmaxf(top, v[i]);
    return top;
}

// Replaces each v by exp(v - top) and returns their sum.
template <int n> __device__ __forceinline__ float to_powers(float* v, float top) {
    const float base = top == -INFINITY ? 0.0f : top;  // exp(-inf - base) is 0
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) sum += v[i] = power(v[i] - base);
    return sum;
}

// Combines the results of all warps of the block. One barrier is enough instead of four: each warp brings a sum in
// units of its own maximum, and `partial` is written only once.
__device__ __forceinline__ Running over_warps(Running warp, Running* partial) {
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    if (lane == 0) partial[threadIdx.x / 32] = warp;
    __syncthreads();
    const Running other = partial[lane & (warps - 1)];
    Running all;
    all.top = over_lanes<largest>(other.top, warps);
    all.sum = over_lanes<total>(other.in_units_of(all.top), warps);
    return all;
}

// One row. `whole`: each thread has at most `packs` packs of it. `one_warp`: it has at most 32 threads.
template <int width, int packs, bool whole, bool one_warp>
__device__ __forceinline__ void softmax_row(const scalar_t* x, scalar_t* y, int cols, Running* partial) {
    const int n = packs * width;
    float v[n], sum;
    Running mine;
    int at = 0;  // the first pack that stays in registers
    if (!whole) {
        for (; (at + packs) * (int)blockDim.x * width < cols; at += packs) {
            read<width, packs>(x, at, cols, -INFINITY, v);
            const float top = fmaxf(mine.top, largest_of<n>(v));
            mine.sum = mine.in_units_of(top) + to_powers<n>(v, top);
            mine.top = top;
        }
    }
    read<width, packs>(x, at, cols, -INFINITY, v);
    Running row;
    row.top = over_lanes<largest>(fmaxf(mine.top, largest_of<n>(v)), blockDim.x);
    const float unit = row.top;  // of v: the largest value of this warp
    sum = to_powers<n>(v, unit);
    if (!whole) sum += mine.in_units_of(unit);
    row.sum = over_lanes<total>(sum, blockDim.x);
    float scale = 1.0f;
    if (!one_warp && blockDim.x > 32) {
        row = over_warps(row, partial);
        scale = power(unit - row.top);
    }
    write<width, packs>(y, at, cols, v, scale * inverse(row.sum));
    if (!whole) {
        for (at -= packs; at >= 0; at -= packs) {  // backwards: what was read last is most likely still in cache
            read<width, packs>(x, at, cols, -INFINITY, v);
            to_powers<n>(v, row.top);
            write<width, packs>(y, at, cols, v, inverse(row.sum));
        }
    }
}

template <bool one_warp>
__device__ __forceinline__ void any_row(const scalar_t* x, scalar_t* y, long long rows, int cols, Running* partial) {
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    const bool wide = aligned16(x, y) && cols % WIDE == 0;
    const int length = cols, turn = blockDim.x * WIDE;  // columns of one pack a thread
    const int few = HELD / 2 / WIDE;  // packs
    x = kept(x) + row * cols, y += row * cols;
    if (row >= rows) cols = 0;  // no loads or stores, but the warp's shuffles need these lanes
    if (!wide) softmax_row<1, 4, false, one_warp>(x, y, cols, partial);
    else if (length <= turn) softmax_row<WIDE, 1, true, one_warp>(x, y, cols, partial);
    else if (length <= turn * few) softmax_row<WIDE, few, true, one_warp>(x, y, cols, partial);
    else if (one_warp) softmax_row<WIDE, 1, false, true>(x, y, cols, partial);
    else if (length <= turn * (HELD / WIDE)) softmax_row<WIDE, HELD / WIDE, true, false>(x, y, cols, partial);
    else softmax_row<WIDE, HELD / WIDE, false, false>(x, y, cols, partial);
}

// Rows of up to 512 columns, which have one warp or less. With half of HELD, and no code that joins warps, this entry
// needs 40 registers (32 in 16 bits) instead of 64, so more threads fit.
// On an H200 rows of 128 columns reach 0.98 of a copy's speed in 16 bits (softmax_vec 0.88, torch.compile 0.91) and
// 0.97 in float32 (softmax_vec 0.97). Longer rows are processed in turns of one pack: correct, but 0.58 and 0.64 at
// 4,096 columns.
extern "C" __global__ void __launch_bounds__(128, 12)
    softmax_short(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    any_row<true>(x, y, rows, cols, nullptr);
}

extern "C" __global__ void __launch_bounds__(1024)
    softmax_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    __shared__ Running partial[32];
    any_row<false>(x, y, rows, cols, partial);
}
