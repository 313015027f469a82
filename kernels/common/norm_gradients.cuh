// The gradients of a norm of each row of x. With d = x (RMSNorm) or x minus its mean (LayerNorm: `centered`), the scale
// r = 1 / sqrt(mean of d^2 + eps), the norm y = d * r * weight (+ beta), and g = dy * weight:
//     dx      = r * (g - mean of g - d * r^2 * mean of g * d)     without the mean of g unless centered
//     dweight = sum over the rows of dy * d * r
//     dbeta   = sum over the rows of dy
// The means are those of a row. They are made of x again, which has to be read for dx anyway.
//
// The threads that share a row take one row after another and keep the sums of their columns. So a column is summed in
// two steps: `norm_gradients` writes rows of `partial`, `column_sum` adds them.
#pragma once
#include <cuda_pipeline_primitives.h>
#include "keep.cuh"
#include "pack_at.cuh"
#include "row.cuh"
#include "team.cuh"

struct NormGradients {
    const scalar_t *dy, *x, *weight;
    scalar_t* dx;
    float *partial_weight, *partial_beta;  // the second is not used unless centered
    long long rows;
    int cols;
    float eps;
};

// Sums over the numbers of a warp or of a row, d being the distance from their own mean: of d * d, g and g * d.
struct __align__(16) RowSums {
    float mean, squares, g, gd;
};

// Every warp's sums. Rows take turns, so that a barrier between write and read is enough.
using Table = RowSums[2][Block::most];

__device__ __forceinline__ float of_lane(float value, int lane) { return __shfl_xor_sync(0xffffffffu, value, lane); }

// Adds each sum but the mean of another lane; the shuffles of one step do not wait for each other.
template <bool centered> __device__ __forceinline__ void add_lane(RowSums& sums, int lane) {
    const float squares = of_lane(sums.squares, lane), gd = of_lane(sums.gd, lane);
    if (centered) sums.g += of_lane(sums.g, lane);
    sums.squares += squares, sums.gd += gd;
}

// The sums of the row. `mine` are those of this thread about the mean of its warp, or of its row where that has no more
// than a warp; warp number `lane` of the team has `n` numbers. `of_one`: 1 / cols.
//
// Sets of numbers are joined about the mean of the first warp, so that one exchange between warps is enough. What
// cancels is at most as many times the variance as there are warps.
template <bool centered>
__device__ __forceinline__ RowSums over_team(RowSums mine, float n, float of_one, RowSums* table) {
    if (blockDim.x >= 32) {
#pragma unroll
        for (int s = 16; s > 0; s /= 2) add_lane<centered>(mine, s);
    } else {
        for (int s = blockDim.x / 2; s > 0; s /= 2) add_lane<centered>(mine, s);
    }
    if (!Block::several()) return mine;
    const int warps = Block::share(mine, table);
    RowSums row = table[threadIdx.x % warps];
    const float first = centered ? table[0].mean : 0.0f;
    if (centered) {
        const float e = row.mean - first;
        row.squares = fmaf(n * e, e, row.squares), row.gd = fmaf(row.g, e, row.gd), row.mean = n * e;
    }
    for (int s = warps / 2; s > 0; s /= 2) {
        if (centered) row.mean += of_lane(row.mean, s);
        add_lane<centered>(row, s);
    }
    if (centered) {
        const float e = row.mean * of_one;  // from the mean of the first warp to that of the row
        row.squares = fmaf(-row.mean, e, row.squares), row.gd = fmaf(-row.g, e, row.gd), row.mean = first + e;
    }
    return row;
}

// What the results of a row are made of: the mean of x, r, r times the mean of g, and r^2 times the mean of g * d.
struct RowMeans {
    float x, scale, g, gd;
};

__device__ __forceinline__ RowMeans means_of(RowSums row, float of_one, float eps) {
    const float squares = row.squares < 0.0f ? 0.0f : row.squares;  // by a rounding; NaN stays
    const float scale = rsqrtf(fmaf(squares, of_one, eps));
    return {row.mean, scale, scale * (row.g * of_one), scale * scale * (row.gd * of_one)};
}

// Adds what a pack of x and dy adds to the sums.
template <bool centered, int width>
__device__ __forceinline__ void add(RowSums& sums, const PackOf<width>& x, const PackOf<width>& dy,
                                    const PackOf<width>& weight) {
#pragma unroll
    for (int k = 0; k < width; ++k) {
        const float d = centered ? float(x.v[k]) - sums.mean : float(x.v[k]), g = float(dy.v[k]) * float(weight.v[k]);
        sums.squares = fmaf(d, d, sums.squares), sums.gd = fmaf(g, d, sums.gd);
        if (centered) sums.g += g;
    }
}

