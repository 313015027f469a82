__global__ void count(const int* ids, int* counts, int n) {}
template <int MOST> __global__ void scan(const int* counts, int* offsets, int n) {}
