// Rows of a table.
__global__ void wide(const float* table, const int* index, float* y, int dim) {
    y[(size_t)blockIdx.x * dim + threadIdx.x] = table[(size_t)index[blockIdx.x] * dim + threadIdx.x];
}
__global__ void narrow(const float* table, const int* index, float* y, int dim) {
    y[(size_t)blockIdx.x * dim + threadIdx.x] = table[index[blockIdx.x] * dim + int(threadIdx.x)];
}