// The pack of dx. Adds the terms of dweight and dbeta to `weights` and `betas`.
template <bool centered, int width>
__device__ __forceinline__ PackOf<width> finish(const PackOf<width>& x, const PackOf<width>& dy,
                                                const PackOf<width>& weight, RowMeans row, float* weights,
                                                float* betas) {
    float dx[width];
    PackOf<width> out;
#pragma unroll
    for (int k = 0; k < width; ++k) {
        const float d = centered ? float(x.v[k]) - row.x : float(x.v[k]), normal = d * row.scale;
        const float gradient = float(dy.v[k]), g = gradient * float(weight.v[k]);
        dx[k] = fmaf(-normal, row.gd, centered ? fmaf(g, row.scale, -row.g) : g * row.scale);
        weights[k] = fmaf(gradient, normal, weights[k]);
        if (centered) betas[k] += gradient;
    }
#pragma unroll
    for (int k = 0; k < width; ++k) out.v[k] = scalar_t(dx[k]);
    return out;
}

// Teams of less than a warp: those of a warp join their sums of columns, so that `partial` has fewer rows.
__device__ __forceinline__ int joined() { return max(32 / (int)blockDim.x, 1); }
__device__ __forceinline__ long long joined_row() { return Block::row() / joined(); }
__device__ __forceinline__ bool joins() { return threadIdx.y % joined() == 0; }  // one thread of them for each column
__device__ __forceinline__ float over_teams(float sum) {
#pragma unroll 1
    for (int s = blockDim.x; s < 32; s *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, s);
    return sum;
}

// How many numbers of a row warp number `warp` of its team has; where the team is no whole warp, its lanes.
template <int width> __device__ __forceinline__ int numbers(int cols, int warp) {
    const int lanes = min(blockDim.x, 32), packs = cols / width, turns = packs / blockDim.x;
    return (turns * lanes + min(max(packs - turns * (int)blockDim.x - warp * lanes, 0), lanes)) * width;
}

// The packs of one row that a thread has, in registers; the next row is loaded before this one is processed.
template <int packs> struct InRegisters {
    Words x[packs], dy[packs], next_x[packs], next_dy[packs];

    __device__ __forceinline__ static void load(const NormGradients& a, long long row, Words* x, Words* dy) {
        const int cols = row < a.rows ? a.cols : 0;
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const long long at = row * a.cols + place<WIDE>(p);
            x[p] = dy[p] = Words{};
            if (place<WIDE>(p) < cols)
                x[p] = *reinterpret_cast<const Words*>(a.x + at), dy[p] = *reinterpret_cast<const Words*>(a.dy + at);
        }
    }
    __device__ __forceinline__ void begin(const NormGradients& a, long long row, long long) {
        load(a, row, next_x, next_dy);
    }
    __device__ __forceinline__ void advance(const NormGradients& a, long long row, long long teams) {
#pragma unroll
        for (int p = 0; p < packs; ++p) x[p] = next_x[p], dy[p] = next_dy[p];
        load(a, row + teams, next_x, next_dy);
    }
    __device__ __forceinline__ const Pack& pack_of_x(int p) const { return reinterpret_cast<const Pack&>(x[p]); }
    __device__ __forceinline__ const Pack& pack_of_dy(int p) const { return reinterpret_cast<const Pack&>(dy[p]); }
    // Changes nothing, which the compiler does not know: it would keep float32 that it has converted once.
    __device__ __forceinline__ void again(int cols) {
        if (sizeof(scalar_t) == 4) return;
        const unsigned same = 0x3210u + (cols < 0);
#pragma unroll
        for (int i = 0; i < 4 * packs; ++i) {
            x[i / 4].v[i % 4] = __byte_perm(x[i / 4].v[i % 4], 0, same);
            dy[i / 4].v[i % 4] = __byte_perm(dy[i / 4].v[i % 4], 0, same);
        }
    }
};

