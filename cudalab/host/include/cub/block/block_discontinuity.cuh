// cub::BlockDiscontinuity: flags where neighbouring items differ, as a function of both says.
#pragma once
#include "../util_type.cuh"

namespace cub {

template <class T, int BLOCK_DIM_X, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0> class BlockDiscontinuity {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z;

public:
    struct TempStorage { cudalab_parts::room<T, threads> first, last; };
    BlockDiscontinuity() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockDiscontinuity(TempStorage& storage)
        : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

    // The first item of the block has a head flag, the last one a tail flag, unless its neighbour outside is given.
    template <int items, class Flag, class Op> void FlagHeads(Flag (&head)[items], T (&input)[items], Op op, CUDALAB_PLACE) {
        offer(input, file, line);
        heads(head, input, op, nullptr);
    }
    template <int items, class Flag, class Op>
    void FlagHeads(Flag (&head)[items], T (&input)[items], Op op, T before, CUDALAB_PLACE) {
        offer(input, file, line);
        heads(head, input, op, &before);
    }
    template <int items, class Flag, class Op> void FlagTails(Flag (&tail)[items], T (&input)[items], Op op, CUDALAB_PLACE) {
        offer(input, file, line);
        tails(tail, input, op, nullptr);
    }
    template <int items, class Flag, class Op>
    void FlagTails(Flag (&tail)[items], T (&input)[items], Op op, T after, CUDALAB_PLACE) {
        offer(input, file, line);
        tails(tail, input, op, &after);
    }
    template <int items, class Flag, class Op>
    void FlagHeadsAndTails(Flag (&head)[items], Flag (&tail)[items], T (&input)[items], Op op, CUDALAB_PLACE) {
        offer(input, file, line);
        heads(head, input, op, nullptr);
        tails(tail, input, op, nullptr);
    }
    template <int items, class Flag, class Op>
    void FlagHeadsAndTails(Flag (&head)[items], T before, Flag (&tail)[items], T after, T (&input)[items], Op op, CUDALAB_PLACE) {
        offer(input, file, line);
        heads(head, input, op, &before);
        tails(tail, input, op, &after);
    }

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    template <int items> void offer(T (&input)[items], const char* file, unsigned line) {
        storage.first[tid] = input[0], storage.last[tid] = input[items - 1];
        __syncthreads(file, line);
    }
    // CUB passes the item's place as a third argument to a function that takes it.
    template <class Op> static bool differ(Op op, const T& a, const T& b, int place) {
        if constexpr (std::is_invocable<Op, T, T, int>::value) return op(a, b, place);
        else return op(a, b);
    }
    template <int items, class Flag, class Op> void heads(Flag (&head)[items], T (&input)[items], Op op, const T* before) {
        for (int i = items - 1; i > 0; --i) head[i] = differ(op, input[i - 1], input[i], tid * items + i);
        if (tid) head[0] = differ(op, storage.last[tid - 1], input[0], tid * items);
        else head[0] = before ? Flag(differ(op, *before, input[0], 0)) : Flag(1);
    }
    template <int items, class Flag, class Op> void tails(Flag (&tail)[items], T (&input)[items], Op op, const T* after) {
        for (int i = 0; i + 1 < items; ++i) tail[i] = differ(op, input[i], input[i + 1], tid * items + i + 1);
        const int last = items - 1;
        if (tid + 1 < threads) tail[last] = differ(op, input[last], storage.first[tid + 1], (tid + 1) * items);
        else tail[last] = after ? Flag(differ(op, input[last], *after, threads * items)) : Flag(1);
    }
};

}  // namespace cub
