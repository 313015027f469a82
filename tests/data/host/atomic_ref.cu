// cuda::atomic, cuda::atomic_ref, and what device code takes of cuda::std.
#include <cuda/atomic>
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Counts in shared memory, then one addition per bin to the result.
__global__ void histogram(const unsigned char* x, int n, int* bins) {
    __shared__ int mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        cuda::atomic_ref<int, cuda::thread_scope_block> bin(mine[x[i]]);
        bin.fetch_add(1, cuda::memory_order_relaxed);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) cuda::atomic_ref<int, cuda::thread_scope_device>{bins[b]} += mine[b];
}

__global__ void extremes(const float* x, int n, float* y) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<float, cuda::thread_scope_device> least(y[0]), most(y[1]), sum(y[2]);
    least.fetch_min(x[i], cuda::std::memory_order_relaxed);
    most.fetch_max(x[i], cuda::std::memory_order_relaxed);
    float old = sum.load(cuda::memory_order_relaxed);
    while (!sum.compare_exchange_weak(old, old + x[i])) {}
}

// The first thread of each block passes a value on to the next block by release and acquire.
__global__ void relay(int* values, int* turn) {
    if (threadIdx.x) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> now(*turn);
    while (now.load(cuda::memory_order_acquire) != int(blockIdx.x)) {}
    values[blockIdx.x + 1] = values[blockIdx.x] * 2 + 1;
    now.store(blockIdx.x + 1, cuda::memory_order_release);
}

// A lock in shared memory; a flag that one warp sets for the other.
__global__ void in_block(int* y) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> lock, ready;
    __shared__ int sum;
    if (threadIdx.x == 0) lock.store(0), ready = 0, sum = 0;
    __syncthreads();
    while (lock.exchange(1, cuda::memory_order_acquire)) {}
    sum += threadIdx.x;
    lock.store(0, cuda::memory_order_release);
    __syncthreads();
    if (threadIdx.x == 32) {
        y[1] = sum * 2;
        cuda::atomic_thread_fence(cuda::memory_order_release, cuda::thread_scope_block);
        ready.store(1, cuda::memory_order_relaxed);
    }
    if (threadIdx.x == 0) {
        ready.wait(0);
        y[0] = y[1] + 1;
    }
}

__global__ void bits(unsigned* y) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> all(y[0]), any(y[1]), odd(y[2]);
    all &= ~(1u << threadIdx.x);
    any.fetch_or(1u << threadIdx.x);
    odd.fetch_xor(threadIdx.x);
    cuda::atomic_ref<unsigned>(y[3])++;
    cuda::atomic_ref<unsigned long long>(*reinterpret_cast<unsigned long long*>(y + 4)).fetch_sub(1);
}

template <class T> __device__ T least_of(T a, T b) { return cuda::std::fmin(a, b); }
__global__ void standard(float* y) {
    using wide = cuda::std::conditional_t<cuda::std::is_same_v<float, float>, cuda::std::int64_t, int>;
    cuda::std::array<float, 3> three{1, 2, 3};
    cuda::std::tuple<int, float> both{4, 5.0f};
    const auto pair = cuda::std::make_pair(6, 7.0f);
    float a = 1, b = 2;
    cuda::std::swap(a, b);
    int i = 0;
    for (float v : three) y[i++] = v;
    y[i++] = cuda::std::get<0>(both) + cuda::std::get<1>(both);
    y[i++] = pair.first + pair.second;
    y[i++] = a - b;
    y[i++] = least_of(3.0f, cuda::std::numeric_limits<float>::infinity());
    y[i++] = cuda::std::numeric_limits<int>::max() == 2147483647 && cuda::std::numeric_limits<float>::lowest() < -1e38f;
    y[i++] = __half2float(cuda::std::numeric_limits<__half>::max()) +
             __bfloat162float(cuda::std::numeric_limits<__nv_bfloat16>::epsilon());
    y[i++] = cuda::std::isnan(cuda::std::sqrt(-1.0f)) && cuda::std::fmax(1.0f, 2.0f) == 2 && cuda::std::bit_cast<unsigned>(1.0f) == 0x3f800000 && cuda::ceil_div(7, 2) == 4 && cuda::maximum<int>{}(1, 2) == 2 && sizeof(wide) == 8;
    y[i++] = cuda::std::exp(0.0f) + cuda::std::abs(-1.0f) + float(cuda::std::forward<int>(1));
}
