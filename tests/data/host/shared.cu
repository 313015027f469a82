// Shared arrays in the forms whose place, size or alignment a test looks at.
extern "C" {
extern __shared__ __align__(16) float row[];  // extern __shared__ int no[];
__global__ void reverse(float* y, const float* x) {
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = row[blockDim.x - 1 - threadIdx.x];
}
}

// For float4, without a word in the source; and alignas() may stand where nvcc takes it.
__global__ void copy(float4* y, const float4* x) {
    __shared__ char one; __shared__ unsigned short first[256]; __shared__ char two;
    __shared__ float second[128]; static __shared__ alignas(alignof(float4)) char third[512];
    __shared__ alignas(128) float fourth[128];
    const int t = threadIdx.x;
    one = two = 1;
    reinterpret_cast<float4*>(first)[t] = x[t];
    reinterpret_cast<float4*>(second)[t] = reinterpret_cast<float4*>(first)[t];
    reinterpret_cast<float4*>(third)[t] = reinterpret_cast<float4*>(second)[t];
    reinterpret_cast<float4*>(fourth)[t] = reinterpret_cast<float4*>(third)[t];
    y[t] = reinterpret_cast<float4*>(fourth)[t];
}

extern __shared__ float tile[];
__global__ void keep(float* y, const float* x) {
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x];
}
