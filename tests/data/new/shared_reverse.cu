// reverses each row through shared memory that holds the whole row
extern __shared__ char smem[];
__global__ void reverse_rows(const double* __restrict__ src, double* __restrict__ dst, int ncols)
{
    double* tile = reinterpret_cast<double*>(smem);
    for (int i = threadIdx.x; i < ncols; i += blockDim.x) tile[i] = src[blockIdx.x * ncols + i];
    __syncthreads();
    for (int i = threadIdx.x; i < ncols; i += blockDim.x) dst[blockIdx.x * ncols + i] = tile[ncols - 1 - i];
}
