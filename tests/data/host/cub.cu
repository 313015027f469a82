// Each entry is one block.
#include <cub/cub.cuh>
#include <cuda/functional>
#include <cuda/std/functional>

__global__ void reductions(const float* x, float* y) {
    using Reduce = cub::BlockReduce<float, 256>;
    __shared__ typename Reduce::TempStorage temp;
    const float sum = Reduce(temp).Sum(x[threadIdx.x]);
    __syncthreads();
    const float largest = Reduce(temp).Reduce(x[threadIdx.x], cuda::maximum<>{});
    __syncthreads();
    float items[2] = {1, 2};
    const float all = Reduce(temp).Sum(items);
    __syncthreads();
    const float first = Reduce(temp).Reduce(x[threadIdx.x], cuda::std::plus<>{}, 70);
    if (threadIdx.x == 0) y[0] = sum, y[1] = largest, y[2] = all, y[3] = first;
    else if (threadIdx.x > 3) y[threadIdx.x] = sum;
}

struct Running {
    int total;
    __device__ int operator()(int aggregate) { return (total += aggregate) - aggregate; }
};

__global__ void running(const int* x, int* y, int n) {
    using Load = cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE>;
    using Scan = cub::BlockScan<int, 64, cub::BLOCK_SCAN_WARP_SCANS>;
    using Store = cub::BlockStore<int, 64, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Scan::TempStorage scan;
        typename Store::TempStorage store;
    } temp;
    Running before{0};
    for (int first = 0; first < n; first += 256) {
        int items[4];
        Load(temp.load).Load(x + first, items, n - first, 0);
        __syncthreads();
        Scan(temp.scan).InclusiveSum(items, items, before);
        __syncthreads();
        Store(temp.store).Store(y + first, items, n - first);
        __syncthreads();
    }
}

__global__ void scans(const int* x, int* y) {
    using Scan = cub::BlockScan<int, 64>;
    __shared__ Scan::TempStorage temp;
    int in[2] = {x[2 * threadIdx.x], x[2 * threadIdx.x + 1]}, out[8][2], sum, most;
    Scan(temp).ExclusiveSum(in, out[0], sum);
    __syncthreads();
    Scan(temp).InclusiveSum(in, out[1]);
    __syncthreads();
    Scan(temp).ExclusiveScan(in, out[2], 5, cub::Max());
    __syncthreads();
    Scan(temp).InclusiveScan(in, out[3], cub::Max());
    __syncthreads();
    Scan(temp).ExclusiveScan(in, out[4], cub::Max());
    __syncthreads();
    Scan(temp).InclusiveScan(max(in[0], in[1]), out[6][0], cub::Max(), most);
    __syncthreads();
    Scan(temp).InclusiveScan(in, out[7], 50, cub::Max());
    out[5][0] = out[5][1] = sum, out[6][0] = out[6][1] = most;
    for (int row = 0; row < 8; ++row)
        for (int i = 0; i < 2; ++i) y[128 * row + 2 * threadIdx.x + i] = out[row][i];
}

// Composition of x -> a x + b, the earlier one first.
__global__ void affine(const int2* x, int2* y) {
    using Scan = cub::BlockScan<int2, 96>;
    __shared__ Scan::TempStorage temp;
    int2 found;
    Scan(temp).InclusiveScan(x[threadIdx.x], found, [](int2 f, int2 g) {
        return make_int2(f.x * g.x % 9973, (g.x * f.y + g.y) % 9973);
    });
    y[threadIdx.x] = found;
}

__global__ void sort(float* key, int* value, int descending) {
    using Sort = cub::BlockRadixSort<float, 32, 3, int>;
    __shared__ Sort::TempStorage temp;
    float k[3];
    int v[3];
    for (int i = 0; i < 3; ++i) k[i] = key[threadIdx.x * 3 + i], v[i] = threadIdx.x * 3 + i;
    if (descending) Sort(temp).SortDescending(k, v);
    else Sort(temp).Sort(k, v);
    for (int i = 0; i < 3; ++i) key[threadIdx.x * 3 + i] = k[i], value[threadIdx.x * 3 + i] = v[i];
}

