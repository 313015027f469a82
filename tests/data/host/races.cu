// Kernels with races and without, launched with 4 blocks of 64 threads and 256 bytes of shared memory. The line above each
// says what a check that looks for races finds: "right" or "race"; where; in which order of threads, if not in all of four
// (sometimes: in one of ten); and after a colon what its message holds. // <- marks the lines that it names. A kernel
// without such a line has a test of its own.
#include <cuda_pipeline.h>
#include <cooperative_groups.h>
#include <cuda/atomic>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
#define ARGS const float* x, float* part, float* y, int n
#define INTS const float* x, float* part, int* y, int n

// ---- shared memory ----------------------------------------------------------------------------------------------------
// race in shared memory
__global__ void shared_lost(INTS) { __shared__ int s[4]; int t = threadIdx.x;
    if (t < 4) s[t] = 0; __syncthreads();
    s[t % 4]++;  // <-
    __syncthreads(); y[t] = s[t % 4]; }
// race in shared memory
__global__ void shared_no_barrier(INTS) { extern __shared__ int s[]; int t = threadIdx.x;
    s[t] = t;  // <-
    y[t] = s[t ^ 1]; __syncthreads(); }  // <-
// race in shared memory: is the index of one of them beyond its own elements?
__global__ void shared_next(INTS) { __shared__ int s[65]; int t = threadIdx.x;
    s[t] = t, s[t + 1] = -t; __syncthreads(); y[t] = s[t]; }
// race in shared memory
__global__ void shared_too_early(INTS) { __shared__ int s[64]; int t = threadIdx.x; s[t] = t; __syncthreads();
    int next = s[(t + 1) % 64];  // <-
    s[t] = next + 1; __syncthreads(); y[t] = s[t]; }  // <-
// race in shared memory
__global__ void shared_set_late(INTS) { __shared__ int s; int t = threadIdx.x;
    if (t == 0) s = 1;  // <-
    atomicAdd(&s, 1); __syncthreads(); y[t] = s; }  // <-
// race in shared memory
__global__ void shared_other_warp(INTS) { __shared__ int s[64]; int t = threadIdx.x;
    s[t] = t; __syncwarp();  // <-
    y[t] = s[t ^ 32]; }  // <-

// right
__global__ void fine_shared_atomic(INTS) { __shared__ int s[4]; int t = threadIdx.x;
    if (t < 4) s[t] = 0; __syncthreads(); atomicAdd(&s[t % 4], 1); __syncthreads(); y[t] = s[t % 4]; }
// right
__global__ void fine_shared_same_value(INTS) { __shared__ int flag; flag = 1; __syncthreads(); y[threadIdx.x] = flag; }
// right
__global__ void fine_shared_warp(INTS) { __shared__ int s[64]; int t = threadIdx.x;
    s[t] = t; __syncwarp(); y[t] = s[t ^ 1]; __syncwarp(); s[t] = 0; }
// right
__global__ void fine_shared_own(INTS) { extern __shared__ int s[]; int t = threadIdx.x;
    s[t] = t; s[t] += s[t]; y[t] = s[t]; }
// right
__global__ void fine_shared_tile(INTS) { __shared__ float4 s[64]; int t = threadIdx.x;
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    s[t] = make_float4(t, t, t, t); tile.sync(); y[t] = s[t ^ 7].w; }
// right
__global__ void fine_shared_class(INTS) {  // g++ keeps a byte beside s, in shared memory, that says whether it was made
    __shared__ half s[64]; const int t = threadIdx.x;
    s[t] = __int2half_rn(t); __syncthreads(); y[t] = s[t ^ 1]; }

// ---- blocks that live at the same time ---------------------------------------------------------------------------------
#define HEAD extern __shared__ int d[]; __shared__ int s[64]; auto c = cg::this_cluster(); const int t = threadIdx.x; \
    const int rank = c.block_rank(), i = blockIdx.x * 64 + t; s[t] = t, d[t] = t; \
    int *rs = c.map_shared_rank(s, 1 - rank), *rd = c.map_shared_rank(d, 1 - rank); c.sync();
