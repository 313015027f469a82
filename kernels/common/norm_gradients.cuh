// The gradients of a norm of each row of x. With d = x (RMSNorm) or x minus its mean (LayerNorm: `centered`), the scale
// r = 1 / sqrt(mean of d^2 + eps), the norm y = d * r * weight (+ beta), and g = dy * weight:
//     dx      = r * (g - mean of g - d * r^2 * mean of g * d)     without the mean of g unless centered
//     dweight = sum over the rows of dy * d * r
//     dbeta   = sum over the rows of dy
// The means are those of a row. They are made of x again, which has to be read for dx anyway.
//
// The threads that share a row (row.cuh) take one row after another and keep the sums of their columns. So a column is
// summed in two steps: `norm_gradients` writes a row of `partial` for each team of threads, `column_sum` adds them.
#pragma once
#include "keep.cuh"
#include "row.cuh"
#include "team.cuh"

struct NormGradients {
    const scalar_t *dy, *x, *weight;
    scalar_t* dx;
    float *partial_weight, *partial_beta;  // a row of `cols` for each team; the second is not used unless centered
    long long rows;
    int cols;
    float eps;
};

// Sums over a row: of d * d, g and g * d.
struct RowSums {
    float squares, g, gd;
};

// What the results of a row are made of: the mean of x, r, the mean of g, and r^2 times the mean of g * d.
struct RowMeans {
    float x, scale, g, gd;
};

struct Tables {
    float x[2][Block::most];
    RowSums sums[2][Block::most];  // rows take turns, so that a barrier between write and read is enough
};

__device__ __forceinline__ RowMeans means_of(float mean, RowSums sums, int cols, float eps) {
    const float scale = rsqrtf(sums.squares / cols + eps);
    return {mean, scale, sums.g / cols, scale * scale * (sums.gd / cols)};
}

__device__ __forceinline__ RowSums over_team(RowSums mine, RowSums* table) {
    const int lanes = blockDim.x;
    mine.squares = over_lanes<total>(mine.squares, lanes), mine.g = over_lanes<total>(mine.g, lanes);
    mine.gd = over_lanes<total>(mine.gd, lanes);
    if (!Block::several()) return mine;
    const int n = Block::share(mine, table);
    mine.squares = over_table<Block, total>(n, [table](int i) { return table[i].squares; });
    mine.g = over_table<Block, total>(n, [table](int i) { return table[i].g; });
    mine.gd = over_table<Block, total>(n, [table](int i) { return table[i].gd; });
    return mine;
}

// Adds what pack number `pack` of x and dy adds to the sums of the row.
template <bool centered, int width, class Values>
__device__ __forceinline__ void add(RowSums& sums, const Values& x, const Values& dy, int pack, const float* weight,
                                    float mean) {
#pragma unroll
    for (int i = pack * width, k = 0; k < width; ++k, ++i) {
        const float d = centered ? x[i] - mean : x[i], g = dy[i] * weight[k];
        sums.squares = fmaf(d, d, sums.squares), sums.gd = fmaf(g, d, sums.gd);
        if (centered) sums.g += g;
    }
}

// Writes a pack of dx, and adds the pack's terms of dweight and dbeta to `weights` and `betas`.
template <bool centered, int width, class Values>
__device__ __forceinline__ void finish(scalar_t* dx, const Values& x, const Values& dy, int pack, const float* weight,
                                       RowMeans row, float* weights, float* betas) {
    PackOf<width> out;
#pragma unroll
    for (int i = pack * width, k = 0; k < width; ++k, ++i) {
        const float d = centered ? x[i] - row.x : x[i], g = dy[i] * weight[k];
        out.v[k] = scalar_t(row.scale * fmaf(-d, row.gd, centered ? g - row.g : g));
        weights[k] += dy[i] * (d * row.scale);
        if (centered) betas[k] += dy[i];
    }
    *reinterpret_cast<PackOf<width>*>(dx) = out;
}

// Rows that stay in registers: a thread has at most `packs` packs of dy and of x, and of the sums of its columns. In 16
// bits there is room for the next row too, which is loaded before this one is processed.
template <bool centered, int width, int packs>
__device__ __forceinline__ void held_rows(const NormGradients& a, Tables& tables) {
    constexpr int n = packs * width;
    constexpr bool ahead = sizeof(scalar_t) == 2;
    Held<width, packs> x, dy, next_x, next_dy;
    float weight[width], weights[n] = {}, betas[n] = {};
    const long long teams = (long long)gridDim.x * blockDim.y, team = Block::row();
    const auto load = [&](long long row, Held<width, packs>& x, Held<width, packs>& dy) {
        const int cols = row < a.rows ? a.cols : 0;
        x.load(a.x + row * a.cols, 0, cols, 0.0f);
        dy.load(a.dy + row * a.cols, 0, cols, 0.0f);
    };
    if (ahead) load(team, next_x, next_dy);
    int turn = 0;
    // All threads of a block take part in each turn, since shuffles and barriers need them; those without a row have
    // no columns.
    for (long long row = team; row - threadIdx.y < a.rows; row += teams, turn ^= 1) {
        const int cols = row < a.rows ? a.cols : 0;
        const long long start = row * a.cols;
        if (ahead) {
            x = next_x, dy = next_dy;
            load(row + teams, next_x, next_dy);
        } else {
            load(row, x, dy);
        }
        float mean = 0.0f;
        if (centered) {
#pragma unroll
            for (int i = 0; i < n; ++i) mean += x[i];
            mean = over_team<Block, total>(mean, tables.x[turn]) / a.cols;
        }
        RowSums sums = {};
        x.again(cols);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            if (place<width>(p) >= cols) continue;
            read<width, 1>(a.weight, p, cols, 0.0f, weight);
            add<centered, width>(sums, x, dy, p, weight, mean);
        }
        const RowMeans means = means_of(mean, over_team(sums, tables.sums[turn]), a.cols, a.eps);
        x.again(cols), dy.again(cols);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<width>(p), i = p * width;
            if (first >= cols) continue;
            read<width, 1>(a.weight, p, cols, 0.0f, weight);  // again, from L1: registers are few
            finish<centered, width>(a.dx + start + first, x, dy, p, weight, means, weights + i, betas + i);
        }
    }
