// Layer normalisation of each row, y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * gamma[c] + beta[c], over a
// row-major matrix; mean and variance (divided by cols) are those of row r.
//
// The least traffic is one read and one write of the matrix; gamma and beta stay in cache. The time depends on how
// often a row is read: the mean is needed before the variance (mean square minus squared mean cancels), and both before
// the first result. The entries read a row three times, or once.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"
#include "common/row.cuh"
#include "common/team.cuh"

// The formula as written: one block a row, which is read for the mean, for the variance and for the result. On an H200
// at 8,192 x 4,096: half of a copy's speed in float32, 0.29 in 16 bits.
extern "C" __global__ void layernorm_plain(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                                           const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, long long cols,
                                           float eps) {
    __shared__ float sums[32], squared[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float sum = 0.0f, squares = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += float(x[c]);
    const float mean = over_block<total>(sum, 0.0f, sums) / cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) squares += (float(x[c]) - mean) * (float(x[c]) - mean);
    const float scale = rsqrtf(over_block<total>(squares, 0.0f, squared) / cols + eps);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = scalar_t(fmaf((float(x[c]) - mean) * scale, float(gamma[c]), float(beta[c])));
}

// The row stays in registers and is read once. It has blockDim.x threads, a power of two: part of a warp, a warp, or
// the whole block (then blockDim.y is 1; else blockDim.y rows share the block), each with up to MOST packs. What a
// longer row has beyond that is read twice.
// The memory pipe is full when the threads of a multiprocessor have enough bytes in flight. With 32 numbers of float32
// or 64 of 16 bits a thread only half as many threads fit, but each loads more. On an H200: 0.98 of a copy's speed in
// float32; in 16 bits 0.96 at 8,192 x 16,384 (0.90 where they were kept as float32) and 0.85 at 8,192 x 4,096. Four
// barriers instead of one cost a fifth there.

constexpr int MOST = 32 / WIDE;

// Count, sum, and sum of squared distances from the mean of a set of numbers. Two sets are joined as in Chan, Golub and
// LeVeque (1979): nothing cancels, and the mean of all need not be known first, so one exchange between warps is
// enough.
struct Moments {
    float n, sum, squares;

    __device__ __forceinline__ float mean() const { return n == 0.0f ? 0.0f : __fdividef(sum, n); }
    // The sum of squared distances from another number than the mean.
    __device__ __forceinline__ float about(float other) const {
        const float d = mean() - other;
        return fmaf(n * d, d, squares);
    }
    __device__ __forceinline__ void join(Moments other) {
        const float d = mean() - other.mean(), all = n + other.n;
        squares += other.squares + (all == 0.0f ? 0.0f : d * d * n * __fdividef(other.n, all));
        n = all, sum += other.sum;
    }
};

// The moments of the n numbers that a thread has in v.
template <int width, int packs>
__device__ __forceinline__ Moments moments_of(Held<width, packs>& v, int at, int cols, float n) {
    Moments m = {n, 0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < packs * width; ++i) m.sum += v[i];
    const float mean = m.mean();
    v.again(cols);
#pragma unroll
    for (int p = 0; p < packs; ++p) {
        if (place<width>(at + p) < cols) {
#pragma unroll
            for (int k = 0; k < width; ++k) {
                const float d = v[p * width + k] - mean;
                m.squares = fmaf(d, d, m.squares);
            }
        }
    }
    return m;
}

// a / b: the fast division, with its rounding error corrected. The exact division is a call, which costs registers.
__device__ __forceinline__ float divided(float a, float b) {
    const float q = __fdividef(a, b);
    return fmaf(__fdividef(1.0f, b), fmaf(-q, b, a), q);
}

// The moments of `lanes` neighbouring lanes (a power of two) together, n numbers; each of the lanes gets the result.
__device__ __forceinline__ Moments over_lanes(Moments mine, float n, int lanes) {
    Moments all = {n, over_lanes<total>(mine.sum, lanes), 0.0f};
    all.squares = over_lanes<total>(mine.about(all.mean()), lanes);
    return all;
}

