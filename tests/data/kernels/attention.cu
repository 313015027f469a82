// Causal attention of one head and the logarithm of each row's sum of exponentials, which the backward pass needs. A
// block has 32 queries; keys and values of a tile are in shared memory, more than 48 KB for a width of 128.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TILE 32

__global__ void attention_forward(const scalar_t* __restrict__ q, const scalar_t* __restrict__ k,
                                  const scalar_t* __restrict__ v, scalar_t* __restrict__ o, float* __restrict__ lse,
                                  int length, int width, float scale) {
    extern __shared__ float shared[];
    float* queries = shared;
    float* keys = queries + TILE * (width + 1);
    float* values = keys + TILE * (width + 1);
    float* scores = values + TILE * (width + 1);
    const int lane = threadIdx.x, warp = threadIdx.y, warps = blockDim.y;
    const size_t head = (size_t)blockIdx.y * length * width;
    const int first = blockIdx.x * TILE;
    for (int r = warp; r < TILE; r += warps)
        for (int d = lane; d < width; d += 32)
            queries[r * (width + 1) + d] = first + r < length ? float(q[head + (size_t)(first + r) * width + d]) : 0.0f;

    float highest[8], total[8], acc[8][4];
    for (int j = 0; j < TILE / warps; j++) {
        highest[j] = -INFINITY;
        total[j] = 0.0f;
        for (int p = 0; p < 4; p++) acc[j][p] = 0.0f;
    }
    for (int start = 0; start <= first; start += TILE) {
        __syncthreads();
        for (int r = warp; r < TILE; r += warps)
            for (int d = lane; d < width; d += 32) {
                const bool inside = start + r < length;
                const size_t at = head + (size_t)(start + r) * width + d;
                keys[r * (width + 1) + d] = inside ? float(k[at]) : 0.0f;
                values[r * (width + 1) + d] = inside ? float(v[at]) : 0.0f;
            }
        __syncthreads();
        for (int j = 0; j < TILE / warps; j++) {
            const int r = warp + j * warps;
            float s = 0.0f;
            for (int d = 0; d < width; d++) s += queries[r * (width + 1) + d] * keys[lane * (width + 1) + d];
            s = start + lane <= first + r && start + lane < length ? s * scale : -INFINITY;
            float m = s;
            for (int offset = 16; offset > 0; offset /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, offset));
            m = fmaxf(m, highest[j]);
            const float p = expf(s - m), old = expf(highest[j] - m);
            float sum = p;
            for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
            total[j] = total[j] * old + sum;
            highest[j] = m;
            scores[warp * TILE + lane] = p;
            __syncwarp();
            for (int part = 0; part < 4; part++) {
                const int d = lane + 32 * part;
                if (d >= width) break;
                acc[j][part] *= old;
                for (int c = 0; c < TILE; c++) acc[j][part] += scores[warp * TILE + c] * values[c * (width + 1) + d];
            }
            __syncwarp();
        }
    }
    for (int j = 0; j < TILE / warps; j++) {
        const int row = first + warp + j * warps;
        if (row >= length) continue;
        for (int part = 0; part < 4; part++) {
            const int d = lane + 32 * part;
            if (d < width) o[head + (size_t)row * width + d] = scalar_t(acc[j][part] / total[j]);
        }
        if (lane == 0) lse[(size_t)blockIdx.y * length + row] = highest[j] + logf(total[j]);
    }
}
