// Threads that wait for other blocks by looking at memory: a decoupled look-back scan (Merrill and Garland 2016), a lock,
// and a barrier of all blocks that is made of an atomic counter.
#define NOTHING 0
#define SUM 1
#define PREFIX 2

// One launch: `next`, `flags` and the sums are zero before it. Blocks take their number in the order in which they start.
__global__ void scan(const int* x, int* y, int n, int* next, volatile int* flags, volatile int* sums, volatile int* prefixes) {
    __shared__ int part[256], block, before;
    if (threadIdx.x == 0) block = atomicAdd(next, 1);
    __syncthreads();
    const int i = block * 256 + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        const int left = threadIdx.x >= step ? part[threadIdx.x - step] : 0;
        __syncthreads();
        part[threadIdx.x] += left;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        const int total = part[255];
        sums[block] = total;
        __threadfence();
        flags[block] = SUM;
        int sum = 0;
        for (int b = block - 1; b >= 0; --b) {
            int flag;
            while ((flag = flags[b]) == NOTHING) {}
            __threadfence();
            if (flag == PREFIX) {
                sum += prefixes[b];
                break;
            }
            sum += sums[b];
        }
        before = sum;
        prefixes[block] = sum + total;
        __threadfence();
        flags[block] = PREFIX;
    }
    __syncthreads();
    if (i < n) y[i] = before + part[threadIdx.x];
}

// Each block waits for its neighbour by the index, whatever starts first.
__global__ void chain(int* y, volatile int* ready) {
    if (threadIdx.x == 0) {
        if (blockIdx.x > 0)
            while (!ready[blockIdx.x - 1]) {}
        __threadfence();
        y[blockIdx.x] = blockIdx.x ? y[blockIdx.x - 1] + int(blockIdx.x) : 0;
        __threadfence();
        ready[blockIdx.x] = 1;
    }
}

// The last thread of a block tells the first one.
__global__ void neighbour(int* y, volatile int* flag) {
    if (threadIdx.x == 0) {
        while (*flag != int(blockDim.x)) {}
        *y = *flag;
    } else if (threadIdx.x == blockDim.x - 1) {
        *flag = blockDim.x;
    }
}

__global__ void locked(int* sum, int* lock) {
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        const int old = *sum;
        __nanosleep(20);
        *sum = old + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

__global__ void all_blocks(int* y, const int* x, unsigned* arrived) {
    y[blockIdx.x * blockDim.x + threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    const unsigned other = gridDim.x - 1 - blockIdx.x;
    const int theirs = y[other * blockDim.x + threadIdx.x];
    if (theirs != x[other * blockDim.x + threadIdx.x]) y[0] = -1;
}

__global__ void never(volatile int* flag) {
    while (*flag == 0) {}
}

__global__ void stores_and_waits(volatile int* flag, volatile int* y) {
    while (*flag == 0) *y = 5;
}

// One block sets a flag, which the others hand on to all their threads each time that they look.
#define HANDED(name, wait)                                                \
    __global__ void name(int* y, int* flag, int setter) {                 \
        const int t = threadIdx.x;                                        \
        __shared__ int seen;                                              \
        if (int(blockIdx.x) != setter) wait;                              \
        else if (t == 0) seen = 1, atomicExch(flag, seen);                \
        y[blockIdx.x * blockDim.x + t] = 1;                               \
    }
#define LOOK (t % 32 == 0 && *(volatile int*)flag)
HANDED(by_shuffle, for (int f = 0; !f; f = __shfl_sync(~0u, f, 0)) f = LOOK)
HANDED(by_vote, while (!__any_sync(~0u, t % 32 == 0 && atomicAdd(flag, 0))))
HANDED(by_count, while (!__syncthreads_or(LOOK)))
HANDED(by_shared_memory, do { __syncthreads(); if (t == 0) seen = LOOK; __syncthreads(); } while (!seen))
HANDED(by_many_flags, for (int all = 0; !all;) for (int i = all = 1; i < 40; ++i) all &= ((volatile int*)flag)[i % 39] == (i == 39))

// A load past L1 and a fence let others run.
__global__ void past_l1(int* flag, int* y) {
    if (threadIdx.x == 0) {
        while (__ldcg(flag) == 0) {}
        while (flag[1] == 0) __threadfence();
        *y = 7;
    } else {
        flag[0] = 1;
        flag[1] = 1;
    }
}

// Volatile alone is no reason to refuse, and needs no hint.
__global__ void only_volatile(volatile int* y) {
    __shared__ int s;
    s = 1;
    y[threadIdx.x] = y[threadIdx.x] + s;
}

// Lanes in lockstep on shared memory, as before Volta. That the pointer is one to shared memory shows when it is read.
__device__ void warp_sum(volatile float* s, int t) {
    s[t] += s[t + 32]; s[t] += s[t + 16]; s[t] += s[t + 8]; s[t] += s[t + 4]; s[t] += s[t + 2]; s[t] += s[t + 1];
}
__global__ void lockstep(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) warp_sum(s, threadIdx.x);
    *y = s[0];
}