// The moments of the whole row, of `length` numbers; this block has `cols` of them.
template <int width, class Team>
__device__ __forceinline__ Moments over_row(Moments mine, int cols, int length, Moments* table) {
    if (!Team::several()) return over_lanes(mine, length, blockDim.x);
    const int warp = threadIdx.x / 32;
    // Every thread has one pack in each full turn of the block; the first `rest` threads have one more.
    const int turns = cols / width >> (31 - __clz(blockDim.x)), rest = cols / width - turns * blockDim.x;
    const int n = Team::share(over_lanes(mine, (32 * turns + min(max(rest - 32 * warp, 0), 32)) * width, 32), table);
    Moments all = {float(length), over_table<Team, total>(n, [table](int i) { return table[i].sum; }), 0.0f};
    all.squares = over_table<Team, total>(n, [table, mean = all.mean()](int i) { return table[i].about(mean); });
    return all;
}

// Pack number `pack` of v, which is pack number `at` of the thread, as a result. gamma and beta come from L1.
template <int width, class Values>
__device__ __forceinline__ void finish(scalar_t* y, const Values& v, int pack, const scalar_t* gamma,
                                       const scalar_t* beta, int at, int cols, float mean, float scale) {
    const int first = place<width>(at);
    if (first >= cols) return;
    const PackOf<width> g = *reinterpret_cast<const PackOf<width>*>(gamma + first);
    const PackOf<width> b = *reinterpret_cast<const PackOf<width>*>(beta + first);
    PackOf<width> out;
#pragma unroll
    for (int k = 0; k < width; ++k)
        out.v[k] = scalar_t(fmaf((v[pack * width + k] - mean) * scale, float(g.v[k]), float(b.v[k])));
    *reinterpret_cast<PackOf<width>*>(y + first) = out;
}

// One row of `length` numbers, or a block's `cols` of it. `whole`: each thread has at most `packs` packs.
template <int width, int packs, bool whole, class Team>
__device__ __forceinline__ void layernorm_row(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta,
                                              scalar_t* y, int cols, int length, float eps, Moments* table) {
    Held<width, packs> v;
    Moments mine = {0.0f, 0.0f, 0.0f};
    int at = 0;  // the first pack that stays in registers
    if (!whole) {
        for (; (at + packs) * (int)blockDim.x * width < cols; at += packs) {
            v.load(x, at, cols, 0.0f);
            mine.join(moments_of<width, packs>(v, at, cols, packs * width));
        }
    }
    v.load(x, at, cols, 0.0f);
    int n = 0;
#pragma unroll
    for (int p = 0; p < packs; ++p) n += place<width>(at + p) < cols ? width : 0;
    const Moments last = moments_of<width, packs>(v, at, cols, n);
    if (whole) mine = last;
    else mine.join(last);

    const Moments row = over_row<width, Team>(mine, cols, length, table);
    const float mean = divided(row.sum, length), scale = rsqrtf(divided(row.squares, length) + eps);
    v.again(cols);
#pragma unroll
    for (int p = 0; p < packs; ++p) finish<width>(y, v, p, gamma, beta, at + p, cols, mean, scale);
    if (!whole) {
        for (--at; at >= 0; --at) {  // backwards: what was read last is most likely still in cache
            Held<width, 1> one;
            one.load(x, at, cols, 0.0f);
            finish<width>(y, one, 0, gamma, beta, at, cols, mean, scale);
        }
    }
}

// 8 registers of a thread hold numbers, 8 of float32 or 16 of 16 bits, so that 32 registers are enough and all threads
// fit. The row is traversed for the sum, for the squares and for the result: in registers if `whole`, else in turns that
// read it each time.
template <int width, int packs, bool whole>
__device__ __forceinline__ void eight_a_thread(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta,
                                               scalar_t* y, int cols, float eps, float (*partial)[32]) {
    constexpr int n = packs * width;
    const int turns = whole ? 1 : (cols + n * blockDim.x - 1) / (n * blockDim.x);
    Held<width, packs> v;
    float sum = 0.0f, squares = 0.0f;
    for (int t = 0; t < turns; ++t) {
        v.load(x, t * packs, cols, 0.0f);
#pragma unroll
        for (int i = 0; i < n; ++i) sum += v[i];
    }
    const float mean = divided(over_block<total>(sum, 0.0f, partial[0]), cols);
    for (int t = 0; t < turns; ++t) {
        if (whole) v.again(cols);
        else v.load(x, t * packs, cols, 0.0f);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            if (place<width>(t * packs + p) < cols) {
#pragma unroll
                for (int k = 0; k < width; ++k)
                    squares = fmaf(v[p * width + k] - mean, v[p * width + k] - mean, squares);
            }
        }
    }
    const float scale = rsqrtf(divided(over_block<total>(squares, 0.0f, partial[1]), cols) + eps);
    for (int t = 0; t < turns; ++t) {
        if (whole) v.again(cols);
        else v.load(x, t * packs, cols, 0.0f);
#pragma unroll
        for (int p = 0; p < packs; ++p) finish<width>(y, v, p, gamma, beta, t * packs + p, cols, mean, scale);
    }
}

