// Layer normalisation of each row, y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * gamma[c] + beta[c], over a
// row-major matrix; mean and variance (the one that divides by cols) are of row r.
//
// The least that can be moved is one read and one write of the matrix; gamma and beta stay in cache. What decides is
// how often a row is read: the mean must be known before the variance (the difference of the mean square and the
// squared mean cancels), and both before the first result. The entries read it three times, and once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of `value` over all threads of a row: within a warp by shuffles, between warps through shared memory. A row
// has one warp, or it has the whole block (blockDim.y is 1), as threads in x. Every thread gets the result.
__device__ __forceinline__ float over_row(float value, float* partial) {
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
    if (blockDim.x <= 32) return value;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    __syncthreads();  // the last result has been read by all
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = lane < warps ? partial[lane] : 0.0f;
#pragma unroll
    for (int s = 16; s > 0; s /= 2) value += __shfl_xor_sync(0xffffffffu, value, s);
    return value;
}

// As it is written down: a block a row, which is read for the mean, for the variance and for the result.
extern "C" __global__ void layernorm_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                                           const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, long long cols,
                                           float eps) {
    __shared__ float partial[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += float(x[c]);
    const float mean = over_row(sum, partial) / cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) squares += (float(x[c]) - mean) * (float(x[c]) - mean);
    const float scale = rsqrtf(over_row(squares, partial) / cols + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = scalar_t(fmaf((float(x[c]) - mean) * scale, float(gamma[c]), float(beta[c])));
}

// The row stays in registers, HELD elements a thread, and is read once. Short rows have a warp each, with several to a
// block (blockDim.y), long ones a block; the launch chooses so that a thread has up to HELD elements. What a row has
// beyond 1024 * HELD is read three times; after the first it may still be in L2.
#define HELD 16

struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

// A thread takes Pack::width elements at a time: neighbours, as one access of 16 bytes, where every row begins at a
// 16-byte boundary (wide); else elements that are blockDim.x apart, so that a warp still reads neighbours. `at` is the
// index of the pack in the thread. What lies beyond `cols` reads as 0.
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
            for (int k = 0; k < Pack::width; ++k) v[k] = 0.0f;
        }
    } else {
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) {
            const int col = place<wide>(at, k);
            v[k] = col < cols ? float(row[col]) : 0.0f;
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

// Where element k of pack `at` is in the row, what belongs there.
template <bool wide> __device__ __forceinline__ void normalise(float* v, const scalar_t* gamma, const scalar_t* beta,
                                                               int at, int cols, float mean, float scale) {
    float g[Pack::width], b[Pack::width];
    read<wide>(gamma, at, cols, g);
    read<wide>(beta, at, cols, b);
#pragma unroll
    for (int k = 0; k < Pack::width; ++k) v[k] = fmaf((v[k] - mean) * scale, g[k], b[k]);
}

// The squared distances of one pack from the mean; 0 for what lies beyond the row.
template <bool wide> __device__ __forceinline__ float spread(const float* v, int at, int cols, float mean) {
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Pack::width; ++k) {
        const float d = place<wide>(at, k) < cols ? v[k] - mean : 0.0f;
        sum = fmaf(d, d, sum);
    }
    return sum;
}

template <bool wide> __device__ void layernorm_row(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta,
                                                   scalar_t* y, int cols, float eps, float* partial) {
    const int packs = HELD / Pack::width, each = blockDim.x * Pack::width;
    float v[HELD], more[Pack::width], sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int p = 0; p < packs; ++p) read<wide>(x, p, cols, v + p * Pack::width);
#pragma unroll
    for (int h = 0; h < HELD; ++h) sum += v[h];
    for (int p = packs; p * each < cols; ++p) {
        read<wide>(x, p, cols, more);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) sum += more[k];
    }
    const float mean = over_row(sum, partial) / cols;

#pragma unroll
    for (int p = 0; p < packs; ++p) squares += spread<wide>(v + p * Pack::width, p, cols, mean);
    for (int p = packs; p * each < cols; ++p) {
        read<wide>(x, p, cols, more);
        squares += spread<wide>(more, p, cols, mean);
    }
    const float scale = rsqrtf(over_row(squares, partial) / cols + eps);

#pragma unroll
    for (int p = 0; p < packs; ++p) {
        normalise<wide>(v + p * Pack::width, gamma, beta, p, cols, mean, scale);
        write<wide>(y, p, cols, v + p * Pack::width);
    }
    for (int p = packs; p * each < cols; ++p) {
        read<wide>(x, p, cols, more);
        normalise<wide>(more, gamma, beta, p, cols, mean, scale);
        write<wide>(y, p, cols, more);
    }
}

extern "C" __global__ void __launch_bounds__(1024)
    layernorm_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma, const scalar_t* __restrict__ beta,
                  scalar_t* __restrict__ y, long long rows, int cols, float eps) {
    __shared__ float partial[32];
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // a whole warp; where a row is a block there is no such row
    const size_t addresses = (size_t)x | (size_t)gamma | (size_t)beta | (size_t)y;
    const bool wide = addresses % sizeof(Pack) == 0 && cols % Pack::width == 0;
    x += row * cols, y += row * cols;
    if (wide) layernorm_row<true>(x, gamma, beta, y, cols, eps, partial);
    else layernorm_row<false>(x, gamma, beta, y, cols, eps, partial);
}