// The packs in dynamic shared memory, where the thread copies them itself, `stages` - 1 rows ahead. A block has one
// row.
template <int packs, int stages> struct InSharedMemory {
    Pack* own;
    int stage = 0;

    __device__ __forceinline__ Pack* slot(int stage, int array, int p) const {
        return own + ((stage * 2 + array) * packs + p) * blockDim.x;
    }
    __device__ __forceinline__ void fetch(const NormGradients& a, long long row, int stage) const {
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<WIDE>(p);
            if (row >= a.rows || first >= a.cols) continue;
            __pipeline_memcpy_async(slot(stage, 0, p), a.x + row * a.cols + first, sizeof(Pack));
            __pipeline_memcpy_async(slot(stage, 1, p), a.dy + row * a.cols + first, sizeof(Pack));
        }
        __pipeline_commit();
    }
    __device__ __forceinline__ void begin(const NormGradients& a, long long row, long long teams) {
        for (int s = 0; s < stages - 1; ++s) fetch(a, row + s * teams, s);
        stage = stages - 1;
    }
    __device__ __forceinline__ void advance(const NormGradients& a, long long row, long long teams) {
        fetch(a, row + (stages - 1) * teams, stage);
        stage = stage + 1 == stages ? 0 : stage + 1;
        __pipeline_wait_prior(stages - 1);
    }
    __device__ __forceinline__ Pack pack_of_x(int p) const { return *slot(stage, 0, p); }
    __device__ __forceinline__ Pack pack_of_dy(int p) const { return *slot(stage, 1, p); }
    __device__ __forceinline__ void again(int) {}
};

// Rows that are read once: a thread has at most `packs` packs of x and of dy, and of the sums of its columns; if `keeps`,
// of the weight too, which else comes from L1: registers are few.
template <bool centered, int packs, bool keeps, class Rows>
__device__ __forceinline__ void held_rows(const NormGradients& a, Rows rows, Table& table) {
    float weights[packs * WIDE] = {}, betas[packs * WIDE] = {};
    const float of_one = 1.0f / a.cols;
    const long long teams = (long long)gridDim.x * blockDim.y, team = Block::row();
    const float of_own = 1.0f / max(numbers<WIDE>(a.cols, threadIdx.x / 32), 1);
    const float n = numbers<WIDE>(a.cols, threadIdx.x % max(blockDim.x / 32, 1));
    rows.begin(a, team, teams);
    Pack kept_weight[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p)
        if (keeps && place<WIDE>(p) < a.cols) kept_weight[p] = pack_at<WIDE>(a.weight + place<WIDE>(p));
    const auto weight = [&](int p) { return keeps ? kept_weight[p] : pack_at<WIDE>(a.weight + place<WIDE>(p)); };
    int turn = 0;
    // All threads of a block take part in each turn, since shuffles and barriers need them; those without a row have
    // no columns.
    for (long long row = team; row - threadIdx.y < a.rows; row += teams, turn ^= 1) {
        const int cols = row < a.rows ? a.cols : 0;
        rows.advance(a, row, teams);
        RowSums sums = {};
        if (centered) {
#pragma unroll
            for (int p = 0; p < packs; ++p) {
                if (place<WIDE>(p) >= cols) continue;
                const Pack x = rows.pack_of_x(p);
#pragma unroll
                for (int k = 0; k < WIDE; ++k) sums.mean += float(x.v[k]);
            }
            sums.mean = over_lanes<total>(sums.mean, blockDim.x) * of_own;
            rows.again(cols);
        }
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            if (place<WIDE>(p) < cols) add<centered, WIDE>(sums, rows.pack_of_x(p), rows.pack_of_dy(p), weight(p));
        }
        const RowMeans means = means_of(over_team<centered>(sums, n, of_one, table[turn]), of_one, a.eps);
        rows.again(cols);
#pragma unroll
        for (int p = 0; p < packs; ++p) {
            const int first = place<WIDE>(p), i = p * WIDE;
            if (first >= cols) continue;
            const Pack x = rows.pack_of_x(p), dy = rows.pack_of_dy(p);
            const Pack dx = finish<centered, WIDE>(x, dy, weight(p), means, weights + i, betas + i);
            *reinterpret_cast<Pack*>(a.dx + row * a.cols + first) = dx;
        }
    }
    const auto write = [&](float* partial, const float* sums) {
#pragma unroll
        for (int i = 0; i < packs * WIDE; i += 4) {
            const float4 four = {over_teams(sums[i]), over_teams(sums[i + 1]), over_teams(sums[i + 2]),
                                 over_teams(sums[i + 3])};
            const int c = place<WIDE>(i / WIDE) + i % WIDE;
            if (c < a.cols && joins()) *reinterpret_cast<float4*>(partial + joined_row() * a.cols + c) = four;
        }
    };
    write(a.partial_weight, weights);
    if (centered) write(a.partial_beta, betas);
}

