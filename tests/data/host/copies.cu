// Asynchronous copies and barriers with phases, as tutorials and libraries write them.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

constexpr int TILE = 128;

// Double buffering by CUDA's primitives: tile t + 1 is on its way while tile t is summed.
__global__ void double_buffer(const float* x, float* y, int tiles) {
    __shared__ alignas(16) float tile[2][TILE];
    const int t = threadIdx.x;
    if (t < TILE / 4) __pipeline_memcpy_async(&tile[0][4 * t], &x[4 * t], 16);
    __pipeline_commit();
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles && t < TILE / 4) __pipeline_memcpy_async(&tile[(i + 1) % 2][4 * t], &x[(i + 1) * TILE + 4 * t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();  // ARRIVED
        sum += tile[i % 2][TILE - 1 - t] * (i + 1);
        __syncthreads();  // READ
    }
    y[t] = sum;
}

// The same with the pipeline of a thread.
__global__ void thread_pipeline(const float* x, float* y, int tiles) {
    __shared__ float tile[2][TILE];
    const int t = threadIdx.x;
    auto pipe = cuda::make_pipeline();
    auto fetch = [&](int i) {
        pipe.producer_acquire();
        if (i < tiles) cuda::memcpy_async(&tile[i % 2][t], &x[i * TILE + t], sizeof(float), pipe);
        pipe.producer_commit();
    };
    float sum = 0;
    fetch(0);
    for (int i = 0; i < tiles; ++i) {
        fetch(i + 1);
        pipe.consumer_wait();
        __syncthreads();
        sum += tile[i % 2][TILE - 1 - t] * (i + 1);
        pipe.consumer_release();
        __syncthreads();
    }
    y[t] = sum;
}

// The same with a pipeline of the block, in three stages.
__global__ void block_pipeline(const float* x, float* y, int tiles) {
    constexpr int STAGES = 3;
    extern __shared__ float4 room[];
    float* tile = reinterpret_cast<float*>(room);
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    for (int i = 0, fetched = 0; i < tiles; ++i) {
        for (; fetched < tiles && fetched < i + STAGES; ++fetched) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile + fetched % STAGES * TILE, x + fetched * TILE, cuda::aligned_size_t<16>(sizeof(float) * TILE), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += tile[i % STAGES * TILE + TILE - 1 - threadIdx.x] * (i + 1);
        pipe.consumer_release();
    }
    y[threadIdx.x] = sum;
}

// The first warp fetches, the others sum.
__global__ void roles(const float* x, float* y, int tiles) {
    __shared__ float tile[2][TILE];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    const bool fetches = threadIdx.x < 32;
    auto pipe = cuda::make_pipeline(block, &state, fetches ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
    if (fetches) {
        for (int i = 0; i < tiles; ++i) {
            pipe.producer_acquire();
            for (int k = threadIdx.x; k < TILE; k += 32) cuda::memcpy_async(&tile[i % 2][k], &x[i * TILE + k], sizeof(float), pipe);
            pipe.producer_commit();
        }
    } else {
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            pipe.consumer_wait();
            sum += tile[i % 2][TILE - 1 - (threadIdx.x - 32)] * (i + 1);
            pipe.consumer_release();
        }
        y[threadIdx.x - 32] = sum;
    }
}

// Two barriers a stage, as in the programming guide: half of the block produces what the other half consumes.
using barrier = cuda::barrier<cuda::thread_scope_block>;
__global__ void handshake(const float* x, float* y, int tiles) {
    __shared__ float buffer[2][TILE];
    __shared__ barrier bar[4];
    auto block = cg::this_thread_block();
    if (block.thread_rank() < 4) init(bar + block.thread_rank(), block.size());
    block.sync();
    if (threadIdx.x < TILE) {
        for (int i = 0; i < tiles; ++i) {
            bar[i % 2].arrive_and_wait();  // the buffer is empty
            buffer[i % 2][threadIdx.x] = x[i * TILE + threadIdx.x];
            barrier::arrival_token token = bar[i % 2 + 2].arrive();
        }
    } else {
        const int t = threadIdx.x - TILE;
        barrier::arrival_token first = bar[0].arrive(), second = bar[1].arrive();
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            bar[i % 2 + 2].arrive_and_wait();  // the buffer is full
            sum += buffer[i % 2][TILE - 1 - t] * (i + 1);
            if (i + 2 < tiles) barrier::arrival_token token = bar[i % 2].arrive();
        }
        y[t] = sum;
    }
}

// A copy that a barrier's phase waits for.
__global__ void copy_and_arrive(const float* x, float* y, int tiles) {
    __shared__ alignas(16) float tile[TILE];
    __shared__ barrier bar;
    auto block = cg::this_thread_block();
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        cuda::memcpy_async(block, tile, x + i * TILE, sizeof(float) * TILE, bar);
        bar.arrive_and_wait();
        sum += tile[TILE - 1 - threadIdx.x] * (i + 1);
        block.sync();
    }
    y[threadIdx.x] = sum;
}

__global__ void by_group(const float* x, float* y, int tiles) {
    __shared__ float tile[2][TILE];
    auto block = cg::this_thread_block();
    float sum = 0;
    cg::memcpy_async(block, tile[0], x, sizeof(float) * TILE);
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles) {
            cg::memcpy_async(block, tile[(i + 1) % 2], size_t{TILE}, x + (i + 1) * TILE, size_t{TILE});
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        sum += tile[i % 2][TILE - 1 - threadIdx.x] * (i + 1);
        block.sync();
    }
    y[threadIdx.x] = sum;
}

// A thread drops out after its round; bulk bytes are counted by the barrier.
__global__ void drop_out(int* y, int rounds) {
    __shared__ barrier bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    bar.arrive_and_wait();
    for (int i = 0; i < rounds; ++i) {
        if (threadIdx.x % rounds == i) {
            atomicAdd(&count, 1);
            bar.arrive_and_drop();
            return;
        }
        bar.arrive_and_wait();
        if (threadIdx.x % rounds == i + 1) y[threadIdx.x] = count;
        bar.arrive_and_wait();
    }
}

__global__ void bulk(const float* x, float* y) {
    __shared__ alignas(128) float tile[TILE];
    __shared__ barrier bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(tile, x, cuda::aligned_size_t<16>(sizeof tile), bar);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof tile);
    } else {
        token = bar.arrive();
    }
    bar.wait(std::move(token));
    y[threadIdx.x] = tile[TILE - 1 - threadIdx.x];
}

// The C interface of barriers, with a copy that arrives by itself.
__global__ void c_barrier(const float* x, float* y) {
    __shared__ __mbarrier_t bar;
    __shared__ float tile[TILE];
    if (threadIdx.x == 0) __mbarrier_init(&bar, blockDim.x);
    __syncthreads();
    __pipeline_memcpy_async(&tile[threadIdx.x], x + threadIdx.x, 4);
    __pipeline_arrive_on(&bar);
    __mbarrier_token_t token = __mbarrier_arrive(&bar);
    while (!__mbarrier_test_wait(&bar, token)) {}
    y[threadIdx.x] = tile[TILE - 1 - threadIdx.x];
}

__global__ void tail(const float* x, float* y, int n) {
    __shared__ alignas(16) float tile[4];
    __pipeline_memcpy_async(tile, x, 16, 16 - 4 * n);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    for (int i = 0; i < 4; ++i) y[i] = tile[i];
}