#pragma unroll
    for (int i = 0; i < n; ++i) {
        const int c = place<width>(i / width) + i % width;
        if (c >= a.cols) continue;
        a.partial_weight[team * a.cols + c] = weights[i];
        if (centered) a.partial_beta[team * a.cols + c] = betas[i];
    }
}

// Rows of any length: each is read for its means and for its results, and the sums of columns are in memory. Only the
// thread that adds to such a sum reads it.
template <bool centered, int width>
__device__ __forceinline__ void long_rows(const NormGradients& a, Tables& tables) {
    Held<width, 1> x, dy;
    float weight[width];
    const long long teams = (long long)gridDim.x * blockDim.y, team = Block::row();
    float *const weights = a.partial_weight + team * a.cols, *const betas = a.partial_beta + team * a.cols;
    for (int at = 0; place<width>(at) < a.cols; ++at) {
#pragma unroll
        for (int k = 0; k < width; ++k) {
            weights[place<width>(at) + k] = 0.0f;
            if (centered) betas[place<width>(at) + k] = 0.0f;
        }
    }
    int turn = 0;
    for (long long row = team; row - threadIdx.y < a.rows; row += teams, turn ^= 1) {
        const int cols = row < a.rows ? a.cols : 0;
        const long long start = row * a.cols;
        float mean = 0.0f;
        if (centered) {
            for (int at = 0; place<width>(at) < cols; ++at) {
                x.load(a.x + start, at, cols, 0.0f);
#pragma unroll
                for (int k = 0; k < width; ++k) mean += x[k];
            }
            mean = over_team<Block, total>(mean, tables.x[turn]) / a.cols;
        }
        RowSums sums = {};
        for (int at = 0; place<width>(at) < cols; ++at) {
            x.load(a.x + start, at, cols, 0.0f), dy.load(a.dy + start, at, cols, 0.0f);
            read<width, 1>(a.weight, at, cols, 0.0f, weight);
            add<centered, width>(sums, x, dy, 0, weight, mean);
        }
        const RowMeans means = means_of(mean, over_team(sums, tables.sums[turn]), a.cols, a.eps);
        for (int at = 0; place<width>(at) < cols; ++at) {
            const int first = place<width>(at);
            x.load(a.x + start, at, cols, 0.0f), dy.load(a.dy + start, at, cols, 0.0f);
            read<width, 1>(a.weight, at, cols, 0.0f, weight);
            finish<centered, width>(a.dx + start + first, x, dy, 0, weight, means, weights + first, betas + first);
        }
    }
}

// A thread keeps up to 8 elements of each array. `wide`: 16-byte accesses are allowed.
template <bool centered> __device__ __forceinline__ void norm_gradients(const NormGradients& a, bool wide) {
    __shared__ Tables tables;
    if (!wide) long_rows<centered, 1>(a, tables);
    else if (a.cols <= (int)blockDim.x * WIDE) held_rows<centered, WIDE, 1>(a, tables);
    else if (a.cols <= (int)blockDim.x * 8) held_rows<centered, WIDE, 8 / WIDE>(a, tables);
    else long_rows<centered, WIDE>(a, tables);
}

// The sum over `rows` rows of term(row) of this thread's column, which is number blockIdx.x * 32 + threadIdx.x; a block
// has 32 x 32 threads. The lanes of warp w get the sum of column blockIdx.x * 32 + w.
template <class Term> __device__ __forceinline__ float column_sum(long long rows, bool exists, Term term) {
    __shared__ float table[32][33];  // a column of it lies in 32 banks
    float sum = 0.0f;
    if (exists)
        for (long long row = threadIdx.y; row < rows; row += 32) sum += term(row);
    table[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    return over_lanes<total>(table[threadIdx.x][threadIdx.y], 32);
}

// sums[c] of the rows of `partial`, one for each team.
__device__ __forceinline__ void add_partial(const float* partial, scalar_t* sums, int teams, int cols) {
    const int mine = blockIdx.x * 32 + threadIdx.x, due = blockIdx.x * 32 + threadIdx.y;
    const float sum = column_sum(teams, mine < cols, [&](long long team) { return partial[team * cols + mine]; });
    if (threadIdx.x == 0 && due < cols) sums[due] = scalar_t(sum);
}
