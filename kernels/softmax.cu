// Softmax of each row, y[r][c] = exp(x[r][c] - max of row r) / sum of the row's exponentials, over a row-major matrix.
//
// The least traffic is one read and one write of the matrix. The time depends on how often a row is read: the maximum
// is needed before the sum, and the sum before the first result. The entries read a row three times, twice, and once.
// No exponent is above 0, so nothing overflows. A row of -inf gives NaN.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/exponentials.cuh"
#include "common/keep.cuh"
#include "common/row.cuh"

// The formula as written: one block a row, which is read for the maximum, for the sum and for the result. On an H200 at
// 8,192 x 4,096: half of a copy's speed in float32, a quarter in 16 bits; L2 and instructions are the limit.
extern "C" __global__ void softmax_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long cols) {
    __shared__ float tops[32], sums[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    float top = -INFINITY, sum = 0.0f;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) top = fmaxf(top, float(x[c]));
    top = over_block<largest>(top, -INFINITY, tops);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) sum += expf(float(x[c]) - top);
    sum = over_block<total>(sum, 0.0f, sums);
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) / sum);
}

// The sum of a row of -inf is 0, and 0/0 of the definition is NaN.
__device__ __forceinline__ float inverse(float sum) { return sum == 0.0f ? NAN : 1.0f / sum; }

// Maximum and sum in one pass: the row is read twice. Only a tenth faster, since the number of exponentials is the same.
extern "C" __global__ void softmax_online(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long cols) {
    __shared__ float tops[32], sums[32];
    x += blockIdx.x * cols, y += blockIdx.x * cols;
    Running mine;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) mine.add(float(x[c]));
    const float top = over_block<largest>(mine.top, -INFINITY, tops);
    const float scale = inverse(over_block<total>(mine.in_units_of(top), 0.0f, sums));
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) y[c] = scalar_t(expf(float(x[c]) - top) * scale);
}

// The row stays in registers and is read once. It has blockDim.x threads, a power of two: part of a warp, a warp, or
// the whole block (then blockDim.y is 1; else blockDim.y rows share the block). A thread keeps up to HELD elements of
// float32 or twice as many of 16 bits, the most that 64 registers allow, which is 1,024 threads on a multiprocessor; 128
// bytes a thread fill the memory pipe. What a longer row has beyond that is read twice.
// On an H200: 0.97 to 0.99 of a copy's speed at 8,192 x 4,096 and 4,096 x 16,384. With one barrier instead of four, and
// as many threads as a row has work for, rows of 128 columns went from 0.38 and 0.19 to 0.98 and 0.89. 16 bits kept as
// float32 had half of the loads in flight: 0.88 at 4,096 x 16,384. Rows of 65,536 columns: 0.77; float32 is read in part
// twice there.
#define HELD 32

// The elements of a thread as float32.
template <int width_, int packs> struct Floats : Held<width_, packs, 4> {
    static constexpr int width = width_;
    using Held<width, packs, 4>::v;

    __device__ __forceinline__ float top() const { return largest_of<packs * width>(v); }
    __device__ __forceinline__ void extend(Running& mine) { ::extend<packs * width>(mine, v); }
    // The sum of the exponentials in units of exp(unit).
    __device__ __forceinline__ float powers(float unit) { return to_powers<packs * width>(v, unit); }
    // The results, after powers(unit).
    __device__ __forceinline__ void write(scalar_t* row, int at, int cols, float unit, Running all) {
        const float scale = (unit == all.top ? 1.0f : power(unit - all.top)) * inverse(all.sum);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<width>(at + p);
            PackOf<width> pack;
#pragma unroll
            for (int k = 0; k < width; ++k) pack.v[k] = scalar_t(v[p * width + k] * scale);
            if (first < cols) *reinterpret_cast<PackOf<width>*>(row + first) = pack;
        }
    }
};

// The elements of a thread as 16 bits. Exponentials are computed for the sum and again for the results.
template <int packs, class T = scalar_t> struct Packed : Held<WIDE, packs> {
    static constexpr int width = WIDE, pairs = packs * WIDE / 2;
    using Pair = typename Two<T>::type;
    using Held<WIDE, packs>::words;
    float found;

    __device__ __forceinline__ const Pair* all() const { return reinterpret_cast<const Pair*>(words); }
    __device__ __forceinline__ float top() { return found = largest_in<pairs>(all()); }
    __device__ __forceinline__ float powers(float unit) const { return sum_of_powers<pairs>(all(), found, unit); }
    __device__ __forceinline__ void extend(Running& mine) {
        const float unit = fmaxf(mine.top, top());
        mine.sum = mine.in_units_of(unit) + powers(unit);
        mine.top = unit;
    }
    __device__ __forceinline__ void write(scalar_t* row, int at, int cols, float, Running all) {
        const float scale = inverse(all.sum);
        this->again(cols);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<WIDE>(at + p);
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const Pair pair = reinterpret_cast<const Pair&>(words[p].v[k]);
                const float a = root_of_power(float(pair.x), all.top), b = root_of_power(float(pair.y), all.top);
                const Pair y = Two<T>::from(a * (a * scale), b * (b * scale));
                words[p].v[k] = reinterpret_cast<const unsigned&>(y);
            }
            if (first < cols) *reinterpret_cast<Words*>(row + first) = words[p];
        }
    }
};