// race in a cluster
__global__ void overwritten(INTS) { HEAD
    y[i] = rs[63 - t] + rd[t];  // <-
    s[t] = 7; c.sync(); }  // <-
// race in a cluster
__global__ void pushed_late(INTS) { HEAD
    rd[t] = 100 + rank;  // <-
    y[i] = d[t]; c.sync(); }  // <-
// race in a cluster: is the index of one of them beyond its own elements?
__global__ void same_place(INTS) { HEAD int* first = c.map_shared_rank(d, 0);
    first[t] = 100 + rank;  // <-
    c.sync(); y[i] = first[t]; c.sync(); }
// race in a cluster
__global__ void block_barrier(INTS) { HEAD
    rs[t] = 100 + t; __syncthreads();  // <-
    y[i] = s[t]; c.sync(); }  // <-
// race in a cluster
__global__ void within_a_block(INTS) { HEAD
    rs[t] = 100 + t;  // <-
    y[i] = rs[t ^ 32]; c.sync(); }  // <-

// right in a cluster
__global__ void fine_blocks_read(INTS) { HEAD y[i] = rs[63 - t] + rd[t]; c.sync(); s[t] = 7; c.sync(); }
// right in a cluster
__global__ void fine_blocks_pushed(INTS) { HEAD rd[t] = 100 + rank; c.sync(); y[i] = d[t]; c.sync(); }
// right in a cluster
__global__ void fine_blocks_own(INTS) { HEAD rs[t] = 100 + t; __syncthreads(); y[i] = rs[t ^ 32]; c.sync(); }
// right in a cluster
__global__ void fine_blocks_atomics(INTS) { HEAD atomicAdd(c.map_shared_rank(d, 0), 1); c.sync(); y[i] = d[0]; c.sync(); }
// right in a cluster
__global__ void fine_blocks_halves(INTS) { HEAD int v = rs[t]; auto k = c.barrier_arrive(); c.barrier_wait(); s[t] = v; }
// right in a cluster
__global__ void fine_blocks_flag(INTS) { HEAD if (t == 0) {
        if (rank == 0) { rd[5] = 77; __threadfence(); atomicExch(rs + 9, 1); }
        else { while (atomicAdd(s + 9, 0) != 1); __threadfence(); y[i] = d[5]; } }
    c.sync(); }

// race in a grid
__global__ void grid_late(INTS) { const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    y[i] = t;
    y[256 + i] = y[(i + 64) % 256]; cg::this_grid().sync(); }
// right in a grid
__global__ void fine_blocks_grid(INTS) { const int t = threadIdx.x, i = blockIdx.x * 64 + t;
    y[i] = t; cg::this_grid().sync(); y[256 + i] = y[(i + 64) % 256]; cg::this_grid().sync(); y[i] = 0; }
// right in a grid
__global__ void fine_blocks_grid_past_l1(INTS) { const int t = threadIdx.x, i = blockIdx.x * 64 + t, next = (i + 64) % 256;
    y[i] = t; cg::this_grid().sync(); y[256 + i] = __ldcg(y + next);
    cg::this_grid().sync(); y[next] = 0; y[256 + i] += __ldcg(x + i); }

// ---- global memory -----------------------------------------------------------------------------------------------------
#define HERE const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
__device__ unsigned arrived = 0;
__device__ bool last_block() { return atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1; }
__device__ void add_up(float* part, float* y) {
    if (threadIdx.x == 0) { float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += part[b]; y[0] = a; } }

