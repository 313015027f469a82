// The first row that has the largest value of each column. A lock guards value and row, which change together.
extern "C" __global__ void column_argmax(const float* x, long long* y, float* top, int* lock, int rows, int cols) {
    const long long i = blockIdx.x * 64ll + threadIdx.x;
    if (i >= (long long)rows * cols) return;
    const int row = i / cols, j = i % cols;
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock[j], 0, 1) == 0) {
            __threadfence();
            const float before = __ldcg(&top[j]);
            if (x[i] > before || (x[i] == before && row < y[j])) {
                __stcg(&top[j], x[i]);
                *(volatile long long*)&y[j] = row;
            }
            __threadfence();
            atomicExch(&lock[j], 0);
            done = true;
        }
    }
}
