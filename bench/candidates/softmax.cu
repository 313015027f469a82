// Softmax of each row, y[r][c] = exp(x[r][c] - max of row r) / sum of the row's exponentials, over a row-major matrix.
//
// The least that can be moved is one read and one write of the matrix. What decides is how often a row is read: the
// maximum must be known before the sum, and the sum before the first result. The entries read it three times, twice,
// and once. The sum of row r is always that of exp(x - max), so nothing overflows; a row of -inf gives NaN.
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

// As it is written down: a block a row, which is read for the maximum, for the sum and for the result.
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

// Maximum and sum in one pass: the row is read twice.
extern "C" __global__ void softmax_online(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long cols) {
    __shared__ float partial[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    Running mine;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) mine.add(float(x[c]));
    const float top = over_row<largest>(mine.top, partial);
    const float scale = inverse(over_row<total>(mine.in_units_of(top), partial));
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) * scale);
}

// The row stays in registers, HELD elements a thread, and is read once. Short rows have a warp each, with several to a
// block (blockDim.y), long ones a block; the launch chooses so that a thread has up to HELD elements. What a row has
// beyond 1024 * HELD is read twice, with the one-pass sum; the second time it may still be in L2.
#define HELD 32

struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

// A thread takes Pack::width elements at a time: neighbours, as one access of 16 bytes, where every row begins at a
// 16-byte boundary (wide); else elements that are blockDim.x apart, so that a warp still reads neighbours. `at` is the
// index of the pack in the thread. What lies beyond `cols` is -inf, and adds nothing.
template <bool wide> __device__ __forceinline__ int place(int at, int k) {
    const int packs = at * blockDim.x;
    return wide ? (packs + threadIdx.x) * Pack::width + k : packs * Pack::width + threadIdx.x + k * blockDim.x;
}

template <bool wide> __device__ __forceinline__ void read(const scalar_t* row, int at, int cols, float* v) {
    if (wide) {
        const int first = place<wide>(at, 0);
        if (first < cols) {
            const Pack pack = *reinterpret_cast<const Pack*>(row + first);
#pragma unroll
            for (int k = 0; k < Pack::width; ++k) v[k] = float(pack.v[k]);
        } else {
#pragma unroll
            for (int k = 0; k < Pack::width; ++k) v[k] = -INFINITY;
        }
    } else {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) {
            const int col = place<wide>(at, k);
            v[k] = col < cols ? float(row[col]) : -INFINITY;
        }
    }
}

template <bool wide> __device__ __forceinline__ void write(scalar_t* row, int at, int cols, const float* v) {
    if (wide) {
        const int first = place<wide>(at, 0);
        Pack pack;
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) pack.v[k] = scalar_t(v[k]);
        if (first < cols) *reinterpret_cast<Pack*>(row + first) = pack;
    } else {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) {
            const int col = place<wide>(at, k);
            if (col < cols) row[col] = scalar_t(v[k]);
        }
    }
}

template <bool wide> __device__ void softmax_row(const scalar_t* x, scalar_t* y, int cols, float* partial) {
    const int packs = HELD / Pack::width;
    float v[HELD], more[Pack::width];
#pragma unroll
    for (int p = 0; p < packs; ++p) read<wide>(x, p, cols, v + p * Pack::width);
    Running mine;
#pragma unroll
    for (int h = 0; h < HELD; ++h) mine.top = fmaxf(mine.top, v[h]);
    for (int p = packs; p * (int)blockDim.x * Pack::width < cols; ++p) {
        read<wide>(x, p, cols, more);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) mine.add(more[k]);
    }

    const float top = over_row<largest>(mine.top, partial);
    float sum = mine.in_units_of(top);
#pragma unroll
    for (int h = 0; h < HELD; ++h) {
        v[h] = expf(v[h] - top);
        sum += v[h];
    }
    const float scale = inverse(over_row<total>(sum, partial));

#pragma unroll
    for (int h = 0; h < HELD; ++h) v[h] *= scale;
#pragma unroll
    for (int p = 0; p < packs; ++p) write<wide>(y, p, cols, v + p * Pack::width);
    for (int p = packs; p * (int)blockDim.x * Pack::width < cols; ++p) {
        read<wide>(x, p, cols, more);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) more[k] = expf(more[k] - top) * scale;
        write<wide>(y, p, cols, more);
    }
}

extern "C" __global__ void __launch_bounds__(1024)
    softmax_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    __shared__ float partial[32];
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp; where a row is a block there is no such row
    const bool wide = (((size_t)x | (size_t)y) % sizeof(Pack)) == 0 && cols % Pack::width == 0;
    x += row * cols, y += row * cols;
    if (wide) softmax_row<true>(x, y, cols, partial);
    else softmax_row<false>(x, y, cols, partial);
}