// race in global memory, alternating: without a barrier between them
__global__ void two_threads(ARGS) { HERE if (i < n) y[i % 7] += x[i]; }
// race in global memory: without a barrier between them: is the index of one of them beyond its own elements?
__global__ void next_thread(ARGS) { HERE if (t < 60) y[i] = x[i], y[i + 1] = -x[i]; }
// race in global memory, alternating: is the index of one of them beyond its own elements? else use atomics, or a __threadfence()
__global__ void two_blocks(ARGS) { HERE if (i < n) y[t] += x[i]; }
// race in global memory, alternating: is the index of one of them beyond its own elements? else use atomics, or a __threadfence()
__global__ void next_row(ARGS) { HERE if (t <= 60) y[60 * blockIdx.x + t] = x[i]; }
// race in global memory, alternating
__global__ void halo(ARGS) { HERE if (i + 1 < n) part[i] = part[i + 1] + 1; }
// race in global memory, alternating: an atomic of block scope (_block) orders the threads of one block only
__global__ void of_block(ARGS) { HERE if (i < n) atomicAdd_block(&y[i % 7], x[i]); }
// race in global memory, alternating: may set its flag or counter before the write is visible: call __threadfence() between them
__global__ void no_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }
// race in global memory, alternating
__global__ void late_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; last = last_block(); __threadfence(); } __syncthreads();
    if (last) add_up(part, y); }
// race in global memory, alternating
__global__ void other_fence(ARGS) { HERE __shared__ bool last;
    if (t == 33) part[blockIdx.x] = x[i];
    if (t == 0) { __threadfence(); last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }

__global__ void late_guard(ARGS) { HERE const float a = x[i]; if (i >= n) return; y[i] = a; }
__global__ void padding(float* y, int by) { __shared__ float a[33], b[33]; const int t = threadIdx.x;
    if (t < 33) a[t + by] = t, b[t + by] = -t;
    __syncthreads(); if (t < 33) y[t] = a[t] + b[t]; }
__global__ void late_guard_of_copy(ARGS) { HERE __shared__ float s[64];
    __pipeline_memcpy_async(s + t, x + i, 4); __pipeline_commit(); __pipeline_wait_prior(0);
    if (i < n) y[i] = s[t]; }

// right
__global__ void fine_atomic(ARGS) { HERE if (i < n) atomicAdd(&y[i % 7], x[i]); }
// right
__global__ void fine_own_bins(ARGS) { HERE y[i] = x[i]; atomicAdd_block(&y[i], 1.f); __syncthreads(); y[i] += y[i]; }
// right
__global__ void fine_same(ARGS) { y[0] = 3; }
// right
__global__ void fine_barrier(ARGS) { HERE part[i] = x[i]; __syncthreads(); y[i] = part[i ^ 63]; }
// right
__global__ void fine_fence(ARGS) { HERE __shared__ bool last;
    if (t == 0) { part[blockIdx.x] = x[i]; __threadfence(); last = last_block(); } __syncthreads();
    if (last) add_up(part, y); }
// right
__global__ void fine_fence_of_all(ARGS) { HERE __shared__ bool last;
    part[i] = x[i]; __threadfence(); __syncthreads();
    if (t == 0) last = last_block();
    __syncthreads();
    if (last) for (int k = t; k < n; k += 64) y[k] = part[k]; }
// right
__global__ void fine_fence_of_one(ARGS) { HERE __shared__ bool last;
    part[i] = x[i]; __syncthreads();
    if (t == 0) { __threadfence(); last = last_block(); }
    __syncthreads();
    if (last) for (int k = t; k < n; k += 64) y[k] = part[k]; }
// The second of two blocks finds that the first one has been there.
#define SECOND(come) HERE __shared__ bool second; unsigned* const been = (unsigned*)y + 256 + i / 128; \
    part[i] = x[i]; __threadfence(); __syncthreads(); if (t == 0) second = come; __syncthreads(); if (second) y[i] = part[i ^ 64];
// right
__global__ void fine_second_exchange(ARGS) { SECOND(atomicExch(been, 1)) }
// right
__global__ void fine_second_compares(ARGS) { SECOND(atomicCAS(been, 0, 1)) }
// right
__global__ void fine_second_maximum(ARGS) { SECOND(atomicMax(been, 1)) }
// right
__global__ void fine_cas(ARGS) { HERE int* a = (int*)y; int old = *a, was;
    do { was = old; old = atomicCAS(a, was, __float_as_int(__int_as_float(was) + x[i])); } while (old != was); }
// right
__global__ void fine_max(ARGS) { HERE int* a = (int*)y; if (i > *a) atomicMax(a, i); }

// ---- fences and scopes -------------------------------------------------------------------------------------------------
#define LAST cuda::atomic_ref<unsigned, cuda::thread_scope_device>(arrived)
#define ADD if (last) { float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += part[b]; y[0] = a; }
__device__ volatile unsigned flags[4];
// right, alternating
__global__ void acquire_release(ARGS) { __shared__ bool last;
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x];
        last = LAST.fetch_add(1, cuda::memory_order_acq_rel) == gridDim.x - 1; if (last) arrived = 0; } __syncthreads();
    if (threadIdx.x == 0) ADD }
