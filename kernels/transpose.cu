// Transpose of a row-major matrix, y[c][r] = x[r][c].
//
// Every element is read once and written once, so a copy is the limit. What is in the way: neighbours in x are far
// apart in y, and memory is moved 32 bytes at a time, whoever needs less. So a tile goes through shared memory, where a
// thread may take a column as cheaply as a row, and both sides of the tile meet memory in whole lines.
// scalar_t is float, __half or __nv_bfloat16 (-Dscalar_t=...); elements are moved, not computed.
//
// Blocks number the tiles row by row, in one dimension: in y a grid has at most 65,535 blocks, too few for tall
// matrices.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define TILE 32  // elements on a side
#define STEP 8   // a block has TILE x STEP threads, a thread TILE / STEP elements

// Without shared memory: a warp reads 32 neighbours and writes 32 elements that are `rows` apart. On an H200, at 4,096
// x 8,192, an eighth of a copy's speed in float32, a fifteenth in 16 bits.
extern "C" __global__ void transpose_plain(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows,
                                           long long cols) {
    const unsigned across = (unsigned)((cols + TILE - 1) / TILE);  // tiles in a row of them
    const long long left = (long long)(blockIdx.x % across) * TILE, top = (long long)(blockIdx.x / across) * TILE;
    const long long col = left + threadIdx.x;
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const long long row = top + threadIdx.y + k;
        if (col < cols && row < rows) y[col * rows + row] = x[row * cols + col];
    }
}

// Through a tile. Its rows are one element longer than they need to be, so that the elements of a column lie in
// different banks of shared memory. 0.84 of a copy's speed; 0.54 in 16 bits, where a warp moves 64 bytes at a time.
extern "C" __global__ void transpose_tile(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows,
                                          long long cols) {
    __shared__ scalar_t tile[TILE][TILE + 1];
    const unsigned across = (unsigned)((cols + TILE - 1) / TILE);  // tiles in a row of them
    const long long left = (long long)(blockIdx.x % across) * TILE, top = (long long)(blockIdx.x / across) * TILE;
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const int r = threadIdx.y + k;
        if (left + threadIdx.x < cols && top + r < rows)
            tile[r][threadIdx.x] = x[(top + r) * cols + left + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE; k += STEP) {
        const int c = threadIdx.y + k;
        if (top + threadIdx.x < rows && left + c < cols)
            y[(left + c) * rows + top + threadIdx.x] = tile[threadIdx.x][c];
    }
}

// 16 bytes an access on both sides of a tile of 64 x 64 words of 4 bytes. In 16 bits a word is a pair of elements that
// are neighbours in a row of y, and come from two rows of x: the tile is 128 x 64 elements then. All loads of a thread
// are under way before the first word is put down. The tile is y's: what one thread puts down word by word, another
// picks up as 16 bytes of a row of y. Where a group of four words is in its row of the tile depends on the pack of x
// that the row comes from, so that neither side meets a bank twice. 0.95 of a copy's speed in float32 and in 16 bits;
// with a load and its words in one step of a loop, as a first form had it, it was 0.79 and 0.66.
#define SIDE 64

struct __align__(16) Words {
    unsigned v[4];
};

#define WIDTH (16 / (int)sizeof(scalar_t))     // elements of 16 bytes
#define PAIR (4 / (int)sizeof(scalar_t))       // elements of a word, and rows of x that make a row of words
#define ACROSS (SIDE / WIDTH)                  // 16-byte pieces of a row of x in the tile
#define STEPS (SIDE * ACROSS / THREADS)        // pieces of each of PAIR rows that a thread loads
#define ELEMENT_ROW (SIDE + PAIR)              // elements of a row where they are moved one by one: a bank longer

__device__ __forceinline__ int group_at(int row, int group) { return row * SIDE / 4 + (group ^ row / WIDTH % 16); }

// The k-th column of pieces of neighbouring rows, as a word.
__device__ __forceinline__ unsigned column(const Words* pieces, int k) {
    if (PAIR == 1) return pieces[0].v[k % 4];
    const unsigned upper = pieces[0].v[k / PAIR], lower = pieces[PAIR - 1].v[k / PAIR];
    return k % 2 == 0 ? (upper & 0xffffu) | (lower << 16) : (upper >> 16) | (lower & 0xffff0000u);
}

__device__ __forceinline__ void by_words(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows,
                                         long long cols, long long top, long long left, Words* tile) {
    // A warp takes 8 neighbouring pieces of 4 rows of words.
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, halves = ACROSS / 8;
    const int piece = lane % 8 + warp % halves * 8, first = lane / 8 + warp / halves * 4;
    Words pieces[STEPS][PAIR];
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const long long row = top + (first + s * (SIDE / STEPS)) * PAIR, col = left + piece * WIDTH;
#pragma unroll
        for (int p = 0; p < PAIR; ++p)
            if (row < rows && col < cols) pieces[s][p] = *reinterpret_cast<const Words*>(x + (row + p) * cols + col);
    }
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const int word = first + s * (SIDE / STEPS);
#pragma unroll
        for (int k = 0; k < WIDTH; ++k)
            tile[group_at(piece * WIDTH + k, word / 4)].v[word % 4] = column(pieces[s], k);
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < SIDE * SIDE / 4; i += THREADS) {
        const int c = i / (SIDE / 4), group = i % (SIDE / 4);
        const long long row = top + group * WIDTH, col = left + c;
        if (row < rows && col < cols) *reinterpret_cast<Words*>(y + col * rows + row) = tile[group_at(c, group)];
    }
}

// The same tile, element by element, in PAIR squares; a thread has four loads under way.
__device__ __forceinline__ void by_elements(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows,
                                            long long cols, long long top, long long left, scalar_t* tile) {
    const int c = threadIdx.x % SIDE, step = THREADS / SIDE;
    const long long end = top + PAIR * SIDE;
    for (; top < end; top += SIDE) {
#pragma unroll 1
        for (int r = threadIdx.x / SIDE; r < SIDE; r += 4 * step) {
            scalar_t v[4];
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (top + r + k * step < rows && left + c < cols) v[k] = x[(top + r + k * step) * cols + left + c];
#pragma unroll
            for (int k = 0; k < 4; ++k) tile[(r + k * step) * ELEMENT_ROW + c] = v[k];
        }
        __syncthreads();
#pragma unroll 1
        for (int r = threadIdx.x / SIDE; r < SIDE; r += step)
            if (top + c < rows && left + r < cols) y[(left + r) * rows + top + c] = tile[c * ELEMENT_ROW + r];
        __syncthreads();  // all have taken what they need: the next square may come
    }
}

// By elements where rows do not begin at 16-byte boundaries, on either side. The bounds keep the registers at 32, so
// that as many blocks as can be are at work: some load while others store.
extern "C" __global__ void __launch_bounds__(THREADS, 2048 / THREADS)
    transpose_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, long long cols) {
    __shared__ Words tile[(SIDE + 1) * SIDE / 4];
    const unsigned across = (unsigned)((cols + SIDE - 1) / SIDE);  // tiles in a row of them
    const long long left = (long long)(blockIdx.x % across) * SIDE;
    const long long top = (long long)(blockIdx.x / across) * PAIR * SIDE;
    const bool aligned = (((size_t)x | (size_t)y) % sizeof(Words)) == 0;
    if (aligned && cols % WIDTH == 0 && rows % WIDTH == 0) by_words(x, y, rows, cols, top, left, tile);
    else by_elements(x, y, rows, cols, top, left, reinterpret_cast<scalar_t*>(tile));
}