// What a thread keeps where 16-byte accesses are allowed.
template <int packs, int size = sizeof(scalar_t)> struct Elements : Floats<WIDE, packs> {};
template <int packs> struct Elements<packs, 2> : Packed<packs> {};

// One row. `whole`: each thread has at most `packs` packs of it.
template <class Values, int packs, bool whole, class Team>
__device__ __forceinline__ void softmax_row(const scalar_t* x, scalar_t* y, int cols, Running* table) {
    Values v;
    Running mine, row;
    int at = 0;  // the first pack that stays in registers
    if (!whole) {
        for (; (at + packs) * (int)blockDim.x * Values::width < cols; at += packs) {
            v.load(x, at, cols, -INFINITY);
            v.extend(mine);
        }
    }
    v.load(x, at, cols, -INFINITY);
    row.top = over_lanes<largest>(fmaxf(mine.top, v.top()), Team::lanes());
    const float unit = row.top;  // of the exponentials: the largest value of this warp
    row.sum = v.powers(unit);
    if (!whole) row.sum += mine.in_units_of(unit);
    row.sum = over_lanes<total>(row.sum, Team::lanes());
    if (Team::several()) row = over_warps<Team>(row, table);
    v.write(y, at, cols, unit, row);
    if (!whole) {
        for (at -= packs; at >= 0; at -= packs) {  // backwards: what was read last is most likely still in cache
            v.load(x, at, cols, -INFINITY);
            v.powers(row.top);
            v.write(y, at, cols, row.top, row);
        }
    }
}

// A row of any length. `wide`: 16-byte accesses are allowed.
template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* x, scalar_t* y, int length, bool exists, bool wide,
                                        Running* table) {
    const int turn = blockDim.x * WIDE;    // columns of one pack a thread
    const int cols = exists ? length : 0;  // no loads or stores, but the warp's shuffles need these lanes
    constexpr bool one_warp = Team::most == 1;
    constexpr int few = HELD / 2 / WIDE, many = one_warp ? few : HELD / WIDE;        // packs
    constexpr int most = one_warp || sizeof(scalar_t) == 4 ? many : 2 * HELD / WIDE;
    constexpr int of_long = one_warp ? 1 : many;
    if (!wide) softmax_row<Floats<1, 4>, 4, false, Team>(x, y, cols, table);
    else if (length <= turn) softmax_row<Elements<1>, 1, true, Team>(x, y, cols, table);
    else if (length <= turn * few) softmax_row<Elements<few>, few, true, Team>(x, y, cols, table);
    else if (many > few && length <= turn * many) softmax_row<Elements<many>, many, true, Team>(x, y, cols, table);
    else if (most > many && length <= turn * most) softmax_row<Elements<most>, most, true, Team>(x, y, cols, table);
    else softmax_row<Elements<of_long>, of_long, false, Team>(x, y, cols, table);
}

// Rows of up to 512 columns, which have one warp or less. With half of HELD, and no code that joins warps, this entry
// needs 40 registers (32 in 16 bits) instead of 64, so more threads fit.
// On an H200 rows of 128 columns reach 0.98 of a copy's speed in 16 bits (softmax_vec 0.88, torch.compile 0.91) and
// 0.97 in float32 (softmax_vec 0.97). Longer rows are processed in turns of one pack: correct, but 0.58 and 0.64 at
// 4,096 columns.
extern "C" __global__ void __launch_bounds__(128, 12)
    softmax_short(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    const long long row = Warp::row();
    const bool wide = aligned16(x, y) && cols % WIDE == 0;
    any_row<Warp>(kept(x) + row * cols, y + row * cols, cols, row < rows, wide, nullptr);
}

// The row stays in the registers of a block at most and is read once; what does not fit is read twice.
extern "C" __global__ void __launch_bounds__(1024)
    softmax_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    __shared__ Running table[Block::most];
    const long long row = Block::row();
    const bool wide = aligned16(x, y) && cols % WIDE == 0;
    any_row<Block>(kept(x) + row * cols, y + row * cols, cols, row < rows, wide, table);
}

// The row lies in the registers of a cluster of 2 to 8 blocks, 8 packs a thread, so that 65,536 columns are read once.
// Four blocks of 256 threads fit on a multiprocessor: while one waits for its cluster, the others load. What a longer
// row has beyond that is read twice. On an H200 at 1,024 x 65,536: 0.99 of a copy's speed in float32, 0.93 and 0.92 in
// float16 and bfloat16.
extern "C" __global__ void __launch_bounds__(1024)
    softmax_cluster(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, int cols) {
    __shared__ Running table[Cluster::most];
    if (leaves<Cluster>(rows)) return;
    Cluster::open();
    const Columns own = Cluster::columns(cols);
    const bool wide = aligned16(x, y) && cols % WIDE == 0;
    const long long start = Cluster::row() * cols + own.first;
    x = kept(x) + start, y += start;
    if (!wide) softmax_row<Floats<1, 4>, 4, false, Cluster>(x, y, own.count, table);
    else if (own.count <= 8 * WIDE * (int)blockDim.x) softmax_row<Elements<8>, 8, true, Cluster>(x, y, own.count, table);
    else softmax_row<Elements<4>, 4, false, Cluster>(x, y, own.count, table);
}
