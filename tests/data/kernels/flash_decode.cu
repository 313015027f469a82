// Flash-decoding: split-K attention for one query token; a second kernel combines the splits.
#include <cuda_fp16.h>
#define HEAD_DIM 64
#define THREADS 64

__global__ void flash_decode_split(const half* __restrict__ q,   // [heads, HEAD_DIM]
                                   const half* __restrict__ k,   // [heads, seq, HEAD_DIM]
                                   const half* __restrict__ v,   // [heads, seq, HEAD_DIM]
                                   float* __restrict__ partial,  // [heads, splits, HEAD_DIM]
                                   float2* __restrict__ ml,      // [heads, splits]  (max, sum)
                                   int seq, int split_len, float scale)
{
    const int head = blockIdx.y, split = blockIdx.x, splits = gridDim.x, t = threadIdx.x;
    __shared__ float qs[HEAD_DIM];
    __shared__ float p[THREADS];
    __shared__ float red[2];
    qs[t] = __half2float(q[head * HEAD_DIM + t]) * scale;
    float m = -INFINITY, l = 0.f, acc = 0.f;
    const int begin = split * split_len, end = min(begin + split_len, seq);
    __syncthreads();
    for (int base = begin; base < end; base += THREADS) {
        float s = -INFINITY;
        if (base + t < end) {
            const half2* kp = reinterpret_cast<const half2*>(k + ((size_t)head * seq + base + t) * HEAD_DIM);
            s = 0.f;
            #pragma unroll 8
            for (int d = 0; d < HEAD_DIM / 2; d++) {
                float2 kk = __half22float2(kp[d]);
                s += qs[2 * d] * kk.x + qs[2 * d + 1] * kk.y;
            }
        }
        float mx = s;
        for (int o = 16; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
        if ((t & 31) == 0) red[t >> 5] = mx;
        __syncthreads();
        mx = fmaxf(red[0], red[1]);
        const float m_new = fmaxf(m, mx);
        p[t] = __expf(s - m_new);
        const float corr = __expf(m - m_new);
        __syncthreads();
        l *= corr;
        acc *= corr;
        const int n = min(THREADS, end - base);
        for (int j = 0; j < n; j++) {
            l += p[j];
            acc += p[j] * __half2float(v[((size_t)head * seq + base + j) * HEAD_DIM + t]);
        }
        m = m_new;
        __syncthreads();
    }
    partial[((size_t)head * splits + split) * HEAD_DIM + t] = acc;
    if (t == 0) ml[head * splits + split] = make_float2(m, l);
}

__global__ void flash_decode_combine(const float* __restrict__ partial, const float2* __restrict__ ml,
                                     half* __restrict__ out, int splits)
{
    const int head = blockIdx.x, t = threadIdx.x;
    float m = -INFINITY;
    for (int s = 0; s < splits; s++) m = fmaxf(m, ml[head * splits + s].x);
    float l = 0.f, acc = 0.f;
    for (int s = 0; s < splits; s++) {
        const float2 c = ml[head * splits + s];
        const float w = __expf(c.x - m);
        l += w * c.y;
        acc += w * partial[((size_t)head * splits + s) * HEAD_DIM + t];
    }
    out[head * HEAD_DIM + t] = __float2half(acc / l);
}
