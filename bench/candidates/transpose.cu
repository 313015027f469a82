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

// Without shared memory: a warp reads 32 neighbours and writes 32 elements that are `rows` apart.
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
// different banks of shared memory.
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

// 16 bytes an access on both sides, and a tile four times as large, whose sides are 256 bytes of float32 or 128 of 16
// bits. In shared memory the elements of a pack go one by one, since they are neighbours on one side only; the rows
// there are a bank longer than they need to be. Matrices whose rows do not begin at 16-byte boundaries (on either side)
// take the same tile element by element.
#define WIDE_TILE 64

struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

typedef scalar_t Tile[WIDE_TILE][WIDE_TILE + 4 / sizeof(scalar_t)];

// Thread t of the block takes the pieces t, t + blockDim.x, ... of the tile, row by row; a piece has `step` elements.
template <int step> __device__ __forceinline__ void move(const scalar_t* __restrict__ x, scalar_t* __restrict__ y,
                                                         long long rows, long long cols, Tile& tile) {
    const unsigned across = (unsigned)((cols + WIDE_TILE - 1) / WIDE_TILE);
    const long long left = (long long)(blockIdx.x % across) * WIDE_TILE;
    const long long top = (long long)(blockIdx.x / across) * WIDE_TILE;
    const int a_row = WIDE_TILE / step;
#pragma unroll 4
    for (int i = threadIdx.x; i < WIDE_TILE * a_row; i += blockDim.x) {
        const int r = i / a_row, c = i % a_row * step;
        if (top + r >= rows || left + c >= cols) continue;
        const scalar_t* from = x + (top + r) * cols + left + c;
        if (step == 1) {
            tile[r][c] = *from;
        } else {
            const Pack pack = *reinterpret_cast<const Pack*>(from);
#pragma unroll
            for (int k = 0; k < step; ++k) tile[r][c + k] = pack.v[k];
        }
    }
    __syncthreads();
#pragma unroll 4
    for (int i = threadIdx.x; i < WIDE_TILE * a_row; i += blockDim.x) {
        const int c = i / a_row, r = i % a_row * step;
        if (left + c >= cols || top + r >= rows) continue;
        scalar_t* to = y + (left + c) * rows + top + r;
        if (step == 1) {
            *to = tile[r][c];
        } else {
            Pack pack;
#pragma unroll
            for (int k = 0; k < step; ++k) pack.v[k] = tile[r + k][c];
            *reinterpret_cast<Pack*>(to) = pack;
        }
    }
}

extern "C" __global__ void __launch_bounds__(256)
    transpose_vec(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, long long rows, long long cols) {
    __shared__ Tile tile;
    const bool aligned = (((size_t)x | (size_t)y) % sizeof(Pack)) == 0;
    if (aligned && cols % Pack::width == 0 && rows % Pack::width == 0) move<Pack::width>(x, y, rows, cols, tile);
    else move<1>(x, y, rows, cols, tile);
}