// race, alternating
__global__ void relaxed(ARGS) { __shared__ bool last;
    if (threadIdx.x == 0) { part[blockIdx.x] = x[blockIdx.x];
        last = LAST.fetch_add(1, cuda::memory_order_relaxed) == gridDim.x - 1; if (last) arrived = 0; } __syncthreads();
    if (threadIdx.x == 0) ADD }
#define BY_FLAG(fence, behind, look, read) if (threadIdx.x == 0) { const int b = blockIdx.x; \
        part[b] = x[b]; fence; flags[b] = 1; \
        if (b) { while (!look) {} behind; y[b] = read(part + b - 1); } }
#define LOAD(p) *(p)
#define ADDED(p) atomicAdd(p, 0.f)
// right, alternating
__global__ void by_flag(ARGS) { BY_FLAG(__threadfence(), __threadfence(), flags[b - 1], LOAD) }
// right, alternating
__global__ void by_flag_acquired(ARGS) {
    BY_FLAG(__threadfence(), , (cuda::atomic_ref<unsigned>((unsigned&)flags[b - 1]).fetch_add(0, cuda::memory_order_acquire)), LOAD) }
// right, alternating
__global__ void by_flag_of_added(ARGS) { BY_FLAG(__threadfence(), , flags[b - 1], ADDED) }
// right, alternating
__global__ void by_flag_past_l1(ARGS) { BY_FLAG(__threadfence(), , flags[b - 1], __ldcg) }
// right, alternating
__global__ void by_flag_four_past_l1(ARGS) { if (threadIdx.x) return; const int b = blockIdx.x; float4* const p = (float4*)part + b;
    *p = make_float4(x[b], 1, 2, 3); __threadfence(); flags[b] = 1; if (!b) return;
    while (!flags[b - 1]) {}
    const float4 v = __ldcg(p - 1); y[b] = v.x + v.y + v.z + v.w; }
// race, alternating: may set its flag or counter before the write is visible
__global__ void by_flag_without_fence(ARGS) { BY_FLAG(, __threadfence(), flags[b - 1], LOAD) }
// race, alternating
__global__ void by_flag_without_fence_past_l1(ARGS) { BY_FLAG(, , flags[b - 1], __ldcg) }
// race, alternating: with cuda::memory_order_acquire, or call __threadfence() after it
__global__ void by_flag_without_fence_behind(ARGS) { BY_FLAG(__threadfence(), , flags[b - 1], LOAD) }
// race, alternating: with cuda::memory_order_acquire, or call __threadfence() after it
__global__ void by_atomic_without_fence_behind(ARGS) {
    BY_FLAG(__threadfence(), __threadfence_block(); __syncwarp(), atomicAdd((int*)flags + b - 1, 0), LOAD) }
