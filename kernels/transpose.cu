// Transpose of a row-major matrix, y[c][r] = x[r][c].
//
// Every element is read once and written once, so a copy is the limit. What is in the way: neighbours in x are far
// apart in y, and memory is moved 32 bytes at a time, whoever needs less. So a tile goes through shared memory, where a
// thread may take a column as cheaply as a row, and both sides of the tile meet memory in whole lines.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); elements are moved, not computed.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// x, with the advice to L2 to keep what is read through it rather than other lines: the builtin under libcu++'s
// cuda::associate_access_property, with the policy that createpolicy of PTX makes of evict_last. Hardly a line is read
// again, but reads and writes seem to disturb each other less: at 16,384 x 8,192 it saves 1.5 % of the time in
// float32, and 1.7 % in bfloat16.
__device__ __forceinline__ const scalar_t* kept(const scalar_t* x) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    return static_cast<const scalar_t*>(__nv_associate_access_property(x, 0x14F0000000000000ull));
#else
    return x;
#endif
}

#define TILE 32  // elements on a side
#define STEP 8   // a block has TILE x STEP threads, a thread TILE / STEP elements

// Blocks number the tiles column by column, so that those at work together write long runs of y's rows; row by row they
// read such runs of x, and take 2 to 3 % longer. In y a grid has at most 65,535 blocks, too few for wide matrices, so z
// has more; gridDim.z need not divide the columns of tiles, so the last ones may lie beyond the matrix. Sides are 32
// bits wide, and only products of them 64: at 256 x 384 that and the grid save 4 % of the time, and 9 % where runs
// follow one another, since an index into a row of tiles had to be divided.
__device__ __forceinline__ unsigned top_of(unsigned side) { return blockIdx.x * side; }
__device__ __forceinline__ unsigned left_of(unsigned side) { return (blockIdx.z * gridDim.y + blockIdx.y) * side; }

// Without shared memory: a warp reads 32 neighbours and writes 32 elements that are `rows` apart. On an H200, at 4,096
// x 8,192, an eighth of a copy's speed in float32, a fifteenth in 16 bits.
extern "C" __global__ void transpose_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, unsigned rows,
                                           unsigned cols) {
    const unsigned col = left_of(TILE) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const unsigned row = top_of(TILE) + threadIdx.y + k;
        if (col < cols && row < rows) y[(size_t)col * rows + row] = x[(size_t)row * cols + col];
    }
}

// Through a tile. Its rows are one element longer than they need to be, so that the elements of a column lie in
// different banks of shared memory. 0.90 of a copy's speed; 0.61 in 16 bits, where a warp moves 64 bytes at a time.
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

// 16 bytes an access on both sides of a tile of SIDE x SIDE words of 4 bytes. In 16 bits a word is a pair of elements
// that are neighbours in a row of y, and come from two rows of x: the tile has twice as many rows of x then. All loads
// of a thread are under way before the first word is put down. The tile is y's: what one thread puts down word by word,
// another picks up as 16 bytes of a row of y. Where a group of four words is in its row of the tile depends on the pack
// of x that the row comes from, so that neither side meets a bank twice.
template <int SIDE, int THREADS> struct Tile {
    static constexpr int ACROSS = SIDE / WIDTH;             // 16-byte pieces of a row of x in the tile
    static constexpr int BESIDE = ACROSS < 8 ? ACROSS : 8;  // of which a warp takes so many,
    static constexpr int BELOW = 32 / BESIDE;               // in so many rows of words
    static constexpr int STEPS = SIDE * ACROSS / THREADS;   // pieces of each of PAIR rows that a thread loads
    static constexpr int DOWN = SIDE / STEPS;               // rows of words from one of them to the next
    static constexpr int GROUPS = SIDE / 4;                 // of words, in a row
    static constexpr int ROWS = THREADS / GROUPS;           // of y, that the threads store at a time
    static constexpr int LONGER = SIDE + PAIR;              // elements of a row where they are moved one by one

    // Of row `pack * WIDTH + k` of the tile.
    static __device__ __forceinline__ int group_at(int pack, int k, int group) {
        return (pack * WIDTH + k) * GROUPS + (group ^ pack * PAIR % GROUPS);
    }

    // The k-th column of pieces of neighbouring rows, as a word.
    static __device__ __forceinline__ unsigned column(const Words* pieces, int k) {
        if (PAIR == 1) return pieces[0].v[k % 4];
        const unsigned upper = pieces[0].v[k / PAIR], lower = pieces[PAIR - 1].v[k / PAIR];
        return k % 2 == 0 ? (upper & 0xffffu) | (lower << 16) : (upper >> 16) | (lower & 0xffff0000u);
    }

    // Addresses are found once and stepped; a tile that is whole asks nothing about the sides of the matrix.
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

    // The same tile, element by element, in PAIR squares, whose rows are a bank longer; a thread has four loads under
    // way.
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
            __syncthreads();  // all have taken what they need: the next square may come
        }
    }

    // The block's tile, by elements where rows do not begin at 16-byte boundaries, on either side.
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

// Tiles of 64 words; of 32, which the number of threads says, where blocks of 64 would leave multiprocessors idle. On
// an H200 0.97 of a copy's speed in float32 at 4,096 x 8,192 and at 16,384 x 8,192; with the tiles numbered row by row,
// 2 and 3 % less (5 and 10 % if they are of 32 words); so numbered, at 256 x 384, 0.90 with tiles of 32 and 0.86 of 64.
// Numbered down strips of 2,048 rows they were no faster. With a load and its words in one step of a loop, as a
// first form had it, it was 0.79.
extern "C" __global__ void __launch_bounds__(MANY, BLOCKS)
    transpose_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    __shared__ Words tile[(64 + 1) * 64 / 4];
    if (blockDim.x == FEW) Tile<32, FEW>::move(kept(x), y, rows, cols, tile);
    else Tile<64, MANY>::move(kept(x), y, rows, cols, tile);
}
