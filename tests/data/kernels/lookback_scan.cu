// Inclusive sum in one pass by decoupled look-back (Merrill and Garland 2016): each block adds what its predecessors
// have published, a sum of their own or of everything before.
#define BLOCK 256
enum { EMPTY = 0, AGGREGATE = 1, PREFIX = 2 };

__global__ void lookback_scan(int* out, const int* in, volatile int* flags, volatile int* aggregates,
                              volatile int* prefixes, int* ticket, int n) {
    __shared__ int warp_sums[BLOCK / 32];
    __shared__ int tile, before;
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1);  // blocks take tiles in the order in which they begin
    __syncthreads();

    const int i = tile * BLOCK + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int sum = i < n ? in[i] : 0;
    for (int offset = 1; offset < 32; offset *= 2) {
        int other = __shfl_up_sync(0xffffffff, sum, offset);
        if (lane >= offset) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int s = lane < BLOCK / 32 ? warp_sums[lane] : 0;
        for (int offset = 1; offset < BLOCK / 32; offset *= 2) {
            int other = __shfl_up_sync(0xffffffff, s, offset);
            if (lane >= offset) s += other;
        }
        if (lane < BLOCK / 32) warp_sums[lane] = s;
    }
    __syncthreads();
    if (warp > 0) sum += warp_sums[warp - 1];

    if (threadIdx.x == 0) {
        const int total = warp_sums[BLOCK / 32 - 1];
        int exclusive = 0;
        if (tile == 0) {
            prefixes[0] = total;
            __threadfence();
            flags[0] = PREFIX;
        } else {
            aggregates[tile] = total;
            __threadfence();
            flags[tile] = AGGREGATE;
            for (int t = tile - 1; t >= 0; t--) {
                int flag;
                do flag = flags[t];
                while (flag == EMPTY);
                __threadfence();
                if (flag == PREFIX) {
                    exclusive += prefixes[t];
                    break;
                }
                exclusive += aggregates[t];
            }
            prefixes[tile] = exclusive + total;
            __threadfence();
            flags[tile] = PREFIX;
        }
        before = exclusive;
    }
    __syncthreads();
    if (i < n) out[i] = sum + before;
}
