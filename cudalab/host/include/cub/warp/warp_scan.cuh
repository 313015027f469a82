// cub::WarpScan.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class T, int LOGICAL_WARP_THREADS = 32, int = 0> class WarpScan {
    static constexpr int lanes = LOGICAL_WARP_THREADS;

public:
    struct TempStorage { cudalab_parts::room<T, lanes> value; };
    WarpScan(TempStorage& storage) : storage(storage), lane(LaneId() % lanes) {}

    void InclusiveSum(T input, T& output, CUDALAB_PLACE) { InclusiveScan(input, output, cub::Sum(), file, line); }
    void InclusiveSum(T input, T& output, T& aggregate, CUDALAB_PLACE) {
        InclusiveScan(input, output, cub::Sum(), aggregate, file, line);
    }
    void ExclusiveSum(T input, T& output, CUDALAB_PLACE) { ExclusiveScan(input, output, T{}, cub::Sum(), file, line); }
    void ExclusiveSum(T input, T& output, T& aggregate, CUDALAB_PLACE) {
        ExclusiveScan(input, output, T{}, cub::Sum(), aggregate, file, line);
    }
    template <class Op> void InclusiveScan(T input, T& output, Op op, CUDALAB_PLACE) {
        T aggregate;
        scanned(input, op, aggregate, output, file, line);
    }
    template <class Op> void InclusiveScan(T input, T& output, Op op, T& aggregate, CUDALAB_PLACE) {
        scanned(input, op, aggregate, output, file, line);
    }
    template <class Op> void ExclusiveScan(T input, T& output, Op op, CUDALAB_PLACE) {
        T aggregate, inclusive;
        output = scanned(input, op, aggregate, inclusive, file, line);
    }
    template <class Op> void ExclusiveScan(T input, T& output, Op op, T& aggregate, CUDALAB_PLACE) {
        T inclusive;
        output = scanned(input, op, aggregate, inclusive, file, line);
    }
    template <class Op> void ExclusiveScan(T input, T& output, T initial, Op op, CUDALAB_PLACE) {
        T aggregate;
        ExclusiveScan(input, output, initial, op, aggregate, file, line);
    }
    template <class Op> void ExclusiveScan(T input, T& output, T initial, Op op, T& aggregate, CUDALAB_PLACE) {
        T inclusive;
        const T before = scanned(input, op, aggregate, inclusive, file, line);
        output = lane ? T(op(initial, before)) : initial;
    }
    template <class Op> void Scan(T input, T& inclusive, T& exclusive, Op op, CUDALAB_PLACE) {
        T aggregate;
        exclusive = scanned(input, op, aggregate, inclusive, file, line);
    }
    template <class Op> void Scan(T input, T& inclusive, T& exclusive, T initial, Op op, CUDALAB_PLACE) {
        T aggregate;
        const T before = scanned(input, op, aggregate, inclusive, file, line);
        exclusive = lane ? T(op(initial, before)) : initial;
        inclusive = op(initial, inclusive);
    }
    T Broadcast(T input, unsigned source, CUDALAB_PLACE) {
        storage.value[lane] = input;
        __syncwarp(mask(), file, line);
        const T found = storage.value[int(source)];
        __syncwarp(mask(), file, line);
        return found;
    }

private:
    TempStorage& storage;
    const int lane;
    static unsigned mask() { return cudalab_parts::mask_of_group<lanes>(); }

    // Returns what the lanes before this one make. CUB's own is shuffles: its storage may be used again at once.
    template <class Op>
    T scanned(T input, Op op, T& aggregate, T& inclusive, const char* file, unsigned line) {
        storage.value[lane] = input;
        __syncwarp(mask(), file, line);
        T own[lanes];
        for (int i = 0; i < lanes; ++i) own[i] = storage.value[i];
        cudalab_parts::warp_scan(own, lanes, op);
        aggregate = own[lanes - 1], inclusive = own[lane];
        __syncwarp(mask(), file, line);
        return lane ? own[lane - 1] : cudalab_parts::undefined<T>();
    }
};

}  // namespace cub
