// The lab's own kernels: what the clocks need around the kernel that they time. Compiled once a run.

// Holds the stream until *released >= ticket, so that everything queued behind it starts with no gap, whatever the
// host's pace was. `released` is host memory that the device sees. After max_cycles it lets go by itself and
// counts that in *expired: some library waited for the stream inside the work, and would have waited for ever.
extern "C" __global__ void hold(volatile int* released, int ticket, long long max_cycles, int* expired) {
    const long long start = clock64();
    while (*released < ticket) {
        if (clock64() - start > max_cycles) {
            *expired = *expired + 1;
            return;
        }
    }
}

extern "C" __global__ void empty() {}

struct __align__(16) Word4 {
    unsigned v[4];
};

// The ceiling: 16 bytes a thread from one place to another. What is read L2 is advised to keep (evict_last, by the
// builtin under libcu++'s cuda::associate_access_property), as kernels do that come near it: at 2 x 617 MB an H200 moves
// 4,330 GB/s so, and 4,250 without.
extern "C" __global__ void copy(const Word4* __restrict__ from, Word4* __restrict__ to, long long n) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000  // nvcc 13.0 breaks down at it for later ones
    from = static_cast<const Word4*>(__nv_associate_access_property(from, 0x14F0000000000000ull));
#endif
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

// Reads all of a buffer through the caches. The sum only keeps the loads from being optimised away.
extern "C" __global__ void sweep(const Word4* __restrict__ from, long long n, unsigned* sink) {
    const long long step = (long long)gridDim.x * blockDim.x;
    unsigned sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        sum += from[i].v[0] ^ from[i].v[1] ^ from[i].v[2] ^ from[i].v[3];
    if (sum == 0x9e3779b9u) *sink = sum;
}

// A 64-bit digest of n words that depends on each word and its place: tells whether a buffer was changed. The mixing
// steps are those of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
extern "C" __global__ void digest(const unsigned* __restrict__ words, long long n, unsigned long long* result) {
    const long long step = (long long)gridDim.x * blockDim.x;
    unsigned long long sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
        unsigned long long h = words[i] + 0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
        sum += h ^ (h >> 31);
    }
    atomicAdd(result, sum);
}