// Two exchanges between warps of one number each, where layernorm_vec has one exchange of several. On an H200 in
// float32: 1 to 3 % less time than layernorm_vec for rows of 512 to 4,096 numbers; at 32,768 x 4,096 1 % less, 0.99 of a
// copy's speed. In 16 bits 3 to 7 % less at 8,192 x 4,096, 15 % more at 8,192 x 16,384. Few rows leave too few threads:
// 5.3 us at 128 x 768, where layernorm_vec takes 4.9.
extern "C" __global__ void __launch_bounds__(512, 4)
    layernorm_eight(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                    const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, int cols, float eps) {
    __shared__ float partial[2][32];
    const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0;
    x = kept(x) + (long long)blockIdx.x * cols, y += (long long)blockIdx.x * cols;
    if (!wide) eight_a_thread<1, 4, false>(x, gamma, beta, y, cols, eps, partial);
    else if (cols <= 2 * WIDE * (int)blockDim.x) eight_a_thread<WIDE, 2, true>(x, gamma, beta, y, cols, eps, partial);
    else eight_a_thread<WIDE, 2, false>(x, gamma, beta, y, cols, eps, partial);
}

// The same with 4 packs a thread and more registers, for rows of 16 bits. On an H200 at 32,768 x 4,096 in bfloat16: 132 us
// between events, where layernorm_eight takes 142.
extern "C" __global__ void __launch_bounds__(256)
    layernorm_four(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                   const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, int cols, float eps) {
    __shared__ float partial[2][32];
    const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0 && cols <= 4 * WIDE * (int)blockDim.x;
    x = kept(x) + (long long)blockIdx.x * cols, y += (long long)blockIdx.x * cols;
    if (wide) eight_a_thread<WIDE, 4, true>(x, gamma, beta, y, cols, eps, partial);
    else eight_a_thread<1, 4, false>(x, gamma, beta, y, cols, eps, partial);
}

// For few rows: 8 bytes a thread, a row a block of whole warps; gamma and beta are on their way together with x. On an
// H200 at 128 x 768: 5.6 us between events, where layernorm_vec takes 5.8.
extern "C" __global__ void __launch_bounds__(1024)
    layernorm_few(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma, const scalar_t* __restrict__ beta,
                  scalar_t* __restrict__ y, int cols, float eps) {
    constexpr int width = WIDE / 2;
    using Half = PackOf<width>;
    __shared__ float partial[2][32];
    __shared__ float2 table[32];  // the mean of each warp, and its squared distances from it
    const int first = place<width>(0), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool packs = aligned16(x, gamma, beta, y) && cols % width == 0 && cols <= width * (int)blockDim.x;
    x += (long long)blockIdx.x * cols, y += (long long)blockIdx.x * cols;
    if (!packs) return eight_a_thread<1, 4, false>(x, gamma, beta, y, cols, eps, partial);

    const bool has = first < cols;
    const auto numbers = [cols](int warp) { return float(min(max(cols - warp * 32 * width, 0), 32 * width)); };
    Half v, g, b;
    float sum = 0.0f, squares = 0.0f;
    if (has) {
        v = *reinterpret_cast<const Half*>(x + first);
        g = *reinterpret_cast<const Half*>(gamma + first), b = *reinterpret_cast<const Half*>(beta + first);
#pragma unroll
        for (int k = 0; k < width; ++k) sum += float(v.v[k]);
    }
    const float own = __fdividef(over_lanes<total>(sum, 32), fmaxf(numbers(warp), 1.0f));
    if (has) {
#pragma unroll
        for (int k = 0; k < width; ++k) squares = fmaf(float(v.v[k]) - own, float(v.v[k]) - own, squares);
    }
    squares = over_lanes<total>(squares, 32);
    if (lane == 0) table[warp] = make_float2(own, squares);
    __syncthreads();
    // About the mean of the first warp: two sums that do not wait for each other.
    const float origin = table[0].x;
    const float2 of_lane = lane < (int)blockDim.x / 32 ? table[lane] : make_float2(origin, 0.0f);
    const float e = of_lane.x - origin, moved = numbers(lane) * e;
    const float shift = over_lanes<total>(moved, 32), about = over_lanes<total>(fmaf(moved, e, of_lane.y), 32);
    const float d = __fdividef(shift, cols), mean = origin + d, all = fmaf(-shift, d, about);
    const float scale = rsqrtf(__fdividef(all < 0.0f ? 0.0f : all, cols) + eps);  // below 0 by a rounding; NaN stays
    if (!has) return;
#pragma unroll
    for (int k = 0; k < width; ++k)
        v.v[k] = scalar_t(fmaf((float(v.v[k]) - mean) * scale, float(g.v[k]), float(b.v[k])));
    *reinterpret_cast<Half*>(y + first) = v;
}

