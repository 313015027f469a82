#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
struct Pair { double value; long long index; };
__global__ void lanes(int* out, const int* x) {
    const int i = threadIdx.x;
    auto block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    out += i;
    *out = tile.meta_group_rank() * 100 + tile.meta_group_size() * 10 + tile.thread_rank(), out += 64;
    *out = cg::inclusive_scan(tile, x[i]), out += 64;
    *out = cg::exclusive_scan(warp, x[i], cg::plus<int>()), out += 64;
    if (x[i] % 3 == 0) {
        auto some = cg::coalesced_threads();
        *out = some.size() * 100 + some.thread_rank();
        out[64] = cg::reduce(some, x[i], cg::greater<int>());
        out[128] = some.shfl(x[i], 1);
    } else {
        auto others = cg::coalesced_threads();
        *out = -int(others.size()), out[64] = cg::reduce(others, x[i], cg::less<int>()), out[128] = 0;
    }
    out += 192;
    auto same = cg::labeled_partition(warp, x[i] % 4);
    *out = cg::reduce(same, 1, cg::plus<int>()) * 10 + same.meta_group_size(), out += 64;
    auto half = cg::binary_partition(tile, x[i] % 2);
    *out = half.size(), out += 64;
    Pair pair = tile.shfl(Pair{double(x[i]), x[i]}, 3);
    *out = int(pair.value + pair.index), out += 64;
    cg::thread_group any = cg::tiled_partition(block, 4);
    any.sync();
    *out = any.size() * 10 + any.thread_rank(), out += 64;
}
