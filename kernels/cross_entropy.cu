// Cross-entropy of each row of logits x with its target class, and the log-sum-exp that the gradient needs:
// lse[r] = log(sum of exp(x[r][c])), loss[r] = lse[r] - x[r][targets[r]], over a row-major matrix with a class a column.
// A row whose target is ignore_index has the loss 0. A target that is no class, and NaN or +inf in the row, give NaN.
//
// The least traffic is one read of the matrix, and one pass is enough: the sum is kept in units of the largest value so
// far (common/exponentials.cuh). No row has to be held, so its length is not limited. With the largest value `top` and
// the sum in its units, loss = log(sum) + (top - x[target]): a large offset of all logits costs no digits.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic and both results are float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/exponentials.cuh"
#include "common/keep.cuh"

struct Results {
    float *loss, *lse;

    __device__ __forceinline__ void write(long long row, Running all, float logit, bool ignored) const {
        const float log_sum = logf(all.sum);
        lse[row] = all.top + log_sum;
        loss[row] = ignored ? 0.0f : log_sum + (all.top - logit);
    }
};

// The logit of a row's target; NaN if it is no class.
__device__ __forceinline__ float logit_of(const scalar_t* row, long long target, long long cols) {
    return target >= 0 && target < cols ? float(row[target]) : NAN;
}

// The formula as written: one block a row, which is read for the maximum and for the sum.
extern "C" __global__ void cross_entropy_plain(const scalar_t* __restrict__ x, const long long* __restrict__ targets,
                                               float* __restrict__ loss, float* __restrict__ lse, long long cols,
                                               long long ignore_index) {
    __shared__ float tops[32], sums[32];
    x += blockIdx.x * cols;
    Running all;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) all.top = fmaxf(all.top, float(x[c]));
    all.top = over_block<largest>(all.top, -INFINITY, tops);
    const float base = all.top == -INFINITY ? 0.0f : all.top;  // exp(-inf - base) is 0
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) all.sum += expf(float(x[c]) - base);
    all.sum = over_block<total>(all.sum, 0.0f, sums);
    const Results results = {loss, lse};
    const long long target = targets[blockIdx.x];
    if (threadIdx.x == 0) results.write(blockIdx.x, all, logit_of(x, target, cols), target == ignore_index);
}

constexpr int FLIGHT = 4;  // packs of a thread whose loads are issued together

// Takes FLIGHT packs into account; float32.
__device__ __forceinline__ void add_packs(Running& mine, const Pack* packs, const float*) {
    float v[FLIGHT * WIDE];
#pragma unroll
    for (int i = 0; i < FLIGHT * WIDE; ++i) v[i] = float(packs[i / WIDE].v[i % WIDE]);
    extend<FLIGHT * WIDE>(mine, v);
}

// 16 bits: 9 instructions an element, where float32 has 14, since memory leaves half the time for an element.
template <class T> __device__ __forceinline__ void add_packs(Running& mine, const Pack* packs, const T*) {
    constexpr int n = FLIGHT * WIDE / 2;
    const auto* const pairs = reinterpret_cast<const typename Two<T>::type*>(packs);
    const float found = largest_in<n>(pairs), top = fmaxf(mine.top, found);
    mine.sum = mine.in_units_of(top) + sum_of_powers<n>(pairs, found, top);
    mine.top = top;
}

// Maximum and sum of what a thread has of `cols` neighbouring elements. All packs lie on 16-byte boundaries, also where
// the row does not (50,257 columns): the elements before the first pack and after the last go one by one.
__device__ __forceinline__ Running running_of(const scalar_t* x, int cols) {
    const int head = min(int((16 - (size_t)x % 16) % 16 / sizeof(scalar_t)), cols), packs = (cols - head) / WIDE;
    const Pack* const body = reinterpret_cast<const Pack*>(x + head);
    Running mine;
    Pack turn[FLIGHT];
    int at = threadIdx.x;
    for (; at + (FLIGHT - 1) * (int)blockDim.x < packs; at += FLIGHT * blockDim.x) {
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) turn[f] = body[at + f * blockDim.x];
        add_packs(mine, turn, x);
    }
    if (at < packs) {  // the rest of a turn
#pragma unroll
        for (int f = 0; f < FLIGHT; ++f) {
#pragma unroll
            for (int k = 0; k < WIDE; ++k) turn[f].v[k] = scalar_t(-INFINITY);
            if (at + f * (int)blockDim.x < packs) turn[f] = body[at + f * blockDim.x];
        }
        add_packs(mine, turn, x);
    }
    const int left = cols - packs * WIDE;
    for (int c = threadIdx.x; c < left; c += blockDim.x) mine.add(float(x[c < head ? c : c + packs * WIDE]));
    return mine;
}

template <class Team>
__device__ __forceinline__ void any_row(const scalar_t* x, const long long* targets, const Results& results,
                                        long long rows, int cols, long long ignore_index) {
    __shared__ Running table[Team::most];
    if (leaves<Team>(rows)) return;
    Team::open();
    const long long row = Team::row();
    const bool exists = row < rows;  // other threads read nothing, but the warp's shuffles need these lanes
    const Columns own = Team::columns(cols);
    x = kept(x) + row * cols;
    // The two loads, one after the other, wait while the row is read.
    const long long target = exists && Team::leads() ? targets[row] : -1;
    const float logit = logit_of(x, target, cols);
    const Running all = over_threads<Team>(running_of(x + own.first, exists ? own.count : 0), table);
    if (exists && Team::leads()) results.write(row, all, logit, target == ignore_index);
}

// One pass over the row, which has blockDim.x threads, a power of two: part of a warp, a warp, or the whole block (then
// blockDim.y is 1; else blockDim.y rows share the block). A thread goes through the row in turns of 4 packs.
extern "C" __global__ void __launch_bounds__(1024)
    cross_entropy_vec(const scalar_t* __restrict__ x, const long long* __restrict__ targets, float* __restrict__ loss,
                      float* __restrict__ lse, long long rows, int cols, long long ignore_index) {
    any_row<Block>(x, targets, {loss, lse}, rows, cols, ignore_index);
}

// A cluster of 2 to 8 blocks a row, for few long rows, which leave multiprocessors idle with a block each. Not measured,
// so no call takes it yet.
extern "C" __global__ void __launch_bounds__(1024)
    cross_entropy_cluster(const scalar_t* __restrict__ x, const long long* __restrict__ targets,
                          float* __restrict__ loss, float* __restrict__ lse, long long rows, int cols,
                          long long ignore_index) {
    any_row<Cluster>(x, targets, {loss, lse}, rows, cols, ignore_index);
}