// The first block writes, and the second one waits for its flag.
#define WAIT(some, barrier) const int t = threadIdx.x; volatile float& flag = part[255];     if (blockIdx.x == 0) { part[t] = x[t]; __threadfence(); __syncthreads(); if (t == 0) flag = 1; }     if (blockIdx.x == 1) { if (some) { while (!flag) {} __threadfence(); } barrier; y[t] = part[t]; }
// right, sometimes
__global__ void all_wait(ARGS) { WAIT(true, ) }
__global__ void one_waits(ARGS) { WAIT(t == 0, ) }
// right, sometimes
__global__ void one_waits_for_all(ARGS) { WAIT(t == 0, __syncthreads()) }
// right, sometimes
__global__ void one_waits_for_its_warp(ARGS) { WAIT(t % 32 == 0, __syncwarp()) }
// Threads of one block, each with a flag of its own.
#define FLAGS(mine, sees) __shared__ float s[64];     const int t = threadIdx.x; int* const set = (int*)part + 64 * blockIdx.x;     s[t] = x[t]; __threadfence_block(); mine; sees; y[64 * blockIdx.x + t] = s[t ^ 33];
// right, sometimes
__global__ void sees_the_other_flag(ARGS) { FLAGS(atomicExch(set + t, 1), while (!((volatile int*)set)[t ^ 33]) {}) }
// race, sometimes
__global__ void sees_its_own_flag(ARGS) { FLAGS(atomicExch(set + t, 1), while (!((volatile int*)set)[t]) {}) }
// right, sometimes
__global__ void by_a_third_thread(ARGS) { __shared__ float s; int* const set = (int*)part + 64 * blockIdx.x;
    if (threadIdx.x == 0) { s = x[0]; __threadfence(); atomicExch(set, 1); }
    if (threadIdx.x == 32) { while (!atomicAdd(set, 0)) {} __threadfence(); atomicExch(set + 1, 1); }
    if (threadIdx.x == 33) { while (!atomicAdd(set + 1, 0)) {} y[blockIdx.x] = s; } }
// One thread waits for the other block's flag, and tells the others by one in shared memory.
#define TELLS(fence, read) __shared__ int s; const int t = threadIdx.x; int* const set = (int*)part + 255; \
    if (t == 0) s = 0; \
    __syncthreads(); \
    if (blockIdx.x == 0 && t == 0) { part[0] = x[0]; __threadfence(); atomicExch(set, 1); } \
    if (blockIdx.x == 1) { \
        if (t == 0) { while (!atomicAdd(set, 0)) {} fence; atomicExch(&s, 1); } \
        else { while (!atomicAdd(&s, 0)) {} __threadfence_block(); } \
        y[t] = read(part); }
