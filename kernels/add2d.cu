// Sum of two row-major matrices, y = a + b, float32.
//
// Bound by memory: two reads and one write for a single addition.
// scalar_t is float (-Dscalar_t=float).

// One element a thread on a 2-D grid of 16 x 16 blocks: the form of every first CUDA lesson. Threads that are
// neighbours in x read neighbouring columns, so each half-warp reads 64 contiguous bytes. A grid has at most 65,535
// blocks in y, so z has more; gridDim.z need not divide the blocks. With a loop down the rows instead, for which the
// compiler divides, 5 x 2 elements take a seventh longer on an H200, in a graph.
extern "C" __global__ void add2d_plain(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                       scalar_t* __restrict__ y, unsigned rows, unsigned cols) {
    const unsigned col = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = (blockIdx.z * gridDim.y + blockIdx.y) * blockDim.y + threadIdx.y;
    if (row >= rows || col >= cols) return;
    const size_t i = (size_t)row * cols + col;
    y[i] = a[i] + b[i];
}

// 16 bytes a thread. Rows of contiguous matrices follow one another, so to a sum they are one long array of n elements:
// packs may run across row ends, odd widths need no care, and only the last few elements of the whole are left over.
struct __align__(16) Pack {
    static const int width = 16 / sizeof(scalar_t);
    scalar_t v[width];
};

extern "C" __global__ void add2d_vec(const scalar_t* __restrict__ a, const scalar_t* __restrict__ b,
                                     scalar_t* __restrict__ y, long long n) {
    const long long first = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * Pack::width;
    const bool aligned = (((size_t)a | (size_t)b | (size_t)y) % sizeof(Pack)) == 0;
    if (aligned && first + Pack::width <= n) {
        const Pack p = *reinterpret_cast<const Pack*>(a + first);
        Pack q = *reinterpret_cast<const Pack*>(b + first);
#pragma unroll
        for (int k = 0; k < Pack::width; ++k) q.v[k] = p.v[k] + q.v[k];
        *reinterpret_cast<Pack*>(y + first) = q;
    } else {
        for (long long i = first; i < n && i < first + Pack::width; ++i) y[i] = a[i] + b[i];
    }
}
