// Product of int8 matrices, the second one transposed: four products at once; k is a multiple of 4.
extern "C" __global__ void dp4a_matmul(const signed char* a, const signed char* b, int* y, int m, int n, int k) {
    const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m || j >= n) return;
    const int* s = reinterpret_cast<const int*>(a + (size_t)i * k);
    const int* t = reinterpret_cast<const int*>(b + (size_t)j * k);
    int sum = 0;
    for (int p = 0; p < k / 4; ++p) sum = __dp4a(s[p], t[p], sum);
    y[(size_t)i * n + j] = sum;
}
