// cub::WarpReduce. The result is that of the first lane of a (logical) warp.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class T, int LOGICAL_WARP_THREADS = 32, int = 0> class WarpReduce {
    static constexpr int lanes = LOGICAL_WARP_THREADS;

public:
    struct TempStorage { cudalab_parts::room<T, lanes> value; };
    WarpReduce(TempStorage& storage) : storage(storage), lane(LaneId() % lanes) {}

    template <class Op> T Reduce(T input, Op op, CUDALAB_PLACE) { return reduced(input, op, lanes, file, line); }
    template <class Op> T Reduce(T input, Op op, int valid, CUDALAB_PLACE) { return reduced(input, op, valid, file, line); }
    T Sum(T input, CUDALAB_PLACE) { return reduced(input, cub::Sum(), lanes, file, line); }
    T Sum(T input, int valid, CUDALAB_PLACE) { return reduced(input, cub::Sum(), valid, file, line); }
    // A segment begins at each lane with a head flag, and ends with each lane with a tail flag. The result is that of
    // the segment's first lane.
    template <class Flag, class Op> T HeadSegmentedReduce(T input, Flag head, Op op, CUDALAB_PLACE) {
        const unsigned heads = __ballot_sync(mask(), bool(head), file, line) >> first();
        return segment(input, op, lane + 1 < lanes ? heads >> (lane + 1) : 0, file, line);
    }
    template <class Flag, class Op> T TailSegmentedReduce(T input, Flag tail, Op op, CUDALAB_PLACE) {
        return segment(input, op, __ballot_sync(mask(), bool(tail), file, line) >> first() >> lane, file, line);
    }
    template <class Flag> T HeadSegmentedSum(T input, Flag head, CUDALAB_PLACE) {
        return HeadSegmentedReduce(input, head, cub::Sum(), file, line);
    }
    template <class Flag> T TailSegmentedSum(T input, Flag tail, CUDALAB_PLACE) {
        return TailSegmentedReduce(input, tail, cub::Sum(), file, line);
    }

private:
    TempStorage& storage;
    const int lane;
    static unsigned mask() { return cudalab_parts::mask_of_group<lanes>(); }
    static int first() { return LaneId() / lanes * lanes; }

    void gather(T input, const char* file, unsigned line) {
        storage.value[lane] = input;
        __syncwarp(mask(), file, line);
    }
    // CUB's own warp collectives are shuffles: their storage may be used again at once.
    T told(T result, const char* file, unsigned line) {
        __syncwarp(mask(), file, line);
        return result;
    }
    template <class Op> T reduced(T input, Op op, int valid, const char* file, unsigned line) {
        gather(input, file, line);
        return told(lane ? cudalab_parts::undefined<T>()
                         : cudalab_parts::warp_fold(storage.value.data(), valid < lanes ? valid : lanes, op), file, line);
    }
    // `ends`: the lowest set bit is how many lanes follow this one in its segment.
    template <class Op> T segment(T input, Op op, unsigned ends, const char* file, unsigned line) {
        gather(input, file, line);
        const int more = ends ? __ffs(int(ends)) - 1 : lanes - 1 - lane;
        T own[lanes];
        for (int i = 0; i <= more; ++i) own[i] = storage.value[lane + i];
        return told(cudalab_parts::warp_fold(own, more + 1, op), file, line);
    }
};

}  // namespace cub
