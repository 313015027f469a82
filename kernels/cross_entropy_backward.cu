// Gradient of the cross-entropy of each row, in place of the logits x:
// dx[r][c] = (exp(x[r][c] - lse[r]) - [c == targets[r]]) * dloss[r], over a row-major matrix with a class a column.
// lse is the log-sum-exp of the row, which cross_entropy returns. A row whose target is ignore_index gets 0; one whose
// target is no class gets NaN.
//
// Every element is read once and written once; with lse known, elements do not depend on each other. At the target the
// difference cancels where the probability is near 1: that one element is expm1(x - lse), which keeps its digits.
// Threads lie in x along a row and in y down the rows. A thread of the fast entry has two packs of a row, whose loads
// are issued before the row's numbers arrive.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); the arithmetic is float32 in all three.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/exponentials.cuh"
#include "common/keep.cuh"

struct Row {
    float lse, scale;
    long long target;
    bool ignored;

    __device__ __forceinline__ Row(const float* lses, const long long* targets, const float* dloss, long long row,
                                   long long cols, long long ignore_index)
        : lse(lses[row]), scale(dloss[row]), target(targets[row]), ignored(target == ignore_index) {
        if (target < 0 || target >= cols) scale = NAN;
    }
    // The gradient at a column that is not the target, and at the target.
    __device__ __forceinline__ scalar_t beside(scalar_t x) const { return scalar_t(power(float(x) - lse) * scale); }
    __device__ __forceinline__ scalar_t at_target(scalar_t x) const { return scalar_t(expm1f(float(x) - lse) * scale); }
    __device__ __forceinline__ scalar_t at(long long c, scalar_t x) const {
        return ignored ? scalar_t(0.0f) : c == target ? at_target(x) : beside(x);
    }
    __device__ __forceinline__ Pack beside(const Pack& x) const {
        Pack out = {};  // zeros
        if (ignored) return out;
#pragma unroll
        for (int k = 0; k < WIDE; ++k) out.v[k] = beside(x.v[k]);
        return out;
    }
};

// The formula as written: one block a row.
extern "C" __global__ void cross_entropy_backward_plain(scalar_t* x, const float* __restrict__ lse,
                                                        const long long* __restrict__ targets,
                                                        const float* __restrict__ dloss, long long cols,
                                                        long long ignore_index) {
    const Row row(lse, targets, dloss, blockIdx.x, cols, ignore_index);
    x += blockIdx.x * cols;
    for (long long c = threadIdx.x; c < cols; c += blockDim.x) x[c] = row.at(c, x[c]);
}

constexpr int PACKS = 2;  // of a thread

// blockIdx.x counts the parts of a row; y and z, with blockDim.y, the rows. All packs lie on 16-byte boundaries, also
// where the row does not (50,257 columns): the elements before the first pack and after the last go one by one.
extern "C" __global__ void __launch_bounds__(256)
    cross_entropy_backward_vec(scalar_t* x, const float* __restrict__ lse, const long long* __restrict__ targets,
                               const float* __restrict__ dloss, long long rows, int cols, long long ignore_index) {
    const long long r = ((long long)blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    x += r * cols;
    const int head = min(int((16 - (size_t)x % 16) % 16 / sizeof(scalar_t)), cols), packs = (cols - head) / WIDE;
    const Pack* const from = reinterpret_cast<const Pack*>(kept(x) + head);
    Pack* const to = reinterpret_cast<Pack*>(x + head);
    const int first = blockIdx.x * PACKS * blockDim.x + threadIdx.x;
    Pack pack[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        if (first + p * (int)blockDim.x < packs) pack[p] = from[first + p * blockDim.x];
    const Row row(lse, targets, dloss, r, cols, ignore_index);
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
        const int at = first + p * blockDim.x;
        if (at >= packs) break;
        const long long place = row.target - head - (long long)at * WIDE;  // of the target in this pack
        const bool within = place >= 0 && place < WIDE && !row.ignored;
        const scalar_t found = within ? x[row.target] : scalar_t(0.0f);  // before the pack is overwritten
        to[at] = row.beside(pack[p]);
        if (within) x[row.target] = row.at_target(found);
    }
    if (blockIdx.x > 0) return;
    const int left = cols - packs * WIDE;
    for (int i = threadIdx.x; i < left; i += blockDim.x) {
        const int c = i < head ? i : i + packs * WIDE;
        x[c] = row.at(c, x[c]);
    }
}
