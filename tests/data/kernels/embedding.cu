// y[i] = table[index[i]]: the rows of a table, 64-bit indices as PyTorch has them. A block per row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void embedding_forward(scalar_t* y, const long long* __restrict__ index, const scalar_t* __restrict__ table,
                                  int width) {
    const scalar_t* from = table + index[blockIdx.x] * width;
    scalar_t* to = y + (long long)blockIdx.x * width;
    for (int c = threadIdx.x; c < width; c += blockDim.x) to[c] = from[c];
}