// right, sometimes
__global__ void tells_by_shared(ARGS) { TELLS(__threadfence(), LOAD) }
// right, sometimes
__global__ void tells_by_shared_past_l1(ARGS) { TELLS(__threadfence_block(), __ldcg) }
// One lane of each warp hands over what its warp has written, or waits for it.
#define WARPS(barrier) __shared__ int s; __shared__ float v[32]; const int t = threadIdx.x;     if (t == 0) s = 0;     __syncthreads();     if (t < 32) { v[t] = x[t]; barrier; if (t == 0) { __threadfence_block(); atomicExch(&s, 1); } }     else { if (t == 32) { while (!atomicAdd(&s, 0)) {} __threadfence_block(); } __syncwarp();         y[64 * blockIdx.x + t] = v[t - 32]; }
// right, sometimes
__global__ void warps(ARGS) { WARPS(__syncwarp()) }
// race, sometimes
__global__ void warps_without_barrier(ARGS) { WARPS() }
// A chain whose blocks take their numbers from a counter.
#define CHAIN(scope, stores, loads, after) \
    if (threadIdx.x) return; \
    unsigned* const chain = (unsigned*)part + 64; \
    const unsigned b = atomicAdd(chain + 64, 1u); \
    if (b) { cuda::atomic_ref<unsigned, cuda::thread_scope_##scope> before(chain[b - 1]); \
        while (!before.load(cuda::memory_order_##loads)) {} after; } \
    part[b] = x[b] + (b ? part[b - 1] : 0); \
    cuda::atomic_ref<unsigned, cuda::thread_scope_##scope>(chain[b]).store(1, cuda::memory_order_##stores);
// right, sometimes
__global__ void chain_acquires(ARGS) { CHAIN(device, release, acquire, ) }
// right, sometimes
__global__ void chain_fence(ARGS) { CHAIN(device, release, relaxed, __threadfence()) }
// right, sometimes
__global__ void chain_atomic_fence(ARGS) {
    CHAIN(device, release, relaxed, cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_device)) }
// race, sometimes: the second block took no notice of the first one's flag or counter
__global__ void chain_relaxed_load(ARGS) { CHAIN(device, release, relaxed, ) }
// race, sometimes: may set its flag or counter before the write is visible
__global__ void chain_relaxed_store(ARGS) { CHAIN(device, relaxed, acquire, ) }
// race, sometimes: an atomic of block scope (_block
__global__ void chain_of_block(ARGS) { CHAIN(block, release, acquire, ) }
// race, sometimes: took no notice
__global__ void chain_fence_of_block(ARGS) {
    CHAIN(device, release, relaxed, cuda::atomic_thread_fence(cuda::memory_order_acquire, cuda::thread_scope_block)) }
// right, sometimes
__global__ void chain_volatile(ARGS) {
    if (threadIdx.x) return;
    volatile unsigned* const chain = (unsigned*)part + 64;
    const unsigned b = atomicAdd((unsigned*)part + 128, 1u);
    if (b) { while (!chain[b - 1]) {} __threadfence(); }
    part[b] = x[b] + (b ? part[b - 1] : 0);
    __threadfence();
    chain[b] = 1; }
// race, sometimes: the second block took no notice of the first one's flag or counter
__global__ void own_counter(ARGS) {
    if (threadIdx.x) return;
    const unsigned b = blockIdx.x;
    part[b] = x[b];
    __threadfence();
    atomicAdd((unsigned*)part + 64 + 2 * b, 1u);
    y[b] = b ? part[b - 1] : 0; }
// right, sometimes
__global__ void own_bins_of_block(ARGS) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_block>(((unsigned*)part)[blockIdx.x]).fetch_add(1); }
// race, sometimes
__global__ void cas_of_block(ARGS) { if (threadIdx.x == 0) atomicCAS_block((int*)y, 0, int(blockIdx.x) + 1); }
#define PARTIALS(fence, read, ...) volatile float* const seen = part; if (threadIdx.x) return; \
    seen[blockIdx.x] = x[blockIdx.x]; fence; \
    if (atomicAdd((unsigned*)part + 64, 1u) != gridDim.x - 1) { __VA_ARGS__; return; } \
    float a = 0; for (unsigned b = 0; b < gridDim.x; ++b) a += read; y[0] = a;
__global__ void volatile_partials(ARGS) { PARTIALS(__threadfence(), seen[b]) }
__global__ void volatile_partials_without_fence(ARGS) { PARTIALS(, seen[b]) }
__global__ void volatile_partials_of_block(ARGS) { PARTIALS(__threadfence_block(), part[b]) }
__global__ void volatile_partials_past_l1(ARGS) { PARTIALS(, __ldcg(part + b)) }
__global__ void volatile_partials_late_fence(ARGS) { PARTIALS(, seen[b], __threadfence(), seen[100] = 1) }
__global__ void volatile_flag(ARGS) { volatile float* const flag = part;
    if (threadIdx.x == 0 && blockIdx.x == 0) flag[0] = 7;
    if (threadIdx.x == 0 && blockIdx.x == 1) { while (!flag[0]) {} y[0] = flag[0]; } }
__global__ void volatile_by_two(ARGS) { __shared__ int s; volatile float* const seen = part;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 40) { seen[0] = x[0]; __threadfence(); atomicExch(&s, 1); }
    if (blockIdx.x == 0 && threadIdx.x == 0) { while (!atomicAdd(&s, 0)) {} __threadfence(); seen[1] = 1; }
    if (blockIdx.x == 1 && threadIdx.x == 0) { while (!seen[1]) {} __threadfence(); y[0] = seen[0]; } }
// Blocks that live at the same time read again what they have seen.
__global__ void volatile_again(ARGS) { volatile float* const flag = part; if (threadIdx.x) return;
    if (blockIdx.x == 0) { y[0] = 7; flag[0] = 7; return; }
    while (!flag[0]) {}
    for (int k = 0; k < 32; ++k) if (flag[0] != 7) y[0] = 0; }

