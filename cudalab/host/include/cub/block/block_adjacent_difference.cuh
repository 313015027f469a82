// cub::BlockAdjacentDifference: each item and its neighbour, combined.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class T, int BLOCK_DIM_X, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0> class BlockAdjacentDifference {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;

public:
    struct TempStorage { cudalab_parts::room<T, threads> first, last; };
    BlockAdjacentDifference() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockAdjacentDifference(TempStorage& storage)
        : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

    // op(item, the one before it); the block's first item stays as it is, unless the one before it is given.
    template <int items, class Out, class Op> void SubtractLeft(T (&in)[items], Out (&out)[items], Op op, CUDALAB_PLACE) {
        left(in, out, op, nullptr, file, line);
    }
    template <int items, class Out, class Op>
    void SubtractLeft(T (&in)[items], Out (&out)[items], Op op, T before, CUDALAB_PLACE) {
        left(in, out, op, &before, file, line);
    }
    // op(item, the one after it); the block's last item stays as it is.
    template <int items, class Out, class Op> void SubtractRight(T (&in)[items], Out (&out)[items], Op op, CUDALAB_PLACE) {
        right(in, out, op, nullptr, file, line);
    }
    template <int items, class Out, class Op>
    void SubtractRight(T (&in)[items], Out (&out)[items], Op op, T after, CUDALAB_PLACE) {
        right(in, out, op, &after, file, line);
    }

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    template <int items, class Out, class Op>
    void left(T (&in)[items], Out (&out)[items], Op op, const T* before, const char* file, unsigned line) {
        storage.last[tid] = in[items - 1];
        __syncthreads(file, line);
        for (int i = items - 1; i > 0; --i) out[i] = op(in[i], in[i - 1]);
        out[0] = tid ? op(in[0], storage.last[tid - 1]) : before ? op(in[0], *before) : in[0];
    }
    template <int items, class Out, class Op>
    void right(T (&in)[items], Out (&out)[items], Op op, const T* after, const char* file, unsigned line) {
        storage.first[tid] = in[0];
        __syncthreads(file, line);
        for (int i = 0; i + 1 < items; ++i) out[i] = op(in[i], in[i + 1]);
        const T own = in[items - 1];
        out[items - 1] = tid + 1 < threads ? op(own, storage.first[tid + 1]) : after ? op(own, *after) : own;
    }
};

}  // namespace cub
