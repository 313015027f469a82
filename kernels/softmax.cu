// Softmax of each row, y[r][c] = exp(x[r][c] - max of row r) / sum of the row's exponentials, over a row-major matrix.
//
// The least that can be moved is one read and one write of the matrix. What decides is how often a row is read: the
// maximum must be known before the sum, and the sum before the first result. The entries read it three times, twice,
// and once. No exponent is ever above 0, so nothing overflows; a row of -inf gives NaN.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float largest(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float total(float a, float b) { return a + b; }

// `value` of all threads of a row, combined: within a warp by shuffles, between warps through shared memory. A row has
// one warp, or it has the whole block (blockDim.y is 1), as threads in x. Every thread gets the result.
template <float combine(float, float)> __device__ __forceinline__ float over_row(float value, float* partial) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));
    if (blockDim.x <= 32) return value;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    __syncthreads();  // the last result has been read by all
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = partial[lane < warps ? lane : 0];
    if (lane >= warps && combine == total) value = 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));
    return value;
}

// As it is written down: a block a row, which is read for the maximum, for the sum and for the result. On an H200, at
// 8,192 x 4,096, half of a copy's speed in float32 and a quarter in 16 bits: L2 and the instructions are the limit.
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

// The largest value so far, and the sum of the exponentials in units of exp(top): one pass finds both (Milakov and
// Gimelshein 2018), since a sum that is known for one maximum is known for every other.
struct Running {
    float top = -INFINITY, sum = 0.0f;

    __device__ __forceinline__ void add(float v) {
        if (v > top) sum = fmaf(sum, expf(top - v), 1.0f), top = v;  // expf(-inf) is 0
        else if (v != -INFINITY) sum += expf(v - top);               // NaN comes here and stays
    }
    // The sum in units of exp(to), where to >= top.
    __device__ __forceinline__ float in_units_of(float to) const { return sum == 0.0f ? 0.0f : sum * expf(top - to); }
};

// A row of -inf has no sum; the 0/0 of the definition is NaN.
__device__ __forceinline__ float inverse(float sum) { return sum == 0.0f ? NAN : 1.0f / sum; }

// Maximum and sum in one pass: the row is read twice. A tenth faster, since the exponentials remain.
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
// the whole block (then blockDim.y is 1; else blockDim.y rows share it). HELD elements are the most that a thread keeps
// with no more than 64 registers, that is with 1,024 threads on an SM; 128 bytes of float32 each fill the memory pipe.
// What a row has beyond HELD elements a thread is read twice. On an H200 0.98 of a copy's speed in float32 and 0.95 in
// 16 bits, at 8,192 x 4,096; with one barrier instead of four, and as many threads as a row has work for, rows of 128
// columns went from 0.38 and 0.19 to 0.98 and 0.89. Rows of 65,536 are read one and a half times: three quarters.
#define HELD 32

// `width` neighbouring elements, which move in one access: 16 bytes, or one element where rows begin off a boundary of
// 16 bytes. Threads take neighbouring packs, then the next as many; `at` counts those of one thread.
template <int width> struct __align__(width * sizeof(scalar_t)) Pack {
    scalar_t v[width];
};
constexpr int WIDE = 16 / sizeof(scalar_t);

template <int width> __device__ __forceinline__ int place(int at) { return (at * blockDim.x + threadIdx.x) * width; }

// Packs number at, at + 1, ... of the thread: all loads are under way before the first is needed. Beyond the row is
// -inf, which adds nothing.
template <int width, int packs>
__device__ __forceinline__ void read(const scalar_t* row, int at, int cols, float* v) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        const int first = place<width>(at + p);
#pragma unroll
        for (int k = 0; k < width; ++k) v[p * width + k] = -INFINITY;
        if (first < cols) {
            const Pack<width> pack = *reinterpret_cast<const Pack<width>*>(row + first);
#pragma unroll
            for (int k = 0; k < width; ++k) v[p * width + k] = float(pack.v[k]);
        }
    }
}

template <int width, int packs>
__device__ __forceinline__ void write(scalar_t* row, int at, int cols, const float* v, float scale) {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        const int first = place<width>(at + p);
        Pack<width> pack;
#pragma unroll
        for (int k = 0; k < width; ++k) pack.v[k] = scalar_t(v[p * width + k] * scale);
        if (first < cols) *reinterpret_cast<Pack<width>*>(row + first) = pack;
    }
}

// exp(d). In 16 bits the error of the product, 2^-20 at most, is lost in the last rounding: 5 instructions, not 8.
__device__ __forceinline__ float power(float d) { return sizeof(scalar_t) == 4 ? expf(d) : exp2f(d * 1.44269504f); }

