// values and indices of the largest element of each row; one block a row
__global__ void argmax_rows(const float* __restrict__ x, float* __restrict__ values, long long* __restrict__ indices, int N)
{
    __shared__ float best[256];
    __shared__ int where[256];
    int tid = threadIdx.x;
    const float* p = x + blockIdx.x * (long long)N;
    float b = -INFINITY; int w = N;
    for (int j = tid; j < N; j += blockDim.x) { float v = p[j]; if (v > b || w == N || (isnan(v) && !isnan(b))) { b = v; w = j; } }
    best[tid] = b; where[tid] = w;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) {
            float o = best[tid + s]; int ow = where[tid + s];
            bool take = ow < N && (where[tid] == N || o > best[tid] || (isnan(o) && !isnan(best[tid])) || (!(o < best[tid]) && !isnan(best[tid]) && ow < where[tid]) || (isnan(o) && isnan(best[tid]) && ow < where[tid]));
            if (take) { best[tid] = o; where[tid] = ow; }
        }
        __syncthreads();
    }
    if (tid == 0) { values[blockIdx.x] = best[0]; indices[blockIdx.x] = where[0]; }
}
