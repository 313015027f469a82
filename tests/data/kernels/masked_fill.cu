// y = mask ? value : x, and how many elements of each row were kept: a bool mask as PyTorch has it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void masked_fill(scalar_t* y, int* kept, const scalar_t* x, const bool* mask, float value, int cols) {
    __shared__ int count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const long long row = (long long)blockIdx.x * cols;
    int mine = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        const bool masked = mask[row + c];
        y[row + c] = masked ? scalar_t(value) : x[row + c];
        mine += !masked;
    }
    atomicAdd(&count, mine);
    __syncthreads();
    if (threadIdx.x == 0) kept[blockIdx.x] = count;
}
