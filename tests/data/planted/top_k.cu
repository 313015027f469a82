// The k largest values of each row and where they are, by k rounds of a maximum; of equal ones the first.
__global__ void top_k(const float* x, float* val, int* idx, int cols, int k) {
    __shared__ float sv[8];
    __shared__ int si[8];
    extern __shared__ float row[];
    const float* p = x + (long long)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) row[i] = p[i];
    __syncthreads();
    for (int r = 0; r < k; r++) {
        float best = -INFINITY;
        int at = 0x7fffffff;
        for (int i = threadIdx.x; i < cols; i += blockDim.x)
            if (row[i] > best || (row[i] == best && i < at)) best = row[i], at = i;
        for (int o = 16; o; o >>= 1) {
            float ov = __shfl_down_sync(~0u, best, o);
            int oi = __shfl_down_sync(~0u, at, o);
            if (ov > best || (ov == best && oi < at)) best = ov, at = oi;
        }
        if (threadIdx.x % 32 == 0) sv[threadIdx.x / 32] = best, si[threadIdx.x / 32] = at;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < blockDim.x / 32; w++)
                if (sv[w] > best || (sv[w] == best && si[w] < at)) best = sv[w], at = si[w];
            val[blockIdx.x * k + r] = best;
            idx[blockIdx.x * k + r] = at;
            row[at] = -INFINITY;
        }
        __syncthreads();
    }
}
