// The copies that the lab tries for its ceiling: the fastest is what a case of as many bytes is compared with.
// cudalab/device/copy.py names them and gives their grids; bench/copies.py times them all. Each takes n packs of 16
// bytes from one place to another. The places are 16-byte aligned and do not overlap.

struct __align__(16) Pack {
    unsigned v[4];
};

#define ENTRY extern "C" __global__ void
#define PLACES const Pack *__restrict__ from, Pack *__restrict__ to, long long n

// An address with advice to L2 about what is read or written there, by the builtin under libcu++'s
// cuda::associate_access_property: keep it (evict_last), as kernels do that come near the ceiling, or give it up first
// (evict_first). No advice from architecture 100 on: nvcc 13.0 breaks down at it.
template <class P>
__device__ __forceinline__ P* advised(P* at, unsigned long long advice) {
#if __CUDA_ARCH__ >= 800 && __CUDA_ARCH__ < 1000
    return static_cast<P*>(__nv_associate_access_property(at, advice));
#else
    return at;
#endif
}
__device__ __forceinline__ const Pack* kept(const Pack* from) { return advised(from, 0x14F0000000000000ull); }
__device__ __forceinline__ Pack* given_up(Pack* to) { return advised(to, 0x12F0000000000000ull); }

__device__ __forceinline__ Pack load(const Pack* from) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    return {{v.x, v.y, v.z, v.w}};
}

__device__ __forceinline__ uint4 words(const Pack& pack) {
    uint4 v;
    v.x = pack.v[0], v.y = pack.v[1], v.z = pack.v[2], v.w = pack.v[3];
    return v;
}

// What is copied: float32 numbers from 1 to 2 whose bits look random. copy.py has the same formula.
ENTRY fill(Pack* __restrict__ to, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Pack pack;
#pragma unroll
    for (int w = 0; w < 4; ++w) pack.v[w] = 0x3F800000u | ((unsigned)(4 * i + w) * 0x9E3779B1u >> 9);
    to[i] = pack;
}

// How a pack is stored: as usual; as data that is not read again (.cs); through the caches (.wt).
struct Usual {
    __device__ void operator()(Pack* to, const Pack& pack) const { *to = pack; }
};
struct Streaming {
    __device__ void operator()(Pack* to, const Pack& pack) const { __stcs(reinterpret_cast<uint4*>(to), words(pack)); }
};
struct Through {
    __device__ void operator()(Pack* to, const Pack& pack) const { __stwt(reinterpret_cast<uint4*>(to), words(pack)); }
};

// Each thread copies `packs` packs, a block's width apart: all loads are on their way before the first store.
template <int packs, class Store>
__device__ __forceinline__ void once(const Pack* from, Pack* to, long long n, Store store) {
    const long long first = (long long)blockIdx.x * blockDim.x * packs + threadIdx.x;
    Pack held[packs];
#pragma unroll
    for (int p = 0; p < packs; ++p)
        if (const long long i = first + (long long)p * blockDim.x; i < n) held[p] = load(from + i);
#pragma unroll
    for (int p = 0; p < packs; ++p)
        if (const long long i = first + (long long)p * blockDim.x; i < n) store(to + i, held[p]);
}

ENTRY one_pack(PLACES) { once<1>(kept(from), to, n, Usual()); }
ENTRY plain(PLACES) { once<1>(from, to, n, Usual()); }
ENTRY two_packs(PLACES) { once<2>(kept(from), to, n, Usual()); }
ENTRY four_packs(PLACES) { once<4>(kept(from), to, n, Usual()); }
ENTRY store_cs(PLACES) { once<1>(kept(from), to, n, Streaming()); }
ENTRY store_wt(PLACES) { once<1>(kept(from), to, n, Through()); }
ENTRY store_evict_first(PLACES) { once<1>(kept(from), given_up(to), n, Usual()); }
ENTRY two_packs_evict_first(PLACES) { once<2>(kept(from), given_up(to), n, Usual()); }

// A grid that fits on the GPU at once goes over all packs, four of a thread at a time.
ENTRY persistent(PLACES) {
    from = kept(from);
    const long long stride = (long long)gridDim.x * blockDim.x;
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < n; i += 4 * stride) {
        Pack held[4];
#pragma unroll
        for (int p = 0; p < 4; ++p) held[p] = load(from + i + p * stride);
#pragma unroll
        for (int p = 0; p < 4; ++p) to[i + p * stride] = held[p];
    }
    for (; i < n; i += stride) to[i] = load(from + i);
}

// TMA bulk copies, through a ring of STAGES pieces of shared memory. One thread of a block asks for pieces, waits for
// each in turn, and sends it on; the copy engine of the SM moves the bytes. Where there is no such engine the kernel
// does nothing, and copy.py leaves it out.
template <int PIECE, int STAGES, bool KEPT>  // packs in a piece
__device__ __forceinline__ void bulk(const Pack* from, Pack* to, long long n) {
#if __CUDA_ARCH__ >= 900
    __shared__ alignas(128) Pack ring[STAGES][PIECE];
    __shared__ alignas(8) unsigned long long full[STAGES];
    if (threadIdx.x != 0) return;

    const auto address = [](const void* p) { return (unsigned)__cvta_generic_to_shared(p); };
    const long long pieces = (n + PIECE - 1) / PIECE;
    const auto bytes = [=](long long piece) {
        const long long left = n - piece * PIECE;
        return (unsigned)(sizeof(Pack) * (left < PIECE ? left : PIECE));
    };
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    const auto fetch = [&](long long piece, int stage) {
        const unsigned size = bytes(piece), bar = address(&full[stage]), target = address(ring[stage]);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(bar), "r"(size) : "memory");
        if (KEPT)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
                "%4;"
                :
                : "r"(target), "l"(from + piece * PIECE), "r"(size), "r"(bar), "l"(policy)
                : "memory");
        else
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :
                         : "r"(target), "l"(from + piece * PIECE), "r"(size), "r"(bar)
                         : "memory");
    };

    for (int s = 0; s < STAGES; ++s)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(address(&full[s])) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
    for (int s = 0; s < STAGES - 1; ++s)
        if (const long long piece = blockIdx.x + (long long)s * gridDim.x; piece < pieces) fetch(piece, s);

    int stage = 0;
    unsigned phase = 0;
    for (long long piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        unsigned done = 0;
        while (!done)
            asm volatile(
                "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                : "=r"(done)
                : "r"(address(&full[stage])), "r"(phase)
                : "memory");
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                     :
                     : "l"(to + piece * PIECE), "r"(address(ring[stage])), "r"(bytes(piece))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" : : : "memory");
        // The stage before this one is free when its piece was read: all groups but the last one are through.
        asm volatile("cp.async.bulk.wait_group.read 1;" : : : "memory");
        if (const long long next = piece + (long long)(STAGES - 1) * gridDim.x; next < pieces)
            fetch(next, stage == 0 ? STAGES - 1 : stage - 1);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    asm volatile("cp.async.bulk.wait_group 0;" : : : "memory");
#endif
}

ENTRY bulk_2k(PLACES) { bulk<128, 8, false>(from, to, n); }
ENTRY bulk_4k(PLACES) { bulk<256, 8, false>(from, to, n); }
ENTRY bulk_8k(PLACES) { bulk<512, 4, false>(from, to, n); }
ENTRY bulk_4k_kept(PLACES) { bulk<256, 8, true>(from, to, n); }
ENTRY bulk_8k_kept(PLACES) { bulk<512, 4, true>(from, to, n); }