template <int n> __device__ __forceinline__ float largest_of(const float* v) {
    float top = v[0];
#pragma unroll
    for (int i = 1; i < n; ++i) top = fmaxf(top, v[i]);
    return top;
}

// Each v becomes exp(v - top); returns their sum.
template <int n> __device__ __forceinline__ float to_powers(float* v, float top) {
    const float base = top == -INFINITY ? 0.0f : top;  // exp(-inf - base) is 0
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < n; ++i) sum += v[i] = power(v[i] - base);
    return sum;
}

// `value` of `lanes` neighbouring lanes (a power of two), combined; each of them gets the result.
template <float combine(float, float)> __device__ __forceinline__ float over_lanes(float value, int lanes) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2)
        if (s < lanes) value = combine(value, __shfl_xor_sync(0xffffffffu, value, s));
    return value;
}

// What all warps of the block found. One barrier is enough, not four: each warp brings a sum in units of its own
// maximum, and nobody writes `partial` a second time.
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

// A row of which each thread has at most `packs` packs (whole), or more. With one_warp it has 32 threads at most.
template <int width, int packs, bool whole, bool one_warp>
__device__ __forceinline__ void softmax_row(const scalar_t* x, scalar_t* y, int cols, Running* partial) {
    const int n = packs * width;
    float v[n], sum;
    Running mine;
    int at = 0;  // the pack from which on the thread keeps its numbers
    if (!whole) {
        for (; (at + packs) * (int)blockDim.x * width < cols; at += packs) {
            read<width, packs>(x, at, cols, v);
            const float top = fmaxf(mine.top, largest_of<n>(v));
            mine.sum = mine.in_units_of(top) + to_powers<n>(v, top);
            mine.top = top;
        }
    }
    read<width, packs>(x, at, cols, v);
    Running row;
    row.top = over_lanes<largest>(fmaxf(mine.top, largest_of<n>(v)), blockDim.x);
    const float unit = row.top;  // of what v will hold: the maximum that the warp has seen
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
        for (at -= packs; at >= 0; at -= packs) {  // what was read last is the likeliest to be in cache still
            read<width, packs>(x, at, cols, v);
            to_powers<n>(v, row.top);
            write<width, packs>(y, at, cols, v, inverse(row.sum));
        }
    }
}

// x, with the advice to L2 to keep what is read through it rather than other lines: the builtin under libcu++'s
// cuda::associate_access_property, with the policy that createpolicy of PTX makes of evict_last. Hardly a line is read
// again, but reads and writes seem to disturb each other less: at 32,768 x 4,096 it saves 3.5 % of the time in
// float32, and 1.4 % in bfloat16.
__device__ __forceinline__ const scalar_t* kept(const scalar_t* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    return static_cast<const scalar_t*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}

template <bool one_warp>
__device__ __forceinline__ void any_row(const scalar_t* x, scalar_t* y, long long rows, int cols, Running* partial) {
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    const bool wide = (((size_t)x | (size_t)y) % 16) == 0 && cols % WIDE == 0;
    const int length = cols, turn = blockDim.x * WIDE;  // of which a thread has one pack
    const int few = HELD / 2 / WIDE;  // packs
    x = kept(x) + row * cols, y += row * cols;
    if (row >= rows) cols = 0;  // no loads, no stores, but the shuffles of the other rows in the warp need these lanes
    if (!wide) softmax_row<1, 4, false, one_warp>(x, y, cols, partial);
    else if (length <= turn) softmax_row<WIDE, 1, true, one_warp>(x, y, cols, partial);
    else if (length <= turn * few) softmax_row<WIDE, few, true, one_warp>(x, y, cols, partial);
    else if (one_warp) softmax_row<WIDE, 1, false, true>(x, y, cols, partial);
    else if (length <= turn * (HELD / WIDE)) softmax_row<WIDE, HELD / WIDE, true, false>(x, y, cols, partial);
    else softmax_row<WIDE, HELD / WIDE, false, false>(x, y, cols, partial);
}

// Rows of up to 512 columns, which have a warp or less. With half of HELD, and nothing that joins warps, they need 40
// registers (32 in 16 bits) instead of 64, so that more threads are at work: rows of 128 columns reach 0.98 of a copy's
// speed in 16 bits, where softmax_vec has 0.88 and torch.compile 0.91; in float32 both of ours have 0.97. Longer rows
// pass by in turns of one pack: right, but at 4,096 columns 0.58 and 0.64.
extern "C" __global__ void __launch_bounds__(128, 12)
    softmax_short(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    any_row<true>(x, y, rows, cols, nullptr);
}

extern "C" __global__ void __launch_bounds__(1024)
    softmax_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    __shared__ Running partial[32];
    any_row<false>(x, y, rows, cols, partial);
}
