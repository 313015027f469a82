// Prefix sums of rows of bytes, by cub::BlockLoad, BlockScan with a running prefix, and BlockStore.
#include <cub/block/block_load.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>

struct Running {
    int total;
    __device__ int operator()(int aggregate) {
        const int before = total;
        total += aggregate;
        return before;
    }
};

template <int THREADS, int ITEMS> __device__ void scan_row(const int* x, int* y, int n) {
    using Load = cub::BlockLoad<int, THREADS, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
    using Store = cub::BlockStore<int, THREADS, ITEMS, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    using Scan = cub::BlockScan<int, THREADS>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
        typename Scan::TempStorage scan;
    } temp;

    Running running{0};
    for (int first = 0; first < n; first += THREADS * ITEMS) {
        int items[ITEMS];
        Load(temp.load).Load(x + first, items, n - first, 0);
        __syncthreads();
        Scan(temp.scan).InclusiveSum(items, items, running);
        __syncthreads();
        Store(temp.store).Store(y + first, items, n - first);
        __syncthreads();
    }
}

extern "C" __global__ void cub_compact(const int* x, int* y, int cols) {
    const size_t row = static_cast<size_t>(blockIdx.x) * cols;
    scan_row<64, 4>(x + row, y + row, cols);
}
