// cub::BlockRadixSort: a stable sort by the bits of the keys.
#pragma once
#include <algorithm>
#include <numeric>
#include "block_exchange.cuh"

namespace cub {

namespace cudalab_parts {

// The bits of a key, in the order of the keys. -0 and 0 are equal.
template <class Key> uint64_t sort_bits(Key key) {
    using bits = typename std::conditional<sizeof(Key) == 1, uint8_t, typename std::conditional<sizeof(Key) == 2, uint16_t,
                 typename std::conditional<sizeof(Key) == 4, uint32_t, uint64_t>::type>::type>::type;
    bits found;
    memcpy(&found, &key, sizeof key);
    const bits sign = bits(1) << (8 * sizeof(Key) - 1);
    if (std::is_unsigned<Key>::value || std::is_same<Key, bool>::value) return found;
    if (std::is_integral<Key>::value) return bits(found ^ sign);
    if (found == sign) found = 0;
    return bits(found & sign ? ~found : found | sign);
}

}  // namespace cudalab_parts

template <class KeyT, int BLOCK_DIM_X, int ITEMS_PER_THREAD, class ValueT = NullType, int RADIX_BITS = 4, bool = true,
          int = 0, int = 0, int BLOCK_DIM_Y = 1, int BLOCK_DIM_Z = 1, int = 0>
class BlockRadixSort {
    static constexpr int threads = BLOCK_DIM_X * BLOCK_DIM_Y * BLOCK_DIM_Z, items = ITEMS_PER_THREAD, count = threads * items;
    static constexpr int all = 8 * sizeof(KeyT);
    using Keys = KeyT (&)[items];
    using Values = ValueT (&)[items];

public:
    struct TempStorage {
        cudalab_parts::room<KeyT, count> key;
        cudalab_parts::room<ValueT, count> value;
        unsigned short place[count];  // of what comes first, second, ...
    };
    BlockRadixSort() : storage(own_storage()), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}
    BlockRadixSort(TempStorage& storage) : storage(storage), tid(RowMajorTid(BLOCK_DIM_X, BLOCK_DIM_Y, BLOCK_DIM_Z)) {}

#define CUDALAB_SORT(name, descending, striped)                                                        \
    void name(Keys keys, int begin_bit = 0, int end_bit = all, CUDALAB_PLACE) {                        \
        sort(keys, nullptr, begin_bit, end_bit, descending, striped, file, line);                      \
    }                                                                                                  \
    void name(Keys keys, Values values, int begin_bit = 0, int end_bit = all, CUDALAB_PLACE) {         \
        sort(keys, values, begin_bit, end_bit, descending, striped, file, line);                       \
    }
    CUDALAB_SORT(Sort, false, false)
    CUDALAB_SORT(SortDescending, true, false)
    CUDALAB_SORT(SortBlockedToStriped, false, true)
    CUDALAB_SORT(SortDescendingBlockedToStriped, true, true)
#undef CUDALAB_SORT

private:
    TempStorage& storage;
    const int tid;
    static TempStorage& own_storage() {
        __shared__ TempStorage own;
        return own;
    }
    void sort(KeyT* keys, ValueT* values, int begin, int end, bool descending, bool striped, const char* file, unsigned line) {
        for (int i = 0; i < items; ++i) {
            storage.key[tid * items + i] = keys[i];
            if (values) storage.value[tid * items + i] = values[i];
        }
        __syncthreads(file, line);
        if (tid == 0) {
            const uint64_t mask = end - begin >= 64 ? ~0ull : (1ull << (end - begin)) - 1;
            const auto bits = [&](int at) { return cudalab_parts::sort_bits(storage.key[at]) >> begin & mask; };
            std::iota(storage.place, storage.place + count, static_cast<unsigned short>(0));
            std::stable_sort(storage.place, storage.place + count,
                             [&](int a, int b) { return descending ? bits(b) < bits(a) : bits(a) < bits(b); });
        }
        __syncthreads(file, line);
        for (int i = 0; i < items; ++i) {
            const int at = storage.place[striped ? i * threads + tid : tid * items + i];
            keys[i] = storage.key[at];
            if (values) values[i] = storage.value[at];
        }
    }
};

}  // namespace cub
