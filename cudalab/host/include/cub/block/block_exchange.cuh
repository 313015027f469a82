// cub::BlockExchange and cub::WarpExchange: items change their owners, through shared memory.
#pragma once
#include "../util_type.cuh"

namespace cub {

namespace cudalab_parts {

// Where item `i` of thread `t` is among all `items * threads`: blocked, striped over all, and striped over each warp.
template <int items> int blocked(int t, int i) { return t * items + i; }
template <int threads> int striped(int t, int i) { return i * threads + t; }
template <int threads, int items> int warp_striped(int t, int i) {
    const int first = t / 32 * 32, lanes = threads - first < 32 ? threads - first : 32;
    return first * items + i * lanes + t % 32;
}

// What block and warp have in common. `Group` gives a thread's number and a barrier.
template <class T, int threads, int items, class Group> class exchange {
public:
    struct TempStorage { room<T, threads * items> value; };

    template <class Out> void StripedToBlocked(const T (&in)[items], Out (&out)[items], CUDALAB_PLACE) {
        moved(in, out, [](int t, int i) { return striped<threads>(t, i); }, by_block, file, line);
    }
    template <class Out> void BlockedToStriped(const T (&in)[items], Out (&out)[items], CUDALAB_PLACE) {
        moved(in, out, by_block, [](int t, int i) { return striped<threads>(t, i); }, file, line);
    }
    template <class Out> void WarpStripedToBlocked(const T (&in)[items], Out (&out)[items], CUDALAB_PLACE) {
        moved(in, out, warp_striped<threads, items>, by_block, file, line);
    }
    template <class Out> void BlockedToWarpStriped(const T (&in)[items], Out (&out)[items], CUDALAB_PLACE) {
        moved(in, out, by_block, warp_striped<threads, items>, file, line);
    }
    template <class Out, class Rank> void ScatterToBlocked(const T (&in)[items], Out (&out)[items], Rank (&rank)[items], CUDALAB_PLACE) {
        moved(in, out, [&](int, int i) { return int(rank[i]); }, by_block, file, line);
    }
    template <class Out, class Rank> void ScatterToStriped(const T (&in)[items], Out (&out)[items], Rank (&rank)[items], CUDALAB_PLACE) {
        moved(in, out, [&](int, int i) { return int(rank[i]); }, striped<threads>, file, line);
    }
    template <class Out, class Rank> void ScatterToStripedGuarded(const T (&in)[items], Out (&out)[items], Rank (&rank)[items], CUDALAB_PLACE) {
        moved(in, out, [&](int, int i) { return int(rank[i]); }, striped<threads>, file, line);  // ranks below 0 stay out
    }
    template <class Out, class Rank, class Flag>
    void ScatterToStripedFlagged(const T (&in)[items], Out (&out)[items], Rank (&rank)[items], Flag (&valid)[items], CUDALAB_PLACE) {
        moved(in, out, [&](int, int i) { return valid[i] ? int(rank[i]) : -1; }, striped<threads>, file, line);
    }
    // In place.
    void StripedToBlocked(T (&value)[items], CUDALAB_PLACE) { StripedToBlocked(value, value, file, line); }
    void BlockedToStriped(T (&value)[items], CUDALAB_PLACE) { BlockedToStriped(value, value, file, line); }
    void WarpStripedToBlocked(T (&value)[items], CUDALAB_PLACE) { WarpStripedToBlocked(value, value, file, line); }
    void BlockedToWarpStriped(T (&value)[items], CUDALAB_PLACE) { BlockedToWarpStriped(value, value, file, line); }
    template <class Rank> void ScatterToBlocked(T (&value)[items], Rank (&rank)[items], CUDALAB_PLACE) {
        ScatterToBlocked(value, value, rank, file, line);
    }
    template <class Rank> void ScatterToStriped(T (&value)[items], Rank (&rank)[items], CUDALAB_PLACE) {
        ScatterToStriped(value, value, rank, file, line);
    }

protected:
    exchange(TempStorage& storage) : storage(storage) {}

private:
    TempStorage& storage;
    static int by_block(int t, int i) { return blocked<items>(t, i); }

    template <class Out, class From, class To>
    void moved(const T (&in)[items], Out (&out)[items], From from, To to, const char* file, unsigned line) {
        const int t = Group::rank();
        for (int i = 0; i < items; ++i) {
            const int at = from(t, i);
            if (at >= threads * items) cudalab::fail("%s:%u: " CUDALAB_WHERE ": rank %d is not one of %d items", file, line, CUDALAB_HERE, at, threads * items);
            if (at >= 0) storage.value[at] = in[i];
        }
        Group::sync(file, line);
        for (int i = 0; i < items; ++i) out[i] = storage.value[to(t, i)];
    }
};
template <int x, int y, int z> struct block_group {
    static int rank() { return RowMajorTid(x, y, z); }
    static void sync(const char* file, unsigned line) { __syncthreads(file, line); }
};
template <int lanes> struct warp_group {
    static int rank() { return LaneId() % lanes; }
    static void sync(const char* file, unsigned line) { __syncwarp(mask_of_group<lanes>(), file, line); }
};

}  // namespace cudalab_parts

template <class T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, bool = false, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0>
class BlockExchange
    : public cudalab_parts::exchange<T, BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS_PER_THREAD,
                                     cudalab_parts::block_group<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>> {
    using base = cudalab_parts::exchange<T, BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, ITEMS_PER_THREAD,
                                         cudalab_parts::block_group<BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z>>;
    static typename base::TempStorage& own_storage() {
        __shared__ typename base::TempStorage own;
        return own;
    }

public:
    using typename base::TempStorage;
    BlockExchange() : base(own_storage()) {}
    BlockExchange(TempStorage& storage) : base(storage) {}
};

enum WarpExchangeAlgorithm { WARP_EXCHANGE_SMEM, WARP_EXCHANGE_SHUFFLE };
template <class T, int ITEMS_PER_THREAD, int LOGICAL_WARP_THREADS = 32, int = 0, WarpExchangeAlgorithm = WARP_EXCHANGE_SMEM>
class WarpExchange
    : public cudalab_parts::exchange<T, LOGICAL_WARP_THREADS, ITEMS_PER_THREAD, cudalab_parts::warp_group<LOGICAL_WARP_THREADS>> {
    using base =
        cudalab_parts::exchange<T, LOGICAL_WARP_THREADS, ITEMS_PER_THREAD, cudalab_parts::warp_group<LOGICAL_WARP_THREADS>>;

public:
    using typename base::TempStorage;
    WarpExchange(TempStorage& storage) : base(storage) {}
};

}  // namespace cub
