// cub::BlockReduce. The result is that of thread 0.
#pragma once
#include "../util_type.cuh"

namespace cub {

enum BlockReduceAlgorithm {
    BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
    BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS,
    BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC
};

template <class T, int BLOCK_DIM_X, BlockReduceAlgorithm ALGORITHM = BLOCK_REDUCE_WARP_REDUCTIONS, int BLOCK_DIM_Y = 1,
          int BLOCK_DIM_Z = 1, int = 0>
class BlockReduce {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;

public:
    struct TempStorage { cudalab_parts::room<T, threads> value; };
    BlockReduce() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockReduce(TempStorage& storage) : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

    template <class Op> T Reduce(T input, Op op, CUDALAB_PLACE) { return reduced(input, op, threads, file, line); }
    template <class Op> T Reduce(T input, Op op, int valid, CUDALAB_PLACE) { return reduced(input, op, valid, file, line); }
    template <int items, class Op> T Reduce(T (&input)[items], Op op, CUDALAB_PLACE) {
        return reduced(cudalab_parts::thread_fold(input, op), op, threads, file, line);
    }
    T Sum(T input, CUDALAB_PLACE) { return reduced(input, cub::Sum(), threads, file, line); }
    T Sum(T input, int valid, CUDALAB_PLACE) { return reduced(input, cub::Sum(), valid, file, line); }
    template <int items> T Sum(T (&input)[items], CUDALAB_PLACE) {
        return reduced(cudalab_parts::thread_fold(input, cub::Sum()), cub::Sum(), threads, file, line);
    }

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    template <class Op> T reduced(T input, Op op, int valid, const char* file, unsigned line) {
        storage.value[tid] = input;
        __syncthreads(file, line);
        if (tid) return cudalab_parts::undefined<T>();
        return cudalab_parts::block_fold(storage.value.data(), valid < threads ? valid : threads, op);
    }
};

}  // namespace cub
