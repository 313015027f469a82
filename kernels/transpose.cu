// Transpose of a row-major matrix, y[c][r] = x[r][c].
//
// Every element is read once and written once, so a copy is the limit. The difficulty: neighbours in x are far apart in
// y, and memory moves at least 32 bytes at a time. So a tile goes through shared memory, where reading a column costs
// no more than reading a row, and both sides of the tile access memory in whole lines.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); elements are moved, not computed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "common/keep.cuh"

#define TILE 32  // elements on a side
#define STEP 8   // a block has TILE x STEP threads, a thread TILE / STEP elements

// Blocks number the tiles column by column, so that the tiles at work together write long runs of y's rows. Row by row
// they read long runs of x instead, and take 2 to 3 % longer. A grid has at most 65,535 blocks in y, so wide matrices
// use z too; the last tiles may lie beyond the matrix. Sides have 32 bits and only their products 64. At 256 x 384 this
// and the grid save 4 % of the time, and 9 % back to back, over an index into a row of tiles that had to be divided.
__device__ __forceinline__ unsigned top_of(unsigned side) { return blockIdx.x * side; }
__device__ __forceinline__ unsigned left_of(unsigned side) { return (blockIdx.z * gridDim.y + blockIdx.y) * side; }

// Without shared memory: a warp reads 32 neighbours and writes 32 elements that are `rows` apart.
// On an H200 at 4,096 x 8,192: an eighth of a copy's speed in float32, a fifteenth in 16 bits.
extern "C" __global__ void transpose_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, unsigned rows,
                                           unsigned cols) {
    const unsigned col = left_of(TILE) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const unsigned row = top_of(TILE) + threadIdx.y + k;
        if (col < cols && row < rows) y[(size_t)col * rows + row] = x[(size_t)row * cols + col];
    }
}

