// cub::BlockLoad, cub::BlockStore, and the functions that they are made of.
#pragma once
#include "block_exchange.cuh"

namespace cub {

enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};

// Items of thread `tid`, in blocked or striped places; `valid`: items of the block that there are.
template <class T, int items, class In> void LoadDirectBlocked(int tid, In from, T (&to)[items], int valid = INT_MAX) {
    for (int i = 0; i < items; ++i)
        if (tid * items + i < valid) to[i] = from[tid * items + i];
}
template <class T, class Default, int items, class In>
void LoadDirectBlocked(int tid, In from, T (&to)[items], int valid, Default other) {
    for (int i = 0; i < items; ++i) to[i] = tid * items + i < valid ? T(from[tid * items + i]) : T(other);
}
template <int threads, class T, int items, class In>
void LoadDirectStriped(int tid, In from, T (&to)[items], int valid = INT_MAX) {
    for (int i = 0; i < items; ++i)
        if (i * threads + tid < valid) to[i] = from[i * threads + tid];
}
template <int threads, class T, class Default, int items, class In>
void LoadDirectStriped(int tid, In from, T (&to)[items], int valid, Default other) {
    for (int i = 0; i < items; ++i) to[i] = i * threads + tid < valid ? T(from[i * threads + tid]) : T(other);
}
template <class T, int items> void LoadDirectBlockedVectorized(int tid, const T* from, T (&to)[items], CUDALAB_PLACE) {
    cudalab_parts::check_vector<T, items>(from, file, line);
    LoadDirectBlocked(tid, from, to);
}
template <class T, int items, class Out> void StoreDirectBlocked(int tid, Out to, T (&from)[items], int valid = INT_MAX) {
    for (int i = 0; i < items; ++i)
        if (tid * items + i < valid) to[tid * items + i] = from[i];
}
template <int threads, class T, int items, class Out>
void StoreDirectStriped(int tid, Out to, T (&from)[items], int valid = INT_MAX) {
    for (int i = 0; i < items; ++i)
        if (i * threads + tid < valid) to[i * threads + tid] = from[i];
}
template <class T, int items> void StoreDirectBlockedVectorized(int tid, T* to, T (&from)[items], CUDALAB_PLACE) {
    cudalab_parts::check_vector<T, items>(to, file, line);
    StoreDirectBlocked(tid, to, from);
}

template <class T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockLoadAlgorithm ALGORITHM = BLOCK_LOAD_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0>
class BlockLoad {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, items = ITEMS_PER_THREAD;
    static constexpr bool transposes = ALGORITHM >= BLOCK_LOAD_TRANSPOSE;
    using Exchange = BlockExchange<T, BLOCK_DIM_X, ITEMS_PER_THREAD, false, BLOCK_DIM_Y, BLOCK_DIM_Z>;

public:
    struct TempStorage { typename std::conditional<transposes, typename Exchange::TempStorage, NullType>::type exchange; };
    BlockLoad() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockLoad(TempStorage& storage) : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

    template <class In> void Load(In from, T (&to)[items], CUDALAB_PLACE) {
        if constexpr (ALGORITHM == BLOCK_LOAD_VECTORIZE) cudalab_parts::check_vector<T, items>(from, file, line);
        load(to, [&](auto direct) { direct(from, to); }, file, line);
    }
    template <class In> void Load(In from, T (&to)[items], int valid, CUDALAB_PLACE) {
        load(to, [&](auto direct) { direct(from, to, valid); }, file, line);
    }
    template <class In, class Default> void Load(In from, T (&to)[items], int valid, Default other, CUDALAB_PLACE) {
        load(to, [&](auto direct) { direct(from, to, valid, other); }, file, line);
    }

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    template <class Read> void load(T (&to)[items], Read read, const char* file, unsigned line) {
        if constexpr (transposes || ALGORITHM == BLOCK_LOAD_STRIPED)
            read([&](auto from, auto&... rest) { LoadDirectStriped<threads>(tid, from, rest...); });
        else
            read([&](auto from, auto&... rest) { LoadDirectBlocked(tid, from, rest...); });
        if constexpr (transposes) Exchange(storage.exchange).StripedToBlocked(to, file, line);
    }
};

template <class T, int BLOCK_DIM_X, int ITEMS_PER_THREAD, BlockStoreAlgorithm ALGORITHM = BLOCK_STORE_DIRECT,
          int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0>
class BlockStore {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, items = ITEMS_PER_THREAD;
    static constexpr bool transposes = ALGORITHM >= BLOCK_STORE_TRANSPOSE;
    using Exchange = BlockExchange<T, BLOCK_DIM_X, ITEMS_PER_THREAD, false, BLOCK_DIM_Y, BLOCK_DIM_Z>;

public:
    struct TempStorage { typename std::conditional<transposes, typename Exchange::TempStorage, NullType>::type exchange; };
    BlockStore() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockStore(TempStorage& storage) : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

    template <class Out> void Store(Out to, T (&from)[items], CUDALAB_PLACE) {
        if constexpr (ALGORITHM == BLOCK_STORE_VECTORIZE) cudalab_parts::check_vector<T, items>(to, file, line);
        Store(to, from, INT_MAX, file, line);
    }
    template <class Out> void Store(Out to, T (&from)[items], int valid, CUDALAB_PLACE) {
        if constexpr (transposes) {
            Exchange(storage.exchange).BlockedToStriped(from, file, line);
            StoreDirectStriped<threads>(tid, to, from, valid);
        } else if constexpr (ALGORITHM == BLOCK_STORE_STRIPED) {
            StoreDirectStriped<threads>(tid, to, from, valid);
        } else {
            StoreDirectBlocked(tid, to, from, valid);
        }
    }

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
};

}  // namespace cub
