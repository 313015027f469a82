template <typename IndexType, typename T> __global__ void sums(const IndexType* ends, const T* x, T* y) {}
