// Product of two row-major matrices, y[i][j] = sum over l of a[i][l] * b[l][j], float32: a is m x k, b is k x n.
//
// A teaching version. 2 m n k operations on m k + k n + m n numbers: arithmetic is the limit, if every number that is
// fetched is used often enough. The entries differ in where numbers are reused: nowhere, in shared memory, in
// registers. scalar_t is float (-Dscalar_t=float). Each sum is a chain of fused multiply-adds in the order of l.
#include "common/pack.cuh"

// One element of y a thread: two loads for each multiply-add. Threads that are neighbours in x read neighbours in b and
// the same element of a, and the caches serve both. On an H200 at 2,048 cubed: 7 TFLOP/s.
extern "C" __global__ void matmul_plain(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                        scalar_t* __restrict__ y, int m, int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float sum = 0.0f;
    for (int l = 0; l < k; ++l) sum = fmaf(a[(size_t)row * k + l], b[(size_t)l * n + col], sum);
    y[(size_t)row * n + col] = sum;
}

// A block of 32 x 32 threads computes a tile of y from tiles of a and b in shared memory: an element is fetched once
// for 32 multiply-adds. Each multiply-add still takes two loads from shared memory, and that is the limit. Elements
// outside a matrix are 0 in its tile and add nothing. 9 TFLOP/s.
#define TILE 32

extern "C" __global__ void matmul_tile(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                       scalar_t* __restrict__ y, int m, int n, int k) {
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int left = 0; left < k; left += TILE) {
        const int l = left + threadIdx.x, r = left + threadIdx.y;
        a_tile[threadIdx.y][threadIdx.x] = row < m && l < k ? a[(size_t)row * k + l] : 0.0f;
        b_tile[threadIdx.y][threadIdx.x] = r < k && col < n ? b[(size_t)r * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < TILE; ++i) sum = fmaf(a_tile[threadIdx.y][i], b_tile[i][threadIdx.x], sum);
        __syncthreads();  // all threads have used the tiles
    }
    if (row < m && col < n) y[(size_t)row * n + col] = sum;
}

// A block of 256 threads computes 128 x 128 elements, each thread 8 x 8 of them in registers. For each l a thread loads
// 16 numbers from shared memory, in four loads of 16 bytes, for 64 multiply-adds. Its columns are two groups of 4, half
// a tile apart, and so are its rows, so that neighbours read neighbouring 16 bytes. The next tiles are fetched into
// registers while these are in use. 36 TFLOP/s, 0.74 of cuBLAS in float32 without tensor cores; at 256 cubed, where
// only four blocks have work, slower than the plain entry.
// What cuBLAS does beyond this: asynchronous copies into several tiles in turn, tiles chosen for the shape, k split
// among blocks where the matrix is small, and instructions placed by hand to avoid register bank conflicts.
#define SIDE 128
#define DEPTH 8
#define PER (SIDE * DEPTH / 256)  // elements of a tile that a thread fetches

extern "C" __global__ void __launch_bounds__(256)
    matmul_registers(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b, scalar_t* __restrict__ y, int m,
                     int n, int k) {
    __shared__ __align__(16) float a_tile[DEPTH][SIDE + 4], b_tile[DEPTH][SIDE];  // a_tile is transposed
    const int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE;
    const int across = threadIdx.x % 16 * 4, down = threadIdx.x / 16 * 4;
    float sum[8][8] = {}, a_next[PER], b_next[PER];

    for (int depth = -DEPTH; depth < k; depth += DEPTH) {
#pragma unroll
        for (int p = 0; p < PER; ++p) {
            const int i = threadIdx.x + 256 * p;
            const int a_row = top + i / DEPTH, a_col = depth + DEPTH + i % DEPTH;
            const int b_row = depth + DEPTH + i / SIDE, b_col = left + i % SIDE;
            a_next[p] = a_row < m && a_col < k ? a[(size_t)a_row * k + a_col] : 0.0f;
            b_next[p] = b_row < k && b_col < n ? b[(size_t)b_row * n + b_col] : 0.0f;
        }
        if (depth >= 0) {
#pragma unroll
            for (int l = 0; l < DEPTH; ++l) {
                __align__(16) float u[8], v[8];
#pragma unroll
                for (int h = 0; h < 2; ++h) {
                    const int half = h * (SIDE / 2);
                    *reinterpret_cast<Pack*>(u + 4 * h) = *reinterpret_cast<const Pack*>(&a_tile[l][down + half]);
                    *reinterpret_cast<Pack*>(v + 4 * h) = *reinterpret_cast<const Pack*>(&b_tile[l][across + half]);
                }
#pragma unroll
                for (int i = 0; i < 8; ++i)
#pragma unroll
                    for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
            }
            __syncthreads();  // all threads have used the tiles
        }
#pragma unroll
        for (int p = 0; p < PER; ++p) {
            const int i = threadIdx.x + 256 * p;
            a_tile[i % DEPTH][i / DEPTH] = a_next[p];
            b_tile[i / SIDE][i % SIDE] = b_next[p];
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int row = top + down + i % 4 + i / 4 * (SIDE / 2), col = left + across + j % 4 + j / 4 * (SIDE / 2);
            if (row < m && col < n) y[(size_t)row * n + col] = sum[i][j];
        }
}
