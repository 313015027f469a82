// The lab's own kernels: what the clocks need around the kernel that they time. Compiled once a run.

// Nanoseconds of the GPU's own timer, which no event takes part in; 0 on the CPU, where cudalab.host runs this.
__device__ unsigned long long nanoseconds() {
#ifdef __CUDACC_VER_MAJOR__
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#else
    return 0;
#endif
}

// Holds the stream until *released >= ticket, so that everything queued behind it starts with no gap, whatever the
// host's pace was, and writes when it let go. `released` is host memory that the device sees. After max_cycles it lets
// go by itself and counts that in *expired: some library waited for the stream inside the work, and would have waited
// for ever.
extern "C" __global__ void cudalab_hold(
    volatile int* released, int ticket, long long max_cycles, int* expired, unsigned long long* let_go
) {
    const long long start = clock64();
    while (*released < ticket) {
        if (clock64() - start > max_cycles) {
            *expired = *expired + 1;
            break;
        }
    }
    *let_go = nanoseconds();
}

extern "C" __global__ void empty() {}

// Writes the time of the GPU's own timer. This kernel's name and that of the one above mark a sample in a profile, so no
// user's kernel should have it.
extern "C" __global__ void cudalab_stamp(unsigned long long* at) { *at = nanoseconds(); }

struct __align__(16) Word4 {
    unsigned v[4];
};

// Reads all of a buffer through the caches. The sum only keeps the loads from being optimised away.
extern "C" __global__ void sweep(const Word4* __restrict__ from, long long n, unsigned* sink) {
    const long long step = (long long)gridDim.x * blockDim.x;
    unsigned sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step)
        sum += from[i].v[0] ^ from[i].v[1] ^ from[i].v[2] ^ from[i].v[3];
    if (sum == 0x9e3779b9u) *sink = sum;
}

// Memory between two addresses.
struct Region {
    unsigned char* at;
    long long bytes;
};

// Writes one word again and again into each region; blockIdx.y is the region's number.
extern "C" __global__ void fill(const Region* regions, unsigned word) {
    const Region region = regions[blockIdx.y];
    const long long step = (long long)gridDim.x * blockDim.x, first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const bool aligned = (unsigned long long)region.at % 4 == 0;
    const long long words = aligned ? region.bytes / 4 : 0;
    for (long long i = first; i < words; i += step) reinterpret_cast<unsigned*>(region.at)[i] = word;
    for (long long i = 4 * words + first; i < region.bytes; i += step) region.at[i] = word >> (8 * (i % 4));
}

// A 64-bit digest of each region that depends on each word, its place and a key: tells whether memory was changed, or
// holds what it should. Who does not know the key cannot choose words for a digest. The last word is padded with zeros.
// The mixing steps are those of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
extern "C" __global__ void digest(const Region* regions, unsigned long long* results, unsigned long long key) {
    const Region region = regions[blockIdx.y];
    const long long step = (long long)gridDim.x * blockDim.x, words = (region.bytes + 3) / 4;
    const bool aligned = (unsigned long long)region.at % 4 == 0;
    unsigned long long sum = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        unsigned word = 0;
        if (aligned && 4 * i + 4 <= region.bytes) {
            word = reinterpret_cast<const unsigned*>(region.at)[i];
        } else {
            for (int b = 0; b < 4 && 4 * i + b < region.bytes; b++) word |= (unsigned)region.at[4 * i + b] << (8 * b);
        }
        unsigned long long h = key + word + 0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
        sum += h ^ (h >> 31);
    }
    for (int other = 16; other; other /= 2) sum += __shfl_down_sync(0xFFFFFFFFu, sum, other);
    if (threadIdx.x % 32 == 0) atomicAdd(&results[blockIdx.y], sum);
}
