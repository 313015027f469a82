// y = a b^T of int8 matrices, four products an instruction. A thread an element of y.
__global__ void dp4a_matmul(const signed char* __restrict__ a, const signed char* __restrict__ b, int* __restrict__ y, int m,
                            int n, int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    const int* x4 = reinterpret_cast<const int*>(a + static_cast<size_t>(row) * k);
    const int* w4 = reinterpret_cast<const int*>(b + static_cast<size_t>(col) * k);
    int sum = 0;
    for (int i = 0; i < k / 4; ++i) sum = __dp4a(x4[i], w4[i], sum);
    y[static_cast<size_t>(row) * n + col] = sum;
}