// A row of `length` numbers, or a block's `share` of it. `wide`: 16-byte accesses are allowed.
template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* x, const scalar_t* gamma, const scalar_t* beta, scalar_t* y,
                                        int share, int length, bool exists, bool wide, float eps, Moments* table) {
    const int turn = blockDim.x * WIDE;   // columns of one pack a thread
    const int cols = exists ? share : 0;  // no loads or stores, but the warp's shuffles need these lanes
    if (!wide) layernorm_row<1, 4, false, Team>(x, gamma, beta, y, cols, length, eps, table);
    else if (share <= turn) layernorm_row<WIDE, 1, true, Team>(x, gamma, beta, y, cols, length, eps, table);
    else if (share <= 2 * turn) layernorm_row<WIDE, 2, true, Team>(x, gamma, beta, y, cols, length, eps, table);
    else if (share <= MOST * turn) layernorm_row<WIDE, MOST, true, Team>(x, gamma, beta, y, cols, length, eps, table);
    else if (sizeof(scalar_t) == 2 && share <= 2 * MOST * turn)
        layernorm_row<WIDE, 2 * MOST, true, Team>(x, gamma, beta, y, cols, length, eps, table);
    else layernorm_row<WIDE, 2, false, Team>(x, gamma, beta, y, cols, length, eps, table);
}

// The row stays in the registers of a block at most and is read once; what does not fit is read twice.
extern "C" __global__ void __launch_bounds__(1024)
    layernorm_vec(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma, const scalar_t* __restrict__ beta,
                  scalar_t* __restrict__ y, long long rows, int cols, float eps) {
    __shared__ Moments table[Block::most];
    const long long row = Block::row(), start = row * cols;
    const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0;
    any_row<Block>(kept(x) + start, gamma, beta, y + start, cols, cols, row < rows, wide, eps, table);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, so that 65,536 columns are read once. On an H200 at
// 8,192 x 16,384 in float32 316 us, where layernorm_vec takes 254; so no call takes it.
extern "C" __global__ void __launch_bounds__(1024)
    layernorm_cluster(const scalar_t* __restrict__ x, const scalar_t* __restrict__ gamma,
                      const scalar_t* __restrict__ beta, scalar_t* __restrict__ y, long long rows, int cols,
                      float eps) {
    __shared__ Moments table[Cluster::most];
    if (leaves<Cluster>(rows)) return;
    Cluster::open();
    const Columns own = Cluster::columns(cols);
    const long long row = Cluster::row();
    const bool wide = aligned16(x, gamma, beta, y) && cols % WIDE == 0;
    x = kept(x) + row * cols + own.first, y += row * cols + own.first, gamma += own.first, beta += own.first;
    any_row<Cluster>(x, gamma, beta, y, own.count, cols, true, wide, eps, table);
}