// ---- locks: one thread of each block, or each thread, adds to y[0] ---------
#define LOCKED(take, fence, add, publish, give) HERE int* const lock = (int*)part; \
    if (t == 0) { while (take) {} fence; add; publish; give; }
#define REF cuda::atomic_ref<int, cuda::thread_scope_device>(*lock)
#define TAKE(order) REF.exchange(1, cuda::memory_order_##order)
#define GIVE(order) REF.store(0, cuda::memory_order_##order)
// right
__global__ void fine_lock(ARGS) {
    LOCKED(atomicCAS(lock, 0, 1), __threadfence(), y[0] += x[i], __threadfence(), atomicExch(lock, 0)) }
// right
__global__ void fine_lock_exchange(ARGS) {
    LOCKED(atomicExch(lock, 1), __threadfence(), y[0] += x[i], __threadfence(), *(volatile int*)lock = 0) }
// right
__global__ void fine_lock_or(ARGS) {
    LOCKED(atomicOr(lock, 1), __threadfence(), y[0] += x[i], __threadfence(), atomicAnd(lock, 0)) }
// right
__global__ void fine_lock_ref(ARGS) { LOCKED(TAKE(acquire), , y[0] += x[i], , GIVE(release)) }
// right
__global__ void fine_lock_of_atomics(ARGS) {
    LOCKED(atomicCAS(lock, 0, 1), , atomicAdd(y, x[i]), __threadfence(), atomicExch(lock, 0)) }
// right
__global__ void fine_lock_of_bits(ARGS) { HERE int* const come = (int*)part; const int mine = 1 << blockIdx.x;
    if (t) return; part[64 + blockIdx.x] = x[i]; __threadfence();
    if ((atomicOr(come, mine) | mine) == 15) for (int b = 0; b < 4; ++b) y[0] += part[64 + b]; }
#define LANES(fence, publish) HERE int* const lock = (int*)part; \
    if (t % 32 == 0) { while (atomicCAS(lock, 0, 1)) {} fence; } \
    __syncwarp(); y[t % 32] += x[i]; publish; __syncwarp(); if (t % 32 == 0) atomicExch(lock, 0);
// right
__global__ void fine_lock_of_warps(ARGS) { LANES(__threadfence(), __threadfence()) }
#define EACH(fence) HERE int* const lock = (int*)part; \
    for (bool done = false; !done;) if (atomicCAS(lock, 0, 1) == 0) { \
        fence; y[0] += x[i]; __threadfence(); atomicExch(lock, 0); done = true; }
// right
__global__ void fine_lock_of_each(ARGS) { EACH(__threadfence()) }
// race: lock: load it with cuda::memory_order_acquire, or call __threadfence() after it
__global__ void lock_without_fence(ARGS) {
    LOCKED(atomicCAS(lock, 0, 1), , y[0] += x[i], __threadfence(), atomicExch(lock, 0)) }
// race: or call __threadfence() after it
__global__ void lock_exchange_without_fence(ARGS) {
    LOCKED(atomicExch(lock, 1), __threadfence_block(), y[0] += x[i], __threadfence(), atomicExch(lock, 0)) }
// race: or call __threadfence() after it
__global__ void lock_or_without_fence(ARGS) {
    LOCKED(atomicOr(lock, 1), , y[0] += x[i], __threadfence(), atomicAnd(lock, 0)) }
// race: or call __threadfence() after it
__global__ void lock_ref_takes_by_release(ARGS) { LOCKED(TAKE(release), , y[0] += x[i], , GIVE(release)) }
// race: may set its flag or counter before the write is visible
__global__ void lock_ref_gives_by_acquire(ARGS) { LOCKED(TAKE(acquire), , y[0] += x[i], , GIVE(acquire)) }
// race
__global__ void lock_of_warps_without_fence(ARGS) { LANES(, __threadfence()) }
// race, alternating
__global__ void lock_of_each_without_fence(ARGS) { EACH() }
// race: may set its flag or counter before the write is visible
__global__ void unlock_without_fence(ARGS) {
    LOCKED(atomicCAS(lock, 0, 1), __threadfence(), y[0] += x[i], , *(volatile int*)lock = 0) }
