__global__ void f(const float* table, const int* ids, float* y, int dim) {
    for (int d = threadIdx.x; d < dim; d += blockDim.x) y[blockIdx.x * dim + d] = table[ids[blockIdx.x] * dim + d];
}