__global__ void sort_bits(unsigned* key) {
    using Sort = cub::BlockRadixSort<unsigned, 32, 2>;
    __shared__ Sort::TempStorage temp;
    unsigned k[2] = {key[2 * threadIdx.x], key[2 * threadIdx.x + 1]};
    Sort(temp).SortBlockedToStriped(k, 4, 8);
    key[threadIdx.x] = k[0], key[threadIdx.x + 32] = k[1];
}

__global__ void warps(const int* x, int* y) {
    using Reduce = cub::WarpReduce<int>;
    using Scan = cub::WarpScan<int, 16>;
    using Exchange = cub::WarpExchange<int, 4>;
    __shared__ Reduce::TempStorage reduce[2];
    __shared__ Scan::TempStorage scan[4];
    __shared__ Exchange::TempStorage exchange[2];
    __shared__ cub::WarpScan<int>::TempStorage whole[2];
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    y[t] = Reduce(reduce[warp]).Sum(x[t]);
    int before, all, items[4] = {4 * lane, 4 * lane + 1, 4 * lane + 2, 4 * lane + 3};
    Scan(scan[t / 16]).ExclusiveSum(x[t], before, all);
    y[64 + t] = before, y[128 + t] = all;
    y[192 + t] = Reduce(reduce[warp]).HeadSegmentedSum(x[t], lane % 5 == 0);
    Exchange(exchange[warp]).BlockedToStriped(items, items);
    y[256 + t] = items[1];
    y[320 + t] = Reduce(reduce[warp]).Reduce(x[t], cub::Max(), 20);
    y[384 + t] = Reduce(reduce[warp]).TailSegmentedSum(x[t], lane % 5 == 4);
    y[448 + t] = cub::WarpScan<int>(whole[warp]).Broadcast(x[t], 3);
}

__global__ void neighbours(const int* x, int* y) {
    using Flags = cub::BlockDiscontinuity<int, 64>;
    using Histogram = cub::BlockHistogram<unsigned char, 64, 2, 8, cub::BLOCK_HISTO_ATOMIC>;
    using Difference = cub::BlockAdjacentDifference<int, 64>;
    __shared__ Flags::TempStorage flags;
    __shared__ Histogram::TempStorage histogram;
    __shared__ Difference::TempStorage difference;
    __shared__ int bins[8];
    const int t = threadIdx.x;
    int in[2] = {x[2 * t], x[2 * t + 1]}, out[4][2];
    unsigned char bytes[2] = {static_cast<unsigned char>(in[0]), static_cast<unsigned char>(in[1])};
    Flags(flags).FlagHeadsAndTails(out[0], out[1], in, cub::Inequality());
    Histogram(histogram).Histogram(bytes, bins);
    Difference(difference).SubtractLeft(in, out[2], cub::Difference());
    __syncthreads();
    Difference(difference).SubtractRight(in, out[3], cub::Difference());
    if (t < 8) y[t] = bins[t];
    for (int row = 0; row < 4; ++row)
        for (int i = 0; i < 2; ++i) y[8 + 128 * row + 2 * t + i] = out[row][i];
}

__global__ void exchanges(int* y) {
    using Exchange = cub::BlockExchange<int, 48, 2>;
    __shared__ Exchange::TempStorage temp;
    const int t = threadIdx.x;
    int v[2] = {2 * t, 2 * t + 1}, rank[2] = {95 - 2 * t, 94 - 2 * t};
    Exchange(temp).BlockedToStriped(v);
    y[2 * t] = v[0], y[2 * t + 1] = v[1];
    __syncthreads();
    Exchange(temp).StripedToBlocked(v);
    y[96 + 2 * t] = v[0], y[96 + 2 * t + 1] = v[1];
    __syncthreads();
    Exchange(temp).ScatterToBlocked(v, rank);
    y[192 + 2 * t] = v[0], y[192 + 2 * t + 1] = v[1];
    __syncthreads();
    int w[2] = {2 * t, 2 * t + 1};
    Exchange(temp).BlockedToWarpStriped(w);
    y[288 + 2 * t] = w[0], y[288 + 2 * t + 1] = w[1];
}

// Thread 0 waits for the last one.
__global__ void waits(unsigned* flag, int* y) {
    if (threadIdx.x == blockDim.x - 1) *y = 7, __threadfence(), atomicExch(flag, 1u);
    if (threadIdx.x) return;
    while (!cub::ThreadLoad<cub::LOAD_CG>(flag)) {}
    y[1] = cub::ThreadLoad<cub::LOAD_VOLATILE>(y);
}