// Through a tile in shared memory. Its rows are one element longer than needed, so that the elements of a column lie in
// different banks. 0.90 of a copy's speed; 0.61 in 16 bits, where a warp moves only 64 bytes at a time.
extern "C" __global__ void transpose_tile(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, unsigned rows,
                                          unsigned cols) {
    __shared__ scalar_t tile[TILE][TILE + 1];
    const unsigned top = top_of(TILE), left = left_of(TILE);
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const unsigned r = threadIdx.y + k;
        if (left + threadIdx.x < cols && top + r < rows)
            tile[r][threadIdx.x] = x[(size_t)(top + r) * cols + left + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const unsigned c = threadIdx.y + k;
        if (top + threadIdx.x < rows && left + c < cols)
            y[(size_t)(left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
    }
}

struct __align__(16) Words {
    unsigned v[4];
};

#define WIDTH (16 / (int)sizeof(scalar_t))  // elements of 16 bytes
#define PAIR (4 / (int)sizeof(scalar_t))    // elements of a word, and rows of x that make a row of words

// 16 bytes an access on both sides of a tile of SIDE x SIDE words of 4 bytes. In 16 bits a word is two elements that
// are neighbours in a row of y and come from two rows of x, so the tile covers twice as many rows of x. A thread issues
// all its loads before it stores the first word. The tile has y's layout: threads store it word by word and read it
// back as 16 bytes of a row of y. The place of a group of four words in its row of the tile depends on the pack of x
// that the row comes from, so that neither side has bank conflicts.
template <int SIDE, int THREADS> struct Tile {
    static constexpr int ACROSS = SIDE / WIDTH;             // 16-byte pieces of a row of x in the tile
    static constexpr int BESIDE = ACROSS < 8 ? ACROSS : 8;  // pieces of a row that a warp takes
    static constexpr int BELOW = 32 / BESIDE;               // rows of words that a warp takes
    static constexpr int STEPS = SIDE * ACROSS / THREADS;   // pieces of each of PAIR rows that a thread loads
    static constexpr int DOWN = SIDE / STEPS;               // rows of words from one of them to the next
    static constexpr int GROUPS = SIDE / 4;                 // of four words in a row
    static constexpr int ROWS = THREADS / GROUPS;           // of y that the threads store at a time
    static constexpr int LONGER = SIDE + PAIR;              // elements of a row where they are moved one by one

    // The group's place in row `pack * WIDTH + k` of the tile.
    static __device__ __forceinline__ int group_at(int pack, int k, int group) {
        return (pack * WIDTH + k) * GROUPS + (group ^ pack * PAIR % GROUPS);
    }

    // Column k of pieces of neighbouring rows, as a word.
    static __device__ __forceinline__ unsigned column(const Words* pieces, int k) {
        if (PAIR == 1) return pieces[0].v[k % 4];
        const unsigned upper = pieces[0].v[k / PAIR], lower = pieces[PAIR - 1].v[k / PAIR];
        return k % 2 == 0 ? (upper & 0xffffu) | (lower << 16) : (upper >> 16) | (lower & 0xffff0000u);
    }

    // Addresses are computed once and then advanced. A `whole` tile checks no bounds.
    template <bool whole>
    static __device__ __forceinline__ void by_words(const scalar_t* x, scalar_t* y, unsigned rows, unsigned cols,
                                                    unsigned top, unsigned left, Words* tile) {
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, parts = ACROSS / BESIDE;
        const unsigned piece = lane % BESIDE + warp % parts * BESIDE, first = lane / BESIDE + warp / parts * BELOW;
        const unsigned row = top + first * PAIR, col = left + piece * WIDTH;
        x += (size_t)row * cols + col;
        Words pieces[STEPS][PAIR];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
#pragma unroll
            for (int p = 0; p < PAIR; ++p)
                if (whole || (row + s * DOWN * PAIR < rows && col < cols))
                    pieces[s][p] = *reinterpret_cast<const Words*>(x + (size_t)(s * DOWN * PAIR + p) * cols);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const unsigned word = first + s * DOWN;
#pragma unroll
            for (int k = 0; k < WIDTH; ++k) tile[group_at(piece, k, word / 4)].v[word % 4] = column(pieces[s], k);
        }
        __syncthreads();
        const unsigned c = threadIdx.x / GROUPS, group = threadIdx.x % GROUPS;
        y += (size_t)(left + c) * rows + top + group * WIDTH;
#pragma unroll
        for (int s = 0; s < SIDE / ROWS; ++s) {
            const unsigned pack = c / WIDTH + s * (ROWS / WIDTH);
            if (whole || (top + group * WIDTH < rows && left + c + s * ROWS < cols))
                *reinterpret_cast<Words*>(y + (size_t)(s * ROWS) * rows) = tile[group_at(pack, c % WIDTH, group)];
        }
    }

    // The same tile element by element, as PAIR squares whose rows are a bank longer. A thread has four loads in
    // flight.
    static __device__ __forceinline__ void by_elements(const scalar_t* x, scalar_t* y, unsigned rows, unsigned cols,
                                                       unsigned top, unsigned left, scalar_t* tile) {
        const int c = threadIdx.x % SIDE, step = THREADS / SIDE;
        const int wide = cols - left < SIDE ? cols - left : SIDE;
        x += (size_t)top * cols + left, y += (size_t)left * rows + top;
        for (int square = 0; square < PAIR; ++square, top += SIDE, x += (size_t)SIDE * cols, y += SIDE) {
            const int high = rows <= top ? 0 : rows - top < SIDE ? rows - top : SIDE;
#pragma unroll 1
            for (int r = threadIdx.x / SIDE; r < SIDE; r += 4 * step) {
                scalar_t v[4];
#pragma unroll
                for (int k = 0; k < 4; ++k)
                    if (r + k * step < high && c < wide) v[k] = x[(size_t)(r + k * step) * cols + c];
#pragma unroll
                for (int k = 0; k < 4; ++k) tile[(r + k * step) * LONGER + c] = v[k];
            }
            __syncthreads();
#pragma unroll 1
            for (int r = threadIdx.x / SIDE; r < SIDE; r += step)
                if (c < high && r < wide) y[(size_t)r * rows + c] = tile[c * LONGER + r];
            __syncthreads();  // all threads have read this square
        }
    }

    // Moves the block's tile, element by element where rows of x or of y do not start at 16-byte boundaries.
    static __device__ __forceinline__ void move(const scalar_t* x, scalar_t* y, unsigned rows, unsigned cols,
                                                Words* tile) {
        const unsigned top = top_of(PAIR * SIDE), left = left_of(SIDE);
        if (left >= cols) return;
        const bool aligned = (((size_t)x | (size_t)y) % sizeof(Words)) == 0;
        if (!aligned || cols % WIDTH != 0 || rows % WIDTH != 0)
            by_elements(x, y, rows, cols, top, left, reinterpret_cast<scalar_t*>(tile));
        else if (top + PAIR * SIDE <= rows && left + SIDE <= cols) by_words<true>(x, y, rows, cols, top, left, tile);
        else by_words<false>(x, y, rows, cols, top, left, tile);
    }
};

constexpr int FEW = 128;                                 // threads of a tile of 32 words
constexpr int MANY = sizeof(scalar_t) == 4 ? 512 : 256;  // of one of 64
constexpr int BLOCKS = sizeof(scalar_t) == 4 ? 4 : 6;    // on a multiprocessor: 32 registers, 40 in 16 bits

// Tiles of 64 words; tiles of 32 words, as the number of threads tells, where 64 would leave multiprocessors idle. On
// an H200, in shares of a copy's speed in float32: 0.97 at 4,096 x 8,192 and at 16,384 x 8,192. Tiles numbered row by
// row lose 2 and 3 % (5 and 10 % with tiles of 32); so numbered, 256 x 384 has 0.90 with tiles of 32 and 0.86 with 64.
// Numbered down strips of 2,048 rows they were no faster. Loading and storing a piece in the same step of one loop:
// 0.79.
extern "C" __global__ void __launch_bounds__(MANY, BLOCKS)
    transpose_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    __shared__ Words tile[(64 + 1) * 64 / 4];
    if (blockDim.x == FEW) Tile<32, FEW>::move(kept(x), y, rows, cols, tile);
    else Tile<64, MANY>::move(kept(x), y, rows, cols, tile);
}
