// A row in 8 bits with a scale (reduced_row.cuh): scale = max |x| / largest, q = x / scale, rounded. A Format has the
// largest number, the type Code of a byte, and the rounding.
//
// Both quotients are correctly rounded in float32, so scale and q are bit for bit what the formula gives in float32. The
// scale is at least 2^-100, which a row of zeros gets: 1 / scale is finite.
// The maximum is that of the bits of |x|, which are in the order of the numbers, with NaN above infinity: NaN in a row
// makes the scale NaN. NaN or infinity in a row makes all its quotients NaN.
#pragma once
#include "keep.cuh"
#include "reduced_row.cuh"

__device__ __forceinline__ unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }
__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) { return max(a, b); }

struct Scale {
    float scale, inverse;

    __device__ __forceinline__ Scale(unsigned top, float largest) {
        const float quotient = __uint_as_float(top) / largest;
        scale = quotient < 0x1p-100f ? 0x1p-100f : quotient;
        inverse = 1.0f / scale;
    }
    // x / scale, correctly rounded: the product with the inverse, less what it is too much. -0 stays -0.
    __device__ __forceinline__ float divided(float x) const {
        const float q = x * inverse;
        return fmaf(-fmaf(q, scale, -x), inverse, q);
    }
};

template <class Format> struct Quantized {
    using Code = typename Format::Code;
    const scalar_t* x;
    Code* q;
    float* scale;
    bool leads;

    static constexpr int arrays = 1;
    using Value = unsigned;
    __device__ __forceinline__ static unsigned joined(unsigned a, unsigned b) { return larger(a, b); }
    template <int width, int packs> __device__ __forceinline__ void first(int at, int cols, float* v) const {
        read<width, packs>(x, at, cols, 0.0f, v);
    }
    template <int width> __device__ __forceinline__ void again(int at, int cols, float* v) const {
        first<width, 1>(at, cols, v);
    }
    template <int n> __device__ __forceinline__ unsigned of(const float* v) const {
        unsigned top = 0;
#pragma unroll
        for (int i = 0; i < n; ++i) top = larger(top, magnitude(v[i]));
        return top;
    }
    __device__ __forceinline__ Scale result(unsigned top) const {
        const Scale found(top, Format::largest);
        if (leads) *scale = found.scale;
        return found;
    }
    template <int width, int next>
    __device__ __forceinline__ void write(int at, int cols, const float* v, const Scale& by) const {
        struct __align__(width) { Code v[width]; } out;
#pragma unroll
        for (int k = 0; k < width; ++k) out.v[k] = Format::rounded(by.divided(v[k]));
        if (place<width>(at) < cols) *reinterpret_cast<decltype(out)*>(q + place<width>(at)) = out;
    }
};

// Any row, by one of the threads of its team.
template <class Format, class Team>
__device__ __forceinline__ void quantize_row(const scalar_t* x, typename Format::Code* q, float* scale, long long rows,
                                             int cols) {
    __shared__ unsigned table[Team::most];
    if (leaves<Team>(rows)) return;
    Team::open();
    const Columns own = Team::columns(cols);
    const long long row = Team::row(), start = row * cols + own.first;
    const bool exists = row < rows, wide = aligned16(x) && ((size_t)q | (size_t)cols) % WIDE == 0;
    const Quantized<Format> found = {kept(x) + start, q + start, scale + row, exists && Team::leads()};
    any_reduced_row<32, Team>(found, own.count, exists, wide, table);
}

// The formula as written: one block a row, which is read for the maximum and for the result.
template <class Format>
__device__ __forceinline__ void quantize_plain(const scalar_t* x, typename Format::Code* q, float* scale,
                                               long long cols) {
    __shared__ unsigned table[Block::most];
    x += blockIdx.x * cols, q += blockIdx.x * cols;
    unsigned top = 0;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) top = larger(top, magnitude(float(x[c])));
    const Scale found(over_block<larger>(top, 0u, table), Format::largest);
    if (threadIdx.x == 0) scale[blockIdx.x] = found.scale;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) q[c] = Format::rounded(found.divided(float(x[c])));
}