// Rows of any length: each is read for its means and for its results, and the sums of columns are in memory. Only the
// thread that adds to such a sum reads it.
template <bool centered, int width>
__device__ __forceinline__ void long_rows(const NormGradients& a, Table& table) {
    const int turns = (a.cols + width * blockDim.x - 1) / (width * blockDim.x);
    const long long teams = (long long)gridDim.x * blockDim.y, team = Block::row();
    const float of_one = 1.0f / a.cols, n = numbers<width>(a.cols, threadIdx.x % max(blockDim.x / 32, 1));
    float* const sums_of_weight = a.partial_weight + joined_row() * a.cols;
    float* const sums_of_beta = a.partial_beta + joined_row() * a.cols;
    for (int at = 0; place<width>(at) < a.cols && joins(); ++at) {
#pragma unroll
        for (int c = place<width>(at), k = 0; k < width; ++k) {
            sums_of_weight[c + k] = 0.0f;
            if (centered) sums_of_beta[c + k] = 0.0f;
        }
    }
    int turn = 0;
    for (long long row = team; row - threadIdx.y < a.rows; row += teams, turn ^= 1) {
        const int cols = row < a.rows ? a.cols : 0;
        const scalar_t *const x = a.x + row * a.cols, *const dy = a.dy + row * a.cols;
        RowSums sums = {};
        if (centered) {
            for (int at = 0; place<width>(at) < cols; ++at) {
                const PackOf<width> one = pack_at<width>(x + place<width>(at));
#pragma unroll
                for (int k = 0; k < width; ++k) sums.mean += float(one.v[k]);
            }
            sums.mean = over_lanes<total>(sums.mean, blockDim.x) / max(numbers<width>(a.cols, threadIdx.x / 32), 1);
        }
        for (int at = 0; place<width>(at) < cols; ++at) {
            const int c = place<width>(at);
            add<centered, width>(sums, pack_at<width>(x + c), pack_at<width>(dy + c), pack_at<width>(a.weight + c));
        }
        const RowMeans means = means_of(over_team<centered>(sums, n, of_one, table[turn]), of_one, a.eps);
        for (int at = 0; at < turns; ++at) {  // of all lanes, since they join their sums
            const int c = place<width>(at);
            float weights[width] = {}, betas[width] = {};
            if (c < cols) {
                const PackOf<width> of_x = pack_at<width>(x + c), of_dy = pack_at<width>(dy + c);
                const PackOf<width> weight = pack_at<width>(a.weight + c);
                const PackOf<width> dx = finish<centered, width>(of_x, of_dy, weight, means, weights, betas);
                *reinterpret_cast<PackOf<width>*>(a.dx + row * a.cols + c) = dx;
            }
#pragma unroll
            for (int k = 0; k < width; ++k) {
                const float w = over_teams(weights[k]), b = centered ? over_teams(betas[k]) : 0.0f;
                if (c >= a.cols || !joins()) continue;
                sums_of_weight[c + k] += w;
                if (centered) sums_of_beta[c + k] += b;
            }
        }
    }
}

// Packs of x, and of dy, that a thread has in registers, and in shared memory.
constexpr int IN_REGISTERS = sizeof(scalar_t) == 2 ? 2 : 1;
constexpr int IN_SHARED_MEMORY = 4, STAGES = sizeof(scalar_t) == 2 ? 2 : 1;

// `ring`: dynamic shared memory for STAGES rows, if rows are too long for registers and short enough for it. `wide`:
// 16-byte accesses are allowed.
template <bool centered>
__device__ __forceinline__ void norm_gradients(const NormGradients& a, Pack* ring, bool wide) {
    __shared__ Table table;
    const int turn = blockDim.x * WIDE;  // columns of one pack a thread
    if (!wide) {
        long_rows<centered, 1>(a, table);
    } else if (a.cols <= IN_REGISTERS * turn) {
        held_rows<centered, IN_REGISTERS, false>(a, InRegisters<IN_REGISTERS>{}, table);
    } else if (a.cols <= IN_SHARED_MEMORY * turn) {
        const InSharedMemory<IN_SHARED_MEMORY, STAGES> rows{ring + threadIdx.x};
        held_rows<centered, IN_SHARED_MEMORY, false>(a, rows, table);
    } else {
        long_rows<centered, WIDE>(a, table);
    }
}

// The same for rows of at most two packs a thread, all in registers.
template <bool centered> __device__ __forceinline__ void norm_gradients_of_two(const NormGradients& a, bool wide) {
    __shared__ Table table;
    if (wide && a.cols <= 2 * WIDE * (int)blockDim.x) held_rows<centered, 2, true>(a, InRegisters<2>{}, table);
    else long_rows<centered, 1>(a, table);
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
