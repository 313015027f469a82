// y = 2 x: a bulk copy (TMA) to shared memory, and a barrier that counts its bytes.
#include <cuda.h>
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

__global__ void twice(const float* x, float* y, int n) {
    __shared__ alignas(128) float tile[256];
    __shared__ barrier done;
    if (threadIdx.x == 0) init(&done, blockDim.x);
    __syncthreads();
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
        cuda::memcpy_async(tile, x + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof tile), done);
        token = cuda::device::barrier_arrive_tx(done, 1, sizeof tile);
    } else {
        token = done.arrive();
    }
    done.wait(std::move(token));
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = 2 * tile[threadIdx.x];
}
