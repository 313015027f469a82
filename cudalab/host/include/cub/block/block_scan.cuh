// cub::BlockScan.
#pragma once
#include "../util_type.cuh"

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int BLOCK_DIM_X, BlockScanAlgorithm ALGORITHM = BLOCK_SCAN_RAKING, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1, int = 0>
class BlockScan {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;
    struct nothing {};
    struct keep { T& aggregate; };

public:
    struct TempStorage {
        cudalab_parts::room<T, threads> value;  // of each thread; then of all up to it
        cudalab_parts::room<T, 1> prefix;
    };
    BlockScan() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockScan(TempStorage& storage) : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

// Each for one value of a thread and for an array. The parameters between output and place end in a comma.
#define CUDALAB_STRIP(...) __VA_ARGS__
#define CUDALAB_SCAN(name, inclusive, op, initial, prefix, templates, parameters)                              \
    template <CUDALAB_STRIP templates> void name(T input, T& output, CUDALAB_STRIP parameters CUDALAB_PLACE) {  \
        T in[1] = {input}, out[1];                                                                             \
        scan<inclusive>(in, out, op, initial, prefix, file, line);                                             \
        output = out[0];                                                                                       \
    }                                                                                                          \
    template <CUDALAB_STRIP templates, int items> void name(                                                   \
        T (&input)[items], T (&output)[items], CUDALAB_STRIP parameters CUDALAB_PLACE) {                       \
        scan<inclusive>(input, output, op, initial, prefix, file, line);                                       \
    }
#define CUDALAB_SCANS(name, inclusive, from)                                                                   \
    CUDALAB_SCAN(name##Sum, inclusive, cub::Sum(), from, nothing(), (class = void), ())                        \
    CUDALAB_SCAN(name##Sum, inclusive, cub::Sum(), from, keep{aggregate}, (class = void), (T& aggregate, ))    \
    CUDALAB_SCAN(name##Sum, inclusive, cub::Sum(), nothing(), call, (class Call), (Call & call, ))             \
    CUDALAB_SCAN(name##Scan, inclusive, op, nothing(), nothing(), (class Op), (Op op, ))                       \
    CUDALAB_SCAN(name##Scan, inclusive, op, nothing(), keep{aggregate}, (class Op), (Op op, T& aggregate, ))   \
    CUDALAB_SCAN(name##Scan, inclusive, op, initial, nothing(), (class Op), (T initial, Op op, ))              \
    CUDALAB_SCAN(name##Scan, inclusive, op, initial, keep{aggregate}, (class Op), (T initial, Op op, T& aggregate, )) \
    CUDALAB_SCAN(name##Scan, inclusive, op, nothing(), call, (class Op, class Call), (Op op, Call & call, ))
    CUDALAB_SCANS(Exclusive, false, T{})
    CUDALAB_SCANS(Inclusive, true, nothing())
#undef CUDALAB_SCANS
#undef CUDALAB_SCAN
#undef CUDALAB_STRIP

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    template <class Prefix> static constexpr bool calls =
        !std::is_same<std::decay_t<Prefix>, nothing>::value && !std::is_same<std::decay_t<Prefix>, keep>::value;

    template <bool inclusive, int items, class Op, class Initial, class Prefix>
    void scan(T (&input)[items], T (&output)[items], Op op, const Initial& initial, Prefix&& prefix, const char* file,
              unsigned line) {
        storage.value[tid] = cudalab_parts::thread_fold(input, op);
        __syncthreads(file, line);
        if (tid == 0) cudalab_parts::block_scan(storage.value.data(), threads, op);
        __syncthreads(file, line);
        const T aggregate = storage.value[threads - 1];
        bool some = tid > 0;  // whether `before` holds anything
        T before = some ? T(storage.value[tid - 1]) : cudalab_parts::undefined<T>();
        if constexpr (!std::is_same<Initial, nothing>::value) before = some ? T(op(initial, before)) : T(initial), some = true;
        if constexpr (std::is_same<std::decay_t<Prefix>, keep>::value) prefix.aggregate = aggregate;
        if constexpr (calls<Prefix>) {
            if (tid < 32) {  // the first warp asks; its first lane's answer counts
                const T found = prefix(aggregate);
                if (tid == 0) storage.prefix[0] = found;
            }
            __syncthreads(file, line);
            before = some ? T(op(storage.prefix[0], before)) : T(storage.prefix[0]);
            some = true;
        }
        for (int i = 0; i < items; ++i) {
            const T next = some ? T(op(before, input[i])) : input[i];
            output[i] = inclusive ? next : before;
            before = next, some = true;
        }
    }
};

}  // namespace cub
