// y = a x + y by asynchronous copies to shared memory, two tiles in flight (CUDA C++ Programming Guide, Asynchronous
// data copies).
#include <cuda_pipeline.h>
#define THREADS 128

__global__ void saxpy_staged(float* y, const float* x, float a, int n) {
    __shared__ float4 xs[2][THREADS], ys[2][THREADS];
    const int tiles = n / (4 * THREADS), t = threadIdx.x;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* y4 = reinterpret_cast<float4*>(y);
    int stage = 0;
    if (blockIdx.x < tiles) {
        __pipeline_memcpy_async(&xs[0][t], &x4[blockIdx.x * THREADS + t], sizeof(float4));
        __pipeline_memcpy_async(&ys[0][t], &y4[blockIdx.x * THREADS + t], sizeof(float4));
    }
    __pipeline_commit();
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, stage ^= 1) {
        const int next = tile + gridDim.x;
        if (next < tiles) {
            __pipeline_memcpy_async(&xs[stage ^ 1][t], &x4[next * THREADS + t], sizeof(float4));
            __pipeline_memcpy_async(&ys[stage ^ 1][t], &y4[next * THREADS + t], sizeof(float4));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        const float4 u = xs[stage][t], w = ys[stage][t];
        y4[tile * THREADS + t] = make_float4(a * u.x + w.x, a * u.y + w.y, a * u.z + w.z, a * u.w + w.w);
    }
    for (int i = tiles * 4 * THREADS + blockIdx.x * THREADS + t; i < n; i += gridDim.x * THREADS) y[i] += a * x[i];
}

// The same by cuda::pipeline, with copies of whole tiles by a block.
#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void saxpy_pipeline(float* y, const float* x, float a, int n) {
    namespace cg = cooperative_groups;
    auto block = cg::this_thread_block();
    __shared__ alignas(16) float xs[2][THREADS];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipeline = cuda::make_pipeline(block, &state);
    const int tiles = n / THREADS;
    int fetched = blockIdx.x;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (; fetched < tiles && fetched <= tile + (int)gridDim.x; fetched += gridDim.x) {
            pipeline.producer_acquire();
            cuda::memcpy_async(block, xs[(fetched / gridDim.x) % 2], x + fetched * THREADS, sizeof(float) * THREADS,
                               pipeline);
            pipeline.producer_commit();
        }
        pipeline.consumer_wait();
        y[tile * THREADS + threadIdx.x] += a * xs[(tile / gridDim.x) % 2][threadIdx.x];
        pipeline.consumer_release();
    }
    const int i = tiles * THREADS + threadIdx.x;
    if (blockIdx.x == 0 && i < n) y[i] += a * x[i];
}
